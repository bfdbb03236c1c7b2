//! Tests schemas that several sessions change at once.

use crate::common::{PATIENCE, start_by};
use meridian_systems::Protocol;
use tokio::time::timeout;
use tokio_postgres::Client;

/// True if a statement succeeds; fails if it does not end.
async fn runs(client: &Client, sql: &str) -> bool {
    timeout(PATIENCE, client.batch_execute(sql)).await.expect("ends").is_ok()
}

/// A schema is there as long as a table is in it, whichever transaction commits first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_not_dropped_while_a_table_is_created_in_it() {
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let (one, other) = (server.client().await, server.client().await);
        for kind in ["TABLE s.t (a int)", "VIEW s.t AS SELECT 1 AS a", "SEQUENCE s.t"] {
            assert!(runs(&one, "CREATE SCHEMA s; BEGIN").await);
            assert!(runs(&one, &format!("CREATE {kind}")).await, "{}: {kind}", protocol.name);
            // It may wait for the transaction, which then has to end.
            let (dropped, created) =
                tokio::join!(runs(&other, "DROP SCHEMA s"), runs(&one, "COMMIT"));
            let is_there = runs(&one, "SELECT * FROM s.t").await;
            assert_eq!(is_there, created && !dropped, "{}: {kind}", protocol.name);
            let left = "SELECT count(*) FROM pg_class c WHERE relname = 't' AND NOT EXISTS
                        (SELECT FROM pg_namespace n WHERE n.oid = c.relnamespace)";
            let row = one.query_one(left, &[]).await.expect("is counted");
            assert_eq!(row.get::<_, i64>(0), 0, "{}: {kind}", protocol.name);
            runs(&one, "ROLLBACK; DROP SCHEMA IF EXISTS s CASCADE").await;
        }
    }
}
