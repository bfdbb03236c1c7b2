//! Writes rows into storage that no transaction can see yet, in transactions of bounded size.
//!
//! A storage is invisible until a committed descriptor names it. So the filling of a new one (COPY
//! into a table of the same transaction, rows moved under a new key, the entries of a new index)
//! need not be part of the transaction that publishes it: it is written before, chunk by chunk, and
//! appears at once with the descriptor, or never.
//!
//! ```text
//!   session's transaction   ids.next ─────────────────────────────────── descriptor names the storage
//!   others, meanwhile            note, id   chunk   chunk   chunk  …
//! ```
//!
//! Invariants:
//! 1. Ids come from transactions of their own, and are never used twice: the id of an abandoned
//!    storage is never reused.
//! 2. Each new storage is noted until the descriptor that names it commits. VACUUM erases a storage
//!    that stays noted for [`ABANDONED_NS`].
//! 3. The session's transaction has read nothing of the storage before it is filled: it would wait
//!    for itself.

use crate::catalog;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::kv;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Begin, Conflict, Database, Lock, Mode, Outcome, Transaction};
use std::sync::Arc;

/// The approximate size of a chunk.
const CHUNK_BYTES: usize = 2 << 20;
const CHUNK_ROWS: usize = 20_000;
/// The number of attempts to allocate an id.
const ATTEMPTS: usize = 20;
/// The age of a note, in nanoseconds, after which its transaction is known to have ended.
pub(crate) const ABANDONED_NS: u64 = 3_600_000_000_000;

const READ_WRITE: Begin = Begin::new(Mode::ReadWrite);

/// Allocates ids, which tables and indexes share.
pub(crate) struct Ids<'a> {
    pub(crate) database: &'a dyn Database,
    /// The ids that this transaction was given.
    pub(crate) own: &'a mut Vec<u32>,
}

impl Ids<'_> {
    /// Returns the next id: the storage of that number is empty, and `txn` keeps it if it commits.
    pub(crate) async fn next(&mut self, txn: &mut dyn Transaction) -> Result<u32, SqlError> {
        txn.give_way();
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
                Outcome::Committed { at } => {
                    self.own.push(id);
                    txn.adopt(at);
                    txn.own(kv::prefix_range(&kv::storage_prefix(id)));
                    let note = kv::pending_key(id);
                    txn.get(&note, Lock::Exclusive).await?;
                    txn.put(note, None)?;
                    return Ok(id);
                }
                // Whether it was allocated or not, this id is not used.
                Outcome::Unknown | Outcome::Aborted { .. } => {}
            }
        }
        Err(SqlError::new(
            state::SERIALIZATION,
            "no id is available for a new table or index: too many transactions request one",
        ))
    }
}

/// Fills a new storage.
pub(crate) struct Bulk {
    database: Arc<dyn Database>,
    open: Option<Box<dyn Transaction>>,
    bytes: usize,
    rows: usize,
    /// The commits of the chunks.
    commits: Vec<Timestamp>,
    /// The highest key of the storage so far.
    pub(crate) highest: Option<Key>,
}

impl Bulk {
    pub(crate) fn new(database: Arc<dyn Database>) -> Self {
        Bulk { database, open: None, bytes: 0, rows: 0, commits: Vec::new(), highest: None }
    }

    /// Returns the transaction of the current chunk, and the highest key so far.
    pub(crate) async fn chunk(
        &mut self,
    ) -> Result<(&mut dyn Transaction, &mut Option<Key>), SqlError> {
        if self.open.is_none() {
            let mut open = self.database.begin(READ_WRITE).await?;
            open.writes_alone(KeyRange::all());
            self.open = Some(open);
        }
        let open = self.open.as_mut().expect("invariant: just filled");
        Ok((open.as_mut(), &mut self.highest))
    }

    /// Counts a written row, and commits the chunk if it is full.
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
            self.commit().await
        } else {
            Ok(())
        }
    }

    /// Commits the open chunk, for a transaction that then has all of them.
    pub(crate) async fn finish(&mut self, txn: &mut dyn Transaction) -> Result<(), SqlError> {
        self.commit().await?;
        self.commits.drain(..).for_each(|at| txn.adopt(at));
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), SqlError> {
        (self.bytes, self.rows) = (0, 0);
        let Some(open) = self.open.take() else { return Ok(()) };
        match open.commit().await {
            Outcome::Committed { at } => {
                self.commits.push(at);
                Ok(())
            }
            Outcome::Aborted { why } => Err(meridian_txn::Failure::Aborted(why).into()),
            // The chunk stays invisible either way: the statement fails for certain.
            Outcome::Unknown => Err(meridian_txn::Failure::Aborted(Conflict::LeaderChanged).into()),
        }
    }
}
