//! `CREATE INDEX` on a table in use (Spanner §4.2.3), outside a transaction block.
//!
//! ```text
//!   declare   the table's next version has the index as being built: every writer of rows writes its entries, no query reads it
//!   fill      the existing rows, two hundred at a time, each time in a transaction of its own
//!   publish   the version after that: queries read the index
//! ```
//!
//! 1. From the declaration's timestamp on no row changes without its entry, because a version
//!    begins everywhere at one timestamp. So one state between absent and present is enough.
//!    Existing rows are read under locks, and entered in the same transaction; later rows need no
//!    lock.
//! 2. No other transaction waits for longer than one of those transactions takes.
//! 3. An index that cannot be built (two rows are equal in a unique one) is withdrawn. If the
//!    session is stopped meanwhile, the index remains as being built, and `DROP INDEX` removes it.

use crate::access::Target;
use crate::catalog::{self, Table};
use crate::datetime::Zone;
use crate::ddl::{self, Building};
use crate::engine::Engine;
use crate::error::{SqlError, aborted, restart, state};
use crate::index::Entry;
use crate::kv;
use crate::replay::MOST_REPLAYS;
use crate::response::Response;
use crate::scan::Cursor;
use crate::session::Session;
use meridian_clock::Timestamp;
use meridian_mvcc::KeyRange;
use meridian_txn::{Age, Begin, Lock, Mode, Outcome, ReadAt, SchemaVersion, Transaction};
use sqlparser::ast;
use std::sync::Arc;

/// The number of rows that one transaction enters.
const ROWS: usize = 200;

