//! `to_date` and `to_timestamp`: times read by a template.
//!
//! Without `FX`, blanks before a field are skipped, and a separator of the template stands for any
//! one, or for none. A field before a separator takes all digits, another as many as its pattern
//! is long.

use super::template::{Key, Node, nodes};
use super::times::{DAYS, MONTHS};
use crate::datetime::Civil;
use crate::datetime::civil::{date_of, days_of, julian, valid_days};
use crate::error::{SqlError, state};
use crate::interrupt;

/// The fields that are read.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    is_half_day: bool,
    after_noon: bool,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    millis: Option<i64>,
    micros: Option<i64>,
}

fn bad(message: String) -> SqlError {
    SqlError::new(state::BAD_DATETIME, message)
}

fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

/// Sets a field; a second value must be the same.
fn set(field: &mut Option<i64>, value: i64, name: &str) -> Result<(), SqlError> {
    if field.is_some_and(|old| old != 0 && old != value) {
        let message = format!("conflicting values for \"{name}\" field in formatting string");
        let detail = "This value contradicts a previous setting for the same field type.";
        return Err(bad(message).detail(detail));
    }
    *field = Some(value);
    Ok(())
}

/// Skips blanks; returns their number.
fn skip_blanks(rest: &mut &str) -> i32 {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let skipped = rest.len() - after.len();
    *rest = after;
    skipped as i32
}

/// True if what follows a pattern is no digit, so that the field takes all of them.
fn ends_field(all: &[Node], at: usize) -> bool {
    if let Node::Pattern { ordinal: Some(_), .. } = all[at] {
        return true;
    }
    match all.get(at + 1) {
        None => true,
        Some(Node::Text { shown, .. }) => !shown.is_ascii_digit(),
        Some(Node::Pattern { key, .. }) => matches!(
            key,
            Key::Era(_)
                | Key::Half(_)
                | Key::DayName
                | Key::DayAbbreviated
                | Key::MonthName
                | Key::MonthAbbreviated
                | Key::RomanMonth
                | Key::Fixed
                | Key::Zone
                | Key::ZoneHour
                | Key::Offset
        ),
    }
}

