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

/// The most time that each task of a database takes, so that the next one begins in time.
const MOST: Duration = Duration::from_secs(5);

/// Keeps the locks and notifications of all databases that are open here: each by itself, so that
/// notifications that take long delay no renewal of locks.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    tokio::join!(every_second(&*databases, keep_locks), every_second(&*databases, erase_old));
}

/// Calls `task` for each open database, again and again.
async fn every_second(databases: &dyn Databases, task: impl AsyncFn(&Engine)) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let engines = databases.open_engines();
        join_all(engines.iter().map(|engine| task(engine))).await;
    }
}

/// Renews the lease of advisory locks, and releases those of sessions that have ended.
async fn keep_locks(engine: &Engine) {
    let now = since_start();
    if engine.has_due_locks(now) {
        warn(engine, "advisory locks were not kept", timeout(MOST, engine.keep_locks(now)).await);
    }
}

/// Erases old notifications.
async fn erase_old(engine: &Engine) {
    let now = since_start();
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
