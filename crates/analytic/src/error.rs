//! Translates DataFusion's errors to PostgreSQL's words.

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use meridian_sql::{SqlError, state};

/// Wraps an error of this crate for its way through DataFusion.
pub(crate) fn outward(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the error for the client.
pub(crate) fn inward(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(ours) => ours.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(error) => inward(error),
                None => SqlError::new("XX000", inner.to_string()),
            },
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inward(inner),
        DataFusionError::Shared(inner) => inward(inner),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => inward(first),
            None => SqlError::new("XX000", "the query failed"),
        },
        DataFusionError::ArrowError(inner, _) => of_arrow(inner),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(state::OUT_OF_MEMORY, "out of memory")
                .detail(first_line(message))
                .hint("Read less at once, or start the server with a larger --query-memory.")
        }
        DataFusionError::SchemaError(inner, _) => of_schema(inner),
        DataFusionError::SQL(inner, _) => SqlError::new(state::SYNTAX, inner.to_string()),
        DataFusionError::NotImplemented(message) => SqlError::unsupported(first_line(message)),
        DataFusionError::Plan(message) => of_plan(message),
        DataFusionError::Execution(message) => of_execution(message),
        DataFusionError::Internal(message) => SqlError::new("XX000", first_line(message)),
        other => SqlError::new("XX000", first_line(&other.to_string())),
    }
}

fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or("");
    // Advice about the library's build options does not help a user.
    let line = line.split_once(" Hint: ").map_or(line, |(said, _)| said);
    line.trim_end_matches('.').replace(crate::dialect::MARK, "")
}

fn of_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(state::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(state::OUT_OF_RANGE, "value out of range").detail(first_line(message))
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            let out = message.contains("overflow") || message.contains("Can't cast value");
            SqlError::new(
                if out { state::OUT_OF_RANGE } else { state::BAD_TEXT },
                first_line(message),
            )
        }
        ArrowError::InvalidArgumentError(message)
            if message.contains("too large to store in a Decimal") =>
        {
            SqlError::new(state::OUT_OF_RANGE, "numeric field overflow").detail(first_line(message))
        }
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(error) => inward(error),
            None => match inner.downcast_ref::<SqlError>() {
                Some(ours) => ours.clone(),
                None => SqlError::new("XX000", inner.to_string()),
            },
        },
        other => SqlError::new("XX000", first_line(&other.to_string())),
    }
}

/// Returns a table's name as the query has it.
fn shown(table: &datafusion::common::TableReference) -> &str {
    table.table().trim_end_matches(crate::dialect::MARK)
}

fn of_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let column = match &field.relation {
                Some(table)
                    if !valid_fields.iter().any(|other| other.relation.as_ref() == Some(table)) =>
                {
                    let message =
                        format!("missing FROM-clause entry for table \"{}\"", shown(table));
                    return SqlError::new(state::UNDEFINED_TABLE, message);
                }
                Some(table) => format!("{}.{}", shown(table), field.name),
                None => format!("\"{}\"", field.name),
            };
            SqlError::new(state::UNDEFINED_COLUMN, format!("column {column} does not exist"))
        }
        SchemaError::AmbiguousReference { field } => SqlError::new(
            state::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            state::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => SqlError::new(
            "42712",
            format!("table name \"{}\" specified more than once", shown(qualifier)),
        ),
    }
}

fn of_plan(message: &str) -> SqlError {
    let line = first_line(message);
    let has = |part: &str| message.contains(part);
    if let Some(error) = nested(message) {
        return error;
    }
    if let Some(rest) = line.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or(rest);
        return SqlError::new(state::UNDEFINED_FUNCTION, format!("function {name} does not exist"))
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.");
    }
    if has("No function matches") || has("does not support") && has("function") {
        return SqlError::new(state::UNDEFINED_FUNCTION, line);
    }
    if has("non-boolean predicate") {
        return SqlError::new(state::TYPE_MISMATCH, "argument of WHERE must be type boolean")
            .detail(line);
    }
    if let Some((before, _)) = message.split_once(" must appear in the GROUP BY clause")
        && let Some((_, column)) = before.rsplit_once("column ")
    {
        let column = column.replace([crate::dialect::MARK, '"'], "");
        return SqlError::new(
            state::GROUPING,
            format!(
                "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
        );
    }
    if has("must appear in the GROUP BY clause")
        || has("must be in the GROUP BY")
        || has("could not be resolved from available columns")
    {
        return SqlError::new(
            state::GROUPING,
            "a column must appear in the GROUP BY clause or be used in an aggregate function",
        )
        .detail(line);
    }
    if has("Cannot coerce")
        || has("Cannot infer common")
        || has("cannot be matched")
        || has("cannot be converted")
    {
        return SqlError::new(state::UNDEFINED_FUNCTION, "operator does not exist for these types")
            .detail(line)
            .hint("You might need to add explicit type casts.");
    }
    if has("must return the same number of columns")
        || has("queries have different number of columns")
        || has("have unequal number of columns")
        || has("must have the same number of columns")
    {
        return SqlError::new(
            state::SYNTAX,
            "each query of a set operation must have the same number of columns",
        );
    }
    if has("require unique expression names") {
        return SqlError::new(state::DUPLICATE_COLUMN, line);
    }
    if has("Scalar subquery should only return one column") || has("should only return one column")
    {
        return SqlError::new(state::SYNTAX, "subquery must return only one column");
    }
    if has("LIMIT") && has(">= 0") || has("must be >=0") {
        return SqlError::new(state::INVALID_LIMIT, "LIMIT must not be negative");
    }
    SqlError::new(state::FEATURE_NOT_SUPPORTED, line)
}

/// Recovers an error of this crate about an undefined function that became part of a message.
fn nested(message: &str) -> Option<SqlError> {
    let (_, ours) = message.split_once("External error: ")?;
    let text = ours.strip_prefix(state::UNDEFINED_FUNCTION)?.strip_prefix(": ")?;
    let text = text.split(". No function matches").next().unwrap_or(text);
    Some(SqlError::new(state::UNDEFINED_FUNCTION, text))
}

fn of_execution(message: &str) -> SqlError {
    if let Some(error) = nested(message) {
        return error;
    }
    if message.contains("more than one row") {
        return SqlError::new(
            state::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if message.contains("overflow") || message.contains("Overflow") {
        return SqlError::new(state::OUT_OF_RANGE, "value out of range")
            .detail(first_line(message));
    }
    SqlError::new("XX000", first_line(message))
}
