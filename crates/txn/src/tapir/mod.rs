//! TAPIR: transactions whose place in the order their coordinators propose, and every replica
//! validates for itself (SOSP'15; TOCS'18).
//!
//! ```text
//!   coordinator                              each replica of each shard
//!   timestamp of its own ── Proposal ──────▶ was anything read that is another by now, or may be? was anything written too late?
//!        Ok from all shards ◀── Vote ─────── Ok: prepared · Abstain · Retry above · Abort
//!                           ── End ────────▶ installs, in any order
//! ```
//!
//! The serial order is that of the timestamps. No replica knows all of them: what makes two that
//! conflict meet is that the quorums which validated them do.
//!
//! | file | question |
//! |---|---|
//! | `proposal` | what is asked, answered, and decided from answers? |
//! | `participant` | what does a replica answer, and what does it keep? |
//! | `prepared` | who may meet a new proposal? |
//! | `shards` | how does a coordinator reach a database's shards? |
//! | `coordinator` | what does a session do, from its first read to the outcome? |
//! | `contested` | over which keys were transactions refused, and in which turns are those taken? |
//! | `sharing` | which session of a node has a turn next? |
//! | `schemas` | does what a transaction was planned for hold where it reads and writes? |
//! | `snapshot` | how is a snapshot read that everybody agrees on? |
//! | `recovery` | what became of a transaction whose coordinator is gone? |
//! | `time` | what does a session wait for of the time? |
//! | `highest` | up to when was a key read? |
//!
//! Invariants:
//! 1. A transaction's timestamp is above every version that it has read, and above what was settled
//!    (Traps A.2-17, A.2-20).
//! 2. Nothing is written at or below the timestamp of somebody who has read it, whether that
//!    transaction is prepared here or committed (A.2-20).
//! 3. Ranges are validated, not only keys: nobody writes into what was read and was found empty
//!    (A.2-18).
//! 4. Votes of different attempts of a transaction never count together, and a replica votes on the
//!    newest only (A.2-2).
//! 5. Who has ended does not come to be prepared (A.2-15).
//! 6. A transaction has committed exactly if every participant has said yes to the same attempt.
//!    Whoever wants to know asks them all, and hears what the coordinator would; so nobody has to
//!    be elected to finish what somebody else began (A.2-12).
//! 7. What a snapshot has been read from refuses whatever would be written below it, over restarts
//!    and views (§6.1; A.2-3).
//! 8. What is settled is the same everywhere, and complete: a read that names it has seen all of
//!    it, whichever replica validates (A.2-17). Of what is settled replicas forget who ended how;
//!    so who proposes there is told nothing.
//!
//! Left out: the fast path of §6.1, which reads at one replica. It is unsafe where a replica was
//! cut off: a quorum's read raises there up to when a key was read, although it lacks the newest
//! version, which then passes for valid (A.2-4).
//!
//! Not yet here: an end to the names of commits of several shards.

mod contested;
mod coordinator;
mod highest;
mod participant;
mod prepared;
mod proposal;
mod recovery;
pub mod rules;
mod schemas;
mod shards;
mod sharing;
mod slots;
mod snapshot;
mod time;

pub use coordinator::Gateway;
pub use participant::{Installed, Participant};
pub use proposal::{
    Answer, End, Fact, Footprint, Guarantee, Past, Proposal, Question, Seen, Standing, Vote,
    decide, stands,
};
pub use recovery::recover;
pub use shards::{Common, Found, Looked, Shards, Turn};
pub use sharing::MOST as TURN_HANDED_ON;
