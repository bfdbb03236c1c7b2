//! How a record gets from one replica to another: part by part, each asked for by whoever has the one before.
//!
//! A part that is lost is asked for again when the first one is said again, as it is until all has arrived. What is told to a replica while its record is on its way may be missing there: it is a fact,
//! which it carries into the next view itself.

use super::{Application, Entry, Message, OpId, PartOf, RecordOf, Replica, View};
use meridian_machine::{Address, Outbox, Reading, sometimes};
use std::ops::Bound;

/// What has arrived of a record.
#[derive(Clone)]
pub(super) struct Arriving<A: Application> {
    pub record: RecordOf<A>,
    /// Where the next part begins.
    pub next: OpId,
}

/// What comes of a part.
pub(super) enum Arrived<A: Application> {
    /// The record is complete.
    All(RecordOf<A>),
    /// The part that begins here is wanted.
    More(OpId),
    /// It was not wanted.
    Nothing,
}

impl<A: Application> Arriving<A> {
    /// Takes a part in.
    pub fn take(known: &mut Option<Self>, part: PartOf<A>) -> Arrived<A> {
        let record = match (known.take(), part.from) {
            (None, None) => part.entries,
            (Some(mut arriving), Some(from)) if arriving.next == from => {
                arriving.record.extend(part.entries);
                arriving.record
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
            None => Arrived::All(record),
            Some(next) => {
                sometimes!("a record comes in parts");
                *known = Some(Arriving { record, next });
                Arrived::More(next)
            }
        }
    }
}

impl<A: Application> Replica<A> {
    /// A part of what this replica has, as much as is said at once.
    fn part(
        &self,
        from: Option<OpId>,
        says: impl Fn(&Entry<A::Inconsistent, A::Consensus, A::Result>) -> bool,
    ) -> PartOf<A> {
        let begins = from.map_or(Bound::Unbounded, Bound::Included);
        let (mut entries, mut bytes, mut rest) = (RecordOf::<A>::new(), 0, None);
        for (id, entry) in self.record.range((begins, Bound::Unbounded)).filter(|(_, entry)| says(entry)) {
            let more = A::bytes(entry);
            if bytes + more > self.config.part_bytes && !entries.is_empty() {
                rest = Some(*id);
                break;
            }
            bytes += more;
            entries.insert(*id, entry.clone());
        }
        PartOf::<A> { from, entries, rest }
    }

    /// Tells the leader of the view that is to begin what is here.
    pub(super) fn say_change(&self, to: Address, from: Option<OpId>, out: &mut Outbox<Self>) {
        let (view, last, stored, part) = (self.view, self.began, self.stored, self.part(from, |_| true));
        out.send(to, Message::Change { view, last, part, stored });
    }

    /// Tells somebody which view has begun here. What was proposed in it and is not decided is not said: that would be for its leader to merge.
    pub(super) fn say_start(&self, to: Address, from: Option<OpId>, out: &mut Outbox<Self>) {
        out.send(to, Message::StartView { view: self.began, part: self.part(from, |entry| entry.state.is_final()) });
    }

    /// Somebody has a part, and wants the next one.
    pub(super) fn on_more(&mut self, now: Reading, to: Address, view: View, from: OpId, out: &mut Outbox<Self>) {
        if self.is_changing() {
            return;
        }
        if self.is_between_views() && view == self.view && self.leader_of(view) == to.node {
            self.wait_for_view(now, out); // It gets on.
            self.say_change(to, Some(from), out);
        } else if !self.is_between_views() && view == self.began {
            self.say_start(to, Some(from), out);
        }
    }
}
