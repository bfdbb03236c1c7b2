//! A server keeps the statistics of its tables up to date, and plans that are kept follow them.

use crate::common;
use crate::common::{Engines, Memory, PATIENCE};
use meridian_sql::Engine;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_table_that_has_changed_is_analyzed_and_kept_plans_are_made_again() {
    let engine = Arc::new(Engine::new("meridian", Arc::new(Memory::default())));
    let server = {
        let engines = Engines { all: vec![engine], analyzes: true };
        common::start_over(common::local(), Arc::new(engines)).await
    };
    let client = server.client().await;
    client
        .batch_execute("create table t(a int primary key, b int, c int); create index t_b on t(b)")
        .await
        .expect("created");
    let explain = client.prepare("explain select c from t where b = 1").await.expect("prepared");
    let plan = async || -> String {
        let lines = client.query(&explain, &[]).await.expect("explained");
        lines[0].get(0)
    };
    assert!(plan().await.contains("t_b"), "without statistics by the index");
    let rows = "insert into t select g, 1, g from generate_series(1, 1000) g";
    client.batch_execute(rows).await.expect("inserted");
    let analyzed = async {
        while plan().await.contains("t_b") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, analyzed).await.expect("all rows have the value: no index");
}
