//! Compares the judge of cycles with an independent one (`adya`, after Elle), on correct and on
//! broken histories.

use adya::{History, Opts, Valid, check};
use meridian_history::cycles::{self, Model};
use meridian_history::{Op, Status, Transaction, Value};
use meridian_replication::rules as replication_rules;
use meridian_sim::{Defect, Faults, Options, Workload, protocols, run};
use meridian_txn::locking::rules as locking_rules;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Renders a history in Jepsen's format: an invocation and a completion per transaction. Each
/// transaction has a process of its own.
fn jepsen(history: &[Transaction]) -> String {
    let ops = |transaction: &Transaction, done: bool| {
        let op = |op: &Op| match op {
            Op::Read(key, _) if !done => format!("[\"r\",\"{key}\",null]"),
            Op::Read(key, Value::List(list)) => format!("[\"r\",\"{key}\",{list:?}]"),
            Op::Read(key, _) => format!("[\"r\",\"{key}\",[]]"),
            Op::Append(key, element) => format!("[\"append\",\"{key}\",{element}]"),
            other => panic!("only lists are supported: {other:?}"),
        };
        transaction.ops.iter().map(op).collect::<Vec<_>>().join(",")
    };
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    for (process, transaction) in history.iter().enumerate() {
        let (kind, done) = match transaction.status {
            Status::Ok => ("ok", true),
            Status::Fail => ("fail", false),
            Status::Info => ("info", false),
        };
        let line = |kind: &str, ops: String| {
            let mut line = String::new();
            let _ = write!(line, "{{\"type\":\"{kind}\",\"process\":{process},\"value\":[{ops}]}}");
            line
        };
        // A transaction that begins when another ends is concurrent with it.
        lines.push((transaction.start, 0, line("invoke", ops(transaction, false))));
        lines.push((transaction.end, 1, line(kind, ops(transaction, done))));
    }
    lines.sort();
    lines.into_iter().map(|(_, _, line)| line + "\n").collect()
}

/// Returns the verdicts of both judges: true for strictly serializable.
fn verdicts(options: Options) -> (bool, bool) {
    let report = run(options);
    let ours = cycles::judge(&report.history, Model::StrictSerializable).is_ok();
    let history = History::from_json(&jepsen(&report.history)).expect("the history parses");
    let strict = Opts { models: vec!["strict-serializable".into()], ..Opts::default() };
    let theirs = match check(&history, adya::Workload::ListAppend, &strict).valid {
        Valid::True => true,
        Valid::False => false,
        other => panic!("no verdict: {other:?}"),
    };
    (ours, theirs)
}

fn world(seed: u64) -> Options {
    Options { workload: Workload::ListAppend, ..Options::new(seed) }
}

#[test]
fn two_judges_agree_on_what_is_right() {
    for seed in 0..24 {
        assert_eq!(verdicts(world(seed)), (true, true), "seed {seed}");
    }
}

#[test]
fn two_judges_agree_on_what_is_wrong() {
    let defects = [
        Defect::Rule(locking_rules::SHARED_LOCKS_FREE),
        Defect::Rule(replication_rules::MAJORITY_OFF_BY_ONE),
        Defect::ReadOneBefore,
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::LeaseNotChecked,
    ];
    let (mut wrong, mut all) = (0, 0);
    for defect in defects {
        for seed in 0..8 {
            let faults = if defect == Defect::LeaseNotChecked {
                defect.faults(protocols::DEFAULT)
            } else {
                Faults::ALL
            };
            let spoilt = Options { defect: Some(defect), faults, ..world(seed) };
            // A world that is too broken to end yields no history.
            let Ok((ours, theirs)) = catch_unwind(AssertUnwindSafe(|| verdicts(spoilt))) else {
                continue;
            };
            assert_eq!(ours, theirs, "{} seed {seed}", defect.name());
            (wrong, all) = (wrong + usize::from(!ours), all + 1);
        }
    }
    println!("{wrong} of {all} histories were wrong, say both");
    assert!(wrong >= 12 && all - wrong >= 4, "{wrong} of {all}");
}
