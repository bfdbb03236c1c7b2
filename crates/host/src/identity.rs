//! Who a data folder belongs to.
//!
//! The file `identity` names the format, the cluster, the node and the members, and counts the node's lives; the count is on disk
//! before a life begins, so that a message for an earlier life is recognised. The file `lock` is held while a process uses the
//! folder. A folder of another cluster, of a newer format, or in use is refused by name, and so is one with a flipped byte.

use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{Member, Members, MembersError};
use minicbor::{Decode, Encode};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The newest format of a data folder that this program knows.
pub const FORMAT: u32 = 1;
const MAGIC: &[u8; 16] = b"meridian folder\n";

/// Why a node does not open. Every message names the file and what to do.
#[derive(Debug)]
pub enum OpenError {
    /// A file or folder cannot be used.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process uses the folder.
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A newer program wrote the folder.
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The folder belongs to another node, or to another cluster.
    Other {
        /// The file that says so.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A file's bytes are not what was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The log or the store refuses; its own words name the file and what to do.
    Storage {
        /// Which of the two.
        path: PathBuf,
        /// Its words.
        what: String,
    },
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// The list of members makes no cluster.
    Members(MembersError),
    /// The options contradict each other.
    Options(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File { path, error } => write!(f, "cannot use {}: {error}", path.display()),
            OpenError::InUse { path } => {
                write!(f, "{} is in use by another process: stop it, or choose another folder", path.display())
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
                write!(f, "cannot listen on {address}: {error}; choose another address or stop who uses it")
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
}

/// A node's identity, and the lock on its folder while it lives.
#[derive(Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: u128,
    /// This life of the node.
    pub incarnation: Incarnation,
    /// True if the folder was empty before.
    pub newborn: bool,
    _lock: Option<File>,
}

/// Every member derives the same number from the same list, so that nobody has to hand one out.
fn cluster_of(members: &Members) -> u128 {
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

impl Identity {
    /// The identity of a node that keeps nothing: its life begins and ends with the process.
    pub fn in_memory(members: &Members) -> Self {
        Identity { cluster: cluster_of(members), incarnation: Incarnation(1), newborn: true, _lock: None }
    }

    /// Opens a folder, or makes it this node's, and counts one more life.
    pub fn open(folder: &Path, node: NodeId, members: &Members) -> Result<Self, OpenError> {
        fs::create_dir_all(folder).map_err(|error| OpenError::File { path: folder.into(), error })?;
        let lock = lock(folder)?;
        let path = folder.join("identity");
        let wanted = Stored {
            cluster: cluster_of(members).to_be_bytes(),
            node,
            members: members.iter().cloned().collect(),
            incarnation: Incarnation(0),
        };
        let found = match fs::read(&path) {
            Ok(bytes) => Some(read(&path, &bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(OpenError::File { path, error }),
        };
        let newborn = found.is_none();
        let mut stored = found.unwrap_or_else(|| wanted.clone());
        if stored.cluster != wanted.cluster {
            let addresses: Vec<&str> = stored.members.iter().map(|member| &*member.address).collect();
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
        write(folder, &path, &stored).map_err(|error| OpenError::File { path, error })?;
        Ok(Identity {
            cluster: u128::from_be_bytes(stored.cluster),
            incarnation: stored.incarnation,
            newborn,
            _lock: Some(lock),
        })
    }
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| OpenError::File { path: path.clone(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: folder.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::File { path, error }),
    }
}

/// ```text
///   "meridian folder\n"  format:u32  crc:u32  cbor
/// ```
fn read(path: &Path, bytes: &[u8]) -> Result<Stored, OpenError> {
    let damaged = |what: &str| OpenError::Damaged { path: path.into(), what: what.into() };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin like an identity"))?;
    let (format, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is too short"))?;
    let (crc, body) = rest.split_first_chunk().ok_or_else(|| damaged("it is too short"))?;
    if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
        return Err(damaged("its checksum does not fit"));
    }
    match u32::from_le_bytes(*format) {
        FORMAT => {}
        format => return Err(OpenError::NewerFormat { path: path.into(), format }),
    }
    minicbor::decode(body).map_err(|error| damaged(&error.to_string()))
}

fn write(folder: &Path, path: &Path, stored: &Stored) -> io::Result<()> {
    let body = minicbor::to_vec(stored).expect("invariant: writing to memory cannot fail");
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    let fresh = folder.join("identity.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(addresses: &[&str]) -> Members {
        Members::new(addresses.iter().enumerate().map(|(index, address)| Member {
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
        for life in 1..4 {
            let identity = Identity::open(folder.path(), NodeId(1), &members).unwrap();
            assert_eq!((identity.incarnation, identity.newborn), (Incarnation(life), life == 1));
        }
    }

    #[test]
    fn a_folder_that_is_in_use_or_not_ours_or_newer_or_damaged_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let ours = members(&["a:1", "b:2"]);
        let held = Identity::open(folder.path(), NodeId(1), &ours).unwrap();
        assert!(matches!(Identity::open(folder.path(), NodeId(1), &ours), Err(OpenError::InUse { .. })));
        drop(held);
        let refused = |node, members: &Members| Identity::open(folder.path(), NodeId(node), members).unwrap_err();
        assert!(matches!(refused(2, &ours), OpenError::Other { .. }));
        let error = refused(1, &members(&["a:1", "c:3"])).to_string();
        assert!(error.contains("identity") && error.contains("another cluster"), "{error}");

        let path = folder.path().join("identity");
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert!(matches!(refused(1, &ours), OpenError::Damaged { .. } | OpenError::NewerFormat { .. }));
            fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(refused(1, &ours), OpenError::Damaged { .. }));
        }
    }
}
