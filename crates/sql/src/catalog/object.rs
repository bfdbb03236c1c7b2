//! The kinds of objects that have a descriptor, a version and a name.

use super::{Planned, Schema, Table, UserType};
use crate::base_type::BaseType;
use crate::composite::Composite;
use crate::domain::Domain;
use crate::enumeration::Enum;
use crate::error::SqlError;
use crate::extension::Installed;
use crate::kv;
use crate::sequence::Sequence;
use crate::system;
use crate::user_function::UserFunction;
use crate::view::View;
use meridian_mvcc::Key;
use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encode, Encoder};
use std::sync::Arc;

/// The tag before the descriptor of a sequence.
const SEQUENCE: u64 = 0x6d_0001;
/// The tag before the descriptor of a table with constraints or columns that earlier releases do
/// not know. Other tables have none, as in those releases.
const NEWER_TABLE: u64 = 0x6d_0002;
/// The tag before the descriptor of a view.
const VIEW: u64 = 0x6d_0003;
/// The tag before the descriptor of an enum type.
const ENUM: u64 = 0x6d_0004;
/// The tag before the descriptor of a schema.
const SCHEMA: u64 = 0x6d_0005;
/// The tag before the descriptor of an object in another schema than `public`.
const IN_SCHEMA: u64 = 0x6d_0006;
/// The tag before the descriptor of a table with generated columns, whose rows releases that do not
/// know them would write wrongly.
const GENERATING_TABLE: u64 = 0x6d_0007;
/// The tag before the descriptor of a view whose text names objects by their ids.
const VIEW_BY_ID: u64 = 0x6d_0008;
/// The tag before the descriptor of a composite type.
const COMPOSITE: u64 = 0x6d_0009;
/// The tag before the descriptor of a domain.
const DOMAIN: u64 = 0x6d_0010;
/// The tag before the descriptor of a table with columns of domains.
const TABLE_WITH_DOMAINS: u64 = 0x6d_0011;
/// The tag before the descriptor of a materialized view, which is a table with a query.
const MATERIALIZED_VIEW: u64 = 0x6d_0012;
/// The tag before the descriptor of a table with columns that have the collation of a language:
/// releases that do not know these would order their texts by bytes.
const TABLE_WITH_COLLATIONS: u64 = 0x6d_0013;
/// The tag before the descriptor of a function.
const FUNCTION: u64 = 0x6d_0020;
/// The tag before the descriptor of an installed extension.
const EXTENSION: u64 = 0x6d_0021;
/// The tag before the descriptor of a base type.
const BASE_TYPE: u64 = 0x6d_0022;

fn tagged(kind: u64, descriptor: &impl Encode<()>) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    e.tag(Tag::new(kind))
        .and_then(|e| e.encode(descriptor))
        .expect("invariant: writing to memory does not fail");
    e.into_writer()
}

/// Returns an encoded descriptor behind a tag.
fn prefixed(kind: u64, descriptor: Vec<u8>) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    e.tag(Tag::new(kind)).expect("invariant: writing to memory does not fail");
    let mut bytes = e.into_writer();
    bytes.extend(descriptor);
    bytes
}

/// The schema of a descriptor, which has none if it is `public`.
pub(crate) mod schema_codec {
    use crate::system::PUBLIC;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub(crate) fn encode<C, W: Write>(
        schema: &u32,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        e.u32(*schema)?.ok()
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<u32, DecodeError> {
        d.u32()
    }

    pub(crate) fn is_nil(schema: &u32) -> bool {
        *schema == PUBLIC
    }

    pub(crate) fn nil() -> Option<u32> {
        Some(PUBLIC)
    }
}

/// An object of the catalog. Indexes are parts of their tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Table(Arc<Table>),
    Sequence(Arc<Sequence>),
    View(Arc<View>),
    Enum(Enum),
    Domain(Domain),
    Composite(Composite),
    Schema(Arc<Schema>),
    Function(Arc<UserFunction>),
    Extension(Arc<Installed>),
    BaseType(BaseType),
}

