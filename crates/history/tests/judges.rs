//! Tests of the judges: histories of engines with known guarantees, and histories that are wrong on
//! purpose.

mod common;

use common::{history, parse};
use meridian_history::cycles::{self, Model};
use meridian_history::search::{self, Limit, Order};
use meridian_history::{Op, Status, Transaction, Value, invariants, read, timestamps, write};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

fn judged(text: &str, model: Model) -> Result<(), String> {
    cycles::judge(&history(text), model).map_err(|violation| violation.to_string())
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        ("7 of x was read and no transaction wrote it", r#"1 2 ["r","x",[7]]"#),
        ("though its transaction failed", "!1 2 [\"append\",\"x\",7]\n3 4 [\"r\",\"x\",[7]]"),
        (
            "between two writes",
            "1 2 [\"append\",\"x\",1],[\"append\",\"x\",2]\n1 2 [\"r\",\"x\",[1]]\n3 4 [\"r\",\"x\",[1,2]]",
        ),
        (
            "was appended to x once and is there twice",
            "1 2 [\"append\",\"x\",1]\n1 2 [\"r\",\"x\",[1,1]]",
        ),
        (
            "contradict",
            "1 2 [\"append\",\"x\",1]\n1 2 [\"append\",\"x\",2]\n3 4 [\"r\",\"x\",[1]]\n3 4 [\"r\",\"x\",[2,1]]",
        ),
        (
            "changed within a transaction",
            "1 2 [\"append\",\"x\",1]\n1 4 [\"r\",\"x\",[]],[\"r\",\"x\",[1]]",
        ),
        ("changed within a transaction", "1 2 [\"append\",\"x\",1],[\"r\",\"x\",[]]"),
        ("had ended when", "1 2 [\"append\",\"x\",1]\n3 4 [\"r\",\"x\",[]]"),
        // Write skew: each reads what the other appends to.
        (
            "it read",
            "1 9 [\"r\",\"x\",[]],[\"append\",\"y\",1]\n1 9 [\"r\",\"y\",[]],[\"append\",\"x\",2]",
        ),
        (
            "7 of r was read and no transaction wrote it",
            r#"1 2 ["w","r",1]
3 4 ["r","r",7]"#,
        ),
        ("though its transaction failed", "!1 2 [\"w\",\"r\",7]\n3 4 [\"r\",\"r\",7]"),
        ("between two writes", "1 2 [\"w\",\"r\",1],[\"w\",\"r\",2]\n1 2 [\"r\",\"r\",1]"),
        ("changed within a transaction", "1 2 [\"w\",\"r\",1],[\"r\",\"r\",null]"),
        ("had ended when", "1 2 [\"w\",\"r\",1]\n3 4 [\"r\",\"r\",null]"),
        // Three transactions that read and write: the third did not see the second.
        (
            "it read r",
            "1 2 [\"w\",\"r\",1]\n3 9 [\"r\",\"r\",1],[\"w\",\"r\",2]\n3 9 [\"r\",\"r\",1],[\"w\",\"r\",3]",
        ),
        // A scan that misses a key reads it as empty.
        ("it read y", "1 2 [\"append\",\"y\",1]\n3 9 [\"scan\",\"a\",\"z\",[]]"),
    ];
    for (what, text) in cases {
        let found = judged(text, Model::StrictSerializable).expect_err(text);
        assert!(found.contains(what), "{text}: {found}");
    }
}

