//! Time zones: the offset of an instant, and the instant of a local time.
//!
//! The rules are those of the database that is part of the program, so that every node and every
//! release of one version computes alike. A zone's rules are those of its last years for all that
//! come after, and repeat every 400 years.

mod abbreviations;
mod names;
mod posix;

pub(crate) use names::all;

use super::{EPOCH_S, is_infinite, timestamp_in_range};
use crate::error::{SqlError, state};
use crate::interval::Interval;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

/// The seconds of 400 years, after which the calendar and the days of the week repeat.
const CYCLE_S: i64 = 146_097 * 86_400;
/// Beyond this time, in seconds since 1970, the rules are those of earlier years: it is in the
/// year 9900.
const LAST_S: i64 = 250_254_000_000;
/// The longest name of a zone.
const LONGEST_NAME: usize = 255;

/// A time zone, with the name by which it is shown.
#[derive(Clone, Debug)]
pub struct Zone {
    name: Arc<str>,
    rules: Rules,
}

#[derive(Clone, Debug)]
enum Rules {
    /// One offset, in seconds to the east.
    Fixed {
        east_s: i32,
        abbreviation: Arc<str>,
    },
    Calendar(TimeZone),
}

/// The offset of a zone at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// The seconds to the east of UTC.
    pub(crate) east_s: i32,
    pub(crate) abbreviation: String,
    pub(crate) is_summer: bool,
}

/// The zone and the instant by which texts and values of times are understood.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// The session's zone.
    pub zone: &'a Zone,
    /// The start of the transaction, in microseconds since 2000 UTC; `None` where no text may
    /// depend on it.
    pub now_us: Option<i64>,
}

impl Local<'static> {
    /// Returns UTC without an instant, for what does not depend on a session.
    pub fn utc() -> Self {
        Local { zone: Zone::utc(), now_us: None }
    }
}

/// The name of a zone is what tells it from another.
impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Default for Zone {
    fn default() -> Self {
        Zone::utc().clone()
    }
}

