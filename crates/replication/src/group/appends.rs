//! Log replication, and the agreement on entries.

use super::{Entry, Event, Group, Index, Message, Progress, Role};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Address, NodeId, Outbox, Reading, always, sometimes};

impl Group {
    pub(super) fn send_appends(&mut self, now: Reading, heartbeat: bool, out: &mut Outbox<Group>) {
        let (last, (base, _)) = (self.log.last().0, self.log.base());
        let me = (self.term, self.commit, now.interval.earliest);
        let (limit, lease_ns) = (self.config.max_append_bytes, self.config.lease_ns);
        let (most, prompt_ns) = (self.config.max_inflight, self.config.prompt_ns);
        let (database, shard) = (self.config.database, self.config.shard);
        let pin_bytes = (self.config.pin_log_bytes, self.config.most_pin_log_bytes);
        let (log, members, bare) = (&self.log, self.memberships.newest(), self.witness);
        let Role::Leader { followers, .. } = &mut self.role else { return };
        for (node, progress) in followers {
            let (to, since) = (Address::replica(*node, database, shard), progress.since);
            let witness = members.is_witness(*node);
            let send = |prev: Index, entries: Vec<Entry>, out: &mut Outbox<Group>| {
                let prev_term =
                    log.term(prev).expect("the entry before the next is in the log or its base");
                let (term, commit, asked_at) = me;
                let prev_index = prev;
                out.send(
                    to,
                    Message::Append {
                        term,
                        prev_index,
                        prev_term,
                        entries,
                        commit,
                        asked_at,
                        since,
                        witness,
                        lease_ns,
                    },
                );
            };
            let behind = progress.next <= base && progress.snapshot.is_none();
            if behind || progress.snapshot.is_some() && progress.is_outrun(base) {
                sometimes!("a member is too far behind for the log");
                progress.wait_for_snapshot(base, pin_bytes);
                let term = log.base().1;
                if !bare {
                    // A witness has no snapshot to send: another member does.
                    out.act(Event::SendSnapshot { to: *node, index: base, term });
                }
            }
            if progress.snapshot.is_some() {
                if heartbeat {
                    // There is nothing to append, but the lease is extended.
                    let out_of_band = Message::Append {
                        term: me.0,
                        prev_index: progress.matched.min(base),
                        prev_term: log.term(progress.matched).unwrap_or_default(),
                        entries: Vec::new(),
                        commit: Index(0),
                        asked_at: me.2,
                        since,
                        witness,
                        lease_ns,
                    };
                    out.send(to, out_of_band);
                }
                continue;
            }
            let mut sent = false;
            let prompt =
                progress.answers_in_ns.is_some_and(|answers_in_ns| answers_in_ns < prompt_ns);
            let window = if progress.probing || prompt { 1 } else { most };
            let open = |progress: &Progress| progress.inflight.len() < window;
            while progress.next <= last && open(progress) {
                let entries = log.from(progress.next, limit);
                let end = entries.last().expect("there is a next entry").index;
                send(Index(progress.next.0 - 1), entries, out);
                sent = true;
                progress.inflight.push_back((end, now.boot_ns));
                progress.next = Index(end.0 + 1);
            }
            if heartbeat && !sent {
                send(Index(progress.next.0 - 1), Vec::new(), out);
            }
        }
    }

