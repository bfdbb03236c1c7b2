//! The executor gives the rows of the naive interpreter, over drawn queries and with each way to
//! join.

#[path = "../../tests/common/mod.rs"]
mod common;

use super::Reader;
use crate::bind;
use crate::catalog::{Resolver, SearchPath, Table};
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::logical::drawn::{Queries, parsed, sorted};
use crate::logical::naive::{Naive, Row};
use crate::names::Qualified;
use crate::normalize;
use crate::physical::{self, lower_with};
use common::{Memory, run, session_of};
use futures::executor::block_on;
use meridian_txn::{Begin, Database, Lock, Mode, ReadAt, Transaction};
use std::sync::Arc;

async fn begin(memory: &Memory) -> Box<dyn Transaction> {
    memory.begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await.expect("a transaction")
}

async fn table(memory: &Memory, engine: &Engine, name: &str) -> Arc<Table> {
    let mut txn = begin(memory).await;
    let (path, name) = (SearchPath::public(), Qualified::of(name));
    let found =
        Resolver::new(&path).object(txn.as_mut(), &engine.cache, &name, true, Lock::Shared).await;
    let found = found.expect("the catalog").expect("the object");
    found.table().expect("a table").clone()
}

/// Runs a query to its end.
async fn rows(memory: &Memory, plan: &physical::Query) -> Result<Vec<Row>, SqlError> {
    let (mut txn, facts) = (begin(memory).await, Facts::default());
    let mut running = plan.start(Vec::new(), Vec::new(), false);
    let mut rows = Vec::new();
    let mut reader = Reader::new(txn.as_mut(), &facts, 0);
    while let Some(more) = running.next(&mut reader, usize::MAX).await? {
        assert!(!more.is_empty(), "no rows are the end");
        rows.extend(more);
    }
    Ok(rows)
}

fn literal(datum: &Datum) -> String {
    match datum {
        Datum::Null => "null".to_owned(),
        Datum::Bool(b) => b.to_string(),
        other => other.as_i64().expect("a number").to_string(),
    }
}

#[test]
fn drawn_queries_have_the_rows_of_the_naive_interpreter() {
    let memory = Memory::default();
    let mut session = session_of(Engine::new("lab", Arc::new(memory.clone())));
    let engine = Engine::new("lab", Arc::new(memory.clone()));
    run(&mut session, "create table t(a int primary key, b int, f bool)");
    run(&mut session, "create table u(k int primary key, x int, w bool)");
    let tables = ["t", "u"].map(|name| block_on(table(&memory, &engine, name)));
    let mut compared = 0;
    for seed in 1..=300u64 {
        let mut queries = Queries::of_seed(seed);
        let data = queries.data();
        run(&mut session, "delete from t; delete from u");
        for (name, rows) in &data {
            for row in rows {
                let values: Vec<String> = row.iter().map(literal).collect();
                run(&mut session, &format!("insert into {name} values ({})", values.join(", ")));
            }
        }
        let naive = Naive::new(data);
        for _ in 0..10 {
            let sql = queries.draw();
            let query = parsed(&sql);
            let bound =
                || bind::compile(&query, &tables.to_vec().into(), &[]).expect("a bound query");
            let plain = bound();
            let Ok(expected) = naive.run(&plain.rel, &plain.outputs) else { continue };
            let expected = sorted(expected);
            for by_key in [None, Some(true), Some(false)] {
                let found = lower_with(normalize::query(bound()), 20, by_key)
                    .and_then(|plan| block_on(rows(&memory, &plan)))
                    .map(sorted)
                    .map_err(|error| error.message);
                assert_eq!(found, Ok(expected.clone()), "seed {seed}, by key {by_key:?}: {sql}");
            }
            compared += 1;
        }
    }
    assert!(compared > 2500, "{compared} queries were compared");
}
