//! Cuts the text of a path into tokens.

use crate::error::{SqlError, state};
use crate::interrupt;
use crate::json::zero_character;
use std::ops::Range;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name without quotes, which may be a keyword.
    Name(String),
    /// A text in quotes.
    String(String),
    /// `$name` or `$"name"`
    Variable(String),
    /// A whole number.
    Whole(String),
    /// A number with a point or an exponent.
    Number(String),
    /// An operator of one or two characters.
    Sign(&'static str),
    End,
}

/// A token, and the text that an error at it shows.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) token: Token,
    pub(super) near: Range<usize>,
}

/// The signs, longer ones first.
const SIGNS: [&str; 30] = [
    "&&", "||", "**", "<=", "==", "<>", "!=", ">=", "!", "<", ">", "?", "%", "$", ".", "[", "]",
    "{", "}", "(", ")", "|", "&", "=", "@", "#", ",", "*", ":", "-",
];
/// The two signs that also begin a number or a comment.
const REST: [&str; 2] = ["+", "/"];

/// Returns the error 42601, near a part of the text.
pub(super) fn wrong(message: &str, text: &str, near: Range<usize>) -> SqlError {
    let message = match &text[near] {
        "" => format!("{message} at end of jsonpath input"),
        near => format!("{message} at or near \"{near}\" of jsonpath input"),
    };
    SqlError::new(state::SYNTAX, message)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0C')
}

/// True for a character of a name.
fn is_other(c: char) -> bool {
    !is_blank(c) && !matches!(c, '\\' | '"') && !is_special(c)
}

fn is_special(c: char) -> bool {
    "?%$.[]{}()|&!=<>@#,*:-+/".contains(c)
}

