//! The steps of building an index on a table in use (see [`crate::backfill`]).

use super::index::{declare_index, remove_index};
use super::{Ddl, change, stored};
use crate::backfill::Step;
use crate::catalog::{self, Table};
use crate::engine::Engine;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::type_names;
use crate::work::Work;
use meridian_txn::Lock;

/// An index that is being built.
#[derive(Clone, Debug)]
pub(crate) struct Building {
    pub(crate) table: u32,
    /// The version of the table when it was last read.
    pub(crate) version: u64,
    /// The name; `number` identifies this build of the index.
    pub(crate) name: String,
    pub(crate) number: u32,
}

impl Building {
    /// Returns the position of the index in a table.
    pub(crate) fn find(&self, table: &Table) -> Option<usize> {
        table.indexes.iter().position(|index| index.building == Some(self.number))
    }
}

/// Runs one step of building an index on a table in use (see [`crate::backfill`]). Returns `None`
/// without a change if the index to declare exists, with IF NOT EXISTS; if the index was dropped;
/// or if the table to publish it in has changed since the index was filled.
pub(crate) async fn step(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    step: &Step<'_>,
) -> Result<Option<Building>, SqlError> {
    let database = engine.database().clone();
    let path = facts.search_path();
    let cx = &mut Ddl::of(engine, &*database, work, facts, &path);
    cx.clean = true;
    let building = match step {
        Step::Declare(create) => {
            cx.know_types(type_names::in_expressions(*create)).await?;
            let declared = declare_index(cx, create).await;
            let types = cx.types.iter().map(|(_, ty)| *ty);
            let declared = declared.map_err(|error| stored::foreign_type(error, types));
            let Some((old, mut table)) = declared? else {
                return Ok(None);
            };
            let Some(index) = table.indexes.last_mut() else { return Ok(None) };
            let (name, number) = (index.name.clone(), index.id);
            index.building = Some(number);
            let building = Building { table: table.id, version: table.version + 1, name, number };
            change(cx, &old, table)?;
            return Ok(Some(building));
        }
        Step::Publish(building) | Step::Withdraw(building) => building,
    };
    let old =
        catalog::table_by_id(cx.txn, &cx.engine.cache, building.table, false, Lock::Exclusive)
            .await?;
    let Some(old) = old else { return Ok(None) };
    let mut table = (*old).clone();
    let Some(at) = building.find(&table) else { return Ok(None) };
    match step {
        Step::Publish(_) if table.version != building.version => return Ok(None),
        Step::Withdraw(_) => remove_index(cx, &mut table, at)?,
        _ => table.indexes[at].building = None,
    }
    change(cx, &old, table)?;
    Ok(Some((*building).clone()))
}
