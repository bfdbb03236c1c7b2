//! `hstore` as JSON: an object.

use super::Hstore;
use crate::error::SqlError;
use crate::json::{Builder, Event, Jsonb, write_text};

/// The values that are no strings in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// NULL.
    Strict,
    /// NULL, `t` and `f`, which are truth values, and numbers.
    Loose,
}

/// Removes the digits at the beginning, of which there is at least one.
fn behind_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// True for a number of JSON.
fn is_number(text: &str) -> bool {
    let number = || {
        let text = text.strip_prefix('-').unwrap_or(text);
        let mut rest = match text.strip_prefix('0') {
            Some(rest) => rest,
            None => behind_digits(text)?,
        };
        if let Some(fraction) = rest.strip_prefix('.') {
            rest = behind_digits(fraction)?;
        }
        if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
            rest = behind_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))?;
        }
        Some(rest.is_empty())
    };
    number().unwrap_or(false)
}

impl Values {
    fn event(self, value: Option<&str>) -> Event<'_> {
        match (self, value) {
            (_, None) => Event::Null,
            (Values::Loose, Some("t")) => Event::Boolean(true),
            (Values::Loose, Some("f")) => Event::Boolean(false),
            (Values::Loose, Some(text)) if is_number(text) => Event::Number(text.into()),
            (_, Some(text)) => Event::String(text.into()),
        }
    }
}

impl Hstore {
    fn events(&self, values: Values) -> impl Iterator<Item = Event<'_>> {
        let members = self
            .pairs()
            .flat_map(move |(key, value)| [Event::ObjectKey(key.into()), values.event(value)]);
        std::iter::once(Event::StartObject).chain(members).chain([Event::EndObject])
    }

    /// Appends it as the text of an object.
    pub(crate) fn write_json(&self, values: Values, out: &mut String) {
        write_text(self.events(values), out);
    }

    /// Returns it as an object. Fails with 22003 for a number out of range.
    pub(crate) fn to_jsonb(&self, values: Values) -> Result<Jsonb, SqlError> {
        let mut builder = Builder::default();
        self.events(values).try_for_each(|event| builder.add(event))?;
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::is_number;

    #[test]
    fn numbers_are_those_of_json() {
        for text in ["0", "-0", "10", "1.5", "-1.50e+07", "1E5", "0e0"] {
            assert!(is_number(text), "{text}");
        }
        for text in ["", "-", "+1", "01", "1.", ".5", "1e", "0x1", " 1", "1 ", "NaN", "1e5.5"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
