//! How replicas come to have the same record: one of them, the view's leader, merges what enough of them have (TOCS'18 §3.2.2).
//!
//! A replica that leaves a view answers nothing any more, and says what it has once that is on its disk. So an operation that has succeeded is with at least one
//! of any f + 1 who have left; and of a fast one, all of those gave its result: one whose record is older than the newest view among them did not (Trap A.2-8).

use super::parts::{Arrived, Arriving};
use super::replica::{KeptOf, Then};
use super::{Application, Entry, Kept, Message, Op, OpId, PartOf, RecordOf, Replica, State, View};
use meridian_machine::planted::{Rule, broken};
use meridian_machine::{Address, NodeId, Outbox, Reading, always, sometimes, step};
use std::collections::BTreeMap;

/// A view is waited for at most two to this power times as long as the first.
const LONGEST_BACK_OFF: u64 = 6;

/// What replicas have said who left for the view that is to begin.
pub(super) type Gathered<A> = BTreeMap<NodeId, Left<A>>;

/// What one of them has said.
#[derive(Clone)]
pub(super) struct Left<A: Application> {
    /// In which view it was last.
    pub last: View,
    /// All it has.
    pub record: RecordOf<A>,
    /// Its host has for good what this view began with.
    pub stored: View,
}

impl<A: Application> Replica<A> {
    /// Who merges.
    pub fn leader_of(&self, view: View) -> NodeId {
        let replicas = &self.config.replicas;
        let at = usize::try_from(view.0 % replicas.len() as u64).expect("below their number");
        *replicas.iter().nth(at).expect("below their number")
    }

    /// How many views come before the next one that this replica leads.
    pub fn turns_until_it_leads(&self) -> usize {
        let views = (self.view.0 + 1..).map(View);
        views.take_while(|view| self.leader_of(*view) != self.config.me).count()
    }

