//! Tasks that read notifications for the sessions of this server, one for each database in which
//! sessions listen.

use meridian_sql::{Delivery, Engine};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The time after which notifications of other nodes are looked for.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause between two reads in any case.
const GRAIN: Duration = Duration::from_millis(5);
/// The pause after a read that has failed.
const RETRIES: Duration = Duration::from_secs(1);

/// The tasks; they end with the server.
#[derive(Default)]
pub(crate) struct Deliveries(Mutex<JoinSet<()>>);

impl Deliveries {
    /// Begins a task for a database, if sessions listen there and none reads for them.
    pub(crate) fn begin(&self, engine: &Engine) {
        if let Some(delivery) = Delivery::begin(engine) {
            let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(run(delivery));
        }
    }
}

async fn run(mut delivery: Delivery) {
    while delivery.goes_on() {
        let _ = timeout(PAUSE, delivery.news()).await;
        let pause = match delivery.read().await {
            Ok(()) => GRAIN,
            Err(error) => {
                let (database, why) = (delivery.engine().name(), &error.message);
                tracing::warn!(%database, %why, "notifications could not be read");
                RETRIES
            }
        };
        tokio::time::sleep(pause).await;
    }
}
