//! Keeps the statistics of tables up to date.

use crate::connection::since_start;
use crate::server::Databases;
use meridian_sql::Session;
use std::sync::Arc;
use std::time::Duration;

/// The shortest time between two looks at what has changed.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two looks, as a multiple of the time that the first one took: statistics are
/// worth a tenth of a core.
const REST: u32 = 9;
/// The longest time between two looks: a large table does not keep the others waiting.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Analyzes tables of which much has changed, one after the other.
pub(crate) async fn run(databases: Arc<dyn Databases>) {
    let mut took = Duration::ZERO;
    loop {
        tokio::time::sleep(took.saturating_mul(REST).clamp(PAUSE, LONGEST_PAUSE)).await;
        let began = since_start();
        look(&*databases).await;
        took = since_start() - began;
    }
}

/// Analyzes all tables whose statistics are outdated.
async fn look(databases: &dyn Databases) {
    for engine in databases.open_engines() {
        if !engine.has_outdated_statistics(since_start()) {
            continue;
        }
        let mut session = Session::new(engine, "meridian");
        session.set_clock(since_start);
        loop {
            match session.analyze_due(since_start()).await {
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
