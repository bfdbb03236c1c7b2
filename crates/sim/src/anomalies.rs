//! The anomalies that weaker consistency modes allow (HybridTime §4.1), by kind, and the judge of
//! what mode `none` still promises to a read of several shards.
//!
//! | kind | modes | what happens |
//! |---|---|---|
//! | [`TWO_MOMENTS`] | `none` | the parts of a read are of different moments |
//! | [`PART_OF_A_TRANSACTION`] | `none` | a read shows a part of what a transaction wrote |
//! | [`OWN_ORDER`] | `none` after | of a session's transactions the later one comes first |
//! | [`UNRELATED_ORDER`] | `none`, `hybrid` | of two sessions' transactions the later one comes first |
//!
//! Serializability is not among them: it holds in every mode, but for reads of several shards in
//! mode `none`. Of those, each value was the key's newest at some moment of the read.

use crate::client::value;
use crate::verdict::Installed;
use meridian_clock::Timestamp;
use meridian_history::{Op, Stamp, Status, Transaction, Value};
use meridian_txn::Consistency;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The parts of a read in mode `none` are of different moments.
pub const TWO_MOMENTS: &str = "none: a read shows two moments";
/// A read in mode `none` shows a part of what a transaction wrote.
pub const PART_OF_A_TRANSACTION: &str = "none: a read shows a part of a transaction";
/// Of a session's own transactions the later one, which is in mode `none`, comes first.
pub const OWN_ORDER: &str = "none: a session's transactions change places";
/// Of two sessions' transactions the later one comes first: neither had the other's token, and no
/// wait separated them.
pub const UNRELATED_ORDER: &str = "hybrid, none: unrelated transactions change places";

/// All kinds.
pub const ALL: [&str; 4] = [TWO_MOMENTS, PART_OF_A_TRANSACTION, OWN_ORDER, UNRELATED_ORDER];

/// The number of anomalies of each kind.
pub type Found = BTreeMap<&'static str, u64>;

/// The versions of each key, in the order of their timestamps.
type Versions = BTreeMap<String, BTreeMap<Timestamp, Value>>;

/// The timestamps at which a read can have been made: half-open intervals.
type Moments = Vec<(Timestamp, Timestamp)>;

fn versions(installed: &Installed) -> Versions {
    let mut versions = Versions::new();
    for (at, writes) in installed {
        for write in writes {
            let key = String::from_utf8_lossy(write.key.as_ref()).into_owned();
            let written = value(&key, write.value.as_ref().map(|stored| stored.as_ref()));
            versions.entry(key).or_default().insert(*at, written);
        }
    }
    versions
}

/// Returns when a key had a value.
fn moments(of_key: Option<&BTreeMap<Timestamp, Value>>, found: &Value) -> Moments {
    let Some(of_key) = of_key else {
        let never = found.same(&Value::Nothing);
        return never.then_some((Timestamp::ZERO, Timestamp::MAX)).into_iter().collect();
    };
    let begins = std::iter::once((&Timestamp::ZERO, &Value::Nothing)).chain(of_key);
    let ends = of_key.keys().copied().chain([Timestamp::MAX]);
    let all = begins.zip(ends);
    all.filter(|((_, stood), _)| stood.same(found)).map(|((from, _), to)| (*from, to)).collect()
}

fn common(one: &Moments, other: &Moments) -> Moments {
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
    let both = pairs.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)));
    both.filter(|(from, to)| from < to).collect()
}

/// Returns the values that a read-only transaction found, by key. A scan shows that the keys
/// without a row have no value.
fn found(reader: &Transaction, versions: &Versions) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for op in &reader.ops {
        match op {
            Op::Read(key, found) => all.push((key.clone(), found.clone())),
            Op::Scan(low, high, rows) if low < high => {
                let rows: BTreeMap<&String, &Value> =
                    rows.iter().map(|(key, value)| (key, value)).collect();
                let range = (Bound::Included(low), Bound::Excluded(high));
                let known = versions.range::<String, _>(range).map(|(key, _)| key);
                let keys: BTreeSet<&String> = known.chain(rows.keys().copied()).collect();
                let shown = |key: &String| rows.get(key).map_or(Value::Nothing, |&row| row.clone());
                all.extend(keys.into_iter().map(|key| (key.clone(), shown(key))));
            }
            Op::Scan(..) | Op::Write(..) | Op::Append(..) => {}
        }
    }
    all
}

