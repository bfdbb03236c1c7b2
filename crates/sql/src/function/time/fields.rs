//! Fields of times: `extract`, which returns exact numerics, and `date_part`, which returns floats.

use super::super::of::*;
use super::super::{Function, text_at};
use super::{interval_at, micros_at};
use crate::datetime::civil::{counted, day_of_year, iso_week, julian, weekday};
use crate::datetime::{Civil, DAY_US, EPOCH_S, Zone, ZonedTime, is_infinite, is_infinite_date};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::interval::{HOUR_US, MINUTE_US, MONTH_DAYS};
use crate::numeric::Numeric;
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("extract", &[TEXT, DATE], A_NUMERIC, field),
    Function::new("extract", &[TEXT, TIME], A_NUMERIC, field),
    Function::new("extract", &[TEXT, TIMETZ], A_NUMERIC, field),
    Function::new("extract", &[TEXT, TIMESTAMP], A_NUMERIC, field),
    Function::new("extract", &[TEXT, TIMESTAMPTZ], A_NUMERIC, field).of_zone(),
    Function::new("extract", &[TEXT, INTERVAL], A_NUMERIC, field),
    Function::new("date_part", &[TEXT, DATE], A_FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIME], A_FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIMETZ], A_FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIMESTAMP], A_FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIMESTAMPTZ], A_FLOAT8, date_part).of_zone(),
    Function::new("date_part", &[TEXT, INTERVAL], A_FLOAT8, date_part),
];

/// A field of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Zone,
    ZoneHour,
    ZoneMinute,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
}

impl Field {
    /// Finds a field by its name, of which PostgreSQL compares ten characters.
    pub(super) fn of_name(name: &str) -> Option<Field> {
        let lower = name.to_ascii_lowercase();
        Some(match lower.get(..10).unwrap_or(&lower) {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Field::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Field::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
            "d" | "day" | "days" => Field::Day,
            "w" | "week" | "weeks" => Field::Week,
            "mon" | "mons" | "month" | "months" => Field::Month,
            "qtr" | "quarter" => Field::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
            "dec" | "decs" | "decade" | "decades" => Field::Decade,
            "c" | "cent" | "century" | "centuries" => Field::Century,
            "mil" | "mils" | "millennium" | "millennia" => Field::Millennium,
            "timezone" => Field::Zone,
            "timezone_h" => Field::ZoneHour,
            "timezone_m" => Field::ZoneMinute,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "isoyear" => Field::IsoYear,
            "j" | "jd" | "julian" => Field::Julian,
            "epoch" => Field::Epoch,
            _ => return None,
        })
    }

    /// True if it is a part of the zone's offset.
    pub(super) fn is_of_zone(self) -> bool {
        (Field::Zone..=Field::ZoneMinute).contains(&self)
    }

    /// True if it has no bound, so that infinity's is infinite, and not unknown.
    fn is_unbounded(self) -> bool {
        matches!(
            self,
            Field::Year
                | Field::Decade
                | Field::Century
                | Field::Millennium
                | Field::IsoYear
                | Field::Julian
                | Field::Epoch
        )
    }
}

/// Returns the error of a name that is no field.
pub(super) fn unknown(name: &str, of: &Datum) -> SqlError {
    let ty = of.type_of().map_or("unknown", Type::name);
    let lower = name.to_ascii_lowercase();
    SqlError::new(
        state::INVALID_PARAMETER,
        format!("unit \"{lower}\" not recognized for type {ty}"),
    )
}

/// Returns the error of a field that a type does not have.
pub(super) fn unsupported(name: &str, of: &Datum) -> SqlError {
    let ty = of.type_of().map_or("unknown", Type::name);
    let lower = name.to_ascii_lowercase();
    SqlError::new(
        state::FEATURE_NOT_SUPPORTED,
        format!("unit \"{lower}\" not supported for type {ty}"),
    )
}

/// Returns a numeric of a number of decimal places.
fn scaled(n: i64, places: u16) -> Numeric {
    Numeric::of(n.into(), places)
}

/// Returns a year's decade, century or millennium; those before the first count down.
pub(super) fn decade(year: i64) -> i64 {
    year.div_euclid(10)
}

/// Returns the number of the span of years that a year is in, from 1, or from -1 downwards.
fn span_of_years(year: i64, length: i64) -> i64 {
    match year {
        1.. => (year + length - 1) / length,
        _ => -((length - year) / length),
    }
}

