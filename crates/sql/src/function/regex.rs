//! Compiled regular expressions.
//!
//! An expression without lookaround and back references is matched in a time that is linear in the
//! text. The others are matched by trying, in a limited number of steps.

use crate::error::SqlError;
use crate::interrupt;
use std::ops::Range;

/// The size that a compiled expression may have, in bytes.
const REGEX_BYTES: usize = 1 << 20;
/// The steps back that a search may take.
const MOST_STEPS: usize = 1_000_000;

/// A compiled regular expression.
pub(super) enum Regex {
    Linear(regex::Regex),
    /// One with lookaround or back references.
    Backtracking(Box<fancy_regex::Regex>),
}

/// The groups of a match; the first is the whole match.
pub(super) enum Groups<'t> {
    Linear(regex::Captures<'t>),
    Backtracking(fancy_regex::Captures<'t, str>),
}

fn invalid(why: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {why}"))
}

/// Returns the error of a search that was given up.
fn failed(error: &fancy_regex::Error) -> SqlError {
    let error_of = |why: &str| SqlError::new("2201B", format!("regular expression failed: {why}"));
    match error {
        fancy_regex::Error::RuntimeError(_) => error_of("too many steps").detail(format!(
            "A search by an expression with lookaround or back references \
             may go back {MOST_STEPS} times."
        )),
        other => error_of(&other.to_string()),
    }
}

/// True if an expression has lookaround or back references.
fn needs_backtracking(pattern: &str) -> bool {
    let (mut rest, mut in_class) = (pattern, false);
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = behind.chars().next();
                if !in_class && escaped.is_some_and(|c| matches!(c, '1'..='9')) {
                    return true;
                }
                rest = &behind[escaped.map_or(0, char::len_utf8)..];
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                // A bracket that is the first of a class is one of its characters.
                let first = behind.strip_prefix('^').unwrap_or(behind);
                rest = first.strip_prefix(']').unwrap_or(first);
                continue;
            }
            ']' => in_class = false,
            '(' if !in_class
                && ["?=", "?!", "?<=", "?<!"].iter().any(|mark| behind.starts_with(mark)) =>
            {
                return true;
            }
            _ => {}
        }
        rest = behind;
    }
    false
}

impl Regex {
    /// Compiles an expression in which a point matches line breaks, too. Fails with 2201B.
    pub(super) fn new(pattern: &str, fold: bool) -> Result<Regex, SqlError> {
        Regex::with(pattern, fold, true)
    }

    /// Compiles an expression in which a point may match line breaks. Fails with 2201B.
    pub(super) fn with(pattern: &str, fold: bool, of_lines: bool) -> Result<Regex, SqlError> {
        if needs_backtracking(pattern) {
            let regex = fancy_regex::RegexBuilder::new(pattern)
                .case_insensitive(fold)
                .dot_matches_new_line(of_lines)
                .delegate_size_limit(REGEX_BYTES)
                .delegate_dfa_size_limit(REGEX_BYTES)
                .backtrack_limit(MOST_STEPS)
                .build();
            return match regex {
                Ok(regex) => Ok(Regex::Backtracking(Box::new(regex))),
                Err(error) => Err(invalid(why(&error))),
            };
        }
        let regex = regex::RegexBuilder::new(pattern)
            .case_insensitive(fold)
            .dot_matches_new_line(of_lines)
            .size_limit(REGEX_BYTES)
            .build();
        regex.map(Regex::Linear).map_err(|error| {
            let why = error.to_string();
            invalid(why.lines().last().unwrap_or_default().trim())
        })
    }

