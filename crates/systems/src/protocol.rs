//! The table of protocols: the facts about each that do not need an open database.
//!
//! Each protocol declares its row in its own folder. A node and the simulator have tables of their
//! own that say how they run it.

use crate::baselines::qwstore;
use crate::envelope::Kind;
use crate::setting::{CONSISTENCY, Setting, VERSION_RETENTION_PERIOD};
use crate::{clock_si, conventional_si, hybrid_time, k2, mvto, spanner, tapir};
use meridian_clock::TimestampPolicy;
use meridian_txn::{Consistency, IsolationLevel};

/// A protocol.
#[derive(Debug)]
pub struct Protocol {
    /// Its name: `CREATE DATABASE … PROTOCOL = name`.
    pub name: &'static str,
    /// The kind of its frames and records.
    pub kind: Kind,
    /// The isolation level of its transactions. `None` for a protocol without transactions, which
    /// SQL cannot use.
    pub isolation: Option<IsolationLevel>,
    /// The consistency modes that a transaction can choose, the default first.
    pub consistency: &'static [Consistency],
    /// The relation of its leaders' timestamps to time. `None` if its shards have no leaders.
    pub policy: Option<&'static dyn TimestampPolicy>,
    /// The settings of its databases, besides those of every database.
    pub own_settings: &'static [&'static Setting],
}

impl Protocol {
    /// The protocols of this version.
    pub const ALL: [&'static Protocol; 8] = [
        &spanner::PROTOCOL,
        &hybrid_time::PROTOCOL,
        &clock_si::PROTOCOL,
        &conventional_si::PROTOCOL,
        &k2::PROTOCOL,
        &tapir::STRICTLY_SERIALIZABLE,
        &tapir::SERIALIZABLE,
        &qwstore::PROTOCOL,
    ];

    /// The protocol of a database that is created without PROTOCOL.
    pub const DEFAULT: &'static Protocol = &spanner::PROTOCOL;

    /// The protocols that have transactions, which SQL can use.
    pub fn with_transactions() -> impl Iterator<Item = &'static Protocol> {
        Protocol::ALL.into_iter().filter(|protocol| protocol.has_transactions())
    }

    /// Finds a protocol by its name.
    pub fn named(name: &str) -> Option<&'static Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name == name)
    }

    /// True if a transaction that begins after another one was acknowledged comes after it in the
    /// serial order, in the default mode.
    pub fn has_real_time_order(&self) -> bool {
        self.consistency.first() == Some(&Consistency::CommitWait)
    }

    /// True if its transactions are ordered by timestamps that they draw when they begin. They can
    /// send their writes before they commit.
    pub fn draws_at_start(&self) -> bool {
        self.kind == mvto::KIND
    }

    /// True if its transactions read a snapshot, and are certified against it as they commit.
    pub fn certifies(&self) -> bool {
        self.isolation == Some(IsolationLevel::RepeatableRead) && self.has_leaders()
    }

    /// True if one timestamp authority chooses its snapshots and its commit timestamps.
    pub fn has_authority(&self) -> bool {
        self.policy.is_some_and(|policy| policy.asks_authority())
    }

    /// True if sessions have causal tokens: commits show before their timestamps have passed.
    pub fn has_tokens(&self) -> bool {
        self.consistency.contains(&Consistency::Hybrid)
    }

    /// True if a transaction has its timestamp from the start, and reads at it.
    pub fn orders_by_start(&self) -> bool {
        self.policy.is_some_and(|policy| policy.is_of_start())
    }

    /// True if its shards have leaders.
    pub fn has_leaders(&self) -> bool {
        self.policy.is_some()
    }

    /// True if its transactions are atomic and isolated.
    pub fn has_transactions(&self) -> bool {
        self.isolation.is_some()
    }

    /// Returns the setting of its databases with this name.
    pub fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    /// The settings of its databases, including those of every database.
    pub fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.own_settings.iter().copied().chain([&VERSION_RETENTION_PERIOD, &CONSISTENCY])
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Protocol) -> bool {
        self.name == other.name
    }
}

impl Eq for Protocol {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_protocols_have_one_name_and_kinds_are_no_service_of_nodes() {
        let names: BTreeSet<&str> = Protocol::ALL.iter().map(|protocol| protocol.name).collect();
        assert_eq!(names.len(), Protocol::ALL.len());
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::named(protocol.name), Some(protocol));
            // Rows that share their messages share their kind.
            let same = |other: &&&Protocol| other.kind == protocol.kind;
            let sharing = Protocol::ALL.iter().filter(same);
            assert!(sharing.clone().all(|other| other.has_leaders() == protocol.has_leaders()));
            assert!(!protocol.consistency.is_empty(), "{} has no default mode", protocol.name);
            assert!(![Kind::TRANSFER, Kind::TIME].contains(&protocol.kind), "{}", protocol.name);
            assert!(protocol.setting("Version_Retention_Period").is_some());
        }
        assert_eq!(Protocol::named("chubby"), None);
    }
}
