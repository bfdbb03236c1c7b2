//! Keeps foreign keys: checks that what rows refer to is there, and does what their actions say to
//! the rows that refer to one that goes.
//!
//! ```text
//!   a row is written          its values ───────────────────────────────▶ must be there in the end
//!   a key goes                children with it ── NO ACTION ────────────▶ must not be there in the end
//!                                              ── RESTRICT ─────────────▶ must not be there now
//!                                              ── CASCADE, SET … ───────▶ are written, as above
//! ```
//!
//! The end is that of the statement, or that of the transaction for a constraint that is deferred.
//! Both checks are one: a value that rows may refer by must be in the key, or no row has it. So
//! values are remembered, and no rows; and a value that was checked in vain costs nothing else.
//!
//! What was read stays true until the transaction has ended, whatever the isolation: the key that a
//! row refers to is there, and where a key goes no row comes that refers to it. Reads that lock or
//! are validated give that; under snapshots the ranges are kept ([`Transaction::keep_range`]).
//! Rows that refer to one key do not conflict with each other.

use super::{Action, Deferral, ForeignKey};
use crate::access::{Access, Target};
use crate::bind::Binder;
use crate::cast;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::{Compare, Expr, Facts, Scope};
use crate::key;
use crate::kv;
use crate::scan::{Cursor, Found};
use crate::types::Type;
use crate::write;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Lock, Transaction};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The tables that the foreign keys of a statement concern, by id.
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

/// A value that rows may refer by, which must be in the referenced key then.
#[derive(Clone, Debug)]
pub(crate) struct Obligation {
    child: Arc<Table>,
    parent: Arc<Table>,
    /// The number of the constraint among those of the child.
    number: usize,
    values: Vec<Datum>,
    /// True if it arose since a key went.
    of_parent: bool,
}

/// Obligations by the id of their constraint and their values.
pub(crate) type Obligations = BTreeMap<Vec<u8>, Obligation>;

impl Obligation {
    /// Creates the obligation of a row that refers by some values.
    pub(crate) fn of_child(
        child: &Arc<Table>,
        parent: &Arc<Table>,
        number: usize,
        values: Vec<Datum>,
    ) -> Obligation {
        let (child, parent) = (child.clone(), parent.clone());
        Obligation { child, parent, number, values, of_parent: false }
    }

    fn foreign(&self) -> &ForeignKey {
        &self.child.foreign[self.number]
    }

    /// True if it is of a table that refers to itself.
    pub(crate) fn is_within(&self, table: u32) -> bool {
        self.child.id == table && self.parent.id == table
    }

    /// True if it is checked by reading a table.
    pub(crate) fn concerns(&self, table: u32) -> bool {
        self.child.id == table || self.parent.id == table
    }

    /// Returns its place among [`Obligations`].
    pub(crate) fn id(&self) -> Vec<u8> {
        let mut out = self.foreign().id.to_be_bytes().to_vec();
        self.values.iter().for_each(|value| key::write(value, false, &mut out));
        out
    }

    /// Returns it for a table that has changed; `None` if its constraint is gone.
    pub(crate) fn with(&self, table: &Arc<Table>) -> Option<Obligation> {
        let mut it = self.clone();
        if self.parent.id == table.id {
            it.parent = table.clone();
        }
        if self.child.id == table.id {
            let id = self.foreign().id;
            it.number = table.foreign.iter().position(|foreign| foreign.id == id)?;
            it.child = table.clone();
        }
        Some(it)
    }

    pub(crate) fn is_deferred(&self, deferral: &Deferral) -> bool {
        deferral.defers(self.foreign())
    }

    fn shown(&self) -> String {
        let text = |(at, value): (&u32, &Datum)| {
            value.to_text(self.child.columns[*at as usize].ty).unwrap_or_else(|| "null".into())
        };
        let values = self.foreign().columns.iter().zip(&self.values).map(text);
        values.collect::<Vec<_>>().join(", ")
    }