impl Zone {
    /// Returns UTC.
    pub fn utc() -> &'static Zone {
        static UTC: LazyLock<Zone> = LazyLock::new(|| Zone::fixed("UTC".into(), 0, "UTC".into()));
        &UTC
    }

    fn fixed(name: Arc<str>, east_s: i32, abbreviation: Arc<str>) -> Zone {
        Zone { name, rules: Rules::Fixed { east_s, abbreviation } }
    }

    /// Returns its name as SHOW prints it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Finds a zone by its name in any case, or by a form of POSIX (`EST5EDT`, `<+02>-02`).
    pub(crate) fn named(name: &str) -> Option<Zone> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return None;
        }
        names::find(name).or_else(|| posix::zone(&name.to_ascii_uppercase()))
    }

    /// Returns the zone of an offset, named as PostgreSQL names it: `<+05:30>-05:30`.
    pub(crate) fn of_offset(east_s: i32) -> Zone {
        let (mut east, mut west) = (String::new(), String::new());
        write_offset(east_s, &mut east);
        write_offset(-east_s, &mut west);
        // Of UTC itself, PostgreSQL writes both signs.
        let west = if east_s == 0 { "-00" } else { &west };
        Zone::fixed(format!("<{east}>{west}").into(), east_s, east.as_str().into())
    }

    /// Returns the zone that a value of the setting `TimeZone` names: a zone, or a number of hours
    /// to the east. Fails with 22023.
    pub(crate) fn of_setting(value: &str) -> Result<Zone, SqlError> {
        let refused = || {
            let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
            SqlError::new(state::INVALID_PARAMETER, message)
        };
        let hours = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let Ok(hours) = hours.parse::<f64>() else {
            return Zone::named(value).ok_or_else(refused);
        };
        if hours.is_nan() || hours.abs() >= posix::MOST_HOURS + 1.0 {
            return Err(refused().detail("UTC timezone offset is out of range."));
        }
        Ok(Zone::of_offset((hours * 3600.0) as i32))
    }

    /// Returns the zone of `SET TIME ZONE INTERVAL`. Fails with 22023 for a length of days.
    pub(crate) fn of_interval(span: Interval) -> Result<Zone, SqlError> {
        let part = match span {
            Interval { months: 0, days: 0, micros } => {
                let east_s = micros / 1_000_000;
                if (east_s.unsigned_abs() as f64) < (posix::MOST_HOURS + 1.0) * 3600.0 {
                    return Ok(Zone::of_offset(east_s as i32));
                }
                "UTC timezone offset is out of range."
            }
            Interval { months: 0, .. } => "Cannot specify days in time zone interval.",
            _ => "Cannot specify months in time zone interval.",
        };
        let message = format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{span}'\"");
        Err(SqlError::new(state::INVALID_PARAMETER, message).detail(part))
    }

    /// Returns the seconds to the east at an instant, in microseconds since 2000 UTC.
    pub(crate) fn east_s(&self, us: i64) -> i32 {
        match &self.rules {
            Rules::Fixed { east_s, .. } => *east_s,
            Rules::Calendar(rules) => instant(us).map_or(0, |at| rules.to_offset(at).seconds()),
        }
    }

    /// Returns what is known of an instant.
    pub(crate) fn at(&self, us: i64) -> At {
        let fixed = |east_s, abbreviation: &str| At {
            east_s,
            abbreviation: abbreviation.to_owned(),
            is_summer: false,
        };
        match (&self.rules, instant(us)) {
            (Rules::Fixed { east_s, abbreviation }, _) => fixed(*east_s, abbreviation),
            (Rules::Calendar(rules), Some(at)) => {
                let info = rules.to_offset_info(at);
                let is_summer = info.dst().is_dst();
                At { is_summer, ..fixed(info.offset().seconds(), info.abbreviation()) }
            }
            (Rules::Calendar(_), None) => fixed(0, ""),
        }
    }

    /// Returns the seconds to the east at a local time, in microseconds since 2000. As in
    /// PostgreSQL, a time that does not exist is one by the offset before the gap, and of two
    /// instants it is the one by the offset after the change.
    pub(crate) fn east_s_of_local(&self, us: i128) -> i32 {
        let rules = match &self.rules {
            Rules::Fixed { east_s, .. } => return *east_s,
            Rules::Calendar(rules) => rules,
        };
        let seconds = us.div_euclid(1_000_000) + i128::from(EPOCH_S);
        let Some(at) = i64::try_from(seconds).ok().and_then(in_calendar) else { return 0 };
        match rules.to_ambiguous_timestamp(Offset::UTC.to_datetime(at)).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        }
        .seconds()
    }

    /// Returns the offset if it has always been the same.
    pub(crate) fn only_offset(&self) -> Option<i32> {
        match &self.rules {
            Rules::Fixed { east_s, .. } => Some(*east_s),
            Rules::Calendar(_) => None,
        }
    }

    /// Returns the local time of an instant, perhaps out of the range of timestamps; infinity as
    /// it is.
    pub(crate) fn local(&self, us: i64) -> i64 {
        if is_infinite(us) {
            return us;
        }
        us.saturating_add(i64::from(self.east_s(us)) * 1_000_000)
    }

    /// Returns the instant of a local time, in microseconds since 2000; `None` out of range.
    pub(crate) fn instant(&self, local_us: i128) -> Option<i64> {
        let east_s = self.east_s_of_local(local_us);
        timestamp_in_range(local_us - i128::from(east_s) * 1_000_000)
    }

    /// Returns the seconds to the east that an abbreviation stood for in the zone at a local time:
    /// at its last use before, or else at its first one.
    fn east_s_of_abbreviation(&self, abbreviation: &str, local_us: i128) -> i32 {
        let near = self.east_s_of_local(local_us);
        let Rules::Calendar(rules) = &self.rules else { return near };
        let seconds = local_us.div_euclid(1_000_000) + i128::from(EPOCH_S) - i128::from(near);
        let Some(at) = i64::try_from(seconds).ok().and_then(in_calendar) else { return near };
        let named = |other: &str| other.eq_ignore_ascii_case(abbreviation);
        let info = rules.to_offset_info(at);
        if named(info.abbreviation()) {
            return info.offset().seconds();
        }
        let found = rules.preceding(at).find(|change| named(change.abbreviation()));
        // The changes go on for ever; one that has not come yet needs no abbreviation.
        let next = || {
            let later = rules.following(at);
            let mut known =
                later.take_while(|change| change.timestamp().as_second() < LAST_KNOWN_S);
            known.find(|change| named(change.abbreviation()))
        };
        found.or_else(next).map_or(near, |change| change.offset().seconds())
    }
}

/// The end of the changes that are listed one by one, in seconds since 1970: the year 2038.
const LAST_KNOWN_S: i64 = 2_145_916_800;

/// Returns an instant for the calendar, of the same place in a cycle of 400 years; `None` for a
/// time before all calendars.
fn in_calendar(seconds: i64) -> Option<Timestamp> {
    let beyond = seconds.saturating_sub(LAST_S).max(0);
    let cycles = beyond / CYCLE_S + i64::from(beyond > 0);
    Timestamp::from_second(seconds - cycles * CYCLE_S).ok()
}

