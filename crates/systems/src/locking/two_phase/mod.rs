//! Two-phase commit between groups (§4.2.1): as the coordinator, and as a participant.
//!
//! What a leader knows, and what it answers, is the value [`TwoPhase`] (`txn/two_phase`). These
//! files add locks, the log and messages: they propose and send what the value says.
//!
//! 1. A participant's prepare record holds its locks, the shared ones too: the next leader restores
//!    them before it serves (Trap A.5-8).
//! 2. A shard that was only read logs nothing. It votes with a bound below its ceiling, and keeps
//!    its locks until the outcome is known or the bound has passed. From then on it issues
//!    timestamps above the bound, and so does its next leader (Trap A.5-8).
//! 3. The coordinating shard sends a commit's outcome, to the session and to participants, once the
//!    policy shows the commit; under `TrueTime` its timestamp has surely passed then.
//! 4. If an older transaction waits for one that is prepared or has voted, its shard sends a wound
//!    to the coordinating shard, which aborts while votes are outstanding (Trap A.5-10).
//!
//! | file | question |
//! |---|---|
//! | `coordinating` | how does the coordinator collect votes, decide, and tell? |
//! | `participating` | how does a participant prepare, vote, and log the outcome? |
//! | `readers` | how does a participant take part that was only read? |
//! | `leaders` | which messages do leaders exchange, and repeat? |
//!
//! No clock decides any of this: a lease that a wrong clock believes in never splits a transaction
//! (I7).
//!
//! [`TwoPhase`]: meridian_txn::two_phase::TwoPhase

mod coordinating;
mod leaders;
mod participating;
mod readers;

/// How long the vote of a shard that was only read is good, in nanoseconds: at least, and about, if
/// a new ceiling is needed. Under a short lease it is less.
const READ_AT_LEAST_NS: u64 = 300_000_000;
const READ_FOR_NS: u64 = 1_000_000_000;
