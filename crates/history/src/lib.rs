//! What clients saw of a database, and judges of it.
//!
//! A history is a list of [`Transaction`]s: what each client asked, what it was told, and when, by
//! one clock. A judge reads nothing else: it knows no protocol, so that any database's histories
//! can be judged.
//!
//! [`judge`] asks those of the following that apply and says right, wrong, or that it cannot
//! decide:
//!
//! | judge | what it needs | what it finds |
//! |---|---|---|
//! | [`timestamps::judge`] | the commit timestamps | exact: replays everything in the order of the timestamps; every read must have seen that state, and the order must respect real time |
//! | [`cycles::judge`] | values that name their writer: appended to lists, or written to registers | infers which transactions precede which, and refutes a history by a cycle |
//! | [`search::judge`] | few transactions, or a history that tells its order | exact: searches for an order that explains every read, in real time or in any |
//! | [`invariants`] | a workload | what each workload promises by itself: totals, sets, counters |
//!
//! One is asked by name, of a store that has no transactions: [`registers::judge`], by timestamps,
//! whether an acknowledged write was ever unseen.
//!
//! Each is tested on histories that are wrong on purpose.
//!
//! 1. `ok` happened, `fail` did not, `info` may have: at any moment from its start on, or never.
//! 2. Values are written once: a value names its writer.

pub mod cycles;
mod format;
pub mod invariants;
pub mod registers;
pub mod search;
pub mod timestamps;
mod verdict;

pub use format::{FormatError, Op, Stamp, Status, Transaction, Value, read, read_lines, write};
pub use verdict::{Proof, Verdict, judge};
