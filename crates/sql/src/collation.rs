//! Collations: the orders of texts.
//!
//! Texts are ordered by their bytes. A column may have the collation of a language nevertheless:
//! such a collation is deterministic, so that texts are equal if their bytes are, and keys, groups
//! and references are those of any text. What would put its texts in an order is refused by name.

use crate::error::{SqlError, state};
use crate::parse::is_word;
use crate::types::Type;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// The languages whose collations a column may have, in PostgreSQL's names of them. Those in which
/// upper and lower case differ from other languages' are not among them.
const LANGUAGES: &str = "\
    af agq ak am ar as asa ast bas be bem bez bg bgc bho bm bn bo br brx bs ca ccp ce ceb cgg \
    chr ckb cs cv cy da dav de dje doi dsb dua dyo dz ebu ee en eo es et eu ewo fa ff fi fil fo \
    fr fur fy ga gd gl gsw gu guz gv ha haw he hi hr hsb hu ia id ig ii is it ja jgo jmc jv ka \
    kab kam kde kea kgp khq ki kk kkj kl kln km kn ko kok ks ksb ksf ksh ku kw ky lag lb lg lkt \
    ln lo lrc lu luo luy lv mai mas mer mfe mg mgh mgo mi mk ml mn mni mr ms mt mua my mzn naq \
    nb nd ne nmg nn nnh no nus nyn om or os pa pcm pl ps pt qu raj rm rn ro rof ru rw rwk sa sah \
    saq sat sbp sc sd se seh ses sg shi si sk sl smn sn so sq sr su sv sw ta te teo tg th ti tk \
    to tt twq tzm ug uk und ur uz vai vi vun wae wo xh xog yav yi yo yrl yue zgh zh zu";
/// The ending of the name of a language's collation.
const ENDING: &str = "-x-icu";
/// The id of the first of them.
const FIRST_ID: u32 = 12_600;

/// Iterates over the collations of languages: ids, names and locales.
pub(crate) fn of_languages() -> impl Iterator<Item = (u32, String, &'static str)> {
    let all = LANGUAGES.split_whitespace().zip(FIRST_ID..);
    all.map(|(language, id)| (id, format!("{language}{ENDING}"), language))
}

/// Returns the id of a collation of a language.
pub(crate) fn id(name: &str) -> Option<u32> {
    of_languages().find(|(_, other, _)| other == name).map(|(id, ..)| id)
}

/// Returns the collation that a column is given; `None` for the order of bytes. Fails with 42704.
pub(crate) fn of_column(name: &ast::ObjectName) -> Result<Option<String>, SqlError> {
    let parts: Vec<&ast::Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let is_system = match parts.as_slice() {
        [_] => true,
        [schema, _] => schema.value.eq_ignore_ascii_case("pg_catalog"),
        _ => false,
    };
    match parts.last().map(|ident| ident.value.as_str()) {
        Some("C" | "POSIX" | "default" | "ucs_basic") => Ok(None),
        Some(language) if is_system && id(language).is_some() => Ok(Some(language.to_owned())),
        _ => {
            let name = name.to_string().replace('"', "");
            let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
            Err(SqlError::new(state::UNDEFINED_OBJECT, message)
                .hint("Text is ordered by its bytes: COLLATE \"C\"."))
        }
    }
}

/// Returns the collation that a column of a type is given. Fails with 42804 unless its values are
/// texts.
pub(crate) fn of_type(name: &ast::ObjectName, ty: Type) -> Result<Option<String>, SqlError> {
    if ty.element().unwrap_or(ty).is_text() {
        return of_column(name);
    }
    let message = format!("collations are not supported by type {}", ty.name());
    Err(SqlError::new(state::TYPE_MISMATCH, message))
}

