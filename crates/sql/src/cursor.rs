//! Cursors: queries whose rows a client fetches in parts, by name.
//!
//! A cursor is a portal that SQL names. It goes with its transaction; one WITH HOLD keeps the rows
//! that are left at the commit in memory.

use crate::compile::Compiled;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::memory::{Held, weight};
use crate::names;
use crate::parse::Parsed;
use crate::response::{Column, Response};
use crate::run::Portal;
use crate::session::Session;
use sqlparser::ast::{self, FetchDirection, Statement};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A cursor of a session.
pub(crate) struct Cursor {
    portal: Portal,
    rows: Rows,
    with_hold: bool,
    /// True if it outlived the transaction that declared it.
    stays: bool,
    /// Its number among those of the session, by which ROLLBACK TO finds the later ones.
    number: usize,
}

/// The rows that are left.
enum Rows {
    /// Those that its portal finds.
    Found,
    None,
    /// Those that outlived the transaction, and the memory that they take.
    Kept(VecDeque<Vec<Datum>>, Held),
}

/// The cursors of a session, by name.
#[derive(Default)]
pub(crate) struct Cursors {
    open: BTreeMap<String, Cursor>,
    opened: usize,
    /// The savepoints of the open transaction, with the number of cursors before each.
    savepoints: Vec<(String, usize)>,
}

fn missing(name: &str) -> SqlError {
    SqlError::new(state::NO_PORTAL, format!("cursor \"{name}\" does not exist"))
}

impl Cursors {
    /// Returns the columns of a cursor.
    pub(crate) fn columns(&self, name: &str) -> Result<Option<Arc<[Column]>>, SqlError> {
        Ok(self.open.get(name).ok_or_else(|| missing(name))?.portal.columns())
    }

    /// Begins a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), self.opened));
    }

    /// Removes a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) {
        if let Some(at) = self.savepoints.iter().rposition(|(other, _)| other == name) {
            self.savepoints.truncate(at);
        }
    }

    /// Closes those that were declared since a savepoint.
    pub(crate) fn roll_back_to(&mut self, name: &str) {
        if let Some(at) = self.savepoints.iter().rposition(|(other, _)| other == name) {
            self.savepoints.truncate(at + 1);
            let before = self.savepoints[at].1;
            self.open.retain(|_, cursor| cursor.stays || cursor.number < before);
        }
    }

    /// Ends those of a transaction. Those WITH HOLD stay if it has committed.
    pub(crate) fn end(&mut self, committed: bool) {
        self.savepoints.clear();
        self.open.values_mut().for_each(|cursor| cursor.stays |= committed && cursor.with_hold);
        self.open.retain(|_, cursor| cursor.stays);
    }

    /// Closes a cursor, or all.
    pub(crate) fn close(&mut self, name: Option<&str>) -> Result<(), SqlError> {
        match name {
            None => self.open.clear(),
            Some(name) => drop(self.open.remove(name).ok_or_else(|| missing(name))?),
        }
        Ok(())
    }
}

/// Returns the query of DECLARE. Fails with 0A000 for what is not built.
pub(crate) fn query_of(
    declared: &[ast::Declare],
) -> Result<(&ast::Declare, &ast::Query), SqlError> {
    let [one] = declared else { return Err(SqlError::unsupported("several cursors in DECLARE")) };
    let ast::Declare {
        names: _,
        data_type,
        assignment,
        declare_type: _,
        binary,
        // The rows are those of the transaction's view in any case.
        sensitive: _,
        scroll,
        hold: _,
        for_query,
    } = one;
    let Some(query) = for_query else {
        return Err(SqlError::unsupported("DECLARE of anything but a cursor"));
    };
    crate::clauses::refuse(&[
        (data_type.is_some() || assignment.is_some(), "DECLARE of anything but a cursor"),
        (*binary == Some(true), "DECLARE BINARY"),
        (*scroll == Some(true), "DECLARE SCROLL"),
    ])?;
    Ok((one, query))
}

