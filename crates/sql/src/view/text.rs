//! The text of a view: its place in CREATE VIEW, and the form in which it is stored, with lists for
//! each `*`, and with the ids of the objects that it names.

use crate::create_as;
use crate::error::SqlError;
use crate::names;
use crate::parse::is_word;
use crate::system::quoted;
use crate::table_command;
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// Returns the text of the query of CREATE VIEW: all behind `AS`, except WITH [NO] DATA of a
/// materialized view.
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
    let is_materialized = rest.first().is_some_and(|token| is_word(token, "materialized"));
    let data = if is_materialized { create_as::data_words(tokens) } else { 0 };
    let tokens = &tokens[..tokens.len() - data];
    let end = place(sql, tokens.last()?.span.end)?;
    // The commands TABLE are spelled out, so that the text has each `*`.
    let (mut text, mut written) = (String::new(), start);
    let is_long = |token: &&TokenWithSpan| {
        token.token == Token::Mul && token.span.end.column > token.span.start.column + 1
    };
    for token in tokens.iter().filter(is_long) {
        let (from, to) = (place(sql, token.span.start)?, place(sql, token.span.end)?);
        if from >= written && sql.get(from..to)?.eq_ignore_ascii_case("table") {
            text.push_str(sql.get(written..from)?);
            text.push_str(table_command::SPELLED);
            written = to;
        }
    }
    text.push_str(sql.get(written..end)?);
    Some(text.trim().to_owned())
}

/// Makes ALTER TABLE of ALTER VIEW … RENAME. Returns true if it is one.
pub(crate) fn cut_rename(tokens: &mut [TokenWithSpan]) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let renames = is(0, "alter") && is(1, "view") && (3..tokens.len()).any(|at| is(at, "rename"));
    if renames {
        tokens[1].token = Token::make_keyword("TABLE");
    }
    renames
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

/// A part of a text that is stored otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    from: Location,
    /// Its end; `None` for a `*`, with the name that qualifies it.
    to: Option<Location>,
    /// Its text once it is stored.
    stored: String,
}

impl Mention {
    /// A `*` at a [place](names::place) stands for these columns.
    pub(crate) fn of_star(at: usize, columns: &[String]) -> Mention {
        let from = Location { line: (at >> 32) as u64, column: (at as u32).into() };
        debug_assert_eq!(names::place(from), Some(at));
        Mention { from, to: None, stored: columns.join(", ") }
    }

    /// A name in FROM stands for a relation. Without an alias, its name becomes that.
    pub(crate) fn of_relation(name: &ObjectName, id: u32, has_alias: bool) -> Option<Mention> {
        let mut mention = Mention::of_type(name, id)?;
        if !has_alias {
            let alias = names::fold(name.0.last()?.as_ident()?);
            mention.stored += &format!(" AS {}", quoted(&alias));
        }
        Some(mention)
    }

    /// A literal at a place names a sequence.
    pub(crate) fn of_literal(at: Span, id: u32) -> Mention {
        let stored = format!("'{}'", names::reference(id));
        Mention { from: at.start, to: Some(at.end), stored }
    }

    /// A name stands for a function of an extension.
    pub(crate) fn of_extension(name: &ObjectName, id: u32) -> Option<Mention> {
        let mention = Mention::of_type(name, id)?;
        let function = names::of_extension(id, &names::function_name(name));
        Some(Mention { stored: function.to_string(), ..mention })
    }

    /// A name stands for a type.
    pub(crate) fn of_type(name: &ObjectName, id: u32) -> Option<Mention> {
        let (first, last) = (name.0.first()?.as_ident()?, name.0.last()?.as_ident()?);
        let stored = names::reference(id).to_string();
        Some(Mention { from: first.span.start, to: Some(last.span.end), stored })
    }
}

/// Returns a text in the form in which it is stored.
pub(crate) fn store(text: &str, mut mentions: Vec<Mention>) -> Result<String, SqlError> {
    let lost = || SqlError::unsupported("* or a name at its place in this view");
    mentions.sort_by_key(|mention| mention.from);
    mentions.dedup_by_key(|mention| mention.from);
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for mention in mentions {
        let at = place(text, mention.from).filter(|at| *at >= written).ok_or_else(lost)?;
        let before = &text[written..at];
        let (kept, end) = match mention.to {
            Some(to) => (before, place(text, to).filter(|end| *end > at).ok_or_else(lost)?),
            None if text.as_bytes().get(at) != Some(&b'*') => return Err(lost()),
            // `t.*` gives its qualifier, too.
            None => match before.trim_end().strip_suffix('.') {
                Some(qualified) => (without_last_name(qualified), at + 1),
                None => (before, at + 1),
            },
        };
        out.push_str(kept);
        out.push_str(&mention.stored);
        written = end;
    }
    out.push_str(&text[written..]);
    Ok(out)
}

/// Returns a stored text as SQL, with these names of its objects: the whole name, and the one that
/// is the alias without another.
pub(crate) fn show(text: &str, mut name_of: impl FnMut(u32) -> (String, String)) -> String {
    let is_end = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$' | '"');
    let mut out = String::new();
    for part in names::references(text) {
        let Some(id) = part.id else {
            out.push_str(part.rest);
            continue;
        };
        let (whole, name) = name_of(id);
        if out.ends_with('\'') && part.rest.starts_with('\'') {
            out.push_str(&whole.replace('\'', "''"));
            out.push_str(part.rest);
            continue;
        }
        out.push_str(&whole);
        if whole.is_empty() {
            out.push_str(part.rest_behind(&whole));
            continue;
        }
        let behind = part.rest.strip_prefix(" AS ").and_then(|rest| rest.strip_prefix(&*name));
        let behind = behind.filter(|rest| rest.is_empty() || rest.starts_with(is_end));
        out.push_str(behind.unwrap_or(part.rest));
    }
    out
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
        let star = |line: u64, column: u64, columns: &[&str]| {
            let at = names::place(Location { line, column }).expect("a place");
            Mention::of_star(at, &columns.iter().map(ToString::to_string).collect::<Vec<_>>())
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
            assert_eq!(store(text, stars).expect("expanded"), expected);
        }
        assert!(store("select 1", vec![star(1, 8, &["a"])]).is_err());
    }
}
