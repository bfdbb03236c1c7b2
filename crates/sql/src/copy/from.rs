//! COPY … FROM STDIN: rows as they arrive, cut anywhere.

use super::generated;
use super::options::Options;
use super::records::{Record, Records};
use crate::bulk::Bulk;
use crate::cast;
use crate::catalog::Table;
use crate::constraint::{self, Obligation, Obligations, Owed, Related, Written};
use crate::datetime::Local;
use crate::datum::Datum;
use crate::effects;
use crate::error::{SqlError, restart, state};
use crate::expr::{Expr, Facts, Scope};
use crate::replay::MOST_REPLAYS;
use crate::response::Response;
use crate::sequence::Drawn;
use crate::session::Session;
use crate::types::Type;
use crate::work::Work;
use crate::{bind, compile, made, write};
use meridian_txn::Locking;
use sqlparser::ast::{self, CopySource, CopyTarget, Statement};
use std::sync::Arc;

/// The values that are looked up in referenced tables at once.
const CHECKED: usize = 10_000;

/// The most checks of foreign keys that wait for the end of COPY, or of the transaction.
const MOST_DEFERRED: usize = 1_000_000;

/// A COPY in progress.
pub(crate) struct Copying {
    records: Records,
    target: Target,
}

/// The table that a COPY fills.
struct Target {
    table: Arc<Table>,
    columns: Vec<usize>,
    /// The values of columns that the rows do not give: known ones, and expressions for the others.
    defaults: Vec<Datum>,
    computed: Vec<(usize, Expr)>,
    count: u64,
    /// Set if the table's storage is this transaction's own.
    bulk: Option<Bulk>,
    /// The tables that foreign keys concern, and the references that are not looked up yet.
    related: Option<Arc<Related>>,
    referred: Obligations,
}

/// Returns the numbers of the columns that COPY reads: those that are named, or all that are not
/// generated.
fn copied_columns(table: &Table, named: &[ast::Ident]) -> Result<Vec<usize>, SqlError> {
    let mut columns = bind::target_columns(table, named)?;
    let is_generated = |at: &usize| table.columns[*at].generated.is_some();
    match columns.iter().find(|at| is_generated(at)) {
        Some(at) if !named.is_empty() => Err(generated(&table.columns[*at].name)),
        _ => {
            columns.retain(|at| !is_generated(at));
            Ok(columns)
        }
    }
}

fn no_copy() -> SqlError {
    SqlError::new(state::PROTOCOL_VIOLATION, "no COPY is in progress")
}

