//! The world of TAPIR, without leaders: its events beside faults, the recovery of overdue
//! transactions, and the conditions at the end of a run.

mod delays;
mod dropping;
mod moving;

use super::scenario::start_of;
use super::{Event, HISTORY, LIVENESS, MS, S, World};
use crate::node_process::{Install, NodeFailure};
use crate::scenario::Scenario;
use crate::sim_protocol::{MessageOf, SimProtocol};
use crate::tapir::node_process::{Member, NodeProcess, Own, StartConfig};
use crate::tapir::request_router::RequestRouter;
use crate::tapir::{Halves, Tapir};
use crate::{Defect, Options};
use meridian_machine::{Address, NodeId, Role, ShardId, sometimes};
use meridian_mvcc::{KeyRange, StoreError, local};
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::{Message as Said, View};
use meridian_store::ShardStore;
use meridian_systems::Wire;
use meridian_systems::envelope;
use meridian_systems::tapir::{
    self, Effect, KIND, LogRecord, Message, Page, Progress, Replica, Serve, TruncationPolicy,
};
use meridian_txn::tapir::Guarantee;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time from the start within which all view changes and closed sessions of a run are
/// scheduled.
const WITHIN: u64 = 15 * S;
/// The interval at which a node looks for overdue prepared transactions.
const LOOK_EVERY: u64 = 100 * MS;
/// The age from which a prepared transaction is overdue, at least.
const OVERDUE: u64 = 400 * MS;
/// The truncation policy: often enough to happen within a run, yet rare enough that a slow
/// replica's copy does not restart forever.
const SOON: TruncationPolicy =
    TruncationPolicy { every_ns: 500 * MS, behind_ns: 2_000 * MS, enough_bytes: 32 << 10 };
/// The delay after which the next node recovers a transaction that is still prepared.
const TURN: u64 = 1_500 * MS;
/// The time after which a recovery attempt gives up.
const PATIENCE: u64 = 5 * S;

/// The prefix of the keys of the clients' SQL table.
const ROWS_OF_TABLE: &[u8] = b"\x02\x00\x00\x40\x00\x40";

/// Returns how long a prepare is delayed: up to 5 ms in every fifth seed, else zero. It is computed
/// from the seed, so that other draws do not change. Scenarios have no delay.
fn wait_of(options: &Options) -> u64 {
    let waits = options.scenario.is_none() && options.seed % 5 == 4;
    if waits { (1 + options.seed / 5 % 5) * MS } else { 0 }
}

/// Events that only worlds of TAPIR have.
pub enum ProtocolEvent {
    /// A node looks for overdue prepared transactions.
    Look,
    /// A random node changes the view of a shard.
    ChangeView,
    /// A client session closes, in the middle of its transaction.
    Leave,
    /// Serves a read from a replica's store, even if the replica has been removed meanwhile.
    Serve(ShardId, Arc<ShardStore>, Box<Serve>),
    Late(ShardId),
    /// Moves the replicas to other nodes.
    Move,
    /// A node starts or retries to complete the catalog row of this epoch.
    CarryOutChange(u32),
    /// A node receives a row of the catalog.
    Learn(usize),
    /// The database is dropped.
    Drop,
    /// A random node loses power.
    LosePower,
}

impl SimProtocol for Tapir {
    type Replica = Replica;
    type RequestRouter = RequestRouter;
    type Own = Own;
    type ProtocolEvent = ProtocolEvent;
    type Catalog = moving::Catalog;

    fn write_frame(from: Address, to: Address, message: &Message) -> Vec<u8> {
        envelope::write_frame(KIND, from, to, message)
    }

    fn read_frame(bytes: &[u8]) -> Result<(Address, Address, Message), String> {
        envelope::read_frame(KIND, bytes)
    }

    fn write_record(record: LogRecord) -> Vec<u8> {
        envelope::write(KIND, &vec![record])
    }

    fn begin(world: &World<Self>, node: usize, seed: u64) -> Result<NodeProcess, NodeFailure> {
        let there = &world.nodes[node];
        let (seen, row) = world.initial_row(node, seed);
        let start = StartConfig {
            me: world.members[node],
            incarnation: there.incarnation,
            all: world.members.clone(),
            seen,
            row,
            seed,
            guarantee: world.guarantee(),
            halves: world.halves(),
            // Scenarios measure the server's own policy.
            truncation: world.options.scenario.map_or(SOON, |_| TruncationPolicy::default()),
            wait_ns: wait_of(&world.options),
            defect: world.options.defect,
            clock: Arc::clone(&there.clock),
        };
        NodeProcess::begin(start, there.peer_identities.admitted(), &there.disks)
    }

