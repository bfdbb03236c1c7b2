//! Reads JSON texts.

use super::{DEEPEST, Event, zero_character};
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::limits;
use json_event_parser::{LowLevelJsonParser, LowLevelJsonParserResult};

/// Returns the events of a text. Fails with 22P02 for what is no JSON, with 22P05 for a zero
/// character, with 54001 if it is nested too deeply.
pub(crate) fn events(text: &str) -> impl Iterator<Item = Result<Event<'_>, SqlError>> {
    let mut reader = Reader::default();
    std::iter::from_fn(move || reader.token(text).map(|token| token.map(|(event, _)| event)))
}

/// Fails for a text that is no JSON, as [`events`] does, but takes zero characters.
pub(crate) fn check(text: &str) -> Result<(), SqlError> {
    let mut reader = Reader { keeps_escapes: true, ..Reader::default() };
    std::iter::from_fn(|| reader.token(text)).try_for_each(|token| token.map(drop))
}

/// A part of the outermost array or object of a text.
pub(crate) struct Part<'a> {
    /// The key, in an object.
    pub(crate) key: Option<String>,
    /// The text of the value, as it is written.
    pub(crate) text: &'a str,
    /// The first event of the value.
    pub(crate) first: Event<'a>,
}

/// The place in a text up to which it is read. Each call gets the same text.
#[derive(Default)]
pub(crate) struct Reader {
    parser: LowLevelJsonParser,
    at: usize,
    depth: usize,
    over: bool,
    /// True if a zero character may stand in a string, since its escape is kept as it is written.
    keeps_escapes: bool,
}

impl Reader {
    /// Reads the first event of a text: the start of an array or object, or all there is.
    pub(crate) fn first<'a>(&mut self, text: &'a str) -> Result<Event<'a>, SqlError> {
        let token = self.token(text).transpose()?;
        Ok(token.map_or(Event::Null, |(event, _)| event))
    }

    /// Reads the next part of the outermost array or object, behind its start.
    pub(crate) fn part<'a>(&mut self, text: &'a str) -> Option<Result<Part<'a>, SqlError>> {
        let mut key = None;
        loop {
            let (event, token) = match self.token(text)? {
                Ok(token) => token,
                Err(error) => return Some(Err(error)),
            };
            match event {
                Event::ObjectKey(name) => key = Some(name.into_owned()),
                Event::EndArray | Event::EndObject => {
                    self.over = true;
                    return None;
                }
                first => {
                    let (from, depth) = (self.at - token.len(), self.depth);
                    let has_parts = matches!(first, Event::StartArray | Event::StartObject);
                    while has_parts && self.depth >= depth {
                        if let Err(error) = self.token(text)? {
                            return Some(Err(error));
                        }
                    }
                    return Some(Ok(Part { key, text: &text[from..self.at], first }));
                }
            }
        }
    }

    /// Reads the next event, and returns it with its text.
    fn token<'a>(&mut self, text: &'a str) -> Option<Result<(Event<'a>, &'a str), SqlError>> {
        interrupt::step();
        if self.over {
            return None;
        }
        let read = self.try_token(text);
        self.over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }

    fn try_token<'a>(&mut self, text: &'a str) -> Result<Option<(Event<'a>, &'a str)>, SqlError> {
        // The parser would skip a byte order mark.
        if self.at == 0 && text.starts_with('\u{FEFF}') {
            return Err(wrong("Unexpected byte order mark".to_owned()));
        }
        let rest = &text.as_bytes()[self.at..];
        let LowLevelJsonParserResult { event, consumed_bytes } = self.parser.parse_next(rest, true);
        let before = self.at;
        self.at += consumed_bytes;
        let event = match event.transpose() {
            Ok(None | Some(Event::Eof)) => return Ok(None),
            Ok(Some(event)) => event,
            Err(error) => {
                let place = error.location().start.offset + 1;
                return Err(wrong(format!("{} (byte {place})", error.message())));
            }
        };
        match &event {
            Event::StartArray | Event::StartObject => self.depth += 1,
            Event::EndArray | Event::EndObject => self.depth -= 1,
            Event::String(text) | Event::ObjectKey(text)
                if !self.keeps_escapes && text.contains('\0') =>
            {
                return Err(zero_character());
            }
            _ => {}
        }
        if self.depth > DEEPEST {
            return Err(limits::too_deep("Arrays and objects of JSON inside each other", DEEPEST));
        }
        let between = [' ', '\t', '\n', '\r', ',', ':'];
        Ok(Some((event, text[before..self.at].trim_start_matches(between))))
    }
}

fn wrong(detail: String) -> SqlError {
    SqlError::new(state::BAD_TEXT, "invalid input syntax for type json")
        .detail(format!("{detail}."))
}
