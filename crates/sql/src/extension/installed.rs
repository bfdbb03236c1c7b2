//! The descriptor of an installed extension.

use super::{Extension, available};
use crate::catalog::{Planned, schema_codec};
use crate::error::SqlError;
use minicbor::{Decode, Encode};

/// An extension of a database.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Installed {
    #[n(0)]
    pub(crate) id: u32,
    #[n(1)]
    pub(crate) name: String,
    /// The version of the descriptor.
    #[n(2)]
    pub(crate) version: u64,
    /// The schema that its objects are in.
    #[n(3)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// The version of the extension, `extversion`.
    #[n(4)]
    pub(crate) release: String,
    /// The ids of its types.
    #[n(5)]
    #[cbor(default)]
    pub(crate) types: Vec<u32>,
}

impl Installed {
    pub(crate) fn planned(&self) -> Planned {
        Planned { id: self.id, version: self.version, statistics: 0 }
    }

    /// Returns what it declares. Fails with XX001 if this release does not have the extension.
    pub(crate) fn declared(&self) -> Result<&'static Extension, SqlError> {
        available(&self.name).ok_or_else(|| {
            SqlError::corrupted(format!("the extension \"{}\" is of a later release", self.name))
        })
    }
}
