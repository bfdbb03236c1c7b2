//! The order of a session's transactions: consistency modes and causal tokens (HybridTime §4).
//!
//! A session carries the greatest timestamp that it was told. Within the session that happens by
//! itself; to another client the application hands the token on as text:
//!
//! ```text
//! one client       SELECT meridian.causal_token()         18c2f5d0a1b2c3d4.0.3.9f8e7d6c
//! another client   SET meridian.causal_token = '…'
//! ```

use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::settings::{CONSISTENCY, SNAPSHOT_AGE};
use meridian_clock::{Timestamp, duration};
use meridian_txn::locking::MOST_TOKEN_AHEAD_NS;
use meridian_txn::{AgeParts, Consistency, Failure, IsolationLevel, SnapshotAge};
use std::time::Duration;

/// The name under which a session's token is set and shown.
pub(crate) const CAUSAL_TOKEN: &str = "meridian.causal_token";

/// The setting that says how long superseded versions are kept.
pub(crate) const RETENTION: &str = "version_retention_period";

/// The guarantees that a database gives to transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarantees {
    /// The isolation level.
    pub(crate) isolation: IsolationLevel,
    /// The consistency modes of its protocol, the default first.
    pub(crate) modes: &'static [Consistency],
    /// The mode that was chosen for the database (ALTER DATABASE … SET).
    pub(crate) chosen: Option<Consistency>,
    /// The ages of snapshots that its transactions can choose. None where they cannot.
    pub(crate) snapshot_ages: Option<SnapshotAges>,
}

/// The ages of snapshots of a database (Clock-SI §III-C).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotAges {
    /// The age that was chosen for the database.
    pub(crate) chosen: SnapshotAge,
    /// How long superseded versions are kept, if known: no snapshot can be older.
    pub(crate) longest: Option<Duration>,
}

/// Guarantees of no database, for constant expressions.
impl Default for Guarantees {
    fn default() -> Self {
        let modes = &[Consistency::CommitWait];
        Guarantees {
            isolation: IsolationLevel::default(),
            modes,
            chosen: None,
            snapshot_ages: None,
        }
    }
}

impl Guarantees {
    /// Returns the guarantees of a database to a session that begins now.
    pub(crate) fn of(engine: &Engine) -> Guarantees {
        let database = engine.database();
        let modes = database.consistency();
        let setting = |name: &str| engine.server_info()?.setting(engine.name(), name)?;
        let chosen = setting(CONSISTENCY).and_then(|value| Consistency::named(&value));
        let chosen = chosen.filter(|mode| modes.contains(mode));
        let snapshot_ages = database.snapshot_age().map(|_| SnapshotAges {
            chosen: setting(SNAPSHOT_AGE)
                .and_then(|value| SnapshotAge::parse(&value))
                .unwrap_or_default(),
            longest: setting(RETENTION).and_then(|value| duration::parse(&value)),
        });
        Guarantees { isolation: database.isolation(), modes, chosen, snapshot_ages }
    }

    /// The age of a snapshot that a transaction of the database reads if it asks for none.
    pub(crate) fn default_snapshot_age(self) -> SnapshotAge {
        self.snapshot_ages.map_or(SnapshotAge::PRESENT, |ages| ages.chosen)
    }

    /// Checks that transactions can have snapshots of this age.
    pub(crate) fn accept_snapshot_age(self, asked: SnapshotAge) -> Result<(), SqlError> {
        let Some(ages) = self.snapshot_ages else {
            if asked == SnapshotAge::PRESENT {
                return Ok(());
            }
            return Err(no_snapshot_ages());
        };
        check_age_is_kept(asked, ages.longest)
    }

    /// The mode of a transaction that asks for none.
    pub(crate) fn default_mode(self) -> Consistency {
        self.chosen.unwrap_or_else(|| self.of_protocol())
    }

