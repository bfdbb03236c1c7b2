//! The views that a statement uses: how large they are where they are written out, and which of
//! them no table can outdate.

use super::View;
use crate::bind::Objects;
use crate::catalog::Planned;
use crate::error::{SqlError, state};
use crate::limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The views that a statement uses, each at each place that names it.
#[derive(Default)]
pub(crate) struct Uses {
    /// For a view, or the statement itself: the relations of its own query, and the views that this
    /// names.
    queries: BTreeMap<Option<u32>, (usize, Vec<u32>)>,
    /// The levels of the deepest views inside each other.
    pub(crate) levels: usize,
    /// The views that read no table, and the types that no column has: no shard tells that they
    /// have changed.
    pub(crate) unread: Vec<Planned>,
}

/// A view with all that it names.
#[derive(Clone, Copy)]
struct Size {
    relations: usize,
    levels: usize,
    /// True if it reads a table.
    reads: bool,
}

impl Uses {
    /// Adds the query of a view, or that of the statement itself: the relations of its own, and the
    /// views that it names.
    pub(crate) fn add(&mut self, view: Option<u32>, relations: usize, names: Vec<u32>) {
        self.queries.insert(view, (relations, names));
    }

    /// Returns the relations of the whole statement, and as many more as its views need stack for.
    /// Fails with 54001 if there are too many, and with 42P17 if a view reads itself.
    pub(crate) fn weigh(&mut self, found: &Objects) -> Result<usize, SqlError> {
        let mut sizes: BTreeMap<u32, Size> = BTreeMap::new();
        let mut waiting: Vec<&Arc<View>> = found.views.iter().collect();
        // A view comes after those that it names.
        while let Some(first) = waiting.first() {
            let (ready, rest): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(|view| {
                let (_, names) = self.query(Some(view.id));
                names.iter().all(|id| sizes.contains_key(id))
            });
            if ready.is_empty() {
                let name = &first.name;
                let message =
                    format!("infinite recursion detected in the query of view \"{name}\"");
                return Err(SqlError::new(state::INVALID_DEFINITION, message));
            }
            for view in ready {
                let size = self.size(view, found, &sizes)?;
                self.unread.extend((!size.reads).then(|| view.planned()));
                sizes.insert(view.id, size);
            }
            waiting = rest;
        }
        let (mut relations, names) = self.query(None);
        let mut levels = 0;
        for size in names.iter().map(|id| sizes[id]) {
            relations = relations.saturating_add(size.relations);
            levels = levels.max(size.levels);
        }
        self.levels = levels;
        limits::check_views(relations, self.levels)?;
        Ok(relations + self.levels)
    }

    fn query(&self, view: Option<u32>) -> (usize, &[u32]) {
        self.queries.get(&view).map_or((0, &[]), |(relations, names)| (*relations, names))
    }

    fn size(
        &self,
        view: &View,
        found: &Objects,
        sizes: &BTreeMap<u32, Size>,
    ) -> Result<Size, SqlError> {
        let (relations, names) = self.query(Some(view.id));
        let is_table =
            |id: &u32| found.tables.iter().any(|table| table.id == *id && !table.is_sequence);
        let own = Size { relations, levels: 0, reads: view.reads.iter().any(is_table) };
        let all = names.iter().map(|id| sizes[id]).fold(own, |all, inner| Size {
            relations: all.relations.saturating_add(inner.relations),
            levels: all.levels.max(inner.levels),
            reads: all.reads || inner.reads,
        });
        Ok(Size { levels: all.levels + view.parsed()?.levels, ..all })
    }
}
