//! Reads intervals in PostgreSQL's and in SQL's style: numbers with units, times of day, years and
//! months.
//!
//! The text is split into tokens, which are taken from the last to the first: a number has the unit
//! behind it, or the one that the part behind it implies.

use super::fields::{Fields, Unit as Field};
use super::{HOUR_US, Interval, MINUTE_US, MONTH_DAYS, SECOND_US};
use crate::datetime::DAY_US;

/// The reason why a text is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Syntax,
    /// A number is too large for its field.
    Field,
    /// The sum is too large for an interval.
    Whole,
}

/// A unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// Finds a unit by its name, of which PostgreSQL compares ten characters.
    pub(crate) fn of_name(name: &str) -> Option<Unit> {
        Some(match name.get(..10).unwrap_or(name) {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }
}

/// The sum of the parts so far.
#[derive(Default)]
pub(super) struct Sum {
    months: i64,
    days: i64,
    micros: i64,
}

impl Sum {
    /// Adds a number of a unit. A fraction of a day or more is passed down to smaller units.
    pub(super) fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Result<(), Failure> {
        match unit {
            Unit::Microsecond => self.add_micros(whole, fraction, 1),
            Unit::Millisecond => self.add_micros(whole, fraction, 1000),
            Unit::Second => self.add_micros(whole, fraction, SECOND_US),
            Unit::Minute => self.add_micros(whole, fraction, MINUTE_US),
            Unit::Hour => self.add_micros(whole, fraction, HOUR_US),
            Unit::Day => {
                self.add_days(whole, 1)?;
                self.add_micros(0, fraction, DAY_US)
            }
            Unit::Week => {
                self.add_days(whole, 7)?;
                self.add_fraction_of_days(fraction, 7)
            }
            Unit::Month => {
                add(&mut self.months, whole, 1)?;
                // PostgreSQL counts months in 32 bits.
                i32::try_from(whole).map_err(|_| Failure::Field)?;
                self.add_fraction_of_days(fraction, MONTH_DAYS)
            }
            Unit::Year => self.add_years(whole, fraction, 1),
            Unit::Decade => self.add_years(whole, fraction, 10),
            Unit::Century => self.add_years(whole, fraction, 100),
            Unit::Millennium => self.add_years(whole, fraction, 1000),
        }
    }

    fn add_years(&mut self, whole: i64, fraction: f64, years: i64) -> Result<(), Failure> {
        add(&mut self.months, whole, 12 * years)?;
        // PostgreSQL counts years in 32 bits.
        if whole.checked_mul(years).is_none_or(|years| i32::try_from(years).is_err()) {
            return Err(Failure::Field);
        }
        add(&mut self.months, (fraction * 12.0 * years as f64).round_ties_even() as i64, 1)
    }

    fn add_days(&mut self, whole: i64, days: i64) -> Result<(), Failure> {
        add(&mut self.days, whole, days)?;
        i32::try_from(self.days).map(|_| ()).map_err(|_| Failure::Field)
    }

    fn add_fraction_of_days(&mut self, fraction: f64, days: i64) -> Result<(), Failure> {
        let days = fraction * days as f64;
        self.add_days(days as i64, 1)?;
        self.add_micros(0, days - days.trunc(), DAY_US)
    }

    fn add_micros(&mut self, whole: i64, fraction: f64, unit_us: i64) -> Result<(), Failure> {
        add(&mut self.micros, whole, unit_us)?;
        let micros = fraction * unit_us as f64;
        let rest = micros - micros.trunc();
        let round = i64::from(rest > 0.5) - i64::from(rest < -0.5);
        add(&mut self.micros, micros as i64 + round, 1)
    }

    pub(super) fn finish(self) -> Result<Interval, Failure> {
        let months = i32::try_from(self.months).map_err(|_| Failure::Whole)?;
        let days = i32::try_from(self.days).map_err(|_| Failure::Field)?;
        Ok(Interval { months, days, micros: self.micros })
    }
}

fn add(to: &mut i64, count: i64, of: i64) -> Result<(), Failure> {
    let more = count.checked_mul(of).and_then(|more| to.checked_add(more));
    *to = more.ok_or(Failure::Field)?;
    Ok(())
}

/// Reads a number: its whole part, and its fraction with the same sign.
pub(super) fn number(text: &str) -> Result<(i64, f64), Failure> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches(['+', '-']);
    if !digits.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Syntax);
    }
    let value = match digits {
        "" if digits.len() < whole.len() => return Err(Failure::Syntax),
        "" => 0,
        _ => whole.parse().map_err(|_| Failure::Field)?,
    };
    let part: f64 = match fraction {
        "" => 0.0,
        _ => format!("0.{fraction}").parse().map_err(|_| Failure::Syntax)?,
    };
    Ok((value, if whole.starts_with('-') { -part } else { part }))
}

/// A piece of the text.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A word, in lower case.
    Word(String),
    /// A number, or several with signs between.
    Number(String),
}

