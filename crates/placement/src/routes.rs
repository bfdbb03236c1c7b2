//! Which shard has which keys, as far as is known.

use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The first shard, which has all keys until it is split.
pub const FIRST_SHARD: ShardId = ShardId(0);

/// The keys of a shard, as far as a node knows that has nothing of it yet.
pub fn keys_untold(shard: ShardId) -> KeyRange {
    let none = KeyRange { start: Key::default(), end: Some(Key::default()) };
    if shard == FIRST_SHARD { KeyRange::all() } else { none }
}

/// A part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    shard: ShardId,
    /// The shard begins here; if not, it is only whom to ask.
    begins: bool,
}

/// A cache of what the shards' own logs say: where each begins. A shard's beginning never changes;
/// it ends where the next one begins.
///
/// It may be behind. Then some keys are looked for where they were, and who is asked there says
/// where they are. Where it is known that a shard ends and not what comes next, the first shard is
/// asked, and then whomever it names: every shard was split off from the first, or from what was.
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
    /// A shard begins at a key. True if that is new.
    pub fn learn(&mut self, from: Key, shard: ShardId) -> bool {
        let known = self.parts.values().any(|part| part.begins && part.shard == shard);
        let free = self.parts.get(&from).is_none_or(|part| !part.begins);
        if !known && free {
            self.parts.insert(from, Part { shard, begins: true });
        }
        !known && free
    }

    /// A shard ends before a key. True if it was not known that another begins there.
    pub fn learn_end(&mut self, end: Key) -> bool {
        let new = !self.parts.contains_key(&end);
        if new {
            self.parts.insert(end, Part { shard: FIRST_SHARD, begins: false });
        }
        new
    }

    /// A shard, or what was split off from it, has a key, said one who was asked for it in vain:
    /// that it begins there, or that nobody begins there and the next to ask is this one.
    pub fn learn_whereabouts(&mut self, key: &[u8], from: Key, shard: ShardId) -> bool {
        let new = if shard == FIRST_SHARD { self.learn_end(from) } else { self.learn(from, shard) };
        let part = self.parts.range_mut::<[u8], _>((Unbounded, Included(key))).next_back();
        if let Some((_, part)) = part.filter(|(_, part)| !part.begins && shard != FIRST_SHARD) {
            part.shard = shard;
        }
        new
    }

    /// The shard that has a key, and its keys.
    pub fn of(&self, key: &[u8]) -> (ShardId, KeyRange) {
        let found = self.parts.range::<[u8], _>((Unbounded, Included(key))).next_back();
        let (start, part) = found.expect("invariant: the first shard begins at the first key");
        (part.shard, KeyRange { start: start.clone(), end: self.after(key) })
    }

    /// The shard that has the last key below one, or the last key of all.
    pub fn below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        let found = match end {
            Some(end) => self.parts.range::<Key, _>(..end).next_back(),
            None => self.parts.iter().next_back(),
        };
        let (start, _) = found.or(self.parts.first_key_value()).expect("the first is always there");
        self.of(start)
    }

    fn after(&self, key: &[u8]) -> Option<Key> {
        self.parts
            .range::<[u8], _>((Excluded(key), Unbounded))
            .next()
            .map(|(start, _)| start.clone())
    }

    /// All shards that are known, by their keys.
    pub fn shards(&self) -> impl Iterator<Item = (&Key, ShardId)> {
        self.parts.iter().filter(|(_, part)| part.begins).map(|(start, part)| (start, part.shard))
    }

    /// How many parts the keys are known to have.
    pub fn count(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_find_their_shard_in_whichever_order_it_was_heard_of() {
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
        // The first knows its own children only: whom it names is asked next.
        assert!(routes.learn_end("t".into()));
        assert!(!routes.learn_whereabouts(b"z", "l".into(), ShardId(4)));
        assert_eq!((routes.of(b"z").0, routes.of(b"r").0), (ShardId(4), ShardId(3)));
        assert!(routes.learn_whereabouts(b"z", "t".into(), ShardId(7)));
        assert_eq!(routes.of(b"z").0, ShardId(7));
    }
}
