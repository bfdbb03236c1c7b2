//! What clients saw of a database, and judges of it.
//!
//! A history is a list of [`Transaction`]s: what each client asked, what it was told, and when, by one clock. A judge reads nothing else:
//! it knows no protocol, so that any database's histories can be judged.
//!
//! | judge | what it needs | what it finds |
//! |---|---|---|
//! | [`timestamps::judge`] | the commit timestamps | exact: replays everything in the order of the timestamps; every read must have seen that state, and the order must respect real time |
//! | [`cycles::judge`] | values that are appended to lists, each once | no order is claimed: infers who must precede whom, and looks for cycles |
//!
//! The second is blind to registers, the first to a database that tells no timestamps. Each is tested on histories that are wrong on purpose.
//!
//! 1. `ok` happened, `fail` did not, `info` may have: at any moment from its start on, or never.
//! 2. Values are written once: a value names its writer.

pub mod cycles;
mod format;
pub mod timestamps;

pub use format::{FormatError, Op, Stamp, Status, Transaction, Value, read, write};
