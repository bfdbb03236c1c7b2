//! Composite types: types of a database whose values are rows, and the row types of tables.
//!
//! A column's descriptor holds the whole type, as for enum types, and a change of the type is one
//! of the tables that have it.

use crate::catalog::{Planned, Table, UserType, schema_codec, type_codec};
use crate::record::Field;
use crate::system::quoted;
use crate::types::Type;
use minicbor::{Decode, Encode};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

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

/// A composite type as one version of its descriptor has it. The process keeps each version that it
/// has read, so that a type is copied freely. Two are equal if they are versions of one type.
#[derive(Clone, Copy)]
pub struct Composite(&'static Interned);

/// A descriptor, and what is known of it.
struct Interned {
    descriptor: Descriptor,
    /// The fields that were not dropped.
    fields: Arc<[Field]>,
    /// The name as SQL writes it.
    shown: String,
    /// The name of the type of arrays, as SQL writes it.
    shown_array: String,
    /// True if all fields have an order.
    has_order: bool,
}

impl PartialEq for Composite {
    fn eq(&self, other: &Composite) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Composite {}

impl Hash for Composite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

impl Composite {
    /// Returns the type of a descriptor.
    pub(crate) fn of(descriptor: Descriptor) -> Composite {
        static KNOWN: LazyLock<Mutex<HashMap<(u32, u64), Vec<Composite>>>> =
            LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // Databases, and transactions that did not commit, have versions of one number.
        let versions = known.entry((descriptor.id, descriptor.version)).or_default();
        if let Some(found) = versions.iter().find(|it| is_same(&it.0.descriptor, &descriptor)) {
            return *found;
        }
        let present = descriptor.attributes.iter().filter(|attribute| !attribute.dropped);
        let field = |it: &Attribute| Field { name: it.name.as_str().into(), ty: it.ty };
        let fields: Arc<[Field]> = present.map(field).collect();
        let has_order = fields.iter().all(|field| field.ty.has_order());
        let shown = quoted(&descriptor.name);
        let shown_array = format!("{shown}[]");
        let interned = Interned { descriptor, fields, shown, shown_array, has_order };
        let new = Composite(Box::leak(Box::new(interned)));
        versions.push(new);
        new
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
        &self.0.descriptor
    }

    /// Returns the fields that were not dropped.
    pub(crate) fn fields(self) -> &'static Arc<[Field]> {
        &self.0.fields
    }

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        &self.descriptor().name
    }

    /// Returns the object id of the type.
    pub const fn id(self) -> u32 {
        self.0.descriptor.id
    }

    /// Returns the object id of its relation: of the table, if it is the row type of one.
    pub const fn relation_id(self) -> u32 {
        self.id() ^ ROW_TYPE
    }

    /// True if it is the row type of a table.
    pub const fn is_of_table(self) -> bool {
        self.id() & ROW_TYPE != 0
    }

    /// Returns the object id of the type of its arrays.
    pub const fn array_id(self) -> u32 {
        self.0.descriptor.array
    }

    /// Returns the name as SQL writes it: in quotes if it needs them.
    pub const fn shown(self) -> &'static str {
        self.0.shown.as_str()
    }

    /// Returns the name of the type of its arrays, as SQL writes it.
    pub const fn shown_array(self) -> &'static str {
        self.0.shown_array.as_str()
    }

    /// True if all fields have an order.
    pub const fn has_order(self) -> bool {
        self.0.has_order
    }

    pub(crate) fn planned(self) -> Planned {
        let id = if self.is_of_table() { self.relation_id() } else { self.id() };
        Planned { id, version: self.descriptor().version, statistics: 0 }
    }
}

/// True if two descriptors are one, with the same versions of the types of their fields: types of
/// other databases may have their ids.
fn is_same(one: &Descriptor, other: &Descriptor) -> bool {
    let version = |attribute: &Attribute| attribute.ty.user_type().map(UserType::version_kept);
    one == other
        && one.attributes.iter().zip(&other.attributes).all(|(a, b)| version(a) == version(b))
}