    /// True if a part of the text matches.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        match self {
            Regex::Linear(regex) => Ok(regex.is_match(text)),
            Regex::Backtracking(regex) => regex.is_match(text).map_err(|error| failed(&error)),
        }
    }

    /// Returns the groups of the first match.
    pub(super) fn groups<'t>(&self, text: &'t str) -> Result<Option<Groups<'t>>, SqlError> {
        match self {
            Regex::Linear(regex) => Ok(regex.captures(text).map(Groups::Linear)),
            Regex::Backtracking(regex) => {
                let found = regex.captures(text).map_err(|error| failed(&error))?;
                Ok(found.map(Groups::Backtracking))
            }
        }
    }

    /// Calls a function with the groups of each match, until it returns false.
    pub(super) fn each_groups<'t>(
        &self,
        text: &'t str,
        mut f: impl FnMut(Groups<'t>) -> Result<bool, SqlError>,
    ) -> Result<(), SqlError> {
        match self {
            Regex::Linear(regex) => {
                for found in regex.captures_iter(text) {
                    if !f(Groups::Linear(found))? {
                        break;
                    }
                }
            }
            Regex::Backtracking(regex) => {
                for found in regex.captures_iter(text) {
                    interrupt::step();
                    if !f(Groups::Backtracking(found.map_err(|error| failed(&error))?))? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls a function with the place of each match.
    pub(super) fn each_match(
        &self,
        text: &str,
        mut f: impl FnMut(Range<usize>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match self {
            Regex::Linear(regex) => regex.find_iter(text).try_for_each(|found| f(found.range())),
            Regex::Backtracking(regex) => regex.find_iter(text).try_for_each(|found| {
                interrupt::step();
                f(found.map_err(|error| failed(&error))?.range())
            }),
        }
    }
}

/// Returns the reason why an expression is not one, in PostgreSQL's words where it has them.
fn why(error: &fancy_regex::Error) -> &'static str {
    use fancy_regex::{CompileError, Error, ParseError};
    match error {
        Error::ParseError(_, ParseError::UnclosedOpenParen) => "parentheses () not balanced",
        Error::ParseError(_, ParseError::InvalidBackref) => "invalid backreference number",
        Error::ParseError(_, ParseError::InvalidRepeat | ParseError::TargetNotRepeatable) => {
            "quantifier operand invalid"
        }
        Error::ParseError(
            _,
            ParseError::InvalidEscape(_) | ParseError::TrailingBackslash | ParseError::InvalidHex,
        ) => "invalid escape \\ sequence",
        Error::ParseError(_, ParseError::InvalidClass) => "brackets [] not balanced",
        Error::ParseError(_, ParseError::RecursionExceeded) => "regular expression is too complex",
        Error::CompileError(error) => match &**error {
            CompileError::InvalidBackref(_) => "invalid backreference number",
            CompileError::InnerError(_)
            | CompileError::DfaBuildError(..)
            | CompileError::PatternTooComplex => "regular expression is too complex",
            _ => "it cannot be compiled",
        },
        _ => "it cannot be read",
    }
}

impl<'t> Groups<'t> {
    /// Returns the number of groups, with the whole match.
    pub(super) fn len(&self) -> usize {
        match self {
            Groups::Linear(groups) => groups.len(),
            Groups::Backtracking(groups) => groups.len(),
        }
    }

    /// Returns the text of a group; `None` if it has no part in the match.
    pub(super) fn get(&self, at: usize) -> Option<&'t str> {
        match self {
            Groups::Linear(groups) => groups.get(at).map(|group| group.as_str()),
            Groups::Backtracking(groups) => groups.get(at).map(|group| group.as_str()),
        }
    }

    /// Returns the place of the whole match.
    pub(super) fn place(&self) -> Range<usize> {
        match self {
            Groups::Linear(groups) => groups.get_match().range(),
            Groups::Backtracking(groups) => groups.get(0).map_or(0..0, |whole| whole.range()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lookaround_and_back_references_need_steps_back() {
        for pattern in [r"a(?=b)", r"(?!b)", r"(?<=a)b", r"(?<!a)", r"(a)\1", r"[\]](?=a)"] {
            assert!(needs_backtracking(pattern), "{pattern}");
        }
        for pattern in [r"a\d", r"\(?=b", r"[(?=]", r"[]\1(?=]", r"[^](?=]a", r"(?:a)", r"\\1"] {
            assert!(!needs_backtracking(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_search_that_takes_too_long_fails() {
        let regex = Regex::new(r"^(?:(a|aa)+)\1b$", false).unwrap();
        let text = format!("{}cb", "a".repeat(40));
        let error = regex.is_match(&text).unwrap_err();
        assert_eq!(error.message, "regular expression failed: too many steps");
    }
}