/// Judges reads of several shards in mode `none`, and counts what they show. `history` has the
/// other transactions.
pub fn judge_reads(
    reads: &[Transaction],
    history: &[Transaction],
    installed: &Installed,
) -> Result<Found, String> {
    let (versions, mut counts) = (versions(installed), Found::new());
    let ok = |transaction: &&Transaction| transaction.status == Status::Ok;
    let acknowledged: BTreeMap<Stamp, u64> =
        history.iter().filter(ok).filter_map(|it| Some((it.at?, it.end))).collect();
    let was_before = |at: &Timestamp, start: u64| {
        acknowledged.get(&crate::client::stamp(*at)).is_some_and(|end| *end < start)
    };
    for reader in reads.iter().filter(ok) {
        let (mut all, mut seen) =
            (vec![(Timestamp::ZERO, Timestamp::MAX)], BTreeMap::<String, Moments>::new());
        for (key, found) in found(reader, &versions) {
            let of_key = versions.get(&key);
            let moments = moments(of_key, &found);
            let newest = of_key.into_iter().flatten().rev();
            let newest = newest.map(|(at, _)| at).find(|&at| was_before(at, reader.start));
            let from = newest.copied().unwrap_or_default();
            if !moments.iter().any(|(_, to)| *to > from) {
                return Err(format!(
                    "in mode none {key} was read as {found}, and was not that since {from}, which had been acknowledged: {reader}"
                ));
            }
            all = common(&all, &moments);
            seen.insert(key, moments);
        }
        if all.is_empty() {
            *counts.entry(TWO_MOMENTS).or_default() += 1;
        }
        let shows_part = installed.iter().any(|(at, writes)| {
            let keys = writes.iter().map(|write| String::from_utf8_lossy(write.key.as_ref()));
            let of: Vec<&Moments> = keys.filter_map(|key| seen.get(key.as_ref())).collect();
            let has = |moments: &&Moments| moments.iter().all(|(from, _)| from >= at);
            let lacks = |moments: &&Moments| moments.iter().all(|(_, to)| to <= at);
            of.iter().any(has) && of.iter().any(lacks)
        });
        if shows_part {
            *counts.entry(PART_OF_A_TRANSACTION).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Counts transactions before which an earlier one has ended that comes later in the order, and
/// fails if both are of one session and the later one is not in mode `none`.
pub fn judge_order(history: &[Transaction], modes: &[Consistency]) -> Result<Found, String> {
    let mut counts = Found::new();
    let dated: Vec<(&Transaction, Consistency)> =
        history.iter().zip(modes.iter().copied()).collect();
    let before = |(it, _): &&(&Transaction, Consistency)| {
        it.status == Status::Ok && it.writes() && it.at.is_some()
    };
    let writers: Vec<_> = dated.iter().filter(before).collect();
    for (later, mode) in &dated {
        let Some(at) = later.at.filter(|_| later.status == Status::Ok) else { continue };
        let inverted = writers.iter().filter(|(it, _)| it.end < later.start && it.at > Some(at));
        let mut kinds = BTreeSet::new();
        for (earlier, _) in inverted {
            let own = earlier.client == later.client;
            if own && *mode > Consistency::None {
                return Err(format!(
                    "a session's own transactions change places: {earlier} and {later}"
                ));
            }
            kinds.insert(if own { OWN_ORDER } else { UNRELATED_ORDER });
        }
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_mvcc::{Key, Value as Bytes, Write};

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    fn writes(keys: &[(&str, i64)]) -> Vec<Write> {
        let write = |(key, number): &(&str, i64)| Write {
            key: Key::from(*key),
            value: Some(Bytes::from(number.to_be_bytes().to_vec())),
        };
        keys.iter().map(write).collect()
    }

    fn transaction(client: u64, period: (u64, u64), nanos: u64, ops: Vec<Op>) -> Transaction {
        let at = Some((nanos, 0, 0));
        Transaction { at, ..Transaction::new(client, period, Status::Ok, ops) }
    }

    fn wrote(key: &str, number: i64) -> Op {
        Op::Write(key.into(), Value::Number(number))
    }

    fn read(key: &str, number: i64) -> Op {
        let found = if number == 0 { Value::Nothing } else { Value::Number(number) };
        Op::Read(key.into(), found)
    }

    /// At 10 both keys are written, at 20 and 30 one each.
    fn reads(ops: Vec<Op>, start: u64) -> Result<Found, String> {
        let installed: Installed = [
            (at(10), writes(&[("ra", 1), ("rz", 2)])),
            (at(20), writes(&[("ra", 3)])),
            (at(30), writes(&[("rz", 4)])),
        ]
        .into();
        let history = [
            transaction(1, (5, 11), 10, vec![wrote("ra", 1), wrote("rz", 2)]),
            transaction(1, (15, 21), 20, vec![wrote("ra", 3)]),
            transaction(2, (25, 31), 30, vec![wrote("rz", 4)]),
        ];
        judge_reads(&[transaction(3, (start, start + 50), 0, ops)], &history, &installed)
    }

    #[test]
    fn reads_of_two_moments_are_counted_and_older_ones_are_wrong() {
        let kinds = |found: Result<Found, String>| found.map(|found| found.into_keys().collect());
        let nothing: Vec<&str> = Vec::new();
        assert_eq!(kinds(reads(vec![read("ra", 3), read("rz", 2)], 1)), Ok(nothing.clone()));
        assert_eq!(kinds(reads(vec![read("ra", 0), read("rz", 0)], 1)), Ok(nothing));
        // The later write without the earlier one.
        assert_eq!(kinds(reads(vec![read("ra", 1), read("rz", 4)], 1)), Ok(vec![TWO_MOMENTS]));
        let both = vec![PART_OF_A_TRANSACTION, TWO_MOMENTS];
        assert_eq!(kinds(reads(vec![read("ra", 0), read("rz", 2)], 1)), Ok(both.clone()));
        let (low, high) = ("r".to_owned(), "s".to_owned());
        let scan = Op::Scan(low, high, vec![("ra".into(), Value::Number(1))]);
        assert_eq!(kinds(reads(vec![scan], 1)), Ok(both));
        // What had been acknowledged is never missed, and what was never written never read.
        let stale = reads(vec![read("ra", 1), read("rz", 4)], 22).expect_err("older");
        assert!(stale.contains("ra was read as 1"), "{stale}");
        reads(vec![read("ra", 9)], 1).expect_err("no transaction wrote it");
    }

    #[test]
    fn an_order_against_real_time_is_counted_by_kind_or_wrong() {
        use Consistency::{CommitWait, Hybrid, None};
        let first = transaction(1, (1, 2), 40, vec![wrote("ra", 1)]);
        let writes = |client| transaction(client, (3, 4), 30, vec![wrote("rz", 2)]);
        let looks = |client| transaction(client, (3, 4), 30, vec![read("ra", 0)]);
        let kind = |later: Transaction, modes: [Consistency; 2]| {
            let found = judge_order(&[first.clone(), later], &modes)?;
            Ok::<_, String>(found.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(kind(writes(1), [None, None]), Ok(vec![OWN_ORDER]));
        assert_eq!(kind(looks(1), [Hybrid, None]), Ok(vec![OWN_ORDER]));
        assert_eq!(kind(writes(2), [Hybrid, Hybrid]), Ok(vec![UNRELATED_ORDER]));
        kind(writes(1), [Hybrid, CommitWait]).expect_err("it had the token");
        kind(looks(1), [None, Hybrid]).expect_err("it had the token");
        let behind = transaction(1, (3, 4), 50, vec![read("ra", 1)]);
        assert_eq!(kind(behind, [None, None]), Ok(Vec::new()));
    }
}
