//! A shard becomes two, at a key.
//!
//! ```text
//!   Split ──▶ newer attempts wait; those under way may end for a while, then are aborted
//!             nothing is locked, prepared or in flight ──▶ Split in the log ──▶ every member: bounds cut, the other shard born
//! ```
//!
//! 1. No lock, no prepared transaction and no vote crosses the key: there is none when the split is proposed.
//! 2. The other shard begins above the split's timestamp, with everything below it.
//! 3. A decision that is owed stays with the shard that made it, whatever keys it was about.

use super::replica::{Message, Passing, Replica, Timer};
use super::{Agreed, Rows};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::{Rule, broken};
use meridian_machine::{Address, Outbox, ShardId, sometimes, step};
use meridian_mvcc::Key;
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::Entry;
use meridian_txn::Conflict;
use meridian_txn::locking::{Ask, Reply, Request, TransactionId, Verdict};

/// Attempts that are under way may take so long to end.
const DRAIN_NS: u64 = 1_000_000_000;
/// What is prepared, or agreed and not visible yet, may take so much longer: new attempts wait meanwhile.
const GIVE_UP_NS: u64 = 1_000_000_000;

/// A split that waits until nothing is under way.
pub(super) struct Splitting {
    key: Key,
    shard: ShardId,
    /// Who wants it.
    transaction: TransactionId,
    asked: (Address, u64),
    until: u64,
    proposed: bool,
    /// Attempts that began meanwhile.
    parked: Vec<(Address, Request)>,
}

impl Replica {
    /// Somebody wants the shard to be split.
    pub(super) fn on_split(&mut self, now: Reading, from: Address, request: &Request, out: &mut Outbox<Replica>) {
        let Ask::Split { at, shard } = &request.ask else { unreachable!("only splits are asked for so") };
        let id = request.id;
        if !self.bounds.contains(at) {
            return self.say_moved(from, request, out);
        }
        if *at == self.bounds.start || shard.0 >= super::MOST_SHARDS {
            return out.send(from, Message::Answer(Reply::Unknown { id }));
        }
        if self.splitting.is_none() && !self.group.is_settled() {
            // Whose members the other shard begins with must not be in doubt, and who waits for a split waits for nothing else.
            let why = "the members of the shard's group are changing: try again when that has ended".to_owned();
            return out.send(from, Message::Answer(Reply::Refused { id, why }));
        }
        match &mut self.splitting {
            Some(splitting) if splitting.key == *at && splitting.shard == *shard => {
                splitting.asked = (from, id);
                out.send(from, Message::Answer(Reply::Waiting { id }));
            }
            Some(_) => out.send(from, Message::Answer(Reply::Unknown { id })), // One at a time.
            None => {
                let until = now.boot_ns + DRAIN_NS;
                self.splitting = Some(Splitting {
                    key: at.clone(),
                    shard: *shard,
                    transaction: request.transaction,
                    asked: (from, id),
                    until,
                    proposed: false,
                    parked: Vec::new(),
                });
                out.arm(Timer::Split, until);
            }
        }
    }

    /// Whether a new attempt has to wait for a split; then it does.
    pub(super) fn parks(&mut self, from: Address, request: &Request) -> bool {
        let new = request.footing.is_none() && !self.live.contains_key(&request.transaction);
        let Some(splitting) = self.splitting.as_mut().filter(|_| new) else { return false };
        sometimes!("an attempt waits for a split");
        splitting.parked.push((from, request.clone()));
        true
    }