    fn on_begin(world: &mut World<Self>, node: usize) {
        let (target, after) = (world.target(node), world.rng.random_range(0..LOOK_EVERY));
        world.push(after, target, Event::Of(ProtocolEvent::Look));
        world.see_rows(node);
    }

    /// Checks that each server holds a replica of both shards; they exist from boot on.
    fn set(world: &mut World<Self>, scenario: Scenario) {
        let servers = world.nodes.len() - scenario.gateways;
        assert!(
            scenario.groups == 2 && scenario.replicas == servers,
            "two shards, with a replica on each server"
        );
    }

    /// Returns a minority; if replicas move, one node fewer.
    fn spares(world: &World<Self>) -> usize {
        let minority = (world.nodes.len() - world.options.gateways - 1) / 2;
        if world.moves { minority.saturating_sub(1) } else { minority }
    }

    fn plan(world: &mut World<Self>) {
        for _ in 0..world.rng.random_range(0..12) {
            let after = world.rng.random_range(0..WITHIN);
            world.push(after, None, Event::Of(ProtocolEvent::ChangeView));
        }
        for _ in 0..world.rng.random_range(0..20) {
            let after = world.rng.random_range(0..WITHIN);
            world.push(after, None, Event::Of(ProtocolEvent::Leave));
        }
        world.plan_moves();
    }

    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: Effect) {
        let target = world.target(node);
        match effect {
            // The transaction only read here.
            Effect::Install { writes, .. } if writes.is_empty() => {}
            Effect::Install { at, mut writes } => {
                let theirs: Vec<_> =
                    writes.iter().filter(|write| !local::is(&write.key)).cloned().collect();
                world.watch_version((shard, at), &theirs);
                if world.options.defect == Some(Defect::HalfInstalled)
                    && node == 1
                    && writes.len() > 1
                {
                    writes.pop();
                }
                let late = world.options.defect == Some(Defect::InstalledLate);
                let Some(process) = &mut world.nodes[node].process else { return };
                let Some(position) =
                    process.progress(shard).and_then(|progress| progress.install(at))
                else {
                    return;
                };
                let Some(member) = process.members.get_mut(&shard) else { return };
                member.late.push(Install { at, writes, position, term: 0 });
                if late {
                    let after = world.rng.random_range(0..20 * MS);
                    return world.push(after, target, Event::Of(ProtocolEvent::Late(shard)));
                }
                member.install_late();
            }
            Effect::Adopt(versions) => {
                for (at, write) in versions {
                    let Some(process) = &mut world.nodes[node].process else { return };
                    let Some(position) =
                        process.progress(shard).and_then(|progress| progress.install(at))
                    else {
                        continue;
                    };
                    if let Some(member) = process.members.get(&shard) {
                        member.shard_store.install(at, &[write], position, 0);
                    }
                }
            }
            Effect::Began { view, settled } => {
                world.with_progress(node, shard, |progress| progress.began(view, settled));
            }
            Effect::Copied(at) => {
                if let Some(member) = world.member(node, shard) {
                    member.shard_store.raise_horizon(at);
                }
                world.with_progress(node, shard, Progress::copied);
            }
            Effect::Serves => {
                *world.changed.entry("replica copied").or_default() += 1;
                world.log(|| {
                    format!("{} has copied shard {}, and serves", world.members[node], shard.0)
                });
                world.with_progress(node, shard, Progress::serves);
            }
            Effect::Serve(mut serve) => {
                if let (tapir::ReadView::Snapshot(at, _), Some(Defect::ReadOneBefore)) =
                    (&mut serve.view, world.options.defect)
                {
                    at.nanos = at.nanos.saturating_sub(1);
                }
                let longest = if world.options.profile.is_some() { 2 } else { MS };
                let after = world.rng.random_range(0..longest);
                let Some(shard_store) =
                    world.member(node, shard).map(|member| Arc::clone(&member.shard_store))
                else {
                    return;
                };
                world.push(
                    after,
                    target,
                    Event::Of(ProtocolEvent::Serve(shard, shard_store, Box::new(serve))),
                );
            }
        }
    }

    fn on_event(world: &mut World<Self>, node: usize, event: ProtocolEvent) {
        match event {
            ProtocolEvent::Look => world.look_for_overdue(node),
            ProtocolEvent::ChangeView => {
                let (node, second) =
                    (world.rng.random_range(0..world.nodes.len()), world.rng.random_bool(0.5));
                if world.nodes[node].process.is_some() {
                    *world.changed.entry("view asked for").or_default() += 1;
                    world.change_view(node, ShardId(second.into()));
                }
            }
            ProtocolEvent::Leave => world.leave_session(),
            ProtocolEvent::Move => world.move_replicas(),
            ProtocolEvent::CarryOutChange(epoch) => world.carry_out_change(epoch),
            ProtocolEvent::Learn(row) => world.learn(node, row),
            ProtocolEvent::Drop => world.drop_row(),
            ProtocolEvent::LosePower => world.lose_power(),
            ProtocolEvent::Serve(shard, shard_store, serve) => {
                world.serve_session(node, shard, &shard_store, &serve)
            }
            ProtocolEvent::Late(shard) => {
                if let Some(member) = world.member(node, shard) {
                    member.install_late();
                }
            }
        }
    }

    fn flush(
        world: &mut World<Self>,
        node: usize,
        now_ns: u64,
        checkpoint: bool,
    ) -> Result<(), StoreError> {
        world.nodes[node]
            .process
            .as_mut()
            .map_or(Ok(()), |process| process.flush(now_ns, HISTORY, checkpoint))
    }

    fn is_question(event: &ProtocolEvent) -> bool {
        matches!(event, ProtocolEvent::Serve(..))
    }

    /// Renders the messages of sessions and replicas; elides records, which are too long to read.
    fn line(me: NodeId, from: NodeId, _: Role, message: &MessageOf<Self>) -> Option<String> {
        Some(match message {
            Message::Operation(Said::Change { view, last, part, .. }) => {
                format!(
                    "{me} receives from {from}: Change {view:?} since {last:?}, {} operations",
                    part.changes.len()
                )
            }
            Message::Operation(Said::StartView { view, part }) => {
                format!(
                    "{me} receives from {from}: StartView {view:?}, {} operations",
                    part.changes.len()
                )
            }
            message => format!("{me} receives from {from}: {message:?}"),
        })
    }

    /// Begins one more view per shard, which tells replicas the outcomes that no message told them.
    fn conclude(world: &mut World<Self>) {
        let one = |node: &usize| world.nodes[*node].process.is_some() && world.is_replica(*node);
        let Some(first) = (0..world.nodes.len()).find(one) else { return };
        let before: BTreeMap<ShardId, View> =
            world.halves().all().map(|(shard, _)| (shard, world.newest_view(shard))).collect();
        for shard in before.keys() {
            world.change_view(first, *shard);
        }
        let begun = |world: &World<Self>| {
            let later = |(shard, replica): (ShardId, &Replica)| {
                replica.operations().began() > before[&shard]
            };
            world.is_at_rest(&mut BTreeSet::new()) && world.replicas().all(later)
        };
        if !world.until(LIVENESS, begun) {
            let what = world.what_is_left();
            world.fail(format!("the last view does not begin within {} s: {what}", LIVENESS / S));
        }
    }

    /// True if no transaction is prepared or being recovered, and no replica is between views or
    /// copying.
    fn is_at_rest(world: &World<Self>, _: &mut BTreeSet<ShardId>) -> bool {
        if !world.has_moved() {
            return false;
        }
        let mut lives = world.nodes.iter().filter_map(|node| node.process.as_ref());
        let idle = |replica: &Replica| {
            let operations = replica.operations();
            !operations.is_between_views()
                && operations.application().participant().prepared().next().is_none()
        };
        lives.all(|process| process.background_tasks.is_empty())
            && world.replicas().all(|(_, replica)| idle(replica))
    }

    fn what_is_left(member: &Member) -> String {
        let operations = member.replica.operations();
        let prepared = operations.application().participant().prepared().count();
        let what = match (operations.is_former(), member.replica.is_copying()) {
            (true, _) => ", a former replica",
            (_, true) => ", copying",
            _ => "",
        };
        format!("{prepared} prepared, in {:?} of {:?}{what}", operations.began(), operations.view())
    }

    fn holds(member: &Member) -> Option<(KeyRange, bool)> {
        (!member.replica.operations().is_former()).then(|| (member.shard_store.bounds(), true))
    }

    /// Judges transactions and copies. Where replicas move, the database is then dropped.
    fn judge(world: &mut World<Self>) -> Result<(), String> {
        world.judge_transactions()?;
        match world.moves && world.violation.is_none() {
            true => world.drop_database(),
            false => Ok(()),
        }
    }
}

