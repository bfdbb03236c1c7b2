//! The columns that an expression can refer to.

use super::tree::{Node, Role};
use super::types::SqlType;

/// A column that can be referred to.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The expression.
    pub node: Node,
    /// The type.
    pub of: SqlType,
}

impl Reference {
    /// Creates a reference to a column of an item of FROM.
    pub fn column(alias: &str, name: &str, of: SqlType) -> Reference {
        let node = Node::leaf(Role::Expression(of), format!("{alias}.{name}"));
        Reference { node, of }
    }
}

/// The references of one query.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The columns; in a query with groups, those that it groups by.
    pub columns: Vec<Reference>,
    /// The columns that aggregates can use, if the query has groups.
    pub aggregated: Option<Vec<Reference>>,
}

impl Level {
    fn of_type(&self, of: SqlType) -> Vec<&Reference> {
        self.columns.iter().filter(|column| column.of == of).collect()
    }
}

/// The references of a query and of those around it; the innermost is last.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    levels: Vec<Level>,
}

impl Scope {
    /// Returns the scope of a query within this one.
    pub fn with(&self, level: Level) -> Scope {
        let mut levels = self.levels.clone();
        levels.push(level);
        Scope { levels }
    }

    /// Returns the columns of this type: those of the innermost query, and those around it.
    pub fn of_type(&self, of: SqlType) -> (Vec<&Reference>, Vec<&Reference>) {
        let matching = |level| Level::of_type(level, of);
        match self.levels.split_last() {
            Some((inner, outer)) => (matching(inner), outer.iter().flat_map(matching).collect()),
            None => Default::default(),
        }
    }

    /// Returns the columns that aggregates of the innermost query can use, if it has groups.
    pub fn aggregated(&self) -> Option<&[Reference]> {
        self.levels.last()?.aggregated.as_deref()
    }
}
