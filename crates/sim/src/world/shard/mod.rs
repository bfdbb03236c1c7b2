//! The world of protocols with leaders: groups with leaders, their members, and their events beside
//! faults.

mod copies;
mod delays;
mod effects;
mod incarnations;
mod modes;
mod moving;
mod newcomers;
mod pausing;
mod scenario;
mod snapshots;
mod splitting;
mod waiting;
mod watching;

use super::{Event, EventTarget, HISTORY, MS, S, World, index};
use crate::node::Key;
use crate::node_process::{Member, NodeFailure};
use crate::scenario::{Scenario, TimeOracle};
use crate::shard::Leaders;
use crate::shard::node_process::{self, NodeProcess, Timing};
use crate::shard::request_router::RequestRouter;
use crate::sim_protocol::SimProtocol;
use meridian_clock::oracle::Terms;
use meridian_clock::{Drift, Timestamp};
use meridian_machine::{Address, NodeId, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_placement::DiskId;
use meridian_replication::group::{Group, Index, Record};
use meridian_store::courier::Order;
use meridian_systems::envelope;
use meridian_systems::shard::{Command, Effect, Message, MessageOf, Participant, Serve, Shard};
use meridian_txn::shards::{Oracles, ReplicaId, Request, RequestBody, RequestOutcome, Response};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// Derives from the seed the generator of oracles.
const ORACLES: u64 = 0x006f_7261_636c_6573;

/// Events that only worlds of shards with leaders have.
pub enum ProtocolEvent {
    /// Flushes a shard that splits, and creates the child's member.
    FlushSplit,
    /// Splits a shard, up to this number of splits.
    Split(u32),
    /// Changes the members of a random shard.
    Move,
    /// Removes a node's member of a shard.
    Removed {
        shard: ShardId,
        index: Index,
    },
    KeepAlive,
    Hear(Key, RequestOutcome),
    Serve(ShardId, Box<Serve>),
    Late(ShardId),
    /// Sends a copy of a shard to a member.
    Copy(Order),
    /// A part of a copy arrives.
    Parcel {
        from: usize,
        /// The disk of the sender.
        disk: DiskId,
        bytes: Vec<u8>,
    },
    /// A node's courier checks its timeouts.
    Courier,
}

impl<P: Participant> SimProtocol for Leaders<P> {
    type Replica = Shard<P>;
    type RequestRouter = RequestRouter<P>;
    type Own = node_process::Own<P>;
    type ProtocolEvent = ProtocolEvent;
    type Catalog = ();

    fn write_frame(from: Address, to: Address, message: &MessageOf<P>) -> Vec<u8> {
        envelope::write_frame(P::KIND, from, to, message)
    }

    fn read_frame(bytes: &[u8]) -> Result<(Address, Address, MessageOf<P>), String> {
        envelope::read_frame(P::KIND, bytes)
    }

    fn write_record(record: Record) -> Vec<u8> {
        envelope::write(P::KIND, &vec![record])
    }

    fn drawn(record: &Record) -> Vec<Timestamp> {
        let Record::Append { entries } = record else { return Vec::new() };
        let commands = entries
            .iter()
            .filter_map(|entry| P::Command::from_payload(&entry.payload).ok().flatten());
        commands.filter_map(|command| command.drawn()).collect()
    }

    fn begin(world: &World<Self>, node: usize, seed: u64) -> Result<NodeProcess<P>, NodeFailure> {
        let there = &world.nodes[node];
        NodeProcess::begin(
            world.members[node],
            there.incarnation,
            &world.members,
            (seed, world.timing(), world.retention, world.options.defect),
            there.peer_identities.admitted(),
            world.options.scenario.is_some(),
            (world.options.protocol.row, world.oracles(node)),
            &there.clock,
            &there.disks,
        )
    }

    fn on_begin(world: &mut World<Self>, node: usize) {
        let target = world.target(node);
        world.push(S, target, Event::Of(ProtocolEvent::KeepAlive));
    }

    /// Sets up the groups of a scenario.
    fn set(world: &mut World<Self>, scenario: Scenario) {
        world.set(scenario);
    }

    fn spares(world: &World<Self>) -> usize {
        let minority = (world.nodes.len() - 1) / 2;
        if world.moves { minority.saturating_sub(1) } else { minority }
    }

    fn plan(world: &mut World<Self>) {
        world.plan_splits();
        world.plan_moves();
    }

    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: Effect) {
        world.act(node, shard, effect);
    }

    fn receive(
        world: &mut World<Self>,
        node: usize,
        from: Address,
        shard: ShardId,
        message: MessageOf<P>,
    ) {
        if let Message::Leads(term) = message {
            let Some(process) = &world.nodes[node].process else { return };
            return process.router.set_leadership(ReplicaId { shard, node: from.node }, term.0);
        }
        world.invite(node, shard, &message);
        world.deliver(node, from, shard, message);
    }

    fn miss(
        world: &mut World<Self>,
        node: usize,
        from: Address,
        shard: ShardId,
        message: MessageOf<P>,
    ) {
        let Message::Request(Request { id, .. }) = message else { return };
        if world.nodes[node].process.is_some() {
            let answer: MessageOf<P> = Message::Response(Response::NotLeader { id, leader: None });
            world.send(node, shard, 0, None, from, answer);
        }
    }

    fn on_event(world: &mut World<Self>, node: usize, event: ProtocolEvent) {
        match event {
            ProtocolEvent::FlushSplit => world.flush_split(node),
            ProtocolEvent::Split(wanted) => world.split(wanted),
            ProtocolEvent::Move => world.move_members(),
            ProtocolEvent::Removed { shard, index } => world.remove(node, shard, index),
            ProtocolEvent::KeepAlive => world.keep_alive(node),
            ProtocolEvent::Hear(key, heard) => {
                world.with_router(node, |router| router.answer(key, heard))
            }
            ProtocolEvent::Serve(shard, serve) => world.serve(node, shard, *serve),
            ProtocolEvent::Late(shard) => {
                if let Some(member) = world.member(node, shard) {
                    member.install_late();
                }
            }
            ProtocolEvent::Copy(order) => world.send_copy(node, order),
            ProtocolEvent::Parcel { from, disk, bytes } => {
                world.receive_parcel(node, from, disk, &bytes)
            }
            ProtocolEvent::Courier => world.tick_courier(node),
        }
    }

    fn flush(
        world: &mut World<Self>,
        node: usize,
        now_ns: u64,
        checkpoint: bool,
    ) -> Result<(), StoreError> {
        let Some(process) = &mut world.nodes[node].process else { return Ok(()) };
        process.flush(now_ns, HISTORY, checkpoint, world.options.defect)
    }

    fn on_flushed(world: &mut World<Self>, node: usize) {
        world.create_children(node);
    }

    fn transfer_leadership(world: &mut World<Self>, node: usize) {
        let Some(process) = &world.nodes[node].process else { return };
        let shards: Vec<_> = process.members.keys().copied().collect();
        for shard in shards {
            world.step(node, shard, |replica, now, out| replica.transfer_leadership(now, out));
        }
    }

    fn led(process: &NodeProcess<P>) -> BTreeSet<ShardId> {
        let led = process.members.iter().filter(|(_, member)| member.replica.is_serving());
        led.map(|(shard, _)| *shard).collect()
    }

    fn is_leased(effect: &Effect) -> bool {
        matches!(effect, Effect::Serve(_))
    }

    fn is_question(event: &ProtocolEvent) -> bool {
        matches!(event, ProtocolEvent::Hear(..) | ProtocolEvent::Serve(..))
    }

    /// Renders the messages between coordinators and leaders; omits those between members, which
    /// are too many to read.
    fn line(me: NodeId, from: NodeId, role: Role, message: &MessageOf<P>) -> Option<String> {
        match (role, message) {
            (
                _,
                Message::Request(Request { body: RequestBody::KeepAlive, .. })
                | Message::Group(_)
                | Message::LeaderVisible(_)
                | Message::Leads(_),
            )
            | (Role::Replica, Message::Response(_)) => None,
            (_, Message::AskTimestamps { count, .. }) => Some(format!(
                "{me} receives from {from}: asks the authority for {count} timestamps"
            )),
            (_, Message::Timestamps { range, .. }) => {
                Some(format!("{me} receives from {from}: {range:?}"))
            }
            (_, Message::Participant(between)) => {
                Some(format!("{me} receives from {from}: {between:?}"))
            }
            (_, Message::Request(Request { transaction, id, lock_epoch, body, .. })) => {
                let what = match body {
                    RequestBody::Read { range, lock, .. } => format!("reads {range:?} {lock:?}"),
                    RequestBody::Snapshot { at, range, .. } => format!("reads {range:?} at {at:?}"),
                    RequestBody::Commit { writes, participants, .. } => {
                        format!("commits {} writes with {participants:?}", writes.len())
                    }
                    RequestBody::Prepare { writes, coordinator, .. } => {
                        format!("prepares {} writes for {coordinator:?}", writes.len())
                    }
                    RequestBody::Split { at, shard } => format!("splits {at:?} off as {}", shard.0),
                    RequestBody::LastTs { range } => {
                        format!("reads the newest commit timestamp of {range:?}")
                    }
                    RequestBody::Members(members) => format!("wants {members:?}"),
                    RequestBody::Abort | RequestBody::KeepAlive => "aborts".to_owned(),
                    RequestBody::Withdraw => "withdraws".to_owned(),
                    RequestBody::Time { .. } => "asks for the time".to_owned(),
                    RequestBody::Ordered { at, operation } => format!("{operation:?} at {at}"),
                    RequestBody::SnapshotTimestamp => {
                        "asks the authority for a snapshot".to_owned()
                    }
                };
                Some(format!(
                    "{me} receives from {from}: {}.{id} {what}, on {lock_epoch:?}",
                    transaction.number
                ))
            }
            (Role::Coordinator(number), Message::Response(reply)) => {
                let what = match reply {
                    Response::Rows { lock_epoch, at, .. } => {
                        format!("rows as of {at}, on {lock_epoch:?}")
                    }
                    other => format!("{other:?}"),
                };
                Some(format!("{me} receives from {from}: {number}.{} {what}", reply.id()))
            }
        }
    }

    /// True if no lock is held, no commit is unresolved, and each shard has had a moment in which
    /// nothing was in progress and all its members had the same commit index.
    fn is_at_rest(world: &World<Self>, rested: &mut BTreeSet<ShardId>) -> bool {
        let lives = || world.nodes.iter().filter_map(|node| node.process.as_ref());
        let agreed = |group: &Group| group.last_index() == group.commit_index();
        let rests = |shard: ShardId| {
            let mut members = lives().filter_map(|process| process.members.get(&shard));
            members.all(|member| agreed(member.replica.group())) && world.is_known_everywhere(shard)
        };
        let free = |replica: &Shard<P>| replica.holders() == 0 && replica.unresolved() == 0;
        if !lives().flat_map(|process| process.members.values()).all(|member| free(&member.replica))
        {
            rested.clear();
            return false;
        }
        let mut left = world.shards();
        left.retain(|shard| !rested.contains(shard) && !rests(*shard));
        rested.extend(world.shards().into_iter().filter(|shard| !left.contains(shard)));
        left.is_empty()
    }

    fn what_is_left(member: &Member<Shard<P>>) -> String {
        let (group, locks) = (member.replica.group(), member.replica.holders());
        let (agreed, last) = (group.commit_index().0, group.last_index().0);
        let unresolved = member.replica.unresolved();
        let members = group.membership().roster();
        let (voters, learners) = (members.voters, members.learners);
        format!(
            "{agreed} of {last} agreed, {locks} hold locks, {unresolved} unresolved, {voters:?} vote, {learners:?} learn"
        )
    }

    /// Returns the bounds of a member, and false if it is a witness, which stores no data.
    fn holds(member: &Member<Shard<P>>) -> Option<(KeyRange, bool)> {
        Some((member.replica.bounds().clone(), !member.replica.group().is_witness()))
    }
}

