//! The parts of SQL and of the comparison that a run can leave out, by `--skip`.

use clap::ValueEnum;

/// A part of SQL or of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Feature {
    /// Arithmetic, and functions of numbers.
    Arithmetic,
    /// Functions of text.
    Text,
    /// Casts between types.
    Cast,
    /// Functions of dates and timestamps.
    Date,
    /// LIKE and regular expressions.
    Like,
    /// Comparisons of rows.
    Row,
    /// CASE, COALESCE, NULLIF, GREATEST and LEAST.
    Conditional,
    /// Subqueries in expressions.
    Subquery,
    /// References from a subquery to the queries around it.
    Correlation,
    /// Subqueries in FROM.
    Derived,
    /// LATERAL.
    Lateral,
    /// Joins.
    Join,
    /// Left and right joins.
    OuterJoin,
    /// Full joins.
    FullJoin,
    /// USING and NATURAL.
    Using,
    /// GROUP BY, HAVING and aggregates.
    Group,
    /// FILTER of aggregates.
    Filter,
    /// DISTINCT.
    Distinct,
    /// DISTINCT ON.
    DistinctOn,
    /// Window functions.
    Window,
    /// UNION, INTERSECT and EXCEPT.
    SetOperation,
    /// VALUES as a query.
    Values,
    /// WITH.
    With,
    /// LIMIT and OFFSET.
    Limit,
    /// ORDER BY and LIMIT after a query in parentheses.
    Parentheses,
    /// INSERT, UPDATE and DELETE.
    Change,
    /// ON CONFLICT.
    OnConflict,
    /// RETURNING.
    Returning,
    /// The extended protocol, with parameters.
    Extended,
    /// Text literals and parameters without a cast.
    Untyped,
    /// The comparison of the number of digits after the point of equal numerics.
    NumericScale,
    /// The comparison of the names of columns.
    ColumnNames,
    /// The comparison of the types that parameters have if the statement does not name them.
    ParameterTypes,
}

impl Feature {
    /// Returns the name in `--skip`.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The parts that a run leaves out.
#[derive(Clone, Debug, Default)]
pub struct Skipped {
    /// The features.
    pub features: Vec<Feature>,
    /// Texts of operators and functions: forms of expressions that contain one are not drawn.
    pub forms: Vec<String>,
}