#[test]
fn each_model_forbids_what_it_forbids() {
    let skew = "1 9 [\"r\",\"x\",[]],[\"append\",\"y\",1]\n1 9 [\"r\",\"y\",[]],[\"append\",\"x\",2]\n10 11 [\"r\",\"x\",[2]],[\"r\",\"y\",[1]]";
    let stale = "1 2 [\"append\",\"x\",1]\n3 4 [\"r\",\"x\",[]]";
    let lost = "1 9 [\"r\",\"x\",[]],[\"append\",\"x\",1]\n1 9 [\"r\",\"x\",[]],[\"append\",\"x\",2]\n10 11 [\"r\",\"x\",[1,2]]";
    let circle =
        "1 9 [\"append\",\"x\",1],[\"r\",\"y\",[2]]\n1 9 [\"append\",\"y\",2],[\"r\",\"x\",[1]]";
    let register_skew = "1 2 [\"w\",\"a\",1],[\"w\",\"b\",2]\n3 9 [\"r\",\"a\",1],[\"r\",\"b\",2],[\"w\",\"a\",3]\n3 9 [\"r\",\"a\",1],[\"r\",\"b\",2],[\"w\",\"b\",4]";
    let register_stale =
        "1 2 [\"w\",\"a\",1]\n3 4 [\"r\",\"a\",1],[\"w\",\"a\",2]\n5 6 [\"r\",\"a\",1]";
    let register_lost = "1 9 [\"r\",\"a\",null],[\"w\",\"a\",1]\n1 9 [\"r\",\"a\",null],[\"w\",\"a\",2]\n10 11 [\"r\",\"a\",2]";
    let models = [
        Model::ReadCommitted,
        Model::SnapshotIsolation,
        Model::Serializable,
        Model::StrictSerializable,
    ];
    for (text, allowed) in [
        (skew, [true, true, false, false]),
        (stale, [true, true, true, false]),
        (lost, [true, false, false, false]),
        (circle, [false, false, false, false]),
        (register_skew, [true, true, false, false]),
        (register_stale, [true, true, true, false]),
        (register_lost, [true, false, false, false]),
    ] {
        let found = models.map(|model| judged(text, model).is_ok());
        assert_eq!(found, allowed, "{text}");
    }
}

/// Small histories, good and bad, with the search's verdict. It needs no timestamps, lists or
/// single writes.
#[test]
fn the_search_finds_an_order_or_says_that_there_is_none() {
    let search = |text: &str| search::judge(&history(text), Order::RealTime, Limit::default());
    let good = [
        // Overlapping transactions may come in any order.
        "1 9 [\"w\",\"x\",1]\n1 9 [\"w\",\"x\",2]\n10 11 [\"r\",\"x\",1]",
        "1 9 [\"w\",\"x\",1]\n2 3 [\"r\",\"x\",null]\n4 5 [\"r\",\"x\",1]",
        // The outcome is unknown: it happened before the second read and after the first, or never.
        "?1 2 [\"w\",\"x\",1]\n3 4 [\"r\",\"x\",null]\n5 6 [\"r\",\"x\",1]",
        "?1 2 [\"w\",\"x\",1]\n3 4 [\"r\",\"x\",null]\n5 6 [\"r\",\"x\",null]",
        // The same value twice.
        "1 2 [\"w\",\"x\",1]\n3 4 [\"w\",\"x\",2]\n5 6 [\"w\",\"x\",1]\n7 8 [\"r\",\"x\",1]",
        "1 2 [\"append\",\"l\",1]\n3 4 [\"scan\",\"a\",\"z\",[[\"l\",[1]]]]",
    ];
    let bad = [
        "1 2 [\"w\",\"x\",1]\n3 4 [\"r\",\"x\",null]", // stale read
        "1 9 [\"r\",\"x\",null],[\"w\",\"x\",1]\n1 9 [\"r\",\"x\",null],[\"w\",\"x\",2]", // lost update
        "1 9 [\"r\",\"x\",null],[\"w\",\"y\",1]\n1 9 [\"r\",\"y\",null],[\"w\",\"x\",2]", // write skew
        "1 9 [\"w\",\"x\",1],[\"w\",\"y\",1]\n1 9 [\"r\",\"x\",1],[\"r\",\"y\",null]", // fractured read
        "1 9 [\"w\",\"x\",1]\n1 9 [\"w\",\"y\",1]\n1 9 [\"r\",\"x\",1],[\"r\",\"y\",null]\n1 9 [\"r\",\"x\",null],[\"r\",\"y\",1]", // long fork
        "!1 2 [\"w\",\"x\",1]\n3 4 [\"r\",\"x\",1]", // a failed write is seen
        "?1 2 [\"w\",\"x\",1]\n3 4 [\"r\",\"x\",1]\n5 6 [\"r\",\"x\",null]", // unknown, seen, and gone
        "1 2 [\"append\",\"l\",1]\n3 4 [\"scan\",\"a\",\"z\",[]]",
    ];
    good.into_iter().for_each(|text| assert_eq!(search(text), Ok(()), "{text}"));
    for text in bad {
        let found = search(text).expect_err(text).to_string();
        assert!(found.contains("no order is possible"), "{found}");
    }
    // Both writers of 2 are possible; the search tries the wrong one first.
    let last = "[\"r\",\"l\",[2]]";
    let tried = "1 4 [\"w\",\"y\",2],[\"w\",\"l\",null]\n1 5 [\"w\",\"y\",1],[\"w\",\"y\",2]\n6 9 [\"r\",\"y\",2],[\"w\",\"y\",2]\n7 12 [\"w\",\"y\",1],[\"append\",\"l\",2]";
    let tried = history(&format!("{tried}\n8 14 {last},[\"r\",\"y\",2]"));
    let few = search::judge(&tried, Order::RealTime, Limit(0)).expect_err("no time");
    assert_eq!(few, search::Violation::GivenUp(0), "unknown is not good");
    let all = search::judge(&tried, Order::RealTime, Limit::default()).expect_err("no order");
    assert!(matches!(all, search::Violation::NoOrder { .. }), "{all}");
}

