//! Queries that are drawn from a seed, for the tests of rewrites and of the executor.
//!
//! They read `t(a int primary key, b int, f bool)` and `u(k int primary key, x int, w bool)`.

use super::naive::Row;
use crate::carried;
use crate::datum::Datum;
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::collections::BTreeMap;

/// Parses a query.
pub(crate) fn parsed(sql: &str) -> ast::Query {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
    let mut tokens = tokens.unwrap_or_else(|error| panic!("{sql}: {error}"));
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    carried::cut(&mut tokens);
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
    *parser.parse_query().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

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
        match self.draw.below(11) {
            7 | 8 => self.windowed(scope.len(), &inner, (&from, &condition), depth, width),
            9 => self.grouping_sets(&inner[scope.len()..], (&from, &condition), width),
            10 => {
                // The groups of a query are the rows of its windows.
                let key = format!("({} + 0)", self.number(&inner[scope.len()..], 0));
                let more = if width > 1 { ", max(count(*)) over ()" } else { "" };
                let window = self.draw.one(&["order by 1 + KEY desc", "partition by KEY"]);
                let window = window.replace("KEY", &key);
                format!(
                    "select sum(count(*)) over ({window}){more} from {from} where {condition} group by {key}, {key} + 1"
                )
            }
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

/// Window functions, frames and grouping sets.
impl Queries {
    /// Draws a query with a window function among its outputs.
    fn windowed(
        &mut self,
        outer: usize,
        inner: &[(String, char)],
        (from, condition): (&str, &str),
        depth: usize,
        width: usize,
    ) -> String {
        let own = &inner[outer..];
        let part = self.number(own, 0);
        let call = self.window_call(own, inner, &part, depth.min(1));
        if self.draw.below(2) == 0 {
            let more = if width > 1 { format!(", {part}") } else { String::new() };
            return format!("select {call}{more} from {from} where {condition}");
        }
        self.aliases += 1;
        let alias = format!("z{}", self.aliases);
        let more = if width > 1 { format!(", {alias}.p") } else { String::new() };
        let kept = self.draw.one(&["p = 2", "p is null", "p >= 1", "v > 1", "v is not null"]);
        format!(
            "select {alias}.v{more} from (select {part} p, {call} v from {from} where {condition}) {alias} where {alias}.{kept}"
        )
    }

    /// Draws a call whose value is the same whichever way peers are in order.
    fn window_call(
        &mut self,
        own: &[(String, char)],
        inner: &[(String, char)],
        part: &str,
        depth: usize,
    ) -> String {
        let value = self.number(inner, depth);
        let partition = match self.draw.below(3) {
            // A number is a constant there.
            0 => String::new(),
            _ => format!("partition by {part} "),
        };
        let aggregate = {
            let name = self.draw.one(&["count", "sum", "min", "max"]);
            let filter = match self.draw.below(3) {
                0 => format!(" filter (where {})", self.truth(inner, 0)),
                _ => String::new(),
            };
            format!("{name}({value}){filter}")
        };
        let exclude = self.draw.one(&[
            "",
            "",
            "exclude current row",
            "exclude group",
            "exclude ties",
            "exclude no others",
        ]);
        let ends = [
            "unbounded preceding and current row",
            "unbounded preceding and 1 preceding",
            "unbounded preceding and unbounded following",
            "unbounded preceding and 1 following",
            "2 preceding and 1 preceding",
            "1 preceding and 1 following",
            "current row and current row",
            "current row and unbounded following",
            "1 following and 2 following",
        ];
        let ends = self.draw.one(&ends);
        let directions = ["", " desc", " nulls first", " desc nulls last"];
        if self.draw.below(2) == 0 {
            // Rows that are equal in all columns are the only peers.
            let columns = own.iter().flat_map(|(alias, kind)| {
                let names = if *kind == 't' { ["a", "b", "f"] } else { ["k", "x", "w"] };
                names.map(|name| format!("{alias}.{name}"))
            });
            let direction = self.draw.one(&directions);
            let mut order: Vec<String> =
                columns.map(|column| format!("{column}{direction}")).collect();
            let turn = self.draw.below(order.len() as u64) as usize;
            order.rotate_left(turn);
            let frame = format!("{} between {ends} {exclude}", self.draw.one(&["rows", "groups"]));
            let other = self.number(own, 0);
            let (call, frame) = match self.draw.below(9) {
                0 => ("row_number()".to_owned(), String::new()),
                1 => ("ntile(2)".to_owned(), String::new()),
                2 => (format!("lag({other}, 1, 7)"), String::new()),
                3 => (format!("lead({other})"), String::new()),
                4 => (format!("first_value({other})"), frame),
                5 => (format!("last_value({other})"), frame),
                6 => (format!("nth_value({other}, 2)"), frame),
                _ => (aggregate, frame),
            };
            return format!("{call} over ({partition}order by {} {frame})", order.join(", "));
        }
        let key = format!("{}{}", self.number(own, 0), self.draw.one(&directions));
        let window = match self.draw.below(5) {
            0 => String::new(),
            1 => format!("order by {key}"),
            2 => format!("order by {key}, {}", self.number(own, 0)),
            3 => format!("order by {key} range between {ends} {exclude}"),
            _ => format!("order by {key} groups between {ends} {exclude}"),
        };
        let call = match self.draw.below(6) {
            0 => "rank()".to_owned(),
            1 => "dense_rank()".to_owned(),
            2 => self.draw.one(&["percent_rank()", "cume_dist()"]).to_owned(),
            _ => aggregate,
        };
        format!("{call} over ({partition}{window})")
    }

    fn grouping_sets(
        &mut self,
        own: &[(String, char)],
        (from, condition): (&str, &str),
        width: usize,
    ) -> String {
        let (first, second) = (self.number(own, 0), self.number(own, 0));
        let sets = match width {
            1 => ["rollup(1)", "grouping sets ((1), (), (1))", "1, rollup(1)", "cube(1)"],
            _ => {
                ["1, rollup(2)", "cube(1, 2)", "grouping sets ((1, 2), (2), ())", "rollup((1, 2))"]
            }
        };
        let sets = self.draw.one(&sets);
        let outputs =
            if width > 1 { format!("{first} p, {second} q") } else { format!("{first} p") };
        let bound = self.draw.below(3);
        let grouped = format!(
            "select {outputs} from {from} where {condition} group by {sets} having grouping({first}) + count(*) >= {bound}"
        );
        if self.draw.below(2) == 0 {
            return grouped;
        }
        self.aliases += 1;
        let alias = format!("z{}", self.aliases);
        let more = if width > 1 { format!(", {alias}.q") } else { String::new() };
        let kept = self.draw.one(&["p = 2", "p is null", "p >= 1"]);
        format!("select {alias}.p{more} from ({grouped}) {alias} where {alias}.{kept}")
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
