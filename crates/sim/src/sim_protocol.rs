//! The interface between the world and a protocol.
//!
//! ```text
//!   the world                                                      a protocol
//!   a node boots ────────────────── begin ────────────────────────▶ an incarnation: replicas as read from the disks, a request router, a TxnClient
//!   frames, timers, syncs ───────── the replicas' own steps ───────▶ effects ── act: effects that only this protocol has
//!   a session is polled ─────────── requests of its router ────────▶ frames and alarms
//!   events of the protocol ──────── on_event ◀───── its own events
//!   clients have stopped ────────── is_at_rest, holds ─────────────▶ the work that is left, and the keys that copies must hold
//! ```
//!
//! Faults, disks, clocks, the network, clients and judges belong to the world and are independent
//! of the protocol. Methods that only some protocols need have a default here.

use crate::node::{Key, SimNode};
use crate::node_process::{Member, NodeFailure, NodeProcess};
use crate::scenario::Scenario;
use crate::world::World;
use futures::future::BoxFuture;
use meridian_clock::Timestamp;
use meridian_machine::{Address, Machine, NodeId, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_txn::Node;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The messages of a protocol's replicas.
pub type MessageOf<R> = <<R as SimProtocol>::Replica as Machine>::Message;
/// The effects of a protocol's replicas.
pub type EffectOf<R> = <<R as SimProtocol>::Replica as Machine>::Effect;
/// The request router of a node, for one incarnation.
pub trait RequestRouter: Send + Sync + 'static {
    /// The protocol's messages.
    type Message: Send + 'static;

    /// Returns the node.
    fn node(&self) -> &SimNode<Self::Message>;
    /// Delivers a message to a session of this node; returns it if it is not for a session.
    fn receive(&self, from: NodeId, session: u64, message: Self::Message) -> Option<Self::Message>;
    /// Expires a waiting request.
    fn alarm(&self, key: Key);
    /// Sets the nodes that can be reached, and fails the requests that wait for any other.
    fn set_reached(&self, reached: BTreeSet<NodeId>);
    /// Fails the requests that wait for a node whose connection broke.
    fn lose(&self, node: NodeId);
    /// Returns the damage that a session found in local data, if any.
    fn damage(&self) -> Option<StoreError>;
    /// Takes the snapshots that sessions have read from local data since the last call.
    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)>;
    /// Closes the router as its node ends; fails all waiting requests.
    fn close(&self);
    /// Waits for this duration, in nanoseconds, on the node's boot clock.
    fn rest(self: &Arc<Self>, for_ns: u64) -> BoxFuture<'static, ()> {
        let router = Arc::clone(self);
        Box::pin(async move { router.node().sleep_until(router.node().boot_ns() + for_ns).await })
    }
}

/// A protocol as the world runs it.
pub trait SimProtocol: Sized + 'static {
    /// The replica of a shard.
    type Replica: Machine<Message: Clone, Timer: Copy>;
    /// The request router of a node.
    type RequestRouter: RequestRouter<Message = MessageOf<Self>>;
    /// The protocol's own state in an incarnation.
    type Own;
    /// The protocol's own events.
    type ProtocolEvent;
    /// The state that replicas agree on outside of the database, in `system`, if the protocol has
    /// any.
    type Catalog: Default;

    /// Encodes a message for the network.
    fn write_frame(from: Address, to: Address, message: &MessageOf<Self>) -> Vec<u8>;
    /// Decodes a message from the network.
    fn read_frame(bytes: &[u8]) -> Result<(Address, Address, MessageOf<Self>), String>;
    /// Encodes a record for the log.
    fn write_record(record: <Self::Replica as Machine>::Record) -> Vec<u8>;
    /// Returns the timestamps in a record that were drawn for its commands.
    fn drawn(_: &<Self::Replica as Machine>::Record) -> Vec<Timestamp> {
        Vec::new()
    }

    /// Begins an incarnation with the contents of a node's disks.
    fn begin(world: &World<Self>, node: usize, seed: u64)
    -> Result<NodeProcess<Self>, NodeFailure>;
    /// Runs after an incarnation has begun.
    fn on_begin(_: &mut World<Self>, _: usize) {}
    /// Sets up the groups of a scenario and the routes to them.
    fn set(_: &mut World<Self>, _: Scenario) {}
    /// The number of nodes that may be lost for good.
    fn spares(_: &World<Self>) -> usize {
        0
    }
    /// Schedules the protocol's recurring events beside faults.
    fn plan(_: &mut World<Self>) {}

    /// Carries out an effect of a replica.
    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: EffectOf<Self>);
    /// Delivers a frame that is not a response for a session.
    fn receive(
        world: &mut World<Self>,
        node: usize,
        from: Address,
        shard: ShardId,
        message: MessageOf<Self>,
    ) {
        world.deliver(node, from, shard, message);
    }
    /// Handles a message for a replica that this node does not have.
    fn miss(_: &mut World<Self>, _: usize, _: Address, _: ShardId, _: MessageOf<Self>) {}
    /// Carries out an event of the protocol.
    fn on_event(world: &mut World<Self>, node: usize, event: Self::ProtocolEvent);
    /// Flushes versions to the store; with `checkpoint`, also checkpoints it and truncates the log.
    fn flush(
        _: &mut World<Self>,
        _node: usize,
        _now_ns: u64,
        _checkpoint: bool,
    ) -> Result<(), StoreError> {
        Ok(())
    }
    /// Runs after `flush`.
    fn on_flushed(_: &mut World<Self>, _: usize) {}
    /// Transfers the leaderships of a node that is about to shut down in order.
    fn transfer_leadership(_: &mut World<Self>, _: usize) {}
    /// Returns the shards that a node leads, as far as it knows.
    fn led(_: &NodeProcess<Self>) -> BTreeSet<ShardId> {
        BTreeSet::new()
    }

    /// True if an effect depends on a lease that may have expired when the effect is carried out.
    fn is_leased(_: &EffectOf<Self>) -> bool {
        false
    }
    /// True if the event makes the processor serve a session.
    fn is_question(_: &Self::ProtocolEvent) -> bool {
        false
    }
    /// Returns the trace line of a received message, if it is worth one.
    fn line(_me: NodeId, _from: NodeId, _: Role, _: &MessageOf<Self>) -> Option<String> {
        None
    }

    /// Runs protocol steps that only the end of a run has, after all work has ended.
    fn conclude(_: &mut World<Self>) {}
    /// True if replicas have no work left; adds to `rested` the shards for which that stays true.
    fn is_at_rest(world: &World<Self>, rested: &mut BTreeSet<ShardId>) -> bool;
    /// Describes the work that a replica has left.
    fn what_is_left(member: &Member<Self::Replica>) -> String;
    /// Returns the bounds of a replica, and whether it stores their versions; `None` for a former
    /// replica.
    fn holds(member: &Member<Self::Replica>) -> Option<(KeyRange, bool)>;
    /// Judges the run by the promises of the protocol, and gives transactions of unknown outcome
    /// the timestamps at which they were installed. By default: transactions and equal copies.
    fn judge(world: &mut World<Self>) -> Result<(), String> {
        world.judge_transactions()
    }
}