#[test]
fn workloads_keep_their_own_promises() {
    type Judge = fn(&[Transaction]) -> Result<(), invariants::Violation>;
    let bank: Judge = |history| invariants::bank(history, 2, 10);
    let counter: Judge = |history| invariants::counter(history, "n");
    let cases: [(Judge, &str, &str); 12] = [
        (
            bank,
            "",
            "1 2 [\"r\",\"a\",null],[\"r\",\"b\",null],[\"w\",\"a\",7],[\"w\",\"b\",13]\n3 4 [\"scan\",\"a\",\"c\",[[\"a\",7],[\"b\",13]]]",
        ),
        (
            bank,
            "hold 17",
            "1 2 [\"r\",\"a\",null],[\"w\",\"a\",7],[\"w\",\"b\",13]\n3 4 [\"scan\",\"a\",\"c\",[[\"a\",7]]]",
        ),
        (bank, "a is -1", "3 4 [\"scan\",\"a\",\"c\",[[\"a\",-1],[\"b\",21]]]"),
        (invariants::set, "", "1 2 [\"w\",\"a\",1]\n3 4 [\"scan\",\"a\",\"c\",[[\"a\",1]]]"),
        (invariants::set, "acknowledged", "1 2 [\"w\",\"a\",1]\n3 4 [\"scan\",\"a\",\"c\",[]]"),
        (invariants::set, "failed", "!1 2 [\"w\",\"a\",1]\n3 4 [\"scan\",\"a\",\"c\",[[\"a\",1]]]"),
        (
            counter,
            "",
            "1 2 [\"w\",\"n\",1]\n?1 2 [\"w\",\"n\",2]\n3 4 [\"r\",\"n\",1]\n5 6 [\"r\",\"n\",2]",
        ),
        (
            counter,
            "between 1 and 2",
            "1 2 [\"w\",\"n\",1]\n?1 2 [\"w\",\"n\",2]\n3 4 [\"r\",\"n\",null]",
        ),
        (invariants::monotonic, "greater", "1 2 [\"w\",\"a\",2]\n3 4 [\"w\",\"b\",1]"),
        (
            invariants::long_fork,
            "the other does not",
            "1 9 [\"r\",\"a\",1],[\"r\",\"b\",null]\n1 9 [\"r\",\"a\",null],[\"r\",\"b\",2]",
        ),
        (
            invariants::causal_reverse,
            "a is not",
            "1 2 [\"w\",\"a\",1]\n3 4 [\"w\",\"b\",2]\n1 9 [\"r\",\"a\",null],[\"r\",\"b\",2]",
        ),
        (
            invariants::causal_reverse,
            "",
            "1 3 [\"w\",\"a\",1]\n2 4 [\"w\",\"b\",2]\n1 9 [\"r\",\"a\",null],[\"r\",\"b\",2]",
        ),
    ];
    for (judge, wrong, text) in cases {
        match judge(&history(text)) {
            Ok(()) => assert_eq!(wrong, "", "{text}"),
            Err(found) => {
                assert!(!wrong.is_empty() && found.to_string().contains(wrong), "{text}: {found}")
            }
        }
    }
}

