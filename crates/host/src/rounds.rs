//! Rounds of questions: how nodes on cluster time find out what time it is.
//!
//! A thread asks all others every so often; answers come on the threads of the connections, and are read against the clock there, so that a bound is as wide as
//! what the network and both threads took. What was shown of this node's clock is reserved in the folder first (`clock`, an anchor; see
//! [`meridian_clock::cluster`]).

use crate::clock::{Clock, boot_ns, system_ns};
use crate::peers::Peers;
use meridian_clock::cluster::{Anchor, ClusterClock, POLL_EVERY_NS, Poll, Shown, Standing};
use meridian_machine::NodeId;
use meridian_systems::envelope::{self, Kind};
use minicbor::{Decode, Encode};
use parking_lot::{Condvar, Mutex};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MAGIC: &[u8; 16] = b"meridian clock\n\0";

/// What nodes say about time.
#[derive(Encode, Decode)]
enum Word {
    #[n(0)]
    Poll(#[n(0)] Poll),
    #[n(1)]
    Shown(#[n(0)] Shown),
}

/// What is known of another node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The node.
    pub node: NodeId,
    /// By how much it is ahead of this one, as far as is known.
    pub ahead_ns: Option<i64>,
}

/// A node's part in cluster time.
pub struct Rounds {
    state: Mutex<State>,
    stopped: Condvar,
    clock: Arc<Clock>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    others: Vec<NodeId>,
    boot: u64,
    /// Where the anchor is kept; nowhere for a node that keeps nothing, whose next life is a stranger anyway.
    folder: Option<PathBuf>,
}

struct State {
    cluster: ClusterClock,
    standing: Standing,
    stopped: bool,
    complained: bool,
}

impl Rounds {
    /// Begins a life.
    pub fn begin(
        others: Vec<NodeId>,
        folder: Option<PathBuf>,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> io::Result<Arc<Rounds>> {
        let anchor = match &folder {
            Some(folder) => read(&folder.join("clock"))?,
            None => None,
        };
        let boot = boot()?;
        let cluster = ClusterClock::begin(others.clone(), boot, boot_ns(), system_ns(), anchor);
        let state = State { cluster, standing: Standing::Starting, stopped: false, complained: false };
        let (state, stopped) = (Mutex::new(state), Condvar::new());
        Ok(Arc::new(Rounds { state, stopped, clock, peers, others, boot, folder }))
    }

    /// Starts the thread that asks.
    pub fn start(self: &Arc<Self>) -> io::Result<std::thread::JoinHandle<()>> {
        let this = Arc::clone(self);
        std::thread::Builder::new().name("time".into()).spawn(move || {
            loop {
                this.ask();
                this.reserve();
                let mut state = this.state.lock();
                if !state.stopped {
                    this.stopped.wait_for(&mut state, Duration::from_nanos(POLL_EVERY_NS));
                }
                if state.stopped {
                    return;
                }
            }
        })
    }

    /// Ends it.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.stopped.notify_all();
    }

    /// Another node asks or answers.
    pub fn receive(&self, from: NodeId, frame: &[u8]) {
        // The clock is read under the lock: the state sees moments in their order.
        match envelope::read::<Word>(Kind::Time, frame) {
            Ok(Word::Poll(poll)) => {
                let state = self.state.lock();
                let shown = state.cluster.show(boot_ns(), poll);
                drop(state);
                self.say(from, &Word::Shown(shown));
            }
            Ok(Word::Shown(shown)) => {
                let mut state = self.state.lock();
                state.cluster.hear(boot_ns(), from, shown);
                self.publish(&mut state);
            }
            Err(why) => tracing::warn!(%from, %why, "dropped a frame about time"),
        }
    }

    /// How far others are ahead.
    pub fn offsets(&self) -> Vec<Offset> {
        let (state, boot_ns) = (self.state.lock(), boot_ns());
        let offset = |node: &NodeId| Offset { node: *node, ahead_ns: state.cluster.offset_ns(boot_ns, *node) };
        self.others.iter().map(offset).collect()
    }

