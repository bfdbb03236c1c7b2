//! Queries that are drawn from a seed, for the tests of rewrites and of the executor.
//!
//! They read `t(a int primary key, b int, f bool)` and `u(k int primary key, x int, w bool)`.

use super::naive::Row;
use crate::datum::Datum;
use std::collections::BTreeMap;

/// Draws numbers: xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Draws queries. The scope has aliases of `t` (with `a`, `b`, `f`) and of `u` (with `k`, `x`,
/// `w`).
pub(crate) struct Queries {
    draw: Draw,
    aliases: usize,
}

type Names = Vec<(String, char)>;

impl Queries {
    pub(crate) fn of_seed(seed: u64) -> Queries {
        Queries { draw: Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)), aliases: 0 }
    }

    /// Draws a query with two outputs.
    pub(crate) fn draw(&mut self) -> String {
        self.query(&Names::new(), 3, 2)
    }

    /// Draws the rows of the tables.
    pub(crate) fn data(&mut self) -> BTreeMap<String, Vec<Row>> {
        data(&mut self.draw)
    }

    fn number(&mut self, scope: &[(String, char)], depth: usize) -> String {
        let pick = |draw: &mut Draw| {
            let (alias, kind) = &scope[draw.below(scope.len() as u64) as usize];
            let columns = if *kind == 't' { ["a", "b"] } else { ["k", "x"] };
            format!("{alias}.{}", draw.one(&columns))
        };
        match if depth == 0 { self.draw.below(4) } else { self.draw.below(9) } {
            0..=2 => pick(&mut self.draw),
            3 => self.draw.below(4).to_string(),
            4 => format!("({} + {})", self.number(scope, depth - 1), self.draw.below(2)),
            5 => {
                let (from, inner) = self.source(scope, depth - 1);
                let aggregate = self.draw.one(&["count(*)", "max", "min", "sum"]);
                let shown = match aggregate {
                    "count(*)" => aggregate.to_owned(),
                    name => format!("{name}({})", self.number(&inner[scope.len()..], 0)),
                };
                let condition = self.truth(&inner, depth - 1);
                format!("(select {shown} from {from} where {condition})::int")
            }
            6 => format!(
                "coalesce({}, {})",
                self.number(scope, depth - 1),
                self.number(scope, depth - 1)
            ),
            7 => format!(
                "(case when {} then {} else {} end)",
                self.truth(scope, depth - 1),
                self.number(scope, depth - 1),
                self.number(scope, depth - 1)
            ),
            _ => {
                // At most one row: by key, or the first of some.
                let (from, inner) = self.source(scope, 0);
                let key =
                    if inner.last().is_some_and(|(_, kind)| *kind == 't') { "a" } else { "k" };
                let alias = inner.last().map(|(alias, _)| alias.clone()).unwrap_or_default();
                let value = self.number(&inner, 0);
                let other = self.number(scope, 0);
                format!("(select {value} from {from} where {alias}.{key} = {other})")
            }
        }
    }

    fn truth(&mut self, scope: &[(String, char)], depth: usize) -> String {
        let flag = |draw: &mut Draw| {
            let (alias, kind) = &scope[draw.below(scope.len() as u64) as usize];
            format!("{alias}.{}", if *kind == 't' { "f" } else { "w" })
        };
        let op = self.draw.one(&["=", "=", "<>", "<", ">="]).to_owned();
        match if depth == 0 { self.draw.below(4) } else { self.draw.below(15) } {
            0 => flag(&mut self.draw),
            1 => format!("{} is null", self.number(scope, 0)),
            2 | 3 => format!("{} {op} {}", self.number(scope, 0), self.number(scope, 0)),
            4 => format!("({} and {})", self.truth(scope, depth - 1), self.truth(scope, depth - 1)),
            5 => format!("({} or {})", self.truth(scope, depth - 1), self.truth(scope, depth - 1)),
            6 => format!("not ({})", self.truth(scope, depth - 1)),
            7 => format!("({}) is {}", self.truth(scope, depth - 1), self.unary()),
            8 | 9 => {
                let not = self.draw.one(&["", "not "]);
                let inner = self.query(scope, depth - 1, 1);
                format!("{} {not}in ({inner})", self.number(scope, depth - 1))
            }
            10 | 11 => {
                let not = self.draw.one(&["", "not "]);
                format!("{not}exists ({})", self.query(scope, depth - 1, 1))
            }
            12 => {
                let many = self.draw.one(&["any", "all"]);
                let inner = self.query(scope, depth - 1, 1);
                format!("{} {op} {many} ({inner})", self.number(scope, depth - 1))
            }
            13 => {
                format!("{} {op} {}", self.number(scope, depth - 1), self.number(scope, depth - 1))
            }
            _ => format!(
                "(case when {} then {} else {} end)",
                self.truth(scope, depth - 1),
                self.truth(scope, depth - 1),
                self.truth(scope, depth - 1)
            ),
        }
    }

    fn unary(&mut self) -> &'static str {
        self.draw.one(&["null", "not null", "true", "not true", "false", "not false"])
    }

    /// Draws FROM; returns the scope with its relations.
    fn source(&mut self, scope: &[(String, char)], depth: usize) -> (String, Names) {
        let mut inner: Names = scope.to_vec();
        let base = |queries: &mut Self, inner: &mut Names| {
            let kind = *queries.draw.one(&[&'t', &'u']);
            queries.aliases += 1;
            let alias = format!("{kind}{}", queries.aliases);
            inner.push((alias.clone(), kind));
            format!("{kind} {alias}")
        };
        let first = base(self, &mut inner);
        if depth == 0 || self.draw.below(2) == 0 {
            return (first, inner);
        }
        match self.draw.below(3) {
            0 => {
                let second = base(self, &mut inner);
                (format!("{first}, {second}"), inner)
            }
            1 => {
                let second = base(self, &mut inner);
                let kind = self.draw.one(&["join", "left join", "right join", "full join"]);
                let own: Names = inner[scope.len()..].to_vec();
                let deep = if kind == "full join" { 0 } else { depth - 1 };
                (format!("{first} {kind} {second} on {}", self.truth(&own, deep)), inner)
            }
            _ => {
                self.aliases += 1;
                let alias = format!("t{}", self.aliases);
                let kind = self.draw.one(&["cross join", "left join"]);
                let value = self.number(&inner, depth - 1);
                let condition = self.truth(&inner, depth - 1);
                let (from, below) = self.source(&inner, 0);
                let more = self.truth(&below, 0);
                let on =
                    if kind == "left join" { format!(" on {condition}") } else { String::new() };
                inner.push((alias.clone(), 't'));
                let lateral = format!(
                    "lateral (select {value} a, {value} b, {more} f from {from} where {more})"
                );
                (format!("{first} {kind} {lateral} {alias}{on}"), inner)
            }
        }
    }

    fn query(&mut self, scope: &[(String, char)], depth: usize, width: usize) -> String {
        let (from, inner) = self.source(scope, depth);
        let condition = self.truth(&inner, depth);
        match self.draw.below(7) {
            0 if depth > 0 => {
                let op =
                    self.draw.one(&["union", "union all", "except", "except all", "intersect"]);
                let (left, right) =
                    (self.query(scope, depth - 1, width), self.query(scope, depth - 1, width));
                format!("{left} {op} {right}")
            }
            1 => {
                // An aggregate of outer columns belongs to the outer query.
                let own = &inner[scope.len()..];
                let keys: Vec<String> = (0..width).map(|_| self.number(own, 0)).collect();
                let (all, having) = (keys.join(", "), self.number(own, 0));
                let bound = self.draw.below(3);
                format!(
                    "select {all} from {from} where {condition} group by {} having max({having}) >= {bound}",
                    (1..=width).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
                )
            }
            kind => {
                let outputs: Vec<String> = (0..width).map(|_| self.number(&inner, depth)).collect();
                let distinct = if kind == 2 { "distinct " } else { "" };
                format!("select {distinct}{} from {from} where {condition}", outputs.join(", "))
            }
        }
    }
}

fn data(draw: &mut Draw) -> BTreeMap<String, Vec<Row>> {
    let mut all = BTreeMap::new();
    for name in ["t", "u"] {
        let rows = (0..draw.below(5)).map(|key| {
            let number = match draw.below(4) {
                0 => Datum::Null,
                n => Datum::Int4(n as i32),
            };
            let flag = match draw.below(3) {
                0 => Datum::Null,
                n => Datum::Bool(n == 1),
            };
            vec![Datum::Int4(key as i32), number, flag]
        });
        all.insert(name.to_owned(), rows.collect());
    }
    all
}

/// Returns rows as text, in one order.
pub(crate) fn sorted(rows: Vec<Row>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}
