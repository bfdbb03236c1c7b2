//! Splits of a shard in two, at a key.
//!
//! ```text
//!   Split ──▶ new transactions wait; those under way may end for a while, then are aborted
//!             nothing is locked, prepared or in flight ──▶ Split in the log
//!             ──▶ on every member: bounds cut, the other shard created
//! ```
//!
//! 1. No lock, prepared transaction or vote covers keys on both sides: there is none when the split
//!    is proposed.
//! 2. The other shard begins above the split's timestamp, with everything below it. No snapshot
//!    above that timestamp is served before the split is agreed: the other shard knows of none.
//! 3. A decision that participants must still be told stays with the shard that made it, whichever
//!    keys it was about.

use super::{Command, MOST_SHARDS, Participant, Rows, Shard, ShardCommand, Timer};
use crate::shard::rules as shard_rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId, sometimes, step};
use meridian_mvcc::Key;
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::Entry;
use meridian_replication::rules;
use meridian_txn::TransactionId;
use meridian_txn::shards::{Request, Response};

/// How long transactions under way may take to end, in nanoseconds.
const DRAIN_NS: u64 = 1_000_000_000;
/// How much longer prepared transactions and commits that are not visible may take, in nanoseconds.
/// New transactions wait meanwhile.
const GIVE_UP_NS: u64 = 1_000_000_000;

/// A split that waits until nothing is under way.
pub(crate) struct Splitting {
    key: Key,
    shard: ShardId,
    /// The transaction that requested the split.
    transaction: TransactionId,
    asked: (Address, u64),
    until: u64,
    /// The split's timestamp, once it is proposed.
    proposed: Option<Timestamp>,
    /// Requests of transactions that began meanwhile.
    parked: Vec<(Address, Request)>,
}

impl<P: Participant> Shard<P> {
    /// Starts to split the shard at a key; answers when the split's timestamp has surely passed.
    pub(crate) fn on_split(
        &mut self,
        now: Reading,
        (from, id): (Address, u64),
        transaction: TransactionId,
        (at, shard): (Key, ShardId),
        out: &mut Outbox<Shard<P>>,
    ) {
        if !self.bounds.contains(&at) {
            return self.answer_moved(from, id, &at, out);
        }
        if at == self.bounds.start || shard.0 >= MOST_SHARDS {
            return self.answer(from, Response::Unknown { id }, out);
        }
        if self.splitting.is_none() && !self.group.is_settled() {
            // The other shard's first members must not be in doubt, and requests that wait for a
            // split must not wait for anything else.
            let why =
                "the members of the shard's group are changing: try again when that has ended"
                    .to_owned();
            return self.answer(from, Response::Refused { id, why }, out);
        }
        match &mut self.splitting {
            Some(splitting) if splitting.key == at && splitting.shard == shard => {
                splitting.asked = (from, id);
                self.answer(from, Response::Waiting { id }, out);
            }
            Some(_) => self.answer(from, Response::Unknown { id }, out), // One at a time.
            None => {
                let until = now.boot_ns + DRAIN_NS;
                let (asked, proposed, parked) = ((from, id), None, Vec::new());
                self.splitting =
                    Some(Splitting { key: at, shard, transaction, asked, until, proposed, parked });
                out.arm(Timer::Split, until);
            }
        }
    }

    /// True if a request begins a transaction while a split is pending. The request is then queued.
    pub(crate) fn parks(&mut self, from: Address, request: &Request) -> bool {
        let new = self.splitting.is_some() && self.participant.begins(request);
        let Some(splitting) = self.splitting.as_mut().filter(|_| new) else { return false };
        sometimes!("an attempt waits for a split");
        splitting.parked.push((from, request.clone()));
        true
    }

    /// Proposes a pending split as soon as nothing is under way.
    pub(super) fn go_on_splitting(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let Some(splitting) =
            self.splitting.as_ref().filter(|splitting| splitting.proposed.is_none())
        else {
            return;
        };
        let until = splitting.until;
        if now.boot_ns >= until {
            P::end_for_split(self, now, out);
        }
        if !self.participant.may_split() {
            if now.boot_ns >= until + GIVE_UP_NS {
                self.give_up_split(now, out);
            } else if now.boot_ns >= until {
                out.arm(Timer::Split, until + GIVE_UP_NS);
            }
            return;
        }
        let Some(at) = self.draw_one(now) else { return };
        let Some(splitting) = &mut self.splitting else { return };
        let (key, shard) = (splitting.key.clone(), splitting.shard);
        step!("leader: proposes a split");
        splitting.proposed = Some(at);
        let members = Some(self.group.membership().of_child());
        if self.propose_about_shard(ShardCommand::Split { at, key, shard, members }).is_none() {
            self.splitting = None;
        }
    }

