//! A node's cache of a database's shards: their keys, and their leaders.
//!
//! It is a cache. A request that reaches a wrong replica is answered with the right one, or with a
//! hint; the cache learns it, and the request goes on.

use super::ReplicaId;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::{FIRST_SHARD, Routes};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How long a leadership is not named in commits after a request that named it was refused, in
/// nanoseconds.
const SUSPECT_FOR_NS: u64 = 10_000_000_000;

/// The routes and the leaders of a database's shards, as far as a node knows them.
#[derive(Debug)]
pub struct ShardMap {
    me: NodeId,
    nodes: Vec<NodeId>,
    /// Most databases have one shard: then neither its keys nor its leader take a lock.
    one_shard: AtomicBool,
    first_leader: AtomicU32,
    routes: RwLock<Routes>,
    leaders: RwLock<BTreeMap<ShardId, NodeId>>,
    leaderships: RwLock<BTreeMap<ShardId, Leadership>>,
}

/// The newest leadership of a shard of which the node knows.
#[derive(Clone, Copy, Debug)]
struct Leadership {
    node: NodeId,
    term: u64,
    /// It is not named before then, by the boot clock.
    doubted_until_ns: u64,
}

impl ShardMap {
    /// Knows one shard, which has all keys and is led here, at node `me` of these nodes.
    pub fn new(me: NodeId, nodes: Vec<NodeId>) -> Self {
        ShardMap {
            me,
            nodes,
            one_shard: AtomicBool::new(true),
            first_leader: AtomicU32::new(me.0),
            routes: RwLock::default(),
            leaders: RwLock::default(),
            leaderships: RwLock::default(),
        }
    }

    /// The nodes on which shards may have replicas.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    // ---------------------------------------------------------------------------------------
    // keys

    /// True while one shard is known. Where that shard is led, a split is known at once.
    pub fn has_one_shard(&self) -> bool {
        self.one_shard.load(Ordering::Acquire)
    }