#[test]
fn an_undetermined_history_is_not_judged_wrong() {
    let unknown = "?1 2 [\"append\",\"x\",1]\n5 6 [\"r\",\"x\",[]]\n7 8 [\"r\",\"x\",[1]]\n?1 2 [\"append\",\"x\",9]";
    assert_eq!(judged(unknown, Model::StrictSerializable), Ok(()));
}

#[test]
fn lines_are_read_back_and_garbage_is_refused_with_its_line() {
    let text = r#"{"client":3,"start":1200,"end":1900,"status":"ok","at":[1500,0,1],"ops":[["r","x",4],["r","z",null],["append","y",7],["w","x",5],["scan","a","z",[["x",5],["y",[7]]]]]}"#;
    let history = parse(text);
    let mut out = Vec::new();
    write(&history, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().trim(), text);
    assert_eq!(history[0].ops[1], Op::Read("z".into(), Value::Nothing));
    let keyed = parse(r#"{"client":3,"start":1,"end":2,"status":"ok","ops":[["r",17,4]]}"#);
    assert_eq!(keyed[0].ops[0], Op::Read("17".into(), Value::Number(4)));
    for bad in [
        "{",
        "[]",
        r#"{"client":3,"start":9,"end":2,"status":"ok","ops":[]}"#,
        r#"{"client":3,"start":1,"end":2,"status":"maybe","ops":[]}"#,
        r#"{"client":3,"start":1,"end":2,"status":"ok","ops":[["x",1]]}"#,
        r#"{"client":3,"start":1,"end":2,"status":"ok","ops":[["r",{},1]]}"#,
        r#"{"client":-3,"start":1,"end":2,"status":"ok","ops":[]}"#,
        "\u{0}\u{1}",
    ] {
        let found = read(format!("\n{text}\n{bad}\n").as_bytes()).expect_err(bad).to_string();
        assert!(found.starts_with("line 3: "), "{bad}: {found}");
    }
}

/// The guarantee of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    /// Each transaction happens at a moment of its own.
    Serial,
    /// Read-only transactions may see an old state.
    Stale,
    /// Reads happen at the beginning, writes at the end, and the first committer wins.
    Snapshot,
    /// Every operation sees the newest committed state.
    Careless,
}

type State = BTreeMap<String, Vec<i64>>;

/// Makes a history of lists, with the order in which the engine made it.
fn run(engine: Engine, seed: u64, transactions: usize) -> Vec<Transaction> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut states: Vec<(u64, State)> = vec![(0, State::new())];
    let mut history = Vec::new();
    let mut element = 0;
    let mut plans: Vec<(u64, u64, Vec<(bool, String)>)> = (0..transactions)
        .map(|_| {
            let begin = rng.random_range(1..1_000u64) * 10;
            let reads_only = rng.random_bool(0.3);
            let op = |rng: &mut ChaCha8Rng| {
                (
                    !reads_only && rng.random_bool(0.4),
                    ["x", "y", "z"][rng.random_range(0..3)].to_owned(),
                )
            };
            (
                begin,
                begin + rng.random_range(1..400u64) * 10,
                (0..rng.random_range(1..5)).map(|_| op(&mut rng)).collect(),
            )
        })
        .collect();
    plans.sort_by_key(|(_, end, _)| *end);
    for (client, (begin, end, plan)) in plans.into_iter().enumerate() {
        // Commits come in the order of the ends; the state at a moment is that of the last commit
        // before.
        let newest = states.last().expect("one").1.clone();
        let at = |moment: u64| {
            states.iter().rev().find(|(at, _)| *at <= moment).expect("the first").1.clone()
        };
        let reads_only = plan.iter().all(|(append, _)| !append);
        let mut view = match engine {
            Engine::Serial | Engine::Careless => newest.clone(),
            Engine::Stale if reads_only => at(end.saturating_sub(rng.random_range(0..3_000))),
            Engine::Stale => newest.clone(),
            Engine::Snapshot => at(begin),
        };
        let (mut appended, mut ops) = (BTreeMap::<String, Vec<i64>>::new(), Vec::new());
        for (append, key) in plan {
            if append {
                element += 1;
                appended.entry(key.clone()).or_default().push(element);
                view.entry(key.clone()).or_default().push(element);
                ops.push(Op::Append(key, element));
            } else {
                if engine == Engine::Careless && !appended.contains_key(&key) {
                    let moment = rng.random_range(begin..=end);
                    view.insert(key.clone(), at(moment).remove(&key).unwrap_or_default());
                }
                let value = Value::List(view.get(&key).cloned().unwrap_or_default());
                ops.push(Op::Read(key, value));
            }
        }
        let changed = |key: &String| at(begin).get(key) != newest.get(key);
        let wins = engine != Engine::Snapshot || !appended.keys().any(changed);
        let mut next = newest;
        if wins && !appended.is_empty() {
            for (key, elements) in appended {
                next.entry(key).or_default().extend(elements);
            }
            let before = states.last().expect("one").0;
            states.push((end.max(before + 1), next));
        }
        let status = if wins { Status::Ok } else { Status::Fail };
        let stamp = (engine == Engine::Serial).then_some((client as u64 + 1, 0, 1));
        let observed = Transaction::new(client as u64, (begin, end + 9), status, ops);
        history.push(Transaction { at: stamp, ..observed });
    }
    history
}

