//! What the world has to know of a protocol to carry it, and nothing else of it.
//!
//! ```text
//!   the world                                                      a protocol
//!   a node boots ────────────────── begin ────────────────────────▶ a life: replicas from what the disks have, a desk, a gateway
//!   frames, timers, syncs ───────── the replicas' own steps ───────▶ effects ── act: what only such replicas ask for
//!   a session is polled ─────────── wishes of its desk ────────────▶ frames and alarms
//!   what else happens to it ─────── happen ◀─────── its own events
//!   everybody went home ─────────── is_at_rest, holds ─────────────▶ whether something is left, and what copies have to hold
//! ```
//!
//! Faults, disks, clocks, the network, clients and judges are the world's, and know none. What only
//! some protocols do or ask for, the others leave as it stands here.

use crate::life::{Life, Member, Unfit};
use crate::scene::Scene;
use crate::world::World;
use futures::future::BoxFuture;
use meridian_clock::Timestamp;
use meridian_machine::{Address, Machine, NodeId, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What replicas of a protocol say.
pub type MessageOf<R> = <<R as Carried>::Replica as Machine>::Message;
/// What they ask for.
pub type EffectOf<R> = <<R as Carried>::Replica as Machine>::Effect;
/// What is waited for at a desk.
pub type KeyOf<R> = <<R as Carried>::Desk as Desk>::Key;

/// What sessions want of the world.
pub enum Wish<K, M> {
    /// Say this to a shard's replica.
    Say {
        /// The session.
        from: Address,
        /// The replica.
        to: Address,
        /// The message.
        message: Box<M>,
    },
    /// Let go of who waits here when the boot clock shows this.
    Alarm(u64, K),
}

/// A node as its sessions see it, for one life.
pub trait Desk: Send + Sync + 'static {
    /// Who waits.
    type Key: Copy;
    /// What is said.
    type Message;

    /// What sessions have wished for since this was last asked.
    fn wishes(&self) -> Vec<Wish<Self::Key, Self::Message>>;
    /// Something is said to a session of this node; what is not for sessions comes back.
    fn hear(&self, from: NodeId, session: u64, message: Self::Message) -> Option<Self::Message>;
    /// Its time is up.
    fn alarm(&self, key: Self::Key);
    /// These nodes can be spoken to; who waits for another hears nothing.
    fn set_reached(&self, reached: BTreeSet<NodeId>);
    /// The connection to a node broke: who waits for it hears nothing.
    fn lose(&self, node: NodeId);
    /// There is no room for what would be written.
    fn set_disk_full(&self, full: bool);
    /// What is damaged here, if a session has found out.
    fn damage(&self) -> Option<StoreError>;
    /// Snapshots that sessions have read here by themselves since this was last asked.
    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)>;
    /// The node ends.
    fn close(&self);
    /// A session does nothing for so long.
    fn rest(self: &Arc<Self>, for_ns: u64) -> BoxFuture<'static, ()>;
}

/// A protocol, as the world carries it.
pub trait Carried: Sized + 'static {
    /// A shard's replica.
    type Replica: Machine<Message: Clone, Timer: Copy>;
    /// A node as its sessions see it.
    type Desk: Desk<Message = MessageOf<Self>>;
    /// What a life has besides what every life has.
    type Own;
    /// What happens in no other protocol's world.
    type Happening;
    /// What is agreed on outside of the database, in `system`, where a protocol needs that.
    type Catalog: Default;

    /// A message as it travels.
    fn write_frame(from: Address, to: Address, message: &MessageOf<Self>) -> Vec<u8>;
    /// The inverse.
    fn read_frame(bytes: &[u8]) -> Result<(Address, Address, MessageOf<Self>), String>;
    /// A record as the log has it.
    fn write_record(record: <Self::Replica as Machine>::Record) -> Vec<u8>;

    /// A life begins with what a node's disks have.
    fn begin(world: &World<Self>, node: usize, seed: u64) -> Result<Life<Self>, Unfit>;
    /// It has begun.
    fn born(_: &mut World<Self>, _: usize) {}
    /// A scene is set: its groups are there, and sessions know whom to ask.
    fn set(_: &mut World<Self>, _: Scene) {}
    /// So many nodes are not needed: they may be lost for good.
    fn spares(_: &World<Self>) -> usize {
        0
    }
    /// What happens now and then whatever else does, beside faults, is planned.
    fn plan(_: &mut World<Self>) {}

    /// A replica asks for something.
    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: EffectOf<Self>);
    /// A frame has come that is no answer to a session.
    fn hear(
        world: &mut World<Self>,
        node: usize,
        from: Address,
        shard: ShardId,
        message: MessageOf<Self>,
    ) {
        world.deliver(node, from, shard, message);
    }
    /// A message is for a replica that is not here.
    fn miss(_: &mut World<Self>, _: usize, _: Address, _: ShardId, _: MessageOf<Self>) {}
    /// Something of its own happens.
    fn happen(world: &mut World<Self>, node: usize, event: Self::Happening);
    /// Versions are moved to the store, and with a checkpoint the log is let go.
    fn settle(
        _: &mut World<Self>,
        _node: usize,
        _now_ns: u64,
        _checkpoint: bool,
    ) -> Result<(), StoreError> {
        Ok(())
    }
    /// That was done.
    fn settled(_: &mut World<Self>, _: usize) {}
    /// A node is about to end in order.
    fn abdicate(_: &mut World<Self>, _: usize) {}
    /// The shards that a node leads, as far as it knows: the others would miss it if it ended now.
    fn led(_: &Life<Self>) -> BTreeSet<ShardId> {
        BTreeSet::new()
    }

    /// Whether an effect rests on something that may have lapsed when it is done.
    fn is_leased(_: &EffectOf<Self>) -> bool {
        false
    }
    /// Whether a core has to answer a session for that.
    fn is_question(_: &Self::Happening) -> bool {
        false
    }
    /// A line about what somebody hears, if a reader wants to know.
    fn line(_me: NodeId, _from: NodeId, _: Role, _: &MessageOf<Self>) -> Option<String> {
        None
    }

    /// Everybody went home, and nothing is left to be done: brings about what only the end has.
    fn conclude(_: &mut World<Self>) {}
    /// Whether nothing is left to be done in replicas; notes shards of which that is true for good.
    fn is_at_rest(world: &World<Self>, rested: &mut BTreeSet<ShardId>) -> bool;
    /// What is left in one.
    fn what_is_left(member: &Member<Self::Replica>) -> String;
    /// The keys that a replica has, and whether it holds their versions; nothing, of a replica
    /// whose shard goes on without it.
    fn holds(member: &Member<Self::Replica>) -> Option<(KeyRange, bool)>;
    /// Holds what happened against what the protocol promises; what a client was not told gets the
    /// timestamp at which it was installed. Transactions and equal copies are promised, unless a
    /// protocol says otherwise.
    fn judge(world: &mut World<Self>) -> Result<(), String> {
        world.judge_transactions()
    }
}
