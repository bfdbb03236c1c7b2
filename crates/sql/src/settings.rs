//! SET and SHOW.

use crate::error::{SqlError, state};
use crate::parse::AsOf;
use std::collections::BTreeMap;
use std::time::Duration;

/// A session's settings. Names in small letters.
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
}

pub(crate) const DEFAULTS: [(&str, &str); 43] = [
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
    ("default_transaction_isolation", "serializable"),
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
    ("quote_all_identifiers", "off"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", "16.0"),
    ("server_version_num", "160000"),
    ("session_authorization", "root"),
    ("session_replication_role", "origin"),
    ("spanner.negotiate_timestamps", "off"),
    ("spanner.read_only_staleness", "STRONG"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "off"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "serializable"),
    ("transaction_timeout", "0"),
    ("xmloption", "content"),
];

/// Settings of PostgreSQL that change nothing here, and the values that describe how things are anyway. Other values are refused.
const DESCRIBED: [(&str, &[&str]); 24] = [
    ("array_nulls", &["on"]),
    ("bytea_output", &["hex"]),
    // There are no function bodies, and no row security: both ways are true.
    ("check_function_bodies", &["on", "off"]),
    ("default_table_access_method", &["heap"]),
    ("default_tablespace", &[""]),
    ("default_transaction_deferrable", &["off"]),
    ("default_with_oids", &["off"]),
    ("escape_string_warning", &["off"]),
    // The shortest digits that mean the number, as PostgreSQL has it for all of these.
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
    // Each commit is on the disks of a quorum, which is at least what these ask for.
    ("synchronous_commit", &["on", "remote_apply", "remote_write", "local"]),
    ("timezone", &["utc", "gmt", "etc/utc", "z", "0", "universal"]),
    ("client_encoding", &["utf8", "utf-8", "unicode"]),
    ("transaction_deferrable", &["off"]),
    ("transaction_timeout", &["0"]),
    ("xmloption", &["content"]),
];

/// Each of them is accepted, and runs as the strongest.
const ISOLATION_LEVELS: [&str; 4] = ["serializable", "repeatable read", "read committed", "read uncommitted"];

/// The words of a list, without quotes.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|word| word.trim().trim_matches('"'))
}

/// Whether a value of a setting describes how things are; none for a setting that takes other values.
fn describes(name: &str, folded: &str) -> Option<(bool, String)> {
    let listed = |values: &[&str]| values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ");
    match name {
        "datestyle" => {
            let is = words(folded).flat_map(str::split_whitespace).all(|word| matches!(word, "iso" | "mdy" | "us"));
            Some((is, "'ISO, MDY'".into()))
        }
        "search_path" => {
            let known = |word: &str| matches!(word, "" | "$user" | "public" | "pg_catalog" | "information_schema");
            Some((words(folded).all(known), "a list of \"$user\", public, pg_catalog and information_schema".into()))
        }
        name => {
            let (_, values) = DESCRIBED.iter().find(|(other, _)| *other == name)?;
            let switched = switch(folded).map(|on| if on { "on" } else { "off" });
            let is = values.contains(&folded) || switched.is_some_and(|switch| values.contains(&switch));
            Some((is, listed(values)))
        }
    }
}

pub(crate) const FIXED: [&str; 7] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "server_encoding",
    "server_version",
    "server_version_num",
];

/// How the names of settings begin that only this system has.
const OWN: &str = "spanner.";

/// What PostgreSQL takes for a switch.
fn switch(folded: &str) -> Option<bool> {
    match folded {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings { values: DEFAULTS.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect() }
    }
}

impl Settings {
    fn canonical(name: &str) -> String {
        match name.to_lowercase().as_str() {
            "time_zone" => "timezone".into(),
            "transaction_isolation_level" => "transaction_isolation".into(),
            name => name.into(),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&Self::canonical(name)).map(String::as_str)
    }

    /// A setting that is a time; none when it is 0.
    pub(crate) fn timeout(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(duration).filter(|timeout| !timeout.is_zero())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// Which state read-only transactions are to see; none: the present.
    pub(crate) fn staleness(&self) -> Option<AsOf> {
        AsOf::of_setting(self.get("spanner.read_only_staleness")?).flatten()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let name = Self::canonical(name);
        let refused = |hint: &str| {
            Err(SqlError::new(state::INVALID_PARAMETER, format!("invalid value for parameter \"{name}\": \"{value}\""))
                .hint(hint))
        };
        if FIXED.contains(&name.as_str()) {
            return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed")));
        }
        let folded = value.to_lowercase();
        match name.as_str() {
            // A switch that is acted on.
            "default_transaction_read_only" if folded != "default" => {
                let Some(on) = switch(&folded) else { return refused("It is on or off.") };
                self.values.insert(name, if on { "on" } else { "off" }.into());
                return Ok(());
            }
            "spanner.read_only_staleness" if folded != "default" && AsOf::of_setting(value).is_none() => {
                return refused(
                    "It is STRONG, MAX_STALENESS 10s, EXACT_STALENESS 10s, MIN_READ_TIMESTAMP or READ_TIMESTAMP and a time.",
                );
            }
            "spanner.negotiate_timestamps" if folded != "default" => {
                let Some(on) = switch(&folded) else { return refused("It is on or off.") };
                self.values.insert(name, if on { "on" } else { "off" }.into());
                return Ok(());
            }
            "transaction_isolation" | "default_transaction_isolation" => {
                if folded != "default" && !ISOLATION_LEVELS.contains(&folded.as_str()) {
                    return refused("It is serializable, repeatable read, read committed or read uncommitted.");
                }
                return Ok(());
            }
            _ => {}
        }
        if folded != "default"
            && let Some((false, values)) = describes(&name, &folded)
        {
            return Err(SqlError::unsupported(format!("setting \"{name}\" to '{value}'"))
                .hint(format!("What holds here, and may be set, is {values}.")));
        }
        if name.starts_with(OWN) && !self.values.contains_key(&name) {
            let own = DEFAULTS.iter().map(|(name, _)| *name).filter(|name| name.starts_with(OWN));
            return Err(SqlError::new("42602", format!("invalid configuration parameter name \"{name}\""))
                .hint(format!("There are {}.", own.collect::<Vec<_>>().join(" and "))));
        }
        if !self.values.contains_key(&name) && !name.contains('.') {
            // Unknown settings of PostgreSQL's own change nothing here; a misspelt one should not look accepted.
            return Err(SqlError::new(
                state::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter \"{name}\""),
            ));
        }
        let default = DEFAULTS.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let value = if folded == "default" { default.unwrap_or("") } else { value };
        let is_duration = default.is_some() && name.ends_with("_timeout");
        let shown = match is_duration.then(|| duration(value)) {
            None => value.to_owned(),
            Some(Some(duration)) => shown(duration),
            Some(None) => {
                return refused(
                    "Valid units are \"us\", \"ms\", \"s\", \"min\", \"h\" and \"d\"; without one, milliseconds.",
                );
            }
        };
        self.values.insert(name, shown);
        Ok(())
    }

