//! Bytes that compare as PostgreSQL orders `jsonb`, and that are the same for equal values.
//!
//! ```text
//!   an empty array that is the whole value < null < string < number < false < true < array < object
//!   array     count, items
//!   object    count, then for each member its key and its value
//! ```

use super::value::{Node, View};
use super::{Event, number};

const EMPTY: u8 = 1;
const NULL: u8 = 2;
const STRING: u8 = 3;
const NUMBER: u8 = 4;
const FALSE: u8 = 5;
const TRUE: u8 = 6;
const ARRAY: u8 = 7;
const OBJECT: u8 = 8;

impl Node<'_> {
    /// Returns the bytes.
    pub(crate) fn key(self) -> Vec<u8> {
        let mut out = Vec::new();
        if let View::Array(items) = self.view()
            && items.len() == 0
        {
            return vec![EMPTY];
        }
        // The counts come before the items, so each array and object is looked at once more.
        let mut counts = self.counts().into_iter();
        let mut start = |tag, out: &mut Vec<u8>| {
            out.push(tag);
            out.extend(counts.next().unwrap_or(0).to_be_bytes());
        };
        for event in self.events() {
            match event {
                Event::Null => out.push(NULL),
                Event::Boolean(b) => out.push(if b { TRUE } else { FALSE }),
                Event::Number(plain) => {
                    out.push(NUMBER);
                    number::write_key(&plain, &mut out);
                }
                Event::String(text) => {
                    out.push(STRING);
                    write_text(&text, &mut out);
                }
                Event::ObjectKey(key) => write_text(&key, &mut out),
                Event::StartArray => start(ARRAY, &mut out),
                Event::StartObject => start(OBJECT, &mut out),
                Event::EndArray | Event::EndObject | Event::Eof => {}
            }
        }
        out
    }

    /// Returns the number of items or members of each array and object, in the order of their
    /// starts.
    fn counts(self) -> Vec<u32> {
        let (mut counts, mut open) = (Vec::new(), Vec::new());
        for event in self.events() {
            let is_part =
                !matches!(event, Event::EndArray | Event::EndObject | Event::ObjectKey(_));
            if let (true, Some(parent)) = (is_part, open.last()) {
                counts[*parent] += 1;
            }
            match event {
                Event::StartArray | Event::StartObject => {
                    open.push(counts.len());
                    counts.push(0u32);
                }
                Event::EndArray | Event::EndObject => _ = open.pop(),
                _ => {}
            }
        }
        counts
    }
}

/// Texts have no zero character, so that it ends them.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend(text.as_bytes());
    out.push(0);
}
