//! Which shard has which keys, as far as is known.

use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The first shard, which has all keys until it is split.
pub const FIRST_SHARD: ShardId = ShardId(0);

/// A cache of what the shards' own logs say: where each begins. A shard's beginning never changes; it ends where the next one begins.
///
/// It may be behind. Then some keys are looked for where they were, and who is asked there says where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    starts: BTreeMap<Key, ShardId>,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { starts: [(Key::default(), FIRST_SHARD)].into() }
    }
}

impl Routes {
    /// A shard begins at a key. True if that is new.
    pub fn learn(&mut self, from: Key, shard: ShardId) -> bool {
        !self.starts.values().any(|known| *known == shard) && self.starts.insert(from, shard).is_none()
    }

    /// The shard that has a key, and its keys.
    pub fn of(&self, key: &[u8]) -> (ShardId, KeyRange) {
        let found = self.starts.range::<[u8], _>((Unbounded, Included(key))).next_back();
        let (start, shard) = found.expect("invariant: the first shard begins at the first key");
        (*shard, KeyRange { start: start.clone(), end: self.after(key) })
    }

    /// The shard that has the last key below one, or the last key of all.
    pub fn below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        let found = match end {
            Some(end) => self.starts.range::<Key, _>(..end).next_back(),
            None => self.starts.iter().next_back(),
        };
        let (start, _) = found.or(self.starts.first_key_value()).expect("the first is always there");
        self.of(start)
    }

    fn after(&self, key: &[u8]) -> Option<Key> {
        self.starts.range::<[u8], _>((Excluded(key), Unbounded)).next().map(|(start, _)| start.clone())
    }

    /// All shards, by their keys.
    pub fn shards(&self) -> impl Iterator<Item = (&Key, ShardId)> {
        self.starts.iter().map(|(start, shard)| (start, *shard))
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.starts.len()
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
            assert_eq!(of("a"), (ShardId(0), KeyRange { start: Key::default(), end: Some("m".into()) }));
            assert_eq!(of("m"), (ShardId(1), KeyRange { start: "m".into(), end: Some("t".into()) }));
            assert_eq!(of("z"), (ShardId(2), KeyRange { start: "t".into(), end: None }));
            assert_eq!(routes.below(Some(&"m".into())).0, ShardId(0));
            assert_eq!(routes.below(Some(&"ma".into())).0, ShardId(1));
            assert_eq!((routes.below(None).0, routes.below(Some(&Key::default())).0), (ShardId(2), ShardId(0)));
        }
    }
}
