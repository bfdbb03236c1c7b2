//! Patterns: LIKE and regular expressions.

use super::of::*;
use super::regex::{Groups, Regex};
use super::{Function, text_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::interrupt;
use crate::limits;
use std::cell::RefCell;
use std::collections::HashMap;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("~", &[TEXT, TEXT], A_BOOL, matches),
    Function::new("~*", &[TEXT, TEXT], A_BOOL, matches_any_case),
    Function::new("!~", &[TEXT, TEXT], A_BOOL, differs),
    Function::new("!~*", &[TEXT, TEXT], A_BOOL, differs_any_case),
    Function::new("similar to", &[TEXT, TEXT], A_BOOL, similar),
    Function::new("similar_to_escape", &[TEXT], A_TEXT, |args, _| {
        Ok(Datum::text(regex_of_similar(text_at(args, 0)?)))
    }),
    Function::new("like_escape", &[TEXT, TEXT], A_TEXT, like_escape),
    Function::new("regexp_replace", &[TEXT, TEXT, TEXT], A_TEXT, regexp_replace),
    Function::new("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], A_TEXT, regexp_replace),
];

/// The number of expressions that a thread keeps compiled.
const KEPT: usize = 64;

thread_local! {
    /// Expressions that were used lately: an expression is the same for all rows of a statement.
    static COMPILED: RefCell<HashMap<(String, bool), Regex>> = RefCell::default();
}

pub(super) fn compiled<T>(
    pattern: &str,
    fold: bool,
    f: impl FnOnce(&Regex) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    COMPILED.with_borrow_mut(|known| {
        let key = (pattern.to_owned(), fold);
        if !known.contains_key(&key) {
            let built = Regex::new(pattern, fold)?;
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(key.clone(), built);
        }
        f(&known[&key])
    })
}

fn is_match(args: &[Datum], fold: bool) -> Result<bool, SqlError> {
    let (text, pattern) = (text_at(args, 0)?, text_at(args, 1)?);
    compiled(pattern, fold, |regex| regex.is_match(text))
}

fn matches(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(is_match(args, false)?))
}

fn matches_any_case(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(is_match(args, true)?))
}

fn differs(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(!is_match(args, false)?))
}

fn differs_any_case(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(!is_match(args, true)?))
}

/// Returns a pattern of LIKE in which a backslash escapes what another character did.
fn like_escape(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (pattern, escape) = (text_at(args, 0)?, text_at(args, 1)?);
    let mut given = escape.chars();
    let escape = given.next();
    if given.next().is_some() {
        return Err(SqlError::new("22025", "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    if escape == Some('\\') {
        return Ok(args[0].clone());
    }
    limits::check_value(pattern.len().saturating_mul(2))?;
    let (mut out, mut is_escaped) = (String::with_capacity(pattern.len()), false);
    for c in pattern.chars() {
        if Some(c) == escape && !is_escaped {
            out.push('\\');
            is_escaped = true;
            continue;
        }
        if c == '\\' && !is_escaped {
            out.push('\\');
        }
        out.push(c);
        is_escaped = false;
    }
    Ok(Datum::text(out))
}

fn similar(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, pattern) = (text_at(args, 0)?, regex_of_similar(text_at(args, 1)?));
    Ok(Datum::Bool(compiled(&pattern, false, |regex| regex.is_match(text))?))
}

/// Translates a pattern of SIMILAR TO: `%` and `_` as in LIKE, alternatives and repetitions as in
/// regular expressions, all other characters as themselves.
fn regex_of_similar(pattern: &str) -> String {
    let mut out = String::from("^(?:");
    let (mut chars, mut in_class) = (pattern.chars(), false);
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push_str(&::regex::escape(&chars.next().unwrap_or('\\').to_string())),
            c if in_class => {
                in_class = c != ']';
                if c == '\\' || c == '[' {
                    out.push('\\');
                }
                out.push(c);
            }
            '[' => {
                in_class = true;
                out.push(c);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '|' | '*' | '+' | '?' | '{' | '}' | ')' => out.push(c),
            c => out.push_str(&::regex::escape(&c.to_string())),
        }
    }
    out.push_str(")$");
    out
}

/// True if the flags of a regular expression ask for a match in any case. Fails with 22023 for an
/// unknown flag.
pub(super) fn folds(flags: &str) -> Result<bool, SqlError> {
    if let Some(unknown) = flags.chars().find(|flag| !matches!(flag, 'g' | 'i' | 'c')) {
        let message = format!("invalid regular expression option: \"{unknown}\"");
        return Err(SqlError::new("22023", message));
    }
    Ok(flags.rfind(['i', 'c']).is_some_and(|at| flags[at..].starts_with('i')))
}

