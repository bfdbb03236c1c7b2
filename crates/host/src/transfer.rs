//! The thread that copies whole shards, from a leader to a replica that the log does not reach.
//!
//! ```text
//!   a leader ── Effect::SendSnapshot ──▶ ┌─────────┐ ◀── parcels of other nodes
//!   its group ◀── begun, delivered ───── │ Courier │
//!   a replica ◀── a step installs it ─── └─────────┘ ──▶ links
//! ```
//!
//! The protocol between couriers is in [`meridian_store::courier`]; the simulator drives the same
//! code.
//!
//! A copy has the versions that its source can read: its horizon is the source's.

use crate::panics::PanicGuard;
use crate::peers::Peers;
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_mvcc::StoreError;
use meridian_store::ShardStore;
use meridian_store::courier::{Courier, Order, Pace, Parcel, Received, Said};
use meridian_systems::envelope::{self, Kind};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Limits and waits of a copy. Two megabytes in flight to a node fill a link of 100 Mbit/s over 150
/// ms; on a slower link they delay heartbeats for no longer than a lease lasts.
const PACE: Pace = Pace {
    tick_ns: 250_000_000,
    again_ns: 1_000_000_000,
    timeout_ns: 30_000_000_000,
    page_bytes: 256 << 10,
    window: 8,
    flush_bytes: 4 << 20,
};

enum Work {
    /// A leader orders a copy, of everything up to an entry, for a replica.
    Send(Order),
    Received {
        from: NodeId,
        parcel: Parcel,
    },
    /// A replica has installed a received copy, or does not want it.
    Taken(Received),
    Stop,
}

/// This node's replica of a shard, as the source or the target of copies.
// `Any`, so that a test can reach the replica.
pub trait Copied: Any + Send + Sync {
    /// Returns the shard's versions.
    fn shard_store(&self) -> Arc<ShardStore>;
    /// Handles an error of the store.
    fn on_store_error(&self, error: &StoreError);
    /// Notes the start of a copy of everything up to an entry.
    fn begun(&self, to: NodeId, position: u64);
    /// Notes the end of a copy: delivered up to an entry, or given up if `position` is 0.
    fn ended(&self, to: NodeId, position: u64);
    /// Installs a received copy, unless the replica has as much by itself.
    fn take_over(self: Arc<Self>, taken: Taken);
}

/// Finds this node's replica of a shard.
pub type Find = Arc<dyn Fn(MachineKey) -> Option<Arc<dyn Copied>> + Send + Sync>;

