//! The obligation of a foreign key: a value that rows may refer by is in the referenced key, or no
//! row refers by it.
//!
//! A row that is written leaves one, and so does a key that goes. Both are one check. Many rows
//! that refer to one key leave one obligation, and the keys of many are looked up together.

use super::referring::{Referring, Wanted};
use super::{Deferral, ForeignKey, Written};
use crate::cast;
use crate::catalog::Table;
use crate::datetime::{Local, Zone};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::key;
use crate::kv;
use crate::types::Type;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Lock, Transaction};
use std::sync::Arc;

/// A value by which rows may refer to a key. When it is checked, the value is in the key, or no row
/// refers by it.
#[derive(Clone, Debug)]
pub(crate) struct Referred {
    pub(super) child: Arc<Table>,
    pub(super) parent: Arc<Table>,
    /// The number of the constraint among those of the child.
    pub(super) number: usize,
    pub(super) values: Vec<Datum>,
    /// True if a key that went has left it.
    pub(super) of_parent: bool,
}

impl Referred {
    /// Creates the obligation of a row that refers by some values.
    pub(crate) fn of_child(
        child: &Arc<Table>,
        parent: &Arc<Table>,
        number: usize,
        values: Vec<Datum>,
    ) -> Referred {
        let (child, parent) = (child.clone(), parent.clone());
        Referred { child, parent, number, values, of_parent: false }
    }

    fn foreign(&self) -> &ForeignKey {
        &self.child.foreign[self.number]
    }

    /// True if it is of a table that refers to itself.
    pub(super) fn is_within(&self, table: u32) -> bool {
        self.child.id == table && self.parent.id == table
    }

    /// True if its check reads a table.
    pub(super) fn concerns(&self, table: u32) -> bool {
        self.child.id == table || self.parent.id == table
    }

    /// Returns its place among obligations.
    pub(super) fn id(&self) -> Vec<u8> {
        let mut out = self.foreign().id.to_be_bytes().to_vec();
        self.values.iter().for_each(|value| key::write(value, false, &mut out));
        out
    }

    /// Returns it for a table that has changed; `None` if its constraint is gone.
    pub(super) fn with(&self, table: &Arc<Table>) -> Option<Referred> {
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

    pub(super) fn is_deferred(&self, deferral: &Deferral) -> bool {
        let foreign = self.foreign();
        foreign.is_deferrable && deferral.defers(foreign.id, foreign.is_deferred)
    }

    fn shown(&self, zone: &Zone) -> String {
        let text = |(at, value): (&u32, &Datum)| {
            let ty = self.child.columns[*at as usize].ty;
            value.to_text_in(ty, zone).unwrap_or_else(|| "null".into())
        };
        let values = self.foreign().columns.iter().zip(&self.values).map(text);
        values.collect::<Vec<_>>().join(", ")
    }

    /// Returns 23503, with times in a zone.
    pub(super) fn broken(&self, zone: &Zone) -> SqlError {
        let (child, parent, name) = (&self.child.name, &self.parent.name, &self.foreign().name);
        let (change, on, columns, why) = match self.of_parent {
            true => (
                format!("update or delete on table \"{parent}\""),
                format!(" on table \"{child}\""),
                self.foreign().key_names(&self.parent),
                format!("still referenced from table \"{child}\""),
            ),
            false => (
                format!("insert or update on table \"{child}\""),
                String::new(),
                self.foreign().names(&self.child),
                format!("not present in table \"{parent}\""),
            ),
        };
        let message = format!("{change} violates foreign key constraint \"{name}\"{on}");
        let detail = format!("Key ({})=({}) is {why}.", columns.join(", "), self.shown(zone));
        SqlError::new(state::FOREIGN_KEY, message).detail(detail).of_constraint(&self.child, name)
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
        written: Written,
        zone: &Zone,
    ) -> Result<(), SqlError> {
        if written == Written::Stays && !self.of_parent {
            return Err(self.broken(zone));
        }
        let foreign = self.foreign();
        let mut rows = Referring::with(txn, &self.child, foreign, &self.values, Wanted::Key)?;
        match rows.next(txn, Lock::Shared).await?.is_empty() {
            true => Ok(()),
            false => Err(self.broken(zone)),
        }
    }
}

/// The values that are looked up at once.
const LOOKED_UP: usize = 1000;

/// Fails with 23503 if rows refer by a value that no row of the parent has; the error has times in
/// a zone.
pub(super) async fn check_all(
    obligations: &[&Referred],
    txn: &mut dyn Transaction,
    written: Written,
    zone: &Zone,
) -> Result<(), SqlError> {
    let (mut keys, mut with_key) = (Vec::new(), Vec::new());
    for obligation in obligations {
        match obligation.key()? {
            Some(key) => {
                keys.push(key);
                with_key.push(obligation);
            }
            None => obligation.refuse_rows(txn, written, zone).await?,
        }
    }
    for (keys, obligations) in keys.chunks(LOOKED_UP).zip(with_key.chunks(LOOKED_UP)) {
        let found = txn.get_many(keys, Lock::Shared).await?;
        for ((key, obligation), there) in keys.iter().zip(obligations).zip(found) {
            match there {
                Some(_) => txn.keep_range(KeyRange::point(key.clone())),
                None => obligation.refuse_rows(txn, written, zone).await?,
            }
        }
    }
    Ok(())
}

/// Returns a value of one type as a value of another; `None` if no value of that type equals it.
pub(super) fn exactly(value: &Datum, from: Type, to: Type) -> Option<Datum> {
    let other = cast::cast(value.clone(), to, false, Local::utc()).ok()?;
    let back = cast::cast(other.clone(), from, false, Local::utc()).ok()?;
    back.order(value).is_eq().then_some(other)
}
