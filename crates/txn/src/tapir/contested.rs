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
//! The name is the node's own. Nodes remember different keys, and a request names the ranges; the
//! replica matches them (`systems/tapir/turns.rs`).
//!
//! Each key and each range is forgotten by itself: transactions over single keys do not keep a
//! range contested that was once scanned.
//!
//! Correctness does not depend on turns: the state is in memory, bounded, and forgotten after a
//! while.

use super::Footprint;
use meridian_mvcc::{Key, KeyRange, local};
use std::collections::{BTreeMap, BTreeSet};

/// The number of keys and ranges that are remembered.
const MOST: usize = 4096;
/// The number of those of one refused transaction that are remembered, and of those that a request
/// for a turn names.
pub const MOST_OF_ONE: usize = 64;
/// The bytes of the keys that a request for a turn names, at most.
pub const MOST_BYTES: usize = 16 << 10;
/// The longest key that is remembered, in bytes.
const KEY_BYTES: usize = 1 << 10;
/// The number of ranges that begin before a key and are searched for one that has it.
const LOOKED_AT: usize = 64;

/// The turn of a contested key or range, and until when it is remembered, by the boot clock.
#[derive(Clone, Debug)]
struct Entry {
    turn: Key,
    until: u64,
}

/// Returns the ranges over which a refused transaction probably met another one: what it writes.
/// One that only reads, or was refused although it took a turn, may have met another one anywhere.
pub(super) fn likely(footprint: &Footprint, took_turn: bool) -> Vec<KeyRange> {
    let Footprint { reads, writes, .. } = footprint;
    let anywhere = took_turn || writes.is_empty();
    let read = reads.iter().filter(|_| anywhere).map(|seen| seen.range.clone());
    read.chain(writes.iter().map(|write| KeyRange::point(write.key.clone()))).collect()
}

/// The contested keys and ranges that a node remembers.
#[derive(Debug, Default)]
pub(super) struct Contested {
    /// The single keys.
    points: BTreeMap<KeyRange, Entry>,
    ranges: BTreeMap<KeyRange, Entry>,
}

