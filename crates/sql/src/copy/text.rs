//! The text format: a line for each row, with escapes by backslash.

use super::options::Options;

/// Splits a line into its fields, still escaped.
pub(super) fn fields(line: &[u8], delimiter: u8) -> Vec<&[u8]> {
    let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
    while at < line.len() {
        if line[at] == b'\\' {
            at += 1;
        } else if line[at] == delimiter {
            out.push(&line[from..at]);
            from = at + 1;
        }
        at += 1;
    }
    out.push(&line[from..]);
    out
}

/// Replaces the escapes of a field.
pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(field.len()), 0);
    while at < field.len() {
        let byte = field[at];
        at += 1;
        if byte != b'\\' || at == field.len() {
            out.push(byte);
            continue;
        }
        let escaped = field[at];
        at += 1;
        let digits = |base: u32, from: usize, most: usize| {
            let count = field[from..]
                .iter()
                .take(most)
                .take_while(|b| char::from(**b).is_digit(base))
                .count();
            let value = field[from..from + count]
                .iter()
                .fold(0, |n, b| n * base + char::from(*b).to_digit(base).unwrap_or(0));
            (count, value as u8)
        };
        out.push(match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let (count, value) = digits(8, at - 1, 3);
                at += count - 1;
                value
            }
            b'x' if digits(16, at, 2).0 > 0 => {
                let (count, value) = digits(16, at, 2);
                at += count;
                value
            }
            other => other,
        });
    }
    out
}

/// Appends a row; NULL is `None`.
pub(super) fn write<'a>(
    options: &Options,
    fields: impl Iterator<Item = Option<&'a str>>,
    out: &mut Vec<u8>,
) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(options.delimiter);
        }
        let Some(field) = field else {
            out.extend(&options.null);
            continue;
        };
        for byte in field.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend([b'\\', letter]);
        }
    }
    out.push(b'\n');
}