fn instant(us: i64) -> Option<Timestamp> {
    in_calendar(us.div_euclid(1_000_000) + EPOCH_S)
}

/// A zone as a text names it.
pub(crate) enum Named {
    /// An abbreviation of one offset, in seconds to the east.
    Offset {
        east_s: i32,
        is_summer: bool,
    },
    /// An abbreviation whose offset has changed, and the zone that knows it.
    Abbreviation(String, Zone),
    Zone(Zone),
}

impl Named {
    /// Finds an abbreviation, in lower case.
    pub(crate) fn abbreviation(name: &str) -> Option<Named> {
        let fixed = &abbreviations::FIXED;
        if let Ok(at) = fixed.binary_search_by_key(&name, |(name, ..)| name) {
            let (_, east_s, is_summer) = fixed[at];
            return Some(Named::Offset { east_s, is_summer });
        }
        let at = abbreviations::OF_ZONES.binary_search_by_key(&name, |(name, _)| name).ok()?;
        let (_, zone) = abbreviations::OF_ZONES[at];
        Some(Named::Abbreviation(name.to_owned(), Zone::named(zone)?))
    }

    /// Finds what the argument of AT TIME ZONE names. Fails with 22023.
    pub(crate) fn find(name: &str) -> Result<Named, SqlError> {
        let short: String = name.chars().take(63).collect();
        Named::abbreviation(&short.to_lowercase())
            .or_else(|| Zone::named(name).map(Named::Zone))
            .ok_or_else(|| not_recognized(name))
    }

    /// Returns the seconds to the east at a local time.
    pub(crate) fn east_s_of_local(&self, us: i128) -> i32 {
        match self {
            Named::Offset { east_s, .. } => *east_s,
            Named::Abbreviation(name, zone) => zone.east_s_of_abbreviation(name, us),
            Named::Zone(zone) => zone.east_s_of_local(us),
        }
    }

    /// Returns the seconds to the east at an instant.
    pub(crate) fn east_s(&self, us: i64) -> i32 {
        match self {
            Named::Offset { east_s, .. } => *east_s,
            Named::Abbreviation(name, zone) => {
                zone.east_s_of_abbreviation(name, i128::from(zone.local(us)))
            }
            Named::Zone(zone) => zone.east_s(us),
        }
    }
}

/// Returns the error of a name of no zone.
pub(crate) fn not_recognized(name: &str) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, format!("time zone \"{name}\" not recognized"))
}

/// Returns all abbreviations in order, with the seconds to the east and whether it is summer time,
/// at an instant.
pub(crate) fn all_abbreviations(us: i64) -> Vec<(String, i32, bool)> {
    let fixed = abbreviations::FIXED
        .iter()
        .map(|(name, east_s, is_summer)| (name.to_uppercase(), *east_s, *is_summer));
    let of_zones = abbreviations::OF_ZONES.iter().filter_map(|(name, zone)| {
        let zone = Zone::named(zone)?;
        let east_s = zone.east_s_of_abbreviation(name, i128::from(zone.local(us)));
        Some((name.to_uppercase(), east_s, zone.is_summer_of(name, us)))
    });
    let mut all: Vec<_> = fixed.chain(of_zones).collect();
    all.sort();
    all
}

impl Zone {
    /// True if an abbreviation was that of summer time when it was last used.
    fn is_summer_of(&self, abbreviation: &str, us: i64) -> bool {
        let (Rules::Calendar(rules), Some(at)) = (&self.rules, instant(us)) else { return false };
        let named = |other: &str| other.eq_ignore_ascii_case(abbreviation);
        let info = rules.to_offset_info(at);
        if named(info.abbreviation()) {
            return info.dst().is_dst();
        }
        let found = rules.preceding(at).find(|change| named(change.abbreviation()));
        found.map_or(info.dst().is_dst(), |change| change.dst().is_dst())
    }
}

/// Appends an offset as texts of times show it: `+02`, `-03:30`, `+00:09:21`.
pub(crate) fn write_offset(east_s: i32, out: &mut String) {
    let size = east_s.unsigned_abs();
    let _ = write!(out, "{}{:02}", if east_s < 0 { '-' } else { '+' }, size / 3600);
    if !size.is_multiple_of(3600) {
        let _ = write!(out, ":{:02}", size / 60 % 60);
    }
    if !size.is_multiple_of(60) {
        let _ = write!(out, ":{:02}", size % 60);
    }
}
