//! The interface between a shard and its concurrency control.

use super::Shard;
use super::idleness::Config;
use super::records::{Command, OwnRows};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::{Address, Outbox, ShardId};
use meridian_mvcc::{Key, Write};
use meridian_replication::group::{Entry, Term};
use meridian_txn::locking::TransactionId;
use minicbor::{Decode, Encode};
use std::fmt::Debug;

/// A request of a coordinator.
pub trait Request: Clone + Debug + PartialEq + Encode<()> + for<'b> Decode<'b, ()> {
    /// Its number, which the response repeats.
    fn id(&self) -> u64;
}

/// A shard's response, independent of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardResponse {
    /// Done; the timestamp has surely passed.
    Done {
        /// The request.
        id: u64,
        /// The timestamp of the command.
        at: Timestamp,
    },
    /// The request was received before, and its response is still to come.
    Waiting {
        /// The request.
        id: u64,
    },
    /// Another member leads, or this one does not serve yet.
    NotLeader {
        /// The request.
        id: u64,
        /// The leader's node, if it is known.
        leader: Option<u32>,
    },
    /// The keys belong to another shard.
    Moved {
        /// The request.
        id: u64,
        /// That shard and its first key, if they are known.
        to: Option<(Key, ShardId)>,
    },
    /// The request is refused, and had no effect.
    Refused {
        /// The request.
        id: u64,
        /// The reason, and what to do.
        why: String,
    },
    /// The outcome is not known here.
    Unknown {
        /// The request.
        id: u64,
    },
    /// The authority's timestamp of a snapshot.
    SnapshotTimestamp {
        /// The request.
        id: u64,
        /// The timestamp.
        at: Timestamp,
    },
}

/// A concurrency control, as the members of a shard run it.
///
/// It decides requests; the shard has the group, the keys, the timestamps and the leadership. Each
/// function gets its shard, through which it proposes commands, draws timestamps and answers. A
/// function is called within a step of the machine, and every step ends in the same order
/// (`step.rs`).
pub trait Participant: Sized {
    /// A coordinator's request.
    type Request: Request;
    /// Its response.
    type Response: Clone
        + Debug
        + PartialEq
        + Encode<()>
        + for<'b> Decode<'b, ()>
        + From<ShardResponse>;
    /// A message between leaders of different shards about one transaction.
    type Peer: Clone + Debug + PartialEq + Encode<()> + for<'b> Decode<'b, ()>;
    /// A command that the group agrees on.
    type Command: Command;
    /// The participant's rows among the shard's own.
    type Rows: OwnRows;
    /// A read that the runtime is to serve.
    type Read;

    // ------------------------------------------------------------------------
    // recovery

    /// Makes a participant without transactions.
    fn new(config: &Config) -> Self;
    /// Restores the state that the store holds.
    fn restore(shard: &mut Shard<Self>, rows: Self::Rows);
    /// Replays an applied command that is still in the log.
    fn recall(&mut self, command: Self::Command, term: Term);
    /// Notes that commands of this term and of earlier ones may be lost from log and memory.
    fn forget_through(&mut self, term: Term);

    // ------------------------------------------------------------------------
    // input

    /// Receives a request, at a member that may not lead. It counts the request (`is_wanted`,
    /// `count`), refuses it where this member does not lead or the keys are not the shard's, holds
    /// a new transaction back while the shard is to be split (`parks`) or leadership is being
    /// transferred, and passes requests for splits and members to the shard (`on_split`,
    /// `on_members`).
    fn on_request(
        shard: &mut Shard<Self>,
        now: Reading,
        from: Address,
        request: Self::Request,
        out: &mut Outbox<Shard<Self>>,
    );
    /// Receives a message of another shard's leader.
    fn on_peer(
        shard: &mut Shard<Self>,
        now: Reading,
        from: Address,
        message: Self::Peer,
        out: &mut Outbox<Shard<Self>>,
    );
    /// Applies a command that is agreed, on every member.
    fn apply(
        shard: &mut Shard<Self>,
        now: Reading,
        entry: &Entry,
        command: Self::Command,
        out: &mut Outbox<Shard<Self>>,
    );
    /// Looks for transactions that are idle for too long, and aborts them.
    fn look_at_idle(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Repeats messages that other shards have not answered.
    fn resolve(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // leadership

    /// True if nothing agreed under earlier leaders still waits, so that this member may serve.
    fn may_lead(&self) -> bool;
    /// This member begins to serve.
    fn lead(shard: &mut Shard<Self>, now: Reading);
    /// Answers everything that is not agreed, and drops the state that only a leader has.
    fn step_down(shard: &mut Shard<Self>, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // each step

    /// Releases everything whose timestamp has passed.
    fn release(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Proposes what is ready, at the leader.
    fn propose_ready(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Answers reads that waited.
    fn answer_reads(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Returns how long the next wait for a timestamp takes, in nanoseconds.
    fn next_release(&self, now: Reading, policy: &dyn TimestampPolicy) -> Option<u64>;
    /// Arms the timers of [`look_at_idle`](Self::look_at_idle) and [`resolve`](Self::resolve) if
    /// there is something to look at.
    fn arm(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Sends messages that must follow what the shard published in this step.
    fn send(&mut self, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // for the shard

    /// The oldest timestamp drawn here whose command is not visible yet.
    fn oldest_in_flight(&self) -> Option<Timestamp>;
    /// The newest timestamp that is proposed and not agreed yet.
    fn newest_proposed(&self) -> Option<Timestamp>;
    /// The timestamp from which on an unknown transaction may have committed: nothing is closed
    /// there.
    fn in_doubt_from(&self) -> Timestamp;
    /// True if the newest commit here is all that was acknowledged: sessions of the leader's node
    /// may read without asking the leader.
    fn reads_alone(&self) -> bool;
    /// True if no commit is under way.
    fn is_quiet(&self) -> bool;
    /// True if every transaction that was admitted here has ended or is aborted: leadership may be
    /// transferred.
    fn has_drained(&self) -> bool;
    /// True if nothing is pending: the group may quiesce.
    fn is_at_rest(&self) -> bool;
    /// True if no lock or pending transaction may cover keys on both sides of a split.
    fn may_split(&self) -> bool;
    /// True if a request begins a transaction here.
    fn begins(&self, request: &Self::Request) -> bool;
    /// Aborts the open transactions that a split waits for.
    fn end_for_split(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Answers a request about the shard once the timestamp of its command has surely passed.
    fn answer_when_passed(
        &mut self,
        now: Reading,
        at: Timestamp,
        transaction: TransactionId,
        asked: (Address, u64),
    );
    /// Returns the participant's rows with which a shard begins that is split off.
    fn rows_of_child(&self, child: ShardId) -> Vec<Write>;
}