#[test]
fn engines_keep_what_they_promise_and_no_more() {
    let models = [
        Model::ReadCommitted,
        Model::SnapshotIsolation,
        Model::Serializable,
        Model::StrictSerializable,
    ];
    for (engine, promise) in
        [(Engine::Serial, 4), (Engine::Stale, 3), (Engine::Snapshot, 2), (Engine::Careless, 0)]
    {
        let mut broken = [0; 4];
        for seed in 0..100 {
            let history = run(engine, seed, 60);
            for (place, model) in models.into_iter().enumerate() {
                match cycles::judge(&history, model) {
                    Ok(()) => {}
                    Err(why) if place < promise => {
                        panic!("{engine:?} {model:?} seed {seed}: {why}")
                    }
                    Err(_) => broken[place] += 1,
                }
            }
        }
        let more = broken.iter().skip(promise).copied().collect::<Vec<_>>();
        assert!(
            more.iter().skip(usize::from(promise == 0)).all(|broken| *broken > 20),
            "{engine:?}: {broken:?}"
        );
    }
}

/// Where the search finds an order there is no cycle; of engines without a guarantee both judges
/// say wrong.
#[test]
fn the_search_and_the_cycles_agree() {
    let mut wrong = 0;
    for engine in [Engine::Serial, Engine::Stale, Engine::Snapshot, Engine::Careless] {
        for seed in 0..50 {
            let history = run(engine, seed, 40);
            let by_search = search::judge(&history, Order::RealTime, Limit::default());
            assert!(!matches!(by_search, Err(search::Violation::GivenUp(_))), "{engine:?} {seed}");
            let by_cycles = cycles::judge(&history, Model::StrictSerializable);
            assert!(by_cycles.is_ok() || by_search.is_err(), "{engine:?} {seed}: {by_cycles:?}");
            assert!(engine != Engine::Serial || by_search.is_ok(), "{seed}: {by_search:?}");
            wrong += usize::from(by_search.is_err());
        }
    }
    assert!(wrong > 60, "{wrong}");
}

#[test]
fn the_exact_judge_finds_every_change_of_what_was_read() {
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let history = run(Engine::Serial, seed, 60);
        assert_eq!(timestamps::judge(&history), Ok(()), "seed {seed}");
        let reads = history
            .iter()
            .enumerate()
            .filter(|(_, seen)| seen.ops.iter().any(|op| matches!(op, Op::Read(..))));
        let reads: Vec<usize> = reads.map(|(at, _)| at).collect();
        let mut spoilt = history.clone();
        let victim = reads[rng.random_range(0..reads.len())];
        let read = spoilt[victim].ops.iter_mut().find_map(|op| match op {
            Op::Read(_, Value::List(list)) => Some(list),
            _ => None,
        });
        match read.expect("it reads") {
            list if list.is_empty() => list.push(1_000_000),
            list => drop(list.pop()),
        }
        assert!(
            matches!(timestamps::judge(&spoilt), Err(timestamps::Violation::Read { .. })),
            "seed {seed}"
        );
        // Swaps two transactions that did not overlap, the first of which wrote.
        let mut turned = history.clone();
        let apart = (0..turned.len()).find_map(|a| {
            (a + 1..turned.len())
                .find(|b| turned[a].writes() && turned[a].end < turned[*b].start)
                .map(|b| (a, b))
        });
        let (a, b) = apart.expect("some do not overlap");
        let (one, other) = (turned[a].at, turned[b].at);
        (turned[a].at, turned[b].at) = (other, one);
        assert!(timestamps::judge(&turned).is_err(), "seed {seed}");
        let mut missing = history;
        missing[a].at = None;
        assert!(
            matches!(timestamps::judge(&missing), Err(timestamps::Violation::NoTimestamp(_))),
            "seed {seed}"
        );
    }
}

