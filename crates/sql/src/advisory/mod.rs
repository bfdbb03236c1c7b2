//! Advisory locks: locks of numbers, which applications give a meaning.
//!
//! ```text
//!   01 0D space key   the sessions that hold the lock, or wait for it
//!   01 0E process     until when the sessions of a process hold their locks
//! ```
//!
//! A lock is a row that transactions of their own write, so that it works alike under every
//! protocol and across nodes, outlives the transactions of its session and fail-overs, and is not
//! wounded. A session's locks hold as long as it lives. A session that ends releases them; those of
//! a process that has died, or has lost touch with the database, end with the process's
//! [lease](Process): 12 seconds after it was renewed last, which is its length and the distance of
//! clocks. A session that has lost its locks that way does not learn of it at once; but a
//! transaction reads the rows of its session's locks when it commits, and does not commit without
//! them.
//!
//! Sessions that wait look again and again; they are not served in order. A session that holds
//! locks and waits for more adds itself to the row as a waiter, so that a cycle is found. Cycles
//! through locks of rows are not: `lock_timeout` ends these.

mod deadlock;
mod holds;
mod process;
mod row;

pub(crate) use holds::{Action, Call, Holds};
pub(crate) use process::Process;
pub(crate) use row::{Entry, Name};

use crate::engine::Engine;
use crate::error::SqlError;

/// Returns all locks as they are now, without a lock that others would wait for.
pub(crate) async fn all_now(engine: &Engine) -> Result<Vec<(Name, Vec<Entry>)>, SqlError> {
    engine.advisory.all_now(engine).await
}