    pub(super) fn on_append(
        &mut self,
        now: Reading,
        leader: NodeId,
        append: Message,
        out: &mut Outbox<Group>,
    ) {
        let Message::Append {
            prev_index,
            prev_term,
            entries,
            commit,
            asked_at,
            since,
            lease_ns,
            ..
        } = append
        else {
            return;
        };
        if !self.stays(since, out) {
            return;
        }
        if !matches!(self.role, Role::Follower) || self.leader != Some(leader) {
            self.follow(now, Some(leader), out);
        }
        self.heard_leader_at = Some(now.boot_ns);
        self.arm_election(now, out);
        self.ungranted = self.promise(now, leader, lease_ns, out).then_some(asked_at);
        let agrees = prev_index <= self.commit || self.log.term(prev_index) == Some(prev_term);
        if !agrees {
            let last = self.log.last().0;
            let hint = if prev_index > last {
                last
            } else {
                Index(self.log.start_of_term(prev_index).0 - 1)
            };
            let hint = hint.max(self.commit);
            out.send(
                self.address(leader),
                Message::Refused { term: self.term, prev_index, hint, since },
            );
            return;
        }
        let end = entries.last().map_or(prev_index, |entry| entry.index);
        for entry in entries {
            let kept = broken(rules::CONTRADICTION_STAYS) && self.log.term(entry.index).is_some();
            if kept || entry.index <= self.commit || self.log.term(entry.index) == Some(entry.term)
            {
                continue;
            }
            always!(entry.index > self.commit, "an agreed entry is never replaced");
            if entry.index <= self.log.last().0 {
                sometimes!("entries that were never agreed are replaced");
                self.log.truncate(entry.index);
                self.memberships.truncate(entry.index);
                let kept = Index(entry.index.0 - 1);
                (self.persisted, self.durable) = (self.persisted.min(kept), self.durable.min(kept));
            }
            self.add(entry);
        }
        self.matched = self.matched.max(end);
        let before = self.persisted;
        self.persist_entries(out);
        self.advance_commit(commit.min(self.matched), out);
        if self.persisted == before || broken(rules::ACK_BEFORE_DURABLE) {
            // An entry that was written now is acknowledged once it is on disk, and the lease with
            // it.
            self.acknowledge(out);
        }
    }

    pub(super) fn on_appended(
        &mut self,
        now: Reading,
        from: NodeId,
        (matched, granted, since): (Index, Option<u64>, Index),
        out: &mut Outbox<Group>,
    ) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        let same =
            |progress: &&mut Progress| progress.since == since || broken(rules::STAYS_NOT_TOLD);
        let Some(progress) = followers.get_mut(&from).filter(same) else { return };
        progress.granted = progress.granted.max(granted.unwrap_or(0));
        if matched > progress.matched {
            progress.matched = matched;
            progress.next = progress.next.max(Index(matched.0 + 1));
        }
        let mut answered = None;
        while let Some((_, sent_ns)) = progress.inflight.pop_front_if(|(end, _)| *end <= matched) {
            answered = Some(now.boot_ns.saturating_sub(sent_ns));
        }
        if let Some(took_ns) = answered {
            progress.answers_in_ns =
                Some(progress.answers_in_ns.map_or(took_ns, |before| (7 * before + took_ns) / 8));
        }
        if answered.is_some() || matched.0 + 1 >= progress.next.0 {
            progress.probing = false;
        }
        self.count(out);
        self.announce(now, out);
        self.send_appends(now, false, out);
        self.pass_on(now, out);
    }

    pub(super) fn on_refused(
        &mut self,
        now: Reading,
        from: NodeId,
        (prev_index, hint, since): (Index, Index, Index),
        out: &mut Outbox<Group>,
    ) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        let Some(progress) = followers.get_mut(&from).filter(|progress| progress.since == since)
        else {
            return;
        };
        if prev_index <= progress.matched || progress.snapshot.is_some() {
            return; // The answer is outdated.
        }
        sometimes!("a member's log does not follow the leader's");
        progress.next = Index(hint.0.min(prev_index.0 - 1).max(progress.matched.0) + 1);
        progress.probing = true;
        progress.inflight.clear();
        self.send_appends(now, false, out);
    }

    /// Commits the entries that a quorum has on disk, if the last of them is of this term
    /// (invariant 3).
    pub(super) fn count(&mut self, out: &mut Outbox<Group>) {
        let Role::Leader { followers, .. } = &self.role else { return };
        let matched = |node: NodeId| match followers.get(&node) {
            Some(progress) => progress.matched,
            None if node == self.config.me => self.durable,
            None => Index(0),
        };
        let reached = self.membership().quorum().reached(matched);
        if reached > self.commit && self.log.term(reached) == Some(self.term) {
            self.advance_commit(reached, out);
        }
    }

    pub(super) fn advance_commit(&mut self, to: Index, out: &mut Outbox<Group>) {
        if to <= self.commit {
            return;
        }
        let entries = self.log.from(Index(self.commit.0 + 1), usize::MAX);
        let entries: Vec<Entry> =
            entries.into_iter().take_while(|entry| entry.index <= to).collect();
        self.commit = to;
        out.act(Event::Committed { entries });
        self.on_members_agreed(out);
    }
}
