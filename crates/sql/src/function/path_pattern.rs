//! The patterns of `like_regex` in a `jsonpath`.

use super::regex::Regex;
use crate::error::{SqlError, state};
use std::sync::Arc;

/// A compiled pattern.
#[derive(Clone)]
pub(crate) struct PathPattern(Arc<Regex>);

impl std::fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PathPattern")
    }
}

impl PathPattern {
    /// Compiles a pattern with flags of XQuery: `i` for any case, `s` if a point matches line
    /// breaks, `m` if `^` and `$` match at each line, `q` if all characters stand for themselves.
    /// Fails with 2201B for a wrong pattern, with 0A000 for the flag `x`.
    pub(crate) fn new(pattern: &str, flags: &str) -> Result<PathPattern, SqlError> {
        let has = |flag| flags.contains(flag);
        let regex = if has('q') {
            Regex::new(&::regex::escape(pattern), has('i'))?
        } else if has('x') {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        } else {
            let (mut pattern, in_lines) = (pattern.to_owned(), has('m'));
            if !has('s') {
                pattern = within_lines(&pattern);
            }
            if in_lines {
                pattern.insert_str(0, "(?m)");
            }
            Regex::with(&pattern, has('i'), has('s'))?
        };
        Ok(PathPattern(Arc::new(regex)))
    }

    /// True if a part of the text matches.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        self.0.is_match(text)
    }
}

/// Takes line breaks from the characters that a class of other characters matches: `[^a]`.
fn within_lines(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let (mut rest, mut in_class) = (pattern, false);
    while let Some(c) = rest.chars().next() {
        crate::interrupt::step();
        rest = &rest[c.len_utf8()..];
        out.push(c);
        match c {
            '\\' => {
                if let Some(escaped) = rest.chars().next() {
                    out.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                }
            }
            '[' if !in_class => {
                in_class = true;
                if let Some(behind) = rest.strip_prefix('^') {
                    rest = behind;
                    out.push('^');
                    // A bracket that is the first of a class is one of its characters.
                    if let Some(behind) = rest.strip_prefix(']') {
                        rest = behind;
                        out.push_str("\\]");
                    }
                    out.push_str("\\n");
                } else if let Some(behind) = rest.strip_prefix(']') {
                    rest = behind;
                    out.push_str("\\]");
                }
            }
            ']' => in_class = false,
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, flags: &str, text: &str) -> bool {
        PathPattern::new(pattern, flags).unwrap().is_match(text).unwrap()
    }

    #[test]
    fn flags_are_those_of_xquery() {
        assert!(!is_match("a.b", "", "a\nb") && is_match("a.b", "s", "a\nb"));
        assert!(!is_match("a[^x]b", "", "a\nb") && is_match("a[^x]b", "s", "a\nb"));
        assert!(is_match("a[^]x]b", "", "ayb") && !is_match("a[^]x]b", "", "a]b"));
        assert!(!is_match("^b$", "", "a\nb") && is_match("^b$", "m", "a\nb"));
        assert!(!is_match("A", "", "a") && is_match("A", "i", "a"));
        assert!(!is_match("a.", "q", "ab") && is_match("A.", "qi", "a."));
        assert_eq!(PathPattern::new("a", "x").unwrap_err().sqlstate, "0A000");
        assert_eq!(PathPattern::new("(", "").unwrap_err().sqlstate, "2201B");
    }
}
