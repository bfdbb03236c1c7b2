//! View changes: the view's leader merges the records of a quorum of replicas, so that all have the
//! same record (TOCS'18 §3.2.2).
//!
//! A replica that leaves a view answers nothing any more. Once that is on its disk it sends the
//! operations that it received in that view; the record with which the view began is at every
//! replica that was in it. So a successful operation is in at least one of any f + 1 records. A
//! fast operation has its result in every record of a replica that was in its view: a replica whose
//! record is older than the newest view among them did not give it (Trap A.2-8).

use super::parts::{Arrived, Arriving};
use super::replica::Then;
use super::{
    Application, ChangesOf, Entry, LogRecord, Message, Op, OpId, PartOf, RecordOf, Replica,
    ReplicaSet, State, View,
};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Address, NodeId, Outbox, Reading, always, sometimes, step};
use std::collections::{BTreeMap, BTreeSet};

/// The exponent of the longest view timeout: at most two to this power times the first one.
const LONGEST_BACK_OFF: u32 = 6;

/// The records of the replicas that have left for the view that is to begin.
pub(super) type Gathered<A> = BTreeMap<NodeId, LeftView<A>>;

/// The record of a replica that has left.
#[derive(Clone)]
pub(super) struct LeftView<A: Application> {
    /// The last view that began there.
    pub last: View,
    /// The operations that it received since. The leader's own are in its ledger.
    pub since: RecordOf<A>,
    /// The newest view of which its host has durably stored everything that it began with.
    pub stored: View,
}

impl<A: Application> Replica<A> {
    /// Returns the replica that merges a view, of the newest known epoch.
    pub fn leader_of(&self, view: View) -> NodeId {
        self.config.members.leader_of(view)
    }

    /// True if this was a replica and is none in the newest known epoch: it sends its record, and
    /// waits for no view.
    pub fn is_former(&self) -> bool {
        !self.config.members.replicas.contains(&self.config.me)
    }

    /// Returns the number of views before the next one that this replica leads.
    pub fn turns_until_it_leads(&self) -> usize {
        let views = std::iter::successors(Some(self.view.next()), |view| Some(view.next()));
        let views = views.take(self.config.members.replicas.len());
        views.take_while(|view| self.leader_of(*view) != self.config.me).count()
    }

