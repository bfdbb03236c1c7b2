//! Checks that a statement owes to constraints when it ends: notes the rows it writes and the keys
//! that go, and runs the actions of foreign keys on the rows that refer to these.
//!
//! ```text
//!   a row is written ──────────────────────────────▶ obligation: the value is in the key
//!              ──── in a UNIQUE … DEFERRABLE ──────▶ obligation: no other row has the values
//!   a key goes ──── NO ACTION ─────────────────────▶ obligation: no row refers by it
//!              ──── RESTRICT ──────────────────────▶ fails if a row refers by it
//!              ──── CASCADE, SET NULL, SET DEFAULT ▶ writes the rows that refer by it
//! ```
//!
//! Obligations are checked at the end of the statement, or at the end of the transaction if the
//! constraint is deferred. Each check and each action keeps what it has read
//! ([`Transaction::keep_range`]): it stays true until the transaction has ended, under every
//! isolation. Rows that refer to one key do not conflict with each other.

use super::obligation::{Obligation, Obligations, Written, check_all};
use super::referred::{Referred, exactly};
use super::referring::{Referring, Wanted};
use super::uniqueness::Uniqueness;
use super::{Action, Deferral};
use crate::bind::Binder;
use crate::cast;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::effects;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::scan::Found;
use crate::write;
use meridian_txn::{Lock, Transaction};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The tables that the constraints of a statement concern, by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Related {
    pub(crate) tables: BTreeMap<u32, Arc<Table>>,
}

impl Related {
    fn table(&self, id: u32) -> Result<&Arc<Table>, SqlError> {
        self.tables.get(&id).ok_or_else(|| SqlError::corrupted(format!("table {id} is not there")))
    }

    /// The foreign keys that refer to a table, with their tables.
    fn referring<'r>(&'r self, parent: &'r Table) -> impl Iterator<Item = (&'r Arc<Table>, usize)> {
        let children = parent.referenced_by.iter().filter_map(|id| self.tables.get(id));
        children.flat_map(move |child| {
            let all = child.foreign.iter().enumerate();
            let referring = all.filter(move |(_, foreign)| foreign.parent == parent.id);
            referring.map(move |(number, _)| (child, number))
        })
    }
}

/// A key that is gone, or has another value.
struct Gone {
    child: Arc<Table>,
    parent: Arc<Table>,
    /// The number of the constraint among those of the child.
    number: usize,
    old: Vec<Datum>,
    /// The new values of the key; `None` if the row was deleted.
    new: Option<Vec<Datum>>,
}

/// Rows that a statement has written so far and constraints concern, and the keys that are gone.
pub(crate) struct Owed<'a> {
    related: &'a Related,
    gone: VecDeque<Gone>,
    obligations: Obligations,
}

impl<'a> Owed<'a> {
    pub(crate) fn new(related: &'a Related) -> Self {
        Owed { related, gone: VecDeque::new(), obligations: Obligations::new() }
    }

    /// Returns the obligations of a statement that only inserts.
    pub(crate) fn into_obligations(self) -> Obligations {
        self.obligations
    }

    fn oblige(&mut self, obligation: Obligation) {
        self.obligations.entry(obligation.id()).or_insert(obligation);
    }

    /// Notes a row that was written, instead of `old`, or as a new one.
    pub(crate) fn wrote(
        &mut self,
        table: &Arc<Table>,
        old: Option<&[Datum]>,
        new: &[Datum],
    ) -> Result<(), SqlError> {
        for (number, foreign) in table.foreign.iter().enumerate() {
            let values = foreign.values(new);
            foreign.check_full(table, new)?;
            let Some(values) = values else { continue };
            if old.is_some_and(|old| foreign.values(old).as_ref() == Some(&values)) {
                continue;
            }
            let parent = self.related.table(foreign.parent)?;
            let reference = Referred::of_child(table, parent, number, values);
            self.oblige(Obligation::Referred(reference));
        }
        for unique in Uniqueness::of_row(table, old, new)? {
            self.oblige(Obligation::Unique(unique));
        }
        match old {
            Some(old) => self.moved(table, old, Some(new)),
            None => Ok(()),
        }
    }

    /// Notes a row that was deleted.
    pub(crate) fn deleted(&mut self, table: &Arc<Table>, old: &[Datum]) -> Result<(), SqlError> {
        self.moved(table, old, None)
    }

