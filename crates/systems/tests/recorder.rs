//! Every schedule of one transaction in two shards under timestamp ordering (K2 §5.3): its recorder
//! and another shard, whose leaders may die, a coordinator that may die, readers that push, and a
//! network that loses, repeats and reorders messages.
//!
//! The records and the intents are the values that run. The leaders' rules around them are written
//! here once more, as short as they are in the paper: the model tests that the two fit together
//! under every order of events, and random worlds test the code (`sim/tests/k2.rs`). Agreement is
//! one step that happens at some time, or never if the leader dies before. Timeouts happen at any
//! time.

use meridian_clock::Timestamp;
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::Write;
use meridian_txn::TransactionId;
use meridian_txn::mvto::{Decision, Intent, Intents, Place, Recorder, State as Decided, rules};
use meridian_txn::shards::ReplicaId;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

const TXN: TransactionId = TransactionId { node: 9, incarnation: 1, number: 1 };
const AT: Timestamp = Timestamp { nanos: 10, logical: 1 << 31, issuer: 9 };
const RECORDER: ShardId = ShardId(0);
const OTHER: ShardId = ShardId(1);

/// A message. The network has each kind once it was sent, and delivers it as often as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    /// To a shard: write an intent. Its answer.
    Write(ShardId),
    Written(ShardId),
    /// To the recorder: commit, or abort. Its answer.
    Commit,
    Abort,
    Answer(bool),
    /// To the recorder: the other shard needs the outcome.
    Push,
    /// To the other shard: the outcome, and true if the recorder wants to know when it is there.
    Decided(bool, bool),
    /// To the recorder: the outcome is in the other shard's log.
    Finalized,
}

/// A command that a leader has proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Intend,
    Decide(bool),
    Finalize(bool),
}

/// A shard. Its leader's proposals, and whatever else only the leader knows, die with it.
#[derive(Clone, Debug, Default)]
struct Shard {
    intents: Intents,
    proposed: Vec<Command>,
    /// The outcome in its log, and as far as its leader remembers it.
    outcome: Option<bool>,
    remembered: Option<bool>,
    /// The outcome that readers have seen before.
    shown: Option<bool>,
    /// True if no write at the timestamp is accepted any more.
    closed: bool,
    /// True if the recorder waits for its acknowledgement.
    acknowledges: bool,
}

#[derive(Clone, Debug)]
struct State {
    recorder: Recorder,
    here: Shard,
    there: Shard,
    /// True if the other shard has pushed, and waits.
    pushed: bool,
    network: BTreeSet<Message>,
    /// The acknowledged intents.
    written: BTreeSet<ShardId>,
    asked: bool,
    told: BTreeSet<bool>,
    coordinator_died: bool,
    deaths: u32,
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        format!("{self:?}").hash(state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Deliver(Message),
    Agree(ShardId),
    LeaderDies(ShardId),
    CoordinatorDies,
    AsksToCommit,
    GivesUp,
    /// A reader, or a timer, asks for the outcome of the intent in the other shard.
    Pushes,
    /// The recorder has no sign of life of a pending transaction, or no record for a push.
    Expires,
    Repeats,
    Closes(ShardId),
    Forgets,
}

/// The schedules with so many deaths of leaders.
struct Schedules {
    deaths: u32,
    broken: Option<Rule>,
}

fn intent() -> Intent {
    Intent {
        at: AT,
        recorder: ReplicaId { shard: RECORDER, node: NodeId(1) },
        part: 0,
        writes: vec![Write { key: "a".into(), value: None }],
        withdrawn: Vec::new(),
        schemas: Vec::new(),
    }
}

impl Shard {
    fn has_intent(&self) -> bool {
        self.intents.get(TXN).is_some()
    }

    fn holds(&self) -> bool {
        self.intents.get(TXN).is_some_and(|held| held.agreed() > 0)
    }

    fn is_deciding(&self) -> bool {
        self.proposed.iter().any(|command| matches!(command, Command::Decide(_)))
    }

    /// Receives a write. Returns true if it is in the log already.
    fn on_write(&mut self, shard: ShardId) -> bool {
        let ended = self.remembered.is_some() || self.closed || self.is_deciding();
        if !self.has_intent() && !ended {
            self.intents.propose(shard, TXN, intent(), 0);
            self.proposed.push(Command::Intend);
        }
        self.holds() || self.remembered == Some(true)
    }

    /// Its leader dies: what was proposed was not agreed.
    fn dies(&mut self, shard: ShardId) {
        self.proposed.clear();
        self.intents.forget_proposed(shard);
        self.acknowledges = false;
    }
}

impl State {
    fn shard(&mut self, shard: ShardId) -> &mut Shard {
        if shard == RECORDER { &mut self.here } else { &mut self.there }
    }

    fn send(&mut self, message: Message) {
        self.network.insert(message);
    }

    fn propose_decision(&mut self, commits: bool) {
        if !self.here.is_deciding() {
            self.here.proposed.push(Command::Decide(commits));
        }
    }