impl Contested {
    /// True if nothing is contested.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

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
        self.points.retain(|_, entry| entry.until > now);
        self.ranges.retain(|_, entry| entry.until > now);
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
        let all = self.points.values_mut().chain(self.ranges.values_mut());
        for entry in all.filter(|entry| turns.contains(&entry.turn)) {
            entry.turn = turn.clone();
        }
        for range in ranges {
            let has_room = self.points.len() + self.ranges.len() < MOST;
            let entries =
                if range.as_point().is_some() { &mut self.points } else { &mut self.ranges };
            if let Some(entry) = entries.get_mut(&range) {
                entry.until = until.max(entry.until);
            } else if has_room {
                entries.insert(range, Entry { turn: turn.clone(), until });
            }
        }
    }

    /// Returns the first contested part of a range that is to be read or written, and its turn.
    pub fn turn_of(&self, now: u64, range: &KeyRange) -> Option<(KeyRange, Key)> {
        let (part, entry) = self.overlapping(range).find(|(_, entry)| entry.until > now)?;
        Some((part.common(range), entry.turn.clone()))
    }

    /// Returns the contested ranges of a shard that share a turn, as far as a request for it names
    /// them: first the one that is `wanted`.
    pub fn sharing(
        &self,
        now: u64,
        wanted: &KeyRange,
        turn: &Key,
        bounds: &KeyRange,
    ) -> Vec<KeyRange> {
        let is_of = |(range, entry): &(&KeyRange, &Entry)| {
            entry.until > now && entry.turn == *turn && range.overlaps(bounds)
        };
        let all = self.ranges.iter().chain(&self.points).filter(is_of);
        let others = all.map(|(range, _)| range.common(bounds)).filter(|range| range != wanted);
        let mut bytes = 0;
        let fits = |range: &KeyRange| {
            bytes += range.start.len() + range.end.as_ref().map_or(0, |end| end.len());
            bytes <= MOST_BYTES
        };
        std::iter::once(wanted.clone()).chain(others).take(MOST_OF_ONE).take_while(fits).collect()
    }

    /// Returns the entries that overlap a range: ranges before keys, and those that have its first
    /// key before others.
    fn overlapping(&self, range: &KeyRange) -> impl Iterator<Item = (&KeyRange, &Entry)> {
        let second = KeyRange { start: range.start.successor(), end: None };
        let before = self.ranges.range(..&second).rev().take(LOOKED_AT);
        let reaching = before.filter(|(known, _)| known.overlaps(range));
        let is_within = |(known, _): &(&KeyRange, &Entry)| known.overlaps(range);
        let within = self.ranges.range(second..).take_while(is_within);
        let first = KeyRange { start: range.start.clone(), end: None };
        let points = self.points.range(first..).take_while(is_within);
        reaching.chain(within).chain(points)
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
        contested.note(1, 12, [range("a", "c"), range("s", "u")], None);
        assert_eq!(
            ["b", "t9"].map(|key| turn(&contested, 1, key)),
            [(); 2].map(|()| Some("a".into()))
        );
        contested.note(1, 12, [KeyRange { start: Key::from("x"), end: None }], None);
        assert_eq!(turn(&contested, 1, "zz"), Some("x".into()));
    }

    /// One scan was refused, and then transactions over single keys are.
    #[test]
    fn a_range_is_forgotten_although_keys_in_it_stay_contested() {
        let mut contested = Contested::default();
        contested.note(0, 10, [range("s", "t")], None);
        contested.note(1, 12, keys(["s", "s7"]), None);
        assert_eq!(
            ["s", "s7", "s8"].map(|key| turn(&contested, 9, key)),
            [(); 3].map(|()| Some("s".into())),
            "one turn for the range and the keys"
        );
        let of = |contested: &Contested, range| contested.turn_of(9, &range).map(|(part, _)| part);
        assert_eq!(
            of(&contested, range("r", "s3")),
            Some(range("s", "s3")),
            "what is wanted of it"
        );
        let s7 = KeyRange::point(Key::from("s7"));
        assert_eq!(of(&contested, s7.clone()), Some(s7));
        assert_eq!(
            ["s", "s7", "s8"].map(|key| turn(&contested, 10, key)),
            [Some("s".into()), Some("s".into()), None]
        );
        contested.note(10, 20, keys(["s8"]), None);
        assert_eq!((contested.points.len(), contested.ranges.len()), (3, 0));
    }

    #[test]
    fn a_request_names_what_shares_its_turn_in_its_shard() {
        let mut contested = Contested::default();
        contested.note(0, 10, [range("b", "n"), range("p", "q")], None);
        contested.note(0, 5, keys(["c", "k"]), Some(&Key::from("b")));
        contested.note(0, 10, keys(["z"]), None);
        let [first, second] = ["", "m"].map(|start| KeyRange {
            start: start.into(),
            end: start.is_empty().then(|| "m".into()),
        });
        let (b, [c, k]) = (Key::from("b"), keys(["c", "k"]));
        assert_eq!(
            contested.sharing(1, &k, &b, &first),
            [k.clone(), range("b", "m"), c],
            "first what is wanted"
        );
        assert_eq!(contested.sharing(5, &k, &b, &first), [k, range("b", "m")]);
        let m = KeyRange::point(Key::from("m"));
        assert_eq!(contested.sharing(1, &m, &b, &second), [m, range("m", "n"), range("p", "q")]);
        let long = |n: usize| KeyRange::point(format!("{n:0>1000}").as_str().into());
        contested.note(0, 10, (0..MOST_OF_ONE).map(long), None);
        let named = contested.sharing(1, &long(7), &long(0).start, &KeyRange::all());
        assert_eq!((named.len(), &named[0]), (MOST_BYTES / 2001, &long(7)));
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
        let likely_at = |written: &[&str], took_turn| {
            let ranges = likely(&footprint(written), took_turn);
            ranges.into_iter().map(|range| range.start).collect::<Vec<Key>>()
        };
        let keys = |all: &[&str]| all.iter().copied().map(Key::from).collect::<Vec<Key>>();
        assert_eq!(likely_at(&["a", "m7"], false), keys(&["a", "m7"]));
        assert_eq!(likely_at(&["a", "m7"], true), keys(&["m", "m2", "a", "m7"]));
        assert_eq!(likely_at(&[], false), keys(&["m", "m2"]));
    }

    #[test]
    fn what_is_not_contested_any_more_is_forgotten() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys(["a"]), None);
        contested.note(5, 15, keys(["b"]), None);
        assert_eq!((turn(&contested, 9, "a"), turn(&contested, 10, "a")), (Some("a".into()), None));
        contested.note(12, 20, keys(["b"]), None);
        assert_eq!(contested.points.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut contested = Contested::default();
        contested.note(0, 10, keys([&"k".repeat(KEY_BYTES + 1)]), None);
        contested.note(0, 10, [KeyRange::point(local::schema(0, 1))], None);
        assert!(contested.is_empty());
        let point = |n: usize| KeyRange::point(format!("{n:03}").as_str().into());
        contested.note(0, 10, (0..MOST_OF_ONE + 1).map(point), None);
        assert_eq!(contested.points.len(), MOST_OF_ONE);
        (0..MOST).for_each(|n| contested.note(0, 10, keys([&format!("k{n:05}")]), None));
        contested.note(0, 10, [range("y", "z")], None);
        assert_eq!((contested.points.len(), contested.ranges.len()), (MOST, 0));
    }
}
