//! Constraints on the rows of a table besides its keys.

mod check;
mod deferred;
mod foreign;
mod obligation;
mod references;
mod referring;

pub use check::Check;
pub(crate) use deferred::{Deferral, Deferred};
pub use foreign::{Action, ForeignKey};
pub(crate) use obligation::{Obligation, Obligations, Written, check_all};
pub(crate) use references::{References, Related};