    fn deliver(&mut self, message: Message) {
        let state = self.recorder.state(TXN);
        match message {
            Message::Write(RECORDER) if state == Some(Decided::Aborted) => {}
            Message::Write(shard) => {
                if self.shard(shard).on_write(shard) {
                    self.send(Message::Written(shard));
                }
            }
            Message::Written(shard) => drop(self.written.insert(shard)),
            Message::Commit => match (self.here.remembered, state) {
                (Some(outcome), _) => self.send(Message::Answer(outcome)),
                (None, Some(Decided::Pending)) => self.propose_decision(true),
                (None, Some(decided)) => self.send(Message::Answer(decided == Decided::Committed)),
                // Without a record it has not begun, or has ended: aborted for good.
                (None, None) if !self.here.closed => self.propose_decision(false),
                (None, None) => {} // The outcome may have been forgotten: it is unknown.
            },
            Message::Abort => {
                let open = state.is_none_or(|state| state == Decided::Pending);
                if open && !self.here.closed {
                    self.propose_decision(false);
                }
            }
            Message::Answer(outcome) => drop(self.told.insert(outcome)),
            Message::Push => match state {
                Some(Decided::Pending) => self.pushed = true,
                Some(decided) => self.send(Message::Decided(decided == Decided::Committed, false)),
                None if self.here.closed => self.send(Message::Decided(false, false)),
                None => self.pushed = true,
            },
            Message::Decided(outcome, wanted) => {
                let Some(held) = self.there.intents.get(TXN) else {
                    if wanted {
                        self.send(Message::Finalized);
                    }
                    return;
                };
                let known = held.decided.is_some();
                self.there.acknowledges |= wanted;
                if !known {
                    self.there.proposed.push(Command::Finalize(outcome));
                    let at = outcome.then_some(AT);
                    self.there.intents.decide(OTHER, TXN, at);
                    if outcome {
                        self.there.shown = Some(true);
                    }
                }
            }
            Message::Finalized => self.recorder.acknowledge(TXN, OTHER),
        }
    }

    fn agree(&mut self, shard: ShardId) {
        match self.shard(shard).proposed.remove(0) {
            Command::Intend => {
                let begins = shard == RECORDER;
                let refused = begins && self.recorder.begin(TXN, AT, 0) != Decided::Pending;
                match refused {
                    true => drop(self.here.intents.remove(shard, TXN)),
                    false => {
                        self.shard(shard).intents.agree(shard, TXN, intent(), 0);
                        self.send(Message::Written(shard));
                    }
                }
            }
            Command::Decide(commits) => {
                let decided =
                    self.recorder.state(TXN).is_some_and(|state| state != Decided::Pending);
                let places = vec![Place { shard: OTHER, term: 1, parts: 1 }];
                let state = match commits {
                    true => self.recorder.commit(TXN, AT, places, 0),
                    false => self.recorder.abort(TXN, AT, places, 0),
                };
                let committed = state == Decided::Committed;
                self.send(Message::Answer(committed));
                if !decided || committed != (self.here.outcome == Some(true)) {
                    self.here.outcome = Some(committed);
                    self.here.remembered = Some(committed);
                    self.here.intents.remove(RECORDER, TXN);
                    for Decision { at, .. } in self.recorder.decisions_of(TXN) {
                        self.send(Message::Decided(at.is_some(), at.is_some()));
                    }
                }
                if std::mem::take(&mut self.pushed) {
                    self.send(Message::Decided(committed, false));
                }
            }
            Command::Finalize(outcome) => {
                if self.there.intents.remove(OTHER, TXN).is_some() {
                    self.there.outcome = Some(outcome);
                    self.there.remembered = Some(outcome);
                    self.there.shown = self.there.shown.or(Some(outcome));
                }
                if std::mem::take(&mut self.there.acknowledges) {
                    self.send(Message::Finalized);
                }
            }
        }
    }