impl World<Tapir> {
    fn guarantee(&self) -> Guarantee {
        tapir::guarantee(self.options.protocol.row)
    }

    /// Returns the division of the key space into two shards.
    fn halves(&self) -> Halves {
        let middle = self.options.workload.middle(self.keys, self.options.transactions);
        match self.options.sql {
            _ if self.options.scenario.is_some() => Halves::at(start_of(1)),
            true => Halves::at([ROWS_OF_TABLE, middle.as_bytes()].concat().into()),
            false => Halves::at(middle.as_str().into()),
        }
    }

    /// True if nodes change views after they reconnect to peers whose messages they may have
    /// missed. Otherwise only [`ProtocolEvent::ChangeView`] does.
    fn tends(&self) -> bool {
        self.options.seed.is_multiple_of(2)
    }

    /// Returns the replicas of running nodes, except former ones.
    fn replicas(&self) -> impl Iterator<Item = (ShardId, &Replica)> {
        let lives = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let all = lives
            .flat_map(|process| process.members.iter())
            .map(|(shard, member)| (*shard, &member.replica));
        all.filter(|(_, replica)| !replica.operations().is_former())
    }

    fn with_progress(&mut self, node: usize, shard: ShardId, act: impl FnOnce(&mut Progress)) {
        if let Some(progress) =
            self.nodes[node].process.as_mut().and_then(|process| process.progress(shard))
        {
            act(progress);
        }
    }