    /// The mode of a transaction that asks for none, if none was chosen for the database.
    pub(crate) fn of_protocol(self) -> Consistency {
        self.modes.first().copied().unwrap_or(Consistency::CommitWait)
    }

    /// Returns the mode that a transaction gets. A weaker mode than the protocol has is given a
    /// stronger one; a stronger mode fails with 0A000.
    pub(crate) fn given(self, asked: Consistency) -> Result<Consistency, SqlError> {
        asked.given(self.modes).ok_or_else(|| {
            let strongest = self.modes.iter().max().copied().unwrap_or(Consistency::None);
            SqlError::unsupported(format!("consistency mode '{asked}' in this database"))
                .hint(format!("The strongest mode of this database's protocol is '{strongest}'."))
        })
    }
}

/// Returns the checksum of a token: it finds typing errors, and tokens of other databases.
fn checksum(database: &str, at: Timestamp) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(database.as_bytes());
    hash.update(&at.nanos.to_be_bytes());
    hash.update(&at.logical.to_be_bytes());
    hash.update(&at.issuer.to_be_bytes());
    hash.finalize()
}

/// Renders a causal token as text. Empty for a session that has seen nothing yet.
pub(crate) fn token_to_text(database: &str, token: Timestamp) -> String {
    if token == Timestamp::ZERO {
        return String::new();
    }
    let Timestamp { nanos, logical, issuer } = token;
    format!("{nanos:x}.{logical:x}.{issuer:x}.{:08x}", checksum(database, token))
}

/// Parses a causal token of a database. The empty text is the token of a session that has seen
/// nothing.
pub(crate) fn token_from_text(database: &str, text: &str) -> Result<Timestamp, SqlError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Timestamp::ZERO);
    }
    let parsed = || {
        let mut parts = text.split('.');
        let mut next = |most| {
            let part = parts.next().filter(|part| (1..=most).contains(&part.len()))?;
            u64::from_str_radix(part, 16).ok()
        };
        let nanos = next(16)?;
        let mut narrow = || next(8).and_then(|part| u32::try_from(part).ok());
        let (logical, issuer, sum) = (narrow()?, narrow()?, narrow()?);
        let token = Timestamp { nanos, logical, issuer };
        (parts.next().is_none() && sum == checksum(database, token)).then_some(token)
    };
    parsed().ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        SqlError::new(
            state::INVALID_PARAMETER,
            format!("\"{shown}\" is not a causal token of database \"{database}\""),
        )
        .hint("SELECT meridian.causal_token() in a session on this database returns one.")
    })
}

/// Refuses a token that cannot be true. A node that does not know the time cannot tell, and the
/// next transaction is refused instead.
pub(crate) fn check_token(facts: &Facts, token: Timestamp) -> Result<(), SqlError> {
    let known = facts.server_info().and_then(|server_info| server_info.interval());
    let Some((_, latest)) = known else { return Ok(()) };
    match token.nanos.saturating_sub(latest) {
        ahead_ns if ahead_ns > MOST_TOKEN_AHEAD_NS => Err(Failure::FarToken { ahead_ns }.into()),
        _ => Ok(()),
    }
}

/// Returns the rows of `SHOW meridian.consistency_cost`: each mode of the database, and the time in
/// milliseconds that a commit in that mode would wait for clocks now, on this node, beyond the time
/// that its replication takes. A node that does not know the time cannot tell.
pub(crate) fn costs(facts: &Facts) -> Vec<Vec<Datum>> {
    let known = facts.server_info().and_then(|server_info| server_info.interval());
    let wait_ns = known.map(|(earliest, latest)| latest - earliest);
    let row = |mode: &Consistency| {
        let wait = match mode {
            Consistency::CommitWait => wait_ns,
            Consistency::Hybrid | Consistency::None => Some(0),
        };
        let shown = wait.map(|ns| format!("{}.{:03}", ns / 1_000_000, ns % 1_000_000 / 1_000));
        vec![Datum::text(mode.name()), shown.map_or(Datum::Null, Datum::text)]
    };
    let mut modes = facts.guarantees.modes.to_vec();
    modes.sort_unstable();
    modes.iter().map(row).collect()
}

