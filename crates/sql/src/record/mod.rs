//! Rows as values: of type `record`, or of a composite type.

mod binary;
pub(crate) mod similar;
mod size;
mod text;

use crate::cast;
use crate::composite::Composite;
use crate::datetime::Local;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;
use size::TextSize;
use std::cmp::Ordering;
use std::sync::Arc;

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
    text_size: TextSize,
}

/// True for a row, and for an array of rows.
fn has_rows(value: &Datum) -> bool {
    match value {
        Datum::Record(_) => true,
        Datum::Array(array) => array.element.is_row(),
        _ => false,
    }
}

impl Record {
    /// Creates a row. Fails with 54000 if rows are inside it and its text would be too large.
    pub(crate) fn new(shape: Shape, values: Vec<Datum>) -> Result<Record, SqlError> {
        debug_assert_eq!(shape.fields().len(), values.len());
        let text_size = TextSize::of_row(&values);
        if values.iter().any(has_rows) {
            text_size.check()?;
        }
        Ok(Record { shape, values, text_size })
    }

    /// Returns the bytes of its text, at most.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_size.bytes()
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
                return Some(Err(dissimilar(left, right, at)));
            }
            a.compare(b).map(|order| Some(order).filter(|order| order.is_ne())).transpose()
        });
        match different {
            Some(different) => different,
            None if self.values.len() == other.values.len() => Ok(Ordering::Equal),
            None => Err(other_count()),
        }
    }

    /// Orders two rows as [`Record::compare`] does, and those that do not compare by the types of
    /// their fields.
    pub(crate) fn order(&self, other: &Record) -> Ordering {
        let of_field = |((left, a), (right, b)): ((&Field, &Datum), (&Field, &Datum))| {
            left.ty.oid().cmp(&right.ty.oid()).then_with(|| a.order(b))
        };
        let mut fields = self.fields().zip(other.fields()).map(of_field);
        let different = fields.find(|order| order.is_ne());
        different.unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }

    /// Returns it as a row of another version of its type: attributes that were added are NULL.
    fn in_version(&self, new: Composite) -> Result<Record, SqlError> {
        let Shape::Named(old) = self.shape else { return Ok(self.clone()) };
        let (before, mut values) = (&old.descriptor().attributes, self.values.iter());
        let mut by_number = before.iter().map(|attribute| {
            let value = if attribute.dropped { None } else { values.next() };
            value.cloned().unwrap_or(Datum::Null)
        });
        let mut changed = Vec::with_capacity(new.fields().len());
        for attribute in &new.descriptor().attributes {
            let value = by_number.next().unwrap_or(Datum::Null);
            if !attribute.dropped {
                let value = in_version(value, attribute.ty)?;
                changed.push(cast::cast(value, attribute.ty, false, Local::utc())?);
            }
        }
        Record::new(Shape::Named(new), changed)
    }
}

/// Returns a value whose rows are those of the version of their type that `ty` has.
pub(crate) fn in_version(value: Datum, ty: Type) -> Result<Datum, SqlError> {
    let Some(new) = ty.composite() else { return Ok(value) };
    Ok(match value {
        Datum::Record(record) => match record.shape {
            Shape::Named(old) if old == new && !old.is_version(new) => {
                Datum::Record(record.in_version(new)?.into())
            }
            _ => Datum::Record(record),
        },
        Datum::Array(array) => {
            let element = Type::Composite(new);
            let changed = array.map(element, |value| in_version(value.clone(), element))?;
            Datum::Array(changed.into())
        }
        other => other,
    })
}

/// Returns the error of rows with different types of a field.
fn dissimilar(left: &Field, right: &Field, at: usize) -> SqlError {
    let (left, right, number) = (left.ty.name(), right.ty.name(), at + 1);
    let message = format!(
        "cannot compare dissimilar column types {left} and {right} at record column {number}"
    );
    SqlError::new(state::TYPE_MISMATCH, message)
}

/// Returns the error of rows with different numbers of fields.
fn other_count() -> SqlError {
    let message = "cannot compare record types with different numbers of columns";
    SqlError::new(state::TYPE_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composite::{Attribute, Descriptor};
    use crate::datetime::Zone;

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
    fn dissimilar_rows_have_a_total_order() {
        let rows = [
            row(&[]),
            row(&[Datum::Int8(0)]),
            row(&[Datum::Int8(9), Datum::text("a")]),
            row(&[Datum::Int4(1)]),
            row(&[Datum::Int4(1), Datum::Int4(5)]),
            row(&[Datum::Int4(1), Datum::text("a")]),
            row(&[Datum::text("a")]),
        ];
        for (at, a) in rows.iter().enumerate() {
            for (other, b) in rows.iter().enumerate() {
                assert_eq!(a.order(b), at.cmp(&other), "{a:?} {b:?}");
            }
        }
        let values = rows.map(|row| Datum::Record(row.into()));
        for (a, b) in values.iter().zip(&values[1..]) {
            let error = similar::check_all([a, b]).expect_err("dissimilar");
            assert_eq!(error.sqlstate, state::TYPE_MISMATCH);
        }
    }

    #[test]
    fn the_text_of_a_row_is_no_longer_than_its_size() {
        for text in ["1e-16383", "-1e-16383", "1e1000", "123456789.5", "NaN", "-0.1", "1e131000"] {
            let number = Datum::from_text(Type::Numeric(None), text).expect(text);
            let row = row(&[number]);
            assert!(shown(&row).len() <= row.text_bytes(), "{text}");
        }
    }

    #[test]
    fn the_text_of_rows_inside_each_other_is_limited() {
        let mut inner = row(&[Datum::text("\"")]);
        let mut levels = 1;
        let error = loop {
            assert!(shown(&inner).len() <= inner.text_bytes(), "{levels} levels");
            match Record::new(Shape::of_types([Type::Record]), vec![Datum::Record(inner.into())]) {
                Ok(outer) => inner = outer,
                Err(error) => break error,
            }
            levels += 1;
        };
        assert_eq!((error.sqlstate, levels), (state::TOO_LARGE, 24));
    }

    #[test]
    fn rows_become_those_of_another_version_of_their_type() {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, dropped: false };
        let mut descriptor = Descriptor {
            id: 93_000,
            array: 93_001,
            name: "c".into(),
            version: 1,
            attributes: vec![attribute("a", Type::Int4), attribute("b", Type::Text)],
            schema: crate::system::PUBLIC,
        };
        let before = Composite::of(descriptor.clone());
        descriptor.version = 2;
        descriptor.attributes[0].drop(0);
        descriptor.attributes.push(attribute("n", Type::Int8));
        let after = Composite::of(descriptor);
        let values = vec![Datum::Int4(1), Datum::text("x")];
        let row = Record::new(Shape::Named(before), values).expect("a row");
        let row = in_version(Datum::Record(row.into()), Type::Composite(after)).expect("a row");
        let Datum::Record(row) = row else { panic!("{row:?}") };
        assert_eq!(row.values(), [Datum::text("x"), Datum::Null]);
        assert_eq!(shown(&row), "(x,)");
    }

    #[test]
    fn no_text_is_an_anonymous_row() {
        let error = Datum::from_text_in(Type::Record, "(1)", Local::utc()).expect_err("no fields");
        assert_eq!(error.sqlstate, state::FEATURE_NOT_SUPPORTED);
    }
}
