//! Zones by their rules, in the form of POSIX: `EST5EDT`, `<+02>-02`, `CET-1CEST,M3.5.0,M10.5.0/3`.
//!
//! Offsets count to the west. As in PostgreSQL, a name may be missing, and rules that are missing
//! are those of the United States.

use super::{Rules, Zone};
use jiff::tz::TimeZone;
use std::sync::Arc;

/// The most hours of an offset.
pub(super) const MOST_HOURS: f64 = 167.0;

/// The rules of summer time where a zone has none of its own.
const RULES: &str = ",M3.2.0,M11.1.0";

/// Returns the zone of a text in upper case.
pub(super) fn zone(text: &str) -> Option<Zone> {
    let (standard, rest) = name(text)?;
    let (west_s, rest) = offset(rest)?;
    if rest.is_empty() {
        return Some(Zone::fixed(text.into(), -west_s, standard.into()));
    }
    let (summer, rest) = name(rest)?;
    if summer.is_empty() {
        return None;
    }
    let (summer_west_s, rest) = match rest.is_empty() || rest.starts_with(',') {
        true => (west_s - 3600, rest),
        false => offset(rest)?,
    };
    let rules = if rest.is_empty() { RULES } else { rest };
    // The library wants longer names than PostgreSQL.
    let long = |name: &str| if name.len() < 3 { format!("{name:->3}") } else { name.to_owned() };
    let spelt = format!(
        "<{}>{}<{}>{}{rules}",
        long(standard),
        clock(west_s),
        long(summer),
        clock(summer_west_s)
    );
    let rules = TimeZone::posix(&spelt).ok()?;
    Some(Zone { name: Arc::from(text), rules: Rules::Calendar(rules) })
}

/// Cuts off the name at the beginning, which ends at a digit, a sign or a comma.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let ends = |c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+');
    Some(text.split_at(text.find(ends).unwrap_or(text.len())))
}

/// Cuts off the offset at the beginning, in seconds to the west.
fn offset(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    for (unit, most) in [(3600, MOST_HOURS as i32), (60, 59), (1, 60)] {
        if unit < 3600 {
            match rest.strip_prefix(':') {
                Some(part) => rest = part,
                None => break,
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let part: i32 = rest[..end].parse().ok()?;
        if part > most {
            return None;
        }
        seconds += part * unit;
        rest = &rest[end..];
    }
    Some((sign * seconds, rest))
}

fn clock(west_s: i32) -> String {
    let size = west_s.unsigned_abs();
    let sign = if west_s < 0 { "-" } else { "" };
    format!("{sign}{:02}:{:02}:{:02}", size / 3600, size / 60 % 60, size % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{Local, timestamp_from_text};

    /// Names, and the offset in July 2020 that PostgreSQL 15 shows for them, in seconds.
    #[test]
    fn forms_of_posix_are_read_as_postgresql_reads_them() {
        let july = timestamp_from_text("2020-07-01", true, Local::utc()).expect("a time");
        for (text, east_s) in [
            ("UTC+3", Some(-10_800)),
            ("<+02>-02", Some(7_200)),
            ("+02:30", Some(-9_000)),
            ("FOO+3BAR", Some(-7_200)),
            ("A+3", Some(-10_800)),
            ("7X", Some(-21_600)),
            ("CET-1CEST,M3.5.0,M10.5.0/3", Some(7_200)),
            ("FOO", None),
            ("FOO+200", None),
            ("FOO+3BAR,NEVER", None),
        ] {
            assert_eq!(zone(text).map(|zone| zone.east_s(july)), east_s, "{text}");
        }
    }
}
