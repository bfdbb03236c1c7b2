//! The counters of the wire protocol, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters. Each is read on its own, so that they need not be of one instant.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted since the start.
    pub connections_total: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections refused: user, database, too many, shutting down.
    pub connections_refused: AtomicU64,
    /// Connections closed because of bytes that are no message of the protocol.
    pub protocol_errors: AtomicU64,
    /// Statements run: one per simple query or Execute.
    pub statements_total: AtomicU64,
    /// Errors sent.
    pub errors_total: AtomicU64,
    /// Sessions that panicked; each was sent XX000 and closed.
    pub panics_total: AtomicU64,
    /// Cancel requests that named a connection and its secret.
    pub cancels_total: AtomicU64,
    /// Statements and sessions ended by a timeout.
    pub timeouts_total: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
}

impl Counters {
    /// Returns every counter with its name, for an exporter.
    pub fn read(&self) -> [(&'static str, u64); 11] {
        [
            ("pg_connections_total", self.connections_total.load(Relaxed)),
            ("pg_connections_open", self.connections_open.load(Relaxed)),
            ("pg_connections_refused_total", self.connections_refused.load(Relaxed)),
            ("pg_protocol_errors_total", self.protocol_errors.load(Relaxed)),
            ("pg_statements_total", self.statements_total.load(Relaxed)),
            ("pg_errors_total", self.errors_total.load(Relaxed)),
            ("pg_panics_total", self.panics_total.load(Relaxed)),
            ("pg_cancels_total", self.cancels_total.load(Relaxed)),
            ("pg_timeouts_total", self.timeouts_total.load(Relaxed)),
            ("pg_received_bytes_total", self.received_bytes.load(Relaxed)),
            ("pg_sent_bytes_total", self.sent_bytes.load(Relaxed)),
        ]
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
