//! Golden transcripts of the group: its messages, records and agreed entries.

#[path = "../../txn/tests/common/script.rs"]
mod script;

use bytes::Bytes;
use meridian_machine::planted::plant;
use meridian_machine::{
    Address, DatabaseId, Effect, Health, Interval, Machine, NodeId, Outbox, Position, Reading,
    ShardId,
};
use meridian_replication::group::{
    Config, Entry, Event, Group, Index, Membership, MembershipEpoch, Message, Payload, Record,
    Restored, Roster, Term, Timer,
};
use meridian_replication::rules;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;

const MS: u64 = 1_000_000;
const EPSILON: u64 = MS;
const BIRTH: u64 = 1_000_000 * MS;

#[derive(Default)]
struct Member {
    group: Option<Group>,
    out: Outbox<Group>,
    timers: BTreeMap<Timer, u64>,
    disk: Vec<Record>,
    /// The records persisted while the disk is held.
    writing: Vec<(Position, Record)>,
    held: bool,
    applied: (Index, Term),
    /// The agreed entries, of which a checkpoint covers those through `applied`.
    agreed: Vec<(Index, Term, String)>,
    cut: bool,
    /// The lead of its clock, in nanoseconds.
    ahead_ns: u64,
    fenced: bool,
    /// True for a member since the group's creation, until it learns otherwise.
    born: bool,
    /// The entry as of which it is not a member any more.
    removed: Option<Index>,
}

#[derive(Default)]
struct World {
    members: Vec<Member>,
    now: u64,
    wire: VecDeque<(usize, usize, Message)>,
    /// The snapshots in transfer: the last entry, the agreed entries up to there, and the
    /// membership.
    copies: BTreeMap<(usize, usize), Copy>,
    said: String,
}

type Copy = ((Index, Term), Vec<(Index, Term, String)>, Membership);

fn text(entry: &Entry) -> String {
    match &entry.members {
        Some(members) => format!("({})", who(members)),
        None if entry.payload.0.is_empty() => "·".into(),
        None => String::from_utf8_lossy(&entry.payload.0).into_owned(),
    }
}

fn names<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| format!("n{}", node.0)).collect();
    names.join(" ")
}

/// Describes the voters, the learners, and the roster of a change under way.
fn who(members: &Membership) -> String {
    let mut said = format!("voters {}", names(members.voters()));
    if members.is_joint() {
        let outgoing: Vec<NodeId> =
            members.nodes().filter(|node| members.is_voter(*node)).collect();
        let outgoing = outgoing.iter().filter(|node| !members.voters().contains(node));
        let _ = write!(said, " taking over from {}", names(outgoing));
    }
    if !members.learners().is_empty() {
        let _ = write!(said, ", learners {}", names(members.learners()));
    }
    if !members.is_settled() {
        let _ = write!(said, ", to be {}", names(&members.roster().voters));
    }
    said
}

fn ms(nanos: u64) -> i64 {
    (nanos as i64 - BIRTH as i64) / MS as i64
}

fn message(message: &Message) -> String {
    match message {
        Message::PreVote { term, last_index, last_term, .. } => {
            format!("PreVote term {term}, log {last_index}@{last_term}")
        }
        Message::PreVoteReply { term, granted, .. } => {
            format!("PreVoteReply term {term}, {granted}")
        }
        Message::Vote { term, last_index, last_term, .. } => {
            format!("Vote term {term}, log {last_index}@{last_term}")
        }
        Message::VoteReply { term, granted, .. } => format!("VoteReply term {term}, {granted}"),
        Message::Append { term, prev_index, prev_term, entries, commit, asked_at, .. } => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}@{}={}", entry.index, entry.term, text(entry)))
                .collect();
            let what = if entries.is_empty() { "nothing".into() } else { entries.join(" ") };
            format!(
                "Append term {term}, after {prev_index}@{prev_term}: {what}; commit {commit}, asked at {}",
                ms(*asked_at)
            )
        }
        Message::Appended { term, matched, granted, .. } => {
            let granted = granted.map_or("no lease".into(), |at| format!("lease from {}", ms(at)));
            format!("Appended term {term}, through {matched}, {granted}")
        }
        Message::Refused { term, prev_index, hint, .. } => {
            format!("Refused term {term}, after {prev_index}, try {hint}")
        }
        Message::TakeOver { term, transfer_target } => {
            format!("TakeOver term {term}, heir n{}", transfer_target.0)
        }
        Message::Removed { index, .. } => format!("Removed since {index}"),
        Message::Quiesce { term, last, .. } => format!("Quiesce term {term}, log {last}"),
        Message::Confirm => "Confirm".to_owned(),
    }
}

