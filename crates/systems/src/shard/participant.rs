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
    /// Its number, which the response bears.
    fn id(&self) -> u64;
}

/// What a shard answers, whichever protocol asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardResponse {
    /// Done, and surely past.
    Done {
        /// The request.
        id: u64,
        /// When.
        at: Timestamp,
    },
    /// The request was made before, and its response is to come.
    Waiting {
        /// The request.
        id: u64,
    },
    /// Another member leads; perhaps this one.
    NotLeader {
        /// The request.
        id: u64,
        /// The leader's node, as far as is known.
        leader: Option<u32>,
    },
    /// The keys are another shard's.
    Moved {
        /// The request.
        id: u64,
        /// The shard that has them, and from which key on, as far as is known.
        to: Option<(Key, ShardId)>,
    },
    /// What is asked for cannot be; nothing of it was done.
    Refused {
        /// The request.
        id: u64,
        /// Why, and what to do.
        why: String,
    },
    /// The outcome is not known here.
    Unknown {
        /// The request.
        id: u64,
    },
}

/// A concurrency control, as the members of a shard run it.
///
/// It decides what becomes of requests; the shard has the group, the keys, the timestamps and the
/// leadership. Each function gets its shard, through which it proposes commands, draws timestamps
/// and answers. A function is called within a step of the machine, and every step ends in the same
/// order (`step.rs`).
pub trait Participant: Sized {
    /// How timestamps relate to time.
    type Clock: TimestampPolicy;
    /// What a coordinator asks.
    type Request: Request;
    /// What it is answered.
    type Response: Clone
        + Debug
        + PartialEq
        + Encode<()>
        + for<'b> Decode<'b, ()>
        + From<ShardResponse>;
    /// What leaders of different shards say about one transaction.
    type Peer: Clone + Debug + PartialEq + Encode<()> + for<'b> Decode<'b, ()>;
    /// What the group agrees on.
    type Command: Command;
    /// What is kept in the shard's rows.
    type Rows: OwnRows;
    /// A read that the runtime is to serve.
    type Read;

    // ------------------------------------------------------------------------
    // recovery

    /// Makes a participant without transactions.
    fn new(config: &Config) -> Self;
    /// Restores what the store has.
    fn restore(shard: &mut Shard<Self>, rows: Self::Rows);
    /// Learns again what an applied command has said that is still in the log.
    fn recall(&mut self, command: Self::Command, term: Term);
    /// Commands of this term and of earlier ones may be in neither the log nor the memory any more.
    fn forget_through(&mut self, term: Term);

    // ------------------------------------------------------------------------
    // input

    /// Takes a request, at a member that may not lead. It counts the request
    /// (`is_wanted`, `count`), refuses it where this member does not lead or the keys are not the
    /// shard's, holds a new transaction back while the shard is to be split (`parks`) or another
    /// node is to lead, and hands requests for splits and members to the shard (`on_split`,
    /// `on_members`).
    fn on_request(
        shard: &mut Shard<Self>,
        now: Reading,
        from: Address,
        request: Self::Request,
        out: &mut Outbox<Shard<Self>>,
    );
    /// Takes a message of another shard's leader.
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
    /// Looks for transactions that are idle for too long.
    fn look_at_idle(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Asks and tells again what other shards have not answered.
    fn resolve(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // leadership

    /// Whether nothing that was agreed under earlier leaders waits any more, so that this member
    /// may serve.
    fn may_lead(&self) -> bool;
    /// This member begins to serve.
    fn lead(shard: &mut Shard<Self>, now: Reading);
    /// This member leads no more: refuses what is not agreed, and forgets what only a leader has.
    fn step_down(shard: &mut Shard<Self>, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // each step

    /// Releases what waited for its timestamp to pass.
    fn release(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// As the leader: proposes what is ready.
    fn propose_ready(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Answers reads that waited.
    fn answer_reads(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// How long the next wait for a timestamp takes, in nanoseconds.
    fn next_release(&self, now: Reading) -> Option<u64>;
    /// Arms the timers of [`look_at_idle`](Self::look_at_idle) and [`resolve`](Self::resolve) if
    /// there is something to look at.
    fn arm(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Sends what must leave behind what the shard has published in this step.
    fn send(&mut self, out: &mut Outbox<Shard<Self>>);

    // ------------------------------------------------------------------------
    // for the shard

    /// The oldest timestamp that is drawn here and whose command is not shown yet.
    fn oldest_in_flight(&self) -> Option<Timestamp>;
    /// The newest timestamp that is proposed and not agreed yet.
    fn newest_proposed(&self) -> Option<Timestamp>;
    /// The timestamp from which on something may have been committed that is not known here yet:
    /// nothing is closed there.
    fn in_doubt_from(&self) -> Timestamp;
    /// Whether the newest commit here is all that was acknowledged: sessions of the leader's node
    /// may read by themselves.
    fn reads_alone(&self) -> bool;
    /// Whether no commit is under way.
    fn is_quiet(&self) -> bool;
    /// Whether every transaction that has begun here has ended, or cannot go on: leadership may be
    /// given away.
    fn has_drained(&self) -> bool;
    /// Whether nothing is under way at all: the group may fall silent.
    fn is_at_rest(&self) -> bool;
    /// Whether nothing stands across keys that a split would part.
    fn may_split(&self) -> bool;
    /// Whether a request begins a transaction here.
    fn begins(&self, request: &Self::Request) -> bool;
    /// Aborts transactions that could end by themselves: a split waits for them.
    fn end_for_split(shard: &mut Shard<Self>, now: Reading, out: &mut Outbox<Shard<Self>>);
    /// Answers a request about the shard once the timestamp of its command has surely passed.
    fn answer_when_passed(
        &mut self,
        now: Reading,
        at: Timestamp,
        transaction: TransactionId,
        asked: (Address, u64),
    );
    /// The participant's rows with which a shard begins that is split off.
    fn rows_of_child(&self, child: ShardId) -> Vec<Write>;
}
