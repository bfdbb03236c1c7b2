//! Keys and ranges over which transactions of a node were refused lately, and their turns.
//!
//! ```text
//!   refused over {a1, a3}       a1 ─┐
//!                               a3 ─┼─▶ turn "a1"
//!     and a scan of [c, d)   [c, d) ─┘
//! ```
//!
//! The next transaction that reads a3, or writes between c and d, takes the turn "a1" before it
//! proceeds. Keys over which one transaction was refused share a turn, which is named after the
//! first of them; so do ranges that overlap, and what is contested in spite of a turn joins it. So
//! a transaction takes one turn at most, and transactions do not wait for each other in a circle.
//! Nodes remember different keys; because the first key names the turn, they converge while keys
//! stay contested.
//!
//! A turn is advisory: the state is in memory, bounded, and forgotten after a while.

use super::Footprint;
use meridian_mvcc::{Key, KeyRange, local};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The number of keys and ranges that are remembered.
const MOST: usize = 4096;
/// The number of those of one refused transaction that are remembered.
const MOST_OF_ONE: usize = 64;
/// The longest key that is remembered, in bytes.
const KEY_BYTES: usize = 1 << 10;
/// The number of ranges that begin before a key and are searched for one that has it.
const LOOKED_AT: usize = 64;

/// A contested key or range that begins with it: its end, its turn, and until when it is
/// remembered, by the boot clock.
#[derive(Clone, Debug)]
struct Entry {
    end: Option<Key>,
    turn: Key,
    until: u64,
}

/// Returns the ranges over which a transaction probably met another one: what it writes, and what
/// it read there. One that was refused although it had a turn, or that writes nothing that it has
/// read, may have met another one anywhere.
pub(super) fn likely(footprint: &Footprint, had_turn: bool) -> Vec<KeyRange> {
    let Footprint { reads, writes, .. } = footprint;
    let anywhere = had_turn || !reads.iter().any(|seen| footprint.writes_in(&seen.range));
    let read = reads.iter().map(|seen| &seen.range);
    let read = read.filter(|range| anywhere || footprint.writes_in(range)).cloned();
    read.chain(writes.iter().map(|write| KeyRange::point(write.key.clone()))).collect()
}

/// The contested keys and ranges that a node remembers, by their first keys.
#[derive(Debug, Default)]
pub(super) struct Contested {
    keys: BTreeMap<Key, Entry>,
}

impl Contested {
    /// Records that a transaction was refused, or waited for its turn, over these ranges. From now
    /// on they share a turn with the contested ranges that they overlap, and with the turn that the
    /// transaction `held`.
    pub fn note(
        &mut self,
        now: u64,
        until: u64,
        ranges: impl IntoIterator<Item = KeyRange>,
        held: Option<&Key>,
    ) {
        self.keys.retain(|_, entry| entry.until > now);
        let may_be = |range: &KeyRange| {
            let keys = [Some(&range.start), range.end.as_ref()];
            !local::is(&range.start)
                && keys.into_iter().flatten().all(|key| key.as_ref().len() <= KEY_BYTES)
        };
        let ranges: Vec<KeyRange> = ranges.into_iter().filter(may_be).take(MOST_OF_ONE).collect();
        let known = ranges.iter().flat_map(|range| self.overlapping(range));
        let turns: BTreeSet<Key> =
            known.map(|(_, entry)| entry.turn.clone()).chain(held.cloned()).collect();
        let first = ranges.iter().map(|range| &range.start).min();
        let Some(turn) = first.into_iter().chain(turns.first()).min().cloned() else { return };
        for entry in self.keys.values_mut().filter(|entry| turns.contains(&entry.turn)) {
            entry.turn = turn.clone();
        }
        for KeyRange { start, end } in ranges {
            let reaches = |known: &Option<Key>| known.is_none() || end.is_some() && *known >= end;
            let within = self
                .reaching(&start)
                .find(|(_, entry)| reaches(&entry.end))
                .map(|(start, _)| start.clone());
            let start = within.clone().unwrap_or(start);
            if self.keys.len() < MOST || self.keys.contains_key(&start) {
                let entry = self.keys.entry(start).or_insert_with(|| Entry {
                    end: end.clone(),
                    turn: turn.clone(),
                    until,
                });
                entry.until = until.max(entry.until);
                if within.is_none() {
                    entry.end = end;
                }
            }
        }
    }

