//! Each rule gives the same rows as the plan as bound, over drawn queries; golden plans show what
//! the rules do.

use super::{fold, hoist, normalize, outer, pull, push};
use crate::bind::{self, Query};
use crate::catalog::{ColumnDef, Table};
use crate::index::{Index, IndexPart};
use crate::logical::drawn::{Queries, parsed, sorted};
use crate::logical::naive::Naive;
use crate::logical::{ColumnId, Rel};
use crate::types::Type;
use std::sync::Arc;

fn table(id: u32, name: &str, columns: &[(&str, Type)]) -> Arc<Table> {
    let column = |(name, ty): &(&str, Type)| ColumnDef::new(name, *ty);
    let mut table = Table::new(id, name, columns.iter().map(column).collect());
    let parts = vec![IndexPart::ascending(0)];
    table.primary = Some(Index::new(id, format!("{name}_pkey"), parts, true));
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
    let query = parsed(sql);
    bind::compile(&query, &tables().into(), &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn plan(sql: &str) -> String {
    let query = bound(sql);
    normalize(query.rel, query.ids).to_string()
}

/// The rules in order, each applied to the result of those before it.
fn stages(rel: Rel, ids: ColumnId) -> Vec<(&'static str, Rel)> {
    let mut next = ids;
    let hoisted = hoist::hoist(rel, &mut next);
    let folded = fold::fold(hoisted.clone());
    let pushed = push::push_down(folded.clone());
    let pulled = pull::pull_up(pushed.clone());
    let simpler = outer::simplify(pulled.clone());
    let last = push::push_down(simpler.clone());
    vec![
        ("hoist", hoisted),
        ("fold", folded),
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
        let mut queries = Queries::of_seed(seed);
        let naive = Naive::new(queries.data());
        let sql = queries.draw();
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
const GOLDEN: [(&str, &str); 18] = [
    // A filter selects whole partitions, and stays above if it is about anything else.
    (
        "select a, n from (select a, b, rank() over (partition by b order by a) n from t) z
         where b > 1 and a > 2 and n < 3",
        "\
project #0=#0 #4=#4
  project #0=#0 #1=#1 #4=#4
    filter ((#0 Gt Int4(2)) and (#4 Lt Int4(3)))
      window by [1] #0 #4=rank()
        filter (#1 Gt Int4(1))
          scan t [0, 1, 2, 3]
",
    ),
    // What is the same for every row is computed once; what fails is left for a row to meet.
    (
        "select null::int + b * 2, case when f then 1 / 0 end from t
         where a > 3 - 1 and (1 = 1 or b < 0) and not (null is null and f)",
        "\
project #4=Null #5=case when #2 then (Int4(1) Div Int4(0)) else Null end
  filter ((#0 Gt Int4(2)) and not #2)
    scan t [0, 1, 2, 3]
",
    ),
    // A key that is fixed on one side is fixed on the other.
    (
        "select a from t, u where x = 1 and k = x and a = k",
        "\
project #0=#0
  inner join on Bool(true)
    filter (#0 Eq Int4(1))
      scan t [0, 1, 2, 3]
    filter ((#5 Eq Int4(1)) and (#4 Eq Int4(1)))
      scan u [4, 5, 6, 7]
",
    ),
    // A left row stays if nothing matches it: only the right side is read by the key.
    (
        "select a from t left join u on k = a and x = b and x = 2 where a = 1",
        "\
project #0=#0
  left join on (#5 Eq #1)
    filter (#0 Eq Int4(1))
      scan t [0, 1, 2, 3]
    filter ((#5 Eq Int4(2)) and (#4 Eq Int4(1)))
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select a, a in (select k from u where k = 3) from t where a = 1",
        "\
project #0=#0 #8=#9
  mark join on (#0 Eq #4) as #9
    filter (#0 Eq Int4(1))
      scan t [0, 1, 2, 3]
    filter (#4 Eq Int4(3))
      scan u [4, 5, 6, 7]
",
    ),
    (
        "select a from (select a, count(*) from t group by a) z
         where exists (select from u where k = a and k = 2)",
        "\
project #0=#0
  semi join on Bool(true)
    project #0=#0 #4=#4
      aggregate by [0] #4=count()
        filter (#0 Eq Int4(2))
          scan t [0, 1, 2, 3]
    filter (#5 Eq Int4(2))
      scan u [5, 6, 7, 8]
",
    ),
    // Without a partition, only what names no row at all selects every row or none.
    (
        "select a, sum(b) over () from t order by 2 limit 1",
        "\
limit Int8(1)
  sort by #4
    project #0=#0 #4=#4
      window by [] #4=sum(#1)
        scan t [0, 1, 2, 3]
",
    ),
    // A key that a set lacks is NULL in its rows: the filter on it stays above.
    (
        "select x, w, c from (select x, w, grouping(w), count(*) c from u group by x, rollup(w)) z
         where x = 1 and w",
        "\
project #6=#6 #7=#7 #5=#5
  project #6=#6 #7=#7 #4=#4 #5=#5
    filter #7
      aggregate by [6, 7] in sets [[0, 1], [0]] #4=[0, 1] #5=count()
        project #0=#0 #1=#1 #2=#2 #3=#3 #6=#1 #7=#2
          filter (#1 Eq Int4(1))
            scan u [0, 1, 2, 3]
",
    ),
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
      aggregate by [] #8=max(#5)
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
      aggregate by [0] #4=count()
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
    let other = GOLDEN.iter().filter(|(sql, expected)| plan(sql) != *expected);
    let other: Vec<String> = other.map(|(sql, _)| format!("{sql}\n{}", plan(sql))).collect();
    assert!(other.is_empty(), "other plans:\n{}", other.join("\n"));
}