    fn newest_view(&self, shard: ShardId) -> View {
        let views = self
            .replicas()
            .filter(|(of, _)| *of == shard)
            .map(|(_, replica)| replica.operations().began());
        views.max().unwrap_or_default()
    }

    fn change_view(&mut self, node: usize, shard: ShardId) {
        self.log(|| format!("{} changes the view of shard {}", self.members[node], shard.0));
        self.step(node, shard, |replica, now, out| replica.change_view(now, out));
    }

    /// Starts the recovery of transactions that have been prepared here for too long: on the node
    /// of their coordinator first, then on the next one every [`TURN`].
    fn look_for_overdue(&mut self, node: usize) {
        let target = self.target(node);
        self.push(LOOK_EVERY, target, Event::Of(ProtocolEvent::Look));
        let now = self.nodes[node].clock.reading();
        let Some(process) = &self.nodes[node].process else { return };
        if process.router.has_met() && self.tends() {
            self.halves().all().for_each(|(shard, _)| self.change_view(node, shard));
        }
        let Some(process) = &self.nodes[node].process else { return };
        let all = self.nodes.len();
        let turn = |coordinator: u32| (node + all - (coordinator as usize - 1)) % all;
        let round_trip_ns = process.router.round_trip_ns(FIRST_SHARD);
        // Twice the three round trips of a slow-path commit and its decision.
        let overdue_ns = OVERDUE.max(6 * round_trip_ns);
        let mut background_tasks = Vec::new();
        let paces = |process: &mut NodeProcess| {
            process.members.values_mut().for_each(|member| member.replica.pace(round_trip_ns))
        };
        self.nodes[node].process.as_mut().into_iter().for_each(paces);
        let Some(process) = &self.nodes[node].process else { return };
        for (replica, late) in process
            .members
            .values()
            .flat_map(|member| (0..all).map(move |late| (&member.replica, late)))
        {
            if replica.operations().is_former() {
                continue; // A former replica receives no more decisions.
            }
            let participant = replica.operations().application().participant();
            for (who, participants) in participant.overdue(now, overdue_ns + late as u64 * TURN) {
                if turn(who.node) == late {
                    background_tasks.extend(process.router.recovers(
                        who,
                        participants,
                        now.boot_ns + PATIENCE,
                    ));
                }
            }
        }
        for background_task in background_tasks {
            *self.changed.entry("recovery").or_default() += 1;
            self.send_out(node, background_task);
        }
    }

    /// Serves a session's read.
    fn serve_session(
        &mut self,
        node: usize,
        shard: ShardId,
        shard_store: &ShardStore,
        serve: &Serve,
    ) {
        let Serve { to, ref range, reverse, limit_rows, .. } = *serve;
        let answer = match shard_store.scan(range, serve.at(), reverse, limit_rows, 1 << 16) {
            Ok(chunk) => serve.answer(Page::of(chunk, reverse)),
            Err(StoreError::BelowHorizon { oldest }) => Message::TooOld { id: serve.id, oldest },
            Err(StoreError::Elsewhere) => return sometimes!("a replica goes while it is read"),
            Err(error) => return self.node_failure(node, "read", error.into()),
        };
        self.send(node, shard, 0, None, to, answer);
    }
}
