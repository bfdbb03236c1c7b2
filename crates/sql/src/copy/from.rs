//! COPY … FROM STDIN in the text format: rows as they arrive, cut anywhere.

use crate::bulk::Bulk;
use crate::cast;
use crate::catalog::Table;
use crate::constraint::{self, Obligation, Obligations, References, Related, Written};
use crate::datum::Datum;
use crate::effects;
use crate::error::{SqlError, restart, state};
use crate::expr::{Expr, Facts, Scope};
use crate::response::Response;
use crate::run::MOST_REPLAYS;
use crate::sequence::Drawn;
use crate::session::Session;
use crate::work::Work;
use crate::{bind, compile, write};
use meridian_txn::Locking;
use sqlparser::ast::{CopyOption, CopySource, CopyTarget, Statement};
use std::sync::Arc;

/// The longest accepted line, in bytes.
const LONGEST_LINE_BYTES: usize = 64 << 20;

/// The values that are looked up in referenced tables at once.
const CHECKED: usize = 10_000;

/// The most checks of foreign keys that wait for the end of COPY, or of the transaction.
const MOST_DEFERRED: usize = 1_000_000;

/// A COPY in progress.
pub(crate) struct Copying {
    table: Arc<Table>,
    columns: Vec<usize>,
    /// The values of columns that the rows do not give: known ones, and expressions for the others.
    defaults: Vec<Datum>,
    computed: Vec<(usize, Expr)>,
    delimiter: u8,
    null: Vec<u8>,
    skip_header: bool,
    partial: Vec<u8>,
    line: u64,
    count: u64,
    ended: bool,
    /// Set if the table's storage is this transaction's own.
    bulk: Option<Bulk>,
    /// The tables that foreign keys concern, and the references that are not looked up yet.
    related: Option<Arc<Related>>,
    referred: Obligations,
}

fn no_copy() -> SqlError {
    SqlError::new(state::PROTOCOL_VIOLATION, "no COPY is in progress")
}

impl Session {
    pub(crate) async fn start_copy(&mut self, statement: &Statement) -> Result<Response, SqlError> {
        let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(no_copy());
        };
        let (CopySource::Table { table_name, columns }, false, CopyTarget::Stdin) =
            (source, *to, target)
        else {
            return Err(SqlError::unsupported("COPY other than FROM STDIN"));
        };
        if !legacy_options.is_empty() {
            return Err(SqlError::unsupported("COPY with options outside parentheses"));
        }
        let (mut delimiter, mut null, mut skip_header) = (b'\t', b"\\N".to_vec(), false);
        for option in options {
            match option {
                CopyOption::Format(format) if format.value.eq_ignore_ascii_case("text") => {}
                // Rows are never written in a form that has to be frozen later.
                CopyOption::Freeze(_) => {}
                CopyOption::Encoding(name)
                    if matches!(name.to_lowercase().as_str(), "utf8" | "utf-8" | "unicode") => {}
                CopyOption::Delimiter(c) if c.is_ascii() => delimiter = *c as u8,
                CopyOption::Null(text) => null = text.clone().into_bytes(),
                CopyOption::Header(on) => skip_header = *on,
                other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
            }
        }
        let work = self.work.as_mut().ok_or_else(no_copy)?;
        let engine = self.engine.clone();
        let mut looks = 0;
        let (table, related) = loop {
            let table = compile::changeable(compile::table_for(&engine, work, table_name).await?)?;
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
        let columns = bind::target_columns(&table, columns)?;
        let scope = Scope {
            params: &[],
            now_us: work.now_us(),
            session: &self.facts,
            catalog: None,
            effects: None,
        };
        let lock_timeout = self.facts.settings.timeout("lock_timeout");
        self.facts.sequences.begin_statement(&work.sequences, false, lock_timeout, Drawn::new());
        let mut defaults = vec![Datum::Null; table.columns.len()];
        let mut computed = Vec::new();
        for (at, expr) in bind::Binder::new(&[]).defaults(&table)?.into_iter().enumerate() {
            match expr {
                _ if columns.contains(&at) => {}
                expr if expr.is_volatile() => computed.push((at, expr)),
                expr => defaults[at] = expr.eval(&[], &scope)?,
            }
        }
        let response = Response::CopyIn { columns: columns.len() };
        let partial = Vec::new();
        self.copying = Some(Copying {
            table,
            columns,
            defaults,
            computed,
            delimiter,
            null,
            skip_header,
            partial,
            line: 0,
            count: 0,
            ended: false,
            bulk,
            related,
            referred: Obligations::new(),
        });
        Ok(response)
    }