impl<P: Participant> World<Leaders<P>> {
    /// The oracles that a node's coordinators ask: that of a scenario, or some, in half of the
    /// worlds whose transactions draw timestamps when they begin. They follow from the seed alone,
    /// so that every incarnation has the same.
    fn oracles(&self, node: usize) -> Option<Oracles> {
        if let Some(scenario) = self.options.scenario {
            let TimeOracle { terms, batches } = scenario.oracle?;
            let nodes = vec![self.members[scenario.members(0)[0]]];
            return Some(Oracles { nodes, terms, batches });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed ^ ORACLES);
        let has_some = self.options.protocol.row.draws_at_start() && rng.random_bool(0.5);
        if !has_some || self.options.profile.is_some() || self.scripted {
            return None;
        }
        let ttl_ns = *[2 * MS, 20 * MS, 200 * MS].choose(&mut rng).expect("there are some");
        let terms = Terms {
            ttl_ns,
            // Oracles whose clocks become less certain withdraw, or stay.
            half_width_ns: self.half_width_ns * if rng.random_bool(0.5) { 2 } else { 20 },
            // Some batches are used up.
            step_ns: ttl_ns / if rng.random_bool(0.5) { 1 } else { 2_000 },
            drift: Drift::WORST,
        };
        let batches = rng.random_bool(0.8);
        let mut nodes = self.members.clone();
        // Each coordinator begins with another node, or seldom with its own, which answers at once.
        nodes.rotate_left((node + usize::from(rng.random_bool(0.8))) % self.members.len());
        Some(Oracles { nodes, terms, batches })
    }

