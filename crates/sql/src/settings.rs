//! The settings of a session, for SET and SHOW.

use crate::consistency::Guarantees;
use crate::datetime::Zone;
use crate::error::{SqlError, state};
use crate::parse::AsOf;
use crate::setting_values::SettingValues;
use crate::trigram::Threshold;
use meridian_clock::duration;
use meridian_txn::{Consistency, IsolationLevel, SnapshotAge};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A session's settings. Names are in lower case.
#[derive(Clone)]
pub(crate) struct Settings {
    values: SettingValues,
    /// The values when the session began, to which RESET returns.
    initial: BTreeMap<String, String>,
    /// The guarantees of the database.
    guarantees: Guarantees,
    /// The zone that `TimeZone` names.
    zone: Zone,
    /// The changes by `set_config` in the running statement.
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A change of a setting by `set_config`.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) local: bool,
}

/// The settings of no session, for constant expressions.
impl Default for Settings {
    fn default() -> Self {
        Settings::of(Guarantees::default())
    }
}

/// The settings of sessions and their defaults, except the isolation level and the consistency
/// mode, whose defaults are the database's.
pub(crate) const DEFAULTS: [(&str, &str); 47] = [
    ("application_name", ""),
    ("array_nulls", "on"),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_read_only", "off"),
    ("default_with_oids", "off"),
    ("escape_string_warning", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "on"),
    ("jit", "off"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("max_prepared_transactions", "0"),
    ("meridian.negotiate_timestamps", "off"),
    ("meridian.pipelined_writes", "on"),
    ("meridian.read_only_staleness", "STRONG"),
    Threshold::Similarity.default_setting(),
    Threshold::StrictWordSimilarity.default_setting(),
    Threshold::WordSimilarity.default_setting(),
    ("quote_all_identifiers", "off"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("session_authorization", "root"),
    ("session_replication_role", "origin"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "off"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_timeout", "0"),
    ("xmloption", "content"),
];

/// PostgreSQL's settings that have no effect here, with the values that describe the existing
/// behaviour. Other values are rejected.
const DESCRIBED: [(&str, &[&str]); 23] = [
    ("array_nulls", &["on"]),
    ("bytea_output", &["hex"]),
    // There are no function bodies, and no row security: both values are true.
    ("check_function_bodies", &["on", "off"]),
    ("default_table_access_method", &["heap"]),
    ("default_tablespace", &[""]),
    ("default_transaction_deferrable", &["on", "off"]),
    ("default_with_oids", &["off"]),
    ("escape_string_warning", &["off"]),
    // The shortest digits that identify the number, as PostgreSQL prints for all of these.
    ("extra_float_digits", &["1", "2", "3"]),
    ("idle_session_timeout", &["0"]),
    ("intervalstyle", &["postgres"]),
    ("jit", &["off"]),
    ("quote_all_identifiers", &["off"]),
    ("row_security", &["on", "off"]),
    ("session_authorization", &["root"]),
    ("session_replication_role", &["origin"]),
    ("standard_conforming_strings", &["on"]),
    ("synchronize_seqscans", &["off"]),
    // Each commit is on the disks of a quorum, which is at least as strong as these values.
    ("synchronous_commit", &["on", "remote_apply", "remote_write", "local"]),
    ("client_encoding", &["utf8", "utf-8", "unicode"]),
    ("transaction_deferrable", &["on", "off"]),
    ("transaction_timeout", &["0"]),
    ("xmloption", &["content"]),
];

/// The isolation level that transactions ask for if their BEGIN does not say.
pub(crate) const DEFAULT_ISOLATION: &str = "default_transaction_isolation";

/// The isolation level that the transaction asks for.
pub(crate) const ISOLATION: &str = "transaction_isolation";

/// The isolation level of the database, at which every transaction runs.
pub(crate) const EFFECTIVE_ISOLATION: &str = "meridian.effective_isolation";

/// The settings that show an isolation level.
const OF_ISOLATION: [&str; 3] = [DEFAULT_ISOLATION, ISOLATION, EFFECTIVE_ISOLATION];

/// Returns the words of a list, without quotes.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|word| word.trim().trim_matches('"'))
}

/// Returns true if a value describes the existing behaviour, and the list of such values; `None`
/// for a setting that accepts other values.
fn describes(name: &str, folded: &str) -> Option<(bool, String)> {
    let listed = |values: &[&str]| {
        values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ")
    };
    match name {
        "datestyle" => {
            let is = words(folded)
                .flat_map(str::split_whitespace)
                .all(|word| matches!(word, "iso" | "mdy" | "us"));
            Some((is, "'ISO, MDY'".into()))
        }
        name => {
            let (_, values) = DESCRIBED.iter().find(|(other, _)| *other == name)?;
            let switched = switch(folded).map(|on| if on { "on" } else { "off" });
            let is =
                values.contains(&folded) || switched.is_some_and(|switch| values.contains(&switch));
            Some((is, listed(values)))
        }
    }
}

pub(crate) const FIXED: [&str; 10] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "max_index_keys",
    EFFECTIVE_ISOLATION,
    "max_prepared_transactions",
    "server_encoding",
    "server_version",
    "server_version_num",
];

/// The prefix of the names of Meridian's own settings.
const OWN: &str = "meridian.";
/// The prefix in earlier versions, which remains as an alias.
const OWN_BEFORE: &str = "spanner.";

/// Parses a boolean as PostgreSQL does.
fn switch(folded: &str) -> Option<bool> {
    match folded {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// The setting that chooses the consistency mode of the session's transactions.
pub(crate) const CONSISTENCY: &str = "meridian.consistency";

/// The setting of the time zone.
pub(crate) const TIME_ZONE: &str = "timezone";

/// The setting that chooses how much older than the present the session's snapshots are.
pub(crate) const SNAPSHOT_AGE: &str = "meridian.snapshot_age";

/// Returns the settings of a session and their values without any choice of the database or the
/// client, on a protocol with these guarantees.
fn defaults(guarantees: Guarantees) -> impl Iterator<Item = (&'static str, &'static str)> {
    DEFAULTS
        .into_iter()
        .chain(OF_ISOLATION.map(|name| (name, guarantees.isolation.name())))
        .chain([(CONSISTENCY, guarantees.of_protocol().name()), (SNAPSHOT_AGE, "0")])
}

/// Returns the name of a setting in lower case, without synonyms.
pub(crate) fn canonical(name: &str) -> String {
    let name = name.to_lowercase();
    match name.as_str() {
        "time_zone" => "timezone".into(),
        "transaction_isolation_level" => "transaction_isolation".into(),
        _ => match name.strip_prefix(OWN_BEFORE) {
            Some(own) => format!("{OWN}{own}"),
            None => name,
        },
    }
}

/// Returns the name of a setting as PostgreSQL shows it.
pub(crate) fn shown_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        TIME_ZONE => "TimeZone",
        name => name,
    }
}

/// True if sessions have a setting of this name.
pub(crate) fn is_of_sessions(name: &str) -> bool {
    let name = canonical(name);
    DEFAULTS
        .iter()
        .map(|(name, _)| *name)
        .chain(OF_ISOLATION)
        .chain([CONSISTENCY, SNAPSHOT_AGE])
        .any(|of_sessions| of_sessions == name)
}

/// A setting as `pg_settings` describes it.
pub(crate) struct Described<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    /// The value without any choice of the database or the client.
    pub(crate) by_default: &'a str,
    /// The value after RESET.
    pub(crate) initial: &'a str,
    /// The origin of the value.
    pub(crate) source: &'static str,
}

