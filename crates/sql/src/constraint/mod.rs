//! Constraints on the rows of a table besides its keys.

mod check;
mod foreign;
mod references;
mod waiting;

pub use check::Check;
pub use foreign::{Action, ForeignKey};
pub(crate) use references::{Changes, Obligation, Obligations, Related, check_all};
pub(crate) use waiting::{Deferral, Waiting};
