//! VACUUM: its text, and the erasing of unused storage.
//!
//! The parser knows only another system's VACUUM, so its clauses are cut off before. FULL, FREEZE
//! and the like concern storage that PostgreSQL has and Meridian has not: they have no effect.

use crate::bulk::ABANDONED_NS;
use crate::error::{SqlError, state};
use crate::kv;
use crate::names;
use crate::parse::is_word;
use crate::response::Response;
use crate::session::Session;
use crate::work::Work;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Begin, Lock, Mode, ReadAt};
use sqlparser::ast::ObjectName;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The number of keys that one transaction erases.
const KEYS: usize = 10_000;

/// The options in PostgreSQL's order, and those that stand in parentheses only.
const OPTIONS: [&str; 4] = ["full", "freeze", "verbose", "analyze"];
const OTHERS: [&str; 6] = [
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];

/// The clauses of VACUUM.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Vacuum {
    /// True if tables are analyzed afterwards.
    pub(crate) analyze: bool,
    /// The tables; all, if there are none.
    pub(crate) tables: Vec<ObjectName>,
}

/// Cuts the clauses of VACUUM off its statement.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<Vacuum>, SqlError> {
    if !tokens.first().is_some_and(|token| is_word(token, "vacuum")) {
        return Ok(None);
    }
    let clauses = tokens.split_off(1);
    let (analyze, rest) = match clauses.split_first() {
        Some((first, rest)) if first.token == Token::LParen => options(rest)?,
        _ => {
            let (mut analyze, mut rest) = (false, &clauses[..]);
            for option in OPTIONS {
                if let Some((_, behind)) = rest.split_first().filter(|(t, _)| is_word(t, option)) {
                    (analyze, rest) = (analyze || option == "analyze", behind);
                }
            }
            (analyze, rest)
        }
    };
    Ok(Some(Vacuum { analyze, tables: tables(rest)? }))
}

fn syntax(token: Option<&TokenWithSpan>) -> SqlError {
    match token.filter(|token| token.token != Token::EOF) {
        Some(token) => {
            let message = format!("syntax error at or near \"{}\"", token.token);
            SqlError::new(state::SYNTAX, message).at(names::place(token.span.start))
        }
        None => SqlError::new(state::SYNTAX, "syntax error at end of input"),
    }
}

/// Reads options up to their closing parenthesis. Returns true for ANALYZE, and what is behind.
fn options(tokens: &[TokenWithSpan]) -> Result<(bool, &[TokenWithSpan]), SqlError> {
    let end = tokens.iter().position(|token| token.token == Token::RParen);
    let end = end.ok_or_else(|| syntax(None))?;
    let mut analyze = false;
    for option in tokens[..end].split(|token| token.token == Token::Comma) {
        let (name, value) = match option {
            [name] => (name, None),
            [name, value] => (name, Some(value)),
            other => return Err(syntax(other.get(2).or(tokens.get(end)))),
        };
        if !OPTIONS.iter().chain(&OTHERS).any(|known| is_word(name, known)) {
            let message = format!("unrecognized VACUUM option \"{}\"", name.token);
            return Err(SqlError::new(state::SYNTAX, message).at(names::place(name.span.start)));
        }
        if is_word(name, "analyze") {
            let says = |words: [&str; 2], digit: &str| {
                value.is_some_and(|value| {
                    words.iter().any(|word| is_word(value, word))
                        || matches!(&value.token, Token::Number(number, _) if number == digit)
                })
            };
            analyze = match (value, says(["on", "true"], "1"), says(["off", "false"], "0")) {
                (None, ..) | (_, true, _) => true,
                (_, _, true) => false,
                _ => {
                    let message = "analyze requires a Boolean value";
                    return Err(SqlError::new(state::SYNTAX, message));
                }
            };
        }
    }
    Ok((analyze, &tokens[end + 1..]))
}

