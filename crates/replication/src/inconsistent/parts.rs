//! How what one replica has gets to another: part by part, each asked for by whoever has the one
//! before.
//!
//! At first only what is new is said: what came since the view that both were in, or what is other
//! in the one that has begun. Whoever was not in the view before asks for the whole.
//!
//! A part that is lost is asked for again when the first one is said again, as it is until all has
//! arrived. What is told to a replica while its record is on its way may be missing there: it is a
//! fact, which it carries into the next view itself.

use super::{Application, ChangesOf, Entry, Message, OpId, PartOf, Record, Replica, View};
use meridian_machine::{Address, Outbox, Reading, sometimes};
use std::ops::Bound;

/// What has arrived.
#[derive(Clone)]
pub(super) struct Arriving<A: Application> {
    /// To what these are the changes.
    pub upon: Option<View>,
    pub changes: ChangesOf<A>,
    /// Where the next part begins.
    pub next: OpId,
}

/// What comes of a part.
pub(super) enum Arrived<A: Application> {
    /// All of it is here.
    All(ChangesOf<A>),
    /// The part that begins here is wanted.
    More(OpId),
    /// It was not wanted.
    Nothing,
}

impl<A: Application> Arriving<A> {
    /// Takes a part in.
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

/// What is said of one operation.
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
    /// As much as is said at once.
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

    /// Tells the leader of the view that is to begin what came here since the last one; or, as a
    /// whole, what that one began with.
    pub(super) fn say_change(
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

    /// Tells somebody which view has begun here, and what is new in it; or all that it began with.
    pub(super) fn say_start(
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

    /// Somebody has a part, and wants the next one; or the whole.
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
            self.say_change(to, upon.is_none(), from, out);
        } else if !self.is_between_views() && view == self.began {
            self.say_start(to, upon.is_none(), from, out);
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
