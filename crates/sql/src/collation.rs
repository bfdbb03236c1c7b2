//! Collations: the orders of texts.
//!
//! Texts are ordered by their bytes. A column may have the collation of a language nevertheless:
//! such a collation is deterministic, so that texts are equal if their bytes are, and keys, groups
//! and references are those of any text. What would put its texts in an order is refused by name.

use crate::error::{SqlError, state};
use crate::parse::is_word;
use crate::types::Type;
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

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
                let dialect = PostgreSqlDialect {};
                let rest = tokens[at + 1..].to_vec();
                let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest);
                if let (Some(column), Ok(name)) = (column.take(), parser.parse_object_name(false)) {
                    let parts = 2 * name.0.len() - 1;
                    found.push((column, name));
                    tokens.drain(at..(at + 1 + parts).min(tokens.len()));
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the error of an order of texts by the collation of a language.
pub(crate) fn not_ordered(name: &str) -> SqlError {
    SqlError::unsupported(format!("an order of texts by the collation \"{name}\""))
        .hint("Text is ordered by its bytes: COLLATE \"C\".")
}
