//! The fields of a text, by PostgreSQL's rules: which characters belong together, and what they
//! look like.

use super::Failure;

/// The most fields of a text.
const MOST: usize = 25;
/// The longest text that may be a time.
const LONGEST: usize = 256;

/// The look of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Digits, perhaps with a decimal point.
    Number,
    /// Letters.
    Word,
    /// Numbers or words between `-`, `/` and `.`, or the name of a zone.
    Date,
    /// With a colon.
    Time,
    /// A sign and digits.
    Zone,
    /// A sign and letters.
    Signed,
}

/// A field in lower case.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) look: Look,
}

/// A text that is cut from the front.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn first(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn take(&mut self, is_in: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !is_in(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
}

/// Cuts a text into its fields. `is_word`: knows the words that are no abbreviations of zones.
pub(super) fn fields(text: &str, is_word: fn(&str) -> bool) -> Result<Vec<Field>, Failure> {
    if text.len() > LONGEST {
        return Err(Failure::Syntax);
    }
    let lower = text.to_ascii_lowercase();
    let mut rest = Rest(&lower);
    let mut fields = Vec::new();
    while let Some(first) = rest.first() {
        let whole = rest.0;
        let look = match first {
            c if c.is_ascii_whitespace() || c == '\x0B' => {
                rest.take(|c| c.is_ascii_whitespace() || c == '\x0B');
                continue;
            }
            c if is_digit(c) => number(&mut rest),
            '.' => {
                rest.0 = &rest.0[1..];
                rest.take(is_digit);
                Look::Number
            }
            c if is_letter(c) => {
                let word = rest.take(is_letter);
                let is_date = match rest.first() {
                    Some('-' | '/' | '.') => true,
                    Some(c) if c == '+' || is_digit(c) => !is_word(word),
                    _ => false,
                };
                if is_date {
                    rest.take(|c| c.is_ascii_alphanumeric() || "+-/_.:".contains(c));
                    Look::Date
                } else {
                    Look::Word
                }
            }
            '+' | '-' => {
                rest.0 = &rest.0[1..];
                rest.take(|c| c.is_ascii_whitespace());
                let (look, part) = match rest.first() {
                    Some(c) if is_digit(c) => {
                        (Look::Zone, rest.take(|c| is_digit(c) || ":.-".contains(c)))
                    }
                    Some(c) if is_letter(c) => (Look::Signed, rest.take(is_letter)),
                    _ => return Err(Failure::Syntax),
                };
                fields.push(Field { text: format!("{first}{part}"), look });
                continue;
            }
            c if c.is_ascii_punctuation() => {
                rest.0 = &rest.0[1..];
                continue;
            }
            _ => return Err(Failure::Syntax),
        };
        let text = &whole[..whole.len() - rest.0.len()];
        fields.push(Field { text: text.to_owned(), look });
        if fields.len() > MOST {
            return Err(Failure::Syntax);
        }
    }
    Ok(fields)
}

/// Takes what begins with a digit.
fn number(rest: &mut Rest<'_>) -> Look {
    rest.take(is_digit);
    let between = match rest.first() {
        Some(':') => {
            rest.take(|c| is_digit(c) || c == ':' || c == '.');
            return Look::Time;
        }
        Some(between @ ('-' | '/' | '.')) => between,
        _ => return Look::Number,
    };
    rest.0 = &rest.0[1..];
    if !rest.first().is_some_and(is_digit) {
        rest.take(|c| c.is_ascii_alphanumeric() || c == between);
        return Look::Date;
    }
    rest.take(is_digit);
    if rest.first() == Some(between) {
        rest.take(|c| is_digit(c) || c == between);
        return Look::Date;
    }
    // A number with a fraction, or two numbers of a date.
    if between == '.' { Look::Number } else { Look::Date }
}