/// Returns the number of rows that FETCH wants.
fn wanted(direction: &FetchDirection) -> Result<usize, SqlError> {
    let count = |limit: &ast::ValueWithSpan| {
        let text = limit.to_string();
        let backward = || {
            SqlError::new(state::NOT_IN_STATE, "cursor can only scan forward")
                .hint("Declare it with SCROLL option to enable backward scan.")
        };
        match text.parse::<i64>() {
            Ok(0) => Err(SqlError::unsupported("FETCH 0")),
            Ok(count) => usize::try_from(count).map_err(|_| backward()),
            Err(_) => {
                Err(SqlError::new(state::SYNTAX, format!("syntax error at or near \"{text}\"")))
            }
        }
    };
    match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Ok(1),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
            count(limit)
        }
        FetchDirection::All | FetchDirection::ForwardAll => Ok(usize::MAX),
        other => Err(SqlError::unsupported(format!("FETCH {other}"))),
    }
}

impl Session {
    /// Runs DECLARE.
    pub(crate) async fn declare(
        &mut self,
        compiled: &Compiled,
        params: Arc<[Datum]>,
    ) -> Result<Response, SqlError> {
        let Statement::Declare { stmts } = &compiled.source.statement else {
            return Err(SqlError::unsupported("DECLARE"));
        };
        let (declared, query) = query_of(stmts)?;
        let name = declared.names.first().map(names::fold).unwrap_or_default();
        let with_hold = declared.hold == Some(true);
        if !with_hold && self.work.as_ref().is_none_or(|work| !work.explicit) {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(state::NO_TRANSACTION, message));
        }
        if self.cursors.open.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message));
        }
        let mut parsed = Parsed::clone(&compiled.source);
        parsed.statement = Statement::Query(Box::new(query.clone()));
        let types = compiled.params.iter().map(|ty| Some(*ty)).collect();
        let query = self.compile(Arc::new(parsed), types).await?;
        let number = self.cursors.opened;
        self.cursors.opened += 1;
        let portal = Portal::new(query, params);
        let cursor = Cursor { portal, rows: Rows::Found, with_hold, stays: false, number };
        self.cursors.open.insert(name, cursor);
        if self.work.as_ref().is_none_or(|work| !work.explicit) {
            self.hold_cursors().await?;
            self.cursors.end(true);
        }
        Ok(Response::Complete("DECLARE CURSOR".into()))
    }

    /// Runs FETCH, or MOVE, which returns no rows.
    pub(crate) async fn fetch(
        &mut self,
        name: &ast::Ident,
        direction: &FetchDirection,
        moves: bool,
    ) -> Result<Response, SqlError> {
        let (name, max) = (names::fold(name), wanted(direction)?);
        let mut cursor = self.cursors.open.remove(&name).ok_or_else(|| missing(&name))?;
        let columns = cursor.portal.columns().unwrap_or_else(|| Arc::from([]));
        let rows = match &mut cursor.rows {
            Rows::None => Vec::new(),
            Rows::Kept(rows, memory) => {
                let rows: Vec<_> = rows.drain(..max.min(rows.len())).collect();
                memory.free(rows.iter().map(|row| weight(row)).sum());
                rows
            }
            Rows::Found => match Box::pin(self.run(&mut cursor.portal, max)).await? {
                Response::Rows { rows, done, .. } => {
                    if done.is_some() {
                        cursor.rows = Rows::None;
                    }
                    rows
                }
                _ => Vec::new(),
            },
        };
        self.cursors.open.insert(name, cursor);
        let (verb, count) = (if moves { "MOVE" } else { "FETCH" }, rows.len());
        let tag = format!("{verb} {count}");
        Ok(match moves {
            true => Response::Complete(tag),
            false => Response::Rows { columns, rows, done: Some(tag) },
        })
    }

    /// Reads the rows that are left of cursors WITH HOLD, before their transaction commits.
    pub(crate) async fn hold_cursors(&mut self) -> Result<(), SqlError> {
        let held = self.cursors.open.iter();
        let held = held.filter(|(_, it)| it.with_hold && matches!(it.rows, Rows::Found));
        let names: Vec<String> = held.map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(mut cursor) = self.cursors.open.remove(&name) else { continue };
            let mut memory = self.facts.held();
            let mut kept = VecDeque::new();
            loop {
                let response = Box::pin(self.run(&mut cursor.portal, HELD_ROWS)).await?;
                let Response::Rows { rows, done, .. } = response else { break };
                for row in rows {
                    memory.add(weight(&row))?;
                    kept.push_back(row);
                }
                if done.is_some() {
                    break;
                }
            }
            cursor.rows = Rows::Kept(kept, memory);
            self.cursors.open.insert(name, cursor);
        }
        Ok(())
    }
}

/// The rows that are read at once to be kept.
const HELD_ROWS: usize = 1000;
