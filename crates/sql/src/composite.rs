//! Composite types: types of a database whose values are rows, and the row types of tables.
//!
//! A column's descriptor holds the whole type, as for enum types, and a change of the type is one
//! of the tables that have it.

use crate::catalog::{Planned, Table, UserType, dropped_name, schema_codec, type_codec};
use crate::clauses;
use crate::error::{SqlError, state};
use crate::interned::{Identity, Interned, Registry};
use crate::limits;
use crate::record::Field;
use crate::types::Type;
use minicbor::{Decode, Encode};
use std::sync::{Arc, LazyLock};

/// The bit by which the id of a table's row type differs from that of the table, and the id of a
/// composite type's relation from that of the type. Ids of descriptors do not have it.
pub(crate) const ROW_TYPE: u32 = 1 << 29;
/// The bits by which ids of row types differed in the views that earlier releases stored. No other
/// id has all of them.
const FORMER_ROW_TYPE: u32 = 2047 << 20;

/// Returns the table of a row type's id, or `None` for an id of another type.
pub(crate) fn table_of_row_type(id: u32) -> Option<u32> {
    match id {
        id if id & FORMER_ROW_TYPE == FORMER_ROW_TYPE => Some(id ^ FORMER_ROW_TYPE),
        id if id & ROW_TYPE != 0 => Some(id ^ ROW_TYPE),
        _ => None,
    }
}

/// The bit by which the id of arrays of a row type differs from that of the row type. Ids of
/// descriptors are below it, those of temporary objects without the bit of these.
pub(crate) const ROW_ARRAY: u32 = 1 << 28;

/// The descriptor of a composite type.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Descriptor {
    #[n(0)]
    pub(crate) id: u32,
    /// The id of the type of its arrays.
    #[n(1)]
    pub(crate) array: u32,
    #[n(2)]
    pub(crate) name: String,
    #[n(3)]
    pub(crate) version: u64,
    #[n(4)]
    pub(crate) attributes: Vec<Attribute>,
    /// The schema that it is in.
    #[n(5)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
}

/// A field of a composite type.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Attribute {
    #[n(0)]
    pub(crate) name: String,
    #[n(1)]
    #[cbor(with = "type_codec")]
    pub(crate) ty: Type,
    /// True if it was dropped. It keeps its number, and no value has it.
    #[n(2)]
    #[cbor(default)]
    pub(crate) dropped: bool,
}

impl Attribute {
    /// Drops it: no name finds it. It leaves its type to older values.
    pub(crate) fn drop(&mut self, number: usize) {
        self.name = dropped_name(number);
        self.dropped = true;
    }
}

/// A composite type, as one version of its descriptor has it.
pub type Composite = Interned<Row>;

/// The most composite types inside each other.
const MOST_LEVELS: usize = 32;
/// The most attributes of a composite type, those of the types of its attributes included.
const MOST_ATTRIBUTES: usize = 10_000;

/// The descriptor of a composite type, and what follows from it.
pub struct Row {
    descriptor: Descriptor,
    /// The fields that were not dropped.
    fields: Arc<[Field]>,
    /// True if all fields have an order.
    has_order: bool,
    /// The number of composite types inside each other, this one included.
    levels: usize,
    /// The number of fields, those of the types of fields included.
    size: usize,
}

static KNOWN: LazyLock<Registry<Row>> = LazyLock::new(Registry::default);

impl Composite {
    /// Returns the type of a descriptor.
    pub(crate) fn of(descriptor: Descriptor) -> Composite {
        let Descriptor { id, array, version, .. } = descriptor;
        let is_it = |known: &Row| is_same(&known.descriptor, &descriptor);
        if let Some(found) = KNOWN.find((id, version), is_it) {
            return found;
        }
        let present = descriptor.attributes.iter().filter(|attribute| !attribute.dropped);
        let field = |it: &Attribute| Field { name: it.name.as_str().into(), ty: it.ty };
        let fields: Arc<[Field]> = present.map(field).collect();
        let has_order = fields.iter().all(|field| field.ty.has_order());
        let name = descriptor.name.clone();
        let rows = || fields.iter().filter_map(|field| field.ty.composite()).map(Composite::known);
        let levels = rows().map(|row| row.levels).max().unwrap_or(0) + 1;
        let size = rows().fold(fields.len(), |size, row| size.saturating_add(row.size));
        let row = Row { descriptor, fields, has_order, levels, size };
        let of = Identity { id, array, version, name: &name };
        KNOWN.keep(of, row, |one, other| is_same(&one.descriptor, &other.descriptor))
    }

    /// Fails with 54001 or 54011 if too many composite types are inside each other, or have too
    /// many attributes in all.
    pub(crate) fn check_size(self) -> Result<(), SqlError> {
        let Row { descriptor, levels, size, .. } = self.known();
        clauses::check_columns(descriptor.attributes.len())?;
        if *levels > MOST_LEVELS {
            return Err(limits::too_deep("Composite types inside each other", MOST_LEVELS));
        }
        if *size > MOST_ATTRIBUTES {
            let message = format!(
                "composite types can have at most {MOST_ATTRIBUTES} attributes, with those of their attributes"
            );
            return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
        }
        Ok(())
    }

    /// True if the values of another version of it are stored as its own: no attribute has another
    /// type.
    pub(crate) fn is_stored_as(self, other: Composite) -> bool {
        let mut pairs = self.descriptor().attributes.iter().zip(&other.descriptor().attributes);
        pairs.all(|(one, other)| one.ty == other.ty)
    }

