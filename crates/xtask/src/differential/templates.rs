//! Operators, functions and conditions: their texts, and the types of their arguments.

use super::features::Feature;
use super::types::SqlType;
use Feature::{Arithmetic, Cast, Conditional, Date as Dates, Like, Row, Text as Texts};
use Slot::{Any, Of};
use SqlType::{Bool, Date, Float8, Int2, Int4, Int8, Numeric, Text, Timestamp};

/// The type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// This type.
    Of(SqlType),
    /// A type that is drawn once for each use of the template.
    Any,
}

/// A form of an expression.
#[derive(Debug)]
pub struct Template {
    /// The type of the result.
    pub result: Slot,
    /// The text, with a `#` for each argument.
    pub text: &'static str,
    /// The types of the arguments.
    pub arguments: &'static [Slot],
    /// The feature without which it is left out.
    pub feature: Option<Feature>,
}

const fn of(
    feature: Feature,
    result: SqlType,
    text: &'static str,
    arguments: &'static [Slot],
) -> Template {
    Template { result: Of(result), text, arguments, feature: Some(feature) }
}

const fn condition(text: &'static str, arguments: &'static [Slot]) -> Template {
    Template { result: Of(Bool), text, arguments, feature: None }
}

const fn generic(text: &'static str, arguments: &'static [Slot]) -> Template {
    Template { result: Any, text, arguments, feature: Some(Conditional) }
}

