//! The text format of rows: `(1,"a b",)`.

use super::{Record, Shape};
use crate::composite::Composite;
use crate::datetime::{Local, Zone};
use crate::datum::Datum;
use crate::error::{SqlError, state};

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

impl Record {
    /// Appends the text format, with times in a session's zone.
    pub(crate) fn write_text(&self, zone: &Zone, out: &mut String) {
        out.push('(');
        for (at, (field, value)) in self.fields().enumerate() {
            if at > 0 {
                out.push(',');
            }
            let Some(text) = value.to_text_in(field.ty, zone) else { continue };
            let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || is_blank(c);
            if !text.is_empty() && !text.contains(special) {
                out.push_str(&text);
                continue;
            }
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push(c);
                }
                out.push(c);
            }
            out.push('"');
        }
        out.push(')');
    }

    /// Parses a row of a composite type; limits of length and scale are those of the fields. Fails
    /// with 22P02 for text that is none, and as its fields do.
    pub(crate) fn from_text_in(
        ty: Composite,
        text: &str,
        local: Local<'_>,
    ) -> Result<Record, SqlError> {
        let malformed = |detail: &str| {
            SqlError::new(state::BAD_TEXT, format!("malformed record literal: \"{text}\""))
                .detail(detail)
        };
        let mut rest = text.trim_start_matches(is_blank);
        rest = rest.strip_prefix('(').ok_or_else(|| malformed("Missing left parenthesis."))?;
        let mut values = Vec::with_capacity(ty.fields().len());
        for (at, field) in ty.fields().iter().enumerate() {
            if at > 0 {
                rest = rest.strip_prefix(',').ok_or_else(|| malformed("Too few columns."))?;
            }
            if rest.starts_with([',', ')']) {
                values.push(Datum::Null);
                continue;
            }
            let (value, behind) =
                field_text(rest).ok_or_else(|| malformed("Unexpected end of input."))?;
            rest = behind;
            let value = Datum::from_text_in(field.ty, &value, local)?;
            values.push(crate::cast::cast(value, field.ty, false, local)?);
        }
        rest = rest.strip_prefix(')').ok_or_else(|| malformed("Too many columns."))?;
        if !rest.trim_start_matches(is_blank).is_empty() {
            return Err(malformed("Junk after right parenthesis."));
        }
        Record::new(Shape::Named(ty), values)
    }
}

/// Reads the text of a field up to a comma or a bracket; returns what follows, too. `None` if the
/// text ends before.
fn field_text(text: &str) -> Option<(String, &str)> {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ',' | ')' if !is_quoted => return Some((value, &text[at..])),
            '\\' => value.push(chars.next()?.1),
            '"' if !is_quoted => is_quoted = true,
            '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => is_quoted = false,
            c => value.push(c),
        }
    }
    None
}
