//! Rejects clauses that the parser knows and Meridian does not: by name, never
//! ignored.
//!
//! Each syntax node is destructured field by field, so that a field of a newer parser does not
//! compile until it is handled or rejected. Clauses that describe the existing behaviour (`USING
//! btree`, `NOT DEFERRABLE`, `COLLATE "C"`) are accepted.

mod query;
mod session;
mod unparsed;

pub(crate) use query::{is_foreign, plain_table, plain_values};
pub(crate) use session::statement;
pub(crate) use unparsed::unparsed;

use crate::collation;
use crate::error::{SqlError, state};
use crate::limits;
use crate::names;
use crate::sequence;
use sqlparser::ast::{
    self, AlterTable, CheckConstraint, ColumnDef, ColumnOption, ConstraintCharacteristics,
    CreateIndex, CreateTable, CreateTableOptions, CreateView, DeferrableInitial,
    ForeignKeyConstraint, GeneratedAs, GeneratedExpressionMode, HiveDistributionStyle, IndexColumn,
    IndexType, OrderByExpr, PrimaryKeyConstraint, SqlOption, Statement, TableConstraint, Truncate,
    UniqueConstraint, ViewColumnDef,
};

/// Fails with 0A000 for the first clause that is present.
pub(crate) fn refuse(clauses: &[(bool, &str)]) -> Result<(), SqlError> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => Err(SqlError::unsupported(clause)),
        None => Ok(()),
    }
}

/// Rejects clauses of CREATE SCHEMA other than its name and owner.
pub(crate) fn create_schema(statement: &Statement) -> Result<(), SqlError> {
    let Statement::CreateSchema {
        schema_name: _,
        if_not_exists: _,
        with,
        options,
        default_collate_spec,
        clone,
    } = statement
    else {
        return Ok(());
    };
    refuse(&[
        (with.is_some(), "CREATE SCHEMA WITH"),
        (options.is_some(), "CREATE SCHEMA OPTIONS"),
        (default_collate_spec.is_some(), "CREATE SCHEMA DEFAULT COLLATE"),
        (clone.is_some(), "CREATE SCHEMA CLONE"),
    ])
}

/// Rejects clauses of CREATE VIEW other than OR REPLACE and the names of columns.
pub(crate) fn create_view(create: &CreateView) -> Result<(), SqlError> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    let has_more = |column: &ViewColumnDef| {
        let ViewColumnDef { name: _, data_type, options } = column;
        data_type.is_some() || options.is_some()
    };
    refuse(&[
        (*materialized, "CREATE MATERIALIZED VIEW"),
        (!matches!(options, CreateTableOptions::None), "CREATE VIEW … WITH"),
        (*if_not_exists || *name_before_not_exists, "CREATE VIEW IF NOT EXISTS"),
        (columns.iter().any(has_more), "a column of a view with a type or options"),
        (
            *or_alter
                || *secure
                || !cluster_by.is_empty()
                || comment.is_some()
                || *with_no_schema_binding
                || *copy_grants
                || to.is_some()
                || params.is_some(),
            "CREATE VIEW of another dialect",
        ),
    ])
}

