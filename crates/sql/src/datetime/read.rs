//! Reads dates and timestamps: ISO 8601 and its relatives, with years before the first (`BC`), and
//! infinity.

use super::civil::valid_days;
use super::{DAY_US, EPOCH_S, date_in_range, timestamp_in_range};
use crate::error::{SqlError, state};

/// The reason why a text is no time.
enum Failure {
    Syntax,
    /// It has the form of one, which does not exist.
    Field,
    /// The zone is too far from UTC.
    Zone,
}

/// The parts of a text: days since 2000, microseconds since midnight, and the offset of its zone
/// from UTC in seconds.
struct Parts {
    days: i64,
    within: i64,
    offset_s: i64,
}

fn error(kind: &str, text: &str, failure: &Failure) -> SqlError {
    match failure {
        Failure::Syntax => SqlError::new(
            state::BAD_DATETIME,
            format!("invalid input syntax for type {kind}: \"{text}\""),
        ),
        Failure::Field => SqlError::new(
            state::DATETIME_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ),
        Failure::Zone => {
            SqlError::new("22009", format!("time zone displacement out of range: \"{text}\""))
        }
    }
}

fn out_of_range(kind: &str, text: &str) -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, format!("{kind} out of range: \"{text}\""))
}

/// Refuses the names of days that depend on the time.
fn refuse_relative(kind: &str, lower: &str) -> Result<(), SqlError> {
    match lower {
        "now" | "today" | "tomorrow" | "yesterday" => {
            Err(SqlError::unsupported(format!("the {kind} '{lower}'")))
        }
        _ => Ok(()),
    }
}

/// Parses a date; ignores a time after it, as PostgreSQL does.
pub(crate) fn date_from_text(text: &str) -> Result<i32, SqlError> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "infinity" => return Ok(i32::MAX),
        "-infinity" => return Ok(i32::MIN),
        "epoch" => return Ok(-10_957),
        other => refuse_relative("date", other)?,
    }
    let parts = parts(&lower).map_err(|failure| error("date", text, &failure))?;
    date_in_range(parts.days).ok_or_else(|| out_of_range("date", text))
}

/// Parses a timestamp, with or without a zone. If one is given and `zoned`, the result is UTC;
/// otherwise the zone is ignored.
pub(crate) fn timestamp_from_text(text: &str, zoned: bool) -> Result<i64, SqlError> {
    let kind = if zoned { "timestamp with time zone" } else { "timestamp" };
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        "epoch" => return Ok(-EPOCH_S * 1_000_000),
        other => refuse_relative(kind, other)?,
    }
    let parts = parts(&lower).map_err(|failure| error(kind, text, &failure))?;
    let offset_us = if zoned { parts.offset_s * 1_000_000 } else { 0 };
    let us = i128::from(parts.days) * i128::from(DAY_US) + i128::from(parts.within - offset_us);
    timestamp_in_range(us).ok_or_else(|| out_of_range("timestamp", text))
}

/// Parses a time of the day; ignores a date before it and a zone behind it, as PostgreSQL does.
pub(crate) fn time_from_text(text: &str) -> Result<i64, SqlError> {
    let lower = text.trim().to_ascii_lowercase();
    if lower == "allballs" {
        return Ok(0);
    }
    refuse_relative("time", &lower)?;
    time_of_day(&lower).map_err(|failure| error("time", text, &failure))
}

fn time_of_day(text: &str) -> Result<i64, Failure> {
    const HALF_US: i64 = DAY_US / 2;
    let halves = [("am", 0), ("pm", HALF_US)];
    let half = halves.iter().find_map(|(name, from)| Some((text.strip_suffix(name)?, *from)));
    let text = half.map_or(text, |(rest, _)| rest.trim_end());
    let date = text.split([' ', 't']).next().filter(|first| !first.contains(':'));
    let within = match date.is_some_and(|date| date.contains(['-', '/'])) {
        true => parts(text)?.within,
        false => clock(text.strip_prefix('t').unwrap_or(text))?.ok_or(Failure::Syntax)?.0,
    };
    match half {
        None => Ok(within),
        Some(_) if within >= HALF_US + DAY_US / 24 => Err(Failure::Field),
        Some((_, from)) => Ok(within % HALF_US + from),
    }
}