/// A change of the catalog in a transaction of its own.
pub(crate) enum Step<'a> {
    Declare(&'a ast::CreateIndex),
    Publish(&'a Building),
    Withdraw(&'a Building),
}

impl Session {
    /// Runs CREATE INDEX while other transactions continue.
    pub(crate) async fn create_index(
        &mut self,
        create: &ast::CreateIndex,
    ) -> Result<Response, SqlError> {
        self.finish_implicit().await?;
        let engine = self.engine.clone();
        let Some(building) = self.change_catalog(&Step::Declare(create)).await? else {
            return Ok(Response::Complete("CREATE INDEX".into())); // It exists, with IF NOT EXISTS.
        };
        match self.build(&engine, building.clone()).await {
            Ok(()) => Ok(Response::Complete("CREATE INDEX".into())),
            Err(mut error) => {
                self.name_schema(&mut error).await;
                // The first error is reported. If it is unknown whether the index is published, it
                // stays as it is.
                if error.sqlstate != state::COMPLETION_UNKNOWN {
                    let _ = self.change_catalog(&Step::Withdraw(&building)).await;
                }
                Err(error)
            }
        }
    }

    async fn build(&mut self, engine: &Engine, mut building: Building) -> Result<(), SqlError> {
        loop {
            building = fill_index(engine, &building, self.facts.zone()).await?;
            if self.change_catalog(&Step::Publish(&building)).await?.is_some() {
                return Ok(()); // Otherwise the table changed in between.
            }
        }
    }

    /// Runs a step in a transaction of its own, and retries it after a conflict.
    async fn change_catalog(&mut self, step: &Step<'_>) -> Result<Option<Building>, SqlError> {
        let (engine, mut age) = (self.engine.clone(), None);
        for _ in 0..MOST_REPLAYS {
            let mut work = self.begin_work(Mode::ReadWrite, age, false).await?;
            age = Some(work.txn.age());
            work.txn.set_lock_timeout(self.timeout("lock_timeout"));
            work.settled = true; // A step is no statement, and cannot be replayed.
            let done = ddl::step(&engine, &mut work, &self.facts, step).await;
            let notices = std::mem::take(&mut work.notices);
            self.work = Some(work);
            let done = match self.stands(done).await {
                Ok(done) => self.commit().await.map(|()| done),
                Err(error) => Err(error),
            };
            self.work = None;
            match done {
                Err(error) if error.is_restart() => {}
                other => {
                    notices.into_iter().for_each(|notice| self.notify(notice));
                    return other;
                }
            }
        }
        Err(restart("the transaction lost too many conflicts"))
    }
}

/// Enters all rows into an index, and starts again if the table's definition changes meanwhile.
/// Returns the index with the version of the table for which it was filled.
async fn fill_index(
    engine: &Engine,
    building: &Building,
    zone: &Zone,
) -> Result<Building, SqlError> {
    for _ in 0..MOST_REPLAYS {
        let mut look = engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?;
        let table =
            catalog::table_by_id(look.as_mut(), &engine.cache, building.table, true, Lock::Shared)
                .await?;
        let table = table.filter(|table| building.find(table).is_some());
        let Some(table) = table else {
            let message =
                format!("index \"{}\" was dropped while it was being built", building.name);
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        };
        match fill_rows(engine, &table, building, look.token(), zone).await {
            Err(error) if error.changed_schema().is_some() => {}
            filled => {
                return filled.map(|()| Building { version: table.version, ..building.clone() });
            }
        }
    }
    Err(restart("the definition of a table changed too often"))
}

async fn fill_rows(
    engine: &Engine,
    table: &Arc<Table>,
    building: &Building,
    token: Timestamp,
    zone: &Zone,
) -> Result<(), SqlError> {
    let mut rest = Some(kv::prefix_range(&kv::storage_prefix(table.storage)));
    while let Some(range) = rest {
        // Without locks: afterwards only the existing rows are locked, and not the keys after them.
        // The snapshot has the declaration whatever this node's clock says.
        let how = Begin { token, ..Begin::new(Mode::ReadOnly(ReadAt::Now)) };
        let mut look = engine.database().begin(how).await?;
        // A snapshot from before the declaration would miss rows that have no entry.
        look.planned_for(SchemaVersion { table: table.id, version: table.version });
        let found = look.scan(&range, Lock::Shared, false, ROWS).await?;
        drop(look);
        rest = found.rest;
        let keys =
            found.rows.first().map(|(key, _)| key).zip(found.rows.last().map(|(key, _)| key));
        if let Some((first, last)) = keys {
            fill_range(
                engine,
                table,
                building,
                KeyRange { start: first.clone(), end: Some(last.successor()) },
                token,
                zone,
            )
            .await?;
        }
    }
    Ok(())
}

/// Enters the rows of a short range in one transaction, and retries it after a conflict.
async fn fill_range(
    engine: &Engine,
    table: &Arc<Table>,
    building: &Building,
    range: KeyRange,
    token: Timestamp,
    zone: &Zone,
) -> Result<(), SqlError> {
    let mut age: Option<Age> = None;
    for _ in 0..MOST_REPLAYS {
        let how = Begin { token, ..Begin::new(Mode::ReadWrite).aged(age) };
        let mut txn = engine.database().begin(how).await?;
        age = Some(txn.age());
        txn.planned_for(SchemaVersion { table: table.id, version: table.version });
        let entered = match enter(txn.as_mut(), table, building, range.clone(), zone).await {
            Ok(()) => match txn.commit().await {
                Outcome::Committed { .. } => Ok(()),
                Outcome::Aborted { why } => Err(aborted(why)),
                Outcome::Unknown => continue, // Entering rows twice has no effect.
            },
            // An error may come from reads that were never committed together.
            Err(error) if !error.is_restart() => match txn.validate().await {
                Ok(()) => Err(error),
                Err(failure) => Err(failure.into()),
            },
            Err(error) => Err(error),
        };
        match entered {
            Err(error) if error.is_restart() && error.changed_schema().is_none() => {}
            entered => return entered,
        }
    }
    Err(restart("the transaction lost too many conflicts"))
}

/// Enters the rows of a range.
async fn enter(
    txn: &mut dyn Transaction,
    table: &Table,
    building: &Building,
    range: KeyRange,
    zone: &Zone,
) -> Result<(), SqlError> {
    let Some(index) = building.find(table).map(|at| &table.indexes[at]) else { return Ok(()) };
    let mut cursor = Cursor::new(None, vec![Target::Range(range)], false);
    let wanted = vec![true; table.columns.len()];
    loop {
        let found = cursor.next(txn, table, &wanted, Lock::Shared, ROWS).await?;
        if found.is_empty() {
            return Ok(());
        }
        for found in &found {
            let suffix = &found.key[kv::PREFIX..];
            let Some(entry) = index.entry(&found.row, suffix)? else { continue };
            let Entry { key, unique, value } = entry;
            let entry = kv::to_key(key);
            if unique
                && let Some(there) = txn.get(&entry, Lock::Exclusive).await?
                && index.row_key(&there)? != suffix
            {
                return Err(ddl::not_unique(table, index, &found.row, zone));
            }
            txn.put(entry, Some(kv::to_value(value)))?;
        }
    }
}