/// The error of a database whose transactions choose no ages of snapshots.
fn no_snapshot_ages() -> SqlError {
    SqlError::unsupported("older snapshots in this database").hint(
        "Its protocol reads the present: databases of protocol clock_si have older snapshots, and AS OF SYSTEM TIME reads the past in every database.",
    )
}

/// Refuses an age of snapshots at which superseded versions are kept no more, if that is known.
pub(crate) fn check_age_is_kept(
    asked: SnapshotAge,
    kept: Option<Duration>,
) -> Result<(), SqlError> {
    let (SnapshotAge::Fixed(age), Some(kept)) = (asked, kept) else { return Ok(()) };
    if age < kept {
        return Ok(());
    }
    let (age, kept) = (duration::show(age), duration::show(kept));
    let why =
        format!("a snapshot that is {age} old would be older than the versions that are kept");
    Err(SqlError::new(state::INVALID_PARAMETER, why).hint(format!(
        "Superseded versions are kept for {kept}: ALTER DATABASE … SET {RETENTION} changes that."
    )))
}

/// Returns the row of `SHOW meridian.snapshot_age_auto`: the age of a snapshot that `auto` stands
/// for now on this node, its parts in milliseconds, and the number of commits that were measured.
pub(crate) fn auto_age(engine: &Engine) -> Result<Vec<Vec<Datum>>, SqlError> {
    let shown = |time: Duration| {
        let us = time.as_micros();
        Datum::text(format!("{}.{:03}", us / 1_000, us % 1_000))
    };
    let row = |parts: AgeParts| {
        let times = [parts.age(), parts.commit_delay, parts.round_trip, parts.skew].map(shown);
        let commits = Datum::text(parts.commits.to_string());
        times.into_iter().chain([commits]).collect()
    };
    let parts = engine.database().snapshot_age().ok_or_else(no_snapshot_ages)?;
    Ok(vec![row(parts)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_database_and_reads_back() {
        let token = Timestamp { nanos: 1_795_000_000_123_456_789, logical: 7, issuer: 3 };
        let text = token_to_text("lab", token);
        assert_eq!(token_from_text("lab", &text).expect("its own"), token);
        assert_eq!(token_from_text("lab", "").expect("nothing seen"), Timestamp::ZERO);
        assert_eq!(token_to_text("lab", Timestamp::ZERO), "");
        let changed = text.replacen('1', "2", 1);
        let longer = format!("{text}.0");
        for garbled in [
            changed.as_str(),
            longer.as_str(),
            "x",
            "1.2.3",
            "ffffffffffffffffff.0.0.0",
            "1.100000000.0.0",
            "\u{1F600}",
            &"f".repeat(100_000),
        ] {
            let error = token_from_text("lab", garbled).expect_err(garbled);
            assert_eq!(error.sqlstate, state::INVALID_PARAMETER);
            assert!(error.message.len() < 300, "{}", error.message);
        }
        token_from_text("other", &text).expect_err("another database's");
    }

    #[test]
    fn a_node_that_does_not_know_the_time_names_no_cost_and_refuses_no_token() {
        let facts = Facts::default();
        assert_eq!(costs(&facts), [vec![Datum::text("commit_wait"), Datum::Null]]);
        check_token(&facts, Timestamp::MAX).expect("the next transaction is refused instead");
    }

    #[test]
    fn a_far_token_is_an_invalid_value_and_names_the_distance() {
        let error = SqlError::from(Failure::FarToken { ahead_ns: 2_000_000_001 });
        assert_eq!(error.sqlstate, state::INVALID_PARAMETER);
        assert!(error.message.contains("2001 ms ahead"), "{}", error.message);
    }
}
