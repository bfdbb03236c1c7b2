//! The owner of a data folder.
//!
//! The file `identity` names the format, the cluster, the node and the members, counts the node's
//! incarnations, and records the peers that the node has met. The count is on disk before an
//! incarnation starts, so that a message for an earlier one is recognised. The file `lock` is held
//! while a process uses the folder. A folder of another cluster or of a newer format, one that is
//! in use, and one with a flipped byte are refused with an error that names the file.

use crate::{durable_file, private};
use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{
    ClusterMembers, DiskId, Greeting, IdentityMismatch, Member, MembersError, PeerIdentities,
};
use minicbor::{Decode, Encode};
use parking_lot::Mutex;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The newest format of a data folder that this version reads.
pub const FORMAT: u32 = 2;
/// The format from before disks had numbers.
const WITHOUT_NUMBERS: u32 = 1;
const MAGIC: &[u8; 16] = b"meridian folder\n";

/// Error on opening a node. Every message names the file and what to do.
#[derive(Debug)]
pub enum OpenError {
    /// A file or folder cannot be used.
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Another process uses the folder.
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A newer program wrote the folder.
    NewerFormat {
        /// The identity file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The folder belongs to another node or to another cluster.
    Other {
        /// The file or folder that says so.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// A file's bytes are not those that were written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The log or the store cannot be opened; its error names the file and what to do.
    Storage {
        /// The folder of the log or the store.
        path: PathBuf,
        /// The error of the log or the store.
        what: String,
    },
    /// The node cannot listen on the address.
    Listen {
        /// The address.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The list of members is not valid.
    Members(MembersError),
    /// The options contradict each other.
    Options(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File { path, error } => write!(f, "cannot use {}: {error}", path.display()),
            OpenError::InUse { path } => {
                write!(
                    f,
                    "{} is in use by another process: stop it, or choose another folder",
                    path.display()
                )
            }
            OpenError::NewerFormat { path, format } => write!(
                f,
                "{} was written by a newer version (format {format}, this program knows {FORMAT}): use that version",
                path.display()
            ),
            OpenError::Other { path, what } => {
                write!(f, "{} {what}: check the options, or choose another folder", path.display())
            }
            OpenError::Damaged { path, what } => write!(
                f,
                "{} is damaged ({what}): replace the folder from another node or a backup; nothing was changed",
                path.display()
            ),
            OpenError::Storage { what, .. } => f.write_str(what),
            OpenError::Listen { address, error } => {
                write!(
                    f,
                    "cannot listen on {address}: {error}; choose another address or stop the process that uses it"
                )
            }
            OpenError::Members(error) => error.fmt(f),
            OpenError::Options(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for OpenError {}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Stored {
    #[n(0)]
    cluster: [u8; 16],
    #[n(1)]
    node: NodeId,
    #[n(2)]
    members: Vec<Member>,
    #[n(3)]
    incarnation: Incarnation,
    /// Missing in folders written before disks had numbers.
    #[n(4)]
    peer_identities: Option<PeerIdentities>,
}

/// Error on the handshake with a peer.
#[derive(Debug, thiserror::Error)]
pub enum NotMet {
    /// The peer's identity is not the one that this node has met.
    #[error(transparent)]
    IdentityMismatch(#[from] IdentityMismatch),
    /// The peer's identity cannot be stored.
    #[error("cannot store the identity of a peer in the data folder: {0}")]
    Disk(#[from] io::Error),
}

/// A node's identity, with the lock on its folder.
#[derive(Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: u128,
    /// The node.
    pub me: NodeId,
    /// This incarnation of the node.
    pub incarnation: Incarnation,
    /// The other members.
    pub others: Vec<NodeId>,
    peer_identities: Mutex<PeerIdentities>,
    /// A copy of `peer_identities.admitted()` that is read without the lock.
    admitted: AtomicBool,
    folder: Option<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    stored: Stored,
    _lock: File,
}

/// Derives the cluster's number from the list of members, so that every member finds the same one.
fn cluster_of(members: &ClusterMembers) -> u128 {
    let mut bytes = Vec::new();
    for member in members.iter() {
        bytes.extend_from_slice(&member.node.0.to_be_bytes());
        bytes.extend_from_slice(member.address.as_bytes());
        bytes.push(0);
    }
    // FNV-1a, 128 bits: a name, not a secret.
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

fn others(node: NodeId, members: &ClusterMembers) -> Vec<NodeId> {
    members.nodes().into_iter().filter(|other| *other != node).collect()
}

/// Draws the number of a disk: random, never 0.
fn draw() -> io::Result<DiskId> {
    let number = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(DiskId(number.max(1)))
}

impl Identity {
    /// Returns the identity of an in-memory node. It ends with the process; peers that knew it
    /// refuse the next one.
    pub fn in_memory(node: NodeId, members: &ClusterMembers) -> io::Result<Self> {
        Ok(Identity {
            cluster: cluster_of(members),
            me: node,
            incarnation: Incarnation(1),
            others: others(node, members),
            peer_identities: Mutex::new(PeerIdentities::of_new_disk(draw()?)),
            admitted: AtomicBool::new(false),
            folder: None,
        })
    }

    /// Opens a folder, or claims an empty one for this node, and counts one more incarnation.
    pub fn open(folder: &Path, node: NodeId, members: &ClusterMembers) -> Result<Self, OpenError> {
        private::create_folder(folder)
            .map_err(|error| OpenError::File { path: folder.into(), error })?;
        let lock = lock(folder)?;
        let path = folder.join("identity");
        let of_file = |error| OpenError::File { path: path.clone(), error };
        let disk = draw().map_err(of_file)?;
        let wanted = Stored {
            cluster: cluster_of(members).to_be_bytes(),
            node,
            members: members.iter().cloned().collect(),
            incarnation: Incarnation(0),
            peer_identities: Some(PeerIdentities::of_new_disk(disk)),
        };
        let found = match fs::read(&path) {
            Ok(bytes) => Some(read(&path, &bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(of_file(error)),
        };
        let mut stored = found.unwrap_or_else(|| wanted.clone());
        if stored.cluster != wanted.cluster {
            let addresses: Vec<&str> =
                stored.members.iter().map(|member| &*member.address).collect();
            let what = format!(
                "belongs to another cluster (its {} members were fixed at birth, and membership cannot change in this version: {})",
                addresses.len(),
                addresses.join(", ")
            );
            return Err(OpenError::Other { path, what });
        }
        if stored.node != node {
            let what = format!("belongs to node {}, not to node {}", stored.node.0, node.0);
            return Err(OpenError::Other { path, what });
        }
        stored.incarnation.0 += 1;
        let peer_identities = stored
            .peer_identities
            .get_or_insert_with(|| PeerIdentities::of_unnumbered_disk(disk))
            .clone();
        write(folder, &stored).map_err(of_file)?;
        Ok(Identity {
            cluster: u128::from_be_bytes(stored.cluster),
            me: node,
            incarnation: stored.incarnation,
            others: others(node, members),
            admitted: AtomicBool::new(peer_identities.admitted()),
            peer_identities: Mutex::new(peer_identities),
            folder: Some(Folder { path: folder.into(), stored, _lock: lock }),
        })
    }

    /// Returns the greeting for another member.
    pub fn greeting(&self, to: NodeId) -> Greeting {
        self.peer_identities.lock().greeting(self.incarnation, to)
    }

    /// Checks another member's greeting. When this returns, whatever must be remembered of it is
    /// durable.
    pub fn receive(&self, from: NodeId, greeting: Greeting) -> Result<(), NotMet> {
        self.change(|peer_identities| {
            let new = peer_identities.receive(from, greeting)?;
            Ok(peer_identities.admit(&self.others) || new)
        })
    }

    /// Admits a single-node cluster at once. Called when the store and the log are open.
    pub fn begin(&self) -> Result<(), NotMet> {
        self.change(|peer_identities| Ok(peer_identities.admit(&self.others)))
    }

    /// True if this node takes part in the cluster.
    pub fn admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Returns the peers that a new node has yet to meet before it takes part.
    pub fn to_meet(&self) -> Vec<NodeId> {
        let peer_identities = self.peer_identities.lock();
        if peer_identities.admitted() {
            Vec::new()
        } else {
            peer_identities.not_known_to(&self.others)
        }
    }

    /// Changes the stored identities of peers. Writes to the disk first, if `change` returns true.
    fn change(
        &self,
        change: impl FnOnce(&mut PeerIdentities) -> Result<bool, IdentityMismatch>,
    ) -> Result<(), NotMet> {
        let mut peer_identities = self.peer_identities.lock();
        let mut changed = peer_identities.clone();
        if change(&mut changed)?
            && let Some(Folder { path, stored, .. }) = &self.folder
        {
            let stored = Stored { peer_identities: Some(changed.clone()), ..stored.clone() };
            write(path, &stored)?;
        }
        self.admitted.store(changed.admitted(), Ordering::Release);
        *peer_identities = changed;
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let file = private::open(&path);
    let file = file.map_err(|error| OpenError::File { path: path.clone(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: folder.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::File { path, error }),
    }
}

/// Reads an identity file:
///
/// ```text
///   "meridian folder\n"  format:u32  crc:u32  cbor
/// ```
fn read(path: &Path, bytes: &[u8]) -> Result<Stored, OpenError> {
    let damaged = |what: &str| OpenError::Damaged { path: path.into(), what: what.into() };
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| damaged("it does not start like an identity file"))?;
    let (format, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is too short"))?;
    let body = durable_file::checked(rest).ok_or_else(|| damaged("its checksum does not match"))?;
    match u32::from_le_bytes(*format) {
        FORMAT | WITHOUT_NUMBERS => {}
        format => return Err(OpenError::NewerFormat { path: path.into(), format }),
    }
    minicbor::decode(body).map_err(|error| damaged(&error.to_string()))
}

fn write(folder: &Path, stored: &Stored) -> io::Result<()> {
    let body = minicbor::to_vec(stored).expect("invariant: writing to memory cannot fail");
    durable_file::write(folder, "identity", &[MAGIC, &FORMAT.to_le_bytes()[..]].concat(), &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(addresses: &[&str]) -> ClusterMembers {
        ClusterMembers::new(addresses.iter().enumerate().map(|(index, address)| Member {
            node: NodeId(u32::try_from(index).unwrap() + 1),
            zone: "here".into(),
            address: (*address).into(),
        }))
        .unwrap()
    }

    #[test]
    fn every_opening_is_a_new_life() {
        let folder = tempfile::tempdir().unwrap();
        let members = members(&["a:1", "b:2"]);
        for incarnation in 1..4 {
            let identity = Identity::open(folder.path(), NodeId(1), &members).unwrap();
            assert_eq!(identity.incarnation, Incarnation(incarnation));
        }
    }

    #[test]
    fn met_peers_are_remembered_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let members = members(&["a:1", "b:2"]);
        let open = || Identity::open(folder.path(), NodeId(1), &members).unwrap();
        let node = open();
        assert_eq!((node.admitted(), node.to_meet()), (false, vec![NodeId(2)]));
        let (disk, incarnation) = (DiskId(7), Incarnation(1));
        node.receive(NodeId(2), Greeting { disk, incarnation, yours: None }).unwrap();
        assert!(!node.admitted() && node.greeting(NodeId(2)).yours == Some(disk));
        let mine = node.greeting(NodeId(2)).disk;
        node.receive(NodeId(2), Greeting { disk, incarnation, yours: Some(mine) }).unwrap();
        assert!(node.admitted() && node.to_meet().is_empty());
        drop(node);
        let node = open();
        assert!(node.admitted() && node.greeting(NodeId(2)).disk == mine);
        let other = node.receive(NodeId(2), Greeting { disk: DiskId(8), incarnation, yours: None });
        assert!(matches!(other, Err(NotMet::IdentityMismatch(IdentityMismatch::Other(NodeId(2))))));
    }

    #[test]
    fn a_folder_from_before_disks_had_numbers_is_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let members = members(&["a:1", "b:2"]);
        drop(Identity::open(folder.path(), NodeId(1), &members).unwrap());
        let path = folder.path().join("identity");
        let mut stored = read(&path, &fs::read(&path).unwrap()).unwrap();
        stored.peer_identities = None;
        write(folder.path(), &stored).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[MAGIC.len()] = WITHOUT_NUMBERS as u8;
        fs::write(&path, bytes).unwrap();
        let node = Identity::open(folder.path(), NodeId(1), &members).unwrap();
        assert!(node.admitted() && node.incarnation == Incarnation(2));
    }

    #[test]
    fn a_folder_that_is_in_use_or_not_ours_or_newer_or_damaged_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let ours = members(&["a:1", "b:2"]);
        let held = Identity::open(folder.path(), NodeId(1), &ours).unwrap();
        assert!(matches!(
            Identity::open(folder.path(), NodeId(1), &ours),
            Err(OpenError::InUse { .. })
        ));
        drop(held);
        let refused = |node, members: &ClusterMembers| {
            Identity::open(folder.path(), NodeId(node), members).unwrap_err()
        };
        assert!(matches!(refused(2, &ours), OpenError::Other { .. }));
        let error = refused(1, &members(&["a:1", "c:3"])).to_string();
        assert!(error.contains("identity") && error.contains("another cluster"), "{error}");

        let path = folder.path().join("identity");
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert!(matches!(
                refused(1, &ours),
                OpenError::Damaged { .. } | OpenError::NewerFormat { .. }
            ));
            fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(refused(1, &ours), OpenError::Damaged { .. }));
        }
    }
}
