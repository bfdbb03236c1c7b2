//! Keys over which transactions of a node were refused of late, and the turns in which they are taken.
//!
//! ```text
//!   refused over {a1, a3}    a1 ─┐              the next transaction that reads a3 takes the turn "a1"
//!                            a3 ─┴─▶ turn "a1"  before it reads on
//! ```
//!
//! Keys over which one transaction was refused share a turn, which is named after the first of them, so
//! that a transaction takes one turn at most and sessions do not wait for one another in a circle. Nodes
//! remember different keys; since the first key names the turn, they come to agree while keys stay contested.
//!
//! Only advice is kept here: it is in memory, bounded, and forgotten after a while.

use meridian_mvcc::{Key, local};
use std::collections::BTreeMap;

/// The number of keys that are remembered.
const MOST: usize = 4096;
/// The number of keys of one refused transaction that are remembered.
const MOST_OF_ONE: usize = 64;
/// The longest key that is remembered, in bytes.
const KEY_BYTES: usize = 1 << 10;

/// A contested key: its turn, and until when it is remembered, by the boot clock.
#[derive(Clone, Debug)]
struct Entry {
    turn: Key,
    until: u64,
}

/// The contested keys that a node remembers.
#[derive(Debug, Default)]
pub(super) struct Contested {
    keys: BTreeMap<Key, Entry>,
}

impl Contested {
    /// A transaction was refused, or waited for its turn, over one of these keys, or of the ranges that begin with them.
    /// They share a turn from now on.
    pub fn note<'a>(&mut self, now: u64, until: u64, keys: impl IntoIterator<Item = &'a Key>) {
        self.keys.retain(|_, entry| entry.until > now);
        let may_be = |key: &&Key| !local::is(key) && key.as_ref().len() <= KEY_BYTES;
        let keys: Vec<&Key> = keys.into_iter().filter(may_be).take(MOST_OF_ONE).collect();
        let known = keys.iter().filter_map(|key| self.keys.get(*key));
        let turns: Vec<Key> = known.map(|entry| entry.turn.clone()).collect();
        let Some(turn) = turns.iter().chain(keys.iter().copied()).min().cloned() else { return };
        for entry in self.keys.values_mut().filter(|entry| turns.contains(&entry.turn)) {
            entry.turn = turn.clone();
        }
        for key in keys {
            if self.keys.len() < MOST || self.keys.contains_key(key) {
                self.keys.insert(key.clone(), Entry { turn: turn.clone(), until });
            }
        }
    }

    /// The turn in which a key, or a range that begins with it, is to be read or written, if it is contested.
    pub fn turn_of(&self, now: u64, key: &Key) -> Option<Key> {
        let entry = self.keys.get(key).filter(|entry| entry.until > now)?;
        Some(entry.turn.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const N: usize>(keys: [&str; N]) -> [Key; N] {
        keys.map(Key::from)
    }

    fn turn(contested: &Contested, now: u64, key: &str) -> Option<String> {
        let turn = contested.turn_of(now, &Key::from(key));
        turn.map(|turn| String::from_utf8_lossy(turn.as_ref()).into_owned())
    }

    #[test]
    fn keys_over_which_one_transaction_was_refused_share_a_turn() {
        let mut contested = Contested::default();
        assert_eq!(turn(&contested, 0, "b"), None);
        contested.note(0, 10, &keys(["c", "b"]));
        contested.note(0, 10, &keys(["e", "d"]));
        let turns = |contested: &Contested| ["b", "c", "d", "e"].map(|key| turn(contested, 1, key).unwrap());
        assert_eq!(turns(&contested), ["b", "b", "d", "d"]);
        contested.note(1, 10, &keys(["e", "c"]));
        assert_eq!(turns(&contested), ["b", "b", "b", "b"]);
        assert_eq!(turn(&contested, 1, "f"), None);
    }

    #[test]
    fn what_is_not_contested_any_more_is_forgotten() {
        let mut contested = Contested::default();
        contested.note(0, 10, &keys(["a"]));
        contested.note(5, 15, &keys(["b"]));
        assert_eq!((turn(&contested, 9, "a"), turn(&contested, 10, "a")), (Some("a".into()), None));
        contested.note(12, 20, &keys(["b"]));
        assert_eq!(contested.keys.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut contested = Contested::default();
        contested.note(0, 10, &keys([&"k".repeat(KEY_BYTES + 1)]));
        contested.note(0, 10, [&local::schema(0, 1)]);
        assert!(contested.keys.is_empty());
        let many: Vec<Key> = (0..MOST_OF_ONE + 1).map(|n| format!("{n:03}").as_str().into()).collect();
        contested.note(0, 10, &many);
        assert_eq!(contested.keys.len(), MOST_OF_ONE);
        (0..MOST).for_each(|n| contested.note(0, 10, &keys([&format!("k{n:05}")])));
        assert_eq!(contested.keys.len(), MOST);
    }
}
