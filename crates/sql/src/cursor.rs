//! Cursors: queries whose rows a client fetches in parts, by name.
//!
//! DECLARE reads all rows, within the memory of queries: later writes of the transaction, changes
//! of the schema and ROLLBACK TO have no effect on them, as in PostgreSQL. A cursor goes with its
//! transaction; one WITH HOLD stays when that has committed. The portal of a Bind is found by its
//! name, too; its query runs as far as its rows are fetched.

use crate::clauses;
use crate::compile::Compiled;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::memory::{Held, weight};
use crate::movement::{Movement, Place, Step, only_forward};
use crate::names;
use crate::parse::Parsed;
use crate::portal::Portal;
use crate::prepared;
use crate::response::{Column, Response};
use crate::savepoints::Savepoints;
use crate::session::Session;
use crate::system::OpenCursor;
use sqlparser::ast::{self, FetchDirection, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A cursor of a session.
struct Cursor {
    columns: Arc<[Column]>,
    /// All rows, and the memory that they take. Those that a cursor that only goes forward has
    /// passed are empty.
    rows: Vec<Vec<Datum>>,
    memory: Held,
    /// Its place: 0 before the first row, n on the nth, and one more than there are behind the
    /// last.
    at: usize,
    /// NO SCROLL. Without it and SCROLL the rows are kept, too: PostgreSQL lets most such cursors
    /// go back.
    forward_only: bool,
    with_hold: bool,
    /// True if it outlived the transaction that declared it.
    stays: bool,
    /// The text of its declaration.
    text: Arc<str>,
    /// Its number among those of the session, by which ROLLBACK TO finds the later ones.
    number: usize,
}

/// The rows that a step passes, if they are kept, and their number.
#[derive(Default)]
struct Passed {
    count: usize,
    rows: Vec<Vec<Datum>>,
}

/// The rows of a FETCH that its client has not got.
pub(crate) struct Fetched {
    columns: Arc<[Column]>,
    /// The number of all rows that it returns.
    count: usize,
    rows: std::vec::IntoIter<Vec<Datum>>,
    _memory: Held,
}

impl Cursor {
    fn place(&self) -> Place {
        let all = self.rows.len();
        Place { passed: self.at.min(all), at_end: self.at > all }
    }

    /// Makes a step. `keeps`: returns the rows that it passes.
    fn go(&mut self, step: Step, keeps: bool) -> Result<Passed, SqlError> {
        let Place { passed, .. } = self.place();
        let goes_back = match step {
            Step::Forward(_) => false,
            Step::Backward(_) => true,
            Step::Rewind => self.at > 0,
        };
        if goes_back && self.forward_only {
            return Err(only_forward());
        }
        match step {
            Step::Rewind => {
                self.at = 0;
                Ok(Passed::default())
            }
            Step::Forward(0) | Step::Backward(0) => Ok(Passed::default()),
            Step::Forward(wanted) => {
                let all = self.rows.len();
                let end = all.min(passed.saturating_add(wanted));
                self.at = if end - passed < wanted { all + 1 } else { end };
                let mut rows = Vec::new();
                if self.forward_only {
                    let gone = self.rows[passed..end].iter_mut().map(std::mem::take);
                    rows.extend(gone);
                    self.memory.free(rows.iter().map(|row| weight(row)).sum());
                } else if keeps {
                    rows.extend_from_slice(&self.rows[passed..end]);
                }
                rows.truncate(if keeps { usize::MAX } else { 0 });
                Ok(Passed { count: end - passed, rows })
            }
            Step::Backward(wanted) => {
                let before = self.at.saturating_sub(1);
                let start = before.saturating_sub(wanted);
                self.at = if before - start < wanted { 0 } else { start + 1 };
                let rows = &self.rows[start..before];
                let kept = if keeps { rows.iter().rev().cloned().collect() } else { Vec::new() };
                Ok(Passed { count: rows.len(), rows: kept })
            }
        }
    }
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
        scroll: _,
        hold: _,
        for_query,
    } = one;
    let Some(query) = for_query else {
        return Err(SqlError::unsupported("DECLARE of anything but a cursor"));
    };
    clauses::refuse(&[
        (data_type.is_some() || assignment.is_some(), "DECLARE of anything but a cursor"),
        (*binary == Some(true), "DECLARE BINARY"),
        (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE of a cursor"),
    ])?;
    Ok((one, query))
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
        if self.cursors.open.contains_key(&name) || self.portals.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message));
        }
        let mut parsed = Parsed::clone(&compiled.source);
        parsed.statement = Statement::Query(Box::new(query.clone()));
        let types = compiled.params.iter().map(|ty| Some(*ty)).collect();
        let mut portal = Portal::new(self.compile(Arc::new(parsed), types).await?, params);
        let (mut rows, mut memory) = (Vec::new(), self.facts.held());
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
        let forward_only = declared.scroll == Some(false);
        let cursor =
            Cursor { columns, rows, at: 0, memory, forward_only, with_hold, stays, text, number };
        self.cursors.open.insert(name, cursor);
        Ok(Response::Complete("DECLARE CURSOR".into()))
    }

    /// Runs FETCH, or continues it behind the rows that it has returned: at most `max` rows. MOVE
    /// returns none.
    pub(crate) async fn fetch(
        &mut self,
        portal: &mut Portal,
        name: &ast::Ident,
        direction: &FetchDirection,
        moves: bool,
        max: usize,
    ) -> Result<Response, SqlError> {
        let name = names::fold(name);
        let fetched = match portal.fetched.take() {
            Some(fetched) => fetched,
            None => self.move_cursor(&name, Movement::of(direction)?, moves).await?,
        };
        // The response is not that of the portal's query.
        self.newest = None;
        if moves {
            return Ok(Response::Complete(format!("MOVE {}", fetched.count)));
        }
        let fetched = portal.fetched.insert(fetched);
        let rows: Vec<_> = fetched.rows.by_ref().take(max).collect();
        let is_last = fetched.rows.as_slice().is_empty();
        let done = is_last.then(|| format!("FETCH {}", fetched.count));
        Ok(Response::Rows { columns: fetched.columns.clone(), rows, done })
    }

    /// Moves a cursor, or the portal of that name.
    async fn move_cursor(
        &mut self,
        name: &str,
        movement: Movement,
        moves: bool,
    ) -> Result<Fetched, SqlError> {
        let mut memory = self.facts.held();
        let Some(cursor) = self.cursors.open.get_mut(name) else {
            let mut portal = self.portals.remove(name).ok_or_else(|| missing(name))?;
            let moved = self.move_portal(&mut portal, movement, moves, memory).await;
            self.keep_portal(name, portal);
            return moved;
        };
        let columns = cursor.columns.clone();
        let mut passed = Passed::default();
        let place = cursor.place();
        if moves && movement.stays() {
            passed.count = usize::from(place.is_on_row());
        } else {
            let steps = movement.steps(place);
            for (at, step) in steps.iter().enumerate() {
                passed = cursor.go(*step, !moves && at + 1 == steps.len())?;
            }
        }
        memory.add(passed.rows.iter().map(|row| weight(row)).sum())?;
        Ok(Fetched { columns, count: passed.count, rows: passed.rows.into_iter(), _memory: memory })
    }

    /// Moves the portal of a Bind, which only goes forward: its query runs on.
    async fn move_portal(
        &mut self,
        portal: &mut Portal,
        movement: Movement,
        moves: bool,
        mut memory: Held,
    ) -> Result<Fetched, SqlError> {
        let Some(columns) = portal.columns().filter(|_| portal.is_query()) else {
            return Err(SqlError::unsupported("FETCH of a portal that is no query"));
        };
        let place = portal.place();
        let (mut count, mut rows) = (0, Vec::new());
        if moves && movement.stays() {
            count = usize::from(place.is_on_row());
        } else {
            let steps = movement.steps(place);
            for (at, step) in steps.iter().enumerate() {
                count = 0;
                let wanted = match *step {
                    Step::Forward(wanted) => wanted,
                    Step::Rewind if portal.place() == Place::default() => 0,
                    Step::Rewind | Step::Backward(_) => return Err(only_forward()),
                };
                let keeps = !moves && at + 1 == steps.len();
                while count < wanted && !portal.place().at_end {
                    let response = Box::pin(self.run(portal, wanted - count)).await?;
                    let Response::Rows { rows: more, done, .. } = response else { break };
                    count += more.len();
                    if keeps {
                        memory.add(more.iter().map(|row| weight(row)).sum())?;
                        rows.extend(more);
                    }
                    // A query that has returned all that were wanted may have no more.
                    if done.is_some() {
                        portal.end(count < wanted);
                        break;
                    }
                }
            }
        }
        Ok(Fetched { columns, count, rows: rows.into_iter(), _memory: memory })
    }

    /// Returns the columns of a statement's response; those of FETCH are its cursor's, those of
    /// EXECUTE its prepared statement's.
    pub(crate) fn columns_of(&self, compiled: &Compiled) -> Option<Arc<[Column]>> {
        match &compiled.source.statement {
            Statement::Fetch { name, .. } if !compiled.source.moves => {
                let name = names::fold(name);
                let of_portal = || self.portals.get(&name)?.columns();
                self.cursors.columns(&name).or_else(of_portal)
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
