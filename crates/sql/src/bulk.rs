//! Rows into storage that nobody can see yet, in transactions of bounded size.
//!
//! A storage is invisible until a committed descriptor names it. So what fills a new one (COPY into
//! a table of the same transaction, rows moved under a new key, the entries of a new index) need
//! not be part of the transaction that shows it: it is written before, chunk by chunk, and appears
//! at once with the descriptor, or never.
//!
//! ```text
//!   session's transaction   ids.next ─────────────────────────────────── descriptor names the storage ── commit
//!   others, meanwhile            note, id   chunk   chunk   chunk  …
//! ```
//!
//! Invariants:
//! 1. Ids come from transactions of their own, and are never handed out twice: a storage that was
//!    given up is nobody's for ever.
//! 2. Each new storage is noted until the descriptor that names it commits. VACUUM erases what
//!    stays noted for [`ABANDONED_NS`].
//! 3. The session's transaction has read nothing of the storage before it is filled: it would wait
//!    for itself.

use crate::catalog;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::kv;
use meridian_mvcc::Key;
use meridian_txn::{Begin, Conflict, Database, Lock, Mode, Outcome, Transaction};
use std::sync::Arc;

/// What one chunk holds, about.
const CHUNK_BYTES: usize = 2 << 20;
const CHUNK_ROWS: usize = 20_000;
/// How often handing out an id is tried.
const ATTEMPTS: usize = 20;
/// A storage that is noted for longer belongs to a transaction that is gone.
pub(crate) const ABANDONED_NS: u64 = 3_600_000_000_000;

const READ_WRITE: Begin = Begin { mode: Mode::ReadWrite, age: None };

/// Hands out ids, which tables and indexes share.
pub(crate) struct Ids<'a> {
    pub(crate) database: &'a dyn Database,
    /// What this transaction was given.
    pub(crate) own: &'a mut Vec<u32>,
}

impl Ids<'_> {
    /// The next id: storage of that number is empty, and `txn` keeps it if it commits.
    pub(crate) async fn next(&mut self, txn: &mut dyn Transaction) -> Result<u32, SqlError> {
        for _ in 0..ATTEMPTS {
            let mut own = self.database.begin(READ_WRITE).await?;
            let id = match catalog::next_id(own.as_mut()).await {
                Err(error) if error.is_restart() => continue,
                other => other?,
            };
            own.put(
                kv::pending_key(id),
                Some(kv::to_value(own.began().latest.to_be_bytes().to_vec())),
            )?;
            match own.commit().await {
                Outcome::Committed { .. } => {
                    self.own.push(id);
                    let note = kv::pending_key(id);
                    txn.get(&note, Lock::Exclusive).await?;
                    txn.put(note, None)?;
                    return Ok(id);
                }
                // Whether it was handed out or not, it is not used.
                Outcome::Unknown | Outcome::Aborted { .. } => {}
            }
        }
        Err(SqlError::new(
            state::SERIALIZATION,
            "no id could be had for a new table or index: too many want one",
        ))
    }
}

/// Fills new storage.
pub(crate) struct Bulk {
    database: Arc<dyn Database>,
    open: Option<Box<dyn Transaction>>,
    bytes: usize,
    rows: usize,
    /// No row has a key above this one yet.
    pub(crate) highest: Option<Key>,
}

impl Bulk {
    pub(crate) fn new(database: Arc<dyn Database>) -> Self {
        Bulk { database, open: None, bytes: 0, rows: 0, highest: None }
    }

    /// The transaction of the chunk that is being filled, and the highest key so far.
    pub(crate) async fn chunk(
        &mut self,
    ) -> Result<(&mut dyn Transaction, &mut Option<Key>), SqlError> {
        if self.open.is_none() {
            self.open = Some(self.database.begin(READ_WRITE).await?);
        }
        let open = self.open.as_mut().expect("invariant: just filled");
        Ok((open.as_mut(), &mut self.highest))
    }

    /// A row was written.
    pub(crate) async fn wrote(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        const OVERHEAD_BYTES: usize = 16;
        let size = |datum: &Datum| match datum {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            _ => OVERHEAD_BYTES,
        };
        self.bytes += row.iter().map(size).sum::<usize>();
        self.rows += 1;
        if self.bytes >= CHUNK_BYTES || self.rows >= CHUNK_ROWS {
            self.finish().await
        } else {
            Ok(())
        }
    }

    /// Commits what is open.
    pub(crate) async fn finish(&mut self) -> Result<(), SqlError> {
        (self.bytes, self.rows) = (0, 0);
        let Some(open) = self.open.take() else { return Ok(()) };
        match open.commit().await {
            Outcome::Committed { .. } => Ok(()),
            Outcome::Aborted { why } => Err(meridian_txn::Failure::Aborted(why).into()),
            // Nobody sees it either way: the statement fails for certain.
            Outcome::Unknown => Err(meridian_txn::Failure::Aborted(Conflict::LeaderChanged).into()),
        }
    }
}
