//! One shard of a database at home on a node that is alone: its machine, its versions, its slot for readers.

use crate::clock::Clock;
use crate::envelope;
use crate::journal::Journal;
use crate::resident::{Input, Resident, World};
use crate::settle::Settles;
use crate::solo::{Act, Record, Solo};
use crate::space::Space;
use crate::timers::{Timers, Wake};
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, Outbox, Position};
use meridian_mvcc::{Store, StoreError};
use parking_lot::RwLock;
use std::sync::{Arc, Weak};

/// What all machines of a node share.
pub struct Plumbing {
    /// The time.
    pub clock: Clock,
    /// The timer thread.
    pub timers: Timers,
    /// The log thread.
    pub journal: Journal,
    /// The engine.
    pub store: Arc<dyn Store>,
    /// The node's number, which issues timestamps.
    pub node: u32,
}

/// A shard's machine at home.
pub type Shard = Resident<Solo, Home>;

/// The world of a shard's machine.
pub struct Home {
    key: MachineKey,
    plumbing: Arc<Plumbing>,
    space: Space,
    through: RwLock<Timestamp>,
    this: Weak<Shard>,
}

/// Brings a shard to life from what the log has of it.
pub fn begin(
    key: MachineKey,
    plumbing: &Arc<Plumbing>,
    records: impl IntoIterator<Item = Record>,
) -> Result<Arc<Shard>, StoreError> {
    let space = Space::new(key, Arc::clone(&plumbing.store));
    let (solo, installs) = Solo::born(plumbing.node, space.applied()?, records);
    for commit in &installs {
        space.install(commit.at, &commit.writes, commit.number);
    }
    let through = RwLock::new(solo.through());
    let plumbing = Arc::clone(plumbing);
    Ok(Resident::new(solo, Outbox::new(), |this| Home { key, plumbing, space, through, this: this.clone() }))
}

impl Home {
    /// What the node's machines share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// The shard's versions.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The slot for readers: everything at or below this is installed, and nothing will appear there any more.
    pub fn through(&self) -> Timestamp {
        *self.through.read()
    }

    /// Whose records are this shard's.
    pub fn key(&self) -> MachineKey {
        self.key
    }

    /// The store has been checkpointed with everything up to `applied`: lets the log go.
    pub fn let_go(&self, applied: u64) {
        let Some(this) = self.this.upgrade() else { return };
        let (plumbing, key) = (Arc::clone(&self.plumbing), self.key);
        this.post(Input::Call(Box::new(move |solo, _, _| {
            // Within a step: what was persisted before stands before it in the queue, what comes later after it.
            plumbing.journal.checkpoint(key, envelope::write_record(&solo.checkpoint(applied)));
        })));
    }
}

impl Settles for Shard {
    fn space(&self) -> &Space {
        &self.world().space
    }

    fn let_go(&self, applied: u64) {
        self.world().let_go(applied);
    }
}

impl World<Solo> for Home {
    fn now(&self) -> Reading {
        self.plumbing.clock.now()
    }

    fn send(&self, _: Option<u64>, _: Address, (): ()) {}

    fn persist(&self, position: Position, record: Record) {
        if let Some(this) = self.this.upgrade() {
            self.plumbing.journal.persist(self.key, || envelope::write_record(&record), position, this);
        }
    }

    fn act(&self, effect: Act) {
        match effect {
            Act::Install(commit) => {
                self.space.install(commit.at, &commit.writes, commit.number);
                *self.through.write() = commit.at;
            }
            Act::Grant(answerer, answer) => answerer.answer(answer),
            Act::Finish(answerer, outcome) => answerer.answer(outcome),
        }
    }

    fn flush(&self) {
        self.plumbing.journal.kick();
    }

    fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.plumbing.timers.wake_at(at, who);
    }
}