    /// Goes on with a split as soon as nothing is under way.
    pub(super) fn go_on_splitting(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        let Some(splitting) = self.splitting.as_ref().filter(|splitting| !splitting.proposed) else { return };
        let until = splitting.until;
        if now.boot_ns >= until {
            let open: Vec<TransactionId> = self.locks.open().collect();
            for who in open {
                sometimes!("an attempt is aborted for a split");
                let ticket = self.pending.place_of(who);
                self.judge(now, vec![Verdict::Victim(who, ticket, Conflict::Moved)], out);
            }
        }
        let quiet = self.locks.is_empty()
            && self.agreeing.is_empty()
            && self.passing.is_empty()
            && self.prepared.is_empty()
            && self.would_vote.is_empty()
            && self.schemas.is_quiet();
        if !quiet {
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
        splitting.proposed = true;
        let members = Some(self.group.membership().of_child());
        if self.propose(&Agreed::Split { at, key, shard, members }).is_none() {
            self.splitting = None;
        }
    }

    /// Some transaction stays prepared for longer than a split may hold others back.
    fn give_up_split(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        let Some(Splitting { asked: (from, id), parked, .. }) = self.splitting.take() else { return };
        sometimes!("a split is given up because of what is prepared");
        let why = "transactions that are prepared in this shard have not ended within two seconds: try again when the other shards that they wrote into can be reached".to_owned();
        out.send(from, Message::Answer(Reply::Refused { id, why }));
        for (from, request) in parked {
            self.on_ask(now, from, request, out);
        }
    }

    /// A split is agreed: whoever leads says so once its timestamp has passed.
    pub(super) fn on_split_agreed(&mut self, now: Reading, at: Timestamp, out: &mut Outbox<Replica>) {
        step!("member: a split is agreed");
        let Some(Splitting { transaction, asked, parked, .. }) = self.splitting.take() else { return };
        let (drawn_ns, agreed_ns) = (now.boot_ns, now.boot_ns);
        let (asked, votes, writes, schema) = (Some(asked), None, Vec::new(), false);
        self.passing.insert(at, Passing { at, transaction, asked, drawn_ns, agreed_ns, votes, writes, schema });
        for (from, request) in parked {
            self.on_ask(now, from, request, out);
        }
    }

    /// A copy is about to take this member's place, and tells of these splits. Those that stand in the log here and are not applied yet are applied first,
    /// with everything before them: the rows of what was split off are here, and whoever acknowledged the entry may be alone with them. True if there were any.
    pub fn learn_births(&mut self, now: Reading, rows: &Rows, out: &mut Outbox<Replica>) -> bool {
        if broken(Rule::SplitSkipped) {
            return false;
        }
        let splits: Vec<_> = rows.births.values().map(|birth| (birth.index, birth.term)).collect();
        let news = self.with_group(now, out, |group, out| group.learn_agreed(&splits, out));
        if news {
            sometimes!("a split is applied because a copy tells of it");
            self.finish(now, out);
        }
        news
    }

    /// Whether a shard is to be born here, as the log says; it may not come to be agreed.
    pub fn expects(&self, child: ShardId) -> bool {
        let is_its_split = |entry: Entry| matches!(Agreed::decode(&entry.payload), Ok(Some(Agreed::Split { shard, .. })) if shard == child);
        self.group.in_doubt().into_iter().any(is_its_split)
    }

    /// This member leads no more: whoever asked asks another.
    pub(super) fn dismiss_split(&mut self, out: &mut Outbox<Replica>) {
        let Some(Splitting { asked, parked, .. }) = self.splitting.take() else { return };
        let leader = self.group.leader().map(|node| node.0);
        let waiting = parked.into_iter().map(|(from, request)| (from, request.id)).chain([asked]);
        for (from, id) in waiting {
            out.send(from, Message::Answer(Reply::NotLeader { id, leader }));
        }
    }

    /// Says whose the keys are that somebody looks for here.
    pub(super) fn say_moved(&self, from: Address, request: &Request, out: &mut Outbox<Replica>) {
        let key = match &request.ask {
            Ask::Read { range, .. } | Ask::Snapshot { range, .. } | Ask::LastTs { range } => match &self.bounds.end {
                Some(end) if self.bounds.contains(&range.start) => end,
                _ => &range.start,
            },
            Ask::Split { at, .. } => at,
            Ask::Commit { writes, schema, .. } | Ask::Prepare { writes, schema, .. } => {
                let ranges = schema.iter().flat_map(|change| &change.tables).map(|(_, range)| range);
                let beyond = ranges.filter(|range| !self.bounds.contains_range(range)).filter_map(|range| {
                    if self.bounds.contains(&range.start) { self.bounds.end.as_ref() } else { Some(&range.start) }
                });
                let strange = writes.iter().map(|write| &write.key).find(|key| !self.bounds.contains(key));
                strange.or(beyond.min()).unwrap_or(&self.bounds.start)
            }
            _ => &self.bounds.start,
        };
        let to = self.children.range::<Key, _>(..=key).next_back().map(|(from, shard)| (from.clone(), *shard));
        // Whose brother has them the first shard can say, or lead to.
        let end = self.bounds.end.as_ref().filter(|end| key >= *end);
        let to = to.or_else(|| end.map(|end| (end.clone(), FIRST_SHARD)).filter(|_| self.shard != FIRST_SHARD));
        out.send(from, Message::Answer(Reply::Moved { id: request.id, to }));
    }
}