    /// Takes data of COPY FROM STDIN, cut anywhere.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let result = match (&mut self.copying, &mut self.work) {
            (Some(copying), Some(work)) => copying.take(work, &self.facts, data).await,
            _ => return Err(no_copy()),
        };
        self.learn_from_work();
        if result.is_err() {
            self.abandon_copy();
        }
        result
    }

    /// Ends the data, and returns the command tag.
    pub async fn copy_done(&mut self) -> Result<Response, SqlError> {
        let result = match (&mut self.copying, &mut self.work) {
            (Some(copying), Some(work)) => {
                let finished = copying.finish(work, &self.facts).await;
                work.has_changed(copying.table.id, copying.count);
                finished
            }
            _ => return Err(no_copy()),
        };
        self.learn_from_work();
        let count = self.copying.as_ref().map_or(0, |copying| copying.count);
        match result {
            Ok(()) => {
                self.copying = None;
                if self.is_last() {
                    self.finish_implicit().await?;
                }
                Ok(Response::Complete(format!("COPY {count}")))
            }
            Err(error) => {
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
    async fn take(&mut self, work: &mut Work, facts: &Facts, data: &[u8]) -> Result<(), SqlError> {
        let mut rest = data;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            if self.partial.is_empty() {
                self.line(work, facts, &rest[..at]).await?;
            } else {
                self.partial.extend(&rest[..at]);
                let line = std::mem::take(&mut self.partial);
                self.line(work, facts, &line).await?;
            }
            rest = &rest[at + 1..];
        }
        self.partial.extend(rest);
        if self.partial.len() > LONGEST_LINE_BYTES {
            return Err(SqlError::new(
                state::TOO_LARGE,
                format!("COPY line {} is longer than 64 MB", self.line + 1),
            ));
        }
        Ok(())
    }

    async fn finish(&mut self, work: &mut Work, facts: &Facts) -> Result<(), SqlError> {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.line(work, facts, &line).await?;
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.finish(&mut *work.txn).await?;
        }
        constraint::check_all(&self.referred, work.txn.as_mut(), Written::Stays).await?;
        work.check_due().await
    }

    async fn line(&mut self, work: &mut Work, facts: &Facts, line: &[u8]) -> Result<(), SqlError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.line += 1;
        if std::mem::take(&mut self.skip_header) || self.ended {
            return Ok(());
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        let (table, number) = (self.table.clone(), self.line);
        let mut row = self.defaults.clone();
        let mut fields = fields(line, self.delimiter);
        if fields.len() == 1 && self.columns.is_empty() {
            fields.clear();
        }
        if fields.len() > self.columns.len() {
            return Err(SqlError::new(state::BAD_COPY, "extra data after last expected column")
                .detail(format!("COPY {}, line {number}", table.name)));
        }
        for (at, column) in self.columns.iter().enumerate() {
            let def = &table.columns[*column];
            let Some(field) = fields.get(at) else {
                return Err(SqlError::new(
                    state::BAD_COPY,
                    format!("missing data for column \"{}\"", def.name),
                )
                .detail(format!("COPY {}, line {number}", table.name)));
            };
            row[*column] = if *field == self.null {
                Datum::Null
            } else {
                let bytes = unescape(field);
                let text = std::str::from_utf8(&bytes).map_err(|_| {
                    SqlError::new(
                        state::BAD_ENCODING,
                        "invalid byte sequence for encoding \"UTF8\"",
                    )
                })?;
                let read = Datum::from_text(def.ty, text)
                    .and_then(|datum| cast::cast(datum, def.ty, false));
                read.map_err(|e| {
                    e.detail(format!("COPY {}, line {number}, column {}", table.name, def.name))
                })?
            };
        }
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
                let clash =
                    write::insert_above(txn, &table, &row, &mut work.row_number, Some(highest))
                        .await?;
                bulk.wrote(&row).await?;
                clash
            }
            None => write::insert(work.txn.as_mut(), &table, &row, &mut work.row_number).await?,
        };
        if let Some(clash) = clash {
            return Err(write::duplicate(&table, clash.index, &row));
        }
        if let Some(related) = &self.related {
            let mut references = References::new(related);
            references.wrote(&table, None, &row)?;
            // A later row of a table that refers to itself may be the row that it refers to.
            let waits = |it: &Obligation| it.is_deferred(&work.deferral) || it.is_within(table.id);
            let (later, now): (Obligations, Obligations) =
                references.into_obligations().into_iter().partition(|(_, it)| waits(it));
            work.deferred.add(later);
            self.referred.extend(now);
            if self.referred.len() >= CHECKED {
                let referred = std::mem::take(&mut self.referred);
                constraint::check_all(&referred, work.txn.as_mut(), Written::Stays).await?;
            }
            if work.deferred.len() > MOST_DEFERRED {
                let message = "too many checks of foreign keys are deferred";
                return Err(SqlError::new(state::TOO_LARGE, message)
                    .hint("Copy smaller parts, or add the foreign key behind COPY."));
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// Splits a line into its fields, still escaped.
fn fields(line: &[u8], delimiter: u8) -> Vec<&[u8]> {
    let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
    while at < line.len() {
        if line[at] == b'\\' {
            at += 1;
        } else if line[at] == delimiter {
            out.push(&line[from..at]);
            from = at + 1;
        }
        at += 1;
    }
    out.push(&line[from..]);
    out
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(field.len()), 0);
    while at < field.len() {
        let byte = field[at];
        at += 1;
        if byte != b'\\' || at == field.len() {
            out.push(byte);
            continue;
        }
        let escaped = field[at];
        at += 1;
        let digits = |base: u32, from: usize, most: usize| {
            let count = field[from..]
                .iter()
                .take(most)
                .take_while(|b| char::from(**b).is_digit(base))
                .count();
            let value = field[from..from + count]
                .iter()
                .fold(0, |n, b| n * base + char::from(*b).to_digit(base).unwrap_or(0));
            (count, value as u8)
        };
        out.push(match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let (count, value) = digits(8, at - 1, 3);
                at += count - 1;
                value
            }
            b'x' if digits(16, at, 2).0 > 0 => {
                let (count, value) = digits(16, at, 2);
                at += count;
                value
            }
            other => other,
        });
    }
    out
}
