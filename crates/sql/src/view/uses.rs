//! The views and the functions that a statement uses: how large they are where they are written
//! out, and which of them no table can outdate.

use crate::bind::Objects;
use crate::catalog::Planned;
use crate::error::{SqlError, state};
use crate::limits;
use crate::stack;
use std::collections::BTreeMap;

/// The views and the functions that a statement uses, each at each place that names it.
#[derive(Default)]
pub(crate) struct Uses {
    /// For a view or a function, or the statement itself: the relations of its own query, and the
    /// views and functions that this names.
    queries: BTreeMap<Option<u32>, (usize, Vec<u32>)>,
    /// The levels of the deepest views and functions inside each other.
    pub(crate) levels: usize,
    /// The views that read no table, the functions, and the types that no column has: no shard
    /// tells that they have changed.
    pub(crate) unread: Vec<Planned>,
}

/// A view or a function with all that it names.
#[derive(Clone, Copy)]
struct Size {
    levels: usize,
    /// True if it reads a table.
    reads: bool,
}

/// A walk through what a statement uses.
struct Walk<'a> {
    found: &'a Objects,
    /// The views and functions around the place.
    around: Vec<u32>,
    /// The relations so far.
    relations: usize,
    unread: Vec<Planned>,
}

impl Uses {
    /// Adds the query of a view or a function, or that of the statement itself: the relations of
    /// its own, and the views and functions that it names.
    pub(crate) fn add(&mut self, of: Option<u32>, relations: usize, names: Vec<u32>) {
        self.queries.insert(of, (relations, names));
    }

    /// Returns the relations of the whole statement, and as many more as its views and functions
    /// need stack for. Fails with 54001 if there are too many, and with 42P17 if a view reads
    /// itself.
    pub(crate) fn weigh(&mut self, found: &Objects) -> Result<usize, SqlError> {
        let (relations, names) = self.query(None);
        let (around, unread) = (Vec::new(), Vec::new());
        let mut walk = Walk { found, around, relations, unread };
        let mut levels = 0;
        for id in names {
            levels = levels.max(self.walk(*id, &mut walk)?.levels);
        }
        self.levels = levels;
        let Walk { relations, unread, .. } = walk;
        for planned in unread {
            if self.unread.iter().all(|known| known.id != planned.id) {
                self.unread.push(planned);
            }
        }
        limits::check_views(relations, self.levels)?;
        Ok(relations + self.levels)
    }

    fn query(&self, of: Option<u32>) -> (usize, &[u32]) {
        self.queries.get(&of).map_or((0, &[]), |(relations, names)| (*relations, names))
    }

    /// Adds a view or a function to a walk.
    fn walk(&self, id: u32, walk: &mut Walk<'_>) -> Result<Size, SqlError> {
        let found = walk.found;
        let view = found.views.iter().find(|view| view.id == id);
        if walk.around.contains(&id) {
            // A call of a function inside itself is refused where it is bound: it may be one of
            // another function of the name.
            return match view {
                None => Ok(Size { levels: 0, reads: false }),
                Some(view) => {
                    let name = &view.name;
                    let message =
                        format!("infinite recursion detected in the query of view \"{name}\"");
                    Err(SqlError::new(state::INVALID_DEFINITION, message))
                }
            };
        }
        let (relations, names) = self.query(Some(id));
        // The arguments of a function are a relation, too.
        walk.relations += relations + usize::from(view.is_none());
        limits::check_views(walk.relations, 0)?;
        let is_table =
            |id: &u32| found.tables.iter().any(|table| table.id == *id && !table.is_sequence);
        let reads = view.is_some_and(|view| view.reads.iter().any(is_table));
        let mut size = Size { levels: 0, reads };
        walk.around.push(id);
        for inner in names {
            let inner = stack::level(|| self.walk(*inner, walk))?;
            size.levels = size.levels.max(inner.levels);
            size.reads |= inner.reads;
        }
        walk.around.pop();
        let own = match view {
            Some(view) => view.parsed()?.levels,
            None => {
                let mut functions = found.functions.iter().map(|(_, function)| function);
                let function = functions.find(|function| function.id == id);
                function.and_then(|it| it.parsed().ok()).map_or(0, |parsed| parsed.levels)
            }
        };
        if let Some(view) = view
            && !size.reads
        {
            walk.unread.push(view.planned());
        }
        Ok(Size { levels: size.levels + own, ..size })
    }
}
