//! Composite types: types of a database whose values are rows, and the row types of tables.
//!
//! A column's descriptor holds the whole type, as for enum types, and a change of the type is one
//! of the tables that have it.

use crate::catalog::{Planned, Table, UserType, schema_codec, type_codec};
use crate::interned::{Identity, Interned, Registry};
use crate::record::Field;
use crate::types::Type;
use minicbor::{Decode, Encode};
use std::sync::{Arc, LazyLock};

/// The bits by which the id of a table's row type differs from that of the table, and the id of a
/// composite type's relation from that of the type. Descriptors have lower ids.
pub(crate) const ROW_TYPE: u32 = 2047 << 20;
/// The bit by which the id of arrays of a row type differs from that of the row type.
pub(crate) const ROW_ARRAY: u32 = 1 << 20;

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
        self.name = format!("........pg.dropped.{}........", number + 1);
        self.dropped = true;
    }
}

/// A composite type, as one version of its descriptor has it.
pub type Composite = Interned<Row>;

/// The descriptor of a composite type, and what follows from it.
pub struct Row {
    descriptor: Descriptor,
    /// The fields that were not dropped.
    fields: Arc<[Field]>,
    /// True if all fields have an order.
    has_order: bool,
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
        let row = Row { descriptor, fields, has_order };
        let of = Identity { id, array, version, name: &name };
        KNOWN.keep(of, row, |one, other| is_same(&one.descriptor, &other.descriptor))
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
    let version = |attribute: &Attribute| attribute.ty.user_type().map(UserType::version_kept);
    one == other
        && one.attributes.iter().zip(&other.attributes).all(|(a, b)| version(a) == version(b))
}
