//! The hello that two nodes exchange before anything else: each side sends one.
//!
//! A node speaks a range of versions of the protocol between nodes. A hello carries the range, and
//! both nodes use the highest version that lies in both ranges.
//!
//! ```text
//!   from version 7 on:
//!   "MERIDIAN" newest:u16 oldest:u16 length:u16 node … crc:u32      integers little-endian
//!
//!   version 6, a range of one:
//!   "MERIDIAN" version:u16 node crc:u32
//!
//!   node:  cluster:u128 from:u32 to:u32 life:u32 disk:u64 yours:u64 timebase:u8
//! ```
//!
//! `length` counts the whole hello. A later version may append fields before `crc`; an earlier one
//! skips them, so that every two versions can tell each other their ranges.
//!
//! `yours` is the receiver's disk as the sender remembers it; 0 if they have never met. `timebase`
//! is 0 where times are those of the day, and 1 on cluster time: the two do not compare, so that
//! nodes of different time bases do not connect.

use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{DiskId, Greeting};
use std::fmt;
use std::io::{self, Read};

/// The first bytes of every hello.
pub(super) const MAGIC: &[u8; 8] = b"MERIDIAN";
/// The first bytes of a TLS handshake.
const HANDSHAKE: [u8; 2] = [22, 3];
/// The newest version whose hello carries one version instead of a range.
const LAST_EXACT: u16 = 6;
/// Bytes of `node` in the module's drawing.
const NODE_BYTES: usize = 45;
const CRC_BYTES: usize = 4;
/// Bytes of a hello of [`LAST_EXACT`].
const EXACT_BYTES: usize = MAGIC.len() + 2 + NODE_BYTES + CRC_BYTES;
/// Bytes of a hello with a range; later versions may be longer.
const RANGE_BYTES: usize = EXACT_BYTES + 4;
const LONGEST: usize = 1 << 10;

/// The versions of hello and frames that a node speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub oldest: u16,
    pub newest: u16,
}

impl Versions {
    /// The versions that this build speaks.
    ///
    /// | version | what changed |
    /// |---|---|
    /// | 6 | the first one of this table |
    /// | 7 | a hello carries a range of versions; frames are those of version 6 |
    pub const OWN: Versions = Versions { oldest: LAST_EXACT, newest: 7 };

    /// A range of one version.
    pub const fn exactly(version: u16) -> Versions {
        Versions { oldest: version, newest: version }
    }

    /// Returns this range in the form for a node that reads no ranges, if it reaches so far back.
    pub fn without_range(self) -> Option<Versions> {
        (self.oldest <= LAST_EXACT).then_some(Versions::exactly(LAST_EXACT))
    }

    /// The highest version in both ranges. The error names both ranges and the node to upgrade.
    pub fn common(self, me: NodeId, theirs: Versions, other: NodeId) -> Result<u16, String> {
        let newest = self.newest.min(theirs.newest);
        if newest >= self.oldest.max(theirs.oldest) {
            return Ok(newest);
        }
        let (behind, wanted) =
            if theirs.newest < self.oldest { (other, self.oldest) } else { (me, theirs.oldest) };
        Err(format!(
            "no common version of the protocol between nodes: node {} speaks {theirs}, this node ({}) {self}. \
             Upgrade node {} to a release that speaks version {wanted}",
            other.0, me.0, behind.0
        ))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Versions { oldest, newest } if oldest == newest => write!(f, "version {oldest}"),
            Versions { oldest, newest } => write!(f, "versions {oldest} to {newest}"),
        }
    }
}

/// A node's statement about itself to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub versions: Versions,
    pub cluster: u128,
    pub from: NodeId,
    pub to: NodeId,
    pub greeting: Greeting,
    pub timebase: u8,
}