/// All forms of expressions that contain no query.
pub const TEMPLATES: &[Template] = &[
    // Three-valued logic and comparisons.
    condition("(# AND #)", &[Of(Bool), Of(Bool)]),
    condition("(# OR #)", &[Of(Bool), Of(Bool)]),
    condition("(NOT #)", &[Of(Bool)]),
    condition("(# = #)", &[Any, Any]),
    condition("(# <> #)", &[Any, Any]),
    condition("(# < #)", &[Any, Any]),
    condition("(# <= #)", &[Any, Any]),
    condition("(# > #)", &[Any, Any]),
    condition("(# >= #)", &[Any, Any]),
    condition("(# = #)", &[Of(Int4), Of(Int8)]),
    condition("(# < #)", &[Of(Int2), Of(Numeric)]),
    condition("(# >= #)", &[Of(Float8), Of(Int4)]),
    condition("(# = #)", &[Of(Numeric), Of(Float8)]),
    condition("(# < #)", &[Of(Date), Of(Timestamp)]),
    condition("(# IS NULL)", &[Any]),
    condition("(# IS NOT NULL)", &[Any]),
    condition("(# IS DISTINCT FROM #)", &[Any, Any]),
    condition("(# IS NOT DISTINCT FROM #)", &[Any, Any]),
    condition("(# IS TRUE)", &[Of(Bool)]),
    condition("(# IS NOT FALSE)", &[Of(Bool)]),
    condition("(# IS UNKNOWN)", &[Of(Bool)]),
    condition("(# BETWEEN # AND #)", &[Any, Any, Any]),
    condition("(# NOT BETWEEN # AND #)", &[Any, Any, Any]),
    condition("(# BETWEEN SYMMETRIC # AND #)", &[Any, Any, Any]),
    condition("(# IN (#, #))", &[Any, Any, Any]),
    condition("(# NOT IN (#, #, #))", &[Any, Any, Any, Any]),
    condition("(# = ANY (ARRAY[#, #]))", &[Any, Any, Any]),
    of(Row, Bool, "((#, #) = (#, #))", &[Any, Of(Int4), Any, Of(Int4)]),
    of(Row, Bool, "((#, #) < (#, #))", &[Any, Of(Text), Any, Of(Text)]),
    of(Row, Bool, "((#, #) >= (#, #))", &[Of(Int4), Any, Of(Int4), Any]),
    of(Row, Bool, "((#, #) IN ((#, #), (#, #)))", &[Any, Of(Int4), Any, Of(Int4), Any, Of(Int4)]),
    of(Row, Bool, "((#, #) IS DISTINCT FROM (#, #))", &[Any, Of(Int4), Any, Of(Int4)]),
    of(Row, Bool, "((#, #) IS NULL)", &[Any, Of(Int4)]),
    of(Like, Bool, "(# LIKE #)", &[Of(Text), Of(Text)]),
    of(Like, Bool, "(# NOT LIKE #)", &[Of(Text), Of(Text)]),
    of(Like, Bool, "(# LIKE 'a%')", &[Of(Text)]),
    of(Like, Bool, "(# ILIKE '%A_')", &[Of(Text)]),
    of(Like, Bool, "(# LIKE # ESCAPE '!')", &[Of(Text), Of(Text)]),
    of(Like, Bool, "(# ~ '^[a-b]+$')", &[Of(Text)]),
    of(Like, Bool, "(# SIMILAR TO '(a|b)%')", &[Of(Text)]),
    of(Texts, Bool, "starts_with(#, #)", &[Of(Text), Of(Text)]),
    // Conditional expressions.
    generic("COALESCE(#, #)", &[Any, Any]),
    generic("COALESCE(#, #, #)", &[Any, Any, Any]),
    generic("NULLIF(#, #)", &[Any, Any]),
    generic("GREATEST(#, #)", &[Any, Any]),
    generic("LEAST(#, #, #)", &[Any, Any, Any]),
    generic("CASE WHEN # THEN # ELSE # END", &[Of(Bool), Any, Any]),
    generic("CASE WHEN # THEN # WHEN # THEN # END", &[Of(Bool), Any, Of(Bool), Any]),
    generic("CASE # WHEN # THEN # ELSE # END", &[Of(Int4), Of(Int4), Any, Any]),
    generic("CASE # WHEN # THEN # WHEN # THEN # END", &[Of(Text), Of(Text), Any, Of(Text), Any]),
    // Whole numbers.
    of(Arithmetic, Int2, "(# + #)", &[Of(Int2), Of(Int2)]),
    of(Arithmetic, Int2, "(- #)", &[Of(Int2)]),
    of(Arithmetic, Int2, "(# % #)", &[Of(Int2), Of(Int2)]),
    of(Arithmetic, Int4, "(# + #)", &[Of(Int4), Of(Int4)]),
    of(Arithmetic, Int4, "(# - #)", &[Of(Int4), Of(Int2)]),
    of(Arithmetic, Int4, "(# * #)", &[Of(Int4), Of(Int4)]),
    of(Arithmetic, Int4, "(# / #)", &[Of(Int4), Of(Int4)]),
    of(Arithmetic, Int4, "(# % #)", &[Of(Int4), Of(Int4)]),
    of(Arithmetic, Int4, "(- #)", &[Of(Int4)]),
    of(Arithmetic, Int4, "abs(#)", &[Of(Int4)]),
    of(Arithmetic, Int4, "mod(#, #)", &[Of(Int4), Of(Int4)]),
    of(Arithmetic, Int8, "(# + #)", &[Of(Int8), Of(Int4)]),
    of(Arithmetic, Int8, "(# - #)", &[Of(Int4), Of(Int8)]),
    of(Arithmetic, Int8, "(# * #)", &[Of(Int8), Of(Int8)]),
    of(Arithmetic, Int8, "(# / #)", &[Of(Int8), Of(Int2)]),
    of(Arithmetic, Int8, "(# % #)", &[Of(Int8), Of(Int8)]),
    of(Arithmetic, Int8, "abs(#)", &[Of(Int8)]),
    // Other numbers.
    of(Arithmetic, Numeric, "(# + #)", &[Of(Numeric), Of(Numeric)]),
    of(Arithmetic, Numeric, "(# - #)", &[Of(Numeric), Of(Int4)]),
    of(Arithmetic, Numeric, "(# * #)", &[Of(Numeric), Of(Numeric)]),
    of(Arithmetic, Numeric, "(# / #)", &[Of(Numeric), Of(Numeric)]),
    of(Arithmetic, Numeric, "(# / #)", &[Of(Int8), Of(Numeric)]),
    of(Arithmetic, Numeric, "(# % #)", &[Of(Numeric), Of(Numeric)]),
    of(Arithmetic, Numeric, "(- #)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "abs(#)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "round(#)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "round(#, 1)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "trunc(#, 1)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "ceil(#)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "floor(#)", &[Of(Numeric)]),
    of(Arithmetic, Numeric, "sign(#)", &[Of(Numeric)]),
    of(Arithmetic, Float8, "(# + #)", &[Of(Float8), Of(Float8)]),
    of(Arithmetic, Float8, "(# - #)", &[Of(Float8), Of(Int4)]),
    of(Arithmetic, Float8, "(# * #)", &[Of(Float8), Of(Float8)]),
    of(Arithmetic, Float8, "(# / #)", &[Of(Float8), Of(Float8)]),
    of(Arithmetic, Float8, "(# + #)", &[Of(Numeric), Of(Float8)]),
    of(Arithmetic, Float8, "(- #)", &[Of(Float8)]),
    of(Arithmetic, Float8, "abs(#)", &[Of(Float8)]),
    of(Arithmetic, Float8, "floor(#)", &[Of(Float8)]),
    of(Arithmetic, Float8, "ceil(#)", &[Of(Float8)]),
    of(Arithmetic, Float8, "round(#)", &[Of(Float8)]),
    of(Arithmetic, Float8, "sqrt(#)", &[Of(Float8)]),
    // Text.
    of(Texts, Text, "(# || #)", &[Of(Text), Of(Text)]),
    of(Texts, Text, "(#::text || #)", &[Of(Text), Of(Int4)]),
    of(Texts, Text, "upper(#)", &[Of(Text)]),
    of(Texts, Text, "lower(#)", &[Of(Text)]),
    of(Texts, Text, "initcap(#)", &[Of(Text)]),
    of(Texts, Text, "reverse(#)", &[Of(Text)]),
    of(Texts, Text, "substring(# FROM 2)", &[Of(Text)]),
    of(Texts, Text, "substring(# FROM # FOR 2)", &[Of(Text), Of(Int4)]),
    of(Texts, Text, "substr(#, #)", &[Of(Text), Of(Int4)]),
    of(Texts, Text, "left(#, #)", &[Of(Text), Of(Int4)]),
    of(Texts, Text, "right(#, (# % 10))", &[Of(Text), Of(Int4)]),
    of(Texts, Text, "lpad(#, 4, #)", &[Of(Text), Of(Text)]),
    of(Texts, Text, "rpad(#, 3)", &[Of(Text)]),
    of(Texts, Text, "repeat(#, 2)", &[Of(Text)]),
    of(Texts, Text, "replace(#, #, #)", &[Of(Text), Of(Text), Of(Text)]),
    of(Texts, Text, "trim(#)", &[Of(Text)]),
    of(Texts, Text, "ltrim(#, #)", &[Of(Text), Of(Text)]),
    of(Texts, Text, "trim(TRAILING 'b' FROM #)", &[Of(Text)]),
    of(Texts, Text, "concat(#, #)", &[Of(Text), Any]),
    of(Texts, Text, "concat_ws('-', #, #)", &[Of(Text), Of(Text)]),
    of(Texts, Text, "split_part(#, 'a', 2)", &[Of(Text)]),
    of(Texts, Text, "translate(#, 'ab', 'x')", &[Of(Text)]),
    of(Texts, Int4, "length(#)", &[Of(Text)]),
    of(Texts, Int4, "octet_length(#)", &[Of(Text)]),
    of(Texts, Int4, "position(# IN #)", &[Of(Text), Of(Text)]),
    of(Texts, Int4, "strpos(#, #)", &[Of(Text), Of(Text)]),
    of(Texts, Int4, "ascii(#)", &[Of(Text)]),
    // Dates.
    of(Dates, Date, "(# + #)", &[Of(Date), Of(Int4)]),
    of(Dates, Date, "(# - #)", &[Of(Date), Of(Int4)]),
    of(Dates, Int4, "(# - #)", &[Of(Date), Of(Date)]),
    of(Dates, Timestamp, "(# + interval '1 day')", &[Of(Timestamp)]),
    of(Dates, Timestamp, "(# - interval '1 month')", &[Of(Date)]),
    of(Dates, Timestamp, "date_trunc('month', #)", &[Of(Timestamp)]),
    of(Dates, Numeric, "extract(year FROM #)", &[Of(Date)]),
    of(Dates, Numeric, "extract(dow FROM #)", &[Of(Timestamp)]),
    of(Dates, Numeric, "extract(second FROM #)", &[Of(Timestamp)]),
    // Casts.
    of(Cast, Int2, "(#)::smallint", &[Of(Int4)]),
    of(Cast, Int2, "(#)::smallint", &[Of(Numeric)]),
    of(Cast, Int4, "(#)::int", &[Of(Int8)]),
    of(Cast, Int4, "(#)::int", &[Of(Numeric)]),
    of(Cast, Int4, "(#)::int", &[Of(Float8)]),
    of(Cast, Int4, "(#)::int", &[Of(Bool)]),
    of(Cast, Int4, "(#)::int", &[Of(Text)]),
    of(Cast, Int8, "(#)::bigint", &[Of(Int4)]),
    of(Cast, Int8, "CAST(# AS bigint)", &[Of(Numeric)]),
    of(Cast, Numeric, "(#)::numeric", &[Of(Int4)]),
    of(Cast, Numeric, "(#)::numeric", &[Of(Float8)]),
    of(Cast, Numeric, "(#)::numeric(6, 1)", &[Of(Numeric)]),
    of(Cast, Float8, "(#)::double precision", &[Of(Int8)]),
    of(Cast, Float8, "(#)::double precision", &[Of(Numeric)]),
    of(Cast, Text, "(#)::text", &[Any]),
    of(Cast, Text, "((#)::varchar(1))::text", &[Of(Text)]),
    of(Cast, Bool, "(#)::boolean", &[Of(Int4)]),
    of(Cast, Date, "(#)::date", &[Of(Timestamp)]),
    of(Cast, Timestamp, "(#)::timestamp", &[Of(Date)]),
];

/// All forms of aggregates. `string_agg` is drawn apart, as it needs an order.
pub const AGGREGATES: &[Template] = &[
    of(Feature::Group, Int8, "count(*)", &[]),
    of(Feature::Group, Int8, "count(#)", &[Any]),
    of(Feature::Distinct, Int8, "count(DISTINCT #)", &[Any]),
    of(Feature::Group, Int8, "sum(#)", &[Of(Int4)]),
    of(Feature::Group, Int8, "sum(#)", &[Of(Int2)]),
    of(Feature::Group, Numeric, "sum(#)", &[Of(Int8)]),
    of(Feature::Group, Numeric, "sum(#)", &[Of(Numeric)]),
    of(Feature::Distinct, Numeric, "sum(DISTINCT #)", &[Of(Numeric)]),
    of(Feature::Distinct, Int8, "sum(DISTINCT #)", &[Of(Int4)]),
    of(Feature::Group, Numeric, "avg(#)", &[Of(Int4)]),
    of(Feature::Group, Numeric, "avg(#)", &[Of(Numeric)]),
    of(Feature::Group, Float8, "sum(#)", &[Of(Float8)]),
    of(Feature::Group, Float8, "avg(#)", &[Of(Float8)]),
    of(Feature::Group, Bool, "bool_and(#)", &[Of(Bool)]),
    of(Feature::Group, Bool, "bool_or(#)", &[Of(Bool)]),
    of(Feature::Group, Int2, "min(#)", &[Of(Int2)]),
    of(Feature::Group, Int4, "min(#)", &[Of(Int4)]),
    of(Feature::Group, Int4, "max(#)", &[Of(Int4)]),
    of(Feature::Group, Int8, "max(#)", &[Of(Int8)]),
    of(Feature::Group, Numeric, "max(#)", &[Of(Numeric)]),
    of(Feature::Group, Float8, "min(#)", &[Of(Float8)]),
    of(Feature::Group, Text, "max(#)", &[Of(Text)]),
    of(Feature::Group, Text, "min(#)", &[Of(Text)]),
    of(Feature::Group, Date, "max(#)", &[Of(Date)]),
    of(Feature::Group, Timestamp, "min(#)", &[Of(Timestamp)]),
];
