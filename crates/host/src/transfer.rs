//! Whole shards, copied from a leader to a member that is too far behind for the log.
//!
//! ```text
//!   leader                              member
//!   Offer(number, extent) ───────────▶  begins a copy beside the one in use
//!         ◀─────────── Fetch(number, range)
//!   Page(rows, rest) ────────────────▶  adds them, asks for the rest
//!         …
//!         ◀─────────── Done(position)   the copy is durable and in use; the log goes on from there
//! ```
//!
//! The member asks for each page, so that neither side holds more than one, and asks again for what was lost. The leader offers again until
//! it is done, or has heard nothing for [`PATIENCE`]: then its group begins anew.
//!
//! Invariants:
//! 1. A copy takes the place of what is in use within a step of the member's machine, and only if the machine still lacks it.
//! 2. A copy is what the shard was at one timestamp; it has no history, and its horizon says so.

use crate::member::MemberShard;
use crate::panics::PanicGuard;
use crate::peers::Peers;
use crate::resident::Input;
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_mvcc::{KeyRange, SpaceId, StoreError, StoredVersion};
use meridian_replication::group::{Index, Term};
use meridian_store::{Extent, Whole};
use meridian_systems::envelope::{self, Kind};
use meridian_systems::spanner::Replica;
use minicbor::{Decode, Encode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long without a word the other side is given up.
pub const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(250);
const PAGE_BYTES: usize = 1 << 20;
const PAGE_KEYS: usize = 20_000;

/// What hosts say to each other.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
enum Parcel {
    #[n(0)]
    Offer {
        #[n(0)]
        database: u32,
        #[n(1)]
        shard: u32,
        #[n(2)]
        number: u64,
        #[n(3)]
        extent: Extent,
    },
    #[n(1)]
    Fetch {
        #[n(0)]
        number: u64,
        #[n(1)]
        range: KeyRange,
    },
    #[n(2)]
    Page {
        #[n(0)]
        number: u64,
        #[n(1)]
        range: KeyRange,
        #[n(2)]
        versions: Vec<StoredVersion>,
        #[n(3)]
        rest: Option<KeyRange>,
    },
    #[n(3)]
    Done {
        #[n(0)]
        number: u64,
    },
}

enum Work {
    /// The machine of a shard wants a member to have everything up to an entry.
    Send {
        key: MachineKey,
        to: NodeId,
        index: Index,
        witness: bool,
    },
    Heard {
        from: NodeId,
        parcel: Parcel,
    },
    Stop,
}

struct Sending {
    key: MachineKey,
    to: NodeId,
    index: Index,
    /// It keeps no versions.
    witness: bool,
    /// What is sent, once the store goes far enough.
    whole: Option<Whole>,
    heard_at: Instant,
    offered_at: Option<Instant>,
}

struct Receiving {
    key: MachineKey,
    /// The member that it is for: the next one that the node has of the shard, if it is removed meanwhile, is another.
    member: Weak<MemberShard>,
    number: u64,
    copy: SpaceId,
    extent: Extent,
    next: KeyRange,
    heard_at: Instant,
    asked_at: Instant,
}

/// Finds this node's member of a shard.
pub type Find = Arc<dyn Fn(MachineKey) -> Option<Arc<MemberShard>> + Send + Sync>;

/// The thread that copies.
pub struct Transfers {
    received: Arc<AtomicU64>,
    work: Mutex<mpsc::Sender<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Transfers {
    /// Starts the thread.
    pub fn start(find: Find, peers: Arc<OnceLock<Arc<Peers>>>, guard: &Arc<PanicGuard>) -> std::io::Result<Arc<Self>> {
        let (work, inbox) = mpsc::channel();
        let received = Arc::new(AtomicU64::new(0));
        let courier = Courier {
            find,
            peers,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            next: seed(),
            received: Arc::clone(&received),
        };
        let thread = guard.spawn("transfer", move || courier.run(&inbox))?;
        Ok(Arc::new(Transfers { received, work: Mutex::new(work), thread: Mutex::new(Some(thread)) }))
    }

    /// A shard's leader wants a member to have everything up to an entry; a witness, what the shard knows of itself.
    pub fn send(&self, key: MachineKey, to: NodeId, index: Index, witness: bool) {
        let _ = self.work.lock().send(Work::Send { key, to, index, witness });
    }

    /// Takes in a frame of another node.
    pub fn receive(&self, from: NodeId, frame: &[u8]) {
        match envelope::read(Kind::Transfer, frame) {
            Ok(parcel) => drop(self.work.lock().send(Work::Heard { from, parcel })),
            Err(why) => tracing::warn!(%from, %why, "dropped a part of a copy"),
        }
    }

    /// How many copies this node has received whole.
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

/// Numbers of different lives of a node should differ: a late answer to an earlier one is nobody's.
fn seed() -> u64 {
    crate::clock::boot_ns()
}

struct Courier {
    find: Find,
    peers: Arc<OnceLock<Arc<Peers>>>,
    sending: BTreeMap<u64, Sending>,
    receiving: BTreeMap<(NodeId, MachineKey), Receiving>,
    next: u64,
    received: Arc<AtomicU64>,
}

impl Courier {
    fn run(mut self, inbox: &mpsc::Receiver<Work>) {
        loop {
            match inbox.recv_timeout(TICK) {
                Ok(Work::Send { key, to, index, witness }) => self.begin(key, to, index, witness),
                Ok(Work::Heard { from, parcel }) => {
                    if let Err(error) = self.hear(from, parcel) {
                        tracing::error!(%from, %error, "a copy cannot be kept; it will be offered again");
                        self.receiving.retain(|(node, _), _| *node != from);
                    }
                }
                Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tick();
        }
    }

    fn say(&self, to: NodeId, parcel: &Parcel) {
        if let Some(peers) = self.peers.get() {
            peers.post(to, None, envelope::write(Kind::Transfer, parcel));
            peers.flush(to);
        }
    }

    fn begin(&mut self, key: MachineKey, to: NodeId, index: Index, witness: bool) {
        self.sending.retain(|_, sending| (sending.key, sending.to) != (key, to));
        self.next += 1;
        let sending = Sending { key, to, index, witness, whole: None, heard_at: Instant::now(), offered_at: None };
        self.sending.insert(self.next, sending);
    }

    /// Offers again, asks again, gives up.
    fn tick(&mut self) {
        let now = Instant::now();
        let due = |since: Instant| now.duration_since(since) >= AGAIN;
        let mut said = Vec::new();
        for (number, sending) in &mut self.sending {
            if sending.offered_at.is_some_and(|at| !due(at)) {
                continue;
            }
            let Some(member) = (self.find)(sending.key) else { continue };
            if sending.whole.is_none() {
                let space = member.world().space();
                let whole = space.settle(4 << 20).and_then(|_| space.whole(sending.index.0));
                match whole {
                    Ok(Some(whole)) => sending.whole = Some(if sending.witness { whole.bare() } else { whole }),
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::error!(%error, "a shard cannot be copied; trying again");
                        sending.offered_at = Some(now);
                        continue;
                    }
                }
            }
            let Some(Whole { extent, .. }) = &sending.whole else { continue };
            sending.offered_at = Some(now);
            let MachineKey { database, shard } = sending.key;
            said.push((sending.to, Parcel::Offer { database, shard, number: *number, extent: *extent }));
        }
        for ((from, _), receiving) in &mut self.receiving {
            if due(receiving.asked_at) {
                receiving.asked_at = now;
                said.push((*from, Parcel::Fetch { number: receiving.number, range: receiving.next.clone() }));
            }
        }
        for (to, parcel) in said {
            self.say(to, &parcel);
        }
        self.receiving.retain(|_, receiving| now.duration_since(receiving.heard_at) < PATIENCE);
        let late = |sending: &Sending| now.duration_since(sending.heard_at) >= PATIENCE;
        let gone: Vec<u64> = self.sending.iter().filter(|(_, s)| late(s)).map(|(number, _)| *number).collect();
        for number in gone {
            self.end(number, Index(0));
        }
    }

    /// A copy has arrived up to an entry, or is given up: the group goes on.
    fn end(&mut self, number: u64, index: Index) {
        let Some(sending) = self.sending.remove(&number) else { return };
        let Some(member) = (self.find)(sending.key) else { return };
        member.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            replica.with_group(now, out, |group, out| group.snapshot_delivered(now, sending.to, index, out));
        })));
    }

    fn hear(&mut self, from: NodeId, parcel: Parcel) -> Result<(), StoreError> {
        let now = Instant::now();
        match parcel {
            Parcel::Offer { database, shard, number, extent } => {
                let key = MachineKey { database, shard };
                let Some(member) = (self.find)(key) else { return Ok(()) };
                if self.receiving.get(&(from, key)).is_some_and(|known| known.number == number) {
                    return Ok(()); // It is under way.
                }
                if member.world().space().extent()?.position >= extent.position {
                    self.say(from, &Parcel::Done { number });
                    return Ok(());
                }
                tracing::info!(%from, database, shard, position = extent.position, "receives a copy of a shard");
                let copy = member.world().space().begin_copy()?;
                let next = KeyRange::all();
                self.say(from, &Parcel::Fetch { number, range: next.clone() });
                self.receiving.retain(|(_, other), _| *other != key);
                let member = Arc::downgrade(&member);
                let receiving = Receiving { key, member, number, copy, extent, next, heard_at: now, asked_at: now };
                self.receiving.insert((from, key), receiving);
            }
            Parcel::Fetch { number, range } => {
                let Some(sending) = self.sending.get_mut(&number).filter(|sending| sending.to == from) else {
                    return Ok(());
                };
                let Some(whole) = &sending.whole else { return Ok(()) };
                (sending.heard_at, sending.offered_at) = (now, Some(now));
                let page = whole.page(&range, PAGE_KEYS, PAGE_BYTES)?;
                self.say(from, &Parcel::Page { number, range, versions: page.versions, rest: page.rest });
            }
            Parcel::Page { number, range, versions, rest } => {
                let find = |receiving: &&mut Receiving| receiving.number == number && receiving.next == range;
                let Some(receiving) = self.receiving.values_mut().find(find) else { return Ok(()) };
                let known = receiving.member.upgrade();
                let Some(member) =
                    (self.find)(receiving.key).filter(|member| known.is_some_and(|known| Arc::ptr_eq(&known, member)))
                else {
                    self.receiving.retain(|_, receiving| receiving.number != number);
                    return Ok(());
                };
                let space = member.world().space();
                space.extend_copy(receiving.copy, versions)?;
                (receiving.heard_at, receiving.asked_at) = (now, now);
                if let Some(rest) = rest {
                    receiving.next = rest.clone();
                    self.say(from, &Parcel::Fetch { number, range: rest });
                    return Ok(());
                }
                let (key, copy, extent) = (receiving.key, receiving.copy, receiving.extent);
                space.end_copy(copy, extent)?;
                self.receiving.remove(&(from, key));
                take_over(&member, copy, extent);
                self.received.fetch_add(1, Ordering::Relaxed);
                self.say(from, &Parcel::Done { number });
            }
            Parcel::Done { number } => {
                let index = match self.sending.get(&number).filter(|sending| sending.to == from) {
                    Some(Sending { whole: Some(whole), .. }) => Index(whole.extent.position),
                    _ => return Ok(()),
                };
                self.end(number, index);
            }
        }
        Ok(())
    }
}