impl Object {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Object::Table(table) => table.id,
            Object::Sequence(sequence) => sequence.id,
            Object::View(view) => view.id,
            Object::Enum(ty) => ty.id(),
            Object::Domain(domain) => domain.id(),
            Object::Composite(ty) => ty.id(),
            Object::BaseType(ty) => ty.id(),
            Object::Schema(schema) => schema.id,
            Object::Function(function) => function.id,
            Object::Extension(extension) => extension.id,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Object::Table(table) => &table.name,
            Object::Sequence(sequence) => &sequence.name,
            Object::View(view) => &view.name,
            Object::Enum(ty) => &ty.descriptor().name,
            Object::Domain(domain) => &domain.descriptor().name,
            Object::Composite(ty) => &ty.descriptor().name,
            Object::BaseType(ty) => &ty.descriptor().name,
            Object::Schema(schema) => &schema.name,
            Object::Function(function) => &function.name,
            Object::Extension(extension) => &extension.name,
        }
    }

    /// Returns the word for its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Object::Table(table) => table.kind(),
            Object::View(_) => "view",
            Object::Sequence(_) => "sequence",
            Object::Enum(_) | Object::Domain(_) | Object::Composite(_) | Object::BaseType(_) => {
                "type"
            }
            Object::Schema(_) => "schema",
            Object::Function(_) => "function",
            Object::Extension(_) => "extension",
        }
    }

    /// Returns the schema that it is in; zero for a schema.
    pub(crate) fn schema(&self) -> u32 {
        match self {
            Object::Table(table) => table.schema,
            Object::Sequence(sequence) => sequence.schema,
            Object::View(view) => view.schema,
            Object::Enum(ty) => ty.descriptor().schema,
            Object::Domain(domain) => domain.descriptor().schema,
            Object::Composite(ty) => ty.descriptor().schema,
            Object::BaseType(ty) => ty.descriptor().schema,
            Object::Schema(_) => 0,
            Object::Function(function) => function.schema,
            Object::Extension(extension) => extension.schema,
        }
    }

    /// Returns the key of its name.
    pub(crate) fn name_key(&self) -> Key {
        match self {
            Object::Enum(_) | Object::Domain(_) | Object::Composite(_) | Object::BaseType(_) => {
                kv::type_name_key(self.schema(), self.name())
            }
            Object::Schema(schema) => kv::schema_name_key(&schema.name),
            Object::Function(it) => kv::function_key(it.schema, &it.name, &it.signature()),
            Object::Extension(extension) => kv::extension_key(&extension.name),
            _ => kv::name_key(self.schema(), self.name()),
        }
    }

    /// Returns what a plan that uses it depends on.
    pub(crate) fn planned(&self) -> Planned {
        match self {
            Object::Table(table) => table.planned(),
            Object::Sequence(sequence) => sequence.planned(),
            Object::View(view) => view.planned(),
            Object::Enum(ty) => ty.planned(),
            Object::Domain(domain) => domain.planned(),
            Object::Composite(ty) => ty.planned(),
            Object::BaseType(ty) => ty.planned(),
            Object::Schema(schema) => schema.planned(),
            Object::Function(function) => function.planned(),
            Object::Extension(extension) => extension.planned(),
        }
    }

    /// Returns the types of the database that its columns have, each once.
    pub(super) fn user_types(&self) -> Vec<UserType> {
        match self {
            Object::Table(table) => table.user_types(),
            Object::View(view) => {
                let mut all = Vec::new();
                view.columns.iter().for_each(|column| column.each_user_type(&mut all));
                all
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Object::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn sequence(&self) -> Option<&Arc<Sequence>> {
        match self {
            Object::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        if !matches!(self.schema(), 0 | system::PUBLIC) {
            return prefixed(IN_SCHEMA, self.encode_as_in_public());
        }
        self.encode_as_in_public()
    }

    fn encode_as_in_public(&self) -> Vec<u8> {
        match self {
            Object::Table(table) if table.has_collations() => {
                prefixed(TABLE_WITH_COLLATIONS, table.encode())
            }
            Object::Table(table) if table.query.is_some() => {
                prefixed(MATERIALIZED_VIEW, table.encode())
            }
            Object::Table(table) if table.has_domains() => {
                prefixed(TABLE_WITH_DOMAINS, table.encode())
            }
            Object::Table(table) if table.has_generated() => {
                prefixed(GENERATING_TABLE, table.encode())
            }
            Object::Table(table) if table.is_newer() => prefixed(NEWER_TABLE, table.encode()),
            Object::Table(table) => table.encode(),
            Object::Sequence(sequence) => tagged(SEQUENCE, &**sequence),
            Object::View(view) if view.by_id => tagged(VIEW_BY_ID, &**view),
            Object::View(view) => tagged(VIEW, &**view),
            Object::Enum(ty) => tagged(ENUM, ty.descriptor()),
            Object::Domain(domain) => tagged(DOMAIN, domain),
            Object::Composite(ty) => tagged(COMPOSITE, ty.descriptor()),
            Object::BaseType(ty) => tagged(BASE_TYPE, ty.descriptor()),
            Object::Schema(schema) => tagged(SCHEMA, &**schema),
            Object::Function(function) => tagged(FUNCTION, &**function),
            Object::Extension(extension) => tagged(EXTENSION, &**extension),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Object, SqlError> {
        let mut d = Decoder::new(bytes);
        match d.tag() {
            Ok(tag) if tag.as_u64() == IN_SCHEMA => {
                Object::decode_as_in_public(&bytes[d.position()..])
            }
            _ => Object::decode_as_in_public(bytes),
        }
    }

    fn decode_as_in_public(bytes: &[u8]) -> Result<Object, SqlError> {
        let wrong = |why: &dyn std::fmt::Display| {
            SqlError::corrupted(format!("an object's descriptor: {why}"))
        };
        let mut d = Decoder::new(bytes);
        if !matches!(d.datatype(), Ok(Type::Tag)) {
            return Table::decode(bytes).map(|table| Object::Table(Arc::new(table)));
        }
        match d.tag().map_err(|e| wrong(&e))?.as_u64() {
            SEQUENCE => {
                let sequence = d.decode().map_err(|e| wrong(&e))?;
                Ok(Object::Sequence(Arc::new(sequence)))
            }
            VIEW | VIEW_BY_ID => Ok(Object::View(Arc::new(d.decode().map_err(|e| wrong(&e))?))),
            ENUM => Enum::of(d.decode().map_err(|e| wrong(&e))?).map(Object::Enum),
            DOMAIN => Ok(Object::Domain(d.decode().map_err(|e| wrong(&e))?)),
            COMPOSITE => {
                let descriptor = d.decode().map_err(|e| wrong(&e))?;
                Ok(Object::Composite(Composite::of(descriptor)))
            }
            FUNCTION => Ok(Object::Function(Arc::new(d.decode().map_err(|e| wrong(&e))?))),
            BASE_TYPE => Ok(Object::BaseType(BaseType::of(d.decode().map_err(|e| wrong(&e))?))),
            EXTENSION => Ok(Object::Extension(Arc::new(d.decode().map_err(|e| wrong(&e))?))),
            SCHEMA => Ok(Object::Schema(Arc::new(d.decode().map_err(|e| wrong(&e))?))),
            NEWER_TABLE
            | GENERATING_TABLE
            | TABLE_WITH_DOMAINS
            | TABLE_WITH_COLLATIONS
            | MATERIALIZED_VIEW => {
                Table::decode(&bytes[d.position()..]).map(|table| Object::Table(Arc::new(table)))
            }
            other => Err(wrong(&format_args!("kind {other:#x} is of a later release"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ColumnDef;
    use crate::types;

    #[test]
    fn a_release_that_does_not_know_collations_refuses_their_tables() {
        let column = ColumnDef::new("a", types::Type::Text);
        let plain = Table::new(7, "t", vec![column.clone()]);
        let collation = Some("de-x-icu".into());
        let collated = Table::new(7, "t", vec![ColumnDef { collation, ..column }]);
        for (table, tag) in [(plain, None), (collated, Some(TABLE_WITH_COLLATIONS))] {
            let object = Object::Table(Arc::new(table));
            let bytes = object.encode();
            assert_eq!(Decoder::new(&bytes).tag().ok().map(|tag| tag.as_u64()), tag);
            assert_eq!(Object::decode(&bytes).expect("known").table(), object.table());
        }
    }
}