    /// Returns the first contested part of a range that is to be read or written, and its turn.
    pub fn turn_of(&self, now: u64, range: &KeyRange) -> Option<(KeyRange, Key)> {
        let (start, entry) = self.overlapping(range).find(|(_, entry)| entry.until > now)?;
        Some((KeyRange { start: start.clone(), end: entry.end.clone() }, entry.turn.clone()))
    }

    /// Returns the contested ranges that share a turn, as far as a request for it names them: first
    /// the one that was wanted.
    pub fn sharing(&self, now: u64, wanted: &KeyRange, turn: &Key) -> Vec<KeyRange> {
        let mut entries = self.keys.iter().filter(|(_, entry)| entry.until > now);
        let shares = |(start, entry): (&Key, &Entry)| {
            let range = || KeyRange { start: start.clone(), end: entry.end.clone() };
            (entry.turn == *turn && *start != wanted.start).then(range)
        };
        let others = entries.by_ref().filter_map(shares);
        std::iter::once(wanted.clone()).chain(others).take(MOST_OF_ONE).collect()
    }

    /// Returns the entries that have a key: those that begin nearest to it first.
    fn reaching(&self, key: &Key) -> impl Iterator<Item = (&Key, &Entry)> {
        let before = self.keys.range::<Key, _>(..=key).rev().take(LOOKED_AT);
        before.filter(move |(start, entry)| {
            *start == key || entry.end.as_ref().is_none_or(|end| key < end)
        })
    }

