//! The settings that the wire itself acts on or reports.

use meridian_sql::Session;
use std::time::Duration;

/// What a client is told at the start, and again when it changes: PostgreSQL's reported settings and what they are here when the
/// session does not say.
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

/// A session's settings as of the last look.
#[derive(Default)]
pub(crate) struct Settings {
    reported: Vec<String>,
    /// How long a statement may run.
    pub(crate) statement_timeout: Option<Duration>,
    /// How long a transaction block may wait for its client.
    pub(crate) idle_in_transaction_timeout: Option<Duration>,
}

impl Settings {
    /// Looks again; `changed` hears of every reported setting that differs from before, at first all of them.
    pub(crate) fn refresh(&mut self, session: &Session, mut changed: impl FnMut(&str, &str)) {
        self.statement_timeout = timeout(session, "statement_timeout");
        self.idle_in_transaction_timeout = timeout(session, "idle_in_transaction_session_timeout");
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

fn timeout(session: &Session, name: &str) -> Option<Duration> {
    session.setting(name).and_then(|text| duration(&text)).filter(|timeout| !timeout.is_zero())
}

/// A duration as SHOW prints it: a number with a unit, milliseconds without one.
fn duration(text: &str) -> Option<Duration> {
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
    fn durations_as_show_prints_them() {
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
