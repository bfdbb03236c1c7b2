//! The text format of `hstore`: `"a"=>"1", "b"=>NULL`.

use super::Hstore;
use crate::error::{SqlError, state};
use crate::interrupt;
use std::ops::Range;

/// The blanks between the tokens of a statement.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// The place of a word: a key ends before `=`, a value before a comma.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// A word without its quotes and backslashes, as a part of all words.
struct Word {
    part: Range<usize>,
    is_quoted: bool,
}

/// Reads a text.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The words behind each other.
    words: String,
}

fn ended() -> SqlError {
    SqlError::new(state::INTERNAL, "Unexpected end of string")
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        interrupt::step();
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
    }

    /// Returns the error of a wrong character, which is next.
    fn wrong(&self) -> SqlError {
        let Some(c) = self.peek() else { return ended() };
        let message = format!("Syntax error near \"{c}\" at position {}", self.at);
        SqlError::new(state::INTERNAL, message)
    }

    fn expect(&mut self, c: char) -> Result<(), SqlError> {
        if self.peek() != Some(c) {
            return Err(self.wrong());
        }
        self.next();
        Ok(())
    }

    /// Reads a word; `None` at the end of the text.
    fn word(&mut self, role: Role) -> Result<Option<Word>, SqlError> {
        self.skip_blanks();
        let start = self.words.len();
        let is_quoted = match self.peek() {
            None => return Ok(None),
            Some('=') if role == Role::Key => return Err(self.wrong()),
            Some('"') => {
                self.next();
                self.quoted()?;
                true
            }
            Some(_) => {
                self.bare(role)?;
                false
            }
        };
        Ok(Some(Word { part: start..self.words.len(), is_quoted }))
    }

    /// Reads up to a quote.
    fn quoted(&mut self) -> Result<(), SqlError> {
        loop {
            let c = match self.next().ok_or_else(ended)? {
                '"' => return Ok(()),
                '\\' => self.next().ok_or_else(ended)?,
                c => c,
            };
            self.words.push(c);
        }
    }

    /// Reads at least one character, up to a blank or to what follows the word.
    fn bare(&mut self, role: Role) -> Result<(), SqlError> {
        let end = if role == Role::Key { '=' } else { ',' };
        let mut is_first = true;
        while let Some(c) = self.peek() {
            if is_blank(c) || (c == end && !is_first) {
                break;
            }
            is_first = false;
            self.next();
            let c = if c == '\\' { self.next().ok_or_else(ended)? } else { c };
            self.words.push(c);
        }
        Ok(())
    }

    /// Reads a key and its value; `None` at the end of the text.
    fn pair(&mut self) -> Result<Option<(Word, Word)>, SqlError> {
        let Some(key) = self.word(Role::Key)? else { return Ok(None) };
        self.skip_blanks();
        self.expect('=')?;
        self.expect('>')?;
        let value = self.word(Role::Value)?.ok_or_else(ended)?;
        self.skip_blanks();
        if self.peek().is_some() {
            self.expect(',')?;
        }
        Ok(Some((key, value)))
    }
}

impl Hstore {
    /// Parses a text. Fails with XX000 for what is none, as PostgreSQL does.
    pub(crate) fn from_text(text: &str) -> Result<Hstore, SqlError> {
        let mut reader = Reader { text, at: 0, words: String::with_capacity(text.len()) };
        let mut pairs = Vec::new();
        while let Some(pair) = reader.pair()? {
            pairs.push(pair);
        }
        let words = reader.words;
        let value = |word: Word| {
            let text = &words[word.part];
            (word.is_quoted || !text.eq_ignore_ascii_case("null")).then_some(text)
        };
        let pairs = pairs.into_iter().map(|(key, text)| (&words[key.part], value(text)));
        Hstore::of(pairs.collect())
    }

    /// Appends the text format.
    pub(crate) fn write_text(&self, out: &mut String) {
        for (at, (key, value)) in self.pairs().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            write_quoted(key, out);
            out.push_str("=>");
            match value {
                Some(value) => write_quoted(value, out),
                None => out.push_str("NULL"),
            }
        }
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
