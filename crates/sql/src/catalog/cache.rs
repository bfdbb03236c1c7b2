//! The descriptors that a node knows, shared by all sessions of a database.

use super::{Object, Table};
use meridian_clock::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// An object as a plan was made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) id: u32,
    pub(crate) version: u64,
    /// The number of a table's statistics; 0 without any.
    pub(crate) statistics: u64,
}

/// Descriptors by id. Only committed ones are cached; they may be outdated.
#[derive(Default)]
pub(crate) struct Cache {
    objects: Mutex<BTreeMap<u32, Known>>,
}

struct Known {
    object: Object,
    /// The oldest snapshot at which the descriptor is known to be valid.
    since: Timestamp,
}

impl Cache {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.objects.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn get(&self, planned: Planned) -> Option<Object> {
        self.objects()
            .get(&planned.id)
            .filter(|known| known.object.planned() == planned)
            .map(|known| known.object.clone())
    }

    /// Returns the newest known version of an object.
    pub(crate) fn newest(&self, id: u32) -> Option<Object> {
        self.objects().get(&id).map(|known| known.object.clone())
    }

    /// Returns the newest known version of an object, and the number of its statistics, if the
    /// version was valid at the snapshot.
    pub(crate) fn planned(&self, id: u32, at: Option<Timestamp>) -> Option<Planned> {
        let held = |known: &&Known| at.is_none_or(|at| known.since <= at);
        self.objects().get(&id).filter(held).map(|known| known.object.planned())
    }

    /// Returns an object whose newest known version began after a snapshot.
    pub(crate) fn changed_since(&self, id: u32, at: Timestamp) -> Option<Object> {
        self.objects().get(&id).filter(|known| known.since > at).map(|known| known.object.clone())
    }

    /// Forgets an object that has changed.
    pub(crate) fn forget(&self, id: u32) {
        self.objects().remove(&id);
    }

    /// Forgets all objects.
    pub(crate) fn clear(&self) {
        self.objects().clear();
    }

    /// Finds a cached table.
    pub(crate) fn find(&self, which: impl Fn(&Table) -> bool) -> Option<Arc<Table>> {
        let objects = self.objects();
        objects.values().filter_map(|known| known.object.table()).find(|it| which(it)).cloned()
    }

    pub(super) fn put(&self, object: Object, since: Timestamp) {
        let mut objects = self.objects();
        let new = object.planned();
        match objects.get_mut(&new.id) {
            Some(known) if known.object.planned().version == new.version => {
                known.since = known.since.min(since);
                if known.object.planned().statistics < new.statistics {
                    known.object = object;
                }
            }
            Some(known) if known.object.planned().version > new.version => {}
            _ => drop(objects.insert(new.id, Known { object, since })),
        }
    }
}