/// True if the other side closed the connection instead of answering a hello, as a node does that
/// reads no ranges.
pub(super) fn is_unanswered(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

impl Hello {
    /// The bytes of this hello: of version 6 if that is the newest, with the range otherwise.
    pub fn encode(&self) -> Vec<u8> {
        let Greeting { disk, incarnation, yours } = self.greeting;
        let Versions { oldest, newest } = self.versions;
        let mut bytes = Vec::with_capacity(RANGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&newest.to_le_bytes());
        if newest > LAST_EXACT {
            bytes.extend_from_slice(&oldest.to_le_bytes());
            bytes.extend_from_slice(&(RANGE_BYTES as u16).to_le_bytes());
        }
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        for number in [self.from.0, self.to.0, incarnation.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [disk.0, yours.map_or(0, |yours| yours.0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.timebase);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a hello whose first bytes have been read already. Bytes that are no hello of a known
    /// form are an error of kind `Other` that says what they are.
    pub fn read(first: [u8; MAGIC.len()], stream: &mut impl Read) -> io::Result<Hello> {
        if first[..2] == HANDSHAKE {
            let what = "it speaks TLS: all members have certificates, or none";
            return Err(io::Error::other(what));
        }
        if &first != MAGIC {
            return Err(io::Error::other("it does not speak this protocol"));
        }
        let mut bytes = vec![0; EXACT_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(&first);
        let mut at = MAGIC.len();
        let mut read_to = |bytes: &mut [u8], end: usize| {
            stream.read_exact(&mut bytes[at..end])?;
            at = end;
            io::Result::Ok(())
        };
        read_to(&mut bytes, MAGIC.len() + 2)?;
        let newest = short(&bytes, MAGIC.len());
        if newest < LAST_EXACT {
            return Err(io::Error::other(format!(
                "no common version of the protocol between nodes: it speaks {}, this node {}. \
                 Upgrade the node there to a release that speaks version {}",
                Versions::exactly(newest),
                Versions::OWN,
                Versions::OWN.oldest
            )));
        }
        let (versions, node) = if newest == LAST_EXACT {
            (Versions::exactly(newest), MAGIC.len() + 2)
        } else {
            read_to(&mut bytes, MAGIC.len() + 6)?;
            let length = usize::from(short(&bytes, MAGIC.len() + 4));
            if !(RANGE_BYTES..=LONGEST).contains(&length) {
                return Err(io::Error::other("its hello is damaged"));
            }
            bytes.resize(length, 0);
            (Versions { oldest: short(&bytes, MAGIC.len() + 2), newest }, MAGIC.len() + 6)
        };
        let length = bytes.len();
        read_to(&mut bytes, length)?;
        let sum = word(&bytes, length - CRC_BYTES);
        if sum != crc32fast::hash(&bytes[..length - CRC_BYTES]) || versions.oldest > newest {
            return Err(io::Error::other("its hello is damaged"));
        }
        let node = &bytes[node..node + NODE_BYTES];
        let yours = Some(long(node, 36)).filter(|number| *number != 0).map(DiskId);
        Ok(Hello {
            versions,
            cluster: u128::from(long(node, 0)) | u128::from(long(node, 8)) << 64,
            from: NodeId(word(node, 16)),
            to: NodeId(word(node, 20)),
            greeting: Greeting {
                disk: DiskId(long(node, 28)),
                incarnation: Incarnation(word(node, 24)),
                yours,
            },
            timebase: node[44],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hellos that the build before ranges wrote, in hexadecimal digits.
    const BEFORE_RANGES: &str = include_str!("../../tests/fixtures/hello-6.txt");

    fn decode(bytes: &[u8]) -> io::Result<Hello> {
        let (first, mut rest) = bytes.split_first_chunk().expect("more than the first bytes");
        let hello = Hello::read(*first, &mut rest)?;
        assert!(rest.is_empty());
        Ok(hello)
    }

    fn hello(versions: Versions, yours: Option<DiskId>) -> Hello {
        let greeting = Greeting { disk: DiskId(7 << 40), incarnation: Incarnation(9), yours };
        let (from, to) = (NodeId(1), NodeId(2));
        Hello { versions, cluster: 3 << 100 | 5, from, to, greeting, timebase: 1 }
    }

    #[test]
    fn a_hello_reads_back_and_no_other_bytes_do() {
        for versions in [Versions::OWN, Versions::exactly(6), Versions { oldest: 9, newest: 300 }] {
            for yours in [None, Some(DiskId(u64::MAX))] {
                let hello = hello(versions, yours);
                let good = hello.encode();
                assert_eq!(decode(&good).unwrap(), hello);
                for at in 0..good.len() {
                    let mut bad = good.clone();
                    bad[at] ^= 0x10;
                    let bad = [bad, vec![0; LONGEST]].concat();
                    let (first, mut rest) = bad.split_first_chunk().unwrap();
                    assert!(Hello::read(*first, &mut rest).is_err(), "byte {at}");
                }
                for end in MAGIC.len()..good.len() {
                    assert!(is_unanswered(&decode(&good[..end]).unwrap_err()));
                }
            }
        }
        let mut handshake = [0; EXACT_BYTES];
        handshake[..2].copy_from_slice(&HANDSHAKE);
        assert!(decode(&handshake).is_err_and(|why| why.to_string().contains("TLS")));
    }

    #[test]
    fn a_later_hello_may_be_longer() {
        let hello = hello(Versions { oldest: 7, newest: 8 }, None);
        let mut bytes = hello.encode();
        bytes.truncate(RANGE_BYTES - CRC_BYTES);
        bytes.extend([0xff; 100]);
        bytes[12..14].copy_from_slice(&(RANGE_BYTES as u16 + 100).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        assert_eq!(decode(&bytes).unwrap(), hello);
        assert_eq!(Versions::OWN.common(NodeId(2), hello.versions, NodeId(1)), Ok(7));
    }

    #[test]
    fn a_hello_of_the_version_before_ranges_is_read_and_written_as_then() {
        for (line, yours) in BEFORE_RANGES.lines().zip([None, Some(DiskId(u64::MAX))]) {
            let pair = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..line.len()).step_by(2).map(pair).collect();
            let expected = hello(Versions::exactly(6), yours);
            assert_eq!(decode(&bytes).unwrap(), expected);
            assert_eq!(expected.encode(), bytes);
        }
        assert_eq!(BEFORE_RANGES.lines().count(), 2);
    }

    #[test]
    fn the_highest_common_version_is_used_and_none_is_refused_by_name() {
        let range = |oldest, newest| Versions { oldest, newest };
        let common = |own: Versions, theirs| own.common(NodeId(1), theirs, NodeId(2));
        assert_eq!(common(range(6, 7), range(6, 6)), Ok(6));
        assert_eq!(common(range(6, 7), range(7, 9)), Ok(7));
        assert_eq!(common(range(6, 9), range(5, 8)), Ok(8));
        let why = common(range(6, 7), range(8, 9)).unwrap_err();
        assert!(why.contains("node 2 speaks versions 8 to 9"), "{why}");
        assert!(why.contains("this node (1) versions 6 to 7. Upgrade node 1 "), "{why}");
        let why = common(range(7, 8), range(6, 6)).unwrap_err();
        assert!(why.contains("speaks version 6,") && why.contains("Upgrade node 2 "), "{why}");
        assert!(why.ends_with("speaks version 7"), "{why}");

        let mut ancient = hello(Versions::exactly(6), None).encode();
        ancient[8] = 5;
        let why = decode(&ancient).unwrap_err().to_string();
        assert!(why.contains("it speaks version 5, this node versions 6 to 7. Upgrade the node"));
        assert_eq!(range(7, 9).without_range(), None);
        assert_eq!(Versions::OWN.without_range(), Some(range(6, 6)));
    }
}