    /// A value that was there before.
    pub(crate) fn restore(&mut self, name: &str, value: String) {
        self.values.insert(Self::canonical(name), value);
    }

    pub(crate) fn reset(&mut self, name: Option<&str>) {
        match name {
            None => *self = Settings::default(),
            Some(name) => {
                let name = Self::canonical(name);
                if let Some((_, value)) = DEFAULTS.iter().find(|(other, _)| *other == name) {
                    self.values.insert(name, (*value).into());
                }
            }
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A duration as SHOW prints it: in the largest unit of which it is a whole number.
pub(crate) fn shown(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let ms = duration.as_millis();
    let unit = UNITS.iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    unit.map_or_else(|| "0".to_owned(), |(unit, name)| format!("{}{name}", ms / unit))
}

/// A duration as SET takes it: a number with a unit, milliseconds without one.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().trim_matches('\'').trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let seconds = match text[end..].trim() {
        "us" => 1e-6,
        "ms" | "" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_their_largest_unit() {
        let again = |text| duration(text).map(shown);
        for (text, expected) in
            [("0", "0"), ("250", "250ms"), ("1500ms", "1500ms"), ("60000", "1min"), ("2h", "2h"), ("1.5s", "1500ms")]
        {
            assert_eq!(again(text).as_deref(), Some(expected), "{text}");
        }
        let mut settings = Settings::default();
        settings.set("statement_timeout", "1 min").expect("a duration");
        assert_eq!(settings.get("statement_timeout"), Some("1min"));
        let refused = settings.set("lock_timeout", "5 parsecs").expect_err("no duration");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
        settings.set("lock_timeout", "default").expect("it has one");
        settings.set("spanner.negotiate_timestamps", "TRUE").expect("a switch");
        assert!(settings.is_on("spanner.negotiate_timestamps"));
        let refused = settings.set("spanner.negotiate_timestamps", "perhaps").expect_err("no switch");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
        let misspelt = settings.set("spanner.negotiate", "on").expect_err("not one of ours");
        assert!(misspelt.sqlstate == "42602" && misspelt.to_string().contains("invalid configuration"), "{misspelt}");
        settings.set("theirs.anything", "x").expect("an extension's");
        assert_eq!(settings.timeout("lock_timeout"), None);
    }

    #[test]
    fn what_describes_how_things_are_may_be_set() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("row_security", "off"),
            ("extra_float_digits", "3"),
            ("synchronize_seqscans", "off"),
            ("DateStyle", "ISO"),
            ("intervalstyle", "POSTGRES"),
            ("search_path", "public, $user, public"),
            ("search_path", ""),
            ("default_transaction_isolation", "read committed"),
            ("timezone", "UTC"),
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
            settings.set(name, value).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
        }
        for (name, value) in [
            ("extra_float_digits", "0"),
            ("bytea_output", "escape"),
            ("datestyle", "German"),
            ("intervalstyle", "iso_8601"),
            ("search_path", "mine, public"),
            ("timezone", "Europe/Berlin"),
            ("client_encoding", "latin1"),
            ("standard_conforming_strings", "off"),
            ("session_replication_role", "replica"),
            ("synchronous_commit", "off"),
            ("transaction_timeout", "5s"),
            ("jit", "on"),
        ] {
            let error = settings.set(name, value).expect_err(name);
            assert_eq!(error.sqlstate, state::FEATURE_NOT_SUPPORTED, "{name} = {value}: {error}");
        }
        settings.set("default_transaction_read_only", "true").expect("a switch");
        assert!(settings.is_on("default_transaction_read_only"));
        let refused = settings.set("transaction_isolation", "chaos").expect_err("no level");
        assert_eq!(refused.sqlstate, state::INVALID_PARAMETER);
    }

    #[test]
    fn durations_as_set_takes_them() {
        let ms = |text| duration(text).map(|duration| duration.as_micros());
        assert_eq!(ms("0"), Some(0));
        assert_eq!(ms("250"), Some(250_000));
        assert_eq!(ms("1500ms"), Some(1_500_000));
        assert_eq!(ms("5s"), Some(5_000_000));
        assert_eq!(ms("1 min"), Some(60_000_000));
        assert_eq!(ms("2h"), Some(7_200_000_000));
        assert_eq!(ms("10us"), Some(10));
        for bad in ["", "s", "-1", "5 parsecs"] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }
}
