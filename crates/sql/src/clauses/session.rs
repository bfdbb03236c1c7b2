//! Clauses of statements that concern the session, databases, and the dropping of tables.

use super::refuse;
use crate::error::SqlError;
use sqlparser::ast::{Analyze, Set, Statement};

/// Rejects clauses that nothing would read.
pub(crate) fn statement(statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::StartTransaction {
            modes: _,
            begin: _,
            transaction: _,
            modifier,
            statements,
            exception,
            has_end_keyword,
        } => refuse(&[(
            modifier.is_some() || !statements.is_empty() || exception.is_some() || *has_end_keyword,
            "BEGIN with a modifier or a body",
        )]),
        Statement::Commit { chain, end: _, modifier } => {
            refuse(&[(*chain, "COMMIT AND CHAIN"), (modifier.is_some(), "COMMIT TRY or CATCH")])
        }
        Statement::Rollback { chain, savepoint: _ } => refuse(&[(*chain, "ROLLBACK AND CHAIN")]),
        Statement::Analyze(analyze) => {
            let Analyze {
                table_name: _,
                partitions,
                for_columns,
                columns,
                cache_metadata,
                noscan,
                compute_statistics,
                has_table_keyword,
            } = analyze;
            refuse(&[
                (!columns.is_empty(), "ANALYZE of some columns"),
                (
                    partitions.is_some()
                        || *for_columns
                        || *cache_metadata
                        || *noscan
                        || *compute_statistics
                        || *has_table_keyword,
                    "ANALYZE of another dialect",
                ),
            ])
        }
        Statement::Savepoint { name: _ } | Statement::ReleaseSavepoint { name: _ } => Ok(()),
        Statement::Deallocate { name: _, prepare: _ } => Ok(()),
        Statement::Drop {
            object_type: _,
            if_exists: _,
            names: _,
            // Nothing depends on a table here but its own indexes.
            cascade: _,
            restrict: _,
            purge,
            temporary,
            table,
        } => refuse(&[
            (*purge, "DROP … PURGE"),
            (*temporary, "DROP TEMPORARY TABLE"),
            (table.is_some(), "DROP INDEX … ON"),
        ]),
        Statement::CreateDatabase {
            db_name: _,
            if_not_exists: _,
            location,
            managed_location,
            or_replace,
            transient,
            clone,
            data_retention_time_in_days,
            max_data_extension_time_in_days,
            external_volume,
            catalog,
            replace_invalid_characters,
            default_ddl_collation,
            storage_serialization_policy,
            comment,
            default_charset,
            default_collation,
            catalog_sync,
            catalog_sync_namespace_mode,
            catalog_sync_namespace_flatten_delimiter,
            with_tags,
            with_contacts,
        } => refuse(&[
            (*or_replace || *transient, "CREATE OR REPLACE DATABASE, or a TRANSIENT one"),
            (location.is_some() || managed_location.is_some(), "LOCATION of a database"),
            (clone.is_some(), "CREATE DATABASE … CLONE"),
            (default_charset.is_some() || default_collation.is_some(), "the charset of a database"),
            (default_ddl_collation.is_some(), "the collation of a database"),
            (comment.is_some(), "COMMENT of a database"),
            (
                data_retention_time_in_days.is_some()
                    || max_data_extension_time_in_days.is_some()
                    || external_volume.is_some()
                    || catalog.is_some()
                    || replace_invalid_characters.is_some()
                    || storage_serialization_policy.is_some()
                    || catalog_sync.is_some()
                    || catalog_sync_namespace_mode.is_some()
                    || catalog_sync_namespace_flatten_delimiter.is_some()
                    || with_tags.is_some()
                    || with_contacts.is_some(),
                "a clause of another dialect",
            ),
        ]),
        Statement::Set(Set::SingleAssignment { scope: _, hivevar, variable: _, values: _ }) => {
            refuse(&[(*hivevar, "HIVEVAR")])
        }
        Statement::Set(Set::SetNames { charset_name: _, collation_name }) => {
            refuse(&[(collation_name.is_some(), "SET NAMES … COLLATE")])
        }
        _ => Ok(()),
    }
}
