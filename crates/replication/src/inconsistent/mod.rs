//! Inconsistent replication: operations that reach a quorum of replicas, in no order (TAPIR §3; the
//! later protocol of SOSP'15 and TOCS'18).
//!
//! ```text
//!   inconsistent   Propose ─▶ all   Reply ◀─ f + 1         done; Finalize ─▶ all, which execute it
//!                  one round trip
//!                  … or a fact, for which the client does not wait: Tell ─▶ all, which execute it
//!   consensus      Propose ─▶ all   Reply ◀─ all, equal    done; Finalize ─▶ all
//!                  one round trip
//!                  … or Reply ◀─ f + 1, not equal          the client decides: Finalize ─▶ all
//!                                  Confirm ◀─ f + 1        done; two round trips
//!   view change    LeaveView ─▶ all   Change ─▶ the view's leader, which merges f + 1 or more
//!                  StartView ─▶ all
//! ```
//!
//! No replica leads and none has every operation: each has a *record*, a set of operations. The
//! [`Application`] defines the meaning of an operation. This module guarantees that no successful
//! operation is lost, and that a result which a client has received never changes.
//!
//! | file | contents |
//! |---|---|
//! | `messages` | messages, and records on disk |
//! | `invocation` | an operation at its client: when it has succeeded |
//! | `replica` | a replica's answers |
//! | `ledger` | a replica's record: what its view began with, and what came since |
//! | `members` | the replicas of an epoch, and their replacement |
//! | `parts` | the transfer of records, part by part |
//! | `views` | view changes, in which replicas merge their records and forget entries |
//!
//! Invariants:
//! 1. A replica answers only with what is on its disk, in the view that it names, and nothing
//!    between two views (Traps A.2-7, A.2-14).
//! 2. Answers of different views never count together (A.2-9).
//! 3. A result that all replicas have answered, or that f + 1 have confirmed, is in every later
//!    view's record.
//! 4. A view begins with one record at every replica: its leader merges once.
//! 5. A replica that lost its disk is another replica: a restarted one knows its answers, or is no
//!    member of the epoch (A.2-7).
//! 6. The replicas of an epoch never change. A view of a later epoch begins with the records of f +
//!    1 former replicas that have left their epoch, or with an earlier view of its own epoch.
//!
//! Departures from the papers: an answer is on disk before it is sent, and the fast quorum does not
//! shrink for that (A.2-6). It grows to all replicas, because operations end by facts, which reach
//! some replicas before others ([`Unordered`] gives the reason). From a record older than the
//! newest view among the merged ones, only facts are merged; it counts as a refusal (A.2-8).
//!
//! All replicas that were in a view have the same record of it. So a view change transfers only the
//! changes since, and a replica that was not in the view asks for the whole record. A record may be
//! of any size: replicas fetch it from each other part by part.

mod invocation;
mod ledger;
mod members;
mod messages;
mod parts;
mod replica;
mod views;

pub use crate::quorum::Unordered;
pub use invocation::Invocation;
pub use ledger::Ledger;
pub use members::ReplicaSet;
pub use messages::{Changes, Entry, LogRecord, Message, Op, OpId, Part, Record, State, View};
pub use replica::{Config, Replica, Timer};

use meridian_machine::Reading;

/// A part of a record of an application's operations.
pub type PartOf<A> = Part<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

/// Changes to a record of an application's operations.
pub type ChangesOf<A> = Changes<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

/// A record of an application's operations.
pub type RecordOf<A> = Record<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

/// The application of a replica: the meaning of its operations, called one after the other (the
/// upcalls of TOCS'18, Figure 3).
///
/// Effects leave before their causes are on disk here, and those of `merge` before another replica
/// has received the view: they may reveal nothing that a later `sync` could take back. If the
/// group's result differs from this replica's answer, the application receives it with the next
/// view only. An operation without which a view began may be proposed, and answered, again.
pub trait Application: Sized {
    /// Operations that are executed in any order.
    type Inconsistent: Clone + Eq;
    /// Operations with results.
    type Consensus: Clone + Eq;
    /// The results of consensus operations.
    type Result: Clone + Ord;
    /// Actions for the host.
    type Effect;

    /// Executes an inconsistent operation. It may come before or after any other, and more than
    /// once after a crash.
    fn execute(
        &mut self,
        now: Reading,
        id: OpId,
        op: &Self::Inconsistent,
        effects: &mut Vec<Self::Effect>,
    );

    /// Executes a consensus operation as far as this replica knows, and returns its result here.
    fn answer(
        &mut self,
        now: Reading,
        id: OpId,
        op: &Self::Consensus,
        effects: &mut Vec<Self::Effect>,
    ) -> Self::Result;

    /// Restores this replica's answers that are undecided. Called when the replica is created,
    /// after [`sync`](Self::sync).
    fn recall(
        &mut self,
        now: Reading,
        answered: &[(OpId, Self::Consensus, Self::Result)],
        effects: &mut Vec<Self::Effect>,
    );

    /// Makes the application's state agree with this record of the group. When a view begins, an
    /// operation that is not in the record was not successful. When a replica is created, or
    /// receives a view late, other operations may be: the replica's own answers follow
    /// ([`recall`](Self::recall)), and what it holds for other operations is not given up. In the
    /// replica that merges a view it is called twice: before with what is known, and after with the
    /// whole record.
    fn sync(&mut self, now: Reading, record: &RecordOf<Self>, effects: &mut Vec<Self::Effect>);

    /// Decides operations whose success is unknown. Those in `likely` may have succeeded with this
    /// result and no other, which each of the merged records has: they keep it. Those in `open`
    /// have not. Called after [`sync`](Self::sync) with everything that is known. Returns the
    /// results of the open operations, in the same order.
    fn merge(
        &mut self,
        now: Reading,
        likely: &[(OpId, Self::Consensus, Self::Result)],
        open: &[(OpId, Self::Consensus)],
        effects: &mut Vec<Self::Effect>,
    ) -> Vec<Self::Result>;

    /// Returns the approximate size of an encoded entry, in bytes.
    fn bytes(entry: &Entry<Self::Inconsistent, Self::Consensus, Self::Result>) -> usize;

    /// Returns the changes that remove entries from the record, or make them smaller.
    ///
    /// Enough replicas have spent the view `last` for it not to be bypassed, whatever happens to
    /// the view that is about to begin. All have everything that the view `stored` began with (the
    /// same or an older one), and their hosts have it for good. Parts of these entries that are not
    /// needed any more may go: no request asks for them again, or it is refused. An entry that maps
    /// to `None` is removed, any other replaced. The record decides: [`sync`](Self::sync) with the
    /// remaining record follows, as everywhere.
    fn forget(&self, record: &RecordOf<Self>, last: View, stored: View) -> ChangesOf<Self>;

    /// Returns which of the facts in `told` the group still has to receive, apart from those that
    /// it has forgotten. They were told in views that may have been bypassed, and are not in
    /// `record`, with which another view begins.
    fn lacking(
        record: &RecordOf<Self>,
        told: Vec<(OpId, Self::Inconsistent)>,
    ) -> Vec<(OpId, Self::Inconsistent)>;
}
