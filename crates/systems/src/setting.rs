//! Settings that a database has in its row: `ALTER DATABASE … SET name = value`.
//!
//! A protocol declares which settings its databases take. A value is validated when it is set, and
//! kept in the row as text.

use crate::Protocol;
use meridian_clock::duration;
use meridian_machine::NodeId;
use meridian_placement::DatabaseRow;
use meridian_txn::{Consistency, SnapshotAge};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in SQL.
    pub name: &'static str,
    /// The allowed values.
    pub values: Values,
    /// A description of its values, with an example.
    pub hint: &'static str,
}

/// The values of a setting.
#[derive(Debug)]
pub enum Values {
    /// Durations.
    Durations {
        /// The allowed ones.
        possible: RangeInclusive<Duration>,
        /// The value of a database whose row has none. `None` if the node decides.
        default: Option<Duration>,
    },
    /// The consistency modes of the database's protocol, whose first is the default.
    Consistency,
    /// Nodes of the cluster. The default is none.
    Nodes,
    /// Others, which are text.
    Text {
        /// Returns a value in the form in which it is stored, or the reason of a refusal, as in
        /// «'5' is out of range».
        normalize: fn(&str) -> Result<String, &'static str>,
        /// The value of a database whose row has none.
        default: &'static str,
    },
}

/// Nodes that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// None.
    None,
    /// Every member of the cluster.
    All,
    /// These, each of them once.
    Listed(Vec<NodeId>),
}

impl Nodes {
    /// Parses `none`, `auto`, or the numbers of nodes. The error is the reason of a refusal.
    fn parse(value: &str) -> Result<Nodes, &'static str> {
        match value.trim() {
            value if value.eq_ignore_ascii_case("none") => return Ok(Nodes::None),
            value if value.eq_ignore_ascii_case("auto") => return Ok(Nodes::All),
            _ => {}
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        for number in value.split(',') {
            let number = number.trim().parse();
            let node = NodeId(number.map_err(|_| "is neither 'none' nor 'auto' nor nodes")?);
            if nodes.contains(&node) {
                return Err("names a node twice");
            }
            nodes.push(node);
        }
        Ok(Nodes::Listed(nodes))
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nodes::None => f.write_str("none"),
            Nodes::All => f.write_str("auto"),
            Nodes::Listed(nodes) => {
                let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
                f.write_str(&numbers.join(", "))
            }
        }
    }
}

/// The reason why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No database has such a value.
    Value(String),
    /// The database's protocol does not have it.
    Protocol(String),
}

/// How long superseded versions are kept, in a database of any protocol. The name is Cloud
/// Spanner's.
pub static VERSION_RETENTION_PERIOD: Setting = Setting {
    name: "version_retention_period",
    values: Values::Durations {
        possible: Duration::from_secs(1)..=Duration::from_secs(10 * 366 * 86_400),
        default: None,
    },
    hint: "Superseded versions are kept for 1s to 3660d: ALTER DATABASE lab SET version_retention_period = '1h'.",
};

/// The consistency mode of sessions that begin later, in a database of any protocol. Each session
/// can choose another one.
pub static CONSISTENCY: Setting = Setting {
    name: "meridian.consistency",
    values: Values::Consistency,
    hint: "It is 'none', 'hybrid' or 'commit_wait': ALTER DATABASE lab SET meridian.consistency = 'hybrid'.",
};

/// How much older than the present the snapshots of sessions are that begin later. Each session can
/// choose another age.
pub static SNAPSHOT_AGE: Setting = Setting {
    name: "meridian.snapshot_age",
    values: Values::Text {
        normalize: |value| {
            let age = SnapshotAge::parse(value).map(|age| age.to_string());
            age.ok_or("is neither a duration nor 'auto'")
        },
        default: "0",
    },
    hint: "It is 'auto' or a duration: ALTER DATABASE lab SET meridian.snapshot_age = '5ms'.",
};

impl Setting {
    /// Validates a value for a database of a protocol, and returns it in the form in which it is
    /// stored.
    pub fn validate(&self, protocol: &Protocol, value: &str) -> Result<String, Refused> {
        let refused = |why: String| Err(Refused::Value(format!("{}: '{value}' {why}", self.name)));
        match &self.values {
            Values::Durations { possible, .. } => match duration::parse(value) {
                None => refused("is no duration".into()),
                Some(time) if possible.contains(&time) => Ok(duration::show(time)),
                Some(_) => refused("is out of range".into()),
            },
            Values::Nodes => match Nodes::parse(value) {
                Err(why) => refused(why.into()),
                Ok(nodes) => Ok(nodes.to_string()),
            },
            Values::Text { normalize, .. } => {
                normalize(value).or_else(|why| refused(why.to_owned()))
            }
            Values::Consistency => match Consistency::named(value) {
                None => refused("is no consistency mode".into()),
                Some(mode) if protocol.consistency.contains(&mode) => Ok(mode.name().into()),
                Some(mode) => {
                    let modes = protocol.consistency.iter().map(|mode| format!("'{mode}'"));
                    let modes = modes.collect::<Vec<_>>().join(", ");
                    Err(Refused::Protocol(format!(
                        "protocol {} has no consistency mode '{mode}', only {modes}",
                        protocol.name
                    )))
                }
            },
        }
    }

    /// Returns the duration in a database's row, or the default.
    pub fn duration(&self, row: &DatabaseRow) -> Option<Duration> {
        let Values::Durations { default, .. } = &self.values else { return None };
        let said = row.settings.get(self.name).and_then(|value| duration::parse(value));
        said.or(*default)
    }