/// Histories that are wrong only because of a causal token, for each judge that knows tokens.
#[test]
fn a_transaction_comes_after_those_whose_tokens_it_was_given() {
    let of = |lines: &[&str]| read(lines.join("\n").as_bytes()).expect("a history");
    let wrote = r#"{"client":1,"start":1,"end":2,"status":"ok","ops":[["w","x",1]]}"#;
    let missed =
        r#"{"client":2,"start":5,"end":6,"status":"ok","ops":[["r","x",null]],"follows":[[1,1]]}"#;
    let between =
        r#"{"client":3,"start":3,"end":4,"status":"ok","ops":[["r","y",null]],"follows":[[1,1]]}"#;
    let through =
        r#"{"client":2,"start":5,"end":6,"status":"ok","ops":[["r","x",null]],"follows":[[3,3]]}"#;
    let found =
        r#"{"client":2,"start":5,"end":6,"status":"ok","ops":[["r","x",1]],"follows":[[1,1]]}"#;
    let stranger = r#"{"client":2,"start":5,"end":6,"status":"ok","ops":[["r","x",null]]}"#;
    let limit = Limit::default;
    let judged = |lines: &[&str], model| meridian_history::judge(&of(lines), model, limit());
    for wrong in [&[wrote, missed][..], &[wrote, between, through]] {
        for model in [Model::Causal, Model::SnapshotIsolation] {
            let verdict = judged(wrong, model);
            assert!(
                matches!(&verdict, meridian_history::Verdict::Wrong { why, .. } if why.contains("token")),
                "{wrong:?}: {verdict:?}"
            );
        }
        let weaker = judged(wrong, Model::Serializable);
        assert!(matches!(weaker, meridian_history::Verdict::Right(_)), "{wrong:?}: {weaker:?}");
    }
    let external = wrote.replace("\"ops\"", "\"external\":true,\"ops\"");
    let missed = missed.replace("[[1,1]]", "[]");
    for model in [Model::Causal, Model::SnapshotIsolation] {
        let verdict = judged(&[&external, &missed], model);
        assert!(matches!(verdict, meridian_history::Verdict::Wrong { .. }), "{verdict:?}");
    }
    let is_older =
        |age_ns: u32| missed.replace("\"ops\"", &format!("\"snapshot_age_ns\":{age_ns},\"ops\""));
    for (age_ns, is_right) in [(2, false), (3, true)] {
        let cycle = cycles::judge(&of(&[&external, &is_older(age_ns)]), Model::SnapshotIsolation);
        assert_eq!(cycle.is_ok(), is_right, "{age_ns}: {cycle:?}");
    }
    // Real time alone obliges no transaction that was given no token.
    for right in [&[wrote, found][..], &[wrote, stranger]] {
        let verdict = judged(right, Model::Causal);
        assert!(matches!(verdict, meridian_history::Verdict::Right(_)), "{right:?}: {verdict:?}");
    }
    let dated =
        |at: u64, line: &str| line.replace("\"ops\"", &format!("\"at\":[{at},0,1],\"ops\""));
    let later =
        r#"{"client":2,"start":5,"end":6,"status":"ok","ops":[["w","y",2]],"follows":[[1,1]]}"#;
    let history = of(&[&dated(9, wrote), &dated(8, later)]);
    let why = timestamps::causal(&history).expect_err("its timestamp is below the token's");
    assert!(why.to_string().contains("comes earlier"), "{why}");
    assert_eq!(timestamps::replay(&history), Ok(()));
    assert_eq!(timestamps::causal(&of(&[&dated(9, wrote), &dated(10, later)])), Ok(()));
}
