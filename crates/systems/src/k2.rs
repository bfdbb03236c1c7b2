//! K2: transactions are ordered by timestamps that they draw when they begin.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval that contains true time, on the session's node |
//! | what orders conflicts | the transactions' timestamps (multi-version timestamp ordering) |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once its timestamp has surely passed, and its recorder has decided |
//!
//! ```text
//!   begin                ts ◀─ now.latest
//!   read at a leader     noted; waits for older undecided writers of the same keys
//!   a statement writes   intents ─▶ every log, while the transaction goes on
//!   commit               after all of them, and after(ts) ─▶ the recorder decides ─▶ answer
//!   alone, in one shard  after(ts) ─▶ one entry of the log ─▶ answer
//! ```
//!
//! The concurrency control is [`mvto`](crate::mvto), the policy [`AtStart`].
//!
//! A database may name oracles: nodes that know the time better than others do. Its coordinators
//! then draw timestamps from their answers, in batches or one by one (§4).
//!
//! **Not here yet.** Replicas in other regions do not answer reads (§6).

use crate::Protocol;
use crate::mvto::KIND;
use crate::setting::{Nodes, Setting, Values};
use meridian_clock::oracle::Terms;
use meridian_clock::{AtStart, Drift, duration};
use meridian_machine::NodeId;
use meridian_placement::DatabaseRow;
use meridian_txn::shards::Oracles;
use meridian_txn::{Consistency, IsolationLevel};
use std::time::Duration;

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "k2",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::CommitWait],
    policy: Some(&AtStart),
    own_settings: &[&TIMESTAMP_ORACLES, &TIMESTAMP_BATCH, &ORACLE_ERROR],
};

/// The nodes from which transactions draw their timestamps (§2.2).
pub static TIMESTAMP_ORACLES: Setting = Setting {
    name: "meridian.timestamp_oracles",
    values: Values::Nodes,
    hint: "It is 'none', 'auto' or nodes: ALTER DATABASE lab SET meridian.timestamp_oracles = '1, 2'.",
};

/// How long an oracle's answer gives timestamps to the transactions of a node (§4). `none` asks for
/// each timestamp by itself: the paper's strawman.
pub static TIMESTAMP_BATCH: Setting = Setting {
    name: "meridian.timestamp_batch",
    values: Values::Text { normalize: normalize_batch, default: "1ms" },
    hint: "It is 'none' or 10us to 1s: ALTER DATABASE lab SET meridian.timestamp_batch = '100us'.",
};

/// The uncertainty of its clock with which an oracle still answers: the paper's ε (§2.2). An oracle
/// that has lost some synchronizations withdraws thereby.
pub static ORACLE_ERROR: Setting = Setting {
    name: "meridian.oracle_error",
    values: Values::Durations {
        possible: Duration::from_micros(1)..=Duration::from_secs(1),
        default: Some(Duration::from_millis(10)),
    },
    hint: "Oracles know the time within 1us to 1s: ALTER DATABASE lab SET meridian.oracle_error = '100us'.",
};

/// The distance of timestamps in a batch, in nanoseconds: the paper's.
const STEP_NS: u64 = Terms::K2.step_ns;

fn normalize_batch(value: &str) -> Result<String, &'static str> {
    if value.trim().eq_ignore_ascii_case("none") {
        return Ok("none".into());
    }
    let ttl = duration::parse(value).ok_or("is neither a duration nor 'none'")?;
    let possible = Duration::from_micros(10)..=Duration::from_secs(1);
    possible.contains(&ttl).then(|| duration::show(ttl)).ok_or("is out of range")
}

/// Returns the oracles of a database for the coordinators of one node. They begin with their own
/// node if it is an oracle, and otherwise with different ones.
pub fn oracles(row: &DatabaseRow, here: NodeId, members: &[NodeId]) -> Option<Oracles> {
    let mut nodes = match TIMESTAMP_ORACLES.nodes(row) {
        Nodes::None => return None,
        Nodes::All => members.to_vec(),
        Nodes::Listed(nodes) => nodes,
    };
    let own = nodes.iter().position(|node| *node == here);
    let first = own.unwrap_or(here.0 as usize % nodes.len().max(1));
    nodes.rotate_left(first);
    let batch = TIMESTAMP_BATCH.text(&PROTOCOL, row).filter(|batch| batch != "none");
    let ttl = batch.as_deref().and_then(duration::parse);
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let terms = Terms {
        ttl_ns: ttl.map_or(0, nanos),
        half_width_ns: ORACLE_ERROR.duration(row).map_or(0, nanos),
        step_ns: STEP_NS,
        drift: Drift::WORST,
    };
    Some(Oracles { nodes, terms, batches: ttl.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Refused;
    use meridian_machine::DatabaseId;

    #[test]
    fn a_batch_has_a_length_or_there_is_none() {
        let validate = |value| TIMESTAMP_BATCH.validate(&PROTOCOL, value);
        assert_eq!(validate("100 us").as_deref(), Ok("100us"));
        assert_eq!(validate("NONE").as_deref(), Ok("none"));
        for value in ["0", "0ms", "5us", "2s", "-1ms", "long"] {
            assert!(matches!(validate(value), Err(Refused::Value(_))), "{value}");
        }
        let zero = ORACLE_ERROR.validate(&PROTOCOL, "0");
        assert!(matches!(zero, Err(Refused::Value(_))), "{zero:?}");
    }

    #[test]
    fn a_node_begins_with_itself_and_other_nodes_with_different_oracles() {
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        let members = [NodeId(1), NodeId(2), NodeId(3)];
        let of = |row: &DatabaseRow, here| oracles(row, NodeId(here), &members);
        assert!(of(&row, 1).is_none());
        let mut set = |setting: &Setting, value: &str| {
            row.settings.insert(setting.name.into(), value.into());
            row.clone()
        };
        let auto = of(&set(&TIMESTAMP_ORACLES, "auto"), 2).expect("it has oracles");
        assert_eq!(auto.nodes, [NodeId(2), NodeId(3), NodeId(1)]);
        assert_eq!((auto.terms.ttl_ns, auto.terms.half_width_ns), (1_000_000, 10_000_000));
        assert!(auto.batches);
        let two = set(&TIMESTAMP_ORACLES, "1, 2");
        assert_eq!(of(&two, 3).map(|two| two.nodes), Some(vec![NodeId(2), NodeId(1)]));
        assert_eq!(of(&two, 4).map(|two| two.nodes), Some(vec![NodeId(1), NodeId(2)]));
        let strawman = of(&set(&TIMESTAMP_BATCH, "none"), 1).expect("it has oracles");
        assert!(!strawman.batches);
    }
}