/// Rejects clauses of CREATE TABLE other than columns, primary key and UNIQUE.
pub(crate) fn create_table(create: &CreateTable) -> Result<(), SqlError> {
    let CreateTable {
        or_replace,
        temporary: _,
        external,
        dynamic,
        global,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns,
        constraints,
        hive_distribution,
        hive_formats,
        table_options,
        file_format,
        location,
        query,
        without_rowid,
        like,
        clone,
        version,
        comment,
        on_commit: _,
        on_cluster,
        primary_key,
        order_by,
        partition_by,
        cluster_by,
        clustered_by,
        inherits,
        partition_of,
        for_values,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
    } = create;
    refuse(&[
        (*or_replace, "CREATE OR REPLACE TABLE"),
        (global.is_some(), "CREATE GLOBAL or LOCAL TABLE"),
        (*external, "CREATE EXTERNAL TABLE"),
        (*dynamic || *transient || *volatile || *iceberg || *snapshot, "a table of another kind"),
        (query.is_some(), "CREATE TABLE AS"),
        (like.is_some(), "LIKE outside the list of columns"),
        (clone.is_some(), "CREATE TABLE … CLONE"),
        (partition_of.is_some() || for_values.is_some(), "PARTITION OF"),
        (partition_by.is_some(), "PARTITION BY"),
        (inherits.is_some(), "INHERITS"),
        (!matches!(hive_distribution, HiveDistributionStyle::NONE), "PARTITIONED BY"),
        (cluster_by.is_some() || clustered_by.is_some(), "CLUSTER BY"),
        (primary_key.is_some() || order_by.is_some(), "PRIMARY KEY or ORDER BY behind the columns"),
        (comment.is_some(), "COMMENT"),
        (location.is_some() || base_location.is_some() || external_volume.is_some(), "LOCATION"),
        (hive_formats.as_ref().is_some_and(|formats| *formats != Default::default()), "ROW FORMAT"),
        (file_format.is_some(), "STORED AS"),
        (*without_rowid, "WITHOUT ROWID"),
        (*strict, "STRICT"),
        (version.is_some(), "VERSION"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (default_ddl_collation.is_some(), "DEFAULT_DDL_COLLATION"),
        (with_aggregation_policy.is_some() || with_row_access_policy.is_some(), "a policy"),
        (
            with_storage_lifecycle_policy.is_some() || storage_serialization_policy.is_some(),
            "a policy",
        ),
        (with_tags.is_some(), "TAG"),
        (catalog.is_some() || catalog_sync.is_some(), "CATALOG"),
        (target_lag.is_some() || warehouse.is_some(), "TARGET_LAG or WAREHOUSE"),
        (refresh_mode.is_some() || initialize.is_some(), "REFRESH_MODE or INITIALIZE"),
        (*require_user || *copy_grants, "COPY GRANTS or REQUIRE USER"),
        (enable_schema_evolution.is_some() || change_tracking.is_some(), "CHANGE_TRACKING"),
        (data_retention_time_in_days.is_some(), "DATA_RETENTION_TIME_IN_DAYS"),
        (max_data_extension_time_in_days.is_some(), "MAX_DATA_EXTENSION_TIME_IN_DAYS"),
        (diststyle.is_some() || distkey.is_some(), "DISTSTYLE"),
        (sortkey.is_some() || backup.is_some(), "SORTKEY or BACKUP"),
    ])?;
    table_storage(table_options)?;
    check_columns(columns.len())?;
    columns.iter().try_for_each(column)?;
    constraints.iter().try_for_each(constraint)
}

/// Fails with 54011 for a table with too many columns.
pub(crate) fn check_columns(count: usize) -> Result<(), SqlError> {
    if count <= limits::MOST_COLUMNS {
        return Ok(());
    }
    let message = format!("tables can have at most {} columns", limits::MOST_COLUMNS);
    Err(SqlError::new(state::TOO_MANY_COLUMNS, message))
}

fn table_storage(options: &CreateTableOptions) -> Result<(), SqlError> {
    let (options, clause) = match options {
        CreateTableOptions::None => return Ok(()),
        CreateTableOptions::With(options) => (options, "WITH"),
        CreateTableOptions::Options(options) => (options, "OPTIONS"),
        CreateTableOptions::Plain(options) => (options, "a table option"),
        CreateTableOptions::TableProperties(options) => (options, "TBLPROPERTIES"),
    };
    for option in options {
        match option {
            // `fillfactor`, and the absence of hidden row numbers: there are no pages, nor such
            // numbers.
            SqlOption::KeyValue { key, .. }
                if clause == "WITH" && names::fold(key) == "fillfactor" => {}
            SqlOption::KeyValue { key, value }
                if clause == "WITH" && names::fold(key) == "oids" =>
            {
                refuse(&[(!value.to_string().eq_ignore_ascii_case("false"), "WITH (oids)")])?;
            }
            other => return Err(SqlError::unsupported(format!("{clause} ({other})"))),
        }
    }
    Ok(())
}

/// Rejects options of a column's definition; the caller handles its default and its NULLs.
pub(crate) fn column(def: &ColumnDef) -> Result<(), SqlError> {
    let ColumnDef { name: _, data_type: _, options } = def;
    for ast::ColumnOptionDef { name: _, option } in options {
        match option {
            ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_) => {}
            ColumnOption::PrimaryKey(key) => primary_key(key)?,
            ColumnOption::Unique(key) => unique(key)?,
            ColumnOption::Collation(name) => drop(collation::of_column(name)?),
            ColumnOption::Check(check) => check_constraint(check)?,
            ColumnOption::ForeignKey(foreign) => foreign_key(foreign)?,
            ColumnOption::DialectSpecific(tokens) => drop(sequence::identity(tokens)?),
            ColumnOption::Generated {
                generated_as: GeneratedAs::ExpStored,
                sequence_options: None,
                generation_expr: Some(_),
                generation_expr_mode: Some(GeneratedExpressionMode::Stored),
                generated_keyword: true,
            } => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    Ok(())
}

/// Rejects constraints other than keys and conditions, and options of keys other than columns.
pub(crate) fn constraint(constraint: &TableConstraint) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::PrimaryKey(key) => primary_key(key),
        TableConstraint::Unique(key) => unique(key),
        TableConstraint::Check(check) => check_constraint(check),
        TableConstraint::ForeignKey(foreign) => foreign_key(foreign),
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

fn foreign_key(foreign: &ForeignKeyConstraint) -> Result<(), SqlError> {
    let ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete: _,
        on_update: _,
        match_kind,
        characteristics,
    } = foreign;
    refuse(&[
        (index_name.is_some(), "a name of the index"),
        (matches!(match_kind, Some(ast::ConstraintReferenceMatchKind::Partial)), "MATCH PARTIAL"),
        (characteristics.as_ref().is_some_and(|it| it.enforced == Some(false)), "NOT ENFORCED"),
    ])
}

fn check_constraint(check: &CheckConstraint) -> Result<(), SqlError> {
    let CheckConstraint { name: _, expr: _, enforced } = check;
    refuse(&[(*enforced == Some(false), "NOT ENFORCED")])
}

fn primary_key(key: &PrimaryKeyConstraint) -> Result<(), SqlError> {
    let PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns,
        index_options,
        characteristics,
    } = key;
    refuse(&[
        (index_name.is_some(), "a name of the index"),
        (!index_options.is_empty(), "an index option"),
    ])?;
    index_type.as_ref().map_or(Ok(()), method)?;
    characteristics.as_ref().map_or(Ok(()), enforcement)?;
    characteristics.as_ref().map_or(Ok(()), immediate)?;
    columns.iter().try_for_each(key_column)
}