/// Splits a text at blanks, punctuation, and between digits and letters.
fn tokens(text: &str) -> Result<Vec<Token>, Failure> {
    let mut all = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    let span = |from: usize, inside: &dyn Fn(u8) -> bool| {
        from + bytes[from..].iter().take_while(|byte| inside(**byte)).count()
    };
    let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-');
    while at < bytes.len() {
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => at += 1,
            sign @ (b'+' | b'-') => {
                let from = span(at + 1, &|byte| byte.is_ascii_whitespace());
                let end = span(from, &is_number);
                if end == from {
                    return Err(Failure::Syntax);
                }
                all.push(Token::Number(format!("{}{}", char::from(sign), &text[from..end])));
                at = end;
            }
            byte if byte.is_ascii_digit() || byte == b'.' => {
                let end = span(at, &is_number);
                all.push(Token::Number(text[at..end].to_owned()));
                at = end;
            }
            byte if byte.is_ascii_alphabetic() => {
                let end = span(at, &|byte| byte.is_ascii_alphabetic());
                all.push(Token::Word(text[at..end].to_ascii_lowercase()));
                at = end;
            }
            byte if byte.is_ascii_punctuation() => at += 1,
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(all)
}

/// A set of fields that have a value.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    /// Adds fields, none of which may be there.
    fn add(&mut self, units: &[Unit]) -> Result<(), Failure> {
        let mask = units.iter().fold(0, |mask, unit| mask | 1 << *unit as u32);
        if self.0 & mask != 0 {
            return Err(Failure::Syntax);
        }
        self.0 |= mask;
        Ok(())
    }
}

/// Reads an interval.
pub(super) fn read(text: &str, fields: Option<Fields>) -> Result<Interval, Failure> {
    let (mut sum, mut seen) = (Sum::default(), Seen::default());
    let mut unit = Some(implied(fields));
    let mut ago = false;
    for token in tokens(text)?.iter().rev() {
        match token {
            // A number before it must have a unit.
            Token::Word(word) if word == "ago" => (ago, unit) = (true, None),
            Token::Word(word) => unit = Some(Unit::of_name(word).ok_or(Failure::Syntax)?),
            Token::Number(number) if number.contains(':') => {
                time(number, fields, &mut sum)?;
                seen.add(&[
                    Unit::Hour,
                    Unit::Minute,
                    Unit::Second,
                    Unit::Millisecond,
                    Unit::Microsecond,
                ])?;
                unit = Some(Unit::Day);
            }
            Token::Number(text) => match text.get(1..).and_then(|rest| rest.split_once('-')) {
                Some((_, months)) => {
                    let years = &text[..text.len() - months.len() - 1];
                    let years_only: i64 = match number(years)? {
                        (years_only, _) if !years.contains('.') => years_only,
                        _ => return Err(Failure::Syntax),
                    };
                    let months: i64 = match number(months)? {
                        (months_only @ 0..12, _) if !months.contains('.') => months_only,
                        (12.., _) => return Err(Failure::Field),
                        _ => return Err(Failure::Syntax),
                    };
                    let sign = if text.starts_with('-') { -1 } else { 1 };
                    sum.add(Unit::Year, years_only, 0.0)?;
                    sum.add(Unit::Month, sign * months, 0.0)?;
                    seen.add(&[Unit::Month])?;
                    unit = Some(Unit::Month);
                }
                None => {
                    let (whole, fraction) = number(text)?;
                    let of = unit.ok_or(Failure::Syntax)?;
                    sum.add(of, whole, fraction)?;
                    match of {
                        Unit::Second if fraction != 0.0 => {
                            seen.add(&[Unit::Second, Unit::Millisecond, Unit::Microsecond])?;
                        }
                        of => seen.add(&[of])?,
                    }
                    unit = Some(if of == Unit::Hour { Unit::Day } else { of });
                }
            },
        }
    }
    if seen.0 == 0 {
        return Err(Failure::Syntax);
    }
    if ago {
        let negated = |n: i64| n.checked_neg().ok_or(Failure::Field);
        sum = Sum {
            months: negated(sum.months)?,
            days: negated(sum.days)?,
            micros: negated(sum.micros)?,
        };
    }
    sum.finish()
}

/// Returns the unit of a number at the end of a text.
fn implied(fields: Option<Fields>) -> Unit {
    match fields.map(|fields| fields.last) {
        Some(Field::Year) => Unit::Year,
        Some(Field::Month) => Unit::Month,
        Some(Field::Day) => Unit::Day,
        Some(Field::Hour) => Unit::Hour,
        Some(Field::Minute) => Unit::Minute,
        Some(Field::Second) | None => Unit::Second,
    }
}

/// Sets the time to `[-]hours:minutes[:seconds]`, or `minutes:seconds.fraction`; what the fractions
/// of larger units behind it have added is lost, as in PostgreSQL.
fn time(text: &str, fields: Option<Fields>, sum: &mut Sum) -> Result<(), Failure> {
    let negative = text.starts_with('-');
    let parts: Vec<&str> = text.trim_start_matches(['+', '-']).split(':').collect();
    let is_whole = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let of_minutes = fields.is_some_and(|fields| fields.first == Field::Minute);
    let (hours, minutes, seconds) = match parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') || of_minutes => ("0", *minutes, *seconds),
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return Err(Failure::Syntax),
    };
    if hours.is_empty() || !is_whole(hours) || !is_whole(minutes) || seconds.contains('-') {
        return Err(Failure::Syntax);
    }
    let ((hours, _), (minutes, _)) = (number(hours)?, number(minutes)?);
    let (seconds, fraction) = number(seconds)?;
    if minutes > 59 || seconds > 60 {
        return Err(Failure::Field);
    }
    let sign = if negative { -1 } else { 1 };
    sum.micros = 0;
    sum.add(Unit::Hour, sign * hours, 0.0)?;
    sum.add(Unit::Minute, sign * minutes, 0.0)?;
    let micros = (fraction * 1e6).round_ties_even() as i64;
    sum.add(Unit::Microsecond, sign * (seconds * SECOND_US + micros), 0.0)
}
