//! A member continues from a received copy of its shard, in place of its own versions.
//!
//! ```text
//!   copy ──▶ take_over ──┬─▶ Unwanted     the log was faster, or the membership is not durable
//!                        ├─▶ SplitsFirst  splits of the log that the copy names are applied, and
//!                        │                their effects carried out; then take_over once more
//!                        └─▶ Taken        versions replaced ──▶ children's first members known
//!                                         ──▶ children reported ──▶ group continues at the copy
//! ```
//!
//! The decisions are made here, once. A node and the simulator carry them out ([`ReceivedCopy`]),
//! and then create the members of the reported children, before any effect of the step.
//!
//! Invariants:
//! 1. The versions are replaced and the group continues within one step of the member: nothing is
//!    committed or installed in between.
//! 2. The rows of a shard that was split off are stored before the copy replaces the versions among
//!    which they are. They may be here and nowhere else.
//! 3. A child is reported after its first members are known: its member starts with them.

use super::{OwnRows, Participant, Recovered, Rows, Shard};
use meridian_clock::Reading;
use meridian_machine::Outbox;
use meridian_replication::group::{Index, Term};

/// A received copy, with the store and the tables of its node.
pub trait ReceivedCopy {
    /// The participant's rows among the shard's own.
    type Rows: OwnRows;
    /// The reason why the copy cannot be read or used.
    type Error;
    /// Returns the last entry that the copy covers, and its term.
    fn through(&self) -> (Index, Term);
    /// Reads the copy's rows about the shard itself.
    fn rows(&self) -> Result<Rows<Self::Rows>, Self::Error>;
    /// Replaces the shard's versions by the copy. Durable when this returns.
    fn replace(&mut self) -> Result<(), Self::Error>;
    /// Reads the member's state from the versions that are in use.
    fn recovered(&self) -> Result<Recovered<Self::Rows>, Self::Error>;
    /// Publishes the shard's keys, its members, and the first members of its children, on the node.
    fn publish(&mut self, recovered: &Recovered<Self::Rows>);
    /// Reports the children that the copy names, so that their members start.
    fn report_children(&mut self) -> Result<(), Self::Error>;
}

/// The result of [`Shard::take_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDecision {
    /// The member continues from the copy. Next, its children's members are created.
    Taken,
    /// The member does not want the copy.
    Unwanted,
    /// Splits were applied that the copy names. The caller carries out the effects, and calls
    /// again.
    SplitsFirst,
}

/// The reason why a member does not continue from a copy that it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyError<E> {
    /// The copy cannot be read. The member continues without it.
    Unreadable(E),
    /// The store could not replace the versions, or not read them afterwards. Nothing was replaced
    /// if its disk is full. After any other error the node must end, and the next start reads what
    /// the disk has.
    NotReplaced(E),
}

impl<P: Participant> Shard<P> {
    /// Continues from a received copy, if the member lacks a part of it.
    pub fn take_over<C: ReceivedCopy<Rows = P::Rows>>(
        &mut self,
        now: Reading,
        copy: &mut C,
        out: &mut Outbox<Shard<P>>,
    ) -> Result<CopyDecision, CopyError<C::Error>> {
        let (index, term) = copy.through();
        if self.group.commit_index() >= index || !self.group.has_joined() {
            return Ok(CopyDecision::Unwanted);
        }
        let rows = copy.rows().map_err(CopyError::Unreadable)?;
        if self.learn_splits(now, &rows, out) {
            return Ok(CopyDecision::SplitsFirst);
        }
        let recovered = replace(copy).map_err(CopyError::NotReplaced)?;
        self.snapshot_installed(now, index, term, recovered, out);
        Ok(CopyDecision::Taken)
    }

    /// Continues from a copy of the shard through an entry, which is stored now.
    fn snapshot_installed(
        &mut self,
        now: Reading,
        index: Index,
        term: Term,
        recovered: Recovered<P::Rows>,
        out: &mut Outbox<Shard<P>>,
    ) {
        self.take(recovered);
        self.participant.forget_through(term);
        let members = self.members.clone();
        self.with_group(now, out, |group, out| {
            group.install_snapshot(now, (index, term), members, out)
        });
        self.finish(now, out);
    }
}

fn replace<C: ReceivedCopy>(copy: &mut C) -> Result<Recovered<C::Rows>, C::Error> {
    copy.replace()?;
    let recovered = copy.recovered()?;
    copy.publish(&recovered);
    copy.report_children()?;
    Ok(recovered)
}
