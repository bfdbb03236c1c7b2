//! Inconsistent replication: operations that reach enough replicas, in no order (TAPIR §3; the
//! later protocol of SOSP'15 and TOCS'18).
//!
//! ```text
//!   inconsistent    Propose ─▶ all    Reply ◀─ f + 1            done; Finalize ─▶ all, who execute it        1 round trip
//!                   … or a fact, which nobody waits for: Tell ─▶ all, who execute it
//!   consensus       Propose ─▶ all    Reply ◀─ all, alike        done; Finalize ─▶ all                       1
//!                   … or f + 1, not alike: the client decides, Finalize ─▶ all    Confirm ◀─ f + 1   done    2
//!   view change     LeaveView ─▶ all   Change ─▶ the view's leader, who merges f + 1 or more   StartView ─▶ all
//! ```
//!
//! No replica leads and none knows everything: each has a *record*, a set of operations. What an
//! operation means its [`Application`] knows; what is promised here is that nothing that succeeded
//! is lost, and no result that a client was told is ever another.
//!
//! | file | question |
//! |---|---|
//! | `messages` | what is said, and what is kept? |
//! | `invocation` | when has an operation succeeded, as its client sees it? |
//! | `replica` | what does a replica answer? |
//! | `ledger` | what does it have of operations, and what of it do the others have, too? |
//! | `members` | who are the replicas, and how do others take over? |
//! | `parts` | how does what one replica has get to another? |
//! | `views` | how do replicas come to have the same record, and what do they forget? |
//!
//! Invariants:
//! 1. A replica answers only what is on its disk, in the view that it says, and nothing between two
//!    views (Traps A.2-7, A.2-14).
//! 2. Answers of different views never count together (A.2-9).
//! 3. A result that all replicas have answered, or that f + 1 have confirmed, is in every later
//!    view's record.
//! 4. A view begins with one record, whoever asks: its leader merges once.
//! 5. A disk that was lost is another replica: whoever comes back knows what it answered, or is no
//!    member of the epoch (A.2-7).
//! 6. The replicas of an epoch never change. A view of a later one begins upon what f + 1 of the
//!    former replicas have left the epoch before with, or upon an earlier view of its own.
//!
//! Where it differs from the papers: what is answered is on disk first, and the fast quorum does
//! not shrink for that (A.2-6); it grows to all replicas, as operations end by facts, which free
//! some replicas before others ([`Unordered`] says why). Of records that are older than the newest
//! view among them nothing is merged but facts; they count as those that said no (A.2-8).
//!
//! Everybody who was in a view has the same record of it. So what is said in a view change is what
//! came since, and what is new; whoever was away asks for the whole. A record may be of any size:
//! replicas ask each other for it part by part.

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
pub use members::Members;
pub use messages::{Changes, Entry, Kept, Message, Op, OpId, Part, Record, State, View};
pub use replica::{Config, Replica, Timer};

use meridian_machine::Reading;

/// A part of a record of an application's operations.
pub type PartOf<A> = Part<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

/// What became of an application's operations.
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

/// What operations mean: called by a replica, one after the other (the upcalls of TOCS'18, Figure
/// 3).
///
/// Effects leave before what they come of is on disk here, and those of `merge` before anybody else
/// has heard of the view: nothing may be revealed by them that a later `sync` could take back. A
/// result of the group that differs from what this replica has answered is heard of with the next
/// view only. An operation that a view began without may be proposed, and answered, again.
pub trait Application: Sized {
    /// Operations that are done in any order.
    type Inconsistent: Clone + Eq;
    /// Operations with results.
    type Consensus: Clone + Eq;
    /// Their results.
    type Result: Clone + Ord;
    /// What is to be done in the world.
    type Effect;

    /// Does an inconsistent operation; it may come before or after any other, and more than once
    /// after a crash.
    fn execute(
        &mut self,
        now: Reading,
        id: OpId,
        op: &Self::Inconsistent,
        effects: &mut Vec<Self::Effect>,
    );

    /// Does a consensus operation, as far as this replica knows.
    fn answer(
        &mut self,
        now: Reading,
        id: OpId,
        op: &Self::Consensus,
        effects: &mut Vec<Self::Effect>,
    ) -> Self::Result;

    /// What this replica has answered and nobody has decided: that stands. At its birth, after
    /// [`sync`](Self::sync).
    fn recall(
        &mut self,
        now: Reading,
        answered: &[(OpId, Self::Consensus, Self::Result)],
        effects: &mut Vec<Self::Effect>,
    );

    /// Everything in this record is the group's: what is here is made to agree with it. When a view
    /// begins, what is not in it was not successful; at a replica's birth, and for one that is told
    /// of a view late, other operations may be: what this replica has answered comes after
    /// ([`recall`](Self::recall)), and what it holds for others is not given up for that. Who
    /// merges a view is called twice: before with what is known, and after with all of it.
    fn sync(&mut self, now: Reading, record: &RecordOf<Self>, effects: &mut Vec<Self::Effect>);

    /// Decides operations of which nobody knows whether they were successful. `likely` are those
    /// that may have been, with this result and no other, which is what each of the merged records
    /// says: they stay so. `open` are those that were not. Called after [`sync`](Self::sync) with
    /// everything that is known. Results of those that are open, in the same order.
    fn merge(
        &mut self,
        now: Reading,
        likely: &[(OpId, Self::Consensus, Self::Result)],
        open: &[(OpId, Self::Consensus)],
        effects: &mut Vec<Self::Effect>,
    ) -> Vec<Self::Result>;

    /// About how many bytes an entry takes where it is said.
    fn bytes(entry: &Entry<Self::Inconsistent, Self::Consensus, Self::Result>) -> usize;

    /// Enough replicas have spent the view `last` for it not to be bypassed, whatever becomes of
    /// that which is about to begin. All have everything that the view `stored` began with, the
    /// same or an older one, and so have their hosts, for good. What of such entries is not needed
    /// any more leaves the record, or becomes smaller: nobody asks for it again, or is refused.
    /// What is to be changed is returned: none, or what stands there from now on. It is the record
    /// that decides: [`sync`](Self::sync) with what is left follows, as everywhere.
    fn forget(&self, record: &RecordOf<Self>, last: View, stored: View) -> ChangesOf<Self>;

    /// This was told in views that may have been bypassed, and is not in the record with which
    /// another one begins. What the group has to hear of all the same is returned; not what it has
    /// forgotten.
    fn lacking(
        record: &RecordOf<Self>,
        told: Vec<(OpId, Self::Inconsistent)>,
    ) -> Vec<(OpId, Self::Inconsistent)>;
}
