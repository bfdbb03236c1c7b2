//! Builds a `jsonb` from events, or from values that are one already.

use super::value::{ARRAY, FALSE, Jsonb, NULL, NUMBER, Node, OBJECT, STRING, TRUE, order_of_keys};
use super::{DEEPEST, Event, Style, number, read, write_json};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::limits;

/// Returns the error 22P05.
pub(crate) fn zero_character() -> SqlError {
    SqlError::new(state::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
        .detail("\\u0000 cannot be converted to text.")
}

/// A value that is being built: each event appends to one buffer.
#[derive(Clone, Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    open: Vec<Open>,
}

/// An array or an object whose end has not come.
#[derive(Clone)]
struct Open {
    start: usize,
    parts: Parts,
    /// The levels inside it.
    depth: usize,
}

#[derive(Clone)]
enum Parts {
    /// The end of each item.
    Items(Vec<u32>),
    /// The start of each key, the start and end of its value.
    Members(Vec<[u32; 3]>),
}

impl Builder {
    /// Adds an event. Fails with 22P05 for a zero character in a text, with 22003 for a number out
    /// of range, with 54000 if the value becomes too large.
    pub(crate) fn add(&mut self, event: Event<'_>) -> Result<(), SqlError> {
        interrupt::step();
        match event {
            Event::Null => self.bytes.push(NULL),
            Event::Boolean(b) => self.bytes.push(if b { TRUE } else { FALSE }),
            Event::Number(digits) => {
                number::write_plain(&digits, &mut self.bytes)?;
                self.bytes.push(NUMBER);
            }
            Event::String(text) => {
                self.text(&text)?;
                self.bytes.push(STRING);
            }
            Event::ObjectKey(key) => {
                let start = self.at();
                self.text(&key)?;
                let value = self.at();
                if let Some(Open { parts: Parts::Members(members), .. }) = self.open.last_mut() {
                    members.push([start, value, value]);
                }
                return Ok(());
            }
            Event::StartArray => return self.start(Parts::Items(Vec::new())),
            Event::StartObject => return self.start(Parts::Members(Vec::new())),
            Event::EndArray | Event::EndObject => self.end(),
            Event::Eof => return Ok(()),
        }
        self.ended()
    }

    /// Adds a value that is built already.
    pub(crate) fn add_node(&mut self, node: Node<'_>) -> Result<(), SqlError> {
        interrupt::step();
        self.check_depth(node.depth())?;
        self.bytes.extend_from_slice(node.bytes());
        self.deepen(node.depth());
        self.ended()
    }

    /// Adds a member of an object.
    pub(crate) fn add_member(&mut self, key: &str, value: Node<'_>) -> Result<(), SqlError> {
        self.add(Event::ObjectKey(key.into()))?;
        self.add_node(value)
    }

    /// Adds a value of SQL.
    pub(crate) fn add_datum(&mut self, datum: &Datum, zone: &Zone) -> Result<(), SqlError> {
        if let Datum::Jsonb(value) = datum {
            return self.add_node(value.root());
        }
        let mut text = String::new();
        write_json(datum, Style::Plain, zone, &mut text)?;
        for event in read::events(&text) {
            self.add(event?)?;
        }
        Ok(())
    }

    /// Returns the bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the value.
    pub(crate) fn finish(self) -> Result<Jsonb, SqlError> {
        limits::check_value(self.bytes.len())?;
        Ok(Jsonb::from_bytes(&self.bytes))
    }

    fn text(&mut self, text: &str) -> Result<(), SqlError> {
        if text.contains('\0') {
            return Err(zero_character());
        }
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// The place behind what is written, from the start of the innermost array or object.
    fn at(&self) -> u32 {
        (self.bytes.len() - self.open.last().map_or(0, |open| open.start)) as u32
    }

    fn start(&mut self, parts: Parts) -> Result<(), SqlError> {
        self.open.push(Open { start: self.bytes.len(), parts, depth: 0 });
        self.check_depth(0)
    }

    /// Fails with 54001 if there are too many levels inside those that are open.
    fn check_depth(&self, inside: usize) -> Result<(), SqlError> {
        match self.open.len() + inside {
            0..=DEEPEST => Ok(()),
            _ => Err(limits::too_deep("Arrays and objects of JSON inside each other", DEEPEST)),
        }
    }

    /// Writes the table of the innermost array or object.
    fn end(&mut self) {
        let Some(Open { start, parts, depth }) = self.open.pop() else { return };
        let (count, tag) = match parts {
            Parts::Items(ends) => {
                ends.iter().for_each(|end| self.bytes.extend(end.to_le_bytes()));
                (ends.len(), ARRAY)
            }
            Parts::Members(mut members) => {
                let data = &self.bytes[start..];
                let key = |member: &[u32; 3]| &data[member[0] as usize..member[1] as usize];
                members.sort_by(|a, b| order_of_keys(key(a), key(b)));
                // Of equal keys the last counts.
                members.reverse();
                members.dedup_by(|a, b| key(a) == key(b));
                members.reverse();
                let words: Vec<u8> =
                    members.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
                self.bytes.extend(words);
                (members.len(), OBJECT)
            }
        };
        self.bytes.extend((count as u32).to_le_bytes());
        self.bytes.extend((depth as u16 + 1).to_le_bytes());
        self.bytes.push(tag);
        self.deepen(depth + 1);
    }

    /// Notes the levels of a value in what it is part of.
    fn deepen(&mut self, levels: usize) {
        if let Some(open) = self.open.last_mut() {
            open.depth = open.depth.max(levels);
        }
    }

    /// Notes the end of a value in what it is part of.
    fn ended(&mut self) -> Result<(), SqlError> {
        limits::check_value(self.bytes.len())?;
        let end = self.at();
        match self.open.last_mut().map(|open| &mut open.parts) {
            Some(Parts::Items(ends)) => ends.push(end),
            Some(Parts::Members(members)) => {
                if let Some(member) = members.last_mut() {
                    member[2] = end;
                }
            }
            None => {}
        }
        Ok(())
    }
}
