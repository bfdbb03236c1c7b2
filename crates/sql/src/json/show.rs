//! Writes JSON texts from events.

use super::Event;
use super::make::write_string;
use crate::error::SqlError;
use crate::limits;

/// Appends the text of a `jsonb`, as PostgreSQL shows it: one space behind each comma and colon.
pub(crate) fn write_text<'a>(events: impl Iterator<Item = Event<'a>>, out: &mut String) {
    let mut writer = Writer { comma: ", ", colon: ": ", ..Writer::compact(out) };
    events.for_each(|event| writer.add(&event));
}

/// Returns the text with each item and member on a line of its own. Fails with 54000 if it becomes
/// too large.
pub(crate) fn pretty<'a>(events: impl Iterator<Item = Event<'a>>) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut writer = Writer { colon: ": ", indent: Some(4), ..Writer::compact(&mut out) };
    for event in events {
        writer.add(&event);
        limits::check_value(writer.out.len())?;
    }
    Ok(out)
}

/// Writes events one at a time.
pub(crate) struct Writer<'o> {
    comma: &'static str,
    colon: &'static str,
    /// The spaces before a line, for each level; `None` for one line.
    indent: Option<usize>,
    depth: usize,
    /// True at the start of an array or object.
    is_first: bool,
    is_behind_key: bool,
    out: &'o mut String,
}

impl<'o> Writer<'o> {
    /// Writes without spaces.
    pub(crate) fn compact(out: &'o mut String) -> Self {
        Writer {
            comma: ",",
            colon: ":",
            indent: None,
            depth: 0,
            is_first: true,
            is_behind_key: false,
            out,
        }
    }

    /// Begins a line.
    fn line(&mut self) {
        if let Some(spaces) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', self.depth * spaces));
        }
    }

    /// Writes an event.
    pub(crate) fn add(&mut self, event: &Event<'_>) {
        if matches!(event, Event::EndArray | Event::EndObject) {
            self.depth = self.depth.saturating_sub(1);
            self.line();
        } else if !std::mem::take(&mut self.is_behind_key) {
            if !self.is_first {
                self.out.push_str(self.comma);
            }
            if self.depth > 0 {
                self.line();
            }
        }
        self.is_first = false;
        match event {
            Event::Null => self.out.push_str("null"),
            Event::Boolean(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Event::Number(digits) => self.out.push_str(digits),
            Event::String(text) => write_string(text, self.out),
            Event::ObjectKey(key) => {
                write_string(key, self.out);
                self.out.push_str(self.colon);
                self.is_behind_key = true;
            }
            Event::StartArray | Event::StartObject => {
                self.out.push(if *event == Event::StartArray { '[' } else { '{' });
                self.depth += 1;
                self.is_first = true;
            }
            Event::EndArray => self.out.push(']'),
            Event::EndObject => self.out.push('}'),
            Event::Eof => {}
        }
    }
}
