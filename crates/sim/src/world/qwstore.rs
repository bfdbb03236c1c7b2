//! The world of QWStore, without transactions: writes go to all replicas, and reads to one. The
//! only promise is that a read never misses an acknowledged write.

use super::{Event, HISTORY, MS, S, World};
use crate::node_process::NodeFailure;
use crate::qwstore::QwStore;
use crate::qwstore::node_process::{Member, NodeProcess, Own, StartConfig};
use crate::qwstore::request_router::{RequestRouter, find};
use crate::scenario::Scenario;
use crate::sim_protocol::{MessageOf, SimProtocol};
use crate::{Defect, client, verdict};
use meridian_clock::Timestamp;
use meridian_history::{Op, Status, Transaction, registers};
use meridian_machine::{Address, NodeId, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_placement::FIRST_SHARD;
use meridian_systems::baselines::qwstore::{Effect, KIND, LogRecord, Message, Put, Replica, Serve};
use meridian_systems::envelope;
use rand::Rng;
use std::collections::BTreeSet;

/// The time from the start within which all sessions that close do so.
const WITHIN: u64 = 15 * S;

/// Events that only worlds of QWStore have.
pub enum ProtocolEvent {
    /// A client session closes, in the middle of its transaction.
    Leave,
    Serve(Box<Serve>),
    /// Installs the versions that a planted defect delayed.
    Late,
}

impl SimProtocol for QwStore {
    type Replica = Replica;
    type RequestRouter = RequestRouter;
    type Own = Own;
    type ProtocolEvent = ProtocolEvent;
    type Catalog = ();

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
        NodeProcess::begin(&StartConfig {
            me: (world.members[node], there.incarnation),
            replicas: &world.members[..world.nodes.len() - world.options.gateways],
            seed,
            defect: world.options.defect,
            admitted: there.peer_identities.admitted(),
            clock: &there.clock,
            disks: &there.disks,
        })
    }

    /// Checks that each server holds a replica; they exist from boot on.
    fn set(world: &mut World<Self>, scenario: Scenario) {
        let servers = world.nodes.len() - scenario.gateways;
        assert!(
            scenario.groups == 1 && scenario.replicas == servers,
            "one shard, with a replica on each server"
        );
    }

    /// Returns zero: each replica must hold every acknowledged write, and none is repaired from
    /// others.
    fn spares(_: &World<Self>) -> usize {
        0
    }

    fn plan(world: &mut World<Self>) {
        for _ in 0..world.rng.random_range(0..20) {
            let after = world.rng.random_range(0..WITHIN);
            world.push(after, None, Event::Of(ProtocolEvent::Leave));
        }
    }

    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: Effect) {
        match effect {
            Effect::Install(put) => world.install(node, put),
            Effect::Closed(closed) => {
                if let Some(process) = &mut world.nodes[node].process {
                    process.own.closed = closed;
                }
            }
            Effect::Serve(serve) => {
                debug_assert_eq!(shard, FIRST_SHARD);
                let (target, longest) =
                    (world.target(node), if world.options.profile.is_some() { 2 } else { MS });
                let after = world.rng.random_range(0..longest);
                world.push(after, target, Event::Of(ProtocolEvent::Serve(Box::new(serve))));
            }
        }
    }

    fn on_event(world: &mut World<Self>, node: usize, event: ProtocolEvent) {
        match event {
            ProtocolEvent::Leave => world.leave_session(),
            ProtocolEvent::Serve(serve) => world.serve_session(node, &serve),
            ProtocolEvent::Late => {
                if let Some(member) = world.member(node, FIRST_SHARD) {
                    member.install_late();
                }
            }
        }
    }

    fn flush(
        world: &mut World<Self>,
        node: usize,
        _: u64,
        checkpoint: bool,
    ) -> Result<(), StoreError> {
        let now = world.nodes[node].clock.reading();
        world.nodes[node]
            .process
            .as_mut()
            .map_or(Ok(()), |process| process.flush(now, HISTORY, checkpoint))
    }

    fn is_question(event: &ProtocolEvent) -> bool {
        matches!(event, ProtocolEvent::Serve(_))
    }

    fn line(me: NodeId, from: NodeId, _: Role, message: &MessageOf<Self>) -> Option<String> {
        Some(format!("{me} receives from {from}: {message:?}"))
    }

    /// True if no replica waits for its disk.
    fn is_at_rest(world: &World<Self>, _: &mut BTreeSet<ShardId>) -> bool {
        let mut members = world
            .nodes
            .iter()
            .filter_map(|node| node.process.as_ref())
            .flat_map(|process| process.members.values());
        members.all(|member| !member.replica.is_writing())
    }

    fn what_is_left(member: &Member) -> String {
        (if member.replica.is_writing() { "writing" } else { "nothing" }).to_owned()
    }

    fn holds(member: &Member) -> Option<(KeyRange, bool)> {
        Some((member.shard_store.bounds(), true))
    }

    /// Judges the history and a final read of each whole replica, as registers.
    fn judge(world: &mut World<Self>) -> Result<(), String> {
        if world.installed.is_empty() {
            return Err("nothing was written".into());
        }
        verdict::date(&mut world.history, &world.marks, false, &world.installed)?;
        let mut history = world.history.clone();
        for (node, there) in world.nodes.iter().enumerate() {
            for member in there.process.iter().flat_map(|process| process.members.values()) {
                history.push(world.read_whole(node, member)?);
            }
        }
        registers::judge(&history).map_err(|why| format!("by registers: {why}"))
    }
}