    /// Returns the entries that have a key of a range: first those that have its first key.
    fn overlapping(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Entry)> {
        let after = (Bound::Excluded(&range.start), Bound::Unbounded);
        let end = range.end.as_ref();
        let within = self
            .keys
            .range::<Key, _>(after)
            .take_while(move |(start, _)| end.is_none_or(|end| *start < end));
        self.reaching(&range.start).chain(within)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RangeRead;
    use super::*;
    use meridian_clock::Timestamp;
    use meridian_mvcc::Write;

    fn keys<const N: usize>(keys: [&str; N]) -> [KeyRange; N] {
        keys.map(|key| KeyRange::point(Key::from(key)))
    }

    fn range(start: &str, end: &str) -> KeyRange {
        KeyRange { start: Key::from(start), end: Some(Key::from(end)) }
    }

    fn turn(contested: &Contested, now: u64, key: &str) -> Option<String> {
        let found = contested.turn_of(now, &KeyRange::point(Key::from(key)));
        found.map(|(_, turn)| String::from_utf8_lossy(turn.as_ref()).into_owned())
    }

    #[test]
    fn keys_over_which_one_transaction_was_refused_share_a_turn() {
        let mut contested = Contested::default();
        assert_eq!(turn(&contested, 0, "b"), None);
        contested.note(0, 10, keys(["c", "b"]), None);
        contested.note(0, 10, keys(["e", "d"]), None);
        let turns = |contested: &Contested| {
            ["b", "c", "d", "e"].map(|key| turn(contested, 1, key).unwrap())
        };
        assert_eq!(turns(&contested), ["b", "b", "d", "d"]);
        contested.note(1, 10, keys(["e", "c"]), None);
        assert_eq!(turns(&contested), ["b", "b", "b", "b"]);
        assert_eq!(turn(&contested, 1, "f"), None);
    }

    #[test]
    fn what_is_written_into_a_range_takes_the_turn_of_the_scans_that_it_refuses() {
        let mut contested = Contested::default();
        contested.note(0, 10, [range("s", "t")], None);
        assert_eq!(
            ["s", "s7", "szz"].map(|key| turn(&contested, 1, key)),
            [(); 3].map(|()| Some("s".into()))
        );
        assert_eq!((turn(&contested, 1, "r"), turn(&contested, 1, "t")), (None, None));
        contested.note(1, 12, keys(["s7"]), None);
        assert_eq!(contested.keys.len(), 1, "the key is within the range");
        assert_eq!(turn(&contested, 11, "s8"), Some("s".into()));
        contested.note(1, 12, [range("a", "c"), range("s", "u")], None);
        assert_eq!(
            ["b", "t9"].map(|key| turn(&contested, 1, key)),
            [(); 2].map(|()| Some("a".into()))
        );
        contested.note(1, 12, [KeyRange { start: Key::from("x"), end: None }], None);
        assert_eq!(turn(&contested, 1, "zz"), Some("x".into()));
    }

    #[test]
    fn a_scan_takes_and_shares_the_turn_of_what_is_contested_within_it() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys(["a3"]), None);
        contested.note(0, 12, keys(["a7"]), None);
        let of = |contested: &Contested, now, start, end| {
            let (part, turn) = contested.turn_of(now, &range(start, end))?;
            Some((part.start, turn))
        };
        let name = |start: &str, turn: &str| Some((Key::from(start), Key::from(turn)));
        assert_eq!(of(&contested, 1, "a", "b"), name("a3", "a3"));
        assert_eq!(of(&contested, 10, "a", "b"), name("a7", "a7"), "the other is forgotten");
        assert_eq!(of(&contested, 1, "a", "a3"), None);
        assert_eq!(of(&contested, 1, "a4", "a9"), name("a7", "a7"));
        contested.note(1, 12, [range("a", "b")], None);
        assert_eq!(
            ["a", "a3", "a7"].map(|key| turn(&contested, 2, key)),
            [(); 3].map(|()| Some("a".into())),
            "one turn for all that the scan refuses"
        );
    }

    #[test]
    fn what_is_contested_in_spite_of_a_turn_joins_it() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys(["b", "c"]), None);
        contested.note(1, 20, keys(["d"]), Some(&Key::from("b")));
        assert_eq!(turn(&contested, 2, "d"), Some("b".into()));
        contested.note(12, 20, keys(["c"]), Some(&Key::from("b")));
        assert_eq!(
            turn(&contested, 13, "c"),
            Some("b".into()),
            "a transaction waited for longer than the key was remembered"
        );
        contested.note(12, 20, keys(["a"]), Some(&Key::from("b")));
        assert_eq!(
            ["a", "c", "d"].map(|key| turn(&contested, 13, key)),
            [(); 3].map(|()| Some("a".into()))
        );
    }

    #[test]
    fn a_refused_transaction_probably_met_another_one_where_it_writes() {
        let seen = |range| RangeRead { range, versions: Vec::new(), through: Timestamp::ZERO };
        let write = |key: &str| Write { key: Key::from(key), value: None };
        let pages = [range("m", "m2"), range("m2", "n")];
        let footprint = |written: &[&str]| Footprint {
            reads: pages.iter().cloned().map(seen).collect(),
            writes: written.iter().copied().map(write).collect(),
            participants: Vec::new(),
        };
        let likely_at = |written: &[&str], had_turn| {
            let ranges = likely(&footprint(written), had_turn);
            ranges.into_iter().map(|range| range.start).collect::<Vec<Key>>()
        };
        let keys = |all: &[&str]| all.iter().copied().map(Key::from).collect::<Vec<Key>>();
        assert_eq!(likely_at(&["a", "m7"], false), keys(&["m2", "a", "m7"]));
        assert_eq!(likely_at(&["a", "m7"], true), keys(&["m", "m2", "a", "m7"]));
        assert_eq!(likely_at(&["a"], false), keys(&["m", "m2", "a"]));
        assert_eq!(likely_at(&[], false), keys(&["m", "m2"]));
    }

    #[test]
    fn what_is_not_contested_any_more_is_forgotten() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys(["a"]), None);
        contested.note(5, 15, keys(["b"]), None);
        assert_eq!((turn(&contested, 9, "a"), turn(&contested, 10, "a")), (Some("a".into()), None));
        contested.note(12, 20, keys(["b"]), None);
        assert_eq!(contested.keys.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys([&"k".repeat(KEY_BYTES + 1)]), None);
        contested.note(0, 10, [KeyRange::point(local::schema(0, 1))], None);
        assert!(contested.keys.is_empty());
        let point = |n: usize| KeyRange::point(format!("{n:03}").as_str().into());
        contested.note(0, 10, (0..MOST_OF_ONE + 1).map(point), None);
        assert_eq!(contested.keys.len(), MOST_OF_ONE);
        (0..MOST).for_each(|n| contested.note(0, 10, keys([&format!("k{n:05}")]), None));
        assert_eq!(contested.keys.len(), MOST);
    }
}