    /// Starts a view change: for a replica that has come back, for operations that no client
    /// finishes, or to forget entries that all replicas have.
    pub fn change_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.is_between_views() {
            self.leave_for(now, self.view.next(), out);
        }
    }

    /// Starts a view change to a view that this replica leads, because it knows of itself that it
    /// is up.
    pub fn lead_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.is_between_views() {
            let number = self.view.number + 1 + self.turns_until_it_leads() as u64;
            self.leave_for(now, View { number, ..self.view }, out);
        }
    }

    pub(super) fn leave_for(&mut self, now: Reading, view: View, out: &mut Outbox<Self>) {
        step!("replica: leaves a view");
        self.not_begun = if self.is_between_views() { self.not_begun + 1 } else { 0 };
        self.view = view;
        self.gathered.clear();
        self.arriving.clear();
        self.beginning = None;
        self.unsent.clear();
        if !broken(rules::VIEW_NOT_KEPT) {
            self.keep(LogRecord::Left { view }, out);
        }
        self.wait_for_view(now, out);
        self.then(Then::Left(view), out);
    }

    pub(super) fn wait_for_view(&self, now: Reading, out: &mut Outbox<Self>) {
        // Records may be large: the timeout doubles with each view in a row that does not begin.
        // Numbers that were skipped, so that a live replica leads, do not count.
        let times = self.not_begun.min(LONGEST_BACK_OFF);
        if !self.is_former() {
            out.arm(super::Timer::View, now.boot_ns + (self.view_timeout_ns() << times));
        }
        out.arm(super::Timer::Repeat, now.boot_ns + self.repeat_ns());
    }

    /// Asks the other replicas for a later view that a client knows of. No other replica may be
    /// left that would send it unasked.
    pub(super) fn ask_for_view(&mut self, now: Reading, newest: View, out: &mut Outbox<Self>) {
        if newest > self.view && !self.asks {
            sometimes!("a client knows of a later view than a replica");
            self.asks = true;
            let view = self.view;
            self.others()
                .into_iter()
                .for_each(|node| out.send(self.address(node), Message::LeaveView { view }));
            out.arm(super::Timer::Repeat, now.boot_ns + self.repeat_ns());
        }
    }

    /// Continues a view change once `LeftView` is on disk.
    pub(super) fn on_left(&mut self, view: View, out: &mut Outbox<Self>) {
        if view == self.view && self.is_between_views() {
            self.send_left(out);
        }
    }

    fn send_left(&mut self, out: &mut Outbox<Self>) {
        let (view, leader) = (self.view, self.leader_of(self.view));
        self.others()
            .into_iter()
            .for_each(|node| out.send(self.address(node), Message::LeaveView { view }));
        if leader == self.config.me {
            let left =
                LeftView { last: self.began, since: RecordOf::<A>::new(), stored: self.stored };
            self.gathered.insert(leader, left);
        } else {
            self.send_change(self.address(leader), false, None, out);
        }
    }

    pub(super) fn repeat(&mut self, now: Reading, out: &mut Outbox<Self>) {
        self.asks = false;
        if self.is_changing() {
            // Not yet.
        } else if self.is_between_views() {
            self.send_left(out);
        } else if self.unsent.is_empty() {
            return;
        } else {
            sometimes!("a view's leader says again that it has begun");
            self.unsent.iter().for_each(|node| self.send_view(*node, out));
        }
        out.arm(super::Timer::Repeat, now.boot_ns + self.repeat_ns());
    }

    fn send_view(&self, node: NodeId, out: &mut Outbox<Self>) {
        if !self.is_changing() {
            self.send_start(self.address(node), false, None, out);
        }
    }

    pub(super) fn on_leave_view(
        &mut self,
        now: Reading,
        from: Address,
        view: View,
        out: &mut Outbox<Self>,
    ) {
        if view > self.view {
            self.leave_for(now, view, out);
        } else if !self.is_between_views() {
            sometimes!("a peer has not heard that a view has begun");
            self.send_view(from.node, out);
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
        let merges =
            view == self.view && self.is_between_views() && self.leader_of(view) == self.config.me;
        if !merges {
            return;
        }
        match part.upon {
            None if last > self.began
                && self.beginning.as_ref().is_none_or(|(of, _)| *of <= last) =>
            {
                self.catch_up(now, from, last, part, out);
            }
            Some(_) if !self.gathered.contains_key(&from.node) => {
                let mut known = self.arriving.remove(&from.node);
                let (upon, arrived) = (part.upon, Arriving::take(&mut known, part));
                self.arriving.extend(known.map(|known| (from.node, known)));
                match arrived {
                    Arrived::All(changes) => {
                        let since = changes
                            .into_iter()
                            .filter_map(|(id, entry)| Some((id, entry?)))
                            .collect();
                        self.gathered.insert(from.node, LeftView { last, since, stored });
                        self.gather(now, out);
                    }
                    Arrived::More(next) => {
                        self.wait_for_view(now, out); // The transfer makes progress.
                        out.send(from, Message::More { view, upon, from: Some(next) });
                    }
                    Arrived::Nothing => {}
                }
                self.ask_for_whole(from, last, out);
            }
            _ => self.ask_for_whole(from, last, out),
        }
    }

    /// Asks for the whole record of a view that this replica, which is to merge, was not in.
    fn ask_for_whole(&mut self, from: Address, last: View, out: &mut Outbox<Self>) {
        let is_newest = self.beginning.as_ref().is_none_or(|(of, _)| *of <= last);
        if last > self.began && is_newest {
            let next = self.next_of_whole(last);
            out.send(from, Message::More { view: self.view, upon: None, from: next });
        }
    }

    /// Returns the first id of the next part of a view's whole record.
    fn next_of_whole(&self, view: View) -> Option<OpId> {
        let arriving =
            self.beginning.as_ref().filter(|(of, arriving)| *of == view && arriving.upon.is_none());
        arriving.map(|(_, arriving)| arriving.next)
    }

    fn catch_up(
        &mut self,
        now: Reading,
        from: Address,
        last: View,
        part: PartOf<A>,
        out: &mut Outbox<Self>,
    ) {
        match self.take_part(last, part) {
            Arrived::All(changes) => {
                sometimes!("a view's leader was not in the view before");
                self.take_up(now, last, None, changes, out);
                // It leaves that view too.
                self.gathered.remove(&self.config.me);
                self.then(Then::Left(self.view), out);
            }
            Arrived::More(next) => {
                self.wait_for_view(now, out); // The transfer makes progress.
                out.send(from, Message::More { view: self.view, upon: None, from: Some(next) });
            }
            Arrived::Nothing => {}
        }
    }

    /// Takes a part of the record with which a view is to begin here.
    fn take_part(&mut self, view: View, part: PartOf<A>) -> Arrived<A> {
        let mut known =
            self.beginning.take().filter(|(of, _)| *of == view).map(|(_, arriving)| arriving);
        let arrived = Arriving::take(&mut known, part);
        self.beginning = known.map(|known| (view, known));
        arrived
    }

    /// Merges the records, or waits a moment for the other ones if a quorum is there.
    pub(super) fn gather(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if self.gathered.len() > self.others().len() {
            self.merge(now, out);
        } else if self.has_quorum() {
            out.arm(super::Timer::Gather, now.boot_ns + self.gather_ns());
        }
    }

    /// Returns the replicas whose records are merged: those of this epoch if it has begun at one of
    /// them, otherwise the former ones.
    fn voters(&self) -> &BTreeSet<NodeId> {
        let ReplicaSet { epoch, replicas, former } = &self.config.members;
        let of_epoch = |(node, left): (&NodeId, &LeftView<A>)| {
            left.last.epoch == *epoch && replicas.contains(node)
        };
        if self.gathered.iter().any(of_epoch) { replicas } else { former }
    }

    /// True if no successful operation can be missing, and enough replicas wait for the view that
    /// no view before it proceeds.
    fn has_quorum(&self) -> bool {
        let are_enough = |of| ReplicaSet::are_enough(of, self.gathered.keys().copied());
        are_enough(&self.config.members.replicas)
            && (are_enough(self.voters()) || broken(rules::FORMER_NOT_ASKED))
    }

    /// Returns the operations that a replica received since its last view.
    fn said<'a>(&'a self, node: NodeId, left: &'a LeftView<A>) -> &'a RecordOf<A> {
        if node == self.config.me { self.ledger.since() } else { &left.since }
    }

    pub(super) fn merge(&mut self, now: Reading, out: &mut Outbox<Self>) {
        // The leader's own record counts once it is on disk that it has left.
        let ready = self.has_quorum() && self.gathered.contains_key(&self.config.me);
        if !self.is_between_views() || !ready {
            return;
        }
        let voters = self.voters().clone();
        let newest =
            self.gathered.values().map(|left| left.last).max().expect("a quorum has answered");
        if newest > self.began && !broken(rules::BASE_UNCHECKED) {
            return; // It has asked for the record of that view.
        }
        step!("view's leader: merges");
        let (view, gathered) = (self.view, std::mem::take(&mut self.gathered));
        let stored =
            gathered.values().map(|left| left.stored).min().expect("a quorum has answered");
        let counts = |(node, left): &(&NodeId, &LeftView<A>)| {
            voters.contains(node) && (left.last == newest || broken(rules::OLDER_VIEWS_MERGED))
        };
        let (of_newest, others): (Vec<_>, Vec<_>) = gathered.iter().partition(counts);
        let records: Vec<&RecordOf<A>> =
            of_newest.into_iter().map(|(node, left)| self.said(*node, left)).collect();
        let all = gathered.keys().filter(|node| voters.contains(node)).count();
        let counted = if broken(rules::OLDER_VIEWS_NOT_COUNTED) { records.len() } else { all };
        let Merged { mut record, likely, open } = merged::<A>(&records, counted);
        if others.iter().any(|(_, left)| left.last != newest) {
            sometimes!("a view is merged from records of different views");
        }
        // A fact holds in every view.
        let others = others.into_iter().flat_map(|(node, left)| self.said(*node, left));
        for (id, entry) in others.filter(|(_, entry)| entry.is_told()) {
            if !self.ledger.began().contains_key(id) {
                sometimes!("a view begins with what was told in an older one");
                record.entry(*id).or_insert_with(|| entry.clone());
            }
        }
        // All replicas were in the view that began with it. Two different views do not do: they may
        // have begun from different records.
        let from_all = records.len() == voters.len() || broken(rules::FORGETS_WHAT_ONE_LACKS);
        // Replicas that take over have spent no view yet.
        let enough = newest.epoch == view.epoch && records.len() > voters.len() / 2;
        let begins = |(id, entry): (OpId, _)| (id, Some(Entry { merged: Some(view), ..entry }));
        let before = self.ledger.begin(Some(newest), record.into_iter().map(begins).collect());
        let mut effects = Vec::new();
        self.application.sync(now, self.ledger.began(), &mut effects);
        let results = self.application.merge(now, &likely, &open, &mut effects);
        always!(results.len() == open.len(), "every operation gets a result");
        if !open.is_empty() {
            sometimes!("a view change decides an undecided operation");
        }
        let decided = open.into_iter().zip(results).map(|((id, op), result)| (id, op, result));
        let decided = likely.into_iter().chain(decided).map(|(id, op, result)| {
            (
                id,
                Some(Entry {
                    op: Op::Consensus(op),
                    state: State::Finalized(Some(result)),
                    merged: Some(view),
                }),
            )
        });
        self.ledger.change(decided.collect());
        if enough {
            let stored =
                if broken(rules::FORGETS_BEFORE_STORED) { newest } else { stored.min(newest) };
            let stored = if from_all { stored } else { View::default() };
            let forgotten = self.application.forget(self.ledger.began(), newest, stored);
            self.ledger.change(forgotten);
        }
        // The replica that merges begins like those that receive the view: its state is a function
        // of the record.
        self.application.sync(now, self.ledger.began(), &mut effects);
        effects.into_iter().for_each(|effect| out.act(effect));
        self.keep_began(view, before, out);
        self.unsent = self.others();
        self.go_to(view, out);
        out.disarm(super::Timer::Gather);
        out.arm(super::Timer::Repeat, now.boot_ns + self.repeat_ns());
    }

    pub(super) fn on_start_view(
        &mut self,
        now: Reading,
        from: Address,
        view: View,
        part: PartOf<A>,
        out: &mut Outbox<Self>,
    ) {
        if self.is_former() && view.epoch == self.config.members.epoch {
            sometimes!("a former replica hears that others have taken over");
            out.disarm(super::Timer::Repeat);
        } else if view > self.began && view >= self.view {
            let upon = part.upon;
            // The changes are of no use without the record that they apply to.
            if upon.is_some_and(|upon| upon != self.began) && !broken(rules::BASE_UNCHECKED) {
                let next = self.next_of_whole(view);
                return out.send(from, Message::More { view, upon: None, from: next });
            }
            match self.take_part(view, part) {
                Arrived::All(changes) => {
                    self.unsent.clear();
                    self.take_up(now, view, upon, changes, out);
                    self.go_to(view, out);
                    out.disarm(super::Timer::Repeat);
                }
                Arrived::More(next) => {
                    if self.is_between_views() {
                        self.wait_for_view(now, out); // The transfer makes progress.
                    }
                    out.send(from, Message::More { view, upon, from: Some(next) });
                }
                Arrived::Nothing => {}
            }
        } else if view == self.began && !self.is_between_views() {
            self.then(Then::Began(view), out); // Its `Started` may have been lost.
        } else if view < self.view {
            let leaves = Message::LeaveView { view: self.view };
            if self.is_between_views() {
                out.send(from, leaves);
            } else {
                self.send_view(from.node, out);
            }
        }
    }

    /// Adopts the record with which a view began.
    fn take_up(
        &mut self,
        now: Reading,
        view: View,
        upon: Option<View>,
        changes: ChangesOf<A>,
        out: &mut Outbox<Self>,
    ) {
        // A view that has begun here may have been bypassed: then only this replica reports the
        // facts that the group has of it.
        let earlier = if upon.is_none() { told::<A>(self.ledger.began()) } else { Vec::new() };
        let before = self.ledger.begin(upon, changes);
        if upon.is_none() {
            self.begins_whole(view);
        }
        let mut effects = Vec::new();
        self.application.sync(now, self.ledger.began(), &mut effects);
        effects.into_iter().for_each(|effect| out.act(effect));
        self.keep_began(view, before, out);
        let earlier = earlier.into_iter().filter(|(id, _)| self.ledger.get(id).is_none()).collect();
        for (id, op) in A::lacking(self.ledger.began(), earlier) {
            sometimes!("a view begins without what one that was bypassed began with");
            self.ledger.add(id, Op::Inconsistent(op.clone()), State::Finalized(None));
            self.keep(LogRecord::Told { id, op }, out);
        }
    }

    /// Persists the record with which a view began. `before` are the operations since the former
    /// view.
    fn keep_began(&mut self, view: View, before: RecordOf<A>, out: &mut Outbox<Self>) {
        self.began = view;
        self.beginning = None;
        let (upon, changes, decided) = self.ledger.to_keep(&before);
        self.keep(LogRecord::Began { view, upon, changes, decided }, out);
        // A fact that was told here since the last view is true, whether or not other replicas have
        // received it.
        for (id, entry) in before.into_iter().filter(|(_, entry)| entry.is_told()) {
            if let Op::Inconsistent(op) = entry.op
                && !self.ledger.began().contains_key(&id)
            {
                sometimes!("a view begins without what a replica was told");
                self.ledger.add(id, Op::Inconsistent(op.clone()), entry.state);
                self.keep(LogRecord::Told { id, op }, out);
            }
        }
    }

    /// Enters the view, which counts as begun here once that is on disk.
    fn go_to(&mut self, view: View, out: &mut Outbox<Self>) {
        self.view = view;
        self.gathered.clear();
        self.arriving.clear();
        out.disarm(super::Timer::View);
        self.then(Then::Began(view), out);
    }

    /// Continues once `Began` is on disk: reports it to the view's leader, or sends the view to the
    /// other replicas.
    pub(super) fn on_began(&mut self, view: View, out: &mut Outbox<Self>) {
        if view != self.began || self.is_between_views() {
            return;
        }
        match self.leader_of(view) {
            leader if leader != self.config.me => {
                out.send(self.address(leader), Message::Started { view })
            }
            _ => self.unsent.iter().for_each(|node| self.send_view(*node, out)),
        }
    }
}

