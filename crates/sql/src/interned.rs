//! Types of a database as values: each refers to one version of its descriptor, which the process
//! keeps once it has read it, so that a type is copied freely.
//!
//! Versions are never given back. Their number is that of changes of types, of those that were
//! rolled back, and of the tables whose row types statements have named.

use crate::catalog::Planned;
use crate::system::quoted;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A type as one version of its descriptor has it: `T` is that, and what follows from it. Two are
/// equal if they are versions of one type.
pub struct Interned<T: 'static>(&'static Kept<T>);

/// A version, which the process keeps.
struct Kept<T> {
    id: u32,
    array: u32,
    version: u64,
    /// The name as SQL writes it.
    shown: String,
    /// The name of the type of arrays, as SQL writes it.
    shown_array: String,
    known: T,
}

impl<T> Clone for Interned<T> {
    fn clone(&self) -> Interned<T> {
        *self
    }
}

impl<T> Copy for Interned<T> {}

impl<T> PartialEq for Interned<T> {
    fn eq(&self, other: &Interned<T>) -> bool {
        self.0.id == other.0.id
    }
}

impl<T> Eq for Interned<T> {}

impl<T> Hash for Interned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl<T> fmt::Debug for Interned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

impl<T> Interned<T> {
    /// Returns the object id of the type.
    pub const fn id(self) -> u32 {
        self.0.id
    }

    /// Returns the object id of the type of its arrays.
    pub const fn array_id(self) -> u32 {
        self.0.array
    }

    /// Returns the name as SQL writes it: in quotes if it needs them.
    pub const fn shown(self) -> &'static str {
        self.0.shown.as_str()
    }

    /// Returns the name of the type of its arrays, as SQL writes it.
    pub const fn shown_array(self) -> &'static str {
        self.0.shown_array.as_str()
    }

    /// True if another is the same version of the same type.
    pub(crate) fn is_version(self, other: Interned<T>) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    /// Returns what is known of it.
    pub(crate) const fn known(self) -> &'static T {
        &self.0.known
    }

    pub(crate) fn planned(self) -> Planned {
        Planned { id: self.0.id, version: self.0.version, statistics: 0 }
    }
}

/// The names of a version.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'n> {
    pub(crate) id: u32,
    /// The id of the type of its arrays.
    pub(crate) array: u32,
    pub(crate) version: u64,
    pub(crate) name: &'n str,
}

/// The versions of the types of one kind that the process has read. Databases, and transactions
/// that did not commit, have versions of one number.
pub(crate) struct Registry<T: 'static>(Mutex<HashMap<(u32, u64), Vec<Interned<T>>>>);

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry(Mutex::default())
    }
}

impl<T> Registry<T> {
    fn versions(&self) -> MutexGuard<'_, HashMap<(u32, u64), Vec<Interned<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the version of a number that is the wanted one, if it is kept.
    pub(crate) fn find(
        &self,
        (id, version): (u32, u64),
        is_it: impl Fn(&T) -> bool,
    ) -> Option<Interned<T>> {
        self.versions().get(&(id, version))?.iter().copied().find(|it| is_it(it.known()))
    }

    /// Keeps a version. It is kept once, also if several threads read it at once.
    pub(crate) fn keep(
        &self,
        of: Identity<'_>,
        known: T,
        is_same: fn(&T, &T) -> bool,
    ) -> Interned<T> {
        let Identity { id, array, version, name } = of;
        let mut versions = self.versions();
        let versions = versions.entry((id, version)).or_default();
        if let Some(found) = versions.iter().find(|it| is_same(it.known(), &known)) {
            return *found;
        }
        let shown = quoted(name);
        let shown_array = format!("{shown}[]");
        let kept = Kept { id, array, version, shown, shown_array, known };
        let new = Interned(&*Box::leak(Box::new(kept)));
        versions.push(new);
        new
    }
}
