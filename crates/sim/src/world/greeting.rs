//! Greetings between nodes, which keep away a node whose disk is not the one that its peers met.
//!
//! A node greets all other nodes when its incarnation begins, and repeats that until it is
//! admitted.

use super::{Event, EventTarget, MS, World};
use crate::sim_protocol::SimProtocol;
use meridian_machine::NodeId;
use meridian_placement::{DiskId, Greeting, IdentityMismatch, PeerIdentities};
use rand::Rng;

/// The interval at which a node that is not admitted repeats its greetings.
const AGAIN: u64 = 200 * MS;

impl<R: SimProtocol> World<R> {
    pub(super) fn others(&self, node: usize) -> Vec<NodeId> {
        self.members.iter().copied().filter(|other| *other != self.members[node]).collect()
    }

    pub(super) fn disk(&self, node: usize) -> DiskId {
        self.nodes[node].peer_identities.disk()
    }

    /// Greets all other nodes, and again later if the node is not admitted by then.
    pub(super) fn greet(&mut self, node: usize) {
        (0..self.nodes.len())
            .filter(|other| *other != node)
            .for_each(|other| self.send_greeting(node, other, false));
        if !self.nodes[node].peer_identities.admitted() {
            let target = self.target(node);
            self.push(AGAIN, target, Event::Greet);
        }
    }

    fn send_greeting(&mut self, node: usize, to: usize, answers: bool) {
        let there = &self.nodes[node];
        let greeting = there.peer_identities.greeting(there.incarnation, self.members[to]);
        for delay in self.network.carry(self.now(), node, to, &mut self.rng) {
            self.push(
                delay,
                Some(EventTarget { node: to, incarnation: None }),
                Event::Greeting { from: node, greeting, answers },
            );
        }
    }

    pub(super) fn meet(&mut self, node: usize, from: usize, greeting: Greeting, answers: bool) {
        let (me, other, others) = (self.members[node], self.members[from], self.others(node));
        let there = &mut self.nodes[node];
        if there.process.is_none() {
            return;
        }
        match there.peer_identities.receive(other, greeting) {
            Ok(_) if there.peer_identities.admit(&others) => {
                self.log(|| format!("{me} is admitted"));
                self.reach();
            }
            Ok(_) => {}
            Err(why @ IdentityMismatch::Myself(_)) if answers => {
                return self.refuse_peer(node, why);
            }
            Err(why) => self.log(|| format!("{me} keeps away from {other}: {why}")),
        }
        if !answers {
            self.send_greeting(node, from, true);
        }
    }

    /// Ends a node for good whose peers have met another disk under its name.
    fn refuse_peer(&mut self, node: usize, why: IdentityMismatch) {
        let me = self.members[node];
        if !self.corrupted.contains_key(&node) {
            return self
                .fail(format!("{me} is kept away, although its disk is the one it had: {why}"));
        }
        self.log(|| format!("{me} ends for good: {why}"));
        *self.struck.entry("unknown node kept away").or_default() += 1;
        self.gone.insert(node);
        self.crash(node, 0);
    }

    /// Empties the disks of a node. With `forgets`, the node has also lost the knowledge that it
    /// was a member.
    pub(super) fn wipe(&mut self, node: usize, forgets: bool, for_ns: u64) -> bool {
        let lives = self.nodes[node].process.is_some();
        if !lives || !self.may_corrupt(node) {
            return false;
        }
        self.crash(node, for_ns);
        self.disks_born += 1;
        let disk = DiskId(self.disks_born);
        let there = &mut self.nodes[node];
        there.disks = Default::default();
        if forgets {
            there.peer_identities = PeerIdentities::of_new_disk(disk);
        }
        true
    }

    /// Makes all nodes know and admit each other.
    pub(super) fn exchange_identities(&mut self) {
        for node in 0..self.nodes.len() {
            for other in (0..self.nodes.len()).filter(|other| *other != node) {
                let there = &self.nodes[other];
                let mine = Some(self.disk(node));
                let greeting =
                    there.peer_identities.greeting(there.incarnation, self.members[node]);
                let _ = self.nodes[node]
                    .peer_identities
                    .receive(self.members[other], Greeting { yours: mine, ..greeting });
            }
            let others = self.others(node);
            self.nodes[node].peer_identities.admit(&others);
        }
        self.reach();
    }

    /// Schedules the first greeting of an incarnation, at slightly different times per node.
    pub(super) fn greet_soon(&mut self, node: usize) {
        let after = self.rng.random_range(0..MS);
        let target = self.target(node);
        self.push(after, target, Event::Greet);
    }
}
