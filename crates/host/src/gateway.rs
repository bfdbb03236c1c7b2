//! The door to a shard for sessions of this node: the coordinator of `txn`, standing on this node's member.

use crate::member::{MemberHome, MemberShard};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId};
use meridian_mvcc::{Chunk, KeyRange, StoreError, Version};
use meridian_txn::Age;
use meridian_txn::locking::{self, Heard, Readable, Request, Site, Spent, TransactionId};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 20;
/// Commits wait while versions that are not settled yet take more than this.
const RECENT_BYTES: usize = 256 << 20;

/// A database, from this node.
pub type Gateway = locking::Gateway<Local>;

/// This node, as its coordinators see it.
pub struct Local {
    member: Arc<MemberShard>,
    members: Arc<[NodeId]>,
}

impl Local {
    /// Sessions of a member, in a group of these nodes.
    pub fn new(member: Arc<MemberShard>, members: &[NodeId]) -> Self {
        Local { member, members: members.into() }
    }

    /// This node's member.
    pub fn member(&self) -> &Arc<MemberShard> {
        &self.member
    }

    fn home(&self) -> &MemberHome {
        self.member.world()
    }
}

impl Site for Local {
    fn now(&self) -> Reading {
        self.home().plumbing().clock.now()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        self.home().here()
    }

    fn new_number(&self) -> u64 {
        self.home().number()
    }

    fn describe(&self) -> String {
        format!("database {}'s group", self.home().space().id().database)
    }

    fn is_closed(&self) -> bool {
        self.home().is_closed()
    }

    fn is_full(&self) -> bool {
        self.home().plumbing().journal.is_full()
    }

    fn is_crowded(&self) -> bool {
        self.home().space().recent_bytes() > RECENT_BYTES
    }

    fn committed(&self, spent: &Spent) {
        self.home().plumbing().commit_wait.count(spent.commit_wait_ns);
    }

    fn reads_alone(&self) {
        self.home().reads_alone();
    }

    fn readable(&self) -> Readable {
        self.home().readable()
    }

    fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        self.home().space().get(key, at).inspect_err(|error| self.home().heed(error))
    }

    fn scan(&self, range: &KeyRange, at: Timestamp, reverse: bool, limit_rows: usize) -> Result<Chunk, StoreError> {
        let found = self.home().space().scan(range, at, reverse, limit_rows, CHUNK_BYTES);
        found.inspect_err(|error| self.home().heed(error))
    }

    fn leader(&self) -> NodeId {
        self.home().leader()
    }

    fn heard_of_leader(&self, asked: NodeId, leader: Option<NodeId>) {
        let next = || self.members.iter().find(|node| **node > asked).or(self.members.first()).copied();
        if let Some(leader) = leader.or_else(next) {
            self.home().ask_next(leader);
        }
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.home().reaches(node)
    }

    fn ask(&self, node: NodeId, request: Request, until: u64) -> impl Future<Output = Option<Heard>> + Send {
        self.home().ask(node, request, until)
    }

    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send {
        self.home().pause(until)
    }

    fn tell(&self, node: NodeId, request: Request) {
        self.home().tell(node, request);
    }

    fn holds(&self, node: NodeId, transaction: TransactionId, age: Age) {
        self.home().holds(node, transaction, age);
    }

    fn holds_no_more(&self, transaction: TransactionId) {
        self.home().holds_no_more(transaction);
    }
}