    /// Returns the nodes in a database's row, or none.
    pub fn nodes(&self, row: &DatabaseRow) -> Nodes {
        let said = row.settings.get(self.name).filter(|_| matches!(self.values, Values::Nodes));
        said.and_then(|value| Nodes::parse(value).ok()).unwrap_or(Nodes::None)
    }

    /// Returns the value for a database of a protocol as text: from its row, or the default. `None`
    /// if the node decides.
    pub fn text(&self, protocol: &Protocol, row: &DatabaseRow) -> Option<String> {
        match &self.values {
            Values::Durations { .. } => self.duration(row).map(duration::show),
            Values::Nodes => Some(self.nodes(row).to_string()),
            Values::Text { normalize, default } => {
                let said = row.settings.get(self.name).and_then(|value| normalize(value).ok());
                Some(said.unwrap_or_else(|| (*default).into()))
            }
            Values::Consistency => {
                let said = row.settings.get(self.name).and_then(|value| Consistency::named(value));
                let said = said.filter(|mode| protocol.consistency.contains(mode));
                let mode = said.or(protocol.consistency.first().copied());
                mode.map(|mode| mode.name().into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock_si, hybrid_time, k2, spanner};
    use meridian_machine::DatabaseId;

    #[test]
    fn a_duration_is_validated_and_reads_back() {
        let retention = &VERSION_RETENTION_PERIOD;
        let validate = |value| retention.validate(&spanner::PROTOCOL, value);
        assert_eq!(validate("3600 s").as_deref(), Ok("1h"));
        for (value, why) in
            [("soon", "is no duration"), ("1ms", "is out of range"), ("9999d", "is out of range")]
        {
            let refused = validate(value).expect_err(value);
            assert!(matches!(&refused, Refused::Value(said) if said.contains(why)), "{refused:?}");
        }
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(retention.duration(&row), None);
        row.settings.insert(retention.name.into(), "1h".into());
        assert_eq!(retention.duration(&row), Some(Duration::from_secs(3600)));
        assert_eq!(retention.text(&spanner::PROTOCOL, &row).as_deref(), Some("1h"));
    }

    #[test]
    fn an_age_of_snapshots_is_a_duration_or_auto() {
        let validate = |value| SNAPSHOT_AGE.validate(&clock_si::PROTOCOL, value);
        assert_eq!(validate("AUTO").as_deref(), Ok("auto"));
        assert_eq!(validate("5000us").as_deref(), Ok("5ms"));
        for value in ["-5ms", "old"] {
            assert!(matches!(validate(value), Err(Refused::Value(_))), "{value}");
        }
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(SNAPSHOT_AGE.text(&clock_si::PROTOCOL, &row).as_deref(), Some("0"));
        row.settings.insert(SNAPSHOT_AGE.name.into(), "auto".into());
        assert_eq!(SNAPSHOT_AGE.text(&clock_si::PROTOCOL, &row).as_deref(), Some("auto"));
        assert!(spanner::PROTOCOL.setting(SNAPSHOT_AGE.name).is_none());
    }

    #[test]
    fn nodes_are_named_by_number() {
        let setting = &k2::TIMESTAMP_ORACLES;
        let validate = |value| setting.validate(&k2::PROTOCOL, value);
        for (value, kept) in [("1,3", "1, 3"), (" AUTO ", "auto"), ("None", "none")] {
            assert_eq!(validate(value).as_deref(), Ok(kept));
        }
        for value in ["", "1,", "one", "-1", "1, 1", "1 2", "99999999999"] {
            assert!(matches!(validate(value), Err(Refused::Value(_))), "{value}");
        }
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(setting.nodes(&row), Nodes::None);
        row.settings.insert(setting.name.into(), "1, 3".into());
        assert_eq!(setting.nodes(&row), Nodes::Listed(vec![NodeId(1), NodeId(3)]));
        assert_eq!(setting.text(&k2::PROTOCOL, &row).as_deref(), Some("1, 3"));
    }

    #[test]
    fn a_mode_is_one_of_the_protocol_and_the_first_without_a_setting() {
        let (hybrid_time, spanner) = (&hybrid_time::PROTOCOL, &spanner::PROTOCOL);
        assert_eq!(CONSISTENCY.validate(hybrid_time, "NONE").as_deref(), Ok("none"));
        assert_eq!(CONSISTENCY.validate(spanner, "commit_wait").as_deref(), Ok("commit_wait"));
        let unknown = CONSISTENCY.validate(hybrid_time, "eventual");
        assert!(matches!(unknown, Err(Refused::Value(_))), "{unknown:?}");
        let lacking = CONSISTENCY.validate(spanner, "hybrid").expect_err("it lacks it");
        let why = "protocol spanner has no consistency mode 'hybrid', only 'commit_wait'";
        assert_eq!(lacking, Refused::Protocol(why.into()));
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(CONSISTENCY.text(hybrid_time, &row).as_deref(), Some("hybrid"));
        row.settings.insert(CONSISTENCY.name.into(), "none".into());
        assert_eq!(CONSISTENCY.text(hybrid_time, &row).as_deref(), Some("none"));
        assert_eq!(CONSISTENCY.text(spanner, &row).as_deref(), Some("commit_wait"));
        assert_eq!(CONSISTENCY.duration(&row), None);
    }
}