/// Cuts COLLATE behind the types of columns in ALTER TABLE, which the parser does not know there.
/// Returns the columns and their collations.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Vec<(ast::Ident, ast::ObjectName)> {
    let mut found = Vec::new();
    let [alter, table, ..] = tokens.as_slice() else { return found };
    if !is_word(alter, "alter") || !is_word(table, "table") {
        return found;
    }
    // The column whose type is being read, and the parentheses that are open.
    let (mut column, mut depth, mut at) = (None, 0_usize, 2);
    let mut cuts: Vec<Range<usize>> = Vec::new();
    while at < tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => column = None,
            _ if depth > 0 => {}
            _ if is_word(&tokens[at], "using") => column = None,
            _ if is_word(&tokens[at], "type") && column.is_none() => {
                let has_set = is_word(&tokens[at - 1], "data") && is_word(&tokens[at - 2], "set");
                let place = if has_set { at.saturating_sub(3) } else { at - 1 };
                let name = &tokens[place];
                let before = &tokens[place.saturating_sub(1)];
                if let Token::Word(word) = &name.token
                    && (is_word(before, "column") || is_word(before, "alter"))
                    && !is_word(name, "column")
                {
                    column = Some(word.to_ident(name.span));
                }
            }
            _ if is_word(&tokens[at], "collate") => {
                let parts = name_at(&tokens[at + 1..]);
                if let Some(column) = column.take().filter(|_| !parts.is_empty()) {
                    let end = at + 2 * parts.len();
                    found.push((column, ast::ObjectName::from(parts)));
                    cuts.push(at..end);
                    at = end;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut place = 0;
    let mut cuts = cuts.into_iter().peekable();
    tokens.retain(|_| {
        while cuts.next_if(|cut| cut.end <= place).is_some() {}
        let is_cut = cuts.peek().is_some_and(|cut| cut.contains(&place));
        place += 1;
        !is_cut
    });
    found
}

/// Returns the parts of the name that tokens begin with.
fn name_at(tokens: &[TokenWithSpan]) -> Vec<ast::Ident> {
    let mut parts = Vec::new();
    let mut rest = tokens;
    while let [TokenWithSpan { token: Token::Word(word), span }, behind @ ..] = rest {
        parts.push(word.to_ident(*span));
        match behind {
            [TokenWithSpan { token: Token::Period, .. }, behind @ ..] => rest = behind,
            _ => break,
        }
    }
    parts
}

/// Returns the error of an order of texts by the collation of a language.
pub(crate) fn not_ordered(name: &str) -> SqlError {
    SqlError::unsupported(format!("an order of texts by the collation \"{name}\""))
        .hint("Text is ordered by its bytes: COLLATE \"C\".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn tokens(sql: &str) -> Vec<TokenWithSpan> {
        let all = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
        let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        all.expect("tokens").into_iter().filter(|token| !is_blank(token)).collect()
    }

    #[test]
    fn collations_are_cut_from_behind_types() {
        let sql = "ALTER TABLE t ALTER COLUMN a TYPE text COLLATE pg_catalog.\"C\" USING b COLLATE \
                   c, ALTER d SET DATA TYPE varchar(3) COLLATE \"de-x-icu\"";
        let mut all = tokens(sql);
        let found: Vec<_> =
            cut(&mut all).iter().map(|(column, name)| format!("{column} {name}")).collect();
        assert_eq!(found, ["a pg_catalog.\"C\"", "d \"de-x-icu\""]);
        let rest: Vec<String> = all.iter().map(|token| token.token.to_string()).collect();
        let rest = rest.join(" ");
        let cut = "ALTER TABLE t ALTER COLUMN a TYPE text USING b COLLATE c , ALTER d SET DATA TYPE \
                   varchar ( 3 )";
        assert_eq!(rest.trim(), cut);
    }

    /// In time with the square of their number, this would take hours.
    #[test]
    fn many_collations_are_cut_at_once() {
        let one = "alter a type text collate b, ";
        for (text, found) in [("collate ".repeat(300_000), 0), (one.repeat(30_000), 30_000)] {
            let mut all = tokens(&format!("alter table t {text}"));
            assert_eq!(cut(&mut all).len(), found);
        }
    }
}
