//! Enum types: types of a database, whose values are labels in an order.
//!
//! A value is stored as the *place* of its label: bytes in the order of the labels. So rows and
//! keys stay as they are when a label is renamed, or is put between two others. A column's
//! descriptor holds the whole type, and a change of the type is one of the tables that have it: a
//! plan sees a table and its types as they were at one time.

mod place;

use crate::catalog::schema_codec;
use crate::error::{SqlError, state};
use crate::interned::{Identity, Interned, Registry};
use minicbor::{Decode, Encode};
use std::sync::LazyLock;

/// The longest label, in bytes, as in PostgreSQL.
const LONGEST_LABEL: usize = 63;

/// The descriptor of an enum type.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Descriptor {
    #[n(0)]
    pub(crate) id: u32,
    /// The id of the type of its arrays.
    #[n(1)]
    pub(crate) array: u32,
    #[n(2)]
    pub(crate) name: String,
    #[n(3)]
    pub(crate) version: u64,
    /// The labels, in their order.
    #[n(4)]
    pub(crate) labels: Vec<Label>,
    /// The schema that it is in.
    #[n(5)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
}

/// A label of an enum type.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Label {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) place: Vec<u8>,
    #[n(1)]
    pub(crate) name: String,
}

/// The neighbour beside which a new label is put.
pub(crate) enum Beside<'a> {
    Before(&'a str),
    After(&'a str),
    /// No neighbour: it is the last.
    End,
}

impl Descriptor {
    /// Adds a label. Fails with 42710 if it is there, with 42602 if it is too long, and with 22023
    /// if there is no such neighbour.
    pub(crate) fn add(&mut self, name: &str, beside: Beside<'_>) -> Result<(), SqlError> {
        check_label(name)?;
        if self.labels.iter().any(|label| label.name == name) {
            let message = format!("enum label \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        let at = match beside {
            Beside::Before(other) => self.find(other)?,
            Beside::After(other) => self.find(other)? + 1,
            Beside::End => self.labels.len(),
        };
        let low = at.checked_sub(1).map_or(&[][..], |at| &self.labels[at].place);
        let place = place::between(low, self.labels.get(at).map(|label| &*label.place));
        self.labels.insert(at, Label { place, name: name.to_owned() });
        Ok(())
    }

    /// Gives a label another name.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), SqlError> {
        check_label(to)?;
        let at = self.find(from)?;
        if self.labels.iter().any(|label| label.name == to) {
            let message = format!("enum label \"{to}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        self.labels[at].name = to.to_owned();
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize, SqlError> {
        let found = self.labels.iter().position(|label| label.name == name);
        let message = || format!("\"{name}\" is not an existing enum label");
        found.ok_or_else(|| SqlError::new(state::INVALID_PARAMETER, message()))
    }

    /// Fails unless the labels are in the order of their places.
    fn check(&self) -> Result<(), SqlError> {
        match self.labels.is_sorted_by(|a, b| a.place < b.place) {
            true => Ok(()),
            false => Err(SqlError::corrupted(format!("the labels of type \"{}\"", self.name))),
        }
    }
}

fn check_label(name: &str) -> Result<(), SqlError> {
    if name.len() <= LONGEST_LABEL {
        return Ok(());
    }
    let message = format!("invalid enum label \"{name}\"");
    Err(SqlError::new(state::INVALID_NAME, message)
        .detail(format!("Labels must be {LONGEST_LABEL} bytes or less.")))
}

/// An enum type, as one version of its descriptor has it.
pub type Enum = Interned<Descriptor>;

static KNOWN: LazyLock<Registry<Descriptor>> = LazyLock::new(Registry::default);

impl Enum {
    /// Returns the type of a descriptor. Fails with XX001 if the descriptor's order is wrong.
    pub(crate) fn of(descriptor: Descriptor) -> Result<Enum, SqlError> {
        descriptor.check()?;
        let Descriptor { id, array, version, .. } = descriptor;
        if let Some(found) = KNOWN.find((id, version), |known| *known == descriptor) {
            return Ok(found);
        }
        let name = descriptor.name.clone();
        let of = Identity { id, array, version, name: &name };
        Ok(KNOWN.keep(of, descriptor, Descriptor::eq))
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        self.known()
    }

    /// Returns the values, in their order.
    pub(crate) fn values(self) -> impl DoubleEndedIterator<Item = EnumValue> {
        (0..self.descriptor().labels.len()).map(move |at| EnumValue { ty: self, at })
    }

    /// Returns the value of a label. Fails with 22P02 if there is none.
    pub(crate) fn labelled(self, label: &str) -> Result<EnumValue, SqlError> {
        let found = self.values().find(|value| value.label() == label);
        let message = || format!("invalid input value for enum {}: \"{label}\"", self.shown());
        found.ok_or_else(|| SqlError::new(state::BAD_TEXT, message()))
    }

    /// Returns the value at a place, as a row or a key has it.
    pub(crate) fn placed(self, place: &[u8]) -> Result<EnumValue, SqlError> {
        let found = self.descriptor().labels.binary_search_by(|label| (*label.place).cmp(place));
        let message = || format!("a value of type {} that has no label", self.shown());
        match found {
            Ok(at) => Ok(EnumValue { ty: self, at }),
            Err(_) => Err(SqlError::corrupted(message())),
        }
    }
}

/// A value of an enum type.
#[derive(Clone, Copy, Debug)]
pub struct EnumValue {
    ty: Enum,
    /// The number of its label.
    at: usize,
}

impl EnumValue {
    /// Returns its type.
    pub const fn type_of(self) -> Enum {
        self.ty
    }

    /// Returns its label.
    pub fn label(self) -> &'static str {
        &self.ty.descriptor().labels[self.at].name
    }

    /// Returns the bytes that are stored, in the order of the values.
    pub(crate) fn place(self) -> &'static [u8] {
        &self.ty.descriptor().labels[self.at].place
    }
}

impl PartialEq for EnumValue {
    fn eq(&self, other: &EnumValue) -> bool {
        self.ty == other.ty && self.place() == other.place()
    }
}
