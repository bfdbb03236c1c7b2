//! Numbers of `jsonb`: decimal digits of any length, as PostgreSQL's `numeric` shows them.

use crate::error::SqlError;
use crate::numeric::Written;

/// Appends a number of JSON without an exponent: `-1.50e1` is `-15.0`. Fails with 22003 if it has
/// more digits than a `numeric` may have.
pub(super) fn write_plain(text: &str, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let number = Written::of(text)?.ok_or_else(|| SqlError::corrupted("a number of JSON"))?;
    let (scale, is_zero) = (i64::from(number.scale()?), number.is_zero());
    let Written { is_negative, whole, fraction, exponent } = number;
    let point = whole.len() as i64 + exponent;
    if is_negative && !is_zero {
        out.push(b'-');
    }
    let digits = || whole.bytes().chain(fraction.bytes());
    let before = if is_zero { 0 } else { point.max(0) as usize };
    let leading = digits().take_while(|digit| *digit == b'0').count().min(before);
    match before > leading {
        true => out.extend(digits().chain(std::iter::repeat(b'0')).take(before).skip(leading)),
        false => out.push(b'0'),
    }
    if scale > 0 {
        out.push(b'.');
        let zeros = (-point).clamp(0, scale) as usize;
        out.extend(std::iter::repeat_n(b'0', zeros));
        let behind = digits().skip(point.max(0) as usize).chain(std::iter::repeat(b'0'));
        out.extend(behind.take(scale as usize - zeros));
    }
    Ok(())
}

/// Appends bytes that compare like the numbers: equal numbers of different scale have the same.
pub(super) fn write_key(plain: &str, out: &mut Vec<u8>) {
    let (is_negative, plain) = match plain.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, plain),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return out.push(1);
    }
    out.push(if is_negative { 0 } else { 2 });
    let from = out.len();
    let (magnitude, digits) = match whole {
        "" => {
            let rest = fraction.trim_start_matches('0');
            (-((fraction.len() - rest.len()) as i64), rest.to_owned())
        }
        _ => (whole.len() as i64, format!("{whole}{fraction}")),
    };
    out.extend(((magnitude + (1 << 31)) as u32).to_be_bytes());
    // A digit is above the end, which is 0.
    out.extend(digits.trim_end_matches('0').bytes());
    out.push(0);
    if is_negative {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}
