//! Keeps the advisory locks of the sessions of this process, releases those of sessions that have
//! ended, and erases old notifications.

use crate::connection::since_start;
use crate::server::Databases;
use futures::future::join_all;
use meridian_sql::{Engine, SqlError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The most time that one database takes: the locks of others are kept in time nevertheless.
const MOST: Duration = Duration::from_secs(5);

/// Keeps the locks and notifications of all databases that are open here.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let engines = databases.open_engines();
        join_all(engines.iter().map(|engine| keep(engine))).await;
    }
}

/// Keeps the locks of a database, and erases its old notifications.
async fn keep(engine: &Engine) {
    let now = since_start();
    if engine.has_due_locks(now) {
        warn(engine, "advisory locks were not kept", timeout(MOST, engine.keep_locks(now)).await);
    }
    if engine.has_due_notifications(now) {
        let erased = timeout(MOST, engine.erase_notifications(now)).await;
        warn(engine, "old notifications were not erased", erased);
    }
}

/// Logs that something was not done.
fn warn(engine: &Engine, failed: &str, done: Result<Result<(), SqlError>, Elapsed>) {
    let why = match done {
        Ok(Ok(())) => return,
        Ok(Err(SqlError { message, .. })) => message,
        Err(_) => format!("it takes longer than {} s", MOST.as_secs()),
    };
    tracing::warn!(database = %engine.name(), %why, "{failed}");
}
