//! The key whose conflicts ON CONFLICT resolves.

use super::target::target_columns;
use crate::access::conjuncts;
use crate::carried;
use crate::catalog::Table;
use crate::constraint::missing;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::index::{self, Index};
use crate::names;
use crate::parse;
use sqlparser::ast;
use std::sync::Arc;

/// A key that is named by expressions over a row of the table, or with a condition.
struct Wanted {
    keys: Vec<Expr>,
    condition: Option<Expr>,
}

impl Wanted {
    fn bind(table: &Arc<Table>, key: &str, condition: Option<&str>) -> Result<Wanted, SqlError> {
        // A list of one is a list, too.
        let ast::Expr::Tuple(mut parts) = parse::expression(&format!("({key}, NULL)"))? else {
            return Err(no_key());
        };
        parts.pop();
        let keys = parts.iter().map(|part| Ok(index::bound_key(table, part)?.0));
        let keys = keys.collect::<Result<_, SqlError>>()?;
        let condition = condition.map(|text| index::bound_condition(table, text)).transpose()?;
        Ok(Wanted { keys, condition: condition.map(|(condition, _)| condition) })
    }

    /// True if an index has these keys, in any order, and entries of all rows of the condition.
    fn fits(&self, index: &Index) -> bool {
        let keys = index.keys();
        let has_keys = keys.iter().all(|key| self.keys.contains(key))
            && self.keys.iter().all(|key| keys.contains(key));
        let (mut given, mut demanded) = (Vec::new(), Vec::new());
        self.condition.iter().for_each(|condition| conjuncts(condition, &mut given));
        index.condition().iter().for_each(|condition| conjuncts(condition, &mut demanded));
        has_keys && demanded.iter().all(|part| given.contains(part))
    }
}

fn no_key() -> SqlError {
    SqlError::new(
        state::INVALID_COLUMN_REFERENCE,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}

/// Returns the unique key that ON CONFLICT names: `Some(None)` is the primary key.
pub(super) fn conflict_index(
    table: &Arc<Table>,
    target: Option<&ast::ConflictTarget>,
) -> Result<Option<Option<usize>>, SqlError> {
    let keys = || {
        table.primary.iter().map(|primary| (None, primary)).chain(
            table
                .indexes
                .iter()
                .enumerate()
                .filter(|(_, index)| index.unique && index.building.is_none())
                .map(|(at, index)| (Some(at), index)),
        )
    };
    // PostgreSQL refuses a constraint that is checked later, named or not.
    let named = |index: &Index| match target {
        None => true,
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            names::simple(name).is_ok_and(|name| index.name == name)
        }
        Some(ast::ConflictTarget::Columns(columns)) => {
            // Those that are carried are bound below.
            let columns = target_columns(table, columns).unwrap_or_default();
            let columns: Vec<u32> = columns.into_iter().map(|column| column as u32).collect();
            index.has_columns(&columns)
        }
    };
    if table.indexes.iter().any(|index| index.deferrable.is_some() && named(index)) {
        let message = "ON CONFLICT does not support deferrable unique constraints/exclusion \
                       constraints as arbiters";
        return Err(SqlError::new(state::NOT_IN_STATE, message));
    }
    match target {
        None => Ok(None),
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = names::simple(name)?;
            let found = keys()
                .find(|(_, index)| index.name == name && index.predicate.is_none())
                .map(|(at, _)| at);
            found.map(Some).ok_or_else(|| missing(&table.name, &name))
        }
        Some(ast::ConflictTarget::Columns(columns))
            if let Some((key, condition)) = carried::conflict_key(columns) =>
        {
            let wanted = Wanted::bind(table, key, condition)?;
            // One that holds for all rows comes first.
            let fits = |(_, index): &(Option<usize>, &Index)| wanted.fits(index);
            let found = keys().filter(fits).min_by_key(|(_, index)| index.predicate.is_some());
            found.map(|(at, _)| Some(at)).ok_or_else(no_key)
        }
        Some(ast::ConflictTarget::Columns(columns)) => {
            let mut wanted = target_columns(table, columns)?;
            wanted.sort_unstable();
            let found = keys().filter(|(_, index)| index.predicate.is_none()).find(|(_, index)| {
                let mut columns: Vec<usize> =
                    index.columns.iter().map(|part| part.column as usize).collect();
                columns.sort_unstable();
                columns == wanted
            });
            found.map(|(at, _)| Some(at)).ok_or_else(no_key)
        }
    }
}
