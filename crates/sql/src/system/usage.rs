//! The tables of how tables and indexes are used (`pg_stat_user_tables` and its kind). Nothing is
//! counted but the rows: the counters are 0.

use super::{Rows, SystemContext, Value, Writer};

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_stat_all_tables"
        | "pg_stat_user_tables"
        | "pg_stat_xact_all_tables"
        | "pg_stat_xact_user_tables" => tables,
        "pg_statio_all_tables" | "pg_statio_user_tables" => blocks_of_tables,
        "pg_stat_all_indexes" | "pg_stat_user_indexes" => indexes,
        "pg_statio_all_indexes" | "pg_statio_user_indexes" => blocks_of_indexes,
        "pg_statio_all_sequences" | "pg_statio_user_sequences" => blocks_of_sequences,
        "pg_stat_database" => databases,
        _ => return None,
    })
}

const COUNTERS: [&str; 18] = [
    "seq_scan",
    "seq_tup_read",
    "idx_scan",
    "idx_tup_fetch",
    "n_tup_ins",
    "n_tup_upd",
    "n_tup_del",
    "n_tup_hot_upd",
    "n_live_tup",
    "n_dead_tup",
    "n_mod_since_analyze",
    "n_ins_since_vacuum",
    "vacuum_count",
    "autovacuum_count",
    "analyze_count",
    "autoanalyze_count",
    "heap_blks_read",
    "heap_blks_hit",
];

/// Writes a row whose counters are 0 but for those that are given.
fn counted(out: &mut Writer<'_>, counters: &[&'static str], row: Vec<(&str, Value<'_>)>) {
    let mut all: Vec<(&str, Value<'_>)> = Vec::with_capacity(counters.len() + row.len());
    all.extend(counters.iter().filter(|name| out.has(name)).map(|name| (*name, 0.into())));
    all.extend(row);
    out.row(&all);
}

fn tables(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        let mut row = vec![
            ("relid", table.id.into()),
            ("schemaname", context.catalog.schema_name(table.schema).into()),
            ("relname", table.name.as_str().into()),
        ];
        if let (true, Some(statistics)) = (out.has("n_live_tup"), &table.statistics) {
            row.push(("n_live_tup", (statistics.rows as i64).into()));
        }
        // Without an index none is scanned.
        if table.keys().next().is_none() {
            row.push(("idx_scan", Value::Null));
            row.push(("idx_tup_fetch", Value::Null));
        }
        counted(out, &COUNTERS, row);
    }
}

fn blocks_of_tables(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        let row = vec![
            ("relid", table.id.into()),
            ("schemaname", context.catalog.schema_name(table.schema).into()),
            ("relname", table.name.as_str().into()),
        ];
        let has_index = table.keys().next().is_some();
        let of_indexes: &[&str] = if has_index { &["idx_blks_read", "idx_blks_hit"] } else { &[] };
        let counters = [&["heap_blks_read", "heap_blks_hit"], of_indexes].concat();
        counted(out, &counters, row);
    }
}

fn each_index(context: &SystemContext<'_>, out: &mut Writer<'_>, counters: &[&'static str]) {
    for table in &context.catalog.tables {
        for index in table.keys() {
            let row = vec![
                ("relid", table.id.into()),
                ("indexrelid", index.id.into()),
                ("schemaname", context.catalog.schema_name(table.schema).into()),
                ("relname", table.name.as_str().into()),
                ("indexrelname", index.name.as_str().into()),
            ];
            counted(out, counters, row);
        }
    }
}

fn indexes(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    each_index(context, out, &["idx_scan", "idx_tup_read", "idx_tup_fetch"]);
}

fn blocks_of_indexes(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    each_index(context, out, &["idx_blks_read", "idx_blks_hit"]);
}

fn blocks_of_sequences(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        let row = vec![
            ("relid", sequence.id.into()),
            ("schemaname", context.catalog.schema_name(sequence.schema).into()),
            ("relname", sequence.name.as_str().into()),
        ];
        counted(out, &["blks_read", "blks_hit"], row);
    }
}

fn databases(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let sessions = context.facts.sessions.list();
    let name = context.facts.database.as_str();
    let open = sessions.iter().filter(|session| &*session.database == name).count();
    let row = vec![
        ("datid", super::activity::database_id(name).into()),
        ("datname", name.into()),
        ("numbackends", (open as i64).into()),
    ];
    let counters = [
        "xact_commit",
        "xact_rollback",
        "blks_read",
        "blks_hit",
        "tup_returned",
        "tup_fetched",
        "tup_inserted",
        "tup_updated",
        "tup_deleted",
        "conflicts",
        "temp_files",
        "temp_bytes",
        "deadlocks",
    ];
    counted(out, &counters, row);
}