/// Within a step of the member's machine, so that nothing is agreed and installed meanwhile (invariant 1).
fn take_over(member: &Arc<MemberShard>, copy: SpaceId, extent: Extent) {
    let of_step = Arc::downgrade(member);
    member.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
        let Some(member) = of_step.upgrade() else { return };
        if replica.group().commit_index() >= Index(extent.position) || !replica.group().has_joined() {
            return; // The log was faster; or it is not on disk yet that this is a member.
        }
        match member.world().rows_of(copy).map(|rows| replica.learn_births(now, &rows, out)) {
            // Those are installed after this step.
            Ok(true) => return take_over(&member, copy, extent),
            Ok(false) => {}
            Err(error) => return tracing::error!(%error, "a copy cannot be read; it will be offered again"),
        }
        match member.world().use_copy(copy, extent) {
            Ok(kept) => {
                replica.snapshot_installed(now, Index(extent.position), Term(extent.term), kept, out);
                member.world().bear();
                tracing::info!(position = extent.position, "goes on from a copy");
            }
            Err(error) => tracing::error!(%error, "a copy cannot be used; it will be offered again"),
        }
    })));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_read_back_and_garbage_is_an_error() {
        let range = KeyRange::prefix(b"a");
        for parcel in [
            Parcel::Offer { database: 1, shard: 2, number: 3, extent: Extent { position: 4, ..Extent::default() } },
            Parcel::Fetch { number: 3, range: range.clone() },
            Parcel::Page { number: 3, range: range.clone(), versions: Vec::new(), rest: Some(range) },
            Parcel::Done { number: 3 },
        ] {
            let frame = envelope::write(Kind::Transfer, &parcel);
            assert!(envelope::is(Kind::Transfer, &frame) && !envelope::is(Kind::Spanner, &frame));
            assert_eq!(envelope::read::<Parcel>(Kind::Transfer, &frame), Ok(parcel));
            for cut in 0..frame.len() {
                assert!(envelope::read::<Parcel>(Kind::Transfer, &frame[..cut]).is_err());
            }
        }
    }
}
