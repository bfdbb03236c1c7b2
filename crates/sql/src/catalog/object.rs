//! The kinds of objects that have a descriptor, a version and a name.

use super::{Planned, Table};
use crate::enumeration::Enum;
use crate::error::SqlError;
use crate::sequence::Sequence;
use crate::view::View;
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

fn tagged(kind: u64, descriptor: &impl Encode<()>) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    e.tag(Tag::new(kind))
        .and_then(|e| e.encode(descriptor))
        .expect("invariant: writing to memory does not fail");
    e.into_writer()
}

/// An object of the catalog. Indexes are parts of their tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Table(Arc<Table>),
    Sequence(Arc<Sequence>),
    View(Arc<View>),
    Enum(Enum),
}

impl Object {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Object::Table(table) => table.id,
            Object::Sequence(sequence) => sequence.id,
            Object::View(view) => view.id,
            Object::Enum(ty) => ty.id(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Object::Table(table) => &table.name,
            Object::Sequence(sequence) => &sequence.name,
            Object::View(view) => &view.name,
            Object::Enum(ty) => &ty.descriptor().name,
        }
    }

    /// Returns what a plan that uses it depends on.
    pub(crate) fn planned(&self) -> Planned {
        match self {
            Object::Table(table) => table.planned(),
            Object::Sequence(sequence) => sequence.planned(),
            Object::View(view) => view.planned(),
            Object::Enum(ty) => ty.planned(),
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
        match self {
            Object::Table(table) if !table.is_newer() => table.encode(),
            Object::Table(table) => {
                let mut e = Encoder::new(Vec::new());
                e.tag(Tag::new(NEWER_TABLE)).expect("invariant: writing to memory does not fail");
                let mut bytes = e.into_writer();
                bytes.extend(table.encode());
                bytes
            }
            Object::Sequence(sequence) => tagged(SEQUENCE, &**sequence),
            Object::View(view) => tagged(VIEW, &**view),
            Object::Enum(ty) => tagged(ENUM, ty.descriptor()),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Object, SqlError> {
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
            VIEW => Ok(Object::View(Arc::new(d.decode().map_err(|e| wrong(&e))?))),
            ENUM => Enum::of(d.decode().map_err(|e| wrong(&e))?).map(Object::Enum),
            NEWER_TABLE => {
                Table::decode(&bytes[d.position()..]).map(|table| Object::Table(Arc::new(table)))
            }
            other => Err(wrong(&format_args!("kind {other:#x} is of a later release"))),
        }
    }
}
