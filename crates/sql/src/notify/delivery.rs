//! The task that reads for the sessions of a process that listen.

use crate::engine::Engine;
use crate::error::SqlError;
use meridian_clock::Timestamp;
use std::future::poll_fn;

/// Reads notifications for the sessions of a process, as long as there are some that listen.
pub struct Delivery {
    engine: Engine,
    is_over: bool,
}

impl Delivery {
    /// Begins to read for the sessions of a database that listen. Returns `None` if there are none,
    /// or if another delivery reads for them.
    pub fn begin(engine: &Engine) -> Option<Delivery> {
        let begins = engine.listeners.begin_to_serve();
        // A session's temporary objects end with it, also if it was the first that listened.
        begins.then(|| Delivery { engine: engine.without_session(), is_over: false })
    }

    /// Returns the database.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// True if there are sessions that listen; the delivery is over otherwise.
    pub fn goes_on(&mut self) -> bool {
        self.is_over |= !self.engine.listeners.goes_on();
        !self.is_over
    }

    /// Waits until a transaction of this process has notified. Those of others are found by
    /// [reading](Delivery::read) again and again.
    pub async fn news(&self) {
        poll_fn(|context| self.engine.listeners.poll_news(context)).await;
    }

    /// Reads what has committed since the last time.
    pub async fn read(&self) -> Result<(), SqlError> {
        self.engine.listeners.read(&self.engine, Timestamp::ZERO).await
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.is_over {
            self.engine.listeners.is_left();
        }
    }
}
