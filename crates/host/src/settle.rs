//! The thread that moves versions from memory to the store, lets the log go, and removes versions
//! that are too old to be read.
//!
//! ```text
//!   every few seconds   Recent ──▶ store, unsynced, each batch with the position up to which it is complete: the longer versions wait,
//!   or so many bytes:   the fewer pages of the store are written again and again, and the more is read from memory
//!                       superseded versions behind the horizon (now - history) are removed, a part of the keys each time
//!   every few seconds   store.checkpoint(), then each shard logs a checkpoint with what the store does not hold yet,
//!   or so many bytes:   and the log frees the segments before it
//! ```
//!
//! Every shard takes part in each checkpoint, so that a shard on which nothing happens holds no
//! segment back. A store without room keeps versions in Recent and the log in place; the next round
//! tries again.

use crate::plumbing::Plumbing;
use meridian_clock::Timestamp;
use meridian_mvcc::{Store, StoreError};
use meridian_store::Space;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often.
#[derive(Clone, Copy, Debug)]
pub struct SettleOptions {
    /// Between two looks.
    pub every: Duration,
    /// Versions wait in memory for so long at most …
    pub after: Duration,
    /// … or until they take so many bytes.
    pub after_bytes: usize,
    /// Between two checkpoints, if anything happened.
    pub checkpoint_every: Duration,
    /// Or after so many settled bytes.
    pub checkpoint_bytes: usize,
    /// What goes into the store at once.
    pub batch_bytes: usize,
    /// How long superseded versions can be read, and are kept, where the database does not say.
    pub history: Duration,
}

impl Default for SettleOptions {
    fn default() -> Self {
        SettleOptions {
            every: Duration::from_secs(1),
            after: Duration::from_secs(8),
            after_bytes: 56 << 20,
            checkpoint_every: Duration::from_secs(10),
            checkpoint_bytes: 64 << 20,
            batch_bytes: 16 << 20,
            history: Duration::from_secs(600),
        }
    }
}

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// The thread.
pub struct Settler {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A shard as the settler sees it.
pub trait Settles: Send + Sync {
    /// Its versions.
    fn space(&self) -> &Space;
    /// Everything at or below is installed here, and nothing more will appear.
    fn closed(&self) -> Timestamp;
    /// For how long its superseded versions are kept, if its database says.
    fn retention(&self) -> Option<Duration>;
    /// Something was settled.
    fn settled(&self);
    /// The store has been checkpointed with everything up to `applied`: lets the log go.
    fn let_go(&self, applied: u64);
    /// Whether somebody waits for that.
    fn waits_for_checkpoint(&self) -> bool {
        false
    }
    /// The store refused something of this shard's.
    fn heed(&self, error: &StoreError);
}

/// The shards that live now.
pub type Shards = Arc<dyn Fn() -> Vec<Arc<dyn Settles>> + Send + Sync>;

impl Settler {
    /// Starts the thread.
    pub fn start(
        options: SettleOptions,
        plumbing: Arc<Plumbing>,
        shards: Shards,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let guard = Arc::clone(&plumbing.guard);
        let thread = guard.spawn("settle", move || run(&of_thread, options, &plumbing, &shards))?;
        Ok(Settler { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread.
    pub fn stop(&self) {
        *self.shared.stopped.lock() = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, options: SettleOptions, plumbing: &Plumbing, shards: &Shards) {
    let (mut settled, mut last, mut last_settled) = (0, Instant::now(), Instant::now());
    let mut full = false;
    loop {
        {
            let mut stopped = shared.stopped.lock();
            if !*stopped {
                shared.changed.wait_for(&mut stopped, options.every);
            }
            if *stopped {
                return;
            }
        }
        let shards = shards();
        let waiting: usize = shards.iter().map(|shard| shard.space().recent_bytes()).sum();
        let waited_for = shards.iter().any(|shard| shard.waits_for_checkpoint());
        if !full
            && !waited_for
            && waiting < options.after_bytes
            && last_settled.elapsed() < options.after
        {
            continue;
        }
        last_settled = Instant::now();
        full = false;
        for shard in &shards {
            match shard.space().settle(options.batch_bytes) {
                Ok(bytes) => {
                    settled += bytes;
                    shard.settled();
                    if let Err(error) = collect(&**shard, options, plumbing, bytes) {
                        complain("remove old versions", &error);
                        shard.heed(&error);
                    }
                }
                Err(error) => {
                    full |= matches!(error, StoreError::Full { .. });
                    complain("settle", &error);
                    shard.heed(&error);
                }
            }
        }
        let due = settled >= options.checkpoint_bytes
            || (settled > 0 && last.elapsed() >= options.checkpoint_every);
        if due || waited_for {
            (settled, last) = (0, Instant::now());
            if let Err(error) = checkpoint(&*plumbing.store, &shards) {
                full |= matches!(error, StoreError::Full { .. });
                complain("checkpoint", &error);
            }
        }
        plumbing.journal.set_store_full(full);
    }
}

/// Removes old versions at a pace that keeps up with new ones, and costs little when there are few.
fn collect(
    shard: &dyn Settles,
    options: SettleOptions,
    plumbing: &Plumbing,
    settled_bytes: usize,
) -> Result<(), StoreError> {
    const PACE_BYTES: usize = 32 << 20;
    let history = shard.retention().unwrap_or(options.history);
    let history_ns = u64::try_from(history.as_nanos()).unwrap_or(u64::MAX);
    let now_ns = plumbing.clock.now().interval.earliest;
    shard
        .space()
        .collect(now_ns, history_ns, shard.closed(), PACE_BYTES + 2 * settled_bytes)
        .map(drop)
}

/// Makes what was settled survive a crash, and lets the log go up to there.
pub fn checkpoint(store: &dyn Store, shards: &[Arc<dyn Settles>]) -> Result<(), StoreError> {
    // Read before the checkpoint: what is settled during it may or may not be in it.
    let position = |shard: &Arc<dyn Settles>| shard.space().extent().map(|extent| extent.position);
    let applied: Result<Vec<u64>, StoreError> = shards.iter().map(position).collect();
    let applied = applied?;
    store.checkpoint()?;
    for (shard, applied) in shards.iter().zip(applied) {
        shard.let_go(applied);
    }
    Ok(())
}

fn complain(what: &str, error: &StoreError) {
    tracing::error!(%error, "cannot {what}; trying again");
}