/// Reads a text in lower case.
fn parts(text: &str) -> Result<Parts, Failure> {
    let (mut rest, mut before_christ) = (text.to_owned(), false);
    for era in ["bc", "ad"] {
        let is_alone = |word: &str| word == era;
        if rest.split_whitespace().any(is_alone) {
            before_christ = era == "bc";
            rest = rest
                .split_whitespace()
                .filter(|word| !is_alone(word))
                .collect::<Vec<_>>()
                .join(" ");
        }
    }
    if let Some(numbers) = by_month_name(&rest) {
        rest = numbers;
    }
    let at = rest.find([' ', 't']).unwrap_or(rest.len());
    let (day, clock) = (&rest[..at], rest.get(at + 1..).unwrap_or("").trim());
    let days = days(day, before_christ)?;
    let (within, offset_s) = self::clock(clock)?.unwrap_or((0, 0));
    Ok(Parts { days, within, offset_s })
}

/// Reads the time of a day and the offset of a zone behind it, in seconds; `None` for neither.
fn clock(clock: &str) -> Result<Option<(i64, i64)>, Failure> {
    if clock.is_empty() {
        return Ok(None);
    }
    let zone_at = clock
        .find(|c: char| c.is_ascii_alphabetic() || matches!(c, '+' | '-' | ' '))
        .unwrap_or(clock.len());
    let (time, zone) = (clock[..zone_at].trim(), clock[zone_at..].trim());
    let within = if time.is_empty() { 0 } else { within(time)? };
    let offset_s = zone_offset_s(zone).ok_or_else(|| {
        let digits = zone.strip_prefix(['+', '-']).unwrap_or("-");
        match digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
            true => Failure::Zone,
            false => Failure::Syntax,
        }
    })?;
    Ok(Some((within, offset_s)))
}

/// Returns a text with its date in numbers, `1999-01-08` for `january 8, 1999`; `None` unless it
/// names a month.
fn by_month_name(text: &str) -> Option<String> {
    let time_at = text.split(' ').take_while(|word| !word.contains(':'));
    let date: Vec<&str> = time_at.collect();
    let rest: Vec<&str> = text.split(' ').skip(date.len()).collect();
    let date = date.join(" ");
    let parts: Vec<&str> = date.split([' ', ',', '-', '/']).filter(|p| !p.is_empty()).collect();
    let month_of = |word: &str| {
        let found = MONTHS.iter().position(|month| {
            *month == word || month[..3] == *word || word == "sept" && *month == "september"
        });
        found.map(|at| at + 1)
    };
    let month = parts.iter().find_map(|word| month_of(word))?;
    let numbers: Vec<&str> =
        parts.iter().copied().filter(|word| month_of(word).is_none()).collect();
    let [a, b] = numbers.as_slice() else { return None };
    let (year, day) = if a.len() > 2 { (a, b) } else { (b, a) };
    Some(match year.len() {
        0..=2 => format!("{month}/{day}/{year} {}", rest.join(" ")),
        _ => format!("{year}-{month}-{day} {}", rest.join(" ")),
    })
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn whole(digits: &str) -> Option<i64> {
    let is_whole = !digits.is_empty() && digits.len() < 10;
    (is_whole && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

fn days(text: &str, before_christ: bool) -> Result<i64, Failure> {
    let mut is_short = false;
    let (year, month, day) = if text.len() == 8 && whole(text).is_some() {
        (&text[..4], &text[4..6], &text[6..])
    } else {
        let between = text.chars().find(|c| !c.is_ascii_digit()).ok_or(Failure::Syntax)?;
        if !matches!(between, '-' | '/' | '.') {
            return Err(Failure::Syntax);
        }
        match *text.split(between).collect::<Vec<_>>().as_slice() {
            // Month, day and year.
            [a, b, c] if a.len() <= 2 && c.len() >= 3 => (c, a, b),
            [a, b, c] if a.len() >= 3 => (a, b, c),
            // A year of two digits is one from 1970 to 2069.
            [a, b, c] => {
                is_short = !before_christ;
                (c, a, b)
            }
            _ => return Err(Failure::Syntax),
        }
    };
    let parts = (whole(year), whole(month), whole(day));
    let (Some(year), Some(month), Some(day)) = parts else { return Err(Failure::Syntax) };
    let year = match year {
        70..100 if is_short => year + 1900,
        ..70 if is_short => year + 2000,
        0 => return Err(Failure::Field),
        _ => year,
    };
    valid_days(if before_christ { 1 - year } else { year }, month, day).ok_or(Failure::Field)
}

/// Reads the time of a day; a fraction is rounded to microseconds.
fn within(text: &str) -> Result<i64, Failure> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let compact = clock.len() == 6 && !clock.contains(':');
    let parts: Vec<&str> = match compact {
        true if clock.is_ascii() => vec![&clock[..2], &clock[2..4], &clock[4..]],
        _ => clock.split(':').collect(),
    };
    let parts: Vec<i64> = parts.into_iter().map_while(whole).collect();
    let count = if compact { 3 } else { clock.split(':').count() };
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute, second] if count == 3 => (*hour, *minute, *second),
        [hour, minute] if count == 2 && fraction.is_empty() => (*hour, *minute, 0),
        _ => return Err(Failure::Syntax),
    };
    let micros = match fraction {
        "" => 0,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let part: f64 = format!("0.{digits}").parse().map_err(|_| Failure::Syntax)?;
            (part * 1e6).round_ties_even() as i64
        }
        _ => return Err(Failure::Syntax),
    };
    let within = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    let is_there = hour <= 24 && minute < 60 && second <= 60 && within <= DAY_US;
    if is_there { Ok(within) } else { Err(Failure::Field) }
}

