//! Every schedule of a small world: one shard of three replicas (f = 1), two transactions of which
//! one may commit, two view changes, and a recovery of one transaction.
//!
//! The explored code is the code that runs, not a model of it: replicas are cloned and stepped. Two
//! steps are coarser than in reality. A request and its answer are one step: a coordinator that
//! waits before it concludes equals a late answer, and one that never concludes equals a lost
//! answer. Leaving a view and merging the next one are one step as well. That the other replicas
//! learn of the view, late or never, is a step of its own, so that views are bypassed. Disks are
//! synced at once: random worlds test the loss of unsynced records (`tapir.rs`).

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::Unordered;
use meridian_replication::inconsistent::{
    self, Config, Invocation, Message as Said, Op, OpId, Part, RecordOf, ReplicaSet, Timer, View,
};
use meridian_systems::tapir::{Shard, common};
use meridian_txn::TransactionId;
use meridian_txn::tapir::rules;
use meridian_txn::tapir::{
    ConsensusOp, ConsensusResult, Footprint, Guarantee, InconsistentOp, Proposal, RangeRead,
    TxnStatus, Vote,
};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Replica = inconsistent::Replica<Shard>;
type Message = Said<InconsistentOp, ConsensusOp, ConsensusResult>;

const REPLICAS: usize = 3;
/// The operations: the two proposals, and two questions about the first.
const OPS: usize = 4;
const SLOW: u64 = 1_000_000_000;

/// An operation, as its client sees it.
#[derive(Clone)]
struct Client {
    heard: Invocation<ConsensusResult>,
    decided: Option<ConsensusResult>,
    /// Its result.
    result: Option<ConsensusResult>,
    /// The replicas that received a message, with the view of the client: not again in the same
    /// view.
    asked: [bool; REPLICAS],
    told: [Option<View>; REPLICAS],
}

#[derive(Clone)]
struct State {
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    /// The outcomes of the transactions, as the clients found them.
    ends: [Option<bool>; 2],
    contradicted: bool,
    /// The views that began, with their records.
    views: BTreeMap<View, RecordOf<Shard>>,
    changes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Ask {
        op: usize,
        replica: usize,
    },
    Decide {
        op: usize,
    },
    Finalize {
        op: usize,
        replica: usize,
    },
    Conclude {
        op: usize,
    },
    /// All replicas, or all but one, leave for a view that one of them merges.
    Change {
        without: Option<usize>,
    },
    Start {
        replica: usize,
        view: View,
    },
}

struct Small {
    changes: u32,
    /// The operations: the two proposals, or one proposal and the questions of its recovery.
    ops: &'static [usize],
    /// The operations whose coordinator takes the slow path if necessary.
    slow: &'static [usize],
    broken: Option<Rule>,
}

fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

fn address(at: usize) -> Address {
    Address::replica(node(at), DatabaseId(1), ShardId(0))
}

fn client() -> Address {
    Address {
        node: NodeId(9),
        incarnation: Incarnation(1),
        role: Role::Coordinator(0),
        ..address(0)
    }
}

fn now() -> Reading {
    Reading::at(SLOW, Interval::around(SLOW, 1))
}

fn id(op: usize) -> OpId {
    OpId { node: 9, incarnation: 1, number: op as u64 }
}

fn who(transaction: usize) -> TransactionId {
    TransactionId { node: 9, incarnation: 1, number: transaction as u64 }
}

/// Each transaction has read the key that the other writes, and found nothing.
fn proposal(transaction: usize) -> Proposal {
    let key = |at: usize| Key::from([&b"a"[..], &b"b"[..]][at]);
    let (reads, writes) = (key(transaction), key(1 - transaction));
    let seen =
        RangeRead { range: KeyRange::point(reads), versions: Vec::new(), through: Timestamp::ZERO };
    let footprint = Arc::new(Footprint {
        reads: vec![seen],
        writes: vec![Write { key: writes, value: Some(Value::from("1")) }],
        participants: vec![ShardId(0)],
    });
    let at = Timestamp { nanos: 10 + transaction as u64, logical: 1, issuer: 9 };
    Proposal { transaction: who(transaction), attempt: 0, at, footprint }
}

