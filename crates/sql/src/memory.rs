//! The memory of running queries, and its common limit.

use crate::datum::Datum;
use crate::error::{SqlError, state};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a reservation, so that few queries access the shared counter.
const STEP_BYTES: usize = 64 << 10;

/// The memory limit of all queries of a process: joins, sorts, groups, rows that are written back,
/// and rows of temporary tables.
#[derive(Debug)]
pub struct QueryMemory {
    limit_bytes: usize,
    held_bytes: AtomicUsize,
}

impl QueryMemory {
    /// Creates a limit in bytes.
    pub fn of(limit_bytes: usize) -> Self {
        QueryMemory { limit_bytes, held_bytes: AtomicUsize::new(0) }
    }

    /// Returns the limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Returns the memory in use.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Fails with 53200 if there is no room for so many bytes. Takes none.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), SqlError> {
        self.try_take(bytes).map(|()| self.give_back(bytes))
    }

    /// Takes memory, regardless of the limit.
    pub fn take(&self, bytes: usize) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes memory; fails with 53200 beyond the limit.
    pub fn try_take(&self, bytes: usize) -> Result<(), SqlError> {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.limit_bytes);
        let taken = self.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|_| out_of_memory(self.limit_bytes as u64))
    }

    /// Returns memory.
    pub fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the error 53200 of a limit in bytes.
pub(crate) fn out_of_memory(limit_bytes: u64) -> SqlError {
    let megabytes = limit_bytes >> 20;
    SqlError::new(state::OUT_OF_MEMORY, "out of memory")
        .detail(format!("What queries join, sort, group, compute or write back, and the rows of temporary tables, may take {megabytes} MB together."))
        .hint("Read less at once, sort by an index, keep less in temporary tables, or start the server with a larger --query-memory.")
}

impl Default for QueryMemory {
    fn default() -> Self {
        QueryMemory::of(256 << 20)
    }
}

/// The memory of one query; returned when it is dropped.
#[derive(Debug)]
pub struct Held {
    memory: Arc<QueryMemory>,
    reserved: usize,
    used: usize,
}

impl Held {
    /// Creates an empty reservation.
    pub fn none(memory: &Arc<QueryMemory>) -> Self {
        Held { memory: Arc::clone(memory), reserved: 0, used: 0 }
    }

    /// Takes memory; fails with 53200 beyond the limit.
    pub fn add(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.used += bytes;
        if self.used > self.reserved {
            let more = (self.used - self.reserved).max(STEP_BYTES);
            self.memory.try_take(more)?;
            self.reserved += more;
        }
        Ok(())
    }

    /// Returns the limit that queries share, in bytes.
    pub(crate) fn limit_bytes(&self) -> usize {
        self.memory.limit_bytes()
    }

    /// Takes memory, regardless of the limit.
    pub(crate) fn retake(&mut self, bytes: usize) {
        self.used += bytes;
        let more = self.used.saturating_sub(self.reserved);
        self.memory.take(more);
        self.reserved += more;
    }

    /// Gives back most of what is reserved and not in use.
    pub(crate) fn trim(&mut self) {
        let spare = self.reserved.saturating_sub(self.used + STEP_BYTES);
        self.memory.give_back(spare);
        self.reserved -= spare;
    }

    /// Returns the memory that it takes up.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Frees memory for later calls of [`add`](Self::add); the reservation stays.
    pub fn free(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.give_back(self.reserved);
    }
}

/// Returns the approximate size of a row, in bytes.
pub(crate) fn weight(row: &[Datum]) -> usize {
    size_of::<Vec<Datum>>() + 16 + size_of_val(row) + row.iter().map(behind).sum::<usize>()
}

/// Returns the bytes that a value takes behind itself.
pub(crate) fn behind(datum: &Datum) -> usize {
    match datum {
        Datum::Text(text) => text.len() + 32,
        Datum::Base(value) => value.text().len() + 32,
        Datum::Bytes(bytes) => bytes.len() + 32,
        Datum::Bits(bits) => bits.bytes().len() + 32,
        Datum::Json(text) => text.len() + 32,
        Datum::Jsonb(value) => value.as_bytes().len() + 32,
        Datum::JsonPath(path) => path.behind(),
        Datum::Hstore(value) => value.bytes(),
        Datum::Object(_, name) => name.len() + 32,
        Datum::Numeric(n) => n.behind(),
        Datum::Array(array) => weight(array.values()) + 64,
        // Its text may be far larger than it is.
        Datum::Record(record) => (weight(record.values()) + 64).max(record.text_bytes()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_share_a_limit_and_give_back_what_they_held() {
        let memory = Arc::new(QueryMemory::of(1 << 20));
        let (mut one, mut other) = (Held::none(&memory), Held::none(&memory));
        one.add(700 << 10).expect("there is room");
        let refused = other.add(400 << 10).expect_err("not for both");
        assert_eq!(refused.sqlstate, state::OUT_OF_MEMORY);
        drop(other);
        one.add(300 << 10).expect("the other's share is back");
        drop(one);
        assert_eq!(memory.held_bytes(), 0);
    }
}
