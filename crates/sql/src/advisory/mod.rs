//! Advisory locks: locks of numbers, which applications give a meaning.
//!
//! ```text
//!   01 0A space key   the sessions that hold the lock, or wait for it
//!   01 0B process     until when the sessions of a process hold their locks
//! ```
//!
//! A lock is a row that transactions of their own write, so that it works alike under every
//! protocol and across nodes, outlives the transactions of its session and fail-overs, and is not
//! wounded. A session's locks hold as long as it lives. A session that ends releases them; those of
//! a process that has died, or has lost touch with the database, end with the process's
//! [lease](Process), [`LEASE_S`](process::LEASE_S) seconds after it was renewed last. A session
//! that has lost its locks that way does not learn of it at once; but a transaction reads the rows
//! of its session's locks when it commits, and does not commit without them.
//!
//! Sessions that wait look again and again; they are not served in order. One that holds locks and
//! waits for more says so in the row, so that a cycle is found. Cycles through locks of rows are
//! not: `lock_timeout` ends these.

mod deadlock;
mod holds;
mod process;
mod row;

pub(crate) use holds::{Action, Call, Done, Holds};
pub(crate) use process::Process;
pub(crate) use row::{Entry, Name};

use crate::engine::Engine;
use crate::error::SqlError;

/// Returns all locks as they are now, without a lock that others would wait for.
pub(crate) async fn all_now(engine: &Engine) -> Result<Vec<(Name, Vec<Entry>)>, SqlError> {
    row::all(process::look(engine).await?.as_mut()).await
}