/// Returns the inconsistent operations of a record.
fn told<A: Application>(began: &RecordOf<A>) -> Vec<(OpId, A::Inconsistent)> {
    let told = began.iter().filter_map(|(id, entry)| match &entry.op {
        Op::Inconsistent(op) => Some((*id, op.clone())),
        Op::Consensus(_) => None,
    });
    told.collect()
}

/// The merge of the records of one view.
struct Merged<A: Application> {
    /// The operations whose results are known.
    record: RecordOf<A>,
    /// The operations that may have succeeded on the fast path, with this result, which every
    /// record has.
    likely: Vec<(OpId, A::Consensus, A::Result)>,
    /// The operations that have not succeeded.
    open: Vec<(OpId, A::Consensus)>,
}

fn merged<A: Application>(records: &[&RecordOf<A>], all: usize) -> Merged<A> {
    let (mut record, mut given) =
        (RecordOf::<A>::new(), BTreeMap::<OpId, (&A::Consensus, Vec<&A::Result>)>::new());
    for (id, entry) in records.iter().flat_map(|record| record.iter()) {
        match (&entry.op, &entry.state) {
            (_, State::Finalized(result)) => {
                let known = record.entry(*id).or_insert_with(|| entry.clone());
                if known.state.result() != result.as_ref() {
                    // Its client has sent different results: whichever counts, only that client is
                    // affected.
                    sometimes!("an operation has two results in a view");
                }
            }
            // A client has decided to execute it, or it would not have been proposed.
            (Op::Inconsistent(op), State::Tentative(_)) => {
                let executed = Entry {
                    op: Op::Inconsistent(op.clone()),
                    state: State::Finalized(None),
                    merged: None,
                };
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
            [first, ..]
                if results.len() == all && results.iter().all(|result| *result == first) =>
            {
                likely.push((id, op.clone(), first.clone()));
            }
            _ => open.push((id, op.clone())),
        }
    }
    Merged { record, likely, open }
}
