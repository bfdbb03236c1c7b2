//! The hello: the first message of each side of a connection.
//!
//! ```text
//!   "MERIDIAN" version:u16 cluster:u128 from:u32 to:u32 life:u32 disk:u64 yours:u64 timebase:u8
//!   crc:u32                                                              integers little-endian
//! ```
//!
//! `yours` is the receiver's disk, as the sender remembers it; 0 if the two have never met.
//! `timebase` is 0 for times of the day, and 1 for cluster time: the two do not compare, so nodes
//! with different timebases do not connect.

use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{DiskId, Greeting};

/// The first bytes of a hello.
pub(super) const MAGIC: &[u8; 8] = b"MERIDIAN";
/// The version of hello and frames. Nodes of different versions do not connect.
const VERSION: u16 = 6;
/// The length of a hello.
pub(super) const BYTES: usize = 59;
/// The first bytes of a TLS handshake.
const HANDSHAKE: [u8; 2] = [22, 3];

/// A hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub cluster: u128,
    pub from: NodeId,
    pub to: NodeId,
    pub greeting: Greeting,
    pub timebase: u8,
}

impl Hello {
    pub fn encode(&self) -> [u8; BYTES] {
        let Greeting { disk, life, yours } = self.greeting;
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        for number in [self.from.0, self.to.0, life.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [disk.0, yours.map_or(0, |yours| yours.0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.timebase);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.try_into().expect("invariant: a hello has one length")
    }

    /// Decodes a hello. Fails with a description of the bytes if they are none.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Hello, String> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if bytes[..2] == HANDSHAKE {
            return Err("it speaks TLS: either all members have certificates, or none".into());
        }
        if &bytes[..8] != MAGIC {
            return Err("it does not speak this protocol".into());
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(format!("it speaks version {version}, this node version {VERSION}"));
        }
        if word(BYTES - 4) != crc32fast::hash(&bytes[..BYTES - 4]) {
            return Err("its hello is damaged".into());
        }
        let yours = Some(long(46)).filter(|number| *number != 0).map(DiskId);
        Ok(Hello {
            cluster: u128::from(long(10)) | u128::from(long(18)) << 64,
            from: NodeId(word(26)),
            to: NodeId(word(30)),
            greeting: Greeting { disk: DiskId(long(38)), life: Incarnation(word(34)), yours },
            timebase: bytes[54],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_reads_back_and_no_other_bytes_do() {
        for yours in [None, Some(DiskId(u64::MAX))] {
            let greeting = Greeting { disk: DiskId(7 << 40), life: Incarnation(9), yours };
            let hello = Hello {
                cluster: 3 << 100 | 5,
                from: NodeId(1),
                to: NodeId(2),
                greeting,
                timebase: 1,
            };
            let good = hello.encode();
            assert_eq!(Hello::decode(&good), Ok(hello));
            for at in 0..good.len() {
                let mut bad = good;
                bad[at] ^= 0x10;
                assert!(Hello::decode(&bad).is_err(), "byte {at}");
            }
        }
        let mut handshake = [0; BYTES];
        handshake[..2].copy_from_slice(&HANDSHAKE);
        assert!(Hello::decode(&handshake).is_err_and(|why| why.contains("TLS")));
    }
}
