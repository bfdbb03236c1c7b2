//! PostgreSQL's wire protocol: any PostgreSQL client is a client of Meridian.
//!
//! ```text
//!   socket ─▶ link (two buffers) ─▶ frontend (bytes → messages) ─▶ wire ─▶ sql::Session
//!   socket ◀─ link               ◀─ backend (answers → bytes)   ◀─ wire ◀─ responses, in chunks
//! ```
//!
//! One task per connection, one loop, no handler framework
//! (`docs/decisions/2026-11-21-wire-loop.md`). Invariants:
//!
//! 1. A client's data are checked before use, and allocated as they arrive. Bytes that are no
//!    message end that connection with FATAL 08P01, and affect no other.
//! 2. After an error in the extended protocol nothing is run, and no response is sent, up to the
//!    next Sync.
//! 3. Every Query and every Sync gets exactly one ReadyForQuery, with the session's true status.
//! 4. Responses are sent when the client waits for them (Sync, Flush, the end of a simple query),
//!    or when they exceed 64 kB. A client that does not read then pauses its own statement.
//! 5. A statement is interrupted (cancel, `statement_timeout`) by dropping its future. If its
//!    commit was in progress the error is 40003, not 57014: the commit may have happened.
//!
//! Not supported: authentication and TLS (so only loopback is served), the function call protocol.

mod analyst;
mod backend;
mod cancel;
mod connection;
mod counters;
mod deliveries;
mod frontend;
mod keeper;
mod link;
mod presence;
mod result;
mod run;
mod server;
mod settings;
mod wire;

pub use counters::Counters;
pub use server::{Databases, Options, Server};
