//! Reads dates, times and timestamps by PostgreSQL's rules: ISO 8601, dates with names of months,
//! numbers that are run together, words such as `epoch`, zones by their names.

mod decode;
mod fields;
mod numbers;
mod words;

pub(crate) use words::is_relative;

use super::zone::Local;
use super::{DAY_US, EPOCH_S, ZonedTime, date_in_range, timestamp_in_range};
use crate::error::{SqlError, state};
use decode::{Decoded, Kind, Moment};

/// The reason why a text is no time.
#[derive(Debug)]
enum Failure {
    Syntax,
    /// It has the form of one, which does not exist.
    Field,
    /// A month or a day that does not exist, perhaps since it is in another place.
    MonthOrDay,
    /// The zone is too far from UTC.
    Displacement,
    /// There is no zone of this name.
    Zone(String),
    /// It depends on when it is read.
    Relative,
}

fn error(kind: &str, text: &str, failure: Failure) -> SqlError {
    let field = || {
        let message = format!("date/time field value out of range: \"{text}\"");
        SqlError::new(state::DATETIME_OVERFLOW, message)
    };
    match failure {
        Failure::Syntax => SqlError::new(
            state::BAD_DATETIME,
            format!("invalid input syntax for type {kind}: \"{text}\""),
        ),
        Failure::Field => field(),
        Failure::MonthOrDay => field().hint("Perhaps you need a different \"datestyle\" setting."),
        Failure::Displacement => SqlError::new(
            state::DISPLACEMENT,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Failure::Zone(name) => super::zone::not_recognized(&name),
        Failure::Relative => {
            let shown = text.trim().to_ascii_lowercase();
            SqlError::unsupported(format!("the {kind} '{shown}' here"))
        }
    }
}

fn out_of_range(kind: &str, text: &str) -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, format!("{kind} out of range: \"{text}\""))
}

/// Parses a date; ignores a time after it, as PostgreSQL does.
pub(crate) fn date_from_text(text: &str, local: Local<'_>) -> Result<i32, SqlError> {
    let decoded = decode::moment(text, local).map_err(|failure| error("date", text, failure))?;
    match decoded {
        Moment::Infinity => Ok(i32::MAX),
        Moment::MinusInfinity => Ok(i32::MIN),
        Moment::Epoch => Ok(-10_957),
        Moment::At(Decoded { days, .. }) => {
            date_in_range(days).ok_or_else(|| out_of_range("date", text))
        }
    }
}

/// Parses a timestamp, with or without a zone. If `zoned`, the result is UTC, and a text without a
/// zone is one of the session's; otherwise a zone is ignored.
pub(crate) fn timestamp_from_text(
    text: &str,
    zoned: bool,
    local: Local<'_>,
) -> Result<i64, SqlError> {
    let kind = if zoned { "timestamp with time zone" } else { "timestamp" };
    let decoded = decode::moment(text, local).map_err(|failure| error(kind, text, failure))?;
    let Decoded { days, within, east_s } = match decoded {
        Moment::Infinity => return Ok(i64::MAX),
        Moment::MinusInfinity => return Ok(i64::MIN),
        Moment::Epoch => return Ok(-EPOCH_S * 1_000_000),
        Moment::At(decoded) => decoded,
    };
    let east_us = if zoned { i128::from(east_s) * 1_000_000 } else { 0 };
    let us = i128::from(days) * i128::from(DAY_US) + i128::from(within) - east_us;
    timestamp_in_range(us).ok_or_else(|| out_of_range("timestamp", text))
}

/// Parses a time of the day; ignores a date before it and a zone behind it, as PostgreSQL does.
pub(crate) fn time_from_text(text: &str, local: Local<'_>) -> Result<i64, SqlError> {
    let decoded = decode::decode(text, Kind::Time, local);
    match decoded.map_err(|failure| error("time", text, failure))? {
        Moment::At(Decoded { within, .. }) => Ok(within),
        _ => Err(error("time", text, Failure::Syntax)),
    }
}

/// Parses a time of the day in a zone, or in the session's. A zone whose offset depends on the day
/// needs a date before the time.
pub(crate) fn zoned_time_from_text(text: &str, local: Local<'_>) -> Result<ZonedTime, SqlError> {
    const KIND: &str = "time with time zone";
    let decoded = decode::decode(text, Kind::Time, local);
    match decoded.map_err(|failure| error(KIND, text, failure))? {
        Moment::At(Decoded { within, east_s, .. }) => {
            ZonedTime::of(within, east_s).ok_or_else(|| error(KIND, text, Failure::Displacement))
        }
        _ => Err(error(KIND, text, Failure::Syntax)),
    }
}

/// Parses an offset with its sign, in seconds to the east; `None` for another text, and an error
/// for one that is too far from UTC.
pub(crate) fn offset_from_text(text: &str) -> Option<Result<i32, ()>> {
    match numbers::offset(text) {
        Ok(east_s) => Some(Ok(east_s)),
        Err(Failure::Displacement) => Some(Err(())),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
