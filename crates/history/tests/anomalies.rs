//! Anomalies as histories that are wrong, as registers and as lists, with right histories beside
//! them.

mod common;

use common::history;
use meridian_history::cycles::Model;
use meridian_history::search::Limit;
use meridian_history::{Verdict, judge};

const MODELS: [Model; 4] = [
    Model::ReadCommitted,
    Model::SnapshotIsolation,
    Model::Serializable,
    Model::StrictSerializable,
];

/// The expected verdict of each model: `+` right, `-` wrong, `?` undecided.
fn verdicts(text: &str) -> String {
    let history = history(text);
    let verdict = |model| match judge(&history, model, Limit::default()) {
        Verdict::Right(_) => '+',
        Verdict::Wrong { .. } => '-',
        Verdict::Undecided(_) => '?',
    };
    MODELS.map(verdict).into_iter().collect()
}

/// The name, the verdicts, and the history. `r x 1` reads a register, `l x 1,2` a list.
type Case = (&'static str, &'static str, &'static str);

/// Blind writes on top of first values, so that no read shows which came first.
const REGISTERS: &[Case] = &[
    // G0: two transactions write both keys, and each wins one of them.
    ("dirty write", "+---", "1 9 w x 1, w y 1\n1 9 w x 2, w y 2\n10 11 r x 1, r y 2"),
    ("no dirty write", "++++", "1 9 w x 1, w y 1\n1 9 w x 2, w y 2\n10 11 r x 2, r y 2"),
    // G1a.
    ("aborted read", "----", "!1 2 w x 1\n3 4 r x 1"),
    ("no aborted read", "++++", "!1 2 w x 1\n3 4 r x null"),
    // G1b.
    ("intermediate read", "----", "1 9 w x 1, w x 2\n1 9 r x 1"),
    ("no intermediate read", "++++", "1 9 w x 1, w x 2\n1 9 r x 2"),
    // G1c.
    ("circular information flow", "----", "1 9 w x 1, r y 2\n1 9 w y 2, r x 1"),
    ("information flows one way", "++++", "1 9 w x 1, r y null\n1 9 w y 2, r x 1"),
    ("own write read before it", "----", "1 9 r x 1, w x 1"),
    ("value of no writer", "----", "1 2 w x 1\n3 4 r x 5"),
    ("value of no writer, of a key without writers", "----", "3 4 r x 5"),
    // The read sees the second writer at one key and the first at the other.
    ("fractured read", "+---", "1 2 w x 1, w y 1\n3 9 w x 2, w y 2\n3 9 r x 2, r y 1"),
    ("whole read before", "++++", "1 2 w x 1, w y 1\n3 9 w x 2, w y 2\n3 9 r x 1, r y 1"),
    ("whole read after", "++++", "1 2 w x 1, w y 1\n3 9 w x 2, w y 2\n3 9 r x 2, r y 2"),
    ("lost update", "+---", "1 2 w x 1\n3 9 r x 1, w x 2\n3 9 r x 1, w x 3"),
    ("updates one after the other", "++++", "1 2 w x 1\n3 9 r x 1, w x 2\n3 9 r x 2, w x 3"),
    (
        "lost update by a blind write that was read before",
        "+---",
        "1 2 w x 1\n3 9 r x 1, w x 2, w y 2\n3 9 w x 3\n3 9 r x 3, r y null\n10 11 r x 2, r y 2, w z 1\n3 12 r z 1, r x 3",
    ),
    ("write skew", "++--", "1 2 w x 1, w y 1\n3 9 r x 1, r y 1, w x 2\n3 9 r x 1, r y 1, w y 3"),
    ("no write skew", "++++", "1 2 w x 1, w y 1\n3 9 r x 1, r y 1, w x 2\n3 9 r x 2, r y 1, w y 3"),
    (
        "long fork",
        "+---",
        "1 2 w x 1, w y 1\n3 9 w x 2\n3 9 w y 3\n3 9 r x 2, r y 1\n3 9 r x 1, r y 3",
    ),
    (
        "no fork",
        "++++",
        "1 2 w x 1, w y 1\n3 9 w x 2\n3 9 w y 3\n3 9 r x 2, r y 1\n3 9 r x 2, r y 3",
    ),
    ("stale read", "+++-", "1 2 w x 1\n3 4 w x 2\n5 6 r x 1"),
    ("stale read beside the write", "++++", "1 2 w x 1\n3 5 w x 2\n4 6 r x 1"),
    ("read goes back", "+++-", "1 2 w x 1\n3 9 w x 2\n4 5 r x 2\n6 7 r x 1"),
    ("read goes on", "++++", "1 2 w x 1\n3 9 w x 2\n4 5 r x 1\n6 7 r x 2"),
    // TAPIR's: the last read shows that the third write came after the second. What the third
    // transaction read shows that it came before the first, which had ended before the second
    // began.
    (
        "inversion of blind writes",
        "+++-",
        "10 20 w a 1\n30 40 w b 2\n5 60 r a null, w b 3\n70 80 r b 3",
    ),
    (
        "blind writes in order",
        "++++",
        "10 20 w a 1\n30 40 w b 2\n5 60 r a null, w b 3\n70 80 r b 2",
    ),
    (
        "inversion of three blind writes",
        "+++-",
        "10 20 w a 1\n30 40 w b 2\n50 60 w c 3\n5 90 r a null, w c 4, r b null\n95 99 r c 4",
    ),
    (
        "three blind writes in order",
        "++++",
        "10 20 w a 1\n30 40 w b 2\n50 60 w c 3\n5 90 r a null, w c 4, r b null\n95 99 r c 3",
    ),
    ("phantom", "++--", "1 9 scan a-z, w x 1\n1 9 scan a-z, w y 2"),
    ("no phantom", "++++", "1 9 scan a-z, w x 1\n1 9 scan a-z x=1, w y 2"),
    ("scan misses a row", "+++-", "1 2 w x 1\n3 4 scan a-z"),
    ("scan misses half of a transaction", "+---", "1 9 w x 1, w y 1\n1 9 scan a-z x=1"),
    ("scan shows a row of no writer", "----", "1 2 scan a-z x=1"),
    ("scan shows a row beside its range", "----", "1 2 w x 1\n3 4 scan a-c x=1"),
    ("scan shows a row twice", "----", "1 2 w x 1\n3 4 scan a-z x=1 x=1"),
    ("scan shows a deleted row", "+++-", "1 2 w x 1\n3 4 w x null\n5 6 scan a-z x=1"),
    ("scan shows no deleted row", "++++", "1 2 w x 1\n3 4 w x null\n5 6 scan a-z"),
    // Unknown outcomes.
    ("unknown, seen", "++++", "?1 2 w x 1, w y 1\n3 4 r x 1, r y 1"),
    ("unknown, not seen", "++++", "?1 2 w x 1, w y 1\n3 4 r x null, r y null"),
    ("unknown, seen later", "++++", "?1 2 w x 1, w y 1\n3 4 r x null\n5 6 r y 1"),
    ("unknown, half seen", "+---", "?1 2 w x 1, w y 1\n3 4 r x 1, r y null"),
    (
        "unknown, half seen over another",
        "+---",
        "1 2 w x 1, w y 1\n?3 4 w x 2, w y 2\n5 6 r x 2, r y 1",
    ),
    ("unknown, seen and gone", "+++-", "?1 2 w x 1\n3 4 r x 1\n5 6 r x null"),
    ("unknown, seen before it began", "+++-", "1 2 r x 1\n?3 4 w x 1"),
    ("unknown, what it read is not believed", "++++", "?1 2 r y 7, w x 1\n3 4 r x 1"),
    ("aborted, what it read is not believed", "++++", "!1 2 r y 7, w x 1\n3 4 r x null"),
    // Values that name no writer: a search decides.
    ("value of two writers, stale", "+++-", "1 2 w x 1\n3 4 w x 1\n5 6 w x 2\n7 8 r x 1"),
    ("value of two writers", "++++", "1 2 w x 1\n3 4 w x 2\n5 6 w x 1\n7 8 r x 1"),
];

const LISTS: &[Case] = &[
    ("dirty write", "----", "1 9 a x 1, a y 1\n1 9 a x 2, a y 2\n10 11 l x 2,1, l y 1,2"),
    ("no dirty write", "++++", "1 9 a x 1, a y 1\n1 9 a x 2, a y 2\n10 11 l x 2,1, l y 2,1"),
    ("aborted read", "----", "!1 2 a x 1\n3 4 l x 1"),
    ("no aborted read", "++++", "!1 2 a x 1\n3 4 l x"),
    ("intermediate read", "----", "1 9 a x 1, a x 2\n1 9 l x 1"),
    ("no intermediate read", "++++", "1 9 a x 1, a x 2\n1 9 l x 1,2"),
    ("circular information flow", "----", "1 9 a x 1, l y 2\n1 9 a y 2, l x 1"),
    ("information flows one way", "++++", "1 9 a x 1, l y\n1 9 a y 2, l x 1"),
    ("own append read before it", "----", "1 9 l x 1, a x 1"),
    ("element of no writer", "----", "3 4 l x 5"),
    ("fractured read", "+---", "1 2 a x 1, a y 1\n3 9 a x 2, a y 2\n3 9 l x 1,2, l y 1"),
    ("whole read", "++++", "1 2 a x 1, a y 1\n3 9 a x 2, a y 2\n3 9 l x 1,2, l y 1,2"),
    ("lost update", "+---", "1 2 a x 1\n3 9 l x 1, a x 2\n3 9 l x 1, a x 3\n10 11 l x 1,2,3"),
    (
        "lost update that no transaction read",
        "+---",
        "1 2 a x 1\n3 9 l x 1, a x 2\n3 9 l x 1, a x 3",
    ),
    ("updates one after the other", "++++", "1 2 a x 1\n3 9 l x 1, a x 2\n3 9 l x 1,2, a x 3"),
    ("append that is lost", "+++-", "1 2 a x 1\n3 4 a x 2\n5 6 l x 1"),
    ("append that is overwritten", "----", "1 2 a x 1\n3 4 a x 2\n5 6 l x 1\n7 8 l x 2"),
    ("write skew", "++--", "1 2 a x 1, a y 1\n3 9 l x 1, l y 1, a x 2\n3 9 l x 1, l y 1, a y 3"),
    (
        "no write skew",
        "++++",
        "1 2 a x 1, a y 1\n3 9 l x 1, l y 1, a x 2\n3 9 l x 1,2, l y 1, a y 3",
    ),
    ("long fork", "+---", "3 9 a x 2\n3 9 a y 3\n3 9 l x 2, l y\n3 9 l x, l y 3"),
    ("no fork", "++++", "3 9 a x 2\n3 9 a y 3\n3 9 l x 2, l y\n3 9 l x 2, l y 3"),
    ("stale read", "+++-", "1 2 a x 1\n3 4 a x 2\n5 6 l x 1"),
    ("stale read beside the append", "++++", "1 2 a x 1\n3 5 a x 2\n4 6 l x 1"),
    ("inversion of appends", "+++-", "10 20 a a 1\n30 40 a b 2\n5 60 l a, a b 3\n70 80 l b 2,3"),
    ("appends in order", "++++", "10 20 a a 1\n30 40 a b 2\n5 60 l a, a b 3\n70 80 l b 3,2"),
    ("phantom", "++--", "1 9 scan a-z, a x 1\n1 9 scan a-z, a y 2"),
    ("no phantom", "++++", "1 9 scan a-z, a x 1\n1 9 scan a-z x=[1], a y 2"),
    ("scan misses a row", "+++-", "1 2 a x 1\n3 4 scan a-z"),
    ("scan shows a row of no writer", "----", "1 2 scan a-z x=[1]"),
    ("unknown, seen", "++++", "?1 2 a x 1, a y 1\n3 4 l x 1, l y 1"),
    ("unknown, not seen", "++++", "?1 2 a x 1, a y 1\n3 4 l x, l y"),
    ("unknown, half seen", "+---", "?1 2 a x 1, a y 1\n3 4 l x 1, l y"),
    ("unknown, seen and gone", "+++-", "?1 2 a x 1\n3 4 l x 1\n5 6 l x"),
    ("unknown, seen before it began", "+++-", "1 2 l x 1\n?3 4 a x 1"),
    // A list that is also written as a whole: a search decides.
    ("deleted list", "++++", "1 2 a x 1\n3 4 w x null\n5 6 a x 2\n7 8 l x 2"),
    ("deleted list comes back", "+++-", "1 2 a x 1\n3 4 w x null\n5 6 a x 2\n7 8 l x 1,2"),
];

/// Converts `w x 1, r y null, a l 1, l l 1,2, scan a-z x=1` to the format.
fn long(text: &str) -> String {
    let op = |op: &str| {
        let parts: Vec<&str> = op.split_whitespace().collect();
        match parts[..] {
            ["scan", range, ref rows @ ..] => {
                let (low, high) = range.split_once('-').expect("a range");
                let rows: Vec<(&str, &str)> =
                    rows.iter().filter_map(|row| row.split_once('=')).collect();
                let rows: Vec<String> =
                    rows.iter().map(|(key, value)| format!("[\"{key}\",{value}]")).collect();
                format!("[\"scan\",\"{low}\",\"{high}\",[{}]]", rows.join(","))
            }
            ["l", key] => format!("[\"r\",\"{key}\",[]]"),
            ["l", key, list] => format!("[\"r\",\"{key}\",[{list}]]"),
            ["a", key, element] => format!("[\"append\",\"{key}\",{element}]"),
            [op, key, value] => format!("[\"{op}\",\"{key}\",{value}]"),
            _ => panic!("{op} is no operation"),
        }
    };
    let line = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (start, end, ops) =
            (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        format!("{start} {end} {}", ops.split(", ").map(op).collect::<Vec<_>>().join(","))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_anomaly_is_judged_by_each_model() {
    let mut wrong = Vec::new();
    for (kind, cases) in [("registers", REGISTERS), ("lists", LISTS)] {
        for (name, expected, text) in cases {
            let found = verdicts(&long(text));
            if found != *expected {
                let why = MODELS.map(|model| judge(&history(&long(text)), model, Limit::default()));
                wrong.push(format!("{name} of {kind}: {found}, not {expected}\n{text}\n{why:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