fn question(op: usize) -> ConsensusOp {
    let (transaction, through) = (who(0), Timestamp::end_of(SLOW));
    if op < 2 {
        ConsensusOp::Prepare(proposal(op))
    } else {
        ConsensusOp::Resolve { transaction, through }
    }
}

impl State {
    /// Steps a replica, with a disk that is synced at once, and returns its messages.
    fn step(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Replica, &mut Outbox<Replica>),
    ) -> Vec<(Address, Message)> {
        let replica = &mut self.replicas[at];
        // A replica's positions start anew with each outbox: earlier records are on disk.
        let mut out = Outbox::new();
        step(replica, &mut out);
        replica.on_durable(now(), out.persisted(), &mut out);
        let said = |effect| match effect {
            Do::Send { to, message } => Some((to, message)),
            _ => None,
        };
        out.drain().filter_map(said).collect()
    }

    fn says(&mut self, to: usize, message: Message) -> Vec<(Address, Message)> {
        self.step(to, |replica, out| replica.on_message(now(), client(), message, out))
    }

    fn hears(&mut self, op: usize, from: usize, said: Vec<(Address, Message)>) {
        for (_, message) in said {
            let heard = &mut self.clients[op].heard;
            match message {
                Said::Reply { view, state, .. } => heard.on_reply(node(from), view, state),
                Said::Confirm { view, .. } => heard.on_confirm(node(from), view),
                _ => {}
            }
        }
    }

    fn concludes(&self, op: usize) -> Option<&ConsensusResult> {
        let client = &self.clients[op];
        client.heard.settled().or(client.heard.fast()).filter(|_| client.result.is_none())
    }

    /// Records the outcome of a transaction that a client found.
    fn ended(&mut self, transaction: usize, committed: bool) {
        let known = self.ends[transaction].get_or_insert(committed);
        self.contradicted |= *known != committed;
    }

    fn change(&mut self, without: Option<usize>) {
        self.changes += 1;
        let leaving: Vec<usize> = (0..REPLICAS).filter(|at| Some(*at) != without).collect();
        let newest =
            leaving.iter().map(|at| self.replicas[*at].view().number).max().expect("two or three");
        let led =
            |view: &View| leaving.iter().any(|at| node(*at) == self.replicas[0].leader_of(*view));
        let view = (newest + 1..).map(View::of).find(led).expect("one of any three");
        let leader = self.replicas[0].leader_of(view).0 as usize - 1;
        let mut changes = Vec::new();
        for at in &leaving {
            let from = address(if *at == leader {
                leaving[usize::from(leaving[0] == leader)]
            } else {
                leader
            });
            let said = self.step(*at, |replica, out| {
                replica.on_message(now(), from, Said::LeaveView { view }, out)
            });
            let change = |(_, message): (Address, Message)| {
                matches!(message, Said::Change { .. }).then_some(message)
            };
            changes.extend(said.into_iter().filter_map(change).map(|message| (*at, message)));
        }
        let mut said = Vec::new();
        for (from, message) in changes {
            let from = address(from);
            said.extend(
                self.step(leader, |replica, out| replica.on_message(now(), from, message, out)),
            );
        }
        // A replica that was not in the view before requests the record with which that began.
        let wanted = said.into_iter().filter(|(_, message)| matches!(message, Said::More { .. }));
        for (of, message) in wanted.collect::<Vec<_>>() {
            let (of, from) = (of.node.0 as usize - 1, address(leader));
            for (_, message) in
                self.step(of, |replica, out| replica.on_message(now(), from, message, out))
            {
                self.step(leader, |replica, out| {
                    replica.on_message(now(), address(of), message, out)
                });
            }
        }
        self.step(leader, |replica, out| replica.on_timer(now(), Timer::Gather, out));
        let leader = &self.replicas[leader];
        if leader.began() == view {
            self.views.insert(view, leader.record().began().clone());
        }
    }
}

