//! This node, as the coordinators of one database see it, whichever protocol they speak.

use crate::context::NodeContext;
use crate::node_resources::NodeResources;
use crate::peers::Peers;
use crate::questions::Questions;
use crate::timers::Wake;
use meridian_clock::Reading;
use meridian_machine::{Incarnation, NodeId};
use meridian_txn::Node;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The time, the identity, the links and the disk of this node, for the coordinators of one
/// database.
pub struct LocalNode {
    me: NodeId,
    incarnation: Incarnation,
    resources: Arc<NodeResources>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    next_number: AtomicU64,
    random: Mutex<StdRng>,
    closed: AtomicBool,
    /// Coordinators that sleep. Nothing is asked, so that no answer comes.
    sleeping: Questions<Infallible>,
    this: Weak<LocalNode>,
}

impl LocalNode {
    /// Makes the view of a database that opens.
    pub fn new(context: &NodeContext) -> Arc<Self> {
        let mut seed = [0; 32];
        if getrandom::fill(&mut seed).is_err() {
            // Random numbers only spread retries.
            seed[..8].copy_from_slice(&crate::clock::boot_ns().to_le_bytes());
        }
        Arc::new_cyclic(|this| LocalNode {
            me: context.me,
            incarnation: context.incarnation,
            resources: Arc::clone(&context.resources),
            peers: Arc::clone(&context.peers),
            next_number: AtomicU64::new(1),
            random: Mutex::new(StdRng::from_seed(seed)),
            closed: AtomicBool::new(false),
            sleeping: Questions::default(),
            this: this.clone(),
        })
    }

    /// The resources that all machines of the node share.
    pub fn resources(&self) -> &Arc<NodeResources> {
        &self.resources
    }

    /// The links to other nodes, once they are up.
    pub fn links(&self) -> &Arc<OnceLock<Arc<Peers>>> {
        &self.peers
    }

    /// The links to other nodes; `None` while the node starts.
    pub fn peers(&self) -> Option<&Arc<Peers>> {
        self.peers.get()
    }

    /// Wakes all coordinators that sleep; those that go to sleep later wake at once.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.sleeping.close();
    }

    fn wake_at(&self, at: u64) {
        let this: Weak<dyn Wake> = self.this.clone();
        self.resources.timers.wake_at(at, this);
    }
}

impl Wake for LocalNode {
    fn wake(self: Arc<Self>) {
        if let Some(at) = self.sleeping.wake_late(crate::clock::boot_ns()) {
            self.wake_at(at);
        }
    }
}

impl Node for LocalNode {
    fn now(&self) -> Reading {
        self.resources.clock.now()
    }

    fn boot_ns(&self) -> u64 {
        crate::clock::boot_ns()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn random(&self) -> f64 {
        self.random.lock().random_range(0.0..1.0)
    }

    fn random_below(&self, bound: usize) -> usize {
        self.random.lock().random_range(0..bound.max(1))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn is_full(&self) -> bool {
        self.resources.journal.is_full()
    }

    fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.peers().is_some_and(|peers| peers.is_connected(node))
    }

    async fn sleep_until(&self, until: u64) {
        self.sleeping.open(self.new_number()).pause(until, |at| self.wake_at(at)).await;
    }
}