fn field(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (name, time) = (text_at(args, 0)?, &args[1]);
    let field = Field::of_name(name).ok_or_else(|| unknown(name, time))?;
    let value = match time {
        Datum::Interval(_) => of_interval(field, args)?,
        Datum::Time(us) => of_time_of_day(field, *us),
        Datum::TimeTz(time) => of_zoned_time(field, *time),
        Datum::Date(_) if field < Field::Day || field.is_of_zone() => None,
        _ => of_time(field, args, scope.session.zone())?,
    };
    value.ok_or_else(|| unsupported(name, time))
}

/// Returns a field of a date or timestamp, `None` if it has none of this name.
fn of_time(field: Field, args: &[Datum], zone: &Zone) -> Result<Option<Datum>, SqlError> {
    let (is_date, infinite, is_after) = match args[1] {
        Datum::Date(days) => (true, is_infinite_date(days), days > 0),
        _ => {
            let us = micros_at(args, 1)?;
            (false, is_infinite(us), us > 0)
        }
    };
    let is_zoned = matches!(args[1], Datum::TimestampTz(_));
    if field.is_of_zone() && !is_zoned {
        return Ok(None);
    }
    if infinite {
        return match field.is_unbounded() {
            true => Ok(Some(Datum::Numeric(match is_after {
                true => Numeric::Infinity,
                false => Numeric::NegativeInfinity,
            }))),
            false => Ok(Some(Datum::Null)),
        };
    }
    let instant = if is_date { 0 } else { micros_at(args, 1)? };
    let east_s = if is_zoned { i64::from(zone.east_s(instant)) } else { 0 };
    let us = instant.saturating_add(east_s * 1_000_000);
    let days = match args[1] {
        Datum::Date(days) => i64::from(days),
        _ => us.div_euclid(DAY_US),
    };
    let civil = match is_date {
        true => {
            let (year, month, day) = crate::datetime::civil::date_of(days);
            Civil { year, month, day, ..Civil::of(0) }
        }
        false => Civil::of(us),
    };
    let seconds_us = civil.second * 1_000_000 + civil.micros;
    let value = match field {
        Field::Microsecond => scaled(seconds_us, 0),
        Field::Millisecond => scaled(seconds_us, 3),
        Field::Second => scaled(seconds_us, 6),
        Field::Minute => scaled(civil.minute, 0),
        Field::Hour => scaled(civil.hour, 0),
        Field::Day => scaled(civil.day, 0),
        Field::Week => scaled(iso_week(days).1, 0),
        Field::Month => scaled(civil.month, 0),
        Field::Quarter => scaled((civil.month + 2) / 3, 0),
        Field::Year => scaled(counted(civil.year), 0),
        Field::Decade => scaled(decade(civil.year), 0),
        Field::Century => scaled(span_of_years(civil.year, 100), 0),
        Field::Millennium => scaled(span_of_years(civil.year, 1000), 0),
        Field::Zone => scaled(east_s, 0),
        Field::ZoneHour => scaled(east_s / 3600, 0),
        Field::ZoneMinute => scaled(east_s % 3600 / 60, 0),
        Field::DayOfWeek => scaled(weekday(days), 0),
        Field::IsoDayOfWeek => scaled((weekday(days) + 6) % 7 + 1, 0),
        Field::DayOfYear => scaled(day_of_year(days), 0),
        Field::IsoYear => scaled(counted(iso_week(days).0), 0),
        Field::Julian if is_date => scaled(julian(days), 0),
        Field::Julian => {
            let part = Numeric::from(civil.within()).over(&DAY_US.into())?;
            scaled(julian(days), 0).plus(&part)?
        }
        Field::Epoch if is_date => scaled(days * 86_400 + EPOCH_S, 0),
        Field::Epoch => Numeric::of(i128::from(instant) + i128::from(EPOCH_S) * 1_000_000, 6),
    };
    Ok(Some(Datum::Numeric(value)))
}

