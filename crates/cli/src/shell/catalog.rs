//! The shell's catalog queries, for `\d` and its family, and for completion.
//!
//! Only plain queries on one catalog table each, so that they run on every server.

use super::backend::{Answer, Backend, Heading};

/// `\dt`
pub const TABLES: &str = "SELECT schemaname AS schema, tablename AS name FROM pg_catalog.pg_tables \
     WHERE schemaname <> 'pg_catalog' AND schemaname <> 'information_schema' ORDER BY schemaname, tablename";

/// `\di`
pub const INDEXES: &str = "SELECT schemaname AS schema, indexname AS name, tablename AS table FROM pg_catalog.pg_indexes \
     WHERE schemaname <> 'pg_catalog' ORDER BY schemaname, indexname";

/// `\l`
pub const DATABASES: &str = "SELECT datname AS name FROM pg_catalog.pg_database ORDER BY datname";

/// Returns the query of a table's columns, for `\d NAME`.
pub fn columns(table: &str) -> String {
    format!(
        "SELECT column_name AS column, data_type AS type, is_nullable AS nullable, column_default AS default \
         FROM information_schema.columns WHERE table_name = {} ORDER BY ordinal_position",
        quoted(table)
    )
}

/// Returns the query of a table's indexes, for `\d NAME`.
pub fn indexes_of(table: &str) -> String {
    format!(
        "SELECT indexname, indexdef FROM pg_catalog.pg_indexes WHERE tablename = {} ORDER BY indexname",
        quoted(table)
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a typed name as the catalog has it: folded unless quoted, without its schema.
pub fn name(typed: &str) -> String {
    let last = match typed.rfind("\".").or_else(|| typed.find('.')) {
        Some(dot) if !typed.starts_with('"') || typed[dot..].starts_with("\".") => {
            typed[dot..].trim_start_matches("\".").trim_start_matches('.')
        }
        _ => typed,
    };
    match last.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => last.to_lowercase(),
    }
}

/// A result's headings and rows.
pub type Found = (Vec<Heading>, Vec<Vec<Option<String>>>);

/// Runs a query of the catalog.
pub fn query(backend: &mut dyn Backend, sql: &str) -> Result<Found, String> {
    for answer in backend.run(sql) {
        match answer {
            Answer::Rows { headings, rows, .. } => return Ok((headings, rows)),
            Answer::Failed(fault) if fault.sqlstate == "42P01" => {
                return Err(format!(
                    "meridian: this server has no such catalog yet: {}\n",
                    fault.message
                ));
            }
            Answer::Failed(fault) => return Err(fault.show(sql, None)),
            _ => {}
        }
    }
    Ok((Vec::new(), Vec::new()))
}

/// Returns the names of tables and columns, for completion; empty if the catalog query fails.
pub fn names(backend: &mut dyn Backend) -> Vec<String> {
    let mut names = Vec::new();
    for sql in [
        "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'public'",
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public'",
    ] {
        let (_, rows) = query(backend, sql).unwrap_or_default();
        names.extend(rows.into_iter().filter_map(|mut row| row.pop().flatten()));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The keywords that completion offers.
pub const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS OF SYSTEM TIME",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASCADE",
    "CASE",
    "CAST",
    "CHAR",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "COPY",
    "COUNT",
    "CREATE",
    "CREATE DATABASE",
    "CREATE INDEX",
    "CREATE TABLE",
    "CURRENT_TIMESTAMP",
    "DATABASE",
    "DATE",
    "DEFAULT",
    "DELETE FROM",
    "DESC",
    "DISTINCT",
    "DO NOTHING",
    "DO UPDATE SET",
    "DOUBLE PRECISION",
    "DROP",
    "DROP TABLE",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FALSE",
    "FOR UPDATE",
    "FOREIGN KEY",
    "FROM",
    "GROUP BY",
    "HAVING",
    "IF EXISTS",
    "IF NOT EXISTS",
    "IN",
    "INDEX",
    "INNER JOIN",
    "INSERT INTO",
    "INT",
    "INTEGER",
    "INTO",
    "IS NOT NULL",
    "IS NULL",
    "JOIN",
    "KEY",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NOT NULL",
    "NULL",
    "NUMERIC",
    "OFFSET",
    "ON",
    "ON CONFLICT",
    "OR",
    "ORDER BY",
    "PRIMARY KEY",
    "READ ONLY",
    "REFERENCES",
    "RELEASE SAVEPOINT",
    "RETURNING",
    "ROLLBACK",
    "ROLLBACK TO SAVEPOINT",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "SHOW",
    "SMALLINT",
    "SUM",
    "TABLE",
    "TEXT",
    "THEN",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TO",
    "TRANSACTION",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "UUID",
    "VACUUM",
    "VALUES",
    "VARCHAR",
    "WHEN",
    "WHERE",
    "WITH",
];

/// The commands of the shell, for completion and for `\?`.
pub const COMMANDS: &[(&str, &str)] = &[
    ("\\d [NAME]", "tables; or one table's columns and indexes"),
    ("\\dt", "tables"),
    ("\\di", "indexes"),
    ("\\l", "databases"),
    ("\\c DATABASE", "go to another database"),
    ("\\conninfo", "where you are"),
    ("\\timing [on|off]", "print how long statements take"),
    ("\\x [on|off]", "one column below the other"),
    ("\\i FILE", "run a file"),
    ("\\copy TABLE from FILE", "take in a file's rows, as COPY … FROM STDIN does"),
    ("\\copy TABLE to FILE", "write rows to a file; also \\copy (QUERY) to FILE"),
    ("\\?", "this list"),
    ("\\q", "leave (also ctrl-D)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_unless_quoted() {
        for (typed, found) in [
            ("Orders", "orders"),
            ("public.Orders", "orders"),
            ("\"Or\"\"ders\"", "Or\"ders"),
            ("public.\"A.b\"", "A.b"),
        ] {
            assert_eq!(name(typed), found, "{typed}");
        }
        assert_eq!(indexes_of("o'x").matches("'o''x'").count(), 1);
    }
}