/// The thread that copies shards.
pub struct Transfers {
    received: Arc<AtomicU64>,
    work: Mutex<mpsc::Sender<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Transfers {
    /// Starts the thread.
    pub fn start(
        find: Find,
        peers: Arc<OnceLock<Arc<Peers>>>,
        guard: &Arc<PanicGuard>,
    ) -> std::io::Result<Arc<Self>> {
        let (work, inbox) = mpsc::channel();
        let received = Arc::new(AtomicU64::new(0));
        // Distinct between the incarnations of a node.
        let courier = Courier::new(PACE, crate::clock::boot_ns());
        let carrier =
            Carrier { find, peers, courier, work: work.clone(), received: Arc::clone(&received) };
        let thread = guard.spawn("transfer", move || carrier.run(&inbox))?;
        Ok(Arc::new(Transfers {
            received,
            work: Mutex::new(work),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Sends a replica a copy of a shard up to an entry. A witness gets the shard's own rows only.
    pub fn send(&self, order: Order) {
        let _ = self.work.lock().send(Work::Send(order));
    }

    /// Handles a frame of another node.
    pub fn receive(&self, from: NodeId, frame: &[u8]) {
        match envelope::read(Kind::TRANSFER, frame) {
            Ok(parcel) => drop(self.work.lock().send(Work::Received { from, parcel })),
            Err(why) => tracing::warn!(%from, %why, "dropped a part of a copy"),
        }
    }

    /// Returns the number of complete copies that this node has received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends the thread.
    pub fn stop(&self) {
        let _ = self.work.lock().send(Work::Stop);
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Carrier {
    find: Find,
    peers: Arc<OnceLock<Arc<Peers>>>,
    courier: Courier,
    work: mpsc::Sender<Work>,
    received: Arc<AtomicU64>,
}

impl Carrier {
    fn run(mut self, inbox: &mpsc::Receiver<Work>) {
        loop {
            let find = Arc::clone(&self.find);
            let shard_store =
                |key: MachineKey| -> Option<Arc<ShardStore>> { Some(find(key)?.shard_store()) };
            let until_tick = |at: u64| at.saturating_sub(crate::clock::boot_ns());
            let wait = self
                .courier
                .next_tick()
                .map(until_tick)
                .map_or(Duration::MAX, Duration::from_nanos);
            let work = inbox.recv_timeout(wait);
            let now_ns = crate::clock::boot_ns();
            match work {
                Ok(Work::Send(order)) => {
                    let (MachineKey { database, shard }, to) = (order.key, order.to);
                    if self.courier.send(now_ns, &shard_store, order) {
                        tracing::warn!(%to, database, shard, "a copy restarts: the log behind it outgrew its limit");
                    }
                }
                Ok(Work::Received { from, parcel }) => {
                    self.courier.receive(now_ns, &shard_store, from, parcel)
                }
                Ok(Work::Taken(received)) => self.courier.taken(&received),
                Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.courier.next_tick().is_some_and(|at| at <= now_ns) {
                self.courier.tick(now_ns, &shard_store);
            }
            self.courier.drain().into_iter().for_each(|said| self.act(said));
        }
    }

    fn act(&self, said: Said) {
        match said {
            Said::Post(to, parcel) => {
                if let Some(peers) = self.peers.get() {
                    peers.post(to, None, envelope::write(Kind::TRANSFER, &parcel));
                    peers.flush(to);
                }
            }
            Said::Began { key, to, position } => {
                let MachineKey { database, shard } = key;
                tracing::info!(%to, database, shard, position, "sends a copy of a shard");
                if let Some(member) = (self.find)(key) {
                    member.begun(to, position);
                }
            }
            Said::Ended { key, to, position } => self.end(key, to, position),
            Said::Received(received) => {
                self.received.fetch_add(1, Ordering::Relaxed);
                let taken = Taken { work: self.work.clone(), received };
                match (self.find)(received.key) {
                    Some(member) => member.take_over(taken),
                    None => drop(taken),
                }
            }
            Said::Failed { key, error } => {
                let MachineKey { database, shard } = key;
                tracing::error!(database, shard, %error, "cannot read or store a copy of a shard; trying again");
                if let Some(member) = (self.find)(key) {
                    member.on_store_error(&error);
                }
            }
        }
    }

    /// Tells the group that a copy was delivered or given up.
    fn end(&self, key: MachineKey, to: NodeId, position: u64) {
        let MachineKey { database, shard } = key;
        if position == 0 {
            tracing::warn!(%to, database, shard, "gives up a copy: the node does not respond");
        }
        if let Some(member) = (self.find)(key) {
            member.ended(to, position);
        }
    }
}

/// A received copy on its way to its replica. When dropped, it tells the courier that the copy is
/// no longer needed.
pub struct Taken {
    work: mpsc::Sender<Work>,
    received: Received,
}

impl Taken {
    /// Returns the copy.
    pub fn received(&self) -> &Received {
        &self.received
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.work.send(Work::Taken(self.received));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_store::Extent;

    #[test]
    fn parcels_read_back_and_garbage_is_an_error() {
        let extent = Extent { position: 4, ..Extent::default() };
        for parcel in [
            Parcel::Offer { database: 1, shard: 2, number: 3, extent, term: 5 },
            Parcel::Request { number: 3, next: 1, window: 8, again: true },
            Parcel::Page { number: 3, page: 1, versions: Vec::new(), last: true },
            Parcel::Done { number: 3 },
        ] {
            let frame = envelope::write(Kind::TRANSFER, &parcel);
            assert!(envelope::is(Kind::TRANSFER, &frame) && !envelope::is(Kind::TIME, &frame));
            assert_eq!(envelope::read::<Parcel>(Kind::TRANSFER, &frame), Ok(parcel));
            for cut in 0..frame.len() {
                assert!(envelope::read::<Parcel>(Kind::TRANSFER, &frame[..cut]).is_err());
            }
        }
    }
}
