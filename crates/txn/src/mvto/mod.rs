//! Multi-version timestamp ordering (K2-MVTO, §5): a transaction draws one timestamp when it
//! begins, and is ordered by it.
//!
//! ```text
//!   begin    ts ◀─ the node's time, later than every transaction that has ended
//!   read     the newest version below ts; the shard remembers the read, and waits for older
//!            transactions that are undecided there
//!   write    refused if a later transaction has read the key; otherwise an intent
//!   commit   the intents are in all logs, ts has surely passed ─▶ the recorder decides, in one log
//!            ─▶ the client is answered ─▶ the shards learn it, and the intents become versions
//! ```
//!
//! Writers never wait, for readers or for each other. Readers wait for older writers of their own
//! keys only, from later to earlier timestamps, so that no circle forms.
//!
//! | file | question |
//! |---|---|
//! | `read_tracker` | when was each key read last? |
//! | `intents` | what is written and not decided, and for what does a reader wait? |
//! | `recorder` | what became of a transaction? |
//! | `reservations` | which transaction goes first where many read and then write one key? |
//! | `outcomes` | how is a repeated request answered? |
//! | `messages` | what do coordinators, leaders and recorders say to each other? |
//! | `coordinator` | how does a session's transaction run? |
//!
//! The first five are values. `systems/mvto` steps them at the leader of a shard's group.
//!
//! Invariants:
//! 1. (Invariant 5.1) Committed transactions are serialized in the order of their timestamps. No
//!    version appears below a timestamp at which another transaction has read its key.
//! 2. A timestamp lies between the true times at which its transaction begins and ends (Property
//!    4.1): a coordinator decides once it has surely passed (Trap A.1-B3: the wait comes before the
//!    decision, so that no reader has to wait).
//! 3. Every answer about an outcome comes from the recorder's log. No lease and no clock decides.
//!
//! **Departures.** A timestamp names its node and the node's incarnation, so that none is drawn
//! twice (Trap A.1-A4). The recorder's leader sends the outcome to the other shards, not the
//! coordinator, so that they learn it whatever becomes of the coordinator. A transaction that
//! writes in one shard has no record: its commit is one entry of the log. Aborted transactions
//! begin again with a new timestamp (Trap A.1-B10).

mod coordinator;
mod intents;
mod messages;
mod outcomes;
mod read_tracker;
mod recorder;
mod reservations;
pub mod rules;

pub use coordinator::TxnClient;
pub use intents::{Held, Intent, Intents};
pub use messages::{Operation, Peer};
pub use outcomes::Outcomes;
pub use read_tracker::ReadTracker;
pub use recorder::{Decision, EXPIRES_NS, Place, Recorder, State, TransactionRecord};
pub use reservations::Reservations;
