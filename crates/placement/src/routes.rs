//! Routes from keys to shards, as far as a node knows them.

use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The first shard, which has all keys until it is split.
pub const FIRST_SHARD: ShardId = ShardId(0);

/// Returns the keys of a shard for a node that has no state of it: all keys for the first shard,
/// none for others.
pub fn keys_without_route(shard: ShardId) -> KeyRange {
    let none = KeyRange { start: Key::default(), end: Some(Key::default()) };
    if shard == FIRST_SHARD { KeyRange::all() } else { none }
}

/// A part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    shard: ShardId,
    /// True if the shard begins here. Otherwise the shard is only the one to ask.
    begins: bool,
}

/// A cache of the shards' first keys, which their logs determine. A shard's first key never
/// changes; the shard ends where the next one begins.
///
/// The cache may be stale. A request then goes to a shard that had the key before, which answers
/// which shard has it. Where a shard is known to end and the next one is unknown, the first shard
/// is asked, and then the one that it names: every shard was split off from the first, directly or
/// indirectly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    parts: BTreeMap<Key, Part>,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { parts: [(Key::default(), Part { shard: FIRST_SHARD, begins: true })].into() }
    }
}

impl Routes {
    /// Notes the first key of a shard. True if that is new.
    pub fn learn(&mut self, from: Key, shard: ShardId) -> bool {
        let known = self.parts.values().any(|part| part.begins && part.shard == shard);
        let free = self.parts.get(&from).is_none_or(|part| !part.begins);
        if !known && free {
            self.parts.insert(from, Part { shard, begins: true });
        }
        !known && free
    }

    /// Notes that a shard ends before a key. True if no shard was known to begin there.
    pub fn learn_end(&mut self, end: Key) -> bool {
        let new = !self.parts.contains_key(&end);
        if new {
            self.parts.insert(end, Part { shard: FIRST_SHARD, begins: false });
        }
        new
    }

    /// Notes the answer of a shard that does not have `key`: that `shard` begins at `from`, or, for
    /// the first shard, that an unknown one does. Requests for the key go to `shard` next. True if
    /// a boundary is new.
    pub fn learn_location(&mut self, key: &[u8], from: Key, shard: ShardId) -> bool {
        let new = if shard == FIRST_SHARD { self.learn_end(from) } else { self.learn(from, shard) };
        let part = self.parts.range_mut::<[u8], _>((Unbounded, Included(key))).next_back();
        if let Some((_, part)) = part.filter(|(_, part)| !part.begins && shard != FIRST_SHARD) {
            part.shard = shard;
        }
        new
    }

    /// Returns the shard that has a key, with its keys.
    pub fn of(&self, key: &[u8]) -> (ShardId, KeyRange) {
        let found = self.parts.range::<[u8], _>((Unbounded, Included(key))).next_back();
        let (start, part) = found.expect("invariant: the first shard begins at the first key");
        (part.shard, KeyRange { start: start.clone(), end: self.after(key) })
    }

    /// Returns the shard that has the last key below `end`, or the last key of all.
    pub fn below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        let found = match end {
            Some(end) => self.parts.range::<Key, _>(..end).next_back(),
            None => self.parts.iter().next_back(),
        };
        let (start, _) = found
            .or(self.parts.first_key_value())
            .expect("invariant: the first shard is always known");
        self.of(start)
    }

    fn after(&self, key: &[u8]) -> Option<Key> {
        self.parts
            .range::<[u8], _>((Excluded(key), Unbounded))
            .next()
            .map(|(start, _)| start.clone())
    }

    /// The known shards, by their first keys.
    pub fn shards(&self) -> impl Iterator<Item = (&Key, ShardId)> {
        self.parts.iter().filter(|(_, part)| part.begins).map(|(start, part)| (start, part.shard))
    }

    /// Returns the number of parts that are known.
    pub fn count(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_find_their_shard_in_any_learning_order() {
        for order in [[("m", 1), ("t", 2)], [("t", 2), ("m", 1)]] {
            let mut routes = Routes::default();
            for (from, shard) in order {
                assert!(routes.learn(from.into(), ShardId(shard)));
                assert!(!routes.learn(from.into(), ShardId(shard)));
            }
            let of = |key: &str| routes.of(key.as_bytes());
            assert_eq!(
                of("a"),
                (ShardId(0), KeyRange { start: Key::default(), end: Some("m".into()) })
            );
            assert_eq!(
                of("m"),
                (ShardId(1), KeyRange { start: "m".into(), end: Some("t".into()) })
            );
            assert_eq!(of("z"), (ShardId(2), KeyRange { start: "t".into(), end: None }));
            assert_eq!(routes.below(Some(&"m".into())).0, ShardId(0));
            assert_eq!(routes.below(Some(&"ma".into())).0, ShardId(1));
            assert_eq!(
                (routes.below(None).0, routes.below(Some(&Key::default())).0),
                (ShardId(2), ShardId(0))
            );
        }
    }

    #[test]
    fn what_comes_after_a_shard_that_ends_is_asked_of_the_first() {
        let mut routes = Routes::default();
        assert!(
            routes.learn("l".into(), ShardId(4))
                && routes.learn_end("m".into())
                && !routes.learn_end("m".into())
        );
        assert_eq!(routes.of(b"r"), (FIRST_SHARD, KeyRange { start: "m".into(), end: None }));
        assert_eq!(routes.shards().map(|(_, shard)| shard.0).collect::<Vec<_>>(), [0, 4]);
        assert!(routes.learn("m".into(), ShardId(3)) && !routes.learn("".into(), ShardId(9)));
        assert_eq!(routes.of(b"r").0, ShardId(3));
        assert!(!routes.learn_end("m".into()));
        // The first shard knows its own children only: the shard that it names is asked next.
        assert!(routes.learn_end("t".into()));
        assert!(!routes.learn_location(b"z", "l".into(), ShardId(4)));
        assert_eq!((routes.of(b"z").0, routes.of(b"r").0), (ShardId(4), ShardId(3)));
        assert!(routes.learn_location(b"z", "t".into(), ShardId(7)));
        assert_eq!(routes.of(b"z").0, ShardId(7));
    }
}
