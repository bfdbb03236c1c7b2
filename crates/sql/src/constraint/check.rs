//! CHECK: a condition that is false for no row.

use crate::bind::Binder;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Facts, Scope};
use crate::index::{self, Stored};
use crate::parse;
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// A CHECK constraint. The condition is immutable, so that a row that was checked stays valid; as
/// in PostgreSQL, only the zone of the session that writes a row may decide.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Check {
    /// The id, in `pg_constraint`.
    #[n(0)]
    pub id: u32,
    /// The name, which no other constraint of the table has.
    #[n(1)]
    pub name: String,
    /// The text of the condition.
    #[n(2)]
    pub text: String,
    /// True if it is known to hold for all rows: not so behind NOT VALID.
    #[n(3)]
    pub is_validated: bool,
    #[cbor(skip)]
    bound: Option<Expr>,
    /// True if a literal would be another time in another zone.
    #[cbor(skip)]
    pub(crate) reads_zone: bool,
}

impl Check {
    pub(crate) fn new(id: u32, name: String, text: String, is_validated: bool) -> Check {
        Check { id, name, text, is_validated, bound: None, reads_zone: false }
    }

    /// Binds the condition to a table. Must be called after every change of it or of the table's
    /// columns.
    pub(crate) fn bind(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let mut binder = Binder::stored();
        binder.add(table.clone(), &table.name);
        binder.begin_clause("check constraints", false);
        let condition = binder.bind_bool(&parse::expression(&self.text)?, "CHECK")?;
        if condition.has_subquery() {
            return Err(SqlError::unsupported("a subquery in a check constraint"));
        }
        index::refuse_mutable(&condition, Stored::Check, table)?;
        self.reads_zone = binder.reads_zone;
        self.bound = Some(condition);
        Ok(())
    }

    /// Returns the numbers of the columns that the condition names, in its order.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        if let Some(condition) = &self.bound {
            condition.walk(&mut |part| match part {
                Expr::Column(at) if !columns.contains(at) => columns.push(*at),
                _ => {}
            });
        }
        columns
    }

    /// Returns the definition, as `pg_get_constraintdef` does, with the condition as it is shown.
    pub(crate) fn definition(&self, condition: &str) -> String {
        let not_valid = if self.is_validated { "" } else { " NOT VALID" };
        format!("CHECK ({condition}){not_valid}")
    }

    /// True unless the condition is false for a row, in the session's zone.
    pub(crate) fn holds(&self, row: &[Datum], facts: &Facts) -> Result<bool, SqlError> {
        let scope = Scope { session: facts, ..Scope::immutable() };
        match &self.bound {
            Some(condition) => Ok(condition.eval(row, &scope)? != Datum::Bool(false)),
            None => Err(SqlError::corrupted(format!("the constraint \"{}\"", self.name))),
        }
    }
}

impl Table {
    /// Fails with 23514 if a row violates a CHECK constraint. `shown` renders the row.
    pub(crate) fn check(
        &self,
        row: &[Datum],
        facts: &Facts,
        shown: impl Fn() -> String,
    ) -> Result<(), SqlError> {
        for check in &self.checks {
            if !check.holds(row, facts)? {
                let message = format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    self.name, check.name
                );
                let detail = format!("Failing row contains ({}).", shown());
                return Err(SqlError::new(state::CHECK, message)
                    .detail(detail)
                    .of_constraint(self, &check.name));
            }
        }
        Ok(())
    }
}
