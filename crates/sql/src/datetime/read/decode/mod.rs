//! The meaning of the fields of a text: what each stands for, given those before it.

mod settle;

use super::Failure;
use super::fields::{Field, Look, fields};
use super::numbers::{self, mask};
use super::words::{self, Unit, Word};
use crate::datetime::civil::date_of;
use crate::datetime::zone::{Local, Named, Zone};
use crate::datetime::{Civil, DAY_US};

/// The kind of a value that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A date or a timestamp.
    Moment,
    /// A time of the day.
    Time,
}

/// A time as a text gives it: days since 2000, microseconds since midnight, and the seconds to the
/// east of UTC of its zone, or else of the session's.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) days: i64,
    pub(super) within: i64,
    pub(super) east_s: i32,
}

#[derive(Debug)]
pub(super) enum Moment {
    At(Decoded),
    Epoch,
    Infinity,
    MinusInfinity,
}

/// The meaning of the fields so far.
pub(super) struct Decoder<'a> {
    kind: Kind,
    local: Local<'a>,
    /// The parts that are known ([`mask`]).
    pub(super) known: u32,
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) day_of_year: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
    /// True if the year has one or two digits.
    pub(super) is_short_year: bool,
    pub(super) has_month_name: bool,
    is_julian: bool,
    is_bc: bool,
    is_pm: Option<bool>,
    /// The kind of the next number.
    unit: Option<Unit>,
    east_s: i32,
    named: Option<Named>,
    constant: Option<Moment>,
}

/// Reads a date or a timestamp.
pub(super) fn moment(text: &str, local: Local<'_>) -> Result<Moment, Failure> {
    decode(text, Kind::Moment, local)
}

pub(super) fn decode(text: &str, kind: Kind, local: Local<'_>) -> Result<Moment, Failure> {
    let fields = fields(text, |word| words::find(word).is_some())?;
    let mut decoder = Decoder {
        kind,
        local,
        known: 0,
        year: 0,
        month: 0,
        day: 0,
        day_of_year: 0,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
        is_short_year: false,
        has_month_name: false,
        is_julian: false,
        is_bc: false,
        is_pm: None,
        unit: None,
        east_s: 0,
        named: None,
        constant: None,
    };
    for (at, field) in fields.iter().enumerate() {
        let found = match field.look {
            Look::Date => decoder.date_or_zone(&fields, at)?,
            Look::Time => decoder.time(&field.text)?,
            Look::Zone => decoder.offset(&field.text)?,
            Look::Number => decoder.number(&fields, at)?,
            Look::Word | Look::Signed => decoder.word(&fields, at)?,
        };
        decoder.learn(found)?;
    }
    decoder.finish()
}

impl<'a> Decoder<'a> {
    pub(super) fn has_all(&self, parts: u32) -> bool {
        self.known & parts == parts
    }

    fn is_time(&self) -> bool {
        self.kind == Kind::Time
    }

    /// The parts that count as known when a number is read: a time of the day needs no date.
    fn known_for_numbers(&self) -> u32 {
        if self.is_time() { self.known | mask::DATE } else { self.known }
    }

    /// Notes that parts are known. Fails if one was known before.
    pub(super) fn learn(&mut self, found: u32) -> Result<(), Failure> {
        if self.known & found != 0 {
            return Err(Failure::Syntax);
        }
        self.known |= found;
        Ok(())
    }

    fn date_or_zone(&mut self, fields: &[Field], at: usize) -> Result<u32, Failure> {
        let text = fields[at].text.as_str();
        if self.is_time() {
            let is_date = at == 0
                && fields.len() >= 2
                && (fields.last().is_some_and(|last| last.look == Look::Date)
                    || fields[1].look == Look::Time);
            return match is_date {
                true => self.date(text),
                false => self.time_or_zone(text),
            };
        }
        if self.unit == Some(Unit::Julian) {
            // A Julian day with a zone behind it.
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            self.set_julian(numbers::whole(&text[..end])?);
            self.unit = None;
            self.offset(&text[end..])?;
            return Ok(mask::DATE | mask::TIME | mask::ZONE);
        }
        if self.unit.is_none() && !self.has_all(mask::MONTH | mask::DAY) {
            return self.date(text);
        }
        if self.unit.take().is_some_and(|unit| unit != Unit::Time) {
            return Err(Failure::Syntax);
        }
        self.time_or_zone(text)
    }

