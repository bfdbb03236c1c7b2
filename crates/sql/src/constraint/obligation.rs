//! An obligation: what a constraint demands when a statement ends, or its transaction.

use super::Deferral;
use super::referred::{self, Referred};
use super::uniqueness::Uniqueness;
use crate::catalog::Table;
use crate::datetime::Zone;
use crate::error::SqlError;
use meridian_txn::Transaction;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A check that waits for the end of its statement or transaction.
#[derive(Clone, Debug)]
pub(crate) enum Obligation {
    /// Of a foreign key.
    Referred(Referred),
    /// Of a UNIQUE constraint that is DEFERRABLE.
    Unique(Uniqueness),
}

/// Obligations by the id of their constraint and their values.
pub(crate) type Obligations = BTreeMap<Vec<u8>, Obligation>;

/// Whether the rows that left obligations are known to be there when these are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// They are: nothing has deleted rows since.
    Stays,
    /// They may be gone, or refer by other values.
    MayBeGone,
}

impl Obligation {
    /// True if rows that its statement writes later can change whether it holds.
    pub(crate) fn is_of_whole_statement(&self, table: u32) -> bool {
        match self {
            Obligation::Referred(it) => it.is_within(table),
            Obligation::Unique(_) => true,
        }
    }

    /// True if its check reads a table.
    pub(super) fn concerns(&self, table: u32) -> bool {
        match self {
            Obligation::Referred(it) => it.concerns(table),
            Obligation::Unique(it) => it.concerns(table),
        }
    }

    /// Returns its place among [`Obligations`].
    pub(crate) fn id(&self) -> Vec<u8> {
        match self {
            Obligation::Referred(it) => it.id(),
            Obligation::Unique(it) => it.id(),
        }
    }

    /// Returns it for a table that has changed; `None` if its constraint is gone.
    pub(super) fn with(&self, table: &Arc<Table>) -> Option<Obligation> {
        match self {
            Obligation::Referred(it) => it.with(table).map(Obligation::Referred),
            Obligation::Unique(it) => it.with(table).map(Obligation::Unique),
        }
    }

    pub(crate) fn is_deferred(&self, deferral: &Deferral) -> bool {
        match self {
            Obligation::Referred(it) => it.is_deferred(deferral),
            Obligation::Unique(it) => it.is_deferred(deferral),
        }
    }
}

/// Fails with 23503 if rows refer by a value that no row of the parent has, and with 23505 if rows
/// are equal in a key; the error has times in a zone.
pub(crate) async fn check_all(
    obligations: &Obligations,
    txn: &mut dyn Transaction,
    written: Written,
    zone: &Zone,
) -> Result<(), SqlError> {
    let mut references = Vec::new();
    for obligation in obligations.values() {
        match obligation {
            Obligation::Referred(it) => references.push(it),
            Obligation::Unique(it) => it.check(txn, zone).await?,
        }
    }
    referred::check_all(&references, txn, written, zone).await
}
