//! Keeps the statistics of tables up to date.

use crate::connection::since_start;
use crate::server::Databases;
use meridian_sql::Session;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at what has changed.
const PAUSE: Duration = Duration::from_secs(1);

/// Analyzes tables of which much has changed, one after the other.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        for engine in databases.open_engines() {
            if !engine.has_outdated_statistics() {
                continue;
            }
            let mut session = Session::new(engine, "meridian");
            session.set_clock(since_start);
            loop {
                match session.analyze_due().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        let (database, why) = (session.engine().name(), &error.message);
                        tracing::warn!(%database, %why, "a table could not be analyzed");
                        break;
                    }
                }
            }
        }
    }
}
