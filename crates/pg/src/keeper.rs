//! Keeps the advisory locks of the sessions of this process, and releases those of sessions that
//! have ended.

use crate::connection::since_start;
use crate::server::Databases;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the locks of all databases that are open here.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        for engine in databases.open_engines() {
            if !engine.has_due_locks(since_start()) {
                continue;
            }
            if let Err(error) = engine.keep_locks(since_start()).await {
                let (database, why) = (engine.name(), &error.message);
                tracing::warn!(%database, %why, "advisory locks could not be kept");
            }
        }
    }
}