impl World<QwStore> {
    fn install(&mut self, node: usize, Put { place, at, mut writes }: Put) {
        let target = self.target(node);
        self.watch_version((FIRST_SHARD, at), &writes);
        if self.options.defect == Some(Defect::HalfInstalled) && node == 1 && writes.len() > 1 {
            writes.pop();
        }
        let late = self.options.defect == Some(Defect::InstalledLate);
        let after = if late { self.rng.random_range(0..20 * MS) } else { 0 };
        let Some(member) = self.member(node, FIRST_SHARD) else { return };
        member.late.push(crate::node_process::Install { at, writes, position: place, term: 0 });
        if late {
            return self.push(after, target, Event::Of(ProtocolEvent::Late));
        }
        member.install_late();
    }

    /// Serves the read of a session on another node.
    fn serve_session(&mut self, node: usize, serve: &Serve) {
        let Some(member) = self.member(node, FIRST_SHARD) else { return };
        match find(&member.shard_store, &serve.range, serve.reverse, serve.limit_rows) {
            Ok(found) => {
                let answer = Message::Found { id: serve.id, rows: found.rows, rest: found.rest };
                self.send(node, FIRST_SHARD, 0, None, serve.to, answer);
            }
            Err(error) => self.node_failure(node, "read", error.into()),
        }
    }

    /// Returns a transaction that reads the whole of a replica at the end of the run.
    fn read_whole(&self, node: usize, member: &Member) -> Result<Transaction, String> {
        let all = member.shard_store.scan(
            &KeyRange::all(),
            Timestamp::MAX,
            false,
            usize::MAX,
            usize::MAX,
        );
        let rows =
            all.map_err(|error| format!("{} cannot be read: {error}", self.members[node]))?.rows;
        let rows = rows.iter().map(|(key, stored)| {
            let name = String::from_utf8_lossy(key.as_ref()).into_owned();
            let value = client::value(&name, Some(stored.as_ref()));
            (name, value)
        });
        let (low, high) = (String::new(), char::MAX.to_string());
        let (client, now) = ((self.clients.len() + node) as u64, self.now());
        let ops = vec![Op::Scan(low, high, rows.collect())];
        Ok(Transaction::new(client, (now, now), Status::Ok, ops))
    }
}
