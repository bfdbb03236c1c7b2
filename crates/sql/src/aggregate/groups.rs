//! The groups of a running query.

use super::Aggregate;
use super::input::{EMPTY_BYTES, Input};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::key;
use crate::logical::GroupingSets;
use crate::memory::{Held, weight};
use crate::record::similar::Similar;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The groups of a running query, in the order of their keys, set by set.
pub(crate) struct Groups<'a> {
    keys: &'a [Expr],
    aggregates: &'a [Aggregate],
    sets: Option<&'a GroupingSets>,
    /// The session's zone.
    zone: &'a Zone,
    groups: BTreeMap<(usize, Vec<u8>), Group>,
    /// A buffer for the arguments of an aggregate.
    args: Vec<Datum>,
    similar: Similar,
}

/// The keys of a group, and its aggregates.
type Group = (Vec<Datum>, Vec<Input>);

impl<'a> Groups<'a> {
    pub(crate) fn new(
        keys: &'a [Expr],
        aggregates: &'a [Aggregate],
        sets: Option<&'a GroupingSets>,
        zone: &'a Zone,
    ) -> Self {
        let mut groups = BTreeMap::new();
        // A set without keys has its group even if there are no rows.
        let sizes = match sets {
            None => vec![keys.len()],
            Some(sets) => sets.sets.iter().map(Vec::len).collect(),
        };
        for (set, _) in sizes.iter().enumerate().filter(|(_, size)| **size == 0) {
            let values = vec![Datum::Null; keys.len()];
            let inputs = aggregates.iter().map(|aggregate| Input::new(aggregate, zone));
            groups.insert((set, Vec::new()), (values, inputs.collect()));
        }
        Groups {
            keys,
            aggregates,
            sets,
            zone,
            groups,
            args: Vec::new(),
            similar: Similar::default(),
        }
    }

    /// Adds a row to its group, of each set.
    pub(crate) fn add(
        &mut self,
        row: &[Datum],
        scope: &Scope<'_>,
        held: &mut Held,
    ) -> Result<(), SqlError> {
        let mut values = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            values.push(key.eval(row, scope)?);
        }
        self.similar.check(&values)?;
        let Some(sets) = self.sets else {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| key::write(value, false, &mut bytes));
            return self.add_to((0, bytes), values, row, scope, held);
        };
        for (number, set) in sets.sets.iter().enumerate() {
            let mut bytes = Vec::new();
            let mut kept = vec![Datum::Null; values.len()];
            for at in set {
                key::write(&values[*at], false, &mut bytes);
                kept[*at] = values[*at].clone();
            }
            self.add_to((number, bytes), kept, row, scope, held)?;
        }
        Ok(())
    }

    fn add_to(
        &mut self,
        key: (usize, Vec<u8>),
        values: Vec<Datum>,
        row: &[Datum],
        scope: &Scope<'_>,
        held: &mut Held,
    ) -> Result<(), SqlError> {
        let (_, inputs) = match self.groups.entry(key) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(place) => {
                let states = self.aggregates.len() * EMPTY_BYTES;
                held.add(place.key().1.len() + weight(&values) + states + 64)?;
                let new = |aggregate| Input::new(aggregate, self.zone);
                place.insert((values, self.aggregates.iter().map(new).collect()))
            }
        };
        for (aggregate, input) in self.aggregates.iter().zip(inputs) {
            input.add(aggregate, row, scope, held, &mut self.args)?;
        }
        Ok(())
    }

    /// The groups as rows: keys, then marks of grouping sets, then aggregates.
    pub(crate) fn finish(self, held: &mut Held) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut rows = Vec::with_capacity(self.groups.len());
        for ((set, _), (mut row, inputs)) in self.groups {
            if let Some(sets) = self.sets {
                row.extend(sets.marks.iter().map(|(_, marks)| Datum::Int4(marks[set])));
            }
            for (aggregate, input) in self.aggregates.iter().zip(inputs) {
                row.push(input.finish(aggregate, held, self.zone)?);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}