    /// The shard of a key, and the shard's keys.
    pub fn route(&self, key: &[u8]) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().of(key)
    }

    /// The shard of the last key below `end`, or of the last of all keys, and the shard's keys.
    pub fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().below(end)
    }

    /// The parts of a range in each shard, as far as is known.
    pub fn parts(&self, range: &KeyRange) -> Vec<(ShardId, KeyRange)> {
        let (mut parts, mut rest) = (Vec::new(), Some(range.clone()));
        while let Some(range) = rest.filter(|range| !range.is_empty()) {
            let (shard, bounds) = self.route(&range.start);
            parts.push((shard, range.common(&bounds)));
            let beyond = bounds.end.clone().filter(|_| !bounds.reaches(&range));
            rest = beyond.map(|start| KeyRange { start, end: range.end.clone() });
        }
        parts
    }

    /// All known shards, in the order of their keys.
    pub fn shards(&self) -> Vec<ShardId> {
        if self.has_one_shard() {
            return vec![FIRST_SHARD];
        }
        self.routes.read().shards().map(|(_, shard)| shard).collect()
    }

    /// Learns the keys of a shard from its replica on this node. Empty bounds say nothing.
    pub fn learn_bounds(&self, bounds: &KeyRange, shard: ShardId) {
        if bounds.is_empty() {
            return;
        }
        let mut routes = self.routes.write();
        let mut is_new = routes.learn(bounds.start.clone(), shard);
        if let Some(end) = &bounds.end {
            is_new |= routes.learn_end(end.clone());
        }
        self.note_routes(&routes, is_new);
    }

    /// Learns from a redirect: a replica that was asked for `key` does not have it, since the keys
    /// from `from` on are those of `shard`, or `shard` is the next to ask. A shard that is new here
    /// is taken to be led where the shard is led that had its keys.
    pub fn learn_route(&self, key: &[u8], from: Key, shard: ShardId) {
        let mut routes = self.routes.write();
        let parent = routes.of(&from).0;
        let is_new = routes.learn_location(key, from, shard);
        self.note_routes(&routes, is_new);
        drop(routes);
        if is_new && let Some(leader) = self.known_leader(parent) {
            self.leaders.write().entry(shard).or_insert(leader);
        }
    }

    fn note_routes(&self, routes: &Routes, is_new: bool) {
        if is_new && routes.count() > 1 {
            self.one_shard.store(false, Ordering::Release);
        }
    }

    // ---------------------------------------------------------------------------------------
    // leaders

    /// The node to ask for a shard: its leader, as far as is known.
    pub fn leader(&self, shard: ShardId) -> NodeId {
        match shard {
            FIRST_SHARD => NodeId(self.first_leader.load(Ordering::Relaxed)),
            _ => self.known_leader(shard).unwrap_or(self.me),
        }
    }

    fn known_leader(&self, shard: ShardId) -> Option<NodeId> {
        match shard {
            FIRST_SHARD => Some(self.leader(shard)),
            _ => self.leaders.read().get(&shard).copied(),
        }
    }

    /// From now on this node is asked for a shard.
    pub fn set_leader(&self, shard: ShardId, leader: NodeId) {
        match shard {
            FIRST_SHARD => self.first_leader.store(leader.0, Ordering::Relaxed),
            _ => drop(self.leaders.write().insert(shard, leader)),
        }
    }

    /// Learns that the replica that was asked does not lead, and which node does, if the replica
    /// knows. Without a hint the next node is asked, unless another one is known by now.
    pub fn redirect(&self, asked: ReplicaId, leader: Option<NodeId>) {
        let next = || {
            let after = self.nodes.iter().find(|node| **node > asked.node);
            after.or(self.nodes.first()).copied()
        };
        let next = || next().filter(|_| self.leader(asked.shard) == asked.node);
        if let Some(leader) = leader.or_else(next) {
            self.set_leader(asked.shard, leader);
        }
    }

    /// The term in which a replica leads, if that is the newest that is known, and not in doubt by
    /// the boot clock.
    pub fn term(&self, replica: ReplicaId, now_ns: u64) -> Option<u64> {
        let leadership = self.leaderships.read().get(&replica.shard).copied();
        let named = leadership
            .filter(|known| known.node == replica.node && known.doubted_until_ns <= now_ns);
        named.map(|known| known.term)
    }

    /// Learns that a replica leads in a term.
    pub fn learn_term(&self, replica: ReplicaId, term: u64) {
        let is_older = |known: &Leadership| known.term < term;
        if self.leaderships.read().get(&replica.shard).is_some_and(|known| !is_older(known)) {
            return;
        }
        let mut leaderships = self.leaderships.write();
        if leaderships.get(&replica.shard).is_none_or(is_older) {
            let leadership = Leadership { node: replica.node, term, doubted_until_ns: 0 };
            leaderships.insert(replica.shard, leadership);
        }
    }

    /// A request that named this term was refused: the term is not named for ten seconds, unless a
    /// newer one is learned.
    pub fn doubt_term(&self, replica: ReplicaId, term: u64, now_ns: u64) {
        if let Some(known) = self.leaderships.write().get_mut(&replica.shard)
            && known.term == term
        {
            known.doubted_until_ns = now_ns + SUSPECT_FOR_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: ShardId = ShardId(1);

    fn map() -> ShardMap {
        ShardMap::new(NodeId(1), vec![NodeId(1), NodeId(2), NodeId(3)])
    }

    #[test]
    fn a_shard_that_a_redirect_names_is_led_where_its_parent_is() {
        let map = map();
        map.set_leader(FIRST_SHARD, NodeId(3));
        assert!(map.has_one_shard());
        map.learn_route(b"m", "m".into(), SECOND);
        assert!(!map.has_one_shard());
        assert_eq!((map.route(b"n").0, map.leader(SECOND)), (SECOND, NodeId(3)));
        assert_eq!(map.shards(), [FIRST_SHARD, SECOND]);
    }

    #[test]
    fn a_range_has_a_part_in_each_shard_that_it_reaches() {
        let map = map();
        let range =
            |start: &str, end: &str| KeyRange { start: start.into(), end: Some(end.into()) };
        assert_eq!(map.parts(&range("a", "z")), [(FIRST_SHARD, range("a", "z"))]);
        map.learn_route(b"m", "m".into(), SECOND);
        let both = [(FIRST_SHARD, range("a", "m")), (SECOND, range("m", "z"))];
        assert_eq!(map.parts(&range("a", "z")), both);
        assert_eq!(map.parts(&range("a", "m")), [(FIRST_SHARD, range("a", "m"))]);
        assert_eq!(map.parts(&range("b", "b")), []);
    }

    #[test]
    fn without_a_hint_the_next_node_is_asked_once() {
        let map = map();
        let asked = ReplicaId { shard: FIRST_SHARD, node: NodeId(1) };
        map.redirect(asked, None);
        assert_eq!(map.leader(FIRST_SHARD), NodeId(2));
        map.redirect(asked, None); // A second request to the same replica learns nothing new.
        assert_eq!(map.leader(FIRST_SHARD), NodeId(2));
        map.redirect(asked, Some(NodeId(3)));
        assert_eq!(map.leader(FIRST_SHARD), NodeId(3));
        map.redirect(ReplicaId { shard: FIRST_SHARD, node: NodeId(3) }, None);
        assert_eq!(map.leader(FIRST_SHARD), NodeId(1));
    }

    #[test]
    fn a_term_in_doubt_is_not_named_until_a_newer_one_or_ten_seconds_later() {
        let (map, replica) = (map(), ReplicaId { shard: FIRST_SHARD, node: NodeId(2) });
        map.learn_term(replica, 5);
        map.learn_term(replica, 4);
        assert_eq!(map.term(replica, 0), Some(5));
        map.doubt_term(replica, 4, 0);
        assert_eq!(map.term(replica, 0), Some(5));
        map.doubt_term(replica, 5, 1);
        assert_eq!(map.term(replica, SUSPECT_FOR_NS), None);
        assert_eq!(map.term(replica, SUSPECT_FOR_NS + 1), Some(5));
        map.doubt_term(replica, 5, 1);
        map.learn_term(replica, 6);
        assert_eq!(map.term(replica, 1), Some(6));
        assert_eq!(map.term(ReplicaId { node: NodeId(3), ..replica }, 1), None);
    }
}
