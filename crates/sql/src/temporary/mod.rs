//! Temporary objects: tables, indexes, sequences and views of one session, in its memory.
//!
//! ```text
//!   session ── Overlay ──┬── keys of temporary objects ──▶ Temporary: rows, and a log of old values
//!                        └── all other keys ────────────▶ the protocol's transaction
//! ```
//!
//! They are keys and values in the layout of the database ([`crate::kv`]), and their ids tell where
//! they belong. So planning, execution and DDL work with them as with all others.
//!
//! Invariants:
//! 1. Ids from [`SCHEMA`] on are temporary objects' and their storages', and a session uses none
//!    twice. No cache that sessions share has an object of these; of their row types, the process
//!    keeps those that statements name ([`crate::interned`]).
//! 2. Nothing in the database names a temporary object.
//! 3. A session has one open transaction. The log undoes its writes; others of the session
//!    ([`Overlay::beside`]) write what no rollback undoes, or what no descriptor names yet.

mod commit;
mod store;
mod transaction;

pub(crate) use commit::{end_of_transaction, ensure_schema, on_commit, set_on_commit};
pub(crate) use store::Temporary;
pub(crate) use transaction::{Beside, Overlay};

/// The id of a session's schema of temporary objects, and the first of their ids.
pub(crate) const SCHEMA: u32 = 1 << 30;

/// The name by which each session finds its own schema.
pub(crate) const ALIAS: &str = "pg_temp";

/// True for the id of a temporary object, of its storage, or of the schema.
pub(crate) const fn is_temporary(id: u32) -> bool {
    id >= SCHEMA
}