/// Reads tokens.
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Tokens { text, at: 0 }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the characters that satisfy a condition.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), SqlError> {
        loop {
            interrupt::step();
            self.take(is_blank);
            if !self.rest().starts_with("/*") {
                return Ok(());
            }
            match self.rest()[2..].find("*/") {
                Some(end) => self.at += end + 4,
                None => return Err(self.wrong("unexpected end of comment", self.text.len())),
            }
        }
    }

    /// Returns the error of what is between a place and the current one.
    fn wrong(&self, message: &str, from: usize) -> SqlError {
        wrong(message, self.text, from..self.at.max(from))
    }

    /// Reads the next token.
    pub(super) fn token(&mut self) -> Result<Located, SqlError> {
        self.skip()?;
        let from = self.at;
        let located = |token, near| Ok(Located { token, near });
        let Some(first) = self.peek() else { return located(Token::End, from..from) };
        let behind = self.rest()[first.len_utf8()..].chars().next();
        match first {
            '"' => {
                self.at += 1;
                let text = self.quoted()?;
                located(Token::String(text), self.at - 1..self.at)
            }
            '$' if behind == Some('"') => {
                self.at += 2;
                let text = self.quoted()?;
                located(Token::Variable(text), self.at - 1..self.at)
            }
            '$' if behind.is_some_and(is_other) => {
                self.at += 1;
                let name = self.take(is_other).to_owned();
                located(Token::Variable(name), from..self.at)
            }
            '0'..='9' => self.number(),
            '.' if behind.is_some_and(|c| c.is_ascii_digit()) => self.number(),
            _ => {
                let known = SIGNS.iter().chain(&REST);
                if let Some(sign) = known.copied().find(|sign| self.rest().starts_with(sign)) {
                    self.at += sign.len();
                    let token = Token::Sign(if sign == "<>" { "!=" } else { sign });
                    return located(token, from..self.at);
                }
                let name = self.name()?;
                located(Token::Name(name), self.behind_name())
            }
        }
    }

    /// Reads a number. Fails if a character of a name is behind it.
    fn number(&mut self) -> Result<Located, SqlError> {
        let from = self.at;
        let is_digit = |c: char| c.is_ascii_digit();
        let mut is_whole = true;
        // A whole number has no zeros before it.
        match self.peek() {
            Some('0') => self.at += 1,
            _ => _ = self.take(is_digit),
        }
        if self.peek() == Some('.') {
            is_whole = false;
            self.at += 1;
            self.take(is_digit);
        }
        let exponent = self.rest();
        if let Some(rest) = exponent.strip_prefix(['e', 'E']) {
            let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if digits.starts_with(is_digit) {
                is_whole = false;
                self.at += exponent.len() - digits.len();
                self.take(is_digit);
            } else if digits.len() < rest.len() {
                self.at += exponent.len() - digits.len();
                return Err(self.wrong("invalid numeric literal", from));
            }
        }
        if let Some(junk) = self.peek().filter(|c| is_other(*c)) {
            self.at += junk.len_utf8();
            return Err(self.wrong("trailing junk after numeric literal", from));
        }
        let digits = self.text[from..self.at].to_owned();
        let token = if is_whole { Token::Whole(digits) } else { Token::Number(digits) };
        Ok(Located { token, near: from..self.at })
    }

    /// Reads a name without quotes.
    fn name(&mut self) -> Result<String, SqlError> {
        let mut name = String::new();
        loop {
            interrupt::step();
            name.push_str(self.take(is_other));
            match self.peek() {
                Some('\\') => self.escape(&mut name)?,
                _ => return Ok(name),
            }
        }
    }

    /// Returns what an error at a name shows: the blanks or the comment that end it.
    fn behind_name(&self) -> Range<usize> {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches(is_blank).len();
        let length = if rest.starts_with("/*") { 2 } else { blanks };
        self.at..self.at + length
    }

    /// Reads a text in quotes, behind the first.
    fn quoted(&mut self) -> Result<String, SqlError> {
        let mut text = String::new();
        loop {
            interrupt::step();
            text.push_str(self.take(|c| !matches!(c, '"' | '\\')));
            match self.peek() {
                Some('\\') => self.escape(&mut text)?,
                Some(_) => {
                    self.at += 1;
                    return Ok(text);
                }
                None => return Err(self.wrong("unexpected end of quoted string", self.at)),
            }
        }
    }

    /// Reads what a backslash begins.
    fn escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        let from = self.at;
        self.at += 1;
        let Some(c) = self.peek() else {
            return Err(self.wrong("unexpected end after backslash", from));
        };
        self.at += c.len_utf8();
        out.push(match c {
            'b' => '\x08',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0B',
            'x' => {
                let code = self.hex(2).ok_or_else(|| {
                    self.take_hex(2);
                    self.wrong("invalid hex character sequence", from)
                })?;
                char::from_u32(code).filter(|c| *c != '\0').ok_or_else(zero_character)?
            }
            'u' => self.unicode(from)?,
            other => other,
        });
        Ok(())
    }

    /// Takes up to so many hexadecimal digits.
    fn take_hex(&mut self, most: usize) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().take(most).take_while(u8::is_ascii_hexdigit).count();
        self.at += end;
        &rest[..end]
    }

    /// Takes so many hexadecimal digits, if there are as many.
    fn hex(&mut self, count: usize) -> Option<u32> {
        let from = self.at;
        let digits = self.take_hex(count);
        if digits.len() < count {
            self.at = from;
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    }

    /// Reads `XXXX` or `{X…}` behind `\u`.
    fn code(&mut self, from: usize) -> Result<u32, SqlError> {
        if self.peek() == Some('{') {
            self.at += 1;
            let digits = self.take_hex(6);
            if !digits.is_empty() && self.peek() == Some('}') {
                self.at += 1;
                return Ok(u32::from_str_radix(digits, 16).unwrap_or(u32::MAX));
            }
        } else if let Some(code) = self.hex(4) {
            return Ok(code);
        } else {
            self.take_hex(4);
        }
        Err(self.wrong("invalid unicode sequence", from))
    }

    /// Reads a character, or two of UTF-16 that are one.
    fn unicode(&mut self, from: usize) -> Result<char, SqlError> {
        let surrogate = |detail: &str| {
            SqlError::new(state::BAD_TEXT, "invalid input syntax for type jsonpath").detail(detail)
        };
        let code = self.code(from)?;
        let code = match code {
            0 => return Err(zero_character()),
            0xD800..=0xDBFF => {
                let missing = "Unicode low surrogate must follow a high surrogate.";
                let next = self.at;
                if !self.rest().starts_with("\\u") {
                    return Err(surrogate(missing));
                }
                self.at += 2;
                match self.code(next)? {
                    low @ 0xDC00..=0xDFFF => 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00),
                    0xD800..=0xDBFF => {
                        let twice = "Unicode high surrogate must not follow a high surrogate.";
                        return Err(surrogate(twice));
                    }
                    _ => return Err(surrogate(missing)),
                }
            }
            0xDC00..=0xDFFF => {
                return Err(surrogate("Unicode low surrogate must follow a high surrogate."));
            }
            code => code,
        };
        let wrong = || SqlError::new(state::SYNTAX, "invalid Unicode code point");
        char::from_u32(code).ok_or_else(wrong)
    }
}
