//! Histories of what clients observed of a database, and judges of them.
//!
//! A history is a list of [`Transaction`]s: each client's operations, their results, and their
//! times, by one clock. A judge reads nothing else. It knows no protocol, so that histories of any
//! database can be judged.
//!
//! [`judge`] runs those of the following judges that apply, and says right, wrong, or undecided:
//!
//! | judge | what it needs | what it finds |
//! |---|---|---|
//! | [`timestamps::judge`] | commit timestamps | exact: replays everything in that order |
//! | [`snapshots::judge`] | commit timestamps and snapshots | exact: snapshot isolation in that order |
//! | [`cycles::judge`] | values that name their writer | infers an order; refutes by a cycle |
//! | [`search::judge`] | few transactions, or a visible order | exact: searches for an order |
//! | [`invariants`] | a workload | the promises of each workload: totals, sets, counters |
//!
//! [`registers::judge`] is run on request only, for a store without transactions: it checks by
//! timestamps that no read misses an acknowledged write.
//!
//! Each judge is tested on histories that are wrong on purpose.
//!
//! 1. An `ok` transaction happened, a `fail` did not. An `info` may have happened at any moment
//!    after its start, or never.
//! 2. Values are written once: a value names its writer.

pub mod cycles;
mod format;
pub mod invariants;
pub mod registers;
pub mod search;
pub mod snapshots;
pub mod timestamps;
mod verdict;

pub use format::{FormatError, Op, Stamp, Status, Transaction, Value, read, read_lines, write};
pub use verdict::{Proof, Verdict, judge};
