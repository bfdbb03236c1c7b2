//! The settings that the wire protocol itself uses or reports.

use meridian_sql::Session;
use std::time::Duration;

/// PostgreSQL's reported settings, which are sent at the start and after each change, with their
/// values if the session has none.
const REPORTED: [(&str, &str); 13] = [
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("application_name", ""),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("search_path", "\"$user\", public"),
    ("scram_iterations", "4096"),
];

/// A session's settings at the last refresh.
#[derive(Default)]
pub(crate) struct Settings {
    reported: Vec<String>,
    /// The time limit of a statement.
    pub(crate) statement_timeout: Option<Duration>,
    /// The time for which a transaction block may wait for its client.
    pub(crate) idle_in_transaction_timeout: Option<Duration>,
}

impl Settings {
    /// Reads the settings again; calls `changed` for every reported setting that differs from
    /// before, and for all of them the first time.
    pub(crate) fn refresh(&mut self, session: &Session, mut changed: impl FnMut(&str, &str)) {
        self.statement_timeout = session.timeout("statement_timeout");
        self.idle_in_transaction_timeout = session.timeout("idle_in_transaction_session_timeout");
        for (index, (name, otherwise)) in REPORTED.into_iter().enumerate() {
            let value = session.setting(name).unwrap_or_else(|| otherwise.to_owned());
            if self.reported.get(index) != Some(&value) {
                changed(name, &value);
                if index < self.reported.len() {
                    self.reported[index] = value;
                } else {
                    self.reported.push(value);
                }
            }
        }
    }
}
