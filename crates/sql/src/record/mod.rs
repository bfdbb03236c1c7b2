//! Rows as values: of type `record`, or of a composite type.

mod binary;
mod text;

use crate::composite::Composite;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::limits;
use crate::types::Type;
use std::cmp::Ordering;
use std::sync::Arc;

/// The number of rows inside each other that a value may have.
const DEEPEST: usize = 500;

/// Returns the error of an anonymous row as input, whose fields are not known.
pub(crate) fn no_fields() -> SqlError {
    let message = "input of anonymous composite types is not implemented";
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

/// A field of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) ty: Type,
}

impl Field {
    /// Returns the field that a column of a function's rows is.
    pub(crate) fn of((name, ty): &(&str, Type)) -> Field {
        Field { name: Arc::from(*name), ty: *ty }
    }
}

/// The fields of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Those of a `record`.
    Anonymous(Arc<[Field]>),
    /// Those of a composite type.
    Named(Composite),
}

impl Shape {
    /// Returns the shape of `ROW (…)`: `f1`, `f2`, …
    pub(crate) fn of_types(types: impl IntoIterator<Item = Type>) -> Shape {
        let types = types.into_iter().enumerate();
        let field = |(at, ty)| Field { name: format!("f{}", at + 1).into(), ty };
        Shape::Anonymous(types.map(field).collect())
    }

    pub(crate) fn fields(&self) -> &[Field] {
        match self {
            Shape::Anonymous(fields) => fields,
            Shape::Named(ty) => ty.fields(),
        }
    }

    /// Returns the type of such rows.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Shape::Anonymous(_) => Type::Record,
            Shape::Named(ty) => Type::Composite(*ty),
        }
    }

    /// Finds a field by its name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.fields().iter().position(|field| &*field.name == name)
    }
}

/// A row as a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    shape: Shape,
    values: Vec<Datum>,
    /// The number of rows inside each other, this one included.
    depth: usize,
}

/// Returns the number of rows inside each other that a value has.
fn depth_of(value: &Datum) -> usize {
    match value {
        Datum::Record(record) => record.depth,
        Datum::Array(array) if array.element.is_row() => {
            array.values().iter().map(depth_of).max().unwrap_or(0)
        }
        _ => 0,
    }
}

impl Record {
    /// Creates a row. Fails with 54001 if too many rows are inside each other.
    pub(crate) fn new(shape: Shape, values: Vec<Datum>) -> Result<Record, SqlError> {
        debug_assert_eq!(shape.fields().len(), values.len());
        let depth = values.iter().map(depth_of).max().unwrap_or(0) + 1;
        if depth > DEEPEST {
            return Err(limits::too_deep("Rows inside each other", DEEPEST));
        }
        Ok(Record { shape, values, depth })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn values(&self) -> &[Datum] {
        &self.values
    }

    /// Returns the fields with their values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&Field, &Datum)> {
        self.shape.fields().iter().zip(&self.values)
    }

    /// Orders two rows by their fields; NULLs are equal, and last. Fails with 42804 for fields of
    /// different types, and for different numbers of fields.
    pub(crate) fn compare(&self, other: &Record) -> Result<Ordering, SqlError> {
        let mut pairs = self.fields().zip(other.fields()).enumerate();
        let different = pairs.find_map(|(at, ((left, a), (right, b)))| {
            if left.ty.oid() != right.ty.oid() {
                let message = format!(
                    "cannot compare dissimilar column types {} and {} at record column {}",
                    left.ty.name(),
                    right.ty.name(),
                    at + 1
                );
                return Some(Err(SqlError::new(state::TYPE_MISMATCH, message)));
            }
            a.compare(b).map(|order| Some(order).filter(|order| order.is_ne())).transpose()
        });
        match different {
            Some(different) => different,
            None if self.values.len() == other.values.len() => Ok(Ordering::Equal),
            None => {
                let message = "cannot compare record types with different numbers of columns";
                Err(SqlError::new(state::TYPE_MISMATCH, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{Local, Zone};

    fn row(values: &[Datum]) -> Record {
        let types = values.iter().map(|value| value.type_of().unwrap_or(Type::Text));
        Record::new(Shape::of_types(types), values.to_vec()).expect("a row")
    }

    fn shown(record: &Record) -> String {
        let mut out = String::new();
        record.write_text(Zone::utc(), &mut out);
        out
    }

    #[test]
    fn texts_are_those_of_postgresql() {
        let text = |text: &str| row(&[Datum::Int4(7), Datum::text(text), Datum::Null]);
        assert_eq!(shown(&text("a")), "(7,a,)");
        assert_eq!(shown(&text("")), "(7,\"\",)");
        assert_eq!(shown(&text("b \"c\\")), r#"(7,"b ""c\\",)"#);
        let inner = Datum::Record(Arc::new(text("a")));
        assert_eq!(shown(&row(&[inner])), "(\"(7,a,)\")");
    }

    #[test]
    fn rows_are_ordered_by_their_fields() {
        let pair = |a: i32, b: Option<i32>| {
            let values = vec![Datum::Int4(a), b.map_or(Datum::Null, Datum::Int4)];
            Record::new(Shape::of_types([Type::Int4, Type::Int4]), values).expect("a row")
        };
        assert!(pair(1, Some(2)).compare(&pair(1, None)).expect("comparable").is_lt());
        assert!(pair(1, Some(9)).compare(&pair(2, Some(0))).expect("comparable").is_lt());
        let number = row(&[Datum::Int4(1)]);
        let error = number.compare(&row(&[Datum::Int8(1)])).expect_err("other types");
        assert_eq!(error.sqlstate, state::TYPE_MISMATCH);
        let longer = row(&[Datum::Int4(1), Datum::Int4(1)]);
        assert!(number.compare(&longer).is_err());
    }

    #[test]
    fn rows_inside_each_other_are_limited() {
        let mut inner = row(&[Datum::Int4(1)]);
        let error = loop {
            match Record::new(Shape::of_types([Type::Record]), vec![Datum::Record(inner.into())]) {
                Ok(outer) => inner = outer,
                Err(error) => break error,
            }
        };
        assert_eq!(error.sqlstate, state::TOO_COMPLEX);
    }

    #[test]
    fn no_text_is_an_anonymous_row() {
        let error = Datum::from_text_in(Type::Record, "(1)", Local::utc()).expect_err("no fields");
        assert_eq!(error.sqlstate, state::FEATURE_NOT_SUPPORTED);
    }
}
