//! Numbers in the texts of times: by their place, run together, with colons, and as offsets.

use super::Failure;
use super::decode::Decoder;

/// The parts of a time that may be known.
pub(super) mod mask {
    pub(crate) const YEAR: u32 = 1;
    pub(crate) const MONTH: u32 = 1 << 1;
    pub(crate) const DAY: u32 = 1 << 2;
    pub(crate) const DAY_OF_YEAR: u32 = 1 << 3;
    pub(crate) const HOUR: u32 = 1 << 4;
    pub(crate) const MINUTE: u32 = 1 << 5;
    pub(crate) const SECOND: u32 = 1 << 6;
    /// The part of a second.
    pub(crate) const FRACTION: u32 = 1 << 13;
    pub(crate) const ZONE: u32 = 1 << 7;
    /// An abbreviation of summer time.
    pub(crate) const SUMMER_ZONE: u32 = 1 << 8;
    /// The word that makes a zone's time its summer time.
    pub(crate) const SUMMER: u32 = 1 << 9;
    pub(crate) const HALF: u32 = 1 << 10;
    pub(crate) const ERA: u32 = 1 << 11;
    pub(crate) const DAY_OF_WEEK: u32 = 1 << 12;
    /// A word that is a time by itself.
    pub(crate) const CONSTANT: u32 = 1 << 14;
    pub(crate) const DATE: u32 = YEAR | MONTH | DAY;
    pub(crate) const TIME: u32 = HOUR | MINUTE | SECOND | FRACTION;
}

/// The hours of an offset at most.
const MOST_OFFSET_HOURS: i64 = 15;

/// Returns a number of digits. Fails for one beyond 32 bits.
pub(super) fn whole(digits: &str) -> Result<i64, Failure> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Syntax);
    }
    digits.parse::<i32>().map(i64::from).map_err(|_| Failure::Field)
}

/// Returns a number of digits, or a number that is too large for all uses.
fn saturating(digits: &str) -> i64 {
    digits.parse::<i32>().unwrap_or(i32::MAX).into()
}

/// Returns the value of a fraction, which begins with its point.
fn fraction(text: &str) -> Result<f64, Failure> {
    match text.strip_prefix('.') {
        Some("") => Ok(0.0),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| Failure::Syntax)
        }
        _ => Err(Failure::Syntax),
    }
}

/// Returns the microseconds of a fraction of a second.
pub(super) fn micros(text: &str) -> Result<i64, Failure> {
    Ok((fraction(text)? * 1e6).round_ties_even() as i64)
}

/// Returns the microseconds of a fraction of a day.
pub(super) fn of_a_day(text: &str) -> Result<i64, Failure> {
    Ok((fraction(text)? * super::DAY_US as f64) as i64)
}

/// Reads a number whose meaning follows from what is known.
pub(super) fn number(decoder: &mut Decoder<'_>, text: &str, known: u32) -> Result<u32, Failure> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = whole(&text[..end])?;
    if end < text.len() {
        if end > 2 {
            return run_together(decoder, text, known | mask::DATE);
        }
        decoder.micros = micros(&text[end..])?;
    }
    let length = text.len();
    if length == 3 && known & mask::DATE == mask::YEAR && (1..=366).contains(&value) {
        decoder.day_of_year = value;
        return Ok(mask::DAY_OF_YEAR | mask::MONTH | mask::DAY);
    }
    let (year, month, day) = (mask::YEAR, mask::MONTH, mask::DAY);
    let is_named = decoder.has_month_name;
    let part = match known & mask::DATE {
        0 if length >= 3 => year,
        0 => month,
        known if known == year || known == day => month,
        known if known == month && is_named && length >= 3 => year,
        known if known == month => day,
        known if known == year | month => {
            if is_named && length >= 3 && decoder.is_short_year {
                // What was taken for a year is the day.
                (decoder.day, decoder.year) = (decoder.year, value);
                decoder.is_short_year = false;
                return Ok(day);
            }
            day
        }
        known if known == month | day => year,
        known if known == mask::DATE => return run_together(decoder, text, known),
        _ => return Err(Failure::Syntax),
    };
    match part {
        mask::YEAR => {
            decoder.year = value;
            decoder.is_short_year = length <= 2;
        }
        mask::MONTH => decoder.month = value,
        _ => decoder.day = value,
    }
    Ok(part)
}

/// Reads a date or a time whose numbers are run together: `20011223`, `040506.789`.
pub(super) fn run_together(
    decoder: &mut Decoder<'_>,
    text: &str,
    known: u32,
) -> Result<u32, Failure> {
    let (digits, point) = match text.find('.') {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Syntax);
    }
    let length = digits.len();
    match point {
        Some(point) => decoder.micros = micros(point)?,
        None if known & mask::DATE != mask::DATE && length >= 6 => {
            decoder.day = saturating(&digits[length - 2..]);
            decoder.month = saturating(&digits[length - 4..length - 2]);
            decoder.year = saturating(&digits[..length - 4]);
            decoder.is_short_year |= length == 6;
            return Ok(mask::DATE);
        }
        None => {}
    }
    if known & mask::TIME == mask::TIME || !matches!(length, 4 | 6) {
        return Err(Failure::Syntax);
    }
    decoder.hour = saturating(&digits[..2]);
    decoder.minute = saturating(&digits[2..4]);
    decoder.second = if length == 6 { saturating(&digits[4..]) } else { 0 };
    Ok(mask::TIME)
}

/// Reads a time with colons. The caller checks the hours.
pub(super) fn clock(decoder: &mut Decoder<'_>, text: &str) -> Result<(), Failure> {
    let (whole_part, point) = match text.find('.') {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    let parts: Vec<i64> = whole_part
        .split(':')
        .map(|part| if part.is_empty() { Ok(0) } else { whole(part) })
        .collect::<Result<_, _>>()?;
    let micros = point.map_or(Ok(0), micros)?;
    let (hour, minute, second) = match (parts.as_slice(), point) {
        ([hour, minute, second], _) => (*hour, *minute, *second),
        ([hour, minute], None) => (*hour, *minute, 0),
        ([minute, second], Some(_)) => (0, *minute, *second),
        _ => return Err(Failure::Syntax),
    };
    if minute > 59 || second > 60 {
        return Err(Failure::Field);
    }
    (decoder.hour, decoder.minute, decoder.second, decoder.micros) = (hour, minute, second, micros);
    Ok(())
}

/// Returns the seconds to the east of an offset with its sign: `+2`, `-0330`, `+05:30`.
pub(super) fn offset(text: &str) -> Result<i32, Failure> {
    let digits = text.strip_prefix(['+', '-']).ok_or(Failure::Syntax)?;
    let part = |digits: &str| match whole(digits) {
        Err(Failure::Field) => Err(Failure::Displacement),
        other => other,
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let mut rest = &digits[end..];
    let (mut hours, mut minutes, mut seconds) = (part(&digits[..end])?, 0, 0);
    if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    for place in [&mut minutes, &mut seconds] {
        let Some(behind) = rest.strip_prefix(':') else { break };
        let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        *place = if end == 0 { 0 } else { part(&behind[..end])? };
        rest = &behind[end..];
    }
    if hours > MOST_OFFSET_HOURS || minutes > 59 || seconds > 59 {
        return Err(Failure::Displacement);
    }
    if !rest.is_empty() {
        return Err(Failure::Syntax);
    }
    let east_s = ((hours * 60 + minutes) * 60 + seconds) as i32;
    Ok(if text.starts_with('-') { -east_s } else { east_s })
}