/// Everything of a state that matters, as text: states with the same text continue alike.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for replica in &self.replicas {
            let (record, participant) = (replica.record(), replica.application().participant());
            let (began, since) = (record.began(), record.since());
            write!(
                f,
                "{} {} {began:?} {since:?} {participant:?};",
                replica.view(),
                replica.began()
            )?;
        }
        for Client { heard, decided, result, asked, told } in &self.clients {
            write!(f, "{heard:?} {decided:?} {result:?} {asked:?} {told:?};")?;
        }
        let views: Vec<&View> = self.views.keys().collect();
        write!(f, "{:?} {} {} {views:?}", self.ends, self.contradicted, self.changes)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        format!("{self:?}").hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let replica = |at: usize| {
            let (members, database, shard) =
                (ReplicaSet::first((0..REPLICAS).map(node).collect()), DatabaseId(1), ShardId(0));
            let config = Config {
                me: node(at),
                members,
                database,
                shard,
                repeat_ns: SLOW,
                view_timeout_ns: SLOW,
                gather_ns: SLOW,
                part_bytes: usize::MAX,
            };
            let shard = Shard::new(Guarantee::StrictlySerializable, ShardId(0), KeyRange::all());
            Replica::new(config, shard, Vec::new(), now(), &mut Outbox::new())
                .expect("one of three")
        };
        let heard = Invocation::new(0, Unordered::of(REPLICAS).expect("three"));
        let client = Client {
            heard,
            decided: None,
            result: None,
            asked: [false; REPLICAS],
            told: [None; REPLICAS],
        };
        vec![State {
            replicas: (0..REPLICAS).map(replica).collect(),
            clients: vec![client; OPS],
            ends: [None; 2],
            contradicted: false,
            views: BTreeMap::new(),
            changes: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for op in self.ops.iter().copied() {
            let client = &state.clients[op];
            // The second question comes after the first was answered `Open`.
            let open = |op: usize| {
                state.clients[op].result == Some(ConsensusResult::Stands(TxnStatus::Open))
            };
            if op == 3 && !open(2) || client.result.is_some() {
                continue;
            }
            for replica in (0..REPLICAS).filter(|at| !state.replicas[*at].is_between_views()) {
                let view = Some(state.replicas[replica].view());
                if !client.asked[replica] {
                    actions.push(Action::Ask { op, replica });
                }
                if client.decided.is_some() && client.told[replica] != view {
                    actions.push(Action::Finalize { op, replica });
                }
            }
            if self.slow.contains(&op)
                && client.decided.is_none()
                && client.heard.answers().is_some()
            {
                actions.push(Action::Decide { op });
            }
            actions.extend(state.concludes(op).map(|_| Action::Conclude { op }));
        }
        if state.changes < self.changes {
            actions.extend(
                [None, Some(0), Some(1), Some(2)].map(|without| Action::Change { without }),
            );
        }
        for view in state.views.keys() {
            let behind = (0..REPLICAS).filter(|at| {
                state.replicas[*at].view() <= *view && state.replicas[*at].began() < *view
            });
            actions.extend(behind.map(|replica| Action::Start { replica, view: *view }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        plant(self.broken, self.broken.is_some()); // Threads of the checker come and go.
        let mut state = last.clone();
        match action {
            Action::Ask { op, replica } => {
                state.clients[op].asked[replica] = true;
                let message = Said::Propose {
                    id: id(op),
                    op: Op::Consensus(question(op)),
                    newest: View::of(0),
                };
                let said = state.says(replica, message);
                state.hears(op, replica, said);
            }
            Action::Decide { op } => {
                let answers = state.clients[op].heard.answers()?;
                let answer = common(&question(op), answers, 2);
                let client = &mut state.clients[op];
                client.decided = Some(client.heard.decide(answer).clone());
            }
            Action::Finalize { op, replica } => {
                state.clients[op].told[replica] = Some(state.replicas[replica].view());
                let result = state.clients[op].decided.clone();
                let decided = state.clients[op].heard.decided().unwrap_or_default();
                let said = state.says(
                    replica,
                    Said::Finalize { id: id(op), result, newest: View::of(0), decided },
                );
                state.hears(op, replica, said);
            }
            Action::Conclude { op } => {
                let answer = state.concludes(op)?.clone();
                match (&answer, op) {
                    (ConsensusResult::Vote(vote), 0 | 1) => state.ended(op, *vote == Vote::Ok),
                    (ConsensusResult::Stands(TxnStatus::Open), _) => {}
                    (
                        ConsensusResult::Stands(TxnStatus::Committed(_) | TxnStatus::Prepared(_)),
                        _,
                    ) => state.ended(0, true),
                    (ConsensusResult::Stands(TxnStatus::Aborted | TxnStatus::Never), _) => {
                        state.ended(0, false)
                    }
                    _ => state.contradicted = true,
                }
                state.clients[op].result = Some(answer);
            }
            Action::Change { without } => state.change(without),
            Action::Start { replica, view } => {
                let (part, from) =
                    (Part::whole(state.views[&view].clone()), state.replicas[0].leader_of(view));
                let from = address(from.0 as usize - 1);
                state.step(replica, |replica, out| {
                    replica.on_message(now(), from, Said::StartView { view, part }, out);
                });
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "every client finds the same outcome of a transaction",
                |_, state: &State| !state.contradicted,
            ),
            Property::always("one of the two commits at most", |_, state: &State| {
                state.ends != [Some(true); 2]
            }),
            Property::sometimes("the first commits, and a view has begun", |_, state: &State| {
                state.ends[0] == Some(true) && !state.views.is_empty()
            }),
            Property::sometimes("a peer recovers a commit", |model: &Small, state: &State| {
                let recovered = |client: &Client| {
                    matches!(client.result, Some(ConsensusResult::Stands(TxnStatus::Prepared(_))))
                };
                !model.ops.contains(&2) || state.clients.iter().any(recovered)
            }),
            Property::sometimes("a peer recovers an abort", |model: &Small, state: &State| {
                let recovered = |client: &Client| {
                    client.result == Some(ConsensusResult::Stands(TxnStatus::Never))
                };
                !model.ops.contains(&2) || state.clients.iter().any(recovered)
            }),
        ]
    }
}

/// Returns a world with two conflicting transactions, and a view that may begin at any moment.
const CONFLICT: Small = Small { changes: 1, ops: &[0, 1], slow: &[0], broken: None };
/// Returns a world with one transaction, whose coordinator may be gone or slow, and its recovery.
const RECOVERY: Small = Small { changes: 1, ops: &[0, 2, 3], slow: &[0], broken: None };

fn explored(world: Small) -> Result<(), String> {
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    println!(
        "{} states, {} of them different",
        checker.state_count(),
        checker.unique_state_count()
    );
    match checker
        .discoveries()
        .keys()
        .find(|name| name.contains("finds the same") || name.contains("at most"))
    {
        Some(name) => Err((*name).to_owned()),
        None => {
            checker.assert_properties();
            Ok(())
        }
    }
}

#[test]
fn two_that_contradict_each_other_do_not_both_commit() {
    explored(CONFLICT).unwrap();
}

#[test]
fn any_recovery_finds_what_the_coordinator_does() {
    explored(RECOVERY).unwrap();
}

/// Explores worlds where every operation takes the slow path: millions of states.
#[test]
#[ignore = "some minutes, optimized"]
fn larger_worlds() {
    explored(Small { slow: &[0, 1], ..CONFLICT }).unwrap();
    explored(Small { slow: &[0, 3], ..RECOVERY }).unwrap();
}

#[test]
fn a_planted_defect_is_found() {
    let broken = Some(rules::RESOLVED_IN_ITS_VIEW);
    assert_eq!(
        explored(Small { changes: 0, ops: &[0, 2], broken, ..RECOVERY }),
        Err("every client finds the same outcome of a transaction".into())
    );
}