fn unique(key: &UniqueConstraint) -> Result<(), SqlError> {
    let UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct: _,
    } = key;
    refuse(&[
        (index_name.is_some(), "a name of the index"),
        (!index_options.is_empty(), "an index option"),
    ])?;
    index_type.as_ref().map_or(Ok(()), method)?;
    characteristics.as_ref().map_or(Ok(()), enforcement)?;
    columns.iter().try_for_each(key_column)
}

fn enforcement(characteristics: &ConstraintCharacteristics) -> Result<(), SqlError> {
    let ConstraintCharacteristics { deferrable: _, initially: _, enforced } = characteristics;
    refuse(&[(*enforced == Some(false), "NOT ENFORCED")])
}

/// Rejects a PRIMARY KEY that is DEFERRABLE: the rows are stored by their primary key.
fn immediate(characteristics: &ConstraintCharacteristics) -> Result<(), SqlError> {
    let ConstraintCharacteristics { deferrable, initially, enforced: _ } = characteristics;
    let is_deferred = matches!(initially, Some(DeferrableInitial::Deferred));
    refuse(&[(*deferrable == Some(true) || is_deferred, "PRIMARY KEY … DEFERRABLE")])
}

fn method(method: &IndexType) -> Result<(), SqlError> {
    match method {
        IndexType::BTree => Ok(()),
        other => Err(SqlError::unsupported(format!("USING {}", other.to_string().to_lowercase()))),
    }
}

fn key_column(column: &IndexColumn) -> Result<(), SqlError> {
    let IndexColumn { column: OrderByExpr { expr: _, options: _, with_fill }, operator_class: _ } =
        column;
    refuse(&[(with_fill.is_some(), "WITH FILL")])
}

/// Rejects a collation other than the order of bytes: those of languages with 0A000, others with
/// 42704.
pub fn collation(name: &ast::ObjectName) -> Result<(), SqlError> {
    collation::of_column(name)?.map_or(Ok(()), |name| Err(collation::not_ordered(&name)))
}

/// Rejects clauses of CREATE INDEX other than columns and expressions, their order, UNIQUE, INCLUDE
/// and WHERE.
pub(crate) fn create_index(create: &CreateIndex) -> Result<(), SqlError> {
    let CreateIndex {
        name: _,
        table_name: _,
        using,
        columns,
        unique: _,
        // Every index is built concurrently with reads and writes.
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    using.as_ref().map_or(Ok(()), method)?;
    refuse(&[(!index_options.is_empty() || !alter_options.is_empty(), "an index option")])?;
    for option in with {
        let fills = matches!(option, ast::Expr::BinaryOp { left, .. }
            if matches!(&**left, ast::Expr::Identifier(name) if names::fold(name) == "fillfactor"));
        refuse(&[(!fills, &format!("WITH ({option})"))])?;
    }
    columns.iter().try_for_each(key_column)
}

/// Rejects clauses of ALTER TABLE other than its operations.
pub(crate) fn alter_table(alter: &AlterTable) -> Result<(), SqlError> {
    // There is no inheritance, so ONLY has no effect.
    let AlterTable {
        name: _,
        if_exists: _,
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    refuse(&[
        (location.is_some(), "LOCATION"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (table_type.is_some(), "ALTER of a table of another kind"),
    ])?;
    for operation in operations {
        match operation {
            ast::AlterTableOperation::AddConstraint { constraint: added, not_valid: _ } => {
                constraint(added)?;
            }
            ast::AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists: _,
                column_def,
                column_position,
            } => {
                refuse(&[(column_position.is_some(), "a position of the new column")])?;
                column(column_def)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rejects clauses of TRUNCATE other than its tables, CASCADE and RESTART IDENTITY.
pub(crate) fn truncate(truncate: &Truncate) -> Result<(), SqlError> {
    let Truncate {
        table_names: _,
        partitions,
        table: _,
        if_exists,
        identity: _,
        cascade: _,
        on_cluster,
    } = truncate;
    refuse(&[
        (partitions.is_some(), "PARTITION"),
        (*if_exists, "TRUNCATE IF EXISTS"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ])
}
