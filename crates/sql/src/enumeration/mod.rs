//! Enum types: types of a database, whose values are labels in an order.
//!
//! A value is stored as the *place* of its label: bytes in the order of the labels. So rows and
//! keys stay as they are when a label is renamed, or is put between two others. A column's
//! descriptor holds the whole type, and a change of the type is one of the tables that have it: a
//! plan sees a table and its types as they were at one time.

mod place;

use crate::catalog::{Planned, schema_codec};
use crate::error::{SqlError, state};
use crate::system::quoted;
use minicbor::{Decode, Encode};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The longest label, in bytes, as in PostgreSQL.
const LONGEST_LABEL: usize = 63;

/// The descriptor of an enum type.
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

/// An enum type as one version of its descriptor has it. The process keeps each version that it has
/// read, so that a type is copied freely. Two are equal if they are versions of one type.
#[derive(Clone, Copy)]
pub struct Enum(&'static Interned);

/// A descriptor, and what is shown of it.
struct Interned {
    descriptor: Descriptor,
    /// The name as SQL writes it.
    shown: String,
    /// The name of the type of arrays, as SQL writes it.
    shown_array: String,
}

impl PartialEq for Enum {
    fn eq(&self, other: &Enum) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Enum {}

impl Hash for Enum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Enum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

impl Enum {
    /// Returns the type of a descriptor. Fails with XX001 if the descriptor's order is wrong.
    pub(crate) fn of(descriptor: Descriptor) -> Result<Enum, SqlError> {
        static KNOWN: LazyLock<Mutex<HashMap<(u32, u64), Vec<Enum>>>> =
            LazyLock::new(Mutex::default);
        descriptor.check()?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // Databases, and transactions that did not commit, have versions of one number.
        let versions = known.entry((descriptor.id, descriptor.version)).or_default();
        if let Some(found) = versions.iter().find(|it| it.0.descriptor == descriptor) {
            return Ok(*found);
        }
        let shown = quoted(&descriptor.name);
        let shown_array = format!("{shown}[]");
        let new = Enum(Box::leak(Box::new(Interned { descriptor, shown, shown_array })));
        versions.push(new);
        Ok(new)
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        &self.0.descriptor
    }

    /// Returns the object id of the type.
    pub const fn id(self) -> u32 {
        self.0.descriptor.id
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

    pub(crate) fn planned(self) -> Planned {
        Planned { id: self.id(), version: self.descriptor().version, statistics: 0 }
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