impl Session {
    pub(crate) async fn start_copy(&mut self, statement: &Statement) -> Result<Response, SqlError> {
        let Statement::Copy { source, to: false, target, options, legacy_options, values: _ } =
            statement
        else {
            return Err(no_copy());
        };
        let CopySource::Table { table_name, columns } = source else { return Err(no_copy()) };
        if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) {
            return Err(SqlError::unsupported(format!("COPY FROM {target}"))
                .hint("Send the rows: COPY … FROM STDIN, or \\copy of psql."));
        }
        let options = Options::read(options, legacy_options, false)?;
        let work = self.work.as_mut().ok_or_else(no_copy)?;
        let engine = self.engine.clone();
        let (path, mut looks) = (self.facts.search_path(), 0);
        let (table, related) = loop {
            let table = compile::table_for(&engine, work, &path, table_name).await?;
            if table.query.is_some() {
                let message = format!("cannot copy to materialized view \"{}\"", table.name);
                return Err(SqlError::new(state::WRONG_OBJECT, message));
            }
            let table = compile::changeable(table)?;
            let mut tables = vec![table.planned()];
            let related = compile::related_for(&engine, work, &table, &mut tables).await?;
            if work.is_current(&engine.cache, &tables, false).await? {
                break (table, related);
            }
            work.fits_snapshot(&engine.cache, &tables)?;
            looks += 1;
            if looks > MOST_REPLAYS {
                return Err(restart("the definition of a table changed too often"));
            }
        };
        work.txn.set_locking(Locking::Wait);
        // The rows of COPY are not kept, so that the transaction cannot be replayed.
        work.settled = true;
        // An earlier savepoint could roll the rows back.
        let alone = work.own.contains(&table.storage)
            && !work.touched.contains(&table.id)
            && work.savepoints.is_empty();
        let bulk = alone.then(|| Bulk::new(self.engine.database().clone()));
        if !alone {
            work.touched.push(table.id);
        }
        let columns = copied_columns(&table, columns)?;
        let scope = Scope {
            params: &[],
            now_us: work.now_us(),
            session: &self.facts,
            catalog: None,
            effects: None,
        };
        let lock_timeout = self.facts.settings.timeout("lock_timeout");
        self.facts.sequences.begin_statement(&work.sequences, false, lock_timeout, Drawn::new());
        self.facts.made.begin_statement(made::Calls::new());
        let mut defaults = vec![Datum::Null; table.columns.len()];
        let mut computed = Vec::new();
        for (at, expr) in bind::Binder::new(&[]).defaults(&table)?.into_iter().enumerate() {
            match expr {
                _ if columns.contains(&at) => {}
                expr if expr.is_volatile() => computed.push((at, expr)),
                expr => defaults[at] = expr.eval(&[], &scope)?,
            }
        }
        let names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name.as_str()).collect();
        let missing = |name: &&String| table.column(name).is_none();
        if let Some(name) = options.force_columns().find(missing) {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        }
        let records = Records::new(options, &names)?;
        let response = Response::CopyIn { columns: columns.len(), is_binary: records.is_binary() };
        let referred = Obligations::new();
        let target =
            Target { table, columns, defaults, computed, count: 0, bulk, related, referred };
        self.copying = Some(Copying { records, target });
        Ok(response)
    }

    /// Takes data of COPY FROM STDIN, cut anywhere.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let mut result = match (&mut self.copying, &mut self.work) {
            (Some(copying), Some(work)) => {
                copying.records.push(data);
                copying.take(work, &self.facts, false).await
            }
            _ => return Err(no_copy()),
        };
        self.learn_from_work();
        if let Err(error) = &mut result {
            self.name_schema(error).await;
            self.abandon_copy();
        }
        result
    }

    /// Ends the data, and returns the command tag.
    pub async fn copy_done(&mut self) -> Result<Response, SqlError> {
        let result = match (&mut self.copying, &mut self.work) {
            (Some(copying), Some(work)) => {
                let finished = copying.finish(work, &self.facts).await;
                work.has_changed(copying.target.table.id, copying.target.count);
                finished
            }
            _ => return Err(no_copy()),
        };
        self.learn_from_work();
        let count = self.copying.as_ref().map_or(0, |copying| copying.target.count);
        match result {
            Ok(()) => {
                self.copying = None;
                if self.is_last() {
                    self.finish_implicit().await?;
                }
                Ok(Response::Complete(format!("COPY {count}")))
            }
            Err(mut error) => {
                self.name_schema(&mut error).await;
                self.abandon_copy();
                Err(error)
            }
        }
    }

    /// Fails the COPY with the client's message.
    pub async fn copy_fail(&mut self, message: &str) -> SqlError {
        self.abandon_copy();
        SqlError::new(state::CANCELED, format!("COPY from stdin failed: {message}"))
    }
}

impl Copying {
    /// Writes the rows that have arrived. `is_last`: no more follow.
    async fn take(
        &mut self,
        work: &mut Work,
        facts: &Facts,
        is_last: bool,
    ) -> Result<(), SqlError> {
        let Copying { records, target } = self;
        let is_binary = records.is_binary();
        loop {
            match records.next(is_last) {
                Ok(Some(record)) => {
                    let local = Local { zone: facts.zone(), now_us: Some(work.now_us()) };
                    let row = target.row(&record, is_binary, local)?;
                    target.write(work, facts, row).await?;
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    let place = format!("COPY {}, line {}", target.table.name, records.line());
                    return Err(error.detail(place));
                }
            }
        }
    }