    fn broken(&self) -> SqlError {
        let (child, parent) = (&self.child.name, &self.parent.name);
        let name = &self.foreign().name;
        match self.of_parent {
            true => SqlError::new(
                state::FOREIGN_KEY,
                format!(
                    "update or delete on table \"{parent}\" violates foreign key constraint \
                     \"{name}\" on table \"{child}\""
                ),
            )
            .detail(format!(
                "Key ({})=({}) is still referenced from table \"{child}\".",
                self.foreign().key_names(&self.parent).join(", "),
                self.shown()
            )),
            false => SqlError::new(
                state::FOREIGN_KEY,
                format!(
                    "insert or update on table \"{child}\" violates foreign key constraint \
                     \"{name}\""
                ),
            )
            .detail(format!(
                "Key ({})=({}) is not present in table \"{parent}\".",
                self.foreign().names(&self.child).join(", "),
                self.shown()
            )),
        }
    }

    /// Returns the key of the entry or of the row in which the referenced key has the values;
    /// `None` if they are no values of its types.
    fn key(&self) -> Result<Option<Key>, SqlError> {
        let (child, parent, foreign) = (&self.child, &self.parent, self.foreign());
        let mut row = vec![Datum::Null; parent.columns.len()];
        for ((from, to), value) in foreign.columns.iter().zip(&foreign.key).zip(&self.values) {
            let (from, to) = (*from as usize, *to as usize);
            let (from, ty) = (child.columns[from].ty, parent.columns[to].ty);
            let Some(value) = exactly(value, from, ty) else { return Ok(None) };
            row[to] = value;
        }
        let missing = || SqlError::corrupted("a foreign key without a key");
        let index = parent.keys_of(&foreign.key).next().ok_or_else(missing)?;
        if parent.primary.as_ref().is_some_and(|primary| primary.id == index.id) {
            return Ok(parent.row_key(&row).map(kv::to_key));
        }
        Ok(index.entry(&row, &[])?.map(|entry| kv::to_key(entry.key)))
    }

    /// Fails with 23503 if rows refer by the value.
    async fn refuse_rows(
        &self,
        txn: &mut dyn Transaction,
        facts: &Facts,
        looks: bool,
    ) -> Result<(), SqlError> {
        if !looks && !self.of_parent {
            return Err(self.broken());
        }
        let columns = &self.foreign().columns;
        let mut rows = Rows::of(txn, &self.child, columns, &self.values, facts, false)?;
        match rows.next(txn, Lock::Shared).await?.is_empty() {
            true => Ok(()),
            false => Err(self.broken()),
        }
    }
}

/// The values that are looked up at once.
const LOOKED_UP: usize = 1000;

/// Fails with 23503 if rows refer by a value that no row of the parent has. `looks` is false if the
/// rows that were written are known to be there.
pub(crate) async fn check_all(
    obligations: &Obligations,
    txn: &mut dyn Transaction,
    facts: &Facts,
    looks: bool,
) -> Result<(), SqlError> {
    let (mut keys, mut with_key) = (Vec::new(), Vec::new());
    for obligation in obligations.values() {
        match obligation.key()? {
            Some(key) => {
                keys.push(key);
                with_key.push(obligation);
            }
            None => obligation.refuse_rows(txn, facts, looks).await?,
        }
    }
    for (keys, obligations) in keys.chunks(LOOKED_UP).zip(with_key.chunks(LOOKED_UP)) {
        let found = txn.get_many(keys, Lock::Shared).await?;
        for ((key, obligation), there) in keys.iter().zip(obligations).zip(found) {
            match there {
                Some(_) => txn.keep_range(KeyRange::point(key.clone())),
                None => obligation.refuse_rows(txn, facts, looks).await?,
            }
        }
    }
    Ok(())
}

/// Returns a value of one type as one of another; `None` if no value of that type equals it.
fn exactly(value: &Datum, from: Type, to: Type) -> Option<Datum> {
    let other = cast::cast(value.clone(), to, false).ok()?;
    let back = cast::cast(other.clone(), from, false).ok()?;
    back.order(value).is_eq().then_some(other)
}

/// The rows of a table that have certain values in some columns.
struct Rows {
    table: Arc<Table>,
    filter: Expr,
    cursor: Cursor,
    wanted: Vec<bool>,
}