impl Settings {
    /// Creates the settings of a new session on a database with these guarantees.
    pub(crate) fn of(guarantees: Guarantees) -> Self {
        let mut initial: BTreeMap<String, String> =
            defaults(guarantees).map(|(name, value)| (name.into(), value.into())).collect();
        initial.insert(CONSISTENCY.into(), guarantees.default_mode().name().into());
        initial.insert(SNAPSHOT_AGE.into(), guarantees.default_snapshot_age().to_string());
        let values = SettingValues::new(initial.clone());
        Settings { values, initial, guarantees, zone: Zone::default(), asked: Arc::default() }
    }

    /// Accepts the database's isolation level or a weaker one; fails with 0A000 for a stronger one.
    pub(crate) fn accept_isolation(&self, asked: IsolationLevel) -> Result<(), SqlError> {
        let given = self.guarantees.isolation;
        if asked <= given {
            return Ok(());
        }
        let (given, asked) = (given, asked.name().to_uppercase());
        Err(SqlError::unsupported(format!("isolation level {asked} in this database")).hint(
            format!("The protocol of this database gives its transactions the level {given}."),
        ))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&canonical(name))
    }

    /// Returns a setting that is a duration; `None` if it is 0.
    pub(crate) fn timeout(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(duration::parse).filter(|timeout| !timeout.is_zero())
    }

    /// Returns the consistency mode of the session's transactions.
    pub(crate) fn consistency(&self) -> Consistency {
        let set = self.get(CONSISTENCY).and_then(Consistency::named);
        set.unwrap_or_else(|| self.guarantees.default_mode())
    }

    /// Returns how much older than the present the session's snapshots are.
    pub(crate) fn snapshot_age(&self) -> SnapshotAge {
        self.get(SNAPSHOT_AGE).and_then(SnapshotAge::parse).unwrap_or_default()
    }

    /// True if a boolean setting is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// Returns the state that read-only transactions read; `None` for the present.
    pub(crate) fn staleness(&self) -> Option<AsOf> {
        AsOf::of_setting(self.get("meridian.read_only_staleness")?).flatten()
    }

    /// Sets a setting when the session begins: RESET returns to this value.
    pub(crate) fn begin_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.set(name, value, false)?;
        self.commit();
        let name = canonical(name);
        self.initial.extend(self.values.get(&name).map(|value| (name.clone(), value.to_owned())));
        Ok(())
    }

    /// Notes that a setting changes once the running statement has succeeded (`set_config`), to its
    /// default for `None`. Returns its value then; fails as SET does.
    pub(crate) fn ask(
        &self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<String, SqlError> {
        if canonical(name).starts_with(OWN) {
            let what = format!("set_config of {name}");
            return Err(SqlError::unsupported(what).hint("SET changes it."));
        }
        if value.is_some_and(|value| value.eq_ignore_ascii_case("default")) {
            let what = format!("set_config of {name} to the text 'default'");
            return Err(SqlError::unsupported(what).hint("NULL stands for the default."));
        }
        let value = value.unwrap_or("default");
        let is_level = canonical(name) == ISOLATION;
        let mut after = self.clone();
        after.set(name, value, local)?;
        let now = after.get(name).unwrap_or_default().to_owned();
        if is_level && self.get(name) != Some(now.as_str()) {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
        }
        self.asked().push(Asked { name: name.into(), value: value.into(), local });
        Ok(now)
    }

    /// Returns the changes that [`ask`](Self::ask) has noted, in order, and forgets them.
    pub(crate) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked())
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a setting, until the end of the transaction if it is `local`.
    pub(crate) fn set(&mut self, name: &str, value: &str, local: bool) -> Result<(), SqlError> {
        let name = canonical(name);
        let value = self.accept(&name, value)?;
        self.values.set(&name, Some(value), local);
        self.settle();
        Ok(())
    }

    /// Finds the zone again if its name has changed. Must be called after every change of values.
    fn settle(&mut self) {
        let name = self.values.get(TIME_ZONE).unwrap_or_default();
        if name != self.zone.name() {
            self.zone = Zone::named(name).unwrap_or_default();
        }
    }

    /// Returns the time zone of the session.
    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Checks a value, and returns it as SHOW prints it.
    fn accept(&self, name: &str, value: &str) -> Result<String, SqlError> {
        let refused = |hint: &str| {
            Err(SqlError::new(
                state::INVALID_PARAMETER,
                format!("invalid value for parameter \"{name}\": \"{value}\""),
            )
            .hint(hint))
        };
        if FIXED.contains(&name) {
            return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed")));
        }
        let folded = value.to_lowercase();
        match name {
            // A boolean setting that has an effect.
            "default_transaction_read_only" if folded != "default" => {
                let Some(on) = switch(&folded) else { return refused("It is on or off.") };
                return Ok(if on { "on" } else { "off" }.into());
            }
            "meridian.read_only_staleness"
                if folded != "default" && AsOf::of_setting(value).is_none() =>
            {
                return refused(
                    "It is STRONG, MAX_STALENESS 10s, EXACT_STALENESS 10s, MIN_READ_TIMESTAMP or READ_TIMESTAMP and a time.",
                );
            }
            "meridian.negotiate_timestamps" | "meridian.pipelined_writes"
                if folded != "default" =>
            {
                let Some(on) = switch(&folded) else { return refused("It is on or off.") };
                return Ok(if on { "on" } else { "off" }.into());
            }
            CONSISTENCY if folded != "default" => {
                let Some(asked) = Consistency::named(&folded) else {
                    return refused("It is 'none', 'hybrid' or 'commit_wait'.");
                };
                return Ok(self.guarantees.given(asked)?.name().into());
            }
            TIME_ZONE if folded != "default" => {
                return Ok(Zone::of_setting(value)?.name().to_owned());
            }
            SNAPSHOT_AGE if folded != "default" => {
                let Some(asked) = SnapshotAge::parse(value) else {
                    return refused("It is a duration such as '5ms', or 'auto'.");
                };
                self.guarantees.accept_snapshot_age(asked)?;
                return Ok(asked.to_string());
            }
            name if folded != "default" && name.starts_with(Threshold::PREFIX) => {
                return Ok(Threshold::of_setting(name)?.parse(value)?.to_string());
            }
            ISOLATION if folded == "default" => {
                return Ok(self.get(DEFAULT_ISOLATION).unwrap_or_default().to_owned());
            }
            ISOLATION | DEFAULT_ISOLATION if folded != "default" => {
                let Some(asked) = IsolationLevel::named(&folded) else {
                    return refused(
                        "Available values: serializable, repeatable read, read committed, read uncommitted.",
                    );
                };
                self.accept_isolation(asked)?;
                return Ok(asked.name().to_owned());
            }
            _ => {}
        }
        if folded != "default"
            && let Some((false, values)) = describes(name, &folded)
        {
            return Err(SqlError::unsupported(format!("setting \"{name}\" to '{value}'"))
                .hint(format!("What holds here, and may be set, is {values}.")));
        }
        if name.starts_with(OWN) && self.values.get(name).is_none() {
            let own = DEFAULTS.iter().map(|(name, _)| *name).filter(|name| name.starts_with(OWN));
            let own = own.chain([CONSISTENCY, SNAPSHOT_AGE, super::consistency::CAUSAL_TOKEN]);
            return Err(SqlError::new(
                "42602",
                format!("invalid configuration parameter name \"{name}\""),
            )
            .hint(format!("There are {}.", own.collect::<Vec<_>>().join(", "))));
        }
        if self.values.get(name).is_none() && !name.contains('.') {
            // Unknown settings of PostgreSQL would have no effect here; a misspelt one must not
            // appear accepted.
            return Err(SqlError::new(
                state::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter \"{name}\""),
            ));
        }
        let initial = self.initial.get(name).map(String::as_str);
        let value = if folded == "default" { initial.unwrap_or("") } else { value };
        let is_duration = initial.is_some() && name.ends_with("_timeout");
        let shown = match is_duration.then(|| duration::parse(value)) {
            None => value.to_owned(),
            Some(Some(time)) => duration::show(time),
            Some(None) => {
                return refused(
                    "Valid units are \"us\", \"ms\", \"s\", \"min\", \"h\" and \"d\"; without one, milliseconds.",
                );
            }
        };
        Ok(shown)
    }

    /// Resets a setting, or all, to the value when the session began.
    pub(crate) fn reset(&mut self, name: Option<&str>) {
        let all = || self.values.iter().map(|(name, _)| name.to_owned()).collect();
        let names = name.map_or_else(all, |name| vec![canonical(name)]);
        let names = names.into_iter().filter(|other| name.is_some() || other != ISOLATION);
        for name in names {
            let initial = self.initial.get(&name);
            if self.values.get(&name) != initial.map(String::as_str) {
                let initial = initial.cloned();
                self.values.set(&name, initial, false);
            }
        }
        self.settle();
    }

    /// Begins a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str) {
        self.values.savepoint(name);
    }

    /// Removes a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) {
        self.values.release(name);
    }

    /// Undoes what was set since a savepoint.
    pub(crate) fn roll_back_to(&mut self, name: &str) {
        self.values.roll_back_to(name);
        self.settle();
    }

    /// Ends a transaction that committed: undoes SET LOCAL. Returns true if a setting was changed.
    pub(crate) fn commit(&mut self) -> bool {
        let changed = self.values.commit();
        self.end(changed)
    }

    /// Ends a transaction that did not commit: undoes SET, too. Returns true if a setting was
    /// changed.
    pub(crate) fn roll_back(&mut self) -> bool {
        let changed = self.values.roll_back();
        self.end(changed)
    }

    /// After a transaction that has changed settings, gives the next one its isolation level.
    fn end(&mut self, changed: bool) -> bool {
        if changed {
            let next = self.values.get(DEFAULT_ISOLATION).unwrap_or_default().to_owned();
            self.values.begin_with(ISOLATION, next);
            self.settle();
        }
        changed
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter()
    }

    /// Returns the settings that exist in every session, as `pg_settings` describes them.
    pub(crate) fn described(&self) -> impl Iterator<Item = Described<'_>> {
        defaults(self.guarantees).map(move |(name, by_default)| {
            let value = self.values.get(name).unwrap_or(by_default);
            let initial = self.initial.get(name).map_or(by_default, String::as_str);
            let of_database = match name {
                CONSISTENCY => initial == self.guarantees.default_mode().name(),
                SNAPSHOT_AGE => initial == self.guarantees.default_snapshot_age().to_string(),
                _ => false,
            };
            let source = match () {
                () if value != initial => "session",
                () if value == by_default => "default",
                () if of_database => "database",
                () => "client",
            };
            Described { name, value, by_default, initial, source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::SnapshotAges;

    fn guarantees(isolation: IsolationLevel) -> Guarantees {
        Guarantees {
            isolation,
            modes: &[Consistency::Hybrid, Consistency::None],
            chosen: None,
            snapshot_ages: None,
        }
    }

    #[test]
    fn a_mode_is_given_or_a_stronger_one_and_none_that_the_protocol_lacks() {
        let mut settings = Settings::of(guarantees(IsolationLevel::Serializable));
        assert_eq!(settings.get(CONSISTENCY), Some("hybrid"));
        settings.set(CONSISTENCY, "NONE", false).expect("it has it");
        assert_eq!(settings.consistency(), Consistency::None);
        settings.reset(Some(CONSISTENCY));
        assert_eq!(settings.consistency(), Consistency::Hybrid);
        let stronger = settings.set(CONSISTENCY, "commit_wait", false).expect_err("it lacks it");
        assert_eq!(stronger.sqlstate, state::FEATURE_NOT_SUPPORTED);
        let unknown = settings.set(CONSISTENCY, "eventual", false).expect_err("no mode");
        assert_eq!(unknown.sqlstate, state::INVALID_PARAMETER);
        let spanner = Guarantees {
            modes: &[Consistency::CommitWait],
            ..guarantees(IsolationLevel::Serializable)
        };
        let mut settings = Settings::of(spanner);
        settings.set(CONSISTENCY, "hybrid", false).expect("a weaker one is given more");
        assert_eq!(settings.get(CONSISTENCY), Some("commit_wait"));
    }

    #[test]
    fn an_age_of_snapshots_is_below_what_is_kept_and_of_a_database_that_has_them() {
        let (serializable, longest) =
            (guarantees(IsolationLevel::Serializable), Some(Duration::from_secs(3_600)));
        let ages = SnapshotAges { chosen: SnapshotAge::Auto, longest };
        let mut settings = Settings::of(Guarantees { snapshot_ages: Some(ages), ..serializable });
        assert_eq!(settings.get(SNAPSHOT_AGE), Some("auto"), "the database's");
        settings.set(SNAPSHOT_AGE, "5000us", false).expect("a duration");
        assert_eq!(settings.snapshot_age(), SnapshotAge::Fixed(Duration::from_millis(5)));
        for (value, why) in [("-5ms", "invalid value"), ("1h", "older than the versions")] {
            let refused = settings.set(SNAPSHOT_AGE, value, false).expect_err(value);
            assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
            assert!(refused.message.contains(why), "{}", refused.message);
        }
        settings.reset(Some(SNAPSHOT_AGE));
        assert_eq!(settings.snapshot_age(), SnapshotAge::Auto);
        let mut without = Settings::of(serializable);
        without.set(SNAPSHOT_AGE, "0", false).expect("it reads the present");
        let refused = without.set(SNAPSHOT_AGE, "auto", false).expect_err("it reads the present");
        assert_eq!(refused.sqlstate, state::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn the_zone_follows_its_name_through_transactions() {
        let mut settings = Settings::of(guarantees(IsolationLevel::Serializable));
        let now = |settings: &Settings| {
            let shown = settings.get(TIME_ZONE).map(str::to_owned);
            assert_eq!(shown.as_deref(), Some(settings.zone().name()));
            shown.unwrap_or_default()
        };
        settings.begin_with("TimeZone", "europe/PARIS").expect("a zone");
        settings.set("timezone", "est5edt", false).expect("a zone");
        settings.commit();
        assert_eq!(now(&settings), "EST5EDT");
        settings.savepoint("s");
        settings.set("timezone", "-7", true).expect("an offset");
        assert_eq!(now(&settings), "<-07>+07");
        settings.roll_back_to("s");
        assert_eq!(now(&settings), "EST5EDT");
        settings.set("timezone", "+5.5", true).expect("an offset");
        assert_eq!(now(&settings), "<+05:30>-05:30");
        settings.commit();
        assert_eq!(now(&settings), "EST5EDT");
        settings.set("timezone", "utc", false).expect("a zone");
        settings.roll_back();
        assert_eq!(now(&settings), "EST5EDT");
        settings.reset(Some("timezone"));
        assert_eq!(now(&settings), "Europe/Paris");
        for wrong in ["nowhere", "", "200", "inf", "nan", "x".repeat(1000).as_str()] {
            let refused = settings.set("timezone", wrong, false).expect_err(wrong);
            assert_eq!(refused.sqlstate, state::INVALID_PARAMETER, "{wrong}");
        }
        assert_eq!(now(&settings), "Europe/Paris");
    }

    #[test]
    fn settings_take_durations_and_switches() {
        let mut settings = Settings::of(guarantees(IsolationLevel::Serializable));
        settings.set("statement_timeout", "1 min", false).expect("a duration");
        assert_eq!(settings.get("statement_timeout"), Some("1min"));
        let refused = settings.set("lock_timeout", "5 parsecs", false).expect_err("no duration");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
        settings.set("lock_timeout", "default", false).expect("it has one");
        assert!(settings.is_on("meridian.pipelined_writes"));
        settings.set("meridian.pipelined_writes", "off", false).expect("a switch");
        assert!(!settings.is_on("meridian.pipelined_writes"));
        settings.set("meridian.negotiate_timestamps", "TRUE", false).expect("a switch");
        assert!(settings.is_on("meridian.negotiate_timestamps"));
        let refused =
            settings.set("meridian.negotiate_timestamps", "perhaps", false).expect_err("no switch");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
        let misspelt =
            settings.set("meridian.negotiate", "on", false).expect_err("not one of ours");
        assert!(
            misspelt.sqlstate == "42602" && misspelt.to_string().contains("invalid configuration"),
            "{misspelt}"
        );
        settings.set("theirs.anything", "x", false).expect("an extension's");
        assert_eq!(settings.timeout("lock_timeout"), None);
    }

    #[test]
    fn what_describes_how_things_are_may_be_set() {
        let mut settings = Settings::of(guarantees(IsolationLevel::Serializable));
        for (name, value) in [
            ("row_security", "off"),
            ("extra_float_digits", "3"),
            ("synchronize_seqscans", "off"),
            ("DateStyle", "ISO"),
            ("intervalstyle", "POSTGRES"),
            ("search_path", "mine, \"$user\", public"),
            ("search_path", ""),
            ("default_transaction_isolation", "read committed"),
            ("timezone", "europe/berlin"),
            ("standard_conforming_strings", "on"),
            ("default_table_access_method", "heap"),
            ("bytea_output", "hex"),
            ("default_tablespace", ""),
            ("check_function_bodies", "false"),
            ("transaction_timeout", "0"),
            ("xmloption", "content"),
            ("jit", "off"),
            ("datestyle", "default"),
        ] {
            settings
                .set(name, value, false)
                .unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
        }
        for (name, value) in [
            ("extra_float_digits", "0"),
            ("bytea_output", "escape"),
            ("datestyle", "German"),
            ("intervalstyle", "iso_8601"),
            ("client_encoding", "latin1"),
            ("standard_conforming_strings", "off"),
            ("session_replication_role", "replica"),
            ("synchronous_commit", "off"),
            ("transaction_timeout", "5s"),
            ("jit", "on"),
        ] {
            let error = settings.set(name, value, false).expect_err(name);
            assert_eq!(error.sqlstate, state::FEATURE_NOT_SUPPORTED, "{name} = {value}: {error}");
        }
        settings.set("default_transaction_read_only", "true", false).expect("a switch");
        assert!(settings.is_on("default_transaction_read_only"));
        let refused = settings.set("transaction_isolation", "chaos", false).expect_err("no level");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
        settings
            .set("spanner.negotiate_timestamps", "on", false)
            .expect("by the name of earlier versions");
        assert!(settings.is_on("meridian.negotiate_timestamps"));
    }

    #[test]
    fn the_level_that_was_asked_for_is_shown_and_none_is_stronger_than_the_database_s() {
        let mut settings = Settings::of(guarantees(IsolationLevel::RepeatableRead));
        for name in [DEFAULT_ISOLATION, ISOLATION] {
            for level in ["read uncommitted", "Read Committed", "repeatable read", "default"] {
                settings
                    .set(name, level, false)
                    .unwrap_or_else(|error| panic!("{name} = {level}: {error}"));
                let shown = if level == "default" { "repeatable read" } else { level };
                assert_eq!(settings.get(name), Some(shown.to_lowercase().as_str()));
                assert_eq!(settings.get(EFFECTIVE_ISOLATION), Some("repeatable read"));
            }
            let refused = settings.set(name, "serializable", false).expect_err("stronger");
            assert_eq!(refused.sqlstate, state::FEATURE_NOT_SUPPORTED);
        }
        settings.set(EFFECTIVE_ISOLATION, "read committed", false).expect_err("it is fixed");
        settings.set(DEFAULT_ISOLATION, "read committed", false).expect("weaker");
        assert_eq!(settings.get(ISOLATION), Some("repeatable read"), "of this transaction");
        settings.commit();
        assert_eq!(settings.get(ISOLATION), Some("read committed"), "of the next");
        settings.set(ISOLATION, "read uncommitted", true).expect("weaker");
        settings.reset(None);
        assert_eq!(settings.get(ISOLATION), Some("read uncommitted"));
        settings.roll_back();
        assert_eq!(settings.get(ISOLATION), Some("read committed"));
    }
}
