//! Keys, values and ranges of keys.

use bytes::Bytes;
use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write as Sink};
use minicbor::{Decode, Encode};
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

macro_rules! bytes_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Bytes);

        impl Deref for $name {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }

        impl Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<Vec<u8>> for $name {
            fn from(bytes: Vec<u8>) -> Self {
                $name(Bytes::from(bytes))
            }
        }

        impl From<&[u8]> for $name {
            fn from(bytes: &[u8]) -> Self {
                $name(Bytes::copy_from_slice(bytes))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                text.as_bytes().into()
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: Sink>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
                e.bytes(&self.0).map(|_| ())
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
                // The length is checked against the input before anything is allocated.
                d.bytes().map($name::from)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.escape_ascii())
            }
        }
    };
}

bytes_newtype!(
    /// A key: bytes, compared as bytes. Cheap to clone.
    Key
);
bytes_newtype!(
    /// A value: bytes that only SQL interprets. Cheap to clone.
    Value
);

impl Key {
    /// Returns the smallest key above this one.
    pub fn successor(&self) -> Key {
        let mut bytes = Vec::with_capacity(self.len() + 1);
        bytes.extend_from_slice(self);
        bytes.push(0);
        bytes.into()
    }
}

/// The keys from `start`, inclusive, to `end`, exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct KeyRange {
    /// The first key.
    #[n(0)]
    pub start: Key,
    /// The first key beyond; `None` if the range has no end.
    #[n(1)]
    pub end: Option<Key>,
}

impl KeyRange {
    /// Returns the range of all keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the range of exactly one key.
    pub fn point(key: Key) -> Self {
        let end = Some(key.successor());
        KeyRange { start: key, end }
    }

    /// Returns the range of every key that begins with these bytes.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.last_mut().map(|last| *last += 1).is_some().then_some(end);
        KeyRange { start: prefix.into(), end: end.map(Key::from) }
    }

    /// Returns the part of a scan that is left when it comes to `key` next.
    pub fn from_key(&self, key: &Key, reverse: bool) -> KeyRange {
        match reverse {
            false => KeyRange { start: key.clone(), end: self.end.clone() },
            true => KeyRange { start: self.start.clone(), end: Some(key.successor()) },
        }
    }

    /// True if the range contains a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        &*self.start <= key && self.end.as_ref().is_none_or(|end| key < &**end)
    }

    /// True if the range contains every key of another range.
    pub fn contains_range(&self, other: &KeyRange) -> bool {
        let ends_before = match (&other.end, &self.end) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(end)) => other <= end,
        };
        other.is_empty() || (self.start <= other.start && ends_before)
    }

    /// True if this range ends at or after another one's end.
    pub fn reaches(&self, other: &KeyRange) -> bool {
        match (&self.end, &other.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(other)) => end >= other,
        }
    }

    /// True if two ranges share a key.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        let below = |start: &Key, end: &Option<Key>| end.as_ref().is_none_or(|end| start < end);
        !self.is_empty()
            && !other.is_empty()
            && below(&self.start, &other.end)
            && below(&other.start, &self.end)
    }

    /// Returns the intersection of two ranges.
    pub fn common(&self, other: &KeyRange) -> KeyRange {
        let end = match (&self.end, &other.end) {
            (Some(one), Some(two)) => Some(one.min(two).clone()),
            (one, two) => one.clone().or_else(|| two.clone()),
        };
        KeyRange { start: self.start.clone().max(other.start.clone()), end }
    }

    /// Splits the range into the keys below `key` and those from it on.
    pub fn cut(self, key: &Key) -> (KeyRange, KeyRange) {
        (
            KeyRange { start: self.start, end: Some(key.clone()) },
            KeyRange { start: key.clone(), end: self.end },
        )
    }

    /// Returns the key of the range if it contains exactly one.
    pub fn as_point(&self) -> Option<&Key> {
        let end = self.end.as_ref()?;
        let one = end.len() == self.start.len() + 1
            && end.last() == Some(&0)
            && end.starts_with(&self.start);
        one.then_some(&self.start)
    }

    /// True if the range contains no key.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// One key's new value; `None` deletes it (a tombstone).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Write {
    /// The key.
    #[n(0)]
    pub key: Key,
    /// The value, or a tombstone.
    #[n(1)]
    pub value: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_exactly_the_keys_that_begin_with_it() {
        let range = KeyRange::prefix(&[1, 255]);
        assert!(range.contains(&[1, 255]) && range.contains(&[1, 255, 255, 9]));
        assert!(!range.contains(&[2]) && !range.contains(&[1, 254, 255]));
        assert_eq!(KeyRange::prefix(&[255, 255]).end, None);
    }

    #[test]
    fn a_point_knows_itself() {
        let key = Key::from("k");
        assert_eq!(KeyRange::point(key.clone()).as_point(), Some(&key));
        assert_eq!(KeyRange::prefix(b"k").as_point(), None);
        assert!(!KeyRange::point(key.clone()).overlaps(&KeyRange::point(key.successor())));
    }
}