/// Replaces the first match, or all of them with the flag `g`; `\1` in the replacement is a group,
/// `\&` the whole match.
fn regexp_replace(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, pattern, with) = (text_at(args, 0)?, text_at(args, 1)?, text_at(args, 2)?);
    let flags = if args.len() > 3 { text_at(args, 3)? } else { "" };
    let fold = folds(flags)?;
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let replaced = compiled(pattern, fold, |regex| {
        let add = |groups: &Groups<'_>, out: &mut String| {
            interrupt::step();
            let mut chars = with.chars();
            while let Some(c) = chars.next() {
                if c != '\\' {
                    out.push(c);
                    continue;
                }
                match chars.next() {
                    Some('&') => out.push_str(groups.get(0).unwrap_or_default()),
                    Some(digit) if digit.is_ascii_digit() => {
                        let number = digit as usize - '0' as usize;
                        out.push_str(groups.get(number).unwrap_or_default());
                    }
                    Some('\\') | None => out.push('\\'),
                    Some(other) => out.extend(['\\', other]),
                }
            }
        };
        let (mut out, mut from, mut left) = (String::new(), 0, most);
        regex.each_groups(text, |groups| {
            let whole = groups.place();
            out.push_str(&text[from..whole.start]);
            add(&groups, &mut out);
            from = whole.end;
            crate::limits::check_room(out.len(), scope)?;
            left -= 1;
            Ok(left > 0)
        })?;
        out.push_str(&text[from..]);
        Ok(out)
    })?;
    Ok(Datum::text(replaced))
}

/// A part of a pattern between two `%`: texts, and characters that may be any.
enum Piece {
    One,
    Text(String),
}

/// Returns the parts of a pattern between its `%`, in lower case if that is wanted.
fn parts(pattern: &str, escape: Option<char>, fold: bool) -> Vec<Vec<Piece>> {
    let (mut parts, mut chars) = (vec![Vec::new()], pattern.chars());
    while let Some(c) = chars.next() {
        let (last, exactly) = match c {
            c if Some(c) == escape => (parts.last_mut(), chars.next().unwrap_or(c)),
            '%' => {
                parts.push(Vec::new());
                continue;
            }
            '_' => {
                if let Some(last) = parts.last_mut() {
                    last.push(Piece::One);
                }
                continue;
            }
            c => (parts.last_mut(), c),
        };
        let Some(last) = last else { continue };
        if !matches!(last.last(), Some(Piece::Text(_))) {
            last.push(Piece::Text(String::new()));
        }
        if let Some(Piece::Text(text)) = last.last_mut() {
            match fold {
                true => text.extend(exactly.to_lowercase()),
                false => text.push(exactly),
            }
        }
    }
    parts
}

/// Returns what follows a part at the beginning of a text.
fn after<'t>(part: &[Piece], text: &'t str) -> Option<&'t str> {
    part.iter().try_fold(text, |rest, piece| {
        interrupt::step();
        match piece {
            Piece::Text(text) => rest.strip_prefix(&**text),
            Piece::One => {
                let mut chars = rest.chars();
                chars.next().map(|_| chars.as_str())
            }
        }
    })
}

/// Returns what follows the first occurrence of a part in a text.
fn after_first<'t>(part: &[Piece], text: &'t str) -> Option<&'t str> {
    let ones = part.iter().take_while(|piece| matches!(piece, Piece::One)).count();
    let mut rest = after(&part[..ones], text)?;
    let Some((Piece::Text(first), more)) = part[ones..].split_first() else { return Some(rest) };
    loop {
        let found = &rest[rest.find(&**first)?..];
        if let Some(rest) = after(more, &found[first.len()..]) {
            return Some(rest);
        }
        let mut chars = found.chars();
        chars.next();
        rest = chars.as_str();
    }
}

/// True if a text ends with a part.
fn ends_with(part: &[Piece], text: &str) -> bool {
    let length = |piece: &Piece| match piece {
        Piece::One => 1,
        Piece::Text(text) => text.chars().count(),
    };
    let at = match part.iter().map(length).sum() {
        0 => Some(text.len()),
        chars => text.char_indices().rev().nth(chars - 1).map(|(at, _)| at),
    };
    at.is_some_and(|at| after(part, &text[at..]) == Some(""))
}