impl Rows {
    /// Finds the rows, of which all columns are wanted, or those that refer. No row with the values
    /// appears or goes until the transaction has ended.
    fn of(
        txn: &mut dyn Transaction,
        table: &Arc<Table>,
        columns: &[u32],
        values: &[Datum],
        facts: &Facts,
        whole: bool,
    ) -> Result<Rows, SqlError> {
        let equal = |(column, value): (&u32, &Datum)| {
            let sides = (Expr::Column(*column as usize), Expr::Const(value.clone()));
            Expr::Compare(Compare::Eq, Box::new(sides))
        };
        let all = columns.iter().zip(values).map(equal).collect();
        let filter = Expr::all_of(all).unwrap_or_else(Expr::truth);
        let access = Access::choose(table, Some(&filter));
        let scope = scope(facts);
        let targets = access.targets(table, &scope)?;
        for target in &targets {
            txn.keep_range(match target {
                Target::Point(key) => KeyRange::point(key.clone()),
                Target::Range(range) => range.clone(),
            });
        }
        let cursor = Cursor::new(access.index, targets, false);
        let mut wanted = vec![whole; table.columns.len()];
        columns.iter().for_each(|column| wanted[*column as usize] = true);
        Ok(Rows { table: table.clone(), filter, cursor, wanted })
    }

    /// Returns the next rows; none only at the end.
    async fn next(
        &mut self,
        txn: &mut dyn Transaction,
        lock: Lock,
    ) -> Result<Vec<Found>, SqlError> {
        loop {
            let mut found = self.cursor.next(txn, &self.table, &self.wanted, lock, 4000).await?;
            if found.is_empty() {
                return Ok(found);
            }
            let mut kept = Vec::with_capacity(found.len());
            for row in found.drain(..) {
                if self.filter.holds(&row.row, &scope(&Facts::default()))? {
                    kept.push(row);
                }
            }
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
    }
}

fn scope(facts: &Facts) -> Scope<'_> {
    Scope { params: &[], now_us: 0, session: facts, catalog: None, effects: None }
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

/// The changes of a statement that concern foreign keys.
pub(crate) struct Changes<'a> {
    related: &'a Related,
    gone: VecDeque<Gone>,
    obligations: Obligations,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(related: &'a Related) -> Self {
        Changes { related, gone: VecDeque::new(), obligations: Obligations::new() }
    }

    /// Returns what has to hold, of a statement that only inserts.
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
            self.oblige(Obligation::of_child(table, parent, number, values));
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

    /// Does what the actions say, checks what has to hold now, and returns what has to hold when
    /// the transaction ends.
    pub(crate) async fn finish(
        mut self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        deferral: &Deferral,
    ) -> Result<Obligations, SqlError> {
        // Rows that the statement has written may be gone again, but by its own actions alone.
        let acts = !self.gone.is_empty();
        while let Some(gone) = self.gone.pop_front() {
            self.act(gone, txn, scope).await?;
        }
        let (later, now): (Obligations, Obligations) =
            self.obligations.into_iter().partition(|(_, it)| it.is_deferred(deferral));
        check_all(&now, txn, scope.session, acts).await?;
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
        let obligation = Obligation {
            child: child.clone(),
            parent,
            number,
            values: old.clone(),
            of_parent: true,
        };
        if action == Action::NoAction {
            self.oblige(obligation);
            return Ok(());
        }
        let mut rows = Rows::of(txn, &child, &foreign.columns, &old, scope.session, true)?;
        let nulls = || vec![Expr::Const(Datum::Null); foreign.columns.len()];
        let made = match action {
            Action::SetDefault => {
                // The default may be the key that goes.
                self.oblige(obligation.clone());
                let defaults = Binder::new(&[]).defaults(&child)?;
                foreign.columns.iter().map(|column| defaults[*column as usize].clone()).collect()
            }
            _ => nulls(),
        };
        // All are read before the first is written, so that none is found again.
        let mut found = Vec::new();
        loop {
            let more = rows.next(txn, Lock::Exclusive).await?;
            if more.is_empty() {
                break;
            }
            if action == Action::Restrict {
                return Err(obligation.broken());
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
                        after[column] = cast::cast(value.clone(), child.columns[column].ty, false)?;
                    }
                }
                _ => {
                    let values = effects::evaluate(&made, &[], scope, txn).await?;
                    for (column, value) in foreign.columns.iter().zip(values) {
                        after[*column as usize] = value;
                    }
                }
            }
            write::update(txn, &child, &key, &row, &after).await?;
            self.wrote(&child, Some(&row), &after)?;
        }
        Ok(())
    }
}