    fn moved(
        &mut self,
        parent: &Arc<Table>,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> Result<(), SqlError> {
        for (child, number) in self.related.referring(parent) {
            let foreign = &child.foreign[number];
            let key = |row: &[Datum]| -> Vec<Datum> {
                foreign.key.iter().map(|at| row[*at as usize].clone()).collect()
            };
            let (before, after) = (key(old), new.map(key));
            let same =
                |after: &Vec<Datum>| before.iter().zip(after).all(|(a, b)| a.order(b).is_eq());
            if before.iter().any(Datum::is_null) || after.as_ref().is_some_and(same) {
                continue;
            }
            // As the child has them: no row refers by a value that its column cannot have.
            let exact = |values: &[Datum]| -> Option<Vec<Datum>> {
                let types = foreign.key.iter().zip(&foreign.columns).map(|(from, to)| {
                    (parent.columns[*from as usize].ty, child.columns[*to as usize].ty)
                });
                values
                    .iter()
                    .zip(types)
                    .map(|(value, (from, to))| exactly(value, from, to))
                    .collect()
            };
            let Some(before) = exact(&before) else { continue };
            self.gone.push_back(Gone {
                child: child.clone(),
                parent: parent.clone(),
                number,
                old: before,
                new: after,
            });
        }
        Ok(())
    }

    /// Runs the actions, checks the obligations, and returns those that are deferred.
    pub(crate) async fn finish(
        mut self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        deferral: &Deferral,
    ) -> Result<Obligations, SqlError> {
        // Only an action deletes or changes rows that the statement has written.
        let written = match self.gone.is_empty() {
            true => Written::Stays,
            false => Written::MayBeGone,
        };
        while let Some(gone) = self.gone.pop_front() {
            self.act(gone, txn, scope).await?;
        }
        let (later, now): (Obligations, Obligations) =
            self.obligations.into_iter().partition(|(_, it)| it.is_deferred(deferral));
        check_all(&now, txn, written, scope.session.zone()).await?;
        Ok(later)
    }

    async fn act(
        &mut self,
        gone: Gone,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let Gone { child, parent, number, old, new } = gone;
        let foreign = &child.foreign[number];
        let action = if new.is_some() { foreign.on_update } else { foreign.on_delete };
        let reference =
            Referred { child: child.clone(), parent, number, values: old.clone(), of_parent: true };
        if action == Action::NoAction {
            self.oblige(Obligation::Referred(reference));
            return Ok(());
        }
        let mut rows = Referring::with(txn, &child, foreign, &old, Wanted::All)?;
        let made = match action {
            Action::SetDefault => {
                // The default may be the key that goes.
                self.oblige(Obligation::Referred(reference.clone()));
                let defaults = Binder::new(&[]).defaults(&child)?;
                foreign.columns.iter().map(|column| defaults[*column as usize].clone()).collect()
            }
            _ => vec![Expr::Const(Datum::Null); foreign.columns.len()],
        };
        // All rows are read before the first is written, so that none is found again.
        let mut found = Vec::new();
        loop {
            let more = rows.next(txn, Lock::Exclusive).await?;
            if more.is_empty() {
                break;
            }
            if action == Action::Restrict {
                return Err(reference.broken(scope.session.zone()));
            }
            found.extend(more);
        }
        for Found { key, row, .. } in found {
            let mut after = row.clone();
            match (action, &new) {
                (Action::Cascade, None) => {
                    write::delete(txn, &child, &key, &row).await?;
                    self.deleted(&child, &row)?;
                    continue;
                }
                (Action::Cascade, Some(new)) => {
                    for (column, value) in foreign.columns.iter().zip(new) {
                        let column = *column as usize;
                        let ty = child.columns[column].ty;
                        after[column] = cast::cast(value.clone(), ty, false, scope.local())?;
                    }
                }
                _ => {
                    let values = effects::evaluate(&made, &[], scope, txn).await?;
                    for (column, value) in foreign.columns.iter().zip(values) {
                        after[*column as usize] = value;
                    }
                }
            }
            let changed: Vec<usize> = foreign.columns.iter().map(|at| *at as usize).collect();
            child.generate_after(&changed, &mut after)?;
            write::update(txn, &child, &key, &row, &after, scope.session).await?;
            self.wrote(&child, Some(&row), &after)?;
        }
        Ok(())
    }
}
