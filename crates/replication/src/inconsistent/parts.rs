//! The transfer of a record between replicas, part by part; each part is requested after the one
//! before has arrived.
//!
//! At first only changes are sent: the operations since the view that both replicas were in, or the
//! changes with which a view has begun. A replica that was not in the view before asks for the
//! whole record.
//!
//! A lost part is requested again when the first one is repeated, which happens until all have
//! arrived. A fact that a replica receives while its record is in transfer may be missing there:
//! the replica carries it into the next view itself.

use super::{Application, ChangesOf, Entry, Message, OpId, PartOf, Record, Replica, View};
use meridian_machine::{Address, Outbox, Reading, sometimes};
use std::ops::Bound;

/// The parts that have arrived so far.
#[derive(Clone)]
pub(super) struct Arriving<A: Application> {
    /// The view to whose record these are the changes; none for a whole record.
    pub upon: Option<View>,
    pub changes: ChangesOf<A>,
    /// The first id of the next part.
    pub next: OpId,
}

/// The result of taking a part.
pub(super) enum Arrived<A: Application> {
    /// All parts have arrived.
    All(ChangesOf<A>),
    /// The part that begins here is needed.
    More(OpId),
    /// The part was not expected.
    Nothing,
}

impl<A: Application> Arriving<A> {
    /// Takes a part.
    pub fn take(known: &mut Option<Self>, part: PartOf<A>) -> Arrived<A> {
        let of_another = known.as_ref().is_none_or(|arriving| arriving.upon != part.upon);
        let changes = match (known.take(), part.from) {
            (_, None) if of_another => part.changes,
            (Some(mut arriving), Some(from)) if !of_another && arriving.next == from => {
                arriving.changes.extend(part.changes);
                arriving.changes
            }
            (Some(arriving), None) => {
                let next = arriving.next;
                *known = Some(arriving);
                return Arrived::More(next);
            }
            (before, _) => {
                *known = before;
                return Arrived::Nothing;
            }
        };
        match part.rest {
            None => Arrived::All(changes),
            Some(next) => {
                sometimes!("a record comes in parts");
                *known = Some(Arriving { upon: part.upon, changes, next });
                Arrived::More(next)
            }
        }
    }
}

/// The change of one operation; `None` if it is forgotten.
type Change<'a, A> = (
    OpId,
    Option<
        &'a Entry<
            <A as Application>::Inconsistent,
            <A as Application>::Consensus,
            <A as Application>::Result,
        >,
    >,
);

impl<A: Application> Replica<A> {
    /// Returns a part of at most `part_bytes`.
    fn part<'a>(
        &self,
        upon: Option<View>,
        from: Option<OpId>,
        changes: impl Iterator<Item = Change<'a, A>>,
    ) -> PartOf<A>
    where
        A: 'a,
    {
        let (mut part, mut bytes) =
            (PartOf::<A> { upon, from, changes: ChangesOf::<A>::new(), rest: None }, 0);
        for (id, entry) in changes {
            let more = entry.map_or(size_of::<OpId>(), A::bytes);
            if bytes + more > self.config.part_bytes && !part.changes.is_empty() {
                part.rest = Some(id);
                break;
            }
            bytes += more;
            part.changes.insert(id, entry.cloned());
        }
        part
    }

    /// Sends the leader of the view that is to begin the operations since the last view, or the
    /// whole record with which that view began.
    pub(super) fn send_change(
        &self,
        to: Address,
        is_whole: bool,
        from: Option<OpId>,
        out: &mut Outbox<Self>,
    ) {
        let (view, last, stored) = (self.view, self.began, self.stored);
        let part = if is_whole {
            self.part(None, from, after(self.ledger.began(), from))
        } else {
            self.part(Some(last), from, after(self.ledger.since(), from))
        };
        out.send(to, Message::Change { view, last, part, stored });
    }

    /// Sends the view that has begun here: the changes of its record, or the whole record.
    pub(super) fn send_start(
        &self,
        to: Address,
        is_whole: bool,
        from: Option<OpId>,
        out: &mut Outbox<Self>,
    ) {
        let began = self.ledger.began();
        let part = match self.ledger.news().filter(|_| !is_whole) {
            Some((upon, news)) => {
                let news = news.range((begins(from), Bound::Unbounded));
                self.part(Some(*upon), from, news.map(|id| (*id, began.get(id))))
            }
            None => self.part(None, from, after(began, from)),
        };
        out.send(to, Message::StartView { view: self.began, part });
    }

    /// Handles a request for the next part or for the whole record.
    pub(super) fn on_more(
        &mut self,
        now: Reading,
        to: Address,
        view: View,
        (upon, from): (Option<View>, Option<OpId>),
        out: &mut Outbox<Self>,
    ) {
        if self.is_changing() {
            return;
        }
        if self.is_between_views() && view == self.view && self.leader_of(view) == to.node {
            self.wait_for_view(now, out); // It gets on.
            self.send_change(to, upon.is_none(), from, out);
        } else if !self.is_between_views() && view == self.began {
            self.send_start(to, upon.is_none(), from, out);
        }
    }
}

fn begins(from: Option<OpId>) -> Bound<OpId> {
    from.map_or(Bound::Unbounded, Bound::Included)
}

fn after<I, C, R>(
    record: &Record<I, C, R>,
    from: Option<OpId>,
) -> impl Iterator<Item = (OpId, Option<&Entry<I, C, R>>)> {
    record.range((begins(from), Bound::Unbounded)).map(|(id, entry)| (*id, Some(entry)))
}