/// Matches LIKE: `%` is any text, `_` any character. Each part between two `%` matches where it
/// occurs first, so that the text is read once, unless `_` is between characters. A character
/// behind the escape stands for itself. To ignore case, give the text in lower case.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>, fold: bool) -> bool {
    let parts = parts(pattern, escape, fold);
    let [first, middle @ .., last] = parts.as_slice() else {
        return parts.iter().all(|only| after(only, text) == Some(""));
    };
    let rest = after(first, text);
    let rest = middle.iter().try_fold(rest, |rest, part| rest.map(|rest| after_first(part, rest)));
    rest.flatten().is_some_and(|rest| ends_with(last, rest))
}

/// The least value, and the largest one, perhaps included.
type Range = (Datum, Option<(Datum, bool)>);

/// Returns the range of the texts that begin as a LIKE with a constant pattern requires; `None` for
/// other conditions, and for patterns that begin with `%` or `_`.
pub(crate) fn like_range(condition: &Expr) -> Option<Range> {
    let Expr::Like { pattern, escape, negated: false, fold: false, .. } = condition else {
        return None;
    };
    let Expr::Const(Datum::Text(pattern)) = &**pattern else { return None };
    let parts = parts(pattern, *escape, false);
    let Piece::Text(start) = parts.first()?.first()? else { return None };
    let low = Datum::text(start);
    let is_exact = matches!(parts.as_slice(), [only] if only.len() == 1);
    let high = match is_exact {
        true => Some((low.clone(), true)),
        false => above(start).map(|text| (Datum::text(text), false)),
    };
    Some((low, high))
}

/// Returns the least text above all texts that begin with one.
fn above(start: &str) -> Option<String> {
    let mut chars: Vec<char> = start.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range_of(pattern: &str) -> Option<Range> {
        like_range(&Expr::Like {
            text: Box::new(Expr::Column(0)),
            pattern: Box::new(Expr::Const(Datum::text(pattern))),
            escape: Some('\\'),
            negated: false,
            fold: false,
        })
    }

    #[test]
    fn the_end_of_a_range_is_the_next_text() {
        let end = |pattern: &str| range_of(pattern).map(|(_, high)| high);
        assert_eq!(end("ab%"), Some(Some((Datum::text("ac"), false))));
        assert_eq!(end("ab"), Some(Some((Datum::text("ab"), true))));
        assert_eq!(end("a\u{d7ff}_"), Some(Some((Datum::text("a\u{e000}"), false))));
        assert_eq!(end("a\u{10ffff}%"), Some(Some((Datum::text("b"), false))));
        assert_eq!(end("\u{10ffff}%"), Some(None));
        assert_eq!(end("\\%x%"), Some(Some((Datum::text("%y"), false))));
        assert_eq!(end("%ab"), None);
        assert_eq!(end("_b"), None);
        assert_eq!(end(""), None);
    }

    /// Matches by trying each length of each `%`.
    fn slowly(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|at| slowly(&text[at..], rest)),
            ['\\', c, rest @ ..] => text.first() == Some(c) && slowly(&text[1..], rest),
            ['_', rest @ ..] => !text.is_empty() && slowly(&text[1..], rest),
            [c, rest @ ..] => text.first() == Some(c) && slowly(&text[1..], rest),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

        #[test]
        fn like_matches_what_the_definition_says(
            text in "[abé%]{0,8}", pattern in "([abé%_]|\\\\%){0,7}"
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = slowly(&chars(&text), &chars(&pattern));
            prop_assert_eq!(like(&text, &pattern, Some('\\'), false), expected, "{} like {}", text, pattern);
            if let Some((low, high)) = range_of(&pattern).filter(|_| expected) {
                let text = Datum::text(&text);
                prop_assert!(low.order(&text).is_le());
                let below = |(high, included): (Datum, bool)| match text.order(&high) {
                    std::cmp::Ordering::Equal => included,
                    order => order.is_lt(),
                };
                prop_assert!(high.is_none_or(below));
            }
        }
    }

    #[test]
    fn long_patterns_over_long_texts_take_no_time() {
        let pattern = format!("%{}b", "a".repeat(300_000));
        let long = "a".repeat(1_000_000);
        assert!(!like(&long, &pattern, None, false));
        assert!(!like(&long, &"%a".repeat(200_000).replace("%a%a", "%ab"), None, false));
    }
}
