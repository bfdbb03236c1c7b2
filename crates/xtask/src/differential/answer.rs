//! Answers of servers, and the values in them as text.

use bytes::BytesMut;
use std::error::Error;
use std::time::Duration;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type};

/// The result of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The names and types of the columns; the types are unknown if the server did not describe
    /// the statement before it ran.
    pub columns: Vec<(String, Type)>,
    /// The types of the parameters.
    pub parameters: Vec<Type>,
    /// The rows, each value as text.
    pub rows: Vec<Vec<Option<String>>>,
    /// The number of rows that the server counts.
    pub affected: u64,
}

/// The outcome of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It succeeded.
    Done(Done),
    /// It failed with a SQLSTATE and a message.
    Failed(String, String),
    /// The connection broke, or there was no response in time.
    Lost(String),
}

/// The outcome of a statement, and its duration.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The outcome.
    pub outcome: Outcome,
    /// The duration.
    pub took: Duration,
}

impl Answer {
    /// Returns the answer for people, with the first rows.
    pub fn show(&self) -> String {
        match &self.outcome {
            Outcome::Failed(state, message) => format!("ERROR {state}: {message}"),
            Outcome::Lost(why) => format!("no answer: {why}"),
            Outcome::Done(done) => {
                let column = |(name, of): &(String, Type)| match *of {
                    Type::UNKNOWN => name.clone(),
                    ref of => format!("{name} {of}"),
                };
                let names: Vec<String> = done.columns.iter().map(column).collect();
                let types: Vec<String> = done.parameters.iter().map(Type::to_string).collect();
                let row = |row: &Vec<Option<String>>| {
                    let cell = |cell: &Option<String>| match cell {
                        Some(text) => format!("'{text}'"),
                        None => "NULL".into(),
                    };
                    format!("  ({})", row.iter().map(cell).collect::<Vec<_>>().join(", "))
                };
                let rows: Vec<String> = done.rows.iter().take(SHOWN).map(row).collect();
                let given = if types.is_empty() {
                    String::new()
                } else {
                    format!("; parameters ({})", types.join(", "))
                };
                let head = format!("{} rows ({}){given}", done.affected, names.join(", "));
                [vec![head], rows].concat().join("\n")
            }
        }
    }
}

/// The number of rows that a report shows.
const SHOWN: usize = 12;

/// A parameter, sent as text.
#[derive(Debug)]
pub struct Parameter(pub Option<String>);

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}

/// A value in binary form, as text.
#[derive(Debug)]
pub struct Decoded(pub String);

impl<'a> FromSql<'a> for Decoded {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Decoded, Box<dyn Error + Sync + Send>> {
        Ok(Decoded(match (of, raw) {
            (&Type::BOOL, [value]) => value.to_string(),
            (&Type::INT2, &[a, b]) => i16::from_be_bytes([a, b]).to_string(),
            (&Type::INT4 | &Type::DATE, &[a, b, c, d]) => {
                i32::from_be_bytes([a, b, c, d]).to_string()
            }
            (&Type::INT8 | &Type::TIMESTAMP, &[a, b, c, d, e, f, g, h]) => {
                i64::from_be_bytes([a, b, c, d, e, f, g, h]).to_string()
            }
            (&Type::FLOAT8, &[a, b, c, d, e, f, g, h]) => {
                f64::from_be_bytes([a, b, c, d, e, f, g, h]).to_string()
            }
            (&Type::NUMERIC, raw) => numeric(raw).ok_or("a numeric of wrong length")?,
            (&Type::TEXT | &Type::VARCHAR, raw) => std::str::from_utf8(raw)?.to_owned(),
            (_, raw) => raw.iter().map(|byte| format!("{byte:02x}")).collect(),
        }))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Returns a numeric in binary form as text: digits of base 10 000, the first of them with the
/// weight that the head gives.
fn numeric(raw: &[u8]) -> Option<String> {
    let words: Vec<i16> = raw
        .chunks(2)
        .map(|pair| Some(i16::from_be_bytes(pair.try_into().ok()?)))
        .collect::<Option<_>>()?;
    let [count, weight, sign, scale, digits @ ..] = words.as_slice() else { return None };
    if usize::try_from(*count).ok()? != digits.len() {
        return None;
    }
    let digit = |power: i32| {
        let at = usize::try_from(i32::from(*weight) - power);
        at.ok().and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let whole: String =
        (0..=i32::from(*weight).max(0)).rev().map(|at| format!("{:04}", digit(at))).collect();
    let whole = whole.trim_start_matches('0');
    let scale = usize::try_from(*scale).ok()?;
    let fraction: String =
        (1..=scale.div_ceil(4)).map(|at| format!("{:04}", digit(-(at as i32)))).collect();
    let sign = if *sign == 0x4000 { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if scale > 0 { "." } else { "" };
    Some(format!("{sign}{whole}{point}{}", fraction.get(..scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_numeric_is_decoded() {
        let of = |words: &[i16]| {
            let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            numeric(&raw)
        };
        assert_eq!(of(&[0, 0, 0, 2]).as_deref(), Some("0.00"));
        assert_eq!(of(&[2, 0, 0x4000, 2, 2, 2500]).as_deref(), Some("-2.25"));
        assert_eq!(of(&[1, 1, 0, 0, 12]).as_deref(), Some("120000"));
        assert_eq!(of(&[1, -1, 0, 3, 10]).as_deref(), Some("0.001"));
        assert_eq!(of(&[2, 0, 0, 0]), None);
    }
}