    /// Asks for a view change: for somebody who is back, for operations that nobody finishes, or so that what everybody has can be forgotten.
    pub fn change_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.is_between_views() {
            self.leave_for(now, View(self.view.0 + 1), out);
        }
    }

    /// The same, to a view that this replica leads: of itself it knows that it is up.
    pub fn lead_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.is_between_views() {
            self.leave_for(now, View(self.view.0 + 1 + self.turns_until_it_leads() as u64), out);
        }
    }

    pub(super) fn leave_for(&mut self, now: Reading, view: View, out: &mut Outbox<Self>) {
        step!("replica: leaves a view");
        self.view = view;
        self.gathered.clear();
        self.arriving.clear();
        self.untold.clear();
        if !broken(Rule::ViewNotKept) {
            self.keep(Kept::Left { view }, out);
        }
        self.wait_for_view(now, out);
        self.then(Then::Left(view), out);
    }

    pub(super) fn wait_for_view(&self, now: Reading, out: &mut Outbox<Self>) {
        // Records may be large: each view in a row that does not begin is given twice as long.
        let failed = (self.view.0 - self.began.0 - 1).min(LONGEST_BACK_OFF);
        out.arm(super::Timer::View, now.boot_ns + (self.config.view_timeout_ns << failed));
        out.arm(super::Timer::Repeat, now.boot_ns + self.config.repeat_ns);
    }

    /// A client has heard of a later view than this one: whoever is in it tells. Nobody else may be left who would.
    pub(super) fn ask_for_view(&mut self, now: Reading, newest: View, out: &mut Outbox<Self>) {
        if newest > self.view && !self.asks {
            sometimes!("a client knows of a later view than a replica");
            self.asks = true;
            let view = self.view;
            self.others().into_iter().for_each(|node| out.send(self.address(node), Message::LeaveView { view }));
            out.arm(super::Timer::Repeat, now.boot_ns + self.config.repeat_ns);
        }
    }

    /// That is on disk.
    pub(super) fn on_left(&mut self, view: View, out: &mut Outbox<Self>) {
        if view == self.view && self.is_between_views() {
            self.say_left(out);
        }
    }

    fn say_left(&mut self, out: &mut Outbox<Self>) {
        let (view, leader) = (self.view, self.leader_of(self.view));
        self.others().into_iter().for_each(|node| out.send(self.address(node), Message::LeaveView { view }));
        if leader == self.config.me {
            let left = Left { last: self.began, record: self.record.clone(), stored: self.stored };
            self.gathered.insert(leader, left);
        } else {
            self.say_change(self.address(leader), None, out);
        }
    }

    pub(super) fn repeat(&mut self, now: Reading, out: &mut Outbox<Self>) {
        self.asks = false;
        if self.is_changing() {
            // Not yet.
        } else if self.is_between_views() {
            self.say_left(out);
        } else if self.untold.is_empty() {
            return;
        } else {
            sometimes!("a view's leader says again that it has begun");
            self.untold.iter().for_each(|node| self.tell_view(*node, out));
        }
        out.arm(super::Timer::Repeat, now.boot_ns + self.config.repeat_ns);
    }

    fn tell_view(&self, node: NodeId, out: &mut Outbox<Self>) {
        if !self.is_changing() {
            self.say_start(self.address(node), None, out);
        }
    }

    pub(super) fn on_leave_view(&mut self, now: Reading, from: Address, view: View, out: &mut Outbox<Self>) {
        if view > self.view {
            self.leave_for(now, view, out);
        } else if !self.is_between_views() {
            sometimes!("somebody has not heard that a view has begun");
            self.tell_view(from.node, out);
        } else if view < self.view {
            out.send(from, Message::LeaveView { view: self.view });
        }
    }

    pub(super) fn on_change(
        &mut self,
        now: Reading,
        from: Address,
        view: View,
        (last, stored, part): (View, View, PartOf<A>),
        out: &mut Outbox<Self>,
    ) {
        self.on_leave_view(now, from, view, out);
        let merges = view == self.view && self.is_between_views() && self.leader_of(view) == self.config.me;
        if !merges || self.gathered.contains_key(&from.node) {
            return;
        }
        let mut known = self.arriving.remove(&from.node);
        let arrived = Arriving::take(&mut known, part);
        self.arriving.extend(known.map(|known| (from.node, known)));
        match arrived {
            Arrived::All(record) => {
                self.gathered.insert(from.node, Left { last, record, stored });
                self.gather(now, out);
            }
            Arrived::More(next) => {
                self.wait_for_view(now, out); // It gets on.
                out.send(from, Message::More { view, from: next });
            }
            Arrived::Nothing => {}
        }
    }

    /// Merges what was heard, or waits for the rest a moment.
    pub(super) fn gather(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if self.gathered.len() == self.config.replicas.len() {
            self.merge(now, out);
        } else if self.gathered.len() >= self.enough.quorum() {
            out.arm(super::Timer::Gather, now.boot_ns + self.config.gather_ns);
        }
    }

    pub(super) fn merge(&mut self, now: Reading, out: &mut Outbox<Self>) {
        // Its own word counts when it is on disk that it has left.
        let ready = self.gathered.len() >= self.enough.quorum() && self.gathered.contains_key(&self.config.me);
        if !self.is_between_views() || !ready {
            return;
        }
        step!("view's leader: merges");
        let gathered = std::mem::take(&mut self.gathered);
        let newest = gathered.values().map(|left| left.last).max().expect("there are enough");
        let stored = gathered.values().map(|left| left.stored).min().expect("there are enough");
        let of_newest = |left: &&Left<A>| left.last == newest || broken(Rule::OlderViewsMerged);
        let (of_newest, older): (Vec<_>, Vec<_>) = gathered.values().partition(of_newest);
        let records: Vec<&RecordOf<A>> = of_newest.into_iter().map(|left| &left.record).collect();
        let counted = if broken(Rule::OlderViewsNotCounted) { records.len() } else { gathered.len() };
        let Merged { mut record, likely, open } = merged::<A>(&records, counted);
        // What was told is so in whichever view.
        for (id, entry) in older.into_iter().flat_map(|left| &left.record).filter(|(_, entry)| entry.is_told()) {
            sometimes!("a view begins with what was told in an older one");
            record.entry(*id).or_insert_with(|| entry.clone());
        }
        let view = self.view;
        for entry in record.values_mut() {
            entry.merged.get_or_insert(view);
        }
        let mut effects = Vec::new();
        self.application.sync(now, &record, &mut effects);
        let results = self.application.merge(now, &likely, &open, &mut effects);
        always!(results.len() == open.len(), "every operation gets a result");
        if !open.is_empty() {
            sometimes!("a view change decides what nobody had decided");
        }
        let decided = open.into_iter().zip(results).map(|((id, op), result)| (id, op, result));
        for (id, op, result) in likely.into_iter().chain(decided) {
            let (op, state) = (Op::Consensus(op), State::Finalized(Some(result)));
            record.insert(id, Entry { op, state, merged: Some(view) });
        }
        // Everybody was in the view that began with it; not in any two views, which may have begun from different records.
        let everybody = records.len() == self.config.replicas.len() || broken(Rule::ForgetsWhatOneLacks);
        if everybody || records.len() >= self.enough.quorum() {
            let stored = if broken(Rule::ForgetsBeforeStored) { newest } else { stored.min(newest) };
            self.application.forget(&mut record, newest, if everybody { stored } else { View(0) });
        }
        // Who has merged begins as everybody does who is told: what it knows is a function of the record.
        self.application.sync(now, &record, &mut effects);
        effects.into_iter().for_each(|effect| out.act(effect));
        self.untold = self.others();
        self.begin(view, record, out);
        out.disarm(super::Timer::Gather);
        out.arm(super::Timer::Repeat, now.boot_ns + self.config.repeat_ns);
    }

    pub(super) fn on_start_view(
        &mut self,
        now: Reading,
        from: Address,
        view: View,
        part: PartOf<A>,
        out: &mut Outbox<Self>,
    ) {
        if view > self.began && view >= self.view {
            let mut known = self.beginning.take().filter(|(of, _)| *of == view).map(|(_, arriving)| arriving);
            let arrived = Arriving::take(&mut known, part);
            self.beginning = known.map(|known| (view, known));
            let record = match arrived {
                Arrived::All(record) => record,
                Arrived::More(next) => {
                    if self.is_between_views() {
                        self.wait_for_view(now, out); // It gets on.
                    }
                    return out.send(from, Message::More { view, from: next });
                }
                Arrived::Nothing => return,
            };
            let mut effects = Vec::new();
            self.application.sync(now, &record, &mut effects);
            effects.into_iter().for_each(|effect| out.act(effect));
            self.untold.clear();
            self.begin(view, record, out);
            out.disarm(super::Timer::Repeat);
        } else if view == self.began && !self.is_between_views() {
            self.then(Then::Began(view), out); // What it said may be lost.
        } else if view < self.view {
            let leaves = Message::LeaveView { view: self.view };
            if self.is_between_views() {
                out.send(from, leaves);
            } else {
                self.tell_view(from.node, out);
            }
        }
    }

    fn begin(&mut self, view: View, record: RecordOf<A>, out: &mut Outbox<Self>) {
        (self.view, self.began) = (view, view);
        let before = std::mem::replace(&mut self.record, record);
        self.gathered.clear();
        self.arriving.clear();
        self.beginning = None;
        let kept: KeptOf<A> = Kept::Began { view, record: self.record.clone() };
        self.keep(kept, out);
        // What was told here since the last view is true, whoever else has heard of it.
        for (id, entry) in before.into_iter().filter(|(_, entry)| entry.is_told()) {
            if let Op::Inconsistent(op) = &entry.op
                && !self.record.contains_key(&id)
            {
                sometimes!("a view begins without what a replica was told");
                self.keep(Kept::Told { id, op: op.clone() }, out);
                self.record.insert(id, entry);
            }
        }
        out.disarm(super::Timer::View);
        self.then(Then::Began(view), out);
    }

    /// That is on disk.
    pub(super) fn on_began(&mut self, view: View, out: &mut Outbox<Self>) {
        if view != self.began || self.is_between_views() {
            return;
        }
        match self.leader_of(view) {
            leader if leader != self.config.me => out.send(self.address(leader), Message::Started { view }),
            _ => self.untold.iter().for_each(|node| self.tell_view(*node, out)),
        }
    }
}