    /// The outcomes that something shows: a shard, or the client.
    fn shows(&self) -> BTreeSet<bool> {
        let shards = [self.here.outcome, self.there.outcome, self.there.shown];
        shards.into_iter().flatten().chain(self.told.iter().copied()).collect()
    }
}

impl Model for Schedules {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let network = [Message::Write(RECORDER), Message::Write(OTHER)].into();
        vec![State {
            recorder: Recorder::default(),
            here: Shard::default(),
            there: Shard::default(),
            pushed: false,
            network,
            written: BTreeSet::new(),
            asked: false,
            told: BTreeSet::new(),
            coordinator_died: false,
            deaths: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let delivered = state.network.iter().filter(|message| {
            let to_coordinator = matches!(message, Message::Written(_) | Message::Answer(_));
            !(to_coordinator && state.coordinator_died)
        });
        actions.extend(delivered.map(|message| Action::Deliver(*message)));
        let shards = [(RECORDER, &state.here), (OTHER, &state.there)];
        for (shard, there) in shards {
            if !there.proposed.is_empty() {
                actions.push(Action::Agree(shard));
            }
            if state.deaths < self.deaths {
                actions.push(Action::LeaderDies(shard));
            }
            // A shard closes timestamps below everything that is undecided in it.
            if !there.closed && !there.has_intent() && there.proposed.is_empty() {
                actions.push(Action::Closes(shard));
            }
        }
        if !state.coordinator_died {
            actions.push(Action::CoordinatorDies);
            if !state.asked {
                actions.push(Action::GivesUp);
                if state.written.len() == 2 {
                    actions.push(Action::AsksToCommit);
                }
            }
        }
        if state.there.intents.get(TXN).is_some_and(|held| held.decided.is_none()) {
            actions.push(Action::Pushes);
        }
        let expires = match state.recorder.state(TXN) {
            Some(Decided::Pending) => true,
            None => state.pushed && !state.here.has_intent(),
            Some(_) => false,
        };
        if expires && !state.here.is_deciding() {
            actions.push(Action::Expires);
        }
        if !state.recorder.unacknowledged().is_empty() {
            actions.push(Action::Repeats);
        }
        let closed = if state.here.closed { AT } else { Timestamp::ZERO };
        if !forgettable(self.broken, &state.recorder, closed).is_empty() {
            actions.push(Action::Forgets);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        plant(self.broken, self.broken.is_some()); // Threads of the checker come and go.
        let mut state = last.clone();
        match action {
            Action::Deliver(message) => state.deliver(message),
            Action::Agree(shard) => state.agree(shard),
            Action::LeaderDies(shard) => {
                state.deaths += 1;
                state.shard(shard).dies(shard);
                // Its successor has what its log says of commits, and its records.
                let there = state.shard(shard);
                there.remembered = there.remembered.filter(|committed| *committed);
                if shard == RECORDER {
                    state.here.remembered = None;
                    state.pushed = false;
                    let record = state.recorder.get(TXN).cloned();
                    state.recorder =
                        Recorder::restore(record.map(|record| (TXN, record)).into_iter().collect());
                }
            }
            Action::CoordinatorDies => state.coordinator_died = true,
            Action::AsksToCommit => {
                state.asked = true;
                state.send(Message::Commit);
            }
            Action::GivesUp => {
                state.coordinator_died = true;
                state.send(Message::Abort);
            }
            Action::Pushes => state.send(Message::Push),
            Action::Expires => state.propose_decision(false),
            Action::Repeats => state.send(Message::Decided(true, true)),
            Action::Closes(shard) => state.shard(shard).closed = true,
            Action::Forgets => state.recorder.forget(&[TXN]),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_OUTCOME, |_, state: &State| state.shows().len() < 2),
            Property::always(KEPT, |_, state: &State| {
                let committed = state.here.outcome == Some(true);
                let known = state.recorder.state(TXN) == Some(Decided::Committed);
                !committed || !state.there.holds() || known
            }),
            Property::always("a commit has its intents in both logs", |_, state: &State| {
                let there = state.there.holds() || state.there.outcome == Some(true);
                state.here.outcome != Some(true) || there
            }),
            Property::sometimes("it commits in both shards", |_, state: &State| {
                [state.here.outcome, state.there.outcome] == [Some(true); 2]
            }),
            Property::sometimes("a dead coordinator's commit is known", |_, state: &State| {
                state.coordinator_died && state.there.outcome == Some(true)
            }),
            Property::sometimes("a push aborts what has no record", |_, state: &State| {
                let none = !state.written.contains(&RECORDER) && !state.here.has_intent();
                none && state.there.outcome == Some(false)
            }),
            Property::sometimes("everything is forgotten after a commit", |_, state: &State| {
                state.here.outcome == Some(true) && state.recorder.is_empty()
            }),
        ]
    }
}

const ONE_OUTCOME: &str = "shards and client find one outcome";
const KEPT: &str = "a commit is remembered while an intent asks for it";

fn forgettable(broken: Option<Rule>, recorder: &Recorder, closed: Timestamp) -> Vec<TransactionId> {
    plant(broken, broken.is_some());
    recorder.forgettable(closed)
}

/// Explores all schedules. Fails with the name of a property that does not hold.
fn explore(deaths: u32, broken: Option<Rule>) -> Result<(), &'static str> {
    let schedules = Schedules { deaths, broken };
    let checker = schedules.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let discoveries = checker.discoveries();
    match [ONE_OUTCOME, KEPT].into_iter().find(|name| discoveries.contains_key(name)) {
        Some(name) => {
            let path = discoveries[name].clone();
            println!("{name}: {:?}", path.into_actions());
            Err(name)
        }
        None => {
            checker.assert_properties();
            Ok(())
        }
    }
}

#[test]
fn every_schedule_with_three_deaths_of_leaders_finds_one_outcome() {
    assert_eq!(explore(3, None), Ok(()));
}

/// `DECIDED_TWICE` is not among them: a leader proposes one decision at a time, and its successor
/// has that in its log. The record's own test holds it (`txn/src/mvto/recorder.rs`).
#[test]
fn planted_defects_are_found() {
    assert_eq!(explore(1, Some(rules::TOMBSTONE_FORGOTTEN)), Err(ONE_OUTCOME));
    assert_eq!(explore(0, Some(rules::RECORD_FORGOTTEN)), Err(KEPT));
}
