//! Schedules of replicas of TAPIR's shards that random worlds meet too seldom: who hears what, in which order, is written down here.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Role, ShardId};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::inconsistent::{Config, Message as Said, Op, OpId, State, Timer, View};
use meridian_systems::tapir::{Effect, Message, Replica, Shard};
use meridian_txn::TransactionId;
use meridian_txn::tapir::{Answer, Guarantee, Proposal, Question, Vote};
use std::collections::VecDeque;

const NOW: u64 = 1_000_000_000;

/// Replicas of one shard, whose disks are synced at once. What they say to each other arrives if both are heard.
struct Group {
    replicas: Vec<(Replica, Outbox<Replica>)>,
    heard: Vec<bool>,
    /// Snapshots that were served, and answers to clients.
    served: usize,
    answers: Vec<Message>,
}

fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

fn address(at: usize) -> Address {
    Address::replica(node(at), DatabaseId(1), ShardId(0))
}

fn client() -> Address {
    Address { node: NodeId(9), incarnation: Incarnation(1), role: Role::Coordinator(0), ..address(0) }
}

fn now() -> Reading {
    Reading::at(NOW, Interval::around(NOW, 1))
}

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 1, issuer: 9 }
}

fn id(number: u64) -> OpId {
    OpId { node: 9, incarnation: 1, number }
}

fn writes(number: u64, nanos: u64, key: &str) -> Proposal {
    Proposal {
        transaction: TransactionId { node: 9, incarnation: 1, number },
        attempt: 0,
        at: at(nanos),
        reads: Vec::new(),
        writes: vec![Write { key: Key::from(key), value: Some(Value::from("1")) }],
        participants: vec![ShardId(0)],
    }
}

impl Group {
    fn of(replicas: usize) -> Group {
        let replica = |at: usize| {
            let config = Config {
                me: node(at),
                replicas: (0..replicas).map(node).collect(),
                database: DatabaseId(1),
                shard: ShardId(0),
                repeat_ns: NOW,
                view_timeout_ns: NOW,
                gather_ns: NOW,
            };
            let shard = Shard::new(Guarantee::StrictlySerializable, ShardId(0), KeyRange::all());
            let mut out = Outbox::new();
            let replica = Replica::new(config, Incarnation(1), shard, Vec::new(), now(), &mut out);
            (replica.expect("one of them"), out)
        };
        Group {
            replicas: (0..replicas).map(replica).collect(),
            heard: vec![true; replicas],
            served: 0,
            answers: Vec::new(),
        }
    }

    /// One is stepped, and then whoever it speaks to.
    fn step(&mut self, at: usize, step: impl FnOnce(&mut Replica, &mut Outbox<Replica>)) {
        let mut wire = VecDeque::from(self.said(at, step));
        while let Some((from, to, message)) = wire.pop_front() {
            if self.heard[from] && self.heard[to] {
                wire.extend(self.said(to, |replica, out| replica.on_message(now(), address(from), message, out)));
            }
        }
    }

    fn said(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Replica, &mut Outbox<Replica>),
    ) -> Vec<(usize, usize, Message)> {
        let (replica, out) = &mut self.replicas[at];
        step(replica, out);
        let through = out.persisted();
        replica.on_durable(now(), through, out);
        let (effects, mut said): (Vec<_>, _) = (out.drain().collect(), Vec::new());
        for effect in effects {
            match effect {
                Do::Send { to, message } if to.node == client().node => self.answers.push(message),
                Do::Send { to, message } => said.push((at, to.node.0 as usize - 1, message)),
                Do::Do(Effect::Serve(_)) => self.served += 1,
                _ => {}
            }
        }
        said
    }

    fn tells(&mut self, to: usize, message: Message) {
        self.step(to, |replica, out| replica.on_message(now(), client(), message, out));
    }

    fn proposes(&mut self, to: usize, number: u64, proposal: &Proposal) {
        let op = Op::Consensus(Question::Prepare(proposal.clone()));
        self.tells(to, Message::Operation(Said::Propose { id: id(number), op, newest: View(0) }));
    }

    /// One leaves its view; the next one's leader does not wait for who is not heard.
    fn begins_another_view(&mut self, by: usize, leader: usize) {
        self.step(by, |replica, out| replica.change_view(now(), out));
        self.step(leader, |replica, out| replica.on_timer(now(), Timer::Gather, out));
    }

    fn vote(&self, at: usize, number: u64) -> Option<Vote> {
        let entry = self.replicas[at].0.operations().record().get(&id(number))?;
        match &entry.state {
            State::Finalized(Some(Answer::Vote(vote))) => Some(*vote),
            _ => None,
        }
    }
}

/// n1 has missed a view, and does not know; it serves a snapshot, as n2 does. Then n2 is away, and the next view is merged from the other two.
#[test]
fn nobody_writes_below_a_snapshot_that_was_served_in_an_older_view() {
    let mut group = Group::of(3);
    group.heard[0] = false;
    group.begins_another_view(1, 1);
    group.proposes(2, 1, &writes(1, 10, "k"));
    for replica in [0, 1] {
        let look = Message::Look { id: id(2), at: at(20), range: KeyRange::all(), reverse: false, limit_rows: 1 };
        group.tells(replica, look);
    }
    assert_eq!(group.served, 2, "so many are enough");
    group.heard = vec![true, false, true];
    group.begins_another_view(2, 2);
    for replica in [0, 2] {
        assert_eq!(group.replicas[replica].0.operations().began(), View(2));
        assert!(matches!(group.vote(replica, 1), Some(Vote::Retry(above)) if above >= at(20)));
    }
}

#[test]
fn rules_whose_breach_is_rarely_seen_are_held_by_schedules() {
    let schedules: [(Rule, fn()); 1] =
        [(Rule::OlderViewsNotCounted, nobody_writes_below_a_snapshot_that_was_served_in_an_older_view)];
    for (rule, schedule) in schedules {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            schedule();
        });
        assert!(broken.join().is_err(), "{rule:?} was not noticed");
    }
}