/// What records of the same view say together.
struct Merged<A: Application> {
    /// What is known.
    record: RecordOf<A>,
    /// May have been successful on the fast path, with this result: everybody gave it.
    likely: Vec<(OpId, A::Consensus, A::Result)>,
    /// Was not.
    open: Vec<(OpId, A::Consensus)>,
}

fn merged<A: Application>(records: &[&RecordOf<A>], all: usize) -> Merged<A> {
    let (mut record, mut given) = (RecordOf::<A>::new(), BTreeMap::<OpId, (&A::Consensus, Vec<&A::Result>)>::new());
    for (id, entry) in records.iter().flat_map(|record| record.iter()) {
        match (&entry.op, &entry.state) {
            (_, State::Finalized(result)) => {
                let known = record.entry(*id).or_insert_with(|| entry.clone());
                known.merged = known.merged.or(entry.merged);
                if known.state.result() != result.as_ref() {
                    // Its client has told different ones: whichever counts, nobody else is wronged.
                    sometimes!("an operation has two results in a view");
                }
            }
            // Somebody has decided on it, or nobody would have proposed it.
            (Op::Inconsistent(op), State::Tentative(_)) => {
                let executed = Entry { op: Op::Inconsistent(op.clone()), state: State::Finalized(None), merged: None };
                record.entry(*id).or_insert(executed);
            }
            (Op::Consensus(op), State::Tentative(result)) => {
                given.entry(*id).or_insert((op, Vec::new())).1.extend(result);
            }
        }
    }
    let (mut likely, mut open) = (Vec::new(), Vec::new());
    for (id, (op, results)) in given.into_iter().filter(|(id, _)| !record.contains_key(id)) {
        match results[..] {
            [first, ..] if results.len() == all && results.iter().all(|result| *result == first) => {
                likely.push((id, op.clone(), first.clone()));
            }
            _ => open.push((id, op.clone())),
        }
    }
    Merged { record, likely, open }
}