/// Returns the offset from UTC of a zone's text, in seconds; `None` for a name of another zone.
pub(crate) fn zone_offset_s(zone: &str) -> Option<i64> {
    let zone = zone.to_ascii_lowercase();
    if matches!(zone.as_str(), "" | "z" | "utc" | "gmt" | "zulu" | "ut" | "uct") {
        return Some(0);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let parts: Vec<&str> = match digits.len() {
        3.. if !digits.contains(':') => {
            let (hours, minutes) = digits.split_at_checked(digits.len() - 2)?;
            vec![hours, minutes]
        }
        _ => digits.split(':').collect(),
    };
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [hours] => (whole(hours)?, 0, 0),
        [hours, minutes] => (whole(hours)?, whole(minutes)?, 0),
        [hours, minutes, seconds] => (whole(hours)?, whole(minutes)?, whole(seconds)?),
        _ => return None,
    };
    let is_there = hours < 16 && minutes < 60 && seconds < 60;
    is_there.then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::super::{date_to_text, timestamp_to_text};
    use super::*;

    fn date(text: &str) -> String {
        let mut out = String::new();
        match date_from_text(text) {
            Ok(days) => date_to_text(days, &mut out),
            Err(error) => out.push_str(error.sqlstate),
        }
        out
    }

    fn timestamp(text: &str) -> String {
        let mut out = String::new();
        match timestamp_from_text(text, true) {
            Ok(us) => timestamp_to_text(us, true, &mut out),
            Err(error) => out.push_str(error.sqlstate),
        }
        out
    }

    /// Inputs, and what PostgreSQL 15 shows for them or its error.
    #[test]
    fn dates_are_read_as_postgresql_reads_them() {
        for (text, shown) in [
            ("2024-02-29", "2024-02-29"),
            ("20240229", "2024-02-29"),
            ("2/29/2024", "2024-02-29"),
            ("2/29/24", "2024-02-29"),
            ("1/2/70", "1970-01-02"),
            ("January 8, 1999", "1999-01-08"),
            ("8 Jan 1999", "1999-01-08"),
            ("1999-Sept-08", "1999-09-08"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("4714-11-24 BC", "4714-11-24 BC"),
            ("4714-11-23 BC", "22008"),
            ("5874897-12-31", "5874897-12-31"),
            ("5874898-01-01", "22008"),
            ("0000-01-01", "22008"),
            ("2023-02-29", "22008"),
            ("infinity", "infinity"),
            ("someday", "22007"),
            ("", "22007"),
        ] {
            assert_eq!(date(text), shown, "{text}");
        }
    }

    #[test]
    fn timestamps_are_read_as_postgresql_reads_them() {
        for (text, shown) in [
            ("2024-02-29 12:34:56.789", "2024-02-29 12:34:56.789+00"),
            ("2024-02-29T12:34:56Z", "2024-02-29 12:34:56+00"),
            ("2024-02-29 12:00+02", "2024-02-29 10:00:00+00"),
            ("2024-02-29 12:00-0230", "2024-02-29 14:30:00+00"),
            ("2024-02-29 24:00:00", "2024-03-01 00:00:00+00"),
            ("2024-02-29 23:59:60", "2024-03-01 00:00:00+00"),
            ("2024-02-29 00:00:00.9999999", "2024-02-29 00:00:01+00"),
            ("0044-03-15 12:00:00+02 BC", "0044-03-15 10:00:00+00 BC"),
            ("294276-12-31 23:59:59", "294276-12-31 23:59:59+00"),
            ("294277-01-01", "22008"),
            ("2024-02-29 25:00", "22008"),
            ("2024-02-29 noon", "22007"),
            ("-infinity", "-infinity"),
        ] {
            assert_eq!(timestamp(text), shown, "{text}");
        }
    }
}
