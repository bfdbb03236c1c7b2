//! Each rule gives the same rows as the plan as bound, over drawn queries; golden plans show what
//! the rules do.

use super::{hoist, normalize, outer, pull, push};
use crate::bind::{self, Query};
use crate::catalog::{ColumnDef, Index, IndexPart, Table};
use crate::datum::Datum;
use crate::logical::naive::{Naive, Row};
use crate::logical::{ColumnId, Rel};
use crate::types::Type;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::collections::BTreeMap;
use std::sync::Arc;

fn table(id: u32, name: &str, columns: &[(&str, Type)]) -> Arc<Table> {
    let column = |(name, ty): &(&str, Type)| ColumnDef {
        name: (*name).into(),
        ty: *ty,
        not_null: false,
        default: None,
    };
    let mut table = Table::new(id, name, columns.iter().map(column).collect());
    table.primary = Some(Index {
        id,
        name: format!("{name}_pkey"),
        columns: vec![IndexPart { column: 0, descending: false }],
        unique: true,
        building: None,
    });
    table.settle();
    Arc::new(table)
}

fn tables() -> Vec<Arc<Table>> {
    vec![
        table(100, "t", &[("a", Type::Int4), ("b", Type::Int4), ("f", Type::Bool)]),
        table(101, "u", &[("k", Type::Int4), ("x", Type::Int4), ("w", Type::Bool)]),
    ]
}

fn bound(sql: &str) -> Query {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).expect("tokens");
    let query = parser.parse_query().unwrap_or_else(|error| panic!("{sql}: {error}"));
    bind::compile(&query, &tables(), &[], false).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn plan(sql: &str) -> String {
    let query = bound(sql);
    normalize(query.rel, query.ids).to_string()
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
struct Queries {
    draw: Draw,
    aliases: usize,
}

type Names = Vec<(String, char)>;

impl Queries {
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

fn sorted(rows: Vec<Row>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// The rules in order, each applied to the result of those before it.
fn stages(rel: Rel, ids: ColumnId) -> Vec<(&'static str, Rel)> {
    let mut next = ids;
    let hoisted = hoist::hoist(rel, &mut next);
    let pushed = push::push_down(hoisted.clone());
    let pulled = pull::pull_up(pushed.clone());
    let simpler = outer::simplify(pulled.clone());
    let last = push::push_down(simpler.clone());
    vec![
        ("hoist", hoisted),
        ("push", pushed),
        ("pull", pulled),
        ("outer", simpler),
        ("push again", last),
    ]
}

#[test]
fn rules_keep_the_rows_of_drawn_queries() {
    let mut compared = 0;
    for seed in 1..=3000u64 {
        let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let naive = Naive::new(data(&mut draw));
        let mut queries = Queries { draw, aliases: 0 };
        let sql = queries.query(&Names::new(), 3, 2);
        let query = bound(&sql);
        // An error may go away with the evaluation that fails; it may not appear.
        let Ok(expected) = naive.run(&query.rel, &query.outputs) else { continue };
        let expected = sorted(expected);
        for (rule, rel) in stages(query.rel.clone(), query.ids) {
            let found = naive.run(&rel, &query.outputs);
            let found = found.map(sorted).map_err(|error| error.message);
            assert_eq!(
                found,
                Ok(expected.clone()),
                "seed {seed}, {rule}: {sql}\n{}\n{rel}",
                query.rel
            );
        }
        compared += 1;
    }
    assert!(compared > 2500, "{compared} queries were compared");
}

/// A query and its normalized plan.
const GOLDEN: [(&str, &str); 10] = [
    (
        "select a from t where b in (select x from u where w)",
        "\
project #0=#0
  semi join on (#1 Eq #5)
    scan t [0, 1, 2, 3]
    filter #6
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select a from t where b not in (select x from u)",
        "\
project #0=#0
  anti join on (#1 Eq #5) is not false
    scan t [0, 1, 2, 3]
    scan u [4, 5, 6, 7]
",
    ),
    (
        "select a from t where not exists (select 1 from u where x = b and w)",
        "\
project #0=#0
  anti join on (#5 Eq #1)
    scan t [0, 1, 2, 3]
    filter #6
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select a, b in (select x from u where k = a) from t",
        "\
project #0=#0 #8=#9
  mark join on ((#1 Eq #5) and (#4 Eq #0) is true) as #9
    scan t [0, 1, 2, 3]
    scan u [4, 5, 6, 7]
",
    ),
    (
        "select (select x from u where k = a) from t",
        "\
project #8=#9
  project #0=#0 #1=#1 #2=#2 #3=#3 #9=#5
    single join on (#4 Eq #0)
      scan t [0, 1, 2, 3]
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select case when f then (select max(x) from u where k = a) else b end from t",
        "\
project #9=case when #2 then #10 else #1 end
  project #0=#0 #1=#1 #2=#2 #3=#3 #10=#8
    single join on #2
      scan t [0, 1, 2, 3]
      aggregate by [] #8=Max(#5)
        filter (#4 Eq #0)
          scan u [4, 5, 6, 7]
",
    ),
    (
        "select a from t left join u on x = b where k > 3",
        "\
project #0=#0
  inner join on (#5 Eq #1)
    scan t [0, 1, 2, 3]
    filter (#4 Gt Int4(3))
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select a from (select a, count(*) c from t group by a) z where a > 1 and c > 2",
        "\
project #0=#0
  project #0=#0 #4=#4
    filter (#4 Gt Int4(2))
      aggregate by [0] #4=CountRows(Null)
        filter (#0 Gt Int4(1))
          scan t [0, 1, 2, 3]
",
    ),
    (
        "select a from (select a from t union all select k from u) z where a = 3",
        "\
project #8=#8
  union all [8]
    project #0=#0
      filter (#0 Eq Int4(3))
        scan t [0, 1, 2, 3]
    project #4=#4
      filter (#4 Eq Int4(3))
        scan u [4, 5, 6, 7]
",
    ),
    (
        "select a, z.x from t, lateral (select x + b as x from u where k = a) z",
        "\
project #0=#0 #8=#8
  project #0=#0 #1=#1 #2=#2 #3=#3 #8=(#5 Add #1)
    inner join on (#4 Eq #0)
      scan t [0, 1, 2, 3]
      scan u [4, 5, 6, 7]
",
    ),
];

#[test]
fn golden_plans() {
    for (sql, expected) in GOLDEN {
        assert_eq!(plan(sql), expected, "{sql}");
    }
}
