//! Golden transcripts of the lock table.

#[path = "common/script.rs"]
mod script;

use meridian_mvcc::{Key, KeyRange};
use meridian_txn::locking::{LockTable, TransactionId, Verdict};
use meridian_txn::{Age, Conflict, Lock};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Default)]
struct World {
    table: LockTable,
    now_ns: u64,
    tickets: BTreeMap<u64, String>,
}

/// Parses the name of a transaction: `t3` is the third-oldest one.
fn name(word: &str) -> Result<u64, String> {
    word.strip_prefix('t')
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("{word} is not a transaction"))
}

fn id(number: u64) -> TransactionId {
    TransactionId { node: 1, incarnation: 1, number }
}

/// Parses a range: `a`, or `a..c`, or `a..`.
fn range(word: &str) -> KeyRange {
    match word.split_once("..") {
        None => KeyRange::point(Key::from(word)),
        Some((start, "")) => KeyRange { start: Key::from(start), end: None },
        Some((start, end)) => KeyRange { start: Key::from(start), end: Some(Key::from(end)) },
    }
}

fn shown(range: &KeyRange) -> String {
    let text = |key: &Key| String::from_utf8_lossy(key).into_owned();
    match (range.as_point(), &range.end) {
        (Some(key), _) => text(key),
        (None, None) => format!("{}..", text(&range.start)),
        (None, Some(end)) => format!("{}..{}", text(&range.start), text(end)),
    }
}

fn why(conflict: &Conflict) -> String {
    match conflict {
        Conflict::Wounded { by, key, .. } => {
            format!("wounded by t{} at {}", by.number, String::from_utf8_lossy(key))
        }
        other => other.to_string(),
    }
}

impl World {
    fn verdicts(&self, verdicts: &[Verdict]) -> String {
        let line = |verdict: &Verdict| match verdict {
            Verdict::Granted(ticket) => format!("granted: {}", self.tickets[ticket]),
            Verdict::Victim(who, None, conflict) => {
                format!("victim: t{}, {}", who.number, why(conflict))
            }
            Verdict::Victim(who, Some(ticket), conflict) => {
                format!(
                    "victim: t{} waiting for {}, {}",
                    who.number,
                    self.tickets[ticket],
                    why(conflict)
                )
            }
            Verdict::Marked(who, conflict) => format!("marked: t{}, {}", who.number, why(conflict)),
            Verdict::Wound(who, conflict) => {
                format!("its coordinator is told: t{}, {}", who.number, why(conflict))
            }
        };
        verdicts.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn step(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let verdicts = match words.as_slice() {
            ["acquire", who, what, mode @ ("shared" | "exclusive")] => {
                let number = name(who)?;
                let lock = if *mode == "shared" { Lock::Shared } else { Lock::Exclusive };
                let ticket = self.tickets.len() as u64 + 1;
                self.tickets.insert(ticket, format!("{who} {what} {mode}"));
                let age = Age { began_ns: number, node: 1, number };
                let verdicts =
                    self.table.acquire(self.now_ns, id(number), age, range(what), lock, ticket);
                let settled = verdicts.iter().any(|verdict| match verdict {
                    Verdict::Granted(_) => true,
                    Verdict::Victim(victim, ..) => *victim == id(number),
                    Verdict::Marked(..) | Verdict::Wound(..) => false,
                });
                let waits =
                    if settled { String::new() } else { format!("waits: {who} {what} {mode}\n") };
                return Ok(waits + &self.verdicts(&verdicts));
            }
            ["release", who] => self.table.release(id(name(who)?)),
            ["withdraw", who] => self.table.withdraw(id(name(who)?)),
            ["committing", who] => {
                self.table.committing(id(name(who)?));
                Vec::new()
            }
            ["prepared", who] => {
                let wounded = self.table.prepared(id(name(who)?));
                wounded
                    .into_iter()
                    .map(|conflict| Verdict::Wound(id(name(who).expect("just read")), conflict))
                    .collect()
            }
            ["touch", who] => {
                self.table.touch(self.now_ns, id(name(who)?));
                Vec::new()
            }
            ["pass", milliseconds] => {
                self.now_ns +=
                    milliseconds.parse::<u64>().map_err(|error| error.to_string())? * 1_000_000;
                self.table.idle_victims(self.now_ns)
            }
            ["waits"] => {
                let line = |waits: meridian_txn::locking::Waits| {
                    let blockers: Vec<String> =
                        waits.blockers.iter().map(|who| format!("t{}", who.number)).collect();
                    format!(
                        "t{} for {}, behind {}",
                        waits.waiter.number,
                        shown(&waits.range),
                        blockers.join(" ")
                    )
                };
                return Ok(self.table.waits().into_iter().map(line).collect::<Vec<_>>().join("\n"));
            }
            _ => return Err("there is no such command".into()),
        };
        Ok(self.verdicts(&verdicts))
    }
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    script::check(&folder, World::default, World::step);
}
