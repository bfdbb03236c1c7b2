//! The interface between a shard and its concurrency control.

use super::Shard;
use super::idleness::Config;
use super::records::{Command, OwnRows};
use crate::Protocol;
use crate::envelope::Kind;
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::{Address, Outbox, ShardId};
use meridian_mvcc::Write;
use meridian_replication::group::{Entry, Term};
use meridian_txn::Database;
use meridian_txn::TransactionId;
use meridian_txn::locking::Waits;
use meridian_txn::shards::{Request, Shards};
use minicbor::{Decode, Encode};
use std::fmt::Debug;
use std::sync::Arc;

/// A concurrency control, as the members of a shard run it.
///
/// It decides requests; the shard has the group, the keys, the timestamps and the leadership. Each
/// function gets its shard, through which it proposes commands, draws timestamps and answers. A
/// function is called within a step of the machine, and every step ends in the same order
/// (`step.rs`).
pub trait Participant: Sized + Send + 'static {
    /// The first byte of the frames and records of the protocols that use it.
    const KIND: Kind;
    /// A message between leaders of different shards about one transaction.
    type Peer: Clone + Debug + PartialEq + Encode<()> + for<'b> Decode<'b, ()> + Send;
    /// A command that the group agrees on.
    type Command: Command + Send;
    /// The participant's rows among the shard's own.
    type Rows: OwnRows + Send;

    /// Returns a database of a protocol with these shards.
    fn database<S: Shards>(protocol: &Protocol, shards: Arc<S>) -> Arc<dyn Database>;

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
    /// `on_members`). A request that belongs to another concurrency control is refused.
    fn on_request(
        shard: &mut Shard<Self>,
        now: Reading,
        from: Address,
        request: Request,
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
    fn begins(&self, request: &Request) -> bool;
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
    /// Returns the rows with which a shard begins that is split off, besides those of its members.
    fn rows_of_child(shard: &Shard<Self>, child: ShardId) -> Vec<Write>;

    // ------------------------------------------------------------------------
    // for inspection

    /// Returns the requests that wait for other transactions.
    fn waits(&self) -> Vec<Waits>;
    /// Returns the number of transactions that hold something here: locks, or intents.
    fn holders(&self) -> usize;
    /// Returns the number of transactions whose outcome is not known here, or not in every log that
    /// needs it.
    fn unresolved(&self) -> usize;
}
