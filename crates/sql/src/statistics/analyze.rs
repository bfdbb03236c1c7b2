//! ANALYZE: reads tables, and writes their statistics.
//!
//! Outside a transaction block a table is read in a snapshot of its own, so that no writer waits;
//! then its statistics are written in a short transaction. In a block all happens in the block's
//! transaction, which sees what it has written itself.

use super::sample::Sample;
use super::{Statistics, write};
use crate::access::Target;
use crate::catalog::{self, Resolver, SearchPath, Table};
use crate::compile;
use crate::error::{SqlError, restart};
use crate::expr::Facts;
use crate::kv;
use crate::replay::MOST_REPLAYS;
use crate::scan::Cursor;
use crate::session::Session;
use crate::system;
use crate::turn::Turn;
use crate::work::Work;
use crate::{engine::Engine, response::Response};
use meridian_txn::{Begin, Lock, Mode, ReadAt, Transaction};
use sqlparser::ast::{self, ObjectName};
use std::sync::Arc;
use std::time::Duration;

/// The rows that are read at a time.
const ROWS: usize = 1000;

/// Reads a table.
async fn gather(
    txn: &mut dyn Transaction,
    table: &Table,
    facts: &Facts,
) -> Result<Statistics, SqlError> {
    let rows = kv::prefix_range(&kv::storage_prefix(table.storage));
    let mut cursor = Cursor::new(None, vec![Target::Range(rows)], false);
    let mut sample = Sample::new(table.columns.len(), facts.held());
    let (wanted, mut turn) = (vec![true; table.columns.len()], Turn::new(facts.clock));
    loop {
        let found = cursor.next(txn, table, &wanted, Lock::Shared, ROWS).await?;
        if found.is_empty() {
            return Ok(sample.finish());
        }
        for found in found {
            sample.add(&found.row)?;
            turn.pause(1).await;
        }
    }
}

/// Returns the tables of these names; all tables, if there are none.
async fn tables(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    path: &SearchPath,
    named: &[ObjectName],
) -> Result<Vec<Arc<Table>>, SqlError> {
    let (mut all, names) = (Vec::new(), &mut Resolver::new(path));
    for name in named {
        let table = compile::table(engine, txn, names, clean, name).await?;
        all.extend(Some(table).filter(|table| !table.is_made()));
    }
    if !named.is_empty() {
        return Ok(all);
    }
    Ok(system::load(txn).await?.tables)
}

/// Analyzes tables in a transaction block.
pub(crate) async fn in_transaction(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    analyze: &ast::Analyze,
) -> Result<(), SqlError> {
    let clean = work.clean;
    let txn = work.txn.as_mut();
    let path = facts.search_path();
    for table in tables(engine, txn, clean, &path, analyze.table_name.as_slice()).await? {
        let statistics = gather(txn, &table, facts).await?;
        write(txn, &table, statistics).await?;
    }
    Ok(())
}

impl Session {
    /// Analyzes tables outside a transaction block.
    pub(crate) async fn analyze(&mut self, analyze: &ast::Analyze) -> Result<Response, SqlError> {
        self.finish_implicit().await?;
        let all = self.tables_named(analyze.table_name.as_slice()).await?;
        self.analyze_tables(&all).await?;
        Ok(Response::Complete("ANALYZE".into()))
    }

    /// Returns the tables of these names, as they are now; all tables, if there are none.
    pub(crate) async fn tables_named(
        &mut self,
        names: &[ObjectName],
    ) -> Result<Vec<Arc<Table>>, SqlError> {
        let engine = self.engine.clone();
        let mut look = self.look().await?;
        tables(&engine, look.as_mut(), true, &self.facts.search_path(), names).await
    }

    /// Analyzes a table that [has outdated statistics](crate::Engine::has_outdated_statistics).
    /// Returns false if there is none.
    pub async fn analyze_due(&mut self, now: Duration) -> Result<bool, SqlError> {
        let engine = self.engine.clone();
        let Some(id) = engine.changes.take_due(now) else { return Ok(false) };
        let mut look = self.look().await?;
        let table =
            catalog::table_by_id(look.as_mut(), &engine.cache, id, true, Lock::Shared).await?;
        drop(look);
        self.analyze_tables(table.as_slice()).await?;
        Ok(true)
    }

    /// Analyzes tables, each in transactions of its own.
    pub(crate) async fn analyze_tables(&mut self, tables: &[Arc<Table>]) -> Result<(), SqlError> {
        for table in tables {
            let (engine, mut look) = (self.engine.clone(), self.look().await?);
            // As the snapshot has it: it may have changed, or be gone.
            let table =
                catalog::table_by_id(look.as_mut(), &engine.cache, table.id, true, Lock::Shared)
                    .await?;
            let Some(table) = table else { continue };
            let statistics = gather(look.as_mut(), &table, &self.facts).await?;
            drop(look);
            self.write_statistics(&table, &statistics).await?;
            // Plans that are kept are made again.
            self.engine.cache.forget(table.id);
        }
        Ok(())
    }

    /// Begins a snapshot that is not older than the last one of the session.
    async fn look(&mut self) -> Result<Box<dyn Transaction>, SqlError> {
        let token = self.facts.token;
        let how = Begin { token, ..Begin::new(Mode::ReadOnly(ReadAt::Now)) };
        Ok(self.engine.database().begin(how).await?)
    }

    /// Writes statistics in a transaction of its own, unless the table has changed.
    async fn write_statistics(
        &mut self,
        table: &Table,
        statistics: &Statistics,
    ) -> Result<(), SqlError> {
        let mut age = None;
        for _ in 0..MOST_REPLAYS {
            let mut work = self.begin_work(Mode::ReadWrite, age, false).await?;
            age = Some(work.txn.age());
            work.settled = true;
            let txn = work.txn.as_mut();
            let written = match catalog::version(txn, table.id, Lock::Shared).await {
                Ok(Some(version)) if version == table.version => {
                    write(txn, table, statistics.clone()).await
                }
                // They are of a table that is gone, or of columns that have changed, if the commit
                // confirms that.
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            self.work = Some(work);
            let done = match self.stands(written).await {
                Ok(()) => self.commit().await,
                Err(error) => Err(error),
            };
            self.work = None;
            match done {
                Err(error) if error.is_restart() => {}
                other => return other,
            }
        }
        Err(restart("the transaction lost too many conflicts"))
    }
}