/// Returns a field of a time of the day, `None` if it has none of this name.
fn of_time_of_day(field: Field, us: i64) -> Option<Datum> {
    let value = match field {
        Field::Microsecond => scaled(us % MINUTE_US, 0),
        Field::Millisecond => scaled(us % MINUTE_US, 3),
        Field::Second => scaled(us % MINUTE_US, 6),
        Field::Minute => scaled(us % HOUR_US / MINUTE_US, 0),
        Field::Hour => scaled(us / HOUR_US, 0),
        Field::Epoch => scaled(us, 6),
        _ => return None,
    };
    Some(Datum::Numeric(value))
}

/// Returns a field of a time of the day in a zone, `None` if it has none of this name.
fn of_zoned_time(field: Field, time: ZonedTime) -> Option<Datum> {
    let east_s = i64::from(time.east_s);
    let value = match field {
        Field::Zone => scaled(east_s, 0),
        Field::ZoneHour => scaled(east_s / 3600, 0),
        Field::ZoneMinute => scaled(east_s % 3600 / 60, 0),
        Field::Epoch => scaled(time.utc_us(), 6),
        _ => return of_time_of_day(field, time.micros),
    };
    Some(Datum::Numeric(value))
}

/// Returns a field of an interval, `None` if it has none of this name.
fn of_interval(field: Field, args: &[Datum]) -> Result<Option<Datum>, SqlError> {
    let span = interval_at(args, 1)?;
    let (months, years) = (i64::from(span.months % 12), i64::from(span.months / 12));
    let value = match field {
        Field::Microsecond => scaled(span.micros % MINUTE_US, 0),
        Field::Millisecond => scaled(span.micros % MINUTE_US, 3),
        Field::Second => scaled(span.micros % MINUTE_US, 6),
        Field::Minute => scaled(span.micros % HOUR_US / MINUTE_US, 0),
        Field::Hour => scaled(span.micros / HOUR_US, 0),
        Field::Day => scaled(span.days.into(), 0),
        Field::Month => scaled(months, 0),
        Field::Quarter => scaled(months / 3 + 1, 0),
        Field::Year => scaled(years, 0),
        Field::Decade => scaled(years / 10, 0),
        Field::Century => scaled(years / 100, 0),
        Field::Millennium => scaled(years / 1000, 0),
        Field::Epoch => {
            // A year has 365.25 days.
            let quarters = years * 1461 + (months * MONTH_DAYS + i64::from(span.days)) * 4;
            let us = i128::from(quarters) * i128::from(DAY_US / 4) + i128::from(span.micros);
            Numeric::of(us, 6)
        }
        _ => return Ok(None),
    };
    Ok(Some(Datum::Numeric(value)))
}

fn date_part(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let name = text_at(args, 0)?;
    let known = Field::of_name(name);
    // A date is a timestamp at midnight here, so that it has hours.
    let time = match &args[1] {
        Datum::Date(_) => Datum::Timestamp(micros_at(args, 1)?),
        other => other.clone(),
    };
    if let (Datum::Timestamp(us) | Datum::TimestampTz(us), Some(field)) = (&time, known) {
        if is_infinite(*us) && field.is_unbounded() {
            let infinity = if *us < 0 { f64::NEG_INFINITY } else { f64::INFINITY };
            return Ok(Datum::Float8(infinity));
        }
        if field == Field::Julian && !is_infinite(*us) {
            let us = match time {
                Datum::TimestampTz(us) => scope.session.zone().local(us),
                _ => *us,
            };
            let part = us.rem_euclid(DAY_US) as f64 / DAY_US as f64;
            return Ok(Datum::Float8(julian(us.div_euclid(DAY_US)) as f64 + part));
        }
    }
    // Floats are computed as PostgreSQL computes them, with their rounding.
    if known == Some(Field::Epoch) {
        match time {
            Datum::Timestamp(us) | Datum::TimestampTz(us) => {
                let since = i128::from(us) + i128::from(EPOCH_S) * 1_000_000;
                return Ok(Datum::Float8(since as f64 / 1e6));
            }
            Datum::Interval(span) => {
                let day = 86_400.0;
                let seconds = span.micros as f64 / 1e6
                    + 365.25 * day * f64::from(span.months / 12)
                    + 30.0 * day * f64::from(span.months % 12)
                    + day * f64::from(span.days);
                return Ok(Datum::Float8(seconds));
            }
            _ => {}
        }
    }
    let exact = field(&[args[0].clone(), time], scope)?;
    Ok(exact.as_f64().map_or(Datum::Null, Datum::Float8))
}
