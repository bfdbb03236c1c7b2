//! The SQL layer: names to keys, rows to values, statements to reads and writes.
//!
//! A [`Session`] turns text into reads and writes of a [`meridian_txn::Transaction`], independently
//! of the protocol that runs it. It spawns nothing, reads no clock, and runs on any executor.
//!
//! ```text
//!   text ── parse ── compile (bind, plan) ── run (exec, dml, ddl, copy) ── Transaction
//!                        │                       │
//!                     catalog                 key, row
//! ```
//!
//! Invariants:
//! 1. A plan is used only at the table versions that it was made for: each transaction declares
//!    these, and shards with other versions reject it.
//! 2. The cache of descriptors holds only committed ones: a transaction that changed the catalog
//!    does not use it.
//! 3. A transaction is replayed only if the results that the client has seen stay the same; an
//!    unknown outcome is never replayed.
//! 4. No text can end, freeze or exhaust the process: a statement is bounded before each pass over
//!    it (`limits`), unsupported clauses are rejected by name (`clauses`), and what computes for
//!    long pauses (`turn`) or is interrupted (`interrupt`).
//!
//! A query has a logical plan (`logical`), which is normalized and lowered to operators over rows:
//!
//! ```text
//!   query ── bind ── logical ── normalize ── physical ── exec ── Transaction
//! ```
//!
//! Not done: operators over batches that spill to disk.
//! `statement_timeout` and `idle_in_transaction_session_timeout` are only settings here: a caller
//! with a clock enforces them with [`Session::interrupt`]. `lock_timeout` goes to the transaction.

#[cfg(test)]
extern crate self as meridian_sql;

mod access;
mod advisory;
mod aggregate;
mod alter_any;
mod array;
mod attributes;
mod backfill;
mod base_type;
mod bind;
mod bits;
mod brackets;
mod bulk;
mod carried;
mod cast;
mod catalog;
mod clauses;
mod collation;
mod commit;
mod compile;
mod composite;
mod conflict;
mod consistency;
mod constraint;
mod control;
mod copy;
mod create_as;
mod cursor;
mod datetime;
mod datum;
mod ddl;
mod deparse;
mod dialect;
mod dml;
mod domain;
mod effects;
#[cfg(test)]
mod encoding_tests;
mod engine;
mod enumeration;
mod error;
mod exec;
mod explain;
mod expr;
mod extension;
mod format_binary;
mod format_text;
mod function;
mod heading;
mod hstore;
mod index;
mod interned;
mod interrupt;
mod interval;
mod json;
mod key;
mod kv;
mod like;
mod limits;
#[cfg(test)]
mod limits_tests;
mod logical;
mod made;
mod materialized;
mod memory;
mod movement;
mod names;
mod network;
mod normalize;
mod notice;
mod notify;
mod number;
mod numeric;
mod operand;
mod operator_class;
mod parse;
mod parts;
mod physical;
mod portal;
mod prepared;

mod reader;
mod record;
#[cfg(test)]
mod reference;
mod referenced;
mod replay;
mod response;
mod rounded;
mod row;
mod run;
mod savepoints;
mod scan;
mod select_into;
mod sequence;
mod session;
mod setting_values;
mod settings;
mod signal;
mod sleep;
mod split;
mod stack;
mod statistics;
pub mod system;
mod table_command;
mod temporary;
mod tokens;
mod trigram;
mod turn;
mod two_phase;
mod type_names;
mod types;
mod user_function;
mod vacuum;
mod view;
mod window;
mod work;
mod write;

pub use bits::Bits;
pub use catalog::{ColumnDef, Table};
pub use composite::Composite;
pub use datetime::{Local, Zone, ZonedTime};
pub use datum::Datum;
pub use domain::Domain;
pub use engine::Engine;
pub use enumeration::{Enum, EnumValue};
pub use error::{ErrorFields, SqlError, state};
pub use expr::Facts;
pub use index::{Index, IndexPart};
pub use interrupt::{Apart, Watch, watched};
pub use interval::Interval;
pub use memory::QueryMemory;
pub use network::Network;
pub use notice::is_warning;
pub use notify::{Delivery, Notification};
pub use numeric::{Decimal, Numeric};
pub use parse::{ChosenProtocol, GroupMembers};
pub use response::{Column, Description, Response, Status};
pub use session::Session;
pub use turn::Clock;
pub use types::Type;