    /// True while a split is being agreed.
    pub(crate) fn is_splitting(&self) -> bool {
        self.splitting.as_ref().is_some_and(|splitting| splitting.proposed.is_some())
    }

    /// True if a timestamp lies above a split that is being agreed.
    pub(super) fn is_above_split(&self, at: Timestamp) -> bool {
        let split = self.splitting.as_ref().and_then(|splitting| splitting.proposed);
        split.is_some_and(|split| at > split) && !broken(shard_rules::SNAPSHOT_ABOVE_SPLIT)
    }

    /// Gives up a split because a transaction stays prepared for longer than new ones may wait.
    fn give_up_split(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let Some(Splitting { asked: (from, id), parked, .. }) = self.splitting.take() else {
            return;
        };
        sometimes!("a split is given up because of what is prepared");
        let why = "transactions that have written in this shard are not decided within two seconds: try again when they have ended, and the other shards that they wrote into can be reached".to_owned();
        self.answer(from, Response::Refused { id, why }, out);
        for (from, request) in parked {
            P::on_request(self, now, from, request, out);
        }
    }

    /// Takes in an agreed split: queues the answer until its timestamp has passed, and resumes the
    /// requests that wait.
    pub(super) fn on_split_agreed(
        &mut self,
        now: Reading,
        at: Timestamp,
        out: &mut Outbox<Shard<P>>,
    ) {
        step!("member: a split is agreed");
        let Some(Splitting { transaction, asked, parked, .. }) = self.splitting.take() else {
            return;
        };
        self.participant.answer_when_passed(now, at, transaction, asked);
        for (from, request) in parked {
            P::on_request(self, now, from, request, out);
        }
    }

    /// Applies splits, and everything before them, that a copy of the shard names and that are in
    /// this member's log but not applied. The copy is about to replace this member's state. The
    /// rows of the new shards are here, and perhaps nowhere else. True if there were any.
    pub(super) fn learn_splits(
        &mut self,
        now: Reading,
        rows: &Rows<P::Rows>,
        out: &mut Outbox<Shard<P>>,
    ) -> bool {
        if broken(rules::SPLIT_SKIPPED) {
            return false;
        }
        let splits: Vec<_> = rows
            .split_origins
            .values()
            .map(|split_origin| (split_origin.index, split_origin.term))
            .collect();
        let news = self.with_group(now, out, |group, out| group.learn_agreed(&splits, out));
        if news {
            sometimes!("a split is applied because a copy tells of it");
            self.finish(now, out);
        }
        news
    }

    /// True if the log contains the split that creates a shard. The split may not come to be
    /// agreed.
    pub fn expects(&self, child: ShardId) -> bool {
        let is_its_split = |entry: Entry| {
            let command =
                P::Command::from_payload(&entry.payload).ok().flatten().map(P::Command::into_shard);
            matches!(command, Some(Ok(ShardCommand::Split { shard, .. })) if shard == child)
        };
        self.group.uncommitted().into_iter().any(is_its_split)
    }

    /// Answers the pending split, and the requests that wait for it, with `NotLeader` when
    /// leadership is lost.
    pub(super) fn dismiss_split(&mut self, out: &mut Outbox<Shard<P>>) {
        let Some(Splitting { asked, parked, .. }) = self.splitting.take() else { return };
        let waiting = parked.into_iter().map(|(from, request)| (from, request.id)).chain([asked]);
        for (from, id) in waiting {
            self.answer_not_leader(from, id, out);
        }
    }

    /// Answers which shard has a key that is not in this shard.
    pub(crate) fn answer_moved(
        &self,
        from: Address,
        id: u64,
        key: &Key,
        out: &mut Outbox<Shard<P>>,
    ) {
        let to = self
            .children
            .range::<Key, _>(..=key)
            .next_back()
            .map(|(from, shard)| (from.clone(), *shard));
        // Keys past this shard's end: the first shard knows which one has them, or leads to one
        // that does.
        let end = self.bounds.end.as_ref().filter(|end| key >= *end);
        let to = to.or_else(|| {
            end.map(|end| (end.clone(), FIRST_SHARD)).filter(|_| self.shard != FIRST_SHARD)
        });
        self.answer(from, Response::Moved { id, to }, out);
    }
}
