//! The columns of the system tables, as PostgreSQL 15 has them: `name:type`, `?` where NULL is
//! allowed.
//!
//! Types have the names of `pg_type`; that of a domain is the type under it.

mod information_schema;
mod pg_catalog;

/// One table: its schema, its name, its id, its columns.
pub(super) type Layout = (&'static str, &'static str, u32, &'static str);

/// The tables of Meridian's own schema.
const OWN: &[Layout] = &[
    (
        "meridian",
        "clock",
        13201,
        "node:int4 state:text? source:text? earliest:timestamptz? latest:timestamptz? \
         uncertainty_ns:int8? ahead_ns:int8? round_trip_ns:int8?",
    ),
    (
        "meridian",
        "shards",
        13202,
        "shard:int4 leader:int4? table_name:text? start_key:text end_key:text? voters:text \
         learners:text witnesses:text",
    ),
];

/// Iterates over the tables of all schemas.
pub(super) fn layouts() -> impl Iterator<Item = &'static Layout> {
    pg_catalog::LAYOUTS.iter().chain(OWN).chain(information_schema::LAYOUTS)
}