/// Takes a number of a pattern; returns it and its length in characters.
fn number(
    rest: &mut &str,
    width: usize,
    takes_all: bool,
    name: &str,
) -> Result<(i64, usize), SqlError> {
    skip_blanks(rest);
    let copy: String = rest.chars().take(width).collect();
    let invalid =
        |detail: String| bad(format!("invalid value \"{copy}\" for \"{name}\"")).detail(detail);
    if !takes_all && copy.len() < width {
        let message = format!("source string too short for \"{name}\" formatting field");
        let detail = format!("Field requires {width} characters, but only {} remain.", copy.len());
        return Err(bad(message)
            .detail(detail)
            .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
    }
    let from = if takes_all { *rest } else { copy.as_str() };
    let sign = usize::from(from.starts_with(['+', '-']));
    let count = from[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return Err(invalid("Value must be an integer.".into()));
    }
    let length = sign + count;
    if !takes_all && length < width {
        let detail =
            format!("Field requires {width} characters, but only {length} could be parsed.");
        return Err(invalid(detail)
            .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
    }
    let value = from[..length].parse::<i32>().map_err(|_| {
        let message = format!("value for \"{name}\" in source string is out of range");
        SqlError::new(state::DATETIME_OVERFLOW, message)
            .detail("Value must be in the range -2147483648 to 2147483647.")
    })?;
    *rest = &rest[length..];
    Ok((value.into(), length))
}

/// Takes one of several words; returns its place.
fn word(rest: &mut &str, words: &[&str], name: &str) -> Result<usize, SqlError> {
    let is_here =
        |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let found = words.iter().position(is_here).ok_or_else(|| {
        let copy = rest.split_ascii_whitespace().next().unwrap_or("");
        bad(format!("invalid value \"{copy}\" for \"{name}\""))
            .detail("The given value did not match any of the allowed values for this field.")
    })?;
    *rest = &rest[words[found].len()..];
    Ok(found)
}

/// Completes a year of fewer than four digits to one near 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

/// Returns the days since 2000, perhaps out of range, and the microseconds of the day.
pub(super) fn read(text: &str, template: &str) -> Result<(i64, i64), SqlError> {
    let all = nodes(template);
    let (mut fields, mut rest) = (Fields::default(), text);
    let (mut fixed, mut extra) = (false, 0);
    for (at, node) in all.iter().enumerate() {
        interrupt::step();
        if rest.is_empty() {
            break;
        }
        let is_fixed_mark = matches!(node, Node::Pattern { key: Key::Fixed, .. });
        let is_pattern = matches!(node, Node::Pattern { .. });
        if !fixed && !is_fixed_mark && (is_pattern || at == 0) {
            extra += skip_blanks(&mut rest);
        }
        let step = |rest: &mut &str| {
            let mut chars = rest.chars();
            chars.next();
            *rest = chars.as_str();
        };
        match node {
            Node::Text { .. } if fixed => step(&mut rest),
            Node::Text { shown, quoted: false } if *shown == ' ' || is_separator(*shown) => {
                extra -= 1;
                if rest.starts_with(|c: char| c.is_ascii_whitespace() || is_separator(c)) {
                    step(&mut rest);
                    extra += 1;
                }
            }
            Node::Text { .. } if extra > 0 => extra -= 1,
            Node::Text { .. } => step(&mut rest),
            Node::Pattern { key: Key::Fixed, .. } => fixed = true,
            Node::Pattern { key, name, bare, ordinal, .. } => {
                let takes_all = *bare || ends_field(&all, at);
                field(&mut fields, &mut rest, *key, name, takes_all)?;
                if ordinal.is_some() {
                    step(&mut rest);
                    step(&mut rest);
                }
                if !fixed {
                    extra = skip_blanks(&mut rest);
                }
            }
        }
    }
    fields.finish(text)
}

fn field(
    fields: &mut Fields,
    rest: &mut &str,
    key: Key,
    name: &str,
    takes_all: bool,
) -> Result<(), SqlError> {
    let mut whole = |width: usize| number(rest, width, takes_all, name);
    match key {
        Key::Year(digits) => {
            let (year, length) = whole(digits as usize)?;
            let year = if digits < 4 && length < 4 { near_2020(year) } else { year };
            set(&mut fields.year, year, name)
        }
        Key::Month => set(&mut fields.month, whole(2)?.0, name),
        Key::Day => set(&mut fields.day, whole(2)?.0, name),
        Key::DayOfYear => set(&mut fields.day_of_year, whole(3)?.0, name),
        Key::Julian => set(&mut fields.julian, whole(1)?.0, name),
        Key::Hour24 => set(&mut fields.hour, whole(2)?.0, name),
        Key::Hour12 => {
            fields.is_half_day = true;
            set(&mut fields.hour, whole(2)?.0, name)
        }
        Key::Minute => set(&mut fields.minute, whole(2)?.0, name),
        Key::Second => set(&mut fields.second, whole(2)?.0, name),
        Key::SecondOfDay => set(&mut fields.second_of_day, whole(name.len())?.0, name),
        Key::Milliseconds => {
            let (value, length) = whole(3)?;
            set(&mut fields.millis, value * 10i64.pow(3 - length.min(3) as u32), name)
        }
        Key::Microseconds => {
            let (value, length) = whole(6)?;
            set(&mut fields.micros, value * 10i64.pow(6 - length.min(6) as u32), name)
        }
        Key::Fraction(digits) => {
            let (value, length) = whole(digits as usize)?;
            set(&mut fields.micros, value * 10i64.pow(6 - length.min(6) as u32), name)
        }
        Key::Quarter => whole(1).map(|_| ()),
        Key::MonthName => {
            let month = word(rest, &MONTHS, name)?;
            set(&mut fields.month, month as i64 + 1, name)
        }
        Key::MonthAbbreviated => {
            let month = word(rest, &MONTHS.map(|month| &month[..3]), name)?;
            set(&mut fields.month, month as i64 + 1, name)
        }
        Key::DayName => word(rest, &DAYS, name).map(|_| ()),
        Key::DayAbbreviated => word(rest, &DAYS.map(|day| &day[..3]), name).map(|_| ()),
        Key::Era(points) => {
            let words = if points { ["B.C.", "A.D."] } else { ["BC", "AD"] };
            fields.before_christ = word(rest, &words, name)? == 0;
            Ok(())
        }
        Key::Half(points) => {
            let words = if points { ["P.M.", "A.M."] } else { ["PM", "AM"] };
            fields.after_noon = word(rest, &words, name)? == 0;
            fields.is_half_day = true;
            Ok(())
        }
        _ => Err(SqlError::unsupported(format!("the pattern {name} of to_date and to_timestamp"))),
    }
}

impl Fields {
    fn finish(self, text: &str) -> Result<(i64, i64), SqlError> {
        let out_of_range = || {
            SqlError::new(
                state::DATETIME_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            )
        };
        let mut hour = self.hour.unwrap_or(0);
        if self.is_half_day {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(
                    bad(message).hint("Use the 24-hour clock, or give an hour between 1 and 12.")
                );
            }
            hour = hour % 12 + if self.after_noon { 12 } else { 0 };
        }
        let (mut minute, mut second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if let Some(of_day) = self.second_of_day {
            (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        }
        let micros = self.millis.unwrap_or(0) * 1000 + self.micros.unwrap_or(0);
        let year = match self.year.unwrap_or(0) {
            year if self.before_christ && year > 0 => 1 - year,
            year if year < 0 => year + 1,
            year => year,
        };
        let given = |field: Option<i64>| field.filter(|n| *n != 0);
        let days = if let Some(day) = given(self.julian) {
            day - julian(0)
        } else if let Some(of_year) = given(self.day_of_year) {
            if given(self.year).is_none() {
                return Err(bad("cannot calculate day of year without year information".into()));
            }
            let days = days_of(year, 1, 1) + of_year - 1;
            if of_year < 1 || date_of(days).0 != year {
                return Err(out_of_range());
            }
            days
        } else {
            let (month, day) = (given(self.month).unwrap_or(1), given(self.day).unwrap_or(1));
            valid_days(year, month, day).ok_or_else(out_of_range)?
        };
        let (year, month, day) = date_of(days);
        let at = Civil { year, month, day, hour, minute, second, micros };
        let is_there = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&micros);
        if !is_there {
            return Err(out_of_range());
        }
        Ok((days, at.within()))
    }
}
