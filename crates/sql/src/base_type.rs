//! Base types that an extension brings to a database: each has a descriptor with the ids that it
//! has there, and its kind says what its values are.

use crate::catalog::schema_codec;
use crate::error::SqlError;
use crate::interned::{Identity, Interned, Registry};
use minicbor::{Decode, Encode};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

/// The descriptor of a base type.
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
    /// The schema that it is in.
    #[n(4)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// The extension that it belongs to.
    #[n(5)]
    pub(crate) extension: u32,
    #[n(6)]
    pub(crate) kind: Kind,
}

/// The kinds of base types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Kind {
    /// `citext`: text that is compared without regard to case.
    #[n(0)]
    Citext,
}

/// A base type, as one version of its descriptor has it.
pub type BaseType = Interned<Descriptor>;

static KNOWN: LazyLock<Registry<Descriptor>> = LazyLock::new(Registry::default);

impl BaseType {
    /// Returns the type of a descriptor.
    pub(crate) fn of(descriptor: Descriptor) -> BaseType {
        let Descriptor { id, array, version, .. } = descriptor;
        if let Some(found) = KNOWN.find((id, version), |known| *known == descriptor) {
            return found;
        }
        let name = descriptor.name.clone();
        let of = Identity { id, array, version, name: &name };
        KNOWN.keep(of, descriptor, Descriptor::eq)
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        self.known()
    }

    /// Returns its kind.
    pub const fn kind(self) -> Kind {
        self.known().kind
    }

    /// Returns the value that a text stands for.
    pub(crate) fn read(self, text: &str) -> Result<BaseValue, SqlError> {
        match self.kind() {
            Kind::Citext => Ok(BaseValue { ty: self, text: text.into() }),
        }
    }
}

/// A value of a base type.
#[derive(Clone, Debug)]
pub struct BaseValue {
    ty: BaseType,
    text: Arc<str>,
}

impl BaseValue {
    /// Returns its type.
    pub const fn type_of(&self) -> BaseType {
        self.ty
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text whose bytes are in the order of the values, and that equal values share.
    pub(crate) fn key(&self) -> String {
        match self.ty.kind() {
            Kind::Citext => self.text.to_lowercase(),
        }
    }

    /// Orders two values of a type.
    pub(crate) fn order(&self, other: &BaseValue) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Two are the same if nothing tells one from the other.
impl PartialEq for BaseValue {
    fn eq(&self, other: &BaseValue) -> bool {
        self.ty == other.ty && self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citexts_are_ordered_without_regard_to_case() {
        let (name, schema) = ("citext".to_owned(), 2200);
        let (id, array, version, extension) = (70_001, 70_002, 1, 70_000);
        let kind = Kind::Citext;
        let ty = BaseType::of(Descriptor { id, array, name, version, schema, extension, kind });
        let of = |text: &str| ty.read(text).expect("a text");
        assert_eq!(of("Ärger").order(&of("ÄRGER")), Ordering::Equal);
        assert_ne!(of("a"), of("A"));
        assert_eq!(of("a").order(&of("B")), Ordering::Less);
        assert_eq!(of("B").order(&of("a")), Ordering::Greater);
    }
}
