//! The size of the text of rows. Quotes in it are doubled by each row around it, so that a small
//! value may have a large text.

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::limits::LONGEST_VALUE_BYTES;
use crate::memory;

/// The most bytes that the text of a value without quotes has beyond those of the value.
const FIXED_BYTES: usize = 32;

/// The size of a text, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TextSize {
    bytes: usize,
    /// The quotes and backslashes, which quotes around the text double.
    doubled: usize,
}

impl TextSize {
    /// Returns that of a row of some values.
    pub(super) fn of_row(values: &[Datum]) -> TextSize {
        let mut size = TextSize { bytes: values.len() + 1, doubled: 0 };
        for value in values {
            let part = TextSize::of_part(value);
            size.bytes = size.bytes.saturating_add(part.bytes);
            size.doubled = size.doubled.saturating_add(part.doubled);
        }
        size
    }

    /// Returns that of a value as a part of a row or of an array.
    fn of_part(value: &Datum) -> TextSize {
        match value {
            Datum::Null => TextSize { bytes: "NULL".len(), doubled: 0 },
            Datum::Text(text) | Datum::Json(text) | Datum::Object(_, text) => {
                TextSize::of_text(text).quoted()
            }
            Datum::Base(value) => TextSize::of_text(value.text()).quoted(),
            Datum::Enum(value) => TextSize::of_text(value.label()).quoted(),
            Datum::Bytes(bytes) => TextSize { bytes: 2 * bytes.len() + 2, doubled: 1 }.quoted(),
            Datum::Hstore(value) => {
                let mut text = String::new();
                value.write_text(&mut text);
                TextSize::of_text(&text).quoted()
            }
            Datum::Bits(bits) => TextSize { bytes: 8 * bits.bytes().len(), doubled: 0 },
            // Control characters, which take six bytes, are rare.
            Datum::Jsonb(_) => {
                let bytes = 2 * memory::behind(value);
                TextSize { bytes, doubled: bytes }.quoted()
            }
            Datum::JsonPath(path) => {
                TextSize { bytes: path.text_bytes(), doubled: path.text_bytes() }.quoted()
            }
            Datum::Timestamp(_) | Datum::TimestampTz(_) | Datum::Interval(_) => {
                TextSize { bytes: 2 * FIXED_BYTES, doubled: 0 }.quoted()
            }
            // Its scale adds zeros, and a byte of its digits is less than three of these.
            Datum::Numeric(n) => {
                let scale = n.finite().map_or(0, |number| number.scale() as usize);
                let bytes = 3 * memory::behind(value) + scale + 48;
                TextSize { bytes, doubled: 0 }
            }
            Datum::Array(array) => TextSize::of_row(array.values()).quoted(),
            Datum::Record(record) => record.text_size.quoted(),
            other => TextSize { bytes: memory::behind(other) + FIXED_BYTES, doubled: 0 },
        }
    }

    fn of_text(text: &str) -> TextSize {
        let doubled = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        TextSize { bytes: text.len(), doubled }
    }

    /// Returns that of the text in quotes.
    const fn quoted(self) -> TextSize {
        TextSize {
            bytes: self.bytes.saturating_add(self.doubled).saturating_add(2),
            doubled: self.doubled.saturating_mul(2).saturating_add(2),
        }
    }

    pub(super) const fn bytes(self) -> usize {
        self.bytes
    }

    /// Fails with 54000 if it is too large.
    pub(super) fn check(self) -> Result<(), SqlError> {
        if self.bytes <= LONGEST_VALUE_BYTES {
            return Ok(());
        }
        let detail = format!(
            "The text of a row with rows inside may have {LONGEST_VALUE_BYTES} bytes: each row around another doubles its quotes."
        );
        Err(SqlError::new(state::TOO_LARGE, "the text of a row is too large").detail(detail))
    }
}