    async fn finish(&mut self, work: &mut Work, facts: &Facts) -> Result<(), SqlError> {
        self.take(work, facts, true).await?;
        if let Some(bulk) = &mut self.target.bulk {
            bulk.finish(&mut *work.txn).await?;
        }
        let referred = &self.target.referred;
        constraint::check_all(referred, work.txn.as_mut(), Written::Stays, facts.zone()).await?;
        work.check_due(facts.zone()).await
    }
}

/// Reads a value of a column.
fn read(ty: Type, bytes: &[u8], is_binary: bool, local: Local<'_>) -> Result<Datum, SqlError> {
    let datum = if is_binary {
        Datum::from_binary(ty, bytes)?
    } else {
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let message = "invalid byte sequence for encoding \"UTF8\"";
        let text = text.ok_or_else(|| SqlError::new(state::BAD_ENCODING, message))?;
        Datum::from_text_in(ty, text, local)?
    };
    cast::cast(datum, ty, false, local)
}

impl Target {
    /// Returns the row of a record.
    fn row(
        &self,
        record: &Record<'_>,
        is_binary: bool,
        local: Local<'_>,
    ) -> Result<Vec<Datum>, SqlError> {
        let mut row = self.defaults.clone();
        for (value, column) in record.values.iter().zip(&self.columns) {
            let def = &self.table.columns[*column];
            let place =
                || format!("COPY {}, line {}, column {}", self.table.name, record.line, def.name);
            row[*column] = match value {
                None => Datum::Null,
                Some(bytes) => {
                    read(def.ty, bytes, is_binary, local).map_err(|error| error.detail(place()))?
                }
            };
        }
        Ok(row)
    }

    /// Adds the values that are computed for each row, and writes the row.
    async fn write(
        &mut self,
        work: &mut Work,
        facts: &Facts,
        mut row: Vec<Datum>,
    ) -> Result<(), SqlError> {
        let table = self.table.clone();
        if !self.computed.is_empty() {
            let now_us = work.now_us();
            let scope = Scope { params: &[], now_us, session: facts, catalog: None, effects: None };
            for (column, expr) in &self.computed {
                let exprs = std::slice::from_ref(expr);
                let values = effects::evaluate(exprs, &[], &scope, work.txn.as_mut()).await?;
                row.splice(*column..=*column, values);
            }
        }
        let clash = match &mut self.bulk {
            Some(bulk) => {
                let (txn, highest) = bulk.chunk().await?;
                let (number, highest) = (&mut work.row_number, Some(highest));
                let clash =
                    write::insert_above(txn, &table, &mut row, facts, number, highest).await?;
                bulk.wrote(&row).await?;
                clash
            }
            None => {
                let (txn, number) = (work.txn.as_mut(), &mut work.row_number);
                write::insert(txn, &table, &mut row, facts, number).await?
            }
        };
        if let Some(clash) = clash {
            return Err(write::duplicate(&table, clash.index, &row, facts.zone()));
        }
        if let Some(related) = &self.related {
            let mut owed = Owed::new(related);
            owed.wrote(&table, None, &row)?;
            // A later row of a table that refers to itself may be the row that it refers to, and
            // the rows of a key are equal or not when all are there.
            let waits = |it: &Obligation| {
                it.is_deferred(&work.deferral) || it.is_of_whole_statement(table.id)
            };
            let (later, now): (Obligations, Obligations) =
                owed.into_obligations().into_iter().partition(|(_, it)| waits(it));
            work.deferred.add(later);
            self.referred.extend(now);
            if self.referred.len() >= CHECKED {
                let referred = std::mem::take(&mut self.referred);
                let (txn, zone) = (work.txn.as_mut(), facts.zone());
                constraint::check_all(&referred, txn, Written::Stays, zone).await?;
            }
            if work.deferred.len() > MOST_DEFERRED {
                let message = "too many checks of constraints are deferred";
                return Err(SqlError::new(state::TOO_LARGE, message)
                    .hint("Copy smaller parts, or add the constraint behind COPY."));
            }
        }
        self.count += 1;
        Ok(())
    }
}
