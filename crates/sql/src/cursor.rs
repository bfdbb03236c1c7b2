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
use std::ops::Range;
use std::sync::Arc;

/// A cursor of a session.
struct Cursor {
    columns: Arc<[Column]>,
    /// All rows, and the memory that they take. Those that a cursor that only goes forward has
    /// passed are gone: empty, and without memory.
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

/// The rows that a step passes, by their places.
#[derive(Default)]
struct Passed {
    rows: Range<usize>,
    goes_back: bool,
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

    /// Makes a step.
    fn step(&mut self, step: Step) -> Result<Passed, SqlError> {
        let Place { passed, .. } = self.place();
        let goes_back = match step {
            Step::Forward(_) => false,
            Step::Backward(_) => true,
            Step::Rewind => self.at > 0,
        };
        if goes_back && self.forward_only {
            return Err(only_forward());
        }
        let rows = match step {
            Step::Rewind => {
                self.at = 0;
                0..0
            }
            Step::Forward(0) | Step::Backward(0) => 0..0,
            Step::Forward(wanted) => {
                let all = self.rows.len();
                let end = all.min(passed.saturating_add(wanted));
                self.at = if end - passed < wanted { all + 1 } else { end };
                passed..end
            }
            Step::Backward(wanted) => {
                let before = self.at.saturating_sub(1);
                let start = before.saturating_sub(wanted);
                self.at = if before - start < wanted { 0 } else { start + 1 };
                start..before
            }
        };
        Ok(Passed { rows, goes_back })
    }

    /// Makes a movement. Returns the rows that it passes last.
    fn go(&mut self, movement: Movement) -> Result<Passed, SqlError> {
        let mut passed = Passed::default();
        for step in movement.steps(self.place()) {
            passed = self.step(step)?;
        }
        Ok(passed)
    }

    /// Returns the rows that FETCH returns for a movement, and their number. Stays where it is if
    /// that fails.
    fn fetch(
        &mut self,
        movement: Movement,
        memory: &mut Held,
    ) -> Result<(usize, Vec<Vec<Datum>>), SqlError> {
        let (at, before) = (self.at, self.place().passed);
        let fetched = self.go(movement).and_then(|Passed { rows, goes_back }| {
            let count = rows.len();
            if self.forward_only {
                let mut gone = self.forget(before);
                let rows = gone.split_off(gone.len() - count);
                // They were the cursor's until now.
                memory.retake(rows.iter().map(|row| weight(row)).sum());
                return Ok((count, rows));
            }
            let rows = &self.rows[rows];
            memory.add(rows.iter().map(|row| weight(row)).sum())?;
            Ok((
                count,
                match goes_back {
                    true => rows.iter().rev().cloned().collect(),
                    false => rows.to_vec(),
                },
            ))
        });
        if fetched.is_err() {
            self.at = at;
        }
        fetched
    }

    /// Makes a movement, and returns the number of rows that MOVE tells. Stays where it is if that
    /// fails.
    fn pass(&mut self, movement: Movement) -> Result<usize, SqlError> {
        let (at, place) = (self.at, self.place());
        if movement.stays() {
            return Ok(usize::from(place.is_on_row()));
        }
        let passed = self.go(movement).inspect_err(|_| self.at = at)?;
        if self.forward_only {
            self.forget(place.passed);
        }
        Ok(passed.rows.len())
    }

    /// Takes the rows away that it has passed since a place, for a cursor that only goes forward.
    fn forget(&mut self, since: usize) -> Vec<Vec<Datum>> {
        let passed = self.place().passed;
        let gone: Vec<_> = self.rows[since..passed].iter_mut().map(std::mem::take).collect();
        self.memory.free(gone.iter().map(|row| weight(row)).sum());
        self.memory.trim();
        gone
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
        self.refuse_cursor(&name)?;
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

    /// Fails with 42P03 if there is a cursor or a portal of a name.
    pub(crate) fn refuse_cursor(&self, name: &str) -> Result<(), SqlError> {
        if self.cursors.open.contains_key(name) || self.portals.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message));
        }
        Ok(())
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
        let (count, rows) = match moves {
            true => (cursor.pass(movement)?, Vec::new()),
            false => cursor.fetch(movement, &mut memory)?,
        };
        Ok(Fetched { columns, count, rows: rows.into_iter(), _memory: memory })
    }

    /// Moves the portal of a Bind, which only goes forward: its query runs on.
    async fn move_portal(
        &mut self,
        portal: &mut Portal,
        movement: Movement,
        moves: bool,
        mut memory: Held,
    ) -> Result<Fetched, SqlError> {
        if !portal.is_query() {
            return Err(SqlError::unsupported("FETCH of a portal that is no query"));
        }
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
        // Those of the plan that has run: the query may have been planned again.
        let columns = portal.columns().unwrap_or_else(|| Arc::from([]));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::QueryMemory;

    fn cursor(memory: &Arc<QueryMemory>, forward_only: bool) -> Cursor {
        let rows: Vec<_> = (0..4).map(|n| vec![Datum::text("x".repeat(1 << 18 | n))]).collect();
        let mut held = Held::none(memory);
        held.add(rows.iter().map(|row| weight(row)).sum()).expect("there is room");
        Cursor {
            columns: Arc::from([]),
            rows,
            memory: held,
            at: 0,
            forward_only,
            with_hold: false,
            stays: false,
            text: Arc::from(""),
            number: 0,
        }
    }

    fn fetch(
        cursor: &mut Cursor,
        movement: Movement,
        memory: &Arc<QueryMemory>,
    ) -> Result<Vec<usize>, SqlError> {
        let (count, rows) = cursor.fetch(movement, &mut Held::none(memory))?;
        assert_eq!(count, rows.len());
        let length = |row: &Vec<Datum>| match &row[..] {
            [Datum::Text(text)] => text.len() & 3,
            _ => usize::MAX,
        };
        Ok(rows.iter().map(length).collect())
    }

    #[test]
    fn a_fetch_for_which_there_is_no_memory_leaves_the_cursor_where_it_is() {
        let memory = Arc::new(QueryMemory::of((1 << 20) + (1 << 19)));
        let mut cursor = cursor(&memory, false);
        assert_eq!(fetch(&mut cursor, Movement::By(1), &memory).expect("a row"), [0]);
        let error = fetch(&mut cursor, Movement::By(3), &memory).expect_err("no room for three");
        assert_eq!((error.sqlstate, cursor.at), (state::OUT_OF_MEMORY, 1));
        assert_eq!(fetch(&mut cursor, Movement::By(1), &memory).expect("a row"), [1]);
        assert_eq!(fetch(&mut cursor, Movement::By(-1), &memory).expect("a row"), [0]);
    }

    #[test]
    fn rows_that_a_cursor_without_scroll_has_passed_take_no_memory() {
        let memory = Arc::new(QueryMemory::of((1 << 20) + (1 << 19)));
        let mut cursor = cursor(&memory, true);
        assert_eq!(cursor.pass(Movement::By(1)).expect("it moves"), 1);
        // Over one, to another.
        assert_eq!(fetch(&mut cursor, Movement::Relative(2), &memory).expect("a row"), [2]);
        assert!(memory.held_bytes() < 1 << 19, "{}", memory.held_bytes());
        assert!(fetch(&mut cursor, Movement::To(-1), &memory).is_err());
        assert_eq!(cursor.at, 3);
        assert_eq!(fetch(&mut cursor, Movement::By(5), &memory).expect("a row"), [3]);
        assert!(cursor.place().at_end);
    }
}
