//! Reads intervals of ISO 8601: by designators (`P1Y2M3DT4H5M6S`), and in the alternative format,
//! extended (`P0001-02-03T04:05:06`) or basic (`P00010203T040506`).

use super::Interval;
use super::read::{Failure, Sum, Unit};

/// Reads an interval; the text begins with `P`.
pub(super) fn read(text: &str) -> Result<Interval, Failure> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Failure::Syntax)?;
    let mut sum = Sum::default();
    let (mut in_date, mut has_field) = (true, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (in_date, has_field, rest) = (false, false, after);
            continue;
        }
        let start = rest;
        let (whole, fraction) = take(&mut rest)?;
        let mut chars = rest.chars();
        let designator = chars.next();
        let after = chars.as_str();
        let digits = start.bytes().take_while(u8::is_ascii_digit).count();
        let unit = match (in_date, designator) {
            (true, Some('Y')) => Unit::Year,
            (true, Some('M')) => Unit::Month,
            (true, Some('W')) => Unit::Week,
            (true, Some('D')) => Unit::Day,
            (false, Some('H')) => Unit::Hour,
            (false, Some('M')) => Unit::Minute,
            (false, Some('S')) => Unit::Second,
            // The basic format: YYYYMMDD, HHMMSS.
            (true, None | Some('T')) if digits == 8 && !has_field => {
                sum.add(Unit::Year, whole / 10_000, 0.0)?;
                sum.add(Unit::Month, whole / 100 % 100, 0.0)?;
                sum.add(Unit::Day, whole % 100, fraction)?;
                (in_date, has_field, rest) = (false, false, after);
                continue;
            }
            (false, None) if digits == 6 && !has_field => {
                sum.add(Unit::Hour, whole / 10_000, 0.0)?;
                sum.add(Unit::Minute, whole / 100 % 100, 0.0)?;
                sum.add(Unit::Second, whole % 100, fraction)?;
                break;
            }
            // The extended format: up to three fields between signs.
            (true, None | Some('T' | '-')) if !has_field => {
                let units = [Unit::Year, Unit::Month, Unit::Day];
                extended(&mut sum, &mut rest, (whole, fraction), units, '-')?;
                match rest.strip_prefix('T') {
                    Some(after) => (in_date, has_field, rest) = (false, false, after),
                    None if rest.is_empty() => break,
                    None => return Err(Failure::Syntax),
                }
                continue;
            }
            (false, None | Some(':')) if !has_field => {
                let units = [Unit::Hour, Unit::Minute, Unit::Second];
                extended(&mut sum, &mut rest, (whole, fraction), units, ':')?;
                match rest.is_empty() {
                    true => break,
                    false => return Err(Failure::Syntax),
                }
            }
            _ => return Err(Failure::Syntax),
        };
        sum.add(unit, whole, fraction)?;
        (has_field, rest) = (true, after);
    }
    sum.finish()
}

/// Adds the fields of the extended format, the first of which is read.
fn extended(
    sum: &mut Sum,
    rest: &mut &str,
    first: (i64, f64),
    units: [Unit; 3],
    between: char,
) -> Result<(), Failure> {
    sum.add(units[0], first.0, first.1)?;
    for unit in &units[1..] {
        let Some(after) = rest.strip_prefix(between) else { return Ok(()) };
        *rest = after;
        let (whole, fraction) = take(rest)?;
        sum.add(*unit, whole, fraction)?;
    }
    Ok(())
}

/// Takes a number from the beginning of the text.
fn take(rest: &mut &str) -> Result<(i64, f64), Failure> {
    let sign = usize::from(rest.starts_with('-'));
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = sign + digits(sign);
    if rest[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    let (text, after) = rest.split_at(end);
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Syntax);
    }
    *rest = after;
    // PostgreSQL takes the fraction from the float that is nearest to the number.
    let value: f64 = text.parse().map_err(|_| Failure::Syntax)?;
    match value.abs() < 1e15 {
        true => Ok((value as i64, value - value.trunc())),
        false => Err(Failure::Field),
    }
}
