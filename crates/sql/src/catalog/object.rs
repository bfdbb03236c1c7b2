//! The kinds of objects that have a descriptor, a version and a name.

use super::{Planned, Table};
use crate::error::SqlError;
use crate::sequence::Sequence;
use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encoder};
use std::sync::Arc;

/// The tag before the descriptor of a sequence. That of a table has none, as earlier releases wrote
/// it.
const SEQUENCE: u64 = 0x6d_0001;

/// An object of the catalog. Indexes are parts of their tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Table(Arc<Table>),
    Sequence(Arc<Sequence>),
}

impl Object {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Object::Table(table) => table.id,
            Object::Sequence(sequence) => sequence.id,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Object::Table(table) => &table.name,
            Object::Sequence(sequence) => &sequence.name,
        }
    }

    /// Returns what a plan that uses it depends on.
    pub(crate) fn planned(&self) -> Planned {
        match self {
            Object::Table(table) => table.planned(),
            Object::Sequence(sequence) => sequence.planned(),
        }
    }

    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Object::Table(table) => Some(table),
            Object::Sequence(_) => None,
        }
    }

    pub(crate) fn sequence(&self) -> Option<&Arc<Sequence>> {
        match self {
            Object::Sequence(sequence) => Some(sequence),
            Object::Table(_) => None,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Object::Table(table) => table.encode(),
            Object::Sequence(sequence) => {
                let mut e = Encoder::new(Vec::new());
                e.tag(Tag::new(SEQUENCE))
                    .and_then(|e| e.encode(&**sequence))
                    .expect("invariant: writing to memory does not fail");
                e.into_writer()
            }
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
            other => Err(wrong(&format_args!("kind {other:#x} is of a later release"))),
        }
    }
}