    /// True if a later version of it lacks a field of this one.
    pub(crate) fn loses_fields(self, later: Composite) -> bool {
        let mut pairs = self.descriptor().attributes.iter().zip(&later.descriptor().attributes);
        pairs.any(|(before, after)| after.dropped && !before.dropped)
    }

    /// Returns it with another version of a type of its fields.
    pub(crate) fn with_version(self, new: UserType) -> Composite {
        let mut descriptor = self.descriptor().clone();
        for attribute in &mut descriptor.attributes {
            attribute.ty = attribute.ty.with_version(new);
        }
        Composite::of(descriptor)
    }

    /// Returns the row type of a table.
    pub(crate) fn of_table(table: &Table) -> Composite {
        let attribute = |column: &crate::catalog::ColumnDef| Attribute {
            name: column.name.clone(),
            ty: column.ty,
            dropped: column.dropped,
        };
        let id = table.id ^ ROW_TYPE;
        Composite::of(Descriptor {
            id,
            array: id ^ ROW_ARRAY,
            name: table.name.clone(),
            version: table.version,
            attributes: table.columns.iter().map(attribute).collect(),
            schema: table.schema,
        })
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        &self.known().descriptor
    }

    /// Returns the fields that were not dropped.
    pub(crate) fn fields(self) -> &'static Arc<[Field]> {
        &self.known().fields
    }

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        &self.descriptor().name
    }

    /// Returns the object id of its relation: of the table, if it is the row type of one.
    pub const fn relation_id(self) -> u32 {
        self.id() ^ ROW_TYPE
    }

    /// True if it is the row type of a table.
    pub const fn is_of_table(self) -> bool {
        self.id() & ROW_TYPE != 0
    }

    /// True if all fields have an order.
    pub const fn has_order(self) -> bool {
        self.known().has_order
    }

    /// Returns what a plan with it depends on: its table, if it is the row type of one.
    pub(crate) fn planned_row(self) -> Planned {
        let id = if self.is_of_table() { self.relation_id() } else { self.id() };
        Planned { id, ..self.planned() }
    }
}

/// True if two descriptors are one, with the same versions of the types of their fields: types of
/// other databases may have their ids.
fn is_same(one: &Descriptor, other: &Descriptor) -> bool {
    let is_version = |(a, b): (&Attribute, &Attribute)| match (a.ty.user_type(), b.ty.user_type()) {
        (Some(a), Some(b)) => a.is_version(b),
        (a, b) => a == b,
    };
    one == other && one.attributes.iter().zip(&other.attributes).all(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::{self, is_temporary};

    fn composite(id: u32, types: &[Type]) -> Composite {
        let attribute = |(at, ty): (usize, &Type)| Attribute {
            name: format!("f{at}"),
            ty: *ty,
            dropped: false,
        };
        Composite::of(Descriptor {
            id,
            array: id + 1,
            name: format!("c{id}"),
            version: 1,
            attributes: types.iter().enumerate().map(attribute).collect(),
            schema: crate::system::PUBLIC,
        })
    }

    #[test]
    fn row_types_have_the_ids_of_their_tables() {
        for table in [16384, 16385, temporary::SCHEMA + 5] {
            assert_eq!(table_of_row_type(table), None);
            assert_eq!(table_of_row_type(table ^ ROW_TYPE), Some(table));
        }
        assert_eq!(table_of_row_type(16384 ^ FORMER_ROW_TYPE), Some(16384));
    }

    #[test]
    fn levels_and_attributes_are_limited() {
        let mut deep = composite(91_000, &[Type::Int4]);
        for level in 2..=MOST_LEVELS as u32 {
            let inner = Type::Composite(deep);
            let inner = if level % 2 == 0 { inner } else { inner.array() };
            deep = composite(91_000 + 2 * level, &[inner]);
            deep.check_size().expect("a type of few levels");
        }
        let error = composite(91_900, &[Type::Composite(deep)]).check_size().expect_err("deep");
        assert_eq!(error.sqlstate, state::TOO_COMPLEX);
        let mut wide = composite(92_000, &[Type::Int4; 10]);
        for level in 1..=2 {
            wide = composite(92_000 + 2 * level, &[Type::Composite(wide); 10]);
            wide.check_size().expect("a type of few attributes");
        }
        let error = composite(92_900, &[Type::Composite(wide); 10]).check_size();
        assert_eq!(error.expect_err("wide").sqlstate, state::TOO_MANY_COLUMNS);
        let error = composite(92_902, &[Type::Int4; 1601]).check_size();
        assert_eq!(error.expect_err("wide").sqlstate, state::TOO_MANY_COLUMNS);
    }

    #[test]
    fn no_object_has_the_id_of_a_row_type() {
        let first = temporary::SCHEMA;
        for id in [16_384, ROW_ARRAY - 1, first, first + ROW_ARRAY - 1] {
            assert_eq!(id & (ROW_TYPE | ROW_ARRAY), 0);
            for of_rows in [id ^ ROW_TYPE, id ^ ROW_TYPE ^ ROW_ARRAY] {
                assert_ne!(of_rows & ROW_TYPE, 0);
                assert_eq!(is_temporary(of_rows), is_temporary(id));
                assert!(i32::try_from(of_rows).is_ok(), "catalogs show it as an integer");
            }
        }
    }
}
