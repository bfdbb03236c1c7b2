//! Keeps the statistics of tables up to date.

use crate::connection::since_start;
use crate::server::Databases;
use meridian_sql::Session;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at what has changed.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a table, as a multiple of the time that it took: statistics are worth a tenth of
/// a core. A large table does not keep the others waiting for longer than a minute.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Analyzes tables of which much has changed, one after the other.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        for engine in databases.open_engines() {
            if !engine.has_outdated_statistics(since_start()) {
                continue;
            }
            let mut session = Session::new(engine, "meridian");
            session.set_clock(since_start);
            loop {
                let began = since_start();
                match session.analyze_due(began).await {
                    Ok(true) => {
                        let rest = (since_start() - began).saturating_mul(REST);
                        tokio::time::sleep(rest.min(LONGEST_REST)).await;
                    }
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
