//! `citext`: text that is compared without regard to case. Its operators follow from its type: see
//! `bind/citext.rs`.

use super::Extension;
use crate::base_type::Kind;

pub(super) static EXTENSION: Extension = Extension {
    name: "citext",
    version: "1.6",
    comment: "data type for case-insensitive character strings",
    functions: &[],
    fixed_types: &[],
    types: &[("citext", Kind::Citext)],
    refused: &[],
};