    fn say(&self, to: NodeId, word: &Word) {
        if let Some(peers) = self.peers.get() {
            peers.post(to, None, envelope::write(Kind::Time, word));
            peers.flush(to);
        }
    }

    fn ask(&self) {
        let polls = {
            let mut state = self.state.lock();
            let polls = state.cluster.poll(boot_ns());
            self.publish(&mut state);
            polls
        };
        polls.into_iter().for_each(|(to, poll)| self.say(to, &Word::Poll(poll)));
    }

    /// Makes durable what may be shown next. Without room on the disk the clock is shown to nobody once the last reserve is used up.
    fn reserve(&self) {
        let anchor = {
            let (state, boot_ns) = (self.state.lock(), boot_ns());
            if !state.cluster.wants_reserve(boot_ns) {
                return;
            }
            state.cluster.anchor(self.boot, boot_ns)
        };
        let written = self.folder.as_ref().map_or(Ok(()), |folder| write(folder, &anchor));
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                state.cluster.reserved(boot_ns(), &anchor);
                state.complained = false;
                self.publish(&mut state);
            }
            Err(error) if !state.complained => {
                state.complained = true;
                tracing::error!(%error, "cannot keep what this node's clock has shown; it will be shown to nobody");
            }
            Err(_) => {}
        }
    }

    /// Tells readers what is known now, and whoever watches when that changes.
    fn publish(&self, state: &mut State) {
        let Some((bound, until)) = state.cluster.hull() else { return };
        let standing = state.cluster.reading(boot_ns()).map_or(Standing::Starting, |(_, standing)| standing);
        // A hull that is too wide is not good either.
        self.clock.tell(bound, if standing == Standing::Good { until } else { 0 });
        if std::mem::replace(&mut state.standing, standing) != standing {
            let half_width_us = bound.interval.half_width_ns() / 1_000;
            match standing {
                Standing::Good => tracing::info!(half_width_us, "the time is known"),
                _ => tracing::warn!(half_width_us, "the time is not known: too few nodes have answered"),
            }
        }
    }
}

/// A number of this boot of the machine; one of its own for each process where the system does not say.
fn boot() -> io::Result<u64> {
    match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(id
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))),
        Err(_) => getrandom::u64().map_err(|error| io::Error::other(error.to_string())),
    }
}

/// ```text
///   "meridian clock\n\0"  crc:u32  cbor
/// ```
fn read(path: &Path) -> io::Result<Option<Anchor>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let body = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>());
    let body = body.filter(|(crc, body)| u32::from_le_bytes(**crc) == crc32fast::hash(body)).map(|(_, body)| body);
    let anchor = body.and_then(|body| minicbor::decode(body).ok());
    anchor.map(Some).ok_or_else(|| {
        let what =
            "it is damaged, and with it how far this node's clock was. One of several: leave it off, the others go on";
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

fn write(folder: &Path, anchor: &Anchor) -> io::Result<()> {
    let body = minicbor::to_vec(anchor).expect("invariant: writing to memory cannot fail");
    let fresh = folder.join("clock.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&[&MAGIC[..], &crc32fast::hash(&body).to_le_bytes(), &body].concat())?;
    file.sync_all()?;
    fs::rename(&fresh, folder.join("clock"))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_reads_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        assert_eq!(read(&path).unwrap(), None);
        let anchor = Anchor { boot: 7, at: 1, value: 2, ceiling: 3 };
        write(folder.path(), &anchor).unwrap();
        assert_eq!(read(&path).unwrap(), Some(anchor));
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(&path, &bad).unwrap();
            assert!(read(&path).is_err());
            fs::write(&path, &good[..at]).unwrap();
            assert!(read(&path).is_err());
        }
    }
}