    /// Reads a time that is run together, with an offset behind it, or the name of a zone.
    fn time_or_zone(&mut self, text: &str) -> Result<u32, Failure> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            let zone = Zone::named(text).ok_or_else(|| Failure::Zone(text.to_owned()))?;
            self.named = Some(Named::Zone(zone));
            return Ok(mask::ZONE);
        }
        let sign = text.find('-').filter(|_| !self.has_all(mask::TIME)).ok_or(Failure::Syntax)?;
        self.offset(&text[sign..])?;
        let known = self.known_for_numbers();
        let found = numbers::run_together(self, &text[..sign], known)?;
        Ok(found | mask::ZONE)
    }

    /// Reads a date of numbers or a month's name between separators.
    fn date(&mut self, text: &str) -> Result<u32, Failure> {
        let (mut rest, mut parts) = (text, Vec::new());
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let first = rest.chars().next().ok_or(Failure::Syntax)?;
            let is_digit = first.is_ascii_digit();
            let ends = |c: char| {
                if is_digit { !c.is_ascii_digit() } else { !c.is_ascii_alphabetic() }
            };
            let end = rest.find(ends).unwrap_or(rest.len());
            parts.push((&rest[..end], is_digit));
            // One character behind it is a separator, whichever it is.
            rest = rest.get(end + 1..).unwrap_or("");
        }
        let before = self.known;
        for (word, _) in parts.iter().filter(|(_, is_digit)| !is_digit) {
            match words::find(word) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) => {
                    (self.month, self.has_month_name) = (month, true);
                    self.learn(mask::MONTH)?;
                }
                _ => return Err(Failure::Syntax),
            }
        }
        for (digits, _) in parts.iter().filter(|(_, is_digit)| *is_digit) {
            let known = self.known;
            let found = numbers::number(self, digits, known)?;
            self.learn(found)?;
        }
        let found = self.known & !before;
        if self.known & !(mask::DAY_OF_YEAR | mask::ZONE) != mask::DATE {
            return Err(Failure::Syntax);
        }
        self.known = before;
        Ok(found)
    }

    fn time(&mut self, text: &str) -> Result<u32, Failure> {
        if !self.is_time() && self.unit.take().is_some_and(|unit| unit != Unit::Time) {
            return Err(Failure::Syntax);
        }
        numbers::clock(self, text)?;
        if !self.is_time() && !self.is_in_day() {
            return Err(Failure::Field);
        }
        Ok(mask::TIME)
    }

    fn offset(&mut self, text: &str) -> Result<u32, Failure> {
        self.east_s = numbers::offset(text)?;
        Ok(mask::ZONE)
    }

    fn number(&mut self, fields: &[Field], at: usize) -> Result<u32, Failure> {
        let text = fields[at].text.as_str();
        if let Some(unit) = self.unit.take() {
            return self.number_of(unit, text);
        }
        let known = self.known_for_numbers();
        let point = text.find('.');
        if self.is_time() {
            let is_date = at == 0
                && fields.len() >= 2
                && fields.last().is_some_and(|last| last.look == Look::Date);
            return match point {
                Some(_) if is_date => self.date(text),
                Some(point) if point > 2 => numbers::run_together(self, text, known),
                Some(_) => Err(Failure::Syntax),
                None if text.len() > 4 => numbers::run_together(self, text, known),
                None => numbers::number(self, text, known),
            };
        }
        match point {
            Some(_) if self.known & mask::DATE == 0 => self.date(text),
            Some(point) if point > 2 => numbers::run_together(self, text, known),
            _ if text.len() >= 6
                && (self.known & mask::DATE == 0 || self.known & mask::TIME == 0) =>
            {
                numbers::run_together(self, text, known)
            }
            _ => numbers::number(self, text, known),
        }
    }

    /// Reads a number whose kind a word has told.
    fn number_of(&mut self, unit: Unit, text: &str) -> Result<u32, Failure> {
        let (digits, fraction) = match text.find('.') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        let has_fraction = matches!(unit, Unit::Julian | Unit::Time | Unit::Second);
        if fraction.is_some() && !has_fraction {
            return Err(Failure::Syntax);
        }
        if unit == Unit::Time {
            let known = self.known | mask::DATE;
            let found = numbers::run_together(self, text, known)?;
            return if found == mask::TIME { Ok(found) } else { Err(Failure::Syntax) };
        }
        let value = numbers::whole(digits)?;
        Ok(match unit {
            Unit::Year => {
                self.year = value;
                mask::YEAR
            }
            // Behind a month and an hour it is one of minutes.
            Unit::Month if self.has_all(mask::MONTH | mask::HOUR) => {
                self.minute = value;
                mask::MINUTE
            }
            Unit::Month => {
                self.month = value;
                mask::MONTH
            }
            Unit::Day => {
                self.day = value;
                mask::DAY
            }
            Unit::Hour => {
                self.hour = value;
                mask::HOUR
            }
            Unit::Minute => {
                self.minute = value;
                mask::MINUTE
            }
            Unit::Second => {
                self.second = value;
                let Some(fraction) = fraction else { return Ok(mask::SECOND) };
                self.micros = numbers::micros(fraction)?;
                mask::SECOND | mask::FRACTION
            }
            Unit::Julian => {
                self.set_julian(value);
                let Some(fraction) = fraction else { return Ok(mask::DATE) };
                self.set_time(numbers::of_a_day(fraction)?);
                mask::DATE | mask::TIME
            }
            Unit::Time | Unit::Other => return Err(Failure::Syntax),
        })
    }

    fn word(&mut self, fields: &[Field], at: usize) -> Result<u32, Failure> {
        let text = fields[at].text.as_str();
        match Named::abbreviation(text) {
            Some(Named::Offset { east_s, is_summer }) => {
                self.east_s = east_s;
                return Ok(mask::ZONE | if is_summer { mask::SUMMER_ZONE } else { 0 });
            }
            Some(named) => {
                self.named = Some(named);
                return Ok(mask::ZONE);
            }
            None => {}
        }
        let Some(word) = words::find(text) else {
            self.named = Some(Named::Zone(Zone::named(text).ok_or(Failure::Syntax)?));
            return Ok(mask::ZONE);
        };
        Ok(match word {
            Word::Ignored => 0,
            Word::Month(month) => {
                let has_number = self.known & mask::MONTH != 0
                    && !self.has_month_name
                    && self.known & mask::DAY == 0
                    && (1..=31).contains(&self.month);
                // What was taken for a month is the day.
                if has_number && !self.is_time() {
                    self.day = self.month;
                }
                (self.month, self.has_month_name) = (month, true);
                if has_number { mask::DAY } else { mask::MONTH }
            }
            Word::DayOfWeek => mask::DAY_OF_WEEK,
            Word::Half { is_pm } => {
                self.is_pm = Some(is_pm);
                mask::HALF
            }
            Word::Era { is_bc } => {
                self.is_bc = is_bc;
                mask::ERA
            }
            Word::Unit(_) if self.unit.is_some() => return Err(Failure::Syntax),
            Word::Unit(unit) => {
                self.unit = Some(unit);
                0
            }
            Word::TimeFollows => {
                let follows = fields.get(at + 1).is_some_and(|next| {
                    matches!(next.look, Look::Number | Look::Time | Look::Date)
                });
                if !follows || !(self.is_time() || self.has_all(mask::DATE)) {
                    return Err(Failure::Syntax);
                }
                self.unit = Some(Unit::Time);
                0
            }
            Word::Summer => {
                self.east_s += 3600;
                mask::SUMMER | mask::SUMMER_ZONE
            }
            Word::Midnight => {
                self.set_time(0);
                self.east_s = 0;
                mask::TIME | mask::ZONE
            }
            Word::Now => {
                let now_us = self.local.now_us.ok_or(Failure::Relative)?;
                let at = self.local.zone.local(now_us);
                self.set_time(at.rem_euclid(DAY_US));
                if self.is_time() {
                    return Ok(mask::TIME);
                }
                self.set_day(at.div_euclid(DAY_US));
                self.east_s = self.local.zone.east_s(now_us);
                mask::DATE | mask::TIME | mask::ZONE
            }
            _ if self.is_time() => return Err(Failure::Syntax),
            Word::Yesterday => self.set_today(-1)?,
            Word::Today => self.set_today(0)?,
            Word::Tomorrow => self.set_today(1)?,
            Word::Epoch => self.set_constant(Moment::Epoch),
            Word::Infinity => self.set_constant(Moment::Infinity),
            Word::MinusInfinity => self.set_constant(Moment::MinusInfinity),
        })
    }

    fn set_constant(&mut self, moment: Moment) -> u32 {
        self.constant = Some(moment);
        mask::CONSTANT
    }

    /// Sets the date to the present one and some days.
    fn set_today(&mut self, days: i64) -> Result<u32, Failure> {
        let now_us = self.local.now_us.ok_or(Failure::Relative)?;
        self.set_day(self.local.zone.local(now_us).div_euclid(DAY_US) + days);
        Ok(mask::DATE)
    }

    fn set_day(&mut self, days: i64) {
        (self.year, self.month, self.day) = date_of(days);
        self.is_julian = true;
    }

    fn set_julian(&mut self, julian: i64) {
        self.set_day(julian - 2_451_545);
    }

    fn set_time(&mut self, within: i64) {
        let Civil { hour, minute, second, micros, .. } = Civil::of(within);
        (self.hour, self.minute, self.second, self.micros) = (hour, minute, second, micros);
        // The last moment of a day is its 24th hour, and not the next day's first.
        if within == DAY_US {
            self.hour = 24;
        }
    }

    fn within(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros
    }

    /// True if a day has the time, its end among them.
    fn is_in_day(&self) -> bool {
        (0..=DAY_US).contains(&self.within()) && self.minute < 60 && self.second <= 60
    }
}
