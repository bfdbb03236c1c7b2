//! Concatenation.

use super::{Accumulator, Function};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::function::of::*;
use crate::limits;
use crate::memory::Held;
use bytes::Bytes;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("string_agg", &[TEXT, TEXT], A_TEXT, |_| Box::new(Joined::default())).lenient(),
    Function::new("string_agg", &[BYTEA, BYTEA], A_BYTEA, |_| Box::new(Joined::default()))
        .lenient(),
];

/// The values that are not NULL, each but the first behind its own delimiter.
#[derive(Default)]
struct Joined {
    bytes: Vec<u8>,
    is_text: bool,
    any: bool,
}

fn bytes(datum: &Datum) -> &[u8] {
    match datum {
        Datum::Text(text) => text.as_bytes(),
        Datum::Bytes(bytes) => bytes,
        _ => &[],
    }
}

impl Accumulator for Joined {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        let [value, delimiter] = args else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        let delimiter = if self.any { bytes(delimiter) } else { &[] };
        let value_bytes = bytes(value);
        held.add(delimiter.len() + value_bytes.len())?;
        limits::check_value(self.bytes.len() + delimiter.len() + value_bytes.len())?;
        self.bytes.extend_from_slice(delimiter);
        self.bytes.extend_from_slice(value_bytes);
        self.any = true;
        self.is_text = matches!(value, Datum::Text(_));
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(match (self.any, self.is_text) {
            (false, _) => Datum::Null,
            (true, true) => Datum::text(String::from_utf8_lossy(&self.bytes)),
            (true, false) => Datum::Bytes(Bytes::copy_from_slice(&self.bytes)),
        })
    }
}
