//! The settler thread: flushes versions from memory to the store engine, truncates the log, and
//! removes superseded versions that are too old to be read.
//!
//! ```text
//!   every few seconds   Recent ──▶ store, unsynced, each batch with the position up to which it is
//!   or enough bytes:    complete. The longer versions wait, the fewer pages of the store are
//!                       written repeatedly, and the more is read from memory.
//!                       Superseded versions behind the horizon (now - history) are removed, a part
//!                       of the keys each time.
//!   every few seconds   store.checkpoint(); then each shard logs a checkpoint with what the store
//!   or enough bytes:    does not hold yet, and the log frees the segments before it
//! ```
//!
//! Every shard takes part in each checkpoint, so that an idle shard holds no segment back. If the
//! store has no room, versions stay in Recent and the log is not truncated; the next round retries.

use crate::node_resources::NodeResources;
use meridian_clock::Timestamp;
use meridian_mvcc::{Store, StoreError};
use meridian_store::ShardStore;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The intervals and limits of the settler.
#[derive(Clone, Copy, Debug)]
pub struct FlushOptions {
    /// Time between two checks.
    pub every: Duration,
    /// Time that versions wait in memory, at most …
    pub after: Duration,
    /// … or until they take this many bytes.
    pub after_bytes: usize,
    /// Time between two checkpoints, if versions were flushed.
    pub checkpoint_every: Duration,
    /// Flushed bytes after which a checkpoint is made earlier.
    pub checkpoint_bytes: usize,
    /// Bytes of one batch.
    pub batch_bytes: usize,
    /// Retention of superseded versions, if the database's row does not say.
    pub history: Duration,
}

impl Default for FlushOptions {
    fn default() -> Self {
        FlushOptions {
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

/// The settler thread.
pub struct Flusher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A replica of a shard, as the settler uses it.
pub trait Flushable: Send + Sync {
    /// Returns the shard's versions.
    fn shard_store(&self) -> &ShardStore;
    /// Returns the closed timestamp: everything at or below it is installed here, and no later
    /// commit gets such a timestamp.
    fn closed(&self) -> Timestamp;
    /// Returns how long superseded versions are kept, if the database's row says.
    fn retention(&self) -> Option<Duration>;
    /// Called after versions were flushed.
    fn on_flushed(&self);
    /// Truncates the log, once the store has been checkpointed with everything up to `applied`.
    fn truncate_log(&self, applied: u64);
    /// True if the replica waits for a checkpoint.
    fn waits_for_checkpoint(&self) -> bool {
        false
    }
    /// Handles an error of the store on this shard.
    fn on_store_error(&self, error: &StoreError);
}

/// Returns the replicas that run now.
pub type Shards = Arc<dyn Fn() -> Vec<Arc<dyn Flushable>> + Send + Sync>;

impl Flusher {
    /// Starts the thread.
    pub fn start(
        options: FlushOptions,
        resources: Arc<NodeResources>,
        shards: Shards,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let guard = Arc::clone(&resources.guard);
        let thread =
            guard.spawn("settle", move || run(&of_thread, options, &resources, &shards))?;
        Ok(Flusher { shared, thread: Mutex::new(Some(thread)) })
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

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, options: FlushOptions, resources: &NodeResources, shards: &Shards) {
    let (mut flushed, mut last, mut last_flushed) = (0, Instant::now(), Instant::now());
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
        let waiting: usize = shards.iter().map(|shard| shard.shard_store().memtable_bytes()).sum();
        let waited_for = shards.iter().any(|shard| shard.waits_for_checkpoint());
        if !full
            && !waited_for
            && waiting < options.after_bytes
            && last_flushed.elapsed() < options.after
        {
            continue;
        }
        last_flushed = Instant::now();
        full = false;
        for shard in &shards {
            match shard.shard_store().flush(options.batch_bytes) {
                Ok(bytes) => {
                    flushed += bytes;
                    shard.on_flushed();
                    if let Err(error) = collect(&**shard, options, resources, bytes) {
                        complain("remove old versions", &error);
                        shard.on_store_error(&error);
                    }
                }
                Err(error) => {
                    full |= matches!(error, StoreError::Full { .. });
                    complain("settle", &error);
                    shard.on_store_error(&error);
                }
            }
        }
        let due = flushed >= options.checkpoint_bytes
            || (flushed > 0 && last.elapsed() >= options.checkpoint_every);
        if due || waited_for {
            (flushed, last) = (0, Instant::now());
            if let Err(error) = checkpoint(&*resources.store, &shards) {
                full |= matches!(error, StoreError::Full { .. });
                complain("checkpoint", &error);
            }
        }
        resources.journal.set_store_full(full);
    }
}

/// Removes old versions at a pace that keeps up with new ones and costs little when there are few.
fn collect(
    shard: &dyn Flushable,
    options: FlushOptions,
    resources: &NodeResources,
    settled_bytes: usize,
) -> Result<(), StoreError> {
    const PACE_BYTES: usize = 32 << 20;
    let history = shard.retention().unwrap_or(options.history);
    let history_ns = u64::try_from(history.as_nanos()).unwrap_or(u64::MAX);
    let now_ns = resources.clock.now().interval.earliest;
    shard
        .shard_store()
        .collect(now_ns, history_ns, shard.closed(), PACE_BYTES + 2 * settled_bytes)
        .map(drop)
}

/// Makes flushed versions durable, and truncates the log accordingly.
pub fn checkpoint(store: &dyn Store, shards: &[Arc<dyn Flushable>]) -> Result<(), StoreError> {
    // Read before the checkpoint: versions that are flushed during it may or may not be part of it.
    let position =
        |shard: &Arc<dyn Flushable>| shard.shard_store().extent().map(|extent| extent.position);
    let applied: Result<Vec<u64>, StoreError> = shards.iter().map(position).collect();
    let applied = applied?;
    store.checkpoint()?;
    for (shard, applied) in shards.iter().zip(applied) {
        shard.truncate_log(applied);
    }
    Ok(())
}

fn complain(what: &str, error: &StoreError) {
    tracing::error!(%error, "cannot {what}; trying again");
}
