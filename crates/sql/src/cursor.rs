//! Cursors: queries whose rows a client fetches in parts, by name.
//!
//! DECLARE reads all rows, within the memory of queries: later writes of the transaction, changes
//! of the schema and ROLLBACK TO have no effect on them, as in PostgreSQL. A cursor goes with its
//! transaction; one WITH HOLD stays when that has committed.

use crate::clauses;
use crate::compile::Compiled;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::memory::{Held, weight};
use crate::names;
use crate::parse::Parsed;
use crate::prepared;
use crate::response::{Column, Response};
use crate::run::Portal;
use crate::savepoints::Savepoints;
use crate::session::Session;
use crate::system::OpenCursor;
use sqlparser::ast::{self, FetchDirection, Statement};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A cursor of a session.
struct Cursor {
    columns: Arc<[Column]>,
    /// The rows that are left, and the memory that they take.
    rows: VecDeque<Vec<Datum>>,
    memory: Held,
    with_hold: bool,
    /// True if it outlived the transaction that declared it.
    stays: bool,
    /// The text of its declaration.
    text: Arc<str>,
    /// Its number among those of the session, by which ROLLBACK TO finds the later ones.
    number: usize,
}

/// The cursors of a session, by name.
#[derive(Default)]
pub(crate) struct Cursors {
    open: BTreeMap<String, Cursor>,
    opened: usize,
    /// The number of cursors before each savepoint of the open transaction.
    savepoints: Savepoints<usize>,
}

fn missing(name: &str) -> SqlError {
    SqlError::new(state::NO_PORTAL, format!("cursor \"{name}\" does not exist"))
}

impl Cursors {
    /// Returns the columns of a cursor, if there is one of the name.
    pub(crate) fn columns(&self, name: &str) -> Option<Arc<[Column]>> {
        self.open.get(name).map(|cursor| cursor.columns.clone())
    }

    /// Iterates over what `pg_cursors` shows.
    pub(crate) fn shown(&self) -> impl Iterator<Item = OpenCursor> {
        self.open.iter().map(|(name, cursor)| OpenCursor {
            name: name.clone(),
            statement: cursor.text.clone(),
            is_holdable: cursor.with_hold,
        })
    }

    /// Begins a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str) {
        self.savepoints.begin(name, self.opened);
    }

    /// Removes a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) {
        self.savepoints.release(name);
    }

    /// Closes those that were declared since a savepoint.
    pub(crate) fn roll_back_to(&mut self, name: &str) {
        if let Some(before) = self.savepoints.roll_back_to(name).copied() {
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
        // No later change is seen in any case.
        sensitive: _,
        scroll,
        hold: _,
        for_query,
    } = one;
    let Some(query) = for_query else {
        return Err(SqlError::unsupported("DECLARE of anything but a cursor"));
    };
    clauses::refuse(&[
        (data_type.is_some() || assignment.is_some(), "DECLARE of anything but a cursor"),
        (*binary == Some(true), "DECLARE BINARY"),
        (*scroll == Some(true), "DECLARE SCROLL"),
        (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE of a cursor"),
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
        match text.parse::<i32>() {
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
    /// Runs DECLARE: reads the rows.
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
        let in_block = self.work.as_ref().is_some_and(|work| work.explicit);
        if !in_block && !with_hold {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(state::NO_TRANSACTION, message));
        }
        if !in_block && (self.work.is_some() || !self.is_alone()) {
            let what = "DECLARE WITH HOLD among statements that are one implicit transaction";
            return Err(SqlError::unsupported(what));
        }
        if self.cursors.open.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message));
        }
        let mut parsed = Parsed::clone(&compiled.source);
        parsed.statement = Statement::Query(Box::new(query.clone()));
        let types = compiled.params.iter().map(|ty| Some(*ty)).collect();
        let mut portal = Portal::new(self.compile(Arc::new(parsed), types).await?, params);
        let (mut rows, mut memory) = (VecDeque::new(), self.facts.held());
        loop {
            let response = Box::pin(self.run(&mut portal, usize::MAX)).await?;
            let Response::Rows { rows: more, done, .. } = response else { break };
            memory.add(more.iter().map(|row| weight(row)).sum())?;
            rows.extend(more);
            if done.is_some() {
                break;
            }
        }
        // The response is not that of the query: a replay that finds other rows must fail.
        self.newest = None;
        if !in_block {
            self.finish_implicit().await?;
        }
        let columns = portal.columns().unwrap_or_else(|| Arc::from([]));
        let number = self.cursors.opened;
        self.cursors.opened += 1;
        let stays = !in_block;
        let text = Arc::from(compiled.source.statement.to_string());
        let cursor = Cursor { columns, rows, memory, with_hold, stays, text, number };
        self.cursors.open.insert(name, cursor);
        Ok(Response::Complete("DECLARE CURSOR".into()))
    }

    /// Runs FETCH, or continues it behind the rows that it has returned: at most `max` rows. MOVE
    /// returns none.
    pub(crate) fn fetch(
        &mut self,
        name: &ast::Ident,
        direction: &FetchDirection,
        moves: bool,
        returned: &mut u64,
        max: usize,
    ) -> Result<Response, SqlError> {
        let (name, wanted) = (names::fold(name), wanted(direction)?);
        let cursor = self.cursors.open.get_mut(&name).ok_or_else(|| missing(&name))?;
        let left = wanted.saturating_sub(*returned as usize).min(cursor.rows.len());
        let count = if moves { left } else { left.min(max) };
        let rows: Vec<_> = cursor.rows.drain(..count).collect();
        cursor.memory.free(rows.iter().map(|row| weight(row)).sum());
        *returned += count as u64;
        Ok(match moves {
            true => Response::Complete(format!("MOVE {count}")),
            false => {
                let done = (count == left).then(|| format!("FETCH {returned}"));
                Response::Rows { columns: cursor.columns.clone(), rows, done }
            }
        })
    }

    /// Returns the columns of a statement's response; those of FETCH are its cursor's, those of
    /// EXECUTE its prepared statement's.
    pub(crate) fn columns_of(&self, compiled: &Compiled) -> Option<Arc<[Column]>> {
        match &compiled.source.statement {
            Statement::Fetch { name, .. } if !compiled.source.moves => {
                self.cursors.columns(&names::fold(name))
            }
            statement @ Statement::Execute { .. } => {
                let (name, _) = prepared::executed(statement).ok()?;
                let inner = self.find(&name).ok()?.compiled.as_ref()?;
                inner.columns.clone()
            }
            _ if compiled.source.copy_to.is_some() => None,
            _ => compiled.columns.clone(),
        }
    }
}