/// Reads the names of tables.
fn tables(tokens: &[TokenWithSpan]) -> Result<Vec<ObjectName>, SqlError> {
    let is_end = |token: &TokenWithSpan| matches!(token.token, Token::EOF | Token::SemiColon);
    if tokens.iter().all(is_end) {
        return Ok(Vec::new());
    }
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    let mut tables = Vec::new();
    loop {
        let name = parser.parse_object_name(false);
        tables.push(name.map_err(|_| syntax(Some(&parser.peek_token())))?);
        if parser.peek_token().token == Token::LParen {
            return Err(SqlError::unsupported("VACUUM of some columns"));
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token() {
        end if end.token == Token::EOF => Ok(tables),
        other => Err(syntax(Some(&other))),
    }
}

impl Session {
    /// Erases storages that were dropped, truncated or abandoned, in transactions of bounded size,
    /// whichever tables are named; then analyzes those.
    pub(crate) async fn vacuum(&mut self, vacuum: &Vacuum) -> Result<Response, SqlError> {
        if self.work.as_ref().is_some_and(|work| work.explicit) {
            return Err(SqlError::new(
                state::ACTIVE_TRANSACTION,
                "VACUUM cannot run inside a transaction block",
            ));
        }
        self.finish_implicit().await?;
        let tables = self.tables_named(&vacuum.tables).await?;
        // What is left of the storage that is being erased: before it there are only tombstones.
        let mut left: Option<(Key, KeyRange)> = None;
        while let Some(note) = self.garbage().await? {
            let Some(id) = note.last_chunk().map(|id| u32::from_be_bytes(*id)) else {
                return Err(SqlError::corrupted("a note of dropped storage"));
            };
            let mut work = Work::begin(&self.engine, Begin::new(Mode::ReadWrite), false).await?;
            let txn = work.txn.as_mut();
            let Some(noted) = txn.get(&note, Lock::Exclusive).await? else {
                continue; // Another VACUUM erased it.
            };
            // The note's owner may be about to keep the storage.
            txn.keep(&note, &noted)?;
            let storage = kv::prefix_range(&kv::storage_prefix(id));
            txn.writes_alone(storage.clone());
            let range = left.take_if(|(other, _)| *other == note).map_or(storage, |(_, left)| left);
            let chunk = txn.scan(&range, Lock::Exclusive, false, KEYS).await?;
            for (key, _) in chunk.rows {
                txn.put(key, None)?;
            }
            if chunk.rest.is_none() {
                txn.put(note.clone(), None)?;
            }
            left = chunk.rest.map(|rest| (note, rest));
            work.settled = true;
            self.work = Some(work);
            match self.commit().await {
                // Another VACUUM is at work on it: the rest is for the next one.
                Err(error) if error.is_restart() => break,
                other => other?,
            }
        }
        if vacuum.analyze {
            self.analyze_tables(&tables).await?;
        }
        Ok(Response::Complete("VACUUM".into()))
    }

    /// Returns the note of an unused storage. Reads without locks, so that other transactions are
    /// not disturbed.
    async fn garbage(&mut self) -> Result<Option<Key>, SqlError> {
        let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
        let mut txn = self.engine.database().begin(begin).await?;
        let dropped = txn.scan(&kv::prefix_range(&kv::DROPPED), Lock::Shared, false, 1).await?;
        if let Some((note, _)) = dropped.rows.into_iter().next() {
            return Ok(Some(note));
        }
        let now_ns = txn.began().earliest;
        let mut range = Some(kv::prefix_range(&kv::PENDING));
        while let Some(part) = range {
            let chunk = txn.scan(&part, Lock::Shared, false, 1000).await?;
            let abandoned = |since: &[u8]| {
                let since = since.try_into().map_or(0, u64::from_be_bytes);
                now_ns.saturating_sub(since) > ABANDONED_NS
            };
            if let Some((note, _)) = chunk.rows.into_iter().find(|(_, since)| abandoned(since)) {
                return Ok(Some(note));
            }
            range = chunk.rest;
        }
        Ok(None)
    }
}
