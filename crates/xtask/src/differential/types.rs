//! The types of columns and expressions, and the small domains that values are drawn from.

/// A type of SQL, as expressions know it: `varchar` counts as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// `smallint`
    Int2,
    /// `int`
    Int4,
    /// `bigint`
    Int8,
    /// `numeric`
    Numeric,
    /// `double precision`
    Float8,
    /// `text`
    Text,
    /// `boolean`
    Bool,
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
}

impl SqlType {
    /// All types.
    pub const ALL: [SqlType; 9] = [
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Numeric,
        SqlType::Float8,
        SqlType::Text,
        SqlType::Bool,
        SqlType::Date,
        SqlType::Timestamp,
    ];

    /// Returns the name in a cast.
    pub fn name(self) -> &'static str {
        match self {
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "int",
            SqlType::Int8 => "bigint",
            SqlType::Numeric => "numeric",
            SqlType::Float8 => "double precision",
            SqlType::Text => "text",
            SqlType::Bool => "boolean",
            SqlType::Date => "date",
            SqlType::Timestamp => "timestamp",
        }
    }

    /// Returns the first letter of the names of columns: equal names have equal types, so that
    /// `USING` and `NATURAL` find columns to join.
    pub fn letter(self) -> &'static str {
        match self {
            SqlType::Int2 => "s",
            SqlType::Int4 => "i",
            SqlType::Int8 => "g",
            SqlType::Numeric => "n",
            SqlType::Float8 => "f",
            SqlType::Text => "t",
            SqlType::Bool => "b",
            SqlType::Date => "d",
            SqlType::Timestamp => "m",
        }
    }

    /// Returns the values of tables: few, so that joins and groups find equal ones.
    pub fn domain(self) -> &'static [&'static str] {
        match self {
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => &["0", "1", "2", "3", "-1", "10"],
            SqlType::Numeric => &["0.00", "1.00", "1.50", "-2.25", "3.10", "10.00"],
            SqlType::Float8 => &["0", "1", "1.5", "-2.25", "0.5", "3"],
            SqlType::Text => &["", "a", "A", "b", "ab", "a b", "1", "é"],
            SqlType::Bool => &["t", "f"],
            SqlType::Date => &["2020-01-01", "2020-02-29", "1999-12-31", "2020-01-02"],
            SqlType::Timestamp => {
                &["2020-01-01 00:00:00", "2020-02-29 12:30:15.5", "1999-12-31 23:59:59"]
            }
        }
    }

    /// Returns values at the limits of the type, and others that seldom stand in tables.
    pub fn limits(self) -> &'static [&'static str] {
        match self {
            SqlType::Int2 => &["32767", "-32768", "7"],
            SqlType::Int4 => &["2147483647", "-2147483648", "7"],
            SqlType::Int8 => &["9223372036854775807", "4294967296", "7"],
            SqlType::Numeric => &["123456789012345678901234567890.5", "0.001", "99999.995"],
            SqlType::Float8 => &["1e300", "1e-7", "123456789.125"],
            SqlType::Text => &["%", "a%", "_", " a ", "10", "'", "\\"],
            SqlType::Bool => &["t", "f"],
            SqlType::Date => &["0001-01-01", "2100-03-01"],
            SqlType::Timestamp => &["0001-01-01 00:00:00", "2100-03-01 00:00:00.000001"],
        }
    }
}

/// A constant: a literal in the text of a statement, or a parameter of the extended protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The type.
    pub of: SqlType,
    /// The value as text; `None` is NULL.
    pub text: Option<String>,
    /// True if the literal or parameter has no cast, so that the server infers its type.
    pub bare: bool,
}

impl Value {
    /// Returns the literal.
    pub fn literal(&self) -> String {
        let name = self.of.name();
        let Some(text) = &self.text else {
            return if self.bare { "NULL".into() } else { format!("NULL::{name}") };
        };
        let quoted = format!("'{}'", text.replace('\'', "''"));
        match self.of {
            SqlType::Int4 | SqlType::Numeric if text.starts_with('-') => format!("({text})"),
            SqlType::Int4 | SqlType::Numeric => text.clone(),
            SqlType::Bool if text == "t" => "true".into(),
            SqlType::Bool => "false".into(),
            SqlType::Date => format!("date {quoted}"),
            SqlType::Timestamp => format!("timestamp {quoted}"),
            SqlType::Text if self.bare => quoted,
            _ => format!("{quoted}::{name}"),
        }
    }

    /// Returns the literal for a column of its type, which needs no cast.
    pub fn cell(&self) -> String {
        use SqlType::{Float8, Int2, Int4, Int8, Numeric};
        match &self.text {
            None => "NULL".into(),
            Some(text) if matches!(self.of, Int2 | Int4 | Int8 | Numeric | Float8) => text.clone(),
            Some(text) => format!("'{}'", text.replace('\'', "''")),
        }
    }

    /// Returns the parameter of this number.
    pub fn parameter(&self, number: usize) -> String {
        if self.bare { format!("${number}") } else { format!("${number}::{}", self.of.name()) }
    }
}
