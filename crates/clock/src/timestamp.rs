//! Timestamps, the versions of values.

use minicbor::{Decode, Encode};
use std::fmt;

/// The timestamp of a transaction. Timestamps are compared lexicographically. A timestamp is unique
/// for ever, because an issuer is a node id that is never reused and each issuer's timestamps only
/// grow (Traps A.1-A4, I2).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Timestamp {
    /// Nanoseconds since the Unix epoch.
    #[n(0)]
    pub nanos: u64,
    /// Distinguishes timestamps that one issuer assigned within a nanosecond, and carries
    /// HybridTime's logical part.
    #[n(1)]
    pub logical: u32,
    /// The node that assigned it.
    #[n(2)]
    pub issuer: u32,
}

impl Timestamp {
    /// A timestamp below every issued one.
    pub const ZERO: Timestamp = Timestamp { nanos: 0, logical: 0, issuer: 0 };
    /// A timestamp above every issued one.
    pub const MAX: Timestamp = Timestamp { nanos: u64::MAX, logical: u32::MAX, issuer: u32::MAX };

    /// Returns the largest timestamp of a nanosecond: a snapshot at it holds everything that any
    /// issuer assigned within it.
    pub const fn end_of(nanos: u64) -> Self {
        Timestamp { nanos, logical: u32::MAX, issuer: u32::MAX }
    }

    /// Returns sixteen bytes whose order is the timestamps' order.
    pub fn to_be_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.nanos.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.logical.to_be_bytes());
        bytes[12..].copy_from_slice(&self.issuer.to_be_bytes());
        bytes
    }

    /// Returns the timestamp of [`Timestamp::to_be_bytes`].
    pub fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Timestamp {
            nanos: (u64::from(word(0)) << 32) | u64::from(word(4)),
            logical: word(8),
            issuer: word(12),
        }
    }

    /// Returns the next timestamp of the same issuer.
    pub fn successor(self) -> Self {
        match self.logical.checked_add(1) {
            Some(logical) => Timestamp { logical, ..self },
            None => Timestamp { nanos: self.nanos + 1, logical: 0, ..self },
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.nanos, self.logical, self.issuer)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn bytes_keep_the_order() {
        let mut stamps = vec![Timestamp::MAX, Timestamp::ZERO];
        for nanos in [1, 255, 256, u64::from(u32::MAX) + 7] {
            for logical in [0, 1, u32::MAX] {
                stamps.push(Timestamp { nanos, logical, issuer: 3 });
            }
        }
        let mut by_bytes = stamps.clone();
        stamps.sort();
        by_bytes.sort_by_key(|stamp| stamp.to_be_bytes());
        assert_eq!(stamps, by_bytes);
        assert!(stamps.iter().all(|stamp| Timestamp::from_be_bytes(stamp.to_be_bytes()) == *stamp));
    }

    #[test]
    fn a_successor_is_larger_even_when_the_logical_part_is_spent() {
        let spent = Timestamp { nanos: 5, logical: u32::MAX, issuer: 1 };
        assert!(spent.successor() > spent);
    }
}