    /// Returns the members' timeouts, which grow with the distance between nodes.
    fn timing(&self) -> Timing {
        let election_timeout_ns = (250 * MS).max(4 * self.options.regions.farthest_ns());
        let (min_next_ns, quiesce_ns) = self.idle_after_ns;
        Timing { election_timeout_ns, lease_ns: self.lease_ns, min_next_ns, quiesce_ns }
    }

    /// Sends keep-alives for idle transactions, and reports local reads to the leaders.
    fn keep_alive(&mut self, node: usize) {
        let target = self.target(node);
        let Some(process) = &self.nodes[node].process else { return };
        process.router.keep_alive();
        let reads = process.router.read_alone();
        self.push(S, target, Event::Of(ProtocolEvent::KeepAlive));
        self.grant(node);
        for (shard, reads) in reads {
            self.step(node, shard, |replica, now, out| replica.note_reads(now, reads, out));
        }
    }

    fn shards(&self) -> BTreeSet<ShardId> {
        let lives = self.nodes.iter().filter_map(|node| node.process.as_ref());
        lives.flat_map(|process| process.members.keys().copied()).collect()
    }

    /// True if exactly the intended members of a shard are running, and all have the same commit
    /// index.
    fn is_known_everywhere(&self, shard: ShardId) -> bool {
        let member = |node: usize| {
            self.nodes[node].process.as_ref().and_then(|process| process.members.get(&shard))
        };
        let group = |node: usize| member(node).map(|member| member.replica.group());
        let Some(newest) =
            (0..self.nodes.len()).filter_map(group).max_by_key(|group| group.commit_index())
        else {
            return false;
        };
        let to_be: BTreeSet<_> = newest.membership().nodes().collect();
        (0..self.nodes.len()).all(|node| match group(node) {
            Some(group) => {
                to_be.contains(&self.members[node]) && group.commit_index() == newest.commit_index()
            }
            None => !to_be.contains(&self.members[node]) || self.gone.contains(&node),
        })
    }
}
