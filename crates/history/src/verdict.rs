//! The verdict on a history: right, wrong, or undecided.
//!
//! ```text
//!   cycles ──no──▶ timestamps ──no──▶ search ──no order, ──▶ versions ──no──▶ undecided
//!                                              or given up   in order
//!     │ yes          │ yes              │ an order  │ no order  │ yes
//!     ▼              ▼                  ▼           ▼           ▼
//!   wrong          wrong              right       wrong       right
//! ```
//!
//! 1. Right has a proof: an order that explains every read, or a place for every version.
//! 2. Wrong has a reason: a contradiction, or a search that left out nothing.
//! 3. Everything else is undecided: too little is known about the order of writes, and the history
//!    is too large for a search.
//!
//! Timestamps are a claim of the database: where all writers have one, the history must keep the
//! order of the timestamps, even if another order would explain it. Only the search decides
//! serializability and strict serializability. A serializable history also keeps the weaker models;
//! one that is not may still keep them.

use crate::cycles::{self, Model};
use crate::search::{self, Limit};
use crate::{Status, Transaction, timestamps};
use std::cmp::Ordering;
use std::fmt;

/// The verdict on a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It keeps what the model promises.
    Right(Proof),
    /// It does not keep it.
    Wrong {
        /// The reason.
        why: String,
        /// The transactions that contradict each other, or themselves.
        transactions: Vec<Transaction>,
    },
    /// The judges cannot decide, for this reason.
    Undecided(String),
}

/// The proof that a history is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A serial order explains every read.
    Order,
    /// The order of all versions is known, and there is no cycle in it.
    Versions,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Order => "an order of the transactions explains every read",
            Proof::Versions => "the order of the versions is known and has no forbidden cycle",
        })
    }
}

fn wrong(why: &impl ToString, transactions: Vec<&Transaction>) -> Verdict {
    Verdict::Wrong {
        why: why.to_string(),
        transactions: transactions.into_iter().cloned().collect(),
    }
}

/// Judges a history. The limit bounds the search.
pub fn judge(history: &[Transaction], model: Model, limit: Limit) -> Verdict {
    if let Err(why) = cycles::judge(history, model) {
        return wrong(&why, why.transactions());
    }
    let serial = matches!(model, Model::Serializable | Model::Causal | Model::StrictSerializable);
    if serial && is_timed(history) {
        let replay = match model {
            Model::StrictSerializable => timestamps::judge,
            Model::Causal => timestamps::causal,
            _ => timestamps::replay,
        };
        if let Err(why) = replay(history) {
            return wrong(&format!("by timestamps: {why}"), why.transactions());
        }
    }
    // An order of the weaker models is a serial one, too. Snapshots have what their tokens name.
    let asked = |transaction: &Transaction| !transaction.follows.is_empty() || transaction.external;
    let ordered = match model {
        Model::SnapshotIsolation if history.iter().any(asked) => Model::Causal,
        Model::SnapshotIsolation | Model::ReadCommitted => Model::Serializable,
        model => model,
    };
    match find_order(history, ordered, limit) {
        Ok(()) => Verdict::Right(Proof::Order),
        Err(Verdict::Wrong { .. }) if !serial && keeps_versions(history, model) => {
            Verdict::Right(Proof::Versions)
        }
        Err(Verdict::Undecided(_)) if !serial && keeps_versions(history, model) => {
            Verdict::Right(Proof::Versions)
        }
        Err(Verdict::Wrong { .. }) if !serial => Verdict::Undecided(
            "it is not serializable, and the order of its versions is not known".into(),
        ),
        Err(verdict) => verdict,
    }
}

/// True if each transaction that happened and wrote has a timestamp.
fn is_timed(history: &[Transaction]) -> bool {
    let wrote =
        |transaction: &&Transaction| transaction.status == Status::Ok && transaction.writes();
    history.iter().any(|transaction| transaction.at.is_some())
        && history.iter().filter(wrote).all(|transaction| transaction.at.is_some())
}

/// Searches for a serial order of each part of the history. Orders that respect real time are tried
/// first, also where any order would do: there are fewer, and most databases keep one.
fn find_order(history: &[Transaction], model: Model, limit: Limit) -> Result<(), Verdict> {
    if model == Model::Serializable && find_order(history, Model::StrictSerializable, limit).is_ok()
    {
        return Ok(());
    }
    let mut left = limit.0;
    let mut given_up = Ok(());
    // Tokens relate transactions that share no keys.
    let parts = match model {
        Model::Causal => vec![search::placed(history)],
        _ => search::parts(history),
    };
    for part in parts {
        let inferred =
            cycles::infer(&part, model).map_err(|why| wrong(&why, why.transactions()))?;
        match search::search(&part, &inferred.happened, &inferred.graph, &mut left) {
            Ok(()) => {}
            Err(Some(why)) => return Err(wrong(&why, why.transactions())),
            // Another part may still be wrong.
            Err(None) => {
                given_up = Err(Verdict::Undecided(search::Violation::GivenUp(limit.0).to_string()))
            }
        }
    }
    given_up
}

/// True if a weaker model is kept by versions in the order of timestamps or of ends.
fn keeps_versions(history: &[Transaction], model: Model) -> bool {
    let all: Vec<&Transaction> = history.iter().collect();
    let by_timestamp = |one: usize, other: usize| all[one].at.cmp(&all[other].at);
    let by_end = |one: usize, other: usize| all[one].end.cmp(&all[other].end);
    let orders: [&dyn Fn(usize, usize) -> Ordering; 2] = [&by_timestamp, &by_end];
    orders
        .into_iter()
        .any(|before| cycles::infer(&all, model).is_ok_and(|known| known.keeps_order(before)))
}