fn record(record: &Record) -> String {
    match record {
        Record::HardState { term, voted_for, grant } => {
            let vote = voted_for.map_or("nobody".into(), |node| format!("n{}", node.0));
            let grant = grant.map_or(String::new(), |grant| {
                format!(", n{} until {}", grant.to.0, ms(grant.until))
            });
            format!("term {term}, voted for {vote}{grant}")
        }
        Record::Append { entries } => {
            let entries: Vec<String> =
                entries.iter().map(|entry| format!("{}@{}", entry.index, entry.term)).collect();
            format!("entries {}", entries.join(" "))
        }
        Record::Base { index, term } => format!("begins after {index}@{term}"),
        Record::MembershipEpoch { since, witness } => {
            format!("a {} since {since}", if *witness { "witness" } else { "member" })
        }
    }
}

impl World {
    fn reading(&self, at: usize) -> Reading {
        Reading::at(self.now, Interval::around(self.now + self.members[at].ahead_ns, EPSILON))
    }

    fn boot(&mut self, at: usize, invited: Option<MembershipEpoch>) {
        let nodes: Vec<NodeId> = (1..=self.members.len() as u32).map(NodeId).collect();
        let born = nodes
            .iter()
            .zip(&self.members)
            .filter(|(_, member)| member.born)
            .map(|(node, _)| *node);
        let roster = Roster::voters(born);
        let mut config = Config::new(NodeId(at as u32 + 1), nodes, DatabaseId(1), ShardId(0));
        config.members =
            if self.members[at].born { Membership::initial(roster) } else { Membership::default() };
        config.invited = invited;
        (config.heartbeat_ns, config.election_timeout_ns, config.lease_ns) =
            (50 * MS, 200 * MS, 400 * MS);
        (config.max_append_bytes, config.max_inflight, config.keep_log_bytes) = (150, 2, 0);
        (config.pin_log_bytes, config.most_pin_log_bytes) = (300, 600);
        config.prompt_ns = 0; // No time passes while messages are delivered.
        let now = self.reading(at);
        let member = &mut self.members[at];
        let (applied, applied_term) = member.applied;
        let restored = Restored { records: member.disk.clone(), applied, applied_term };
        (member.out, member.timers, member.writing) = (Outbox::new(), BTreeMap::new(), Vec::new());
        let mut out = Outbox::new();
        member.group = Some(Group::new(config, 7 + at as u64, restored, now, &mut out));
        member.out = out;
        self.perform(at);
    }

