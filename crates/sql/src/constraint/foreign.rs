//! FOREIGN KEY: each row of one table has values in some columns that a row of another one has in
//! its key, or NULL.

use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::system::quoted;
use minicbor::{Decode, Encode};

/// A FOREIGN KEY constraint, in the descriptor of the referencing table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ForeignKey {
    /// The id, in `pg_constraint`.
    #[n(0)]
    pub id: u32,
    /// The name, which no other constraint of the table has.
    #[n(1)]
    pub name: String,
    /// The numbers of the referencing columns.
    #[n(2)]
    pub columns: Vec<u32>,
    /// The id of the referenced table.
    #[n(3)]
    pub parent: u32,
    /// The numbers of the columns that they refer to, in the same order.
    #[n(4)]
    pub key: Vec<u32>,
    /// The action on referencing rows when the row that they refer to is deleted.
    #[n(5)]
    pub on_delete: Action,
    /// The action when its key changes.
    #[n(6)]
    pub on_update: Action,
    /// MATCH FULL: either all columns are NULL, or none.
    #[n(7)]
    pub is_full: bool,
    /// DEFERRABLE
    #[n(8)]
    pub is_deferrable: bool,
    /// INITIALLY DEFERRED
    #[n(9)]
    pub is_deferred: bool,
    /// True if it is known to hold for all rows: not so behind NOT VALID.
    #[n(10)]
    pub is_validated: bool,
}

/// A referential action.
#[expect(clippy::enum_variant_names, reason = "the standard says NO ACTION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Action {
    /// The statement fails if rows still refer to it in the end.
    #[n(0)]
    NoAction,
    /// The statement fails at once.
    #[n(1)]
    Restrict,
    /// They are deleted, or take the new key.
    #[n(2)]
    Cascade,
    /// Their columns become NULL.
    #[n(3)]
    SetNull,
    /// Their columns take their defaults.
    #[n(4)]
    SetDefault,
}

impl Action {
    /// Returns its code in `pg_constraint`.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Action::NoAction => "a",
            Action::Restrict => "r",
            Action::Cascade => "c",
            Action::SetNull => "n",
            Action::SetDefault => "d",
        }
    }

    /// Returns its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::NoAction => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }
}

impl ForeignKey {
    /// Returns the values that a row of the referencing table refers by; `None` if it refers to
    /// nothing.
    pub(crate) fn values(&self, row: &[Datum]) -> Option<Vec<Datum>> {
        let value = |column: &u32| {
            let value = &row[*column as usize];
            (!value.is_null()).then(|| value.clone())
        };
        self.columns.iter().map(value).collect()
    }

    /// True if an action sets its columns to their defaults.
    pub(crate) fn sets_defaults(&self) -> bool {
        self.on_delete == Action::SetDefault || self.on_update == Action::SetDefault
    }

    /// Fails with 23503 if MATCH FULL forbids a row: some of its columns are NULL.
    pub(crate) fn check_full(&self, table: &Table, row: &[Datum]) -> Result<(), SqlError> {
        let nulls = self.columns.iter().filter(|at| row[**at as usize].is_null()).count();
        if !self.is_full || nulls == 0 || nulls == self.columns.len() {
            return Ok(());
        }
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, self.name
        );
        let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
        Err(SqlError::new(state::FOREIGN_KEY, message)
            .detail(detail)
            .of_constraint(table, &self.name))
    }

    /// Returns the names of the referencing columns.
    pub(crate) fn names<'t>(&self, table: &'t Table) -> Vec<&'t str> {
        self.columns.iter().map(|at| table.columns[*at as usize].name.as_str()).collect()
    }

    /// Returns the names of the referenced columns.
    pub(crate) fn key_names<'t>(&self, parent: &'t Table) -> Vec<&'t str> {
        self.key.iter().map(|at| parent.columns[*at as usize].name.as_str()).collect()
    }

    /// Returns the definition, as `pg_get_constraintdef` does.
    pub(crate) fn definition(&self, table: &Table, parent: &Table, parent_name: &str) -> String {
        let list = |names: Vec<&str>| names.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
        let mut out = format!(
            "FOREIGN KEY ({}) REFERENCES {parent_name}({})",
            list(self.names(table)),
            list(self.key_names(parent))
        );
        if self.is_full {
            out += " MATCH FULL";
        }
        for (event, action) in [("UPDATE", self.on_update), ("DELETE", self.on_delete)] {
            if action != Action::NoAction {
                out += &format!(" ON {event} {}", action.name());
            }
        }
        if self.is_deferrable {
            out += " DEFERRABLE";
        }
        if self.is_deferred {
            out += " INITIALLY DEFERRED";
        }
        if !self.is_validated {
            out += " NOT VALID";
        }
        out
    }
}
