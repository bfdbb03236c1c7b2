//! The text of a view: its place in CREATE VIEW, and the lists that `*` stands for.

use crate::error::SqlError;
use crate::names;
use crate::parse::is_word;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Returns the text of the query of CREATE VIEW: all behind `AS`.
pub(crate) fn cut_text(tokens: &[TokenWithSpan], sql: &str) -> Option<String> {
    let words = ["or", "replace", "temp", "temporary", "recursive", "materialized", "view"];
    let [create, rest @ ..] = tokens else { return None };
    let before = rest.iter().take_while(|token| words.iter().any(|word| is_word(token, word)));
    let is_view = before.last().is_some_and(|token| is_word(token, "view"));
    if !is_word(create, "create") || !is_view {
        return None;
    }
    let mut depth = 0_usize;
    let behind = tokens.iter().find(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(token, "as")
    });
    let start = place(sql, behind?.span.end)?;
    let end = place(sql, tokens.last()?.span.end)?;
    Some(sql.get(start..end)?.trim().to_owned())
}

/// Returns the offset of a place in a text, in bytes.
fn place(text: &str, at: Location) -> Option<usize> {
    let line = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..)?;
    let within = rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at);
    Some(start + within)
}

/// A `*` of a text: its [place](names::place), and the columns that it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Star {
    pub(crate) at: usize,
    pub(crate) columns: Vec<String>,
}

/// Writes the columns of each `*` into a text.
pub(crate) fn expand(text: &str, mut stars: Vec<Star>) -> Result<String, SqlError> {
    let lost = || SqlError::unsupported("* in this view");
    stars.sort_by_key(|star| star.at);
    stars.dedup_by_key(|star| star.at);
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for star in stars {
        let location = Location { line: (star.at >> 32) as u64, column: (star.at as u32).into() };
        debug_assert_eq!(names::place(location), Some(star.at));
        let at = place(text, location).ok_or_else(lost)?;
        if text.as_bytes().get(at) != Some(&b'*') || at < written {
            return Err(lost());
        }
        // `t.*` gives its qualifier, too.
        let before = &text[written..at];
        let kept = match before.trim_end().strip_suffix('.') {
            Some(qualified) => without_last_name(qualified),
            None => before,
        };
        out.push_str(kept);
        out.push_str(&star.columns.join(", "));
        written = at + 1;
    }
    out.push_str(&text[written..]);
    Ok(out)
}

/// Returns a text without the name at its end, and the names that qualify this.
fn without_last_name(text: &str) -> &str {
    let mut rest = text.trim_end();
    loop {
        rest = match rest.strip_suffix('"') {
            // A quote inside a quoted name is doubled.
            Some(mut inner) => loop {
                let Some(at) = inner.rfind('"') else { return "" };
                match inner[..at].strip_suffix('"') {
                    Some(doubled) => inner = doubled,
                    None => break &inner[..at],
                }
            },
            None => rest.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '$'),
        };
        match rest.trim_end().strip_suffix('.') {
            Some(qualifier) => rest = qualifier.trim_end(),
            None => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_become_lists() {
        let star = |line: u64, column: u64, columns: &[&str]| Star {
            at: names::place(Location { line, column }).expect("a place"),
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        for (text, stars, expected) in [
            ("select * from t", vec![star(1, 8, &["t.a", "t.b"])], "select t.a, t.b from t"),
            (
                "select é.*, 1\n from \"é\", (select *) x",
                vec![star(2, 20, &["c"]), star(1, 10, &["\"é\".a"])],
                "select \"é\".a, 1\n from \"é\", (select c) x",
            ),
            ("select \"a \"\" b\" . *", vec![star(1, 19, &["x"])], "select x"),
            ("select s.t.* from s.t", vec![star(1, 12, &["t.a"])], "select t.a from s.t"),
        ] {
            assert_eq!(expand(text, stars).expect("expanded"), expected);
        }
        assert!(expand("select 1", vec![star(1, 8, &["a"])]).is_err());
    }
}
