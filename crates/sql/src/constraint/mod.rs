//! Constraints on the rows of a table besides its keys.

mod check;
mod deferred;
mod foreign;
mod obligation;
mod owed;
mod referred;
mod referring;
mod uniqueness;

pub use check::Check;
pub(crate) use deferred::{Deferral, Deferred};
pub use foreign::{Action, ForeignKey};
pub(crate) use obligation::{Obligation, Obligations, Written, check_all};
pub(crate) use owed::{Owed, Related};
pub(crate) use referred::Referred;

use crate::error::{SqlError, state};

/// Returns the error of a constraint that a table does not have.
pub(crate) fn missing(table: &str, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    SqlError::new(state::UNDEFINED_OBJECT, message)
}