    fn step(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Group, Reading, &mut Outbox<Group>),
    ) -> Result<(), String> {
        let mut now = self.reading(at);
        let member = &mut self.members[at];
        if member.fenced {
            now.health = Health::Fenced;
        }
        step(member.group.as_mut().ok_or("the member is down")?, now, &mut member.out);
        self.perform(at);
        Ok(())
    }

    fn perform(&mut self, at: usize) {
        let name = at + 1;
        let effects: Vec<_> = self.members[at].out.drain().collect();
        let mut durable = None;
        for effect in effects {
            match effect {
                Effect::Send { to, message: said }
                | Effect::SendBefore { to, message: said, .. } => {
                    let _ = writeln!(self.said, "n{name} → n{}: {}", to.node.0, message(&said));
                    self.wire.push_back((at, to.node.0 as usize - 1, said));
                }
                Effect::Arm { timer, at: when } => {
                    let _ = self.members[at].timers.insert(timer, when);
                }
                Effect::Disarm { timer } => drop(self.members[at].timers.remove(&timer)),
                Effect::Persist { position, record: logged } => {
                    let held = if self.members[at].held { " (the disk is slow)" } else { "" };
                    let _ = writeln!(self.said, "n{name} writes {}{held}", record(&logged));
                    if self.members[at].held {
                        self.members[at].writing.push((position, logged));
                    } else {
                        self.members[at].disk.push(logged);
                        durable = Some(position);
                    }
                }
                Effect::Do(event) => self.event(at, event),
            }
        }
        if let Some(through) = durable {
            let _ = self.step(at, |group, now, out| group.on_durable(now, through, out));
        }
    }

    fn event(&mut self, at: usize, event: Event) {
        let name = at + 1;
        let line = match event {
            Event::Committed { entries } => {
                for entry in &entries {
                    self.members[at].agreed.push((entry.index, entry.term, text(entry)));
                }
                let all: Vec<String> = entries
                    .iter()
                    .map(|entry| format!("{}@{}={}", entry.index, entry.term, text(entry)))
                    .collect();
                format!("n{name} has agreed: {}", all.join(" "))
            }
            Event::BecameLeader { term } => format!("n{name} leads term {term}"),
            Event::LostLeadership { term } => format!("n{name} leads term {term} no more"),
            Event::SendSnapshot { to, index, term } => {
                format!("n{name} has to send n{} everything up to {index}@{term}", to.0)
            }
            Event::Removed { index } => {
                self.members[at] = Member { removed: Some(index), ..Member::default() };
                format!("n{name} is no member since {index}")
            }
        };
        let _ = writeln!(self.said, "{line}");
    }

    fn deliver(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            let Some((from, to, said)) = self.wire.pop_front() else { return Ok(()) };
            if self.members[from].cut || self.members[to].cut {
                continue;
            }
            self.invite(to, &said);
            if self.members[to].group.is_none() {
                continue;
            }
            let sender = Address::replica(NodeId(from as u32 + 1), DatabaseId(1), ShardId(0));
            self.step(to, |group, now, out| group.on_message(now, sender, said, out))?;
        }
        Err("message delivery does not end".into())
    }

    /// Boots a member on a node that has none, if the message assigns it a membership epoch.
    fn invite(&mut self, at: usize, said: &Message) {
        let (member, Some(membership_epoch)) = (&self.members[at], said.invitation()) else {
            return;
        };
        let strange = member.group.is_none() && !member.born && member.disk.is_empty();
        if strange
            && membership_epoch.since > Index(0)
            && member.removed.is_none_or(|removed| removed < membership_epoch.since)
        {
            self.boot(at, Some(membership_epoch));
        }
    }

    fn copy_of(&self, at: usize) -> Result<Copy, String> {
        let member = &self.members[at];
        let members = member.group.as_ref().ok_or("the member is down")?.agreed_members().clone();
        Ok((member.applied, member.agreed.clone(), members))
    }

    fn take_step(&mut self, at: usize, members: Membership) -> Result<(), String> {
        self.step(at, |group, now, out| {
            group
                .propose_members(now, members, Payload::default(), out)
                .expect("the leader may propose");
            group.flush(now, out);
        })
    }

    fn command(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let count = self.members.len();
        let node = |word: &str| match word
            .strip_prefix('n')
            .and_then(|number| number.parse::<usize>().ok())
        {
            Some(number) if (1..=count).contains(&number) => Ok(number - 1),
            _ => Err(format!("{word} is not a member")),
        };
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{word}: {error}"));
        match words.as_slice() {
            ["members", many, nodes @ ..] => {
                self.now = BIRTH;
                let born = number(many)? as usize;
                let all =
                    nodes.last().map_or(Ok(born), |all| number(all).map(|all| all as usize))?;
                self.members =
                    (0..all).map(|at| Member { born: at < born, ..Member::default() }).collect();
                (0..born).for_each(|at| self.boot(at, None));
            }
            // Asks the leader to change the members: `change n1 voters n1 n2 n4 learners n5
            // witnesses n4`.
            ["change", asked, wanted @ ..] => {
                let (at, mut roster) = (node(asked)?, Roster::default());
                let mut into = &mut roster.voters;
                for word in wanted {
                    match *word {
                        "voters" => into = &mut roster.voters,
                        "learners" => into = &mut roster.learners,
                        "witnesses" => into = &mut roster.witnesses,
                        name => drop(into.insert(NodeId(node(name)? as u32 + 1))),
                    }
                }
                let group = self.members[at].group.as_ref().ok_or("the member is down")?;
                match group.change_members(roster) {
                    Ok(Some(step)) => self.take_step(at, step)?,
                    Ok(None) => drop(writeln!(self.said, "they are so already")),
                    Err(why) => drop(writeln!(self.said, "{why}")),
                }
            }
            // The leader takes its next step of a membership change, if it may.
            ["go", "on", asked] => {
                let at = node(asked)?;
                match self.members[at].group.as_ref().ok_or("the member is down")?.next_members() {
                    Some(step) => self.take_step(at, step)?,
                    None => drop(writeln!(self.said, "{asked} may take no step")),
                }
            }
            // The timer fires, whatever the present time; later timers fire after `pass`.
            ["fire", who, timer @ ("election" | "heartbeat" | "abdicate" | "confirm")] => {
                let timer = match *timer {
                    "election" => Timer::Election,
                    "heartbeat" => Timer::Heartbeat,
                    "confirm" => Timer::Confirm,
                    _ => Timer::TransferLeadership,
                };
                let at = node(who)?;
                let when =
                    self.members[at].timers.remove(&timer).ok_or("the timer is not armed")?;
                self.now = self.now.max(when);
                self.step(at, |group, now, out| group.on_timer(now, timer, out))?;
            }
            ["pass", milliseconds] => self.now += number(milliseconds)? * MS,
            ["deliver"] => self.deliver()?,
            ["lose"] => self.wire.clear(),
            ["cut", who] => self.members[node(who)?].cut = true,
            ["heal", who] => self.members[node(who)?].cut = false,
            ["propose", who, what @ ..] => {
                let at = node(who)?;
                for what in what {
                    let payload = Payload(Bytes::from(what.to_string()));
                    let group = self.members[at].group.as_mut().ok_or("the member is down")?;
                    if let Err(not) = group.propose(payload) {
                        let leader = not
                            .leader
                            .map_or("nobody it knows".into(), |node| format!("n{}", node.0));
                        let _ = writeln!(self.said, "{who} does not lead; {leader} does");
                    }
                }
                self.step(at, |group, now, out| group.flush(now, out))?;
            }
            // The member's clock is this many milliseconds ahead of the others'.
            ["clock", who, "ahead", milliseconds] => {
                self.members[node(who)?].ahead_ns = number(milliseconds)? * MS
            }
            // The member does not know the time.
            ["fence", who] => self.members[node(who)?].fenced = true,
            ["trust", who] => self.members[node(who)?].fenced = false,
            ["hold", who] => self.members[node(who)?].held = true,
            ["sync", who] => {
                let at = node(who)?;
                let written = std::mem::take(&mut self.members[at].writing);
                self.members[at].held = false;
                let through = written
                    .last()
                    .map(|(position, _)| *position)
                    .ok_or("nothing is being written")?;
                self.members[at].disk.extend(written.into_iter().map(|(_, record)| record));
                self.step(at, |group, now, out| group.on_durable(now, through, out))?;
            }
            ["crash", who] => {
                let member = &mut self.members[node(who)?];
                (member.group, member.held) = (None, false);
                member.agreed.retain(|(index, ..)| *index <= member.applied.0);
            }
            ["restart", who] => self.boot(node(who)?, None),
            ["abdicate", who] => {
                self.step(node(who)?, |group, now, out| group.transfer_leadership(now, None, out))?
            }
            ["quiesce", who] => {
                let at = node(who)?;
                let mut silent = false;
                self.step(at, |group, now, out| silent = group.quiesce(now, out))?;
                if !silent {
                    let _ = writeln!(self.said, "{who} goes on speaking");
                }
            }
            ["wake", who] => self.step(node(who)?, |group, now, out| group.wake(now, out))?,
            // A checkpoint covers the agreed entries, and the log forgets them.
            ["compact", who] => {
                let at = node(who)?;
                let member = &mut self.members[at];
                member.applied = member
                    .agreed
                    .last()
                    .map(|(index, term, _)| (*index, *term))
                    .unwrap_or_default();
                let group = member.group.as_mut().ok_or("the member is down")?;
                group.compact(member.applied.0);
                member.disk = group.checkpoint();
            }
            // A member's stored state is in transfer to another member, which answers.
            ["begin", "copy", from, to] => {
                let (from, to) = (node(from)?, node(to)?);
                let copy = self.copy_of(from)?;
                let (index, node) = (copy.0.0, NodeId(to as u32 + 1));
                self.copies.insert((from, to), copy);
                self.step(from, |group, _, _| group.snapshot_begun(node, index))?;
            }
            // A copy of a member's stored state replaces that of another member.
            ["copy", from, to] => {
                let (from, to) = (node(from)?, node(to)?);
                let begun = self.copies.remove(&(from, to));
                let ((index, term), agreed, members) =
                    begun.map_or_else(|| self.copy_of(from), Ok)?;
                (self.members[to].applied, self.members[to].agreed) = ((index, term), agreed);
                self.step(to, |group, now, out| {
                    group.install_snapshot(now, (index, term), members, out)
                })?;
                let node = NodeId(to as u32 + 1);
                self.step(from, |group, now, out| group.snapshot_delivered(now, node, index, out))?;
            }
            // The transfer is given up.
            ["copy", "fails", from, to] => {
                let (from, to) = (node(from)?, node(to)?);
                self.copies.remove(&(from, to));
                let node = NodeId(to as u32 + 1);
                self.step(from, |group, now, out| {
                    group.snapshot_delivered(now, node, Index(0), out)
                })?;
            }
            ["state"] => {
                for (at, member) in self.members.iter().enumerate() {
                    let _ = match &member.group {
                        None => writeln!(self.said, "n{} is down", at + 1),
                        Some(group) => writeln!(
                            self.said,
                            "n{}: term {}, {}, log through {}, agreed through {}{}{}",
                            at + 1,
                            group.term(),
                            match group.leader() {
                                _ if group.is_leader() => "leads".into(),
                                Some(leader) => format!("follows n{}", leader.0),
                                None => "follows nobody".to_owned(),
                            },
                            group.last_index(),
                            group.commit_index(),
                            match group.lease() {
                                Some(lease) if lease.granted_until > 0 =>
                                    format!(", lease until {}", ms(lease.granted_until)),
                                _ => String::new(),
                            },
                            if group.is_quiescent()
                                && member.timers.keys().all(|timer| *timer == Timer::Confirm)
                            {
                                ", waits for nothing"
                            } else {
                                ""
                            }
                        ),
                    };
                }
            }
            _ => return Err("there is no such command".into()),
        }
        Ok(std::mem::take(&mut self.said))
    }
}

/// Random simulations meet these once in thousands of runs.
#[test]
fn what_is_planted_and_rare_is_noticed() {
    for rule in [
        rules::ACK_BEFORE_DURABLE,
        rules::PROMISE_NOT_LOGGED,
        rules::LEASE_LEFT_BEHIND,
        rules::LOG_CONTRADICTS_STORE,
        rules::FAR_CLOCKS_HEARD,
    ] {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            transcripts();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    script::check(&folder, World::default, World::command);
}
