//! The rows of one aggregate in one group: FILTER, DISTINCT and ORDER BY before the accumulator.

use super::ordered::Sorted;
use super::{Accumulator, Aggregate, OrderKey, Work};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::key;
use crate::memory::{Held, weight};
use crate::record::similar::Similar;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Compares the values of sort keys.
pub(crate) fn compare_keys(by: &[OrderKey], a: &[Datum], b: &[Datum]) -> Ordering {
    for (key, (a, b)) in by.iter().zip(a.iter().zip(b)) {
        let order = match (a.is_null(), b.is_null()) {
            (false, false) if key.descending => b.order(a),
            (false, false) => a.order(b),
            (a, b) if key.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// An aggregate of one group, while rows are added.
pub(crate) enum Input {
    /// Rows that are added as they come.
    Stream(Box<dyn Accumulator>),
    /// Rows that are sorted first: their sort keys, and their arguments.
    Sort(Vec<(Vec<Datum>, Vec<Datum>)>),
    /// Different rows by their arguments' keys, which are also their order without ORDER BY.
    Distinct(BTreeMap<Vec<u8>, (Vec<Datum>, Vec<Datum>)>),
    /// The direct arguments, of the first row, and the values of WITHIN GROUP.
    Within(Option<Vec<Datum>>, Vec<Vec<Datum>>),
}

/// The approximate memory of an input without rows, in bytes.
pub(super) const EMPTY_BYTES: usize = size_of::<Input>() + 64;

impl Input {
    pub(crate) fn new(aggregate: &Aggregate, zone: &Zone) -> Input {
        match aggregate.function.start(aggregate.ty, zone) {
            None => Input::Within(None, Vec::new()),
            Some(_) if aggregate.distinct => Input::Distinct(BTreeMap::new()),
            Some(_) if !aggregate.order.is_empty() => Input::Sort(Vec::new()),
            Some(accumulator) => Input::Stream(accumulator),
        }
    }

    /// Adds a row. `args` is a buffer.
    pub(crate) fn add(
        &mut self,
        aggregate: &Aggregate,
        row: &[Datum],
        scope: &Scope<'_>,
        held: &mut Held,
        args: &mut Vec<Datum>,
    ) -> Result<(), SqlError> {
        if let Some(filter) = &aggregate.filter
            && !filter.holds(row, scope)?
        {
            return Ok(());
        }
        args.clear();
        if let Input::Within(direct, values) = self {
            if direct.is_none() {
                for arg in &aggregate.args {
                    args.push(arg.eval(row, scope)?);
                }
                *direct = Some(args.clone());
            }
            let keys = sort_keys(aggregate, row, scope)?;
            if !(aggregate.function.strict && keys.iter().any(Datum::is_null)) {
                held.add(weight(&keys))?;
                values.push(keys);
            }
            return Ok(());
        }
        for arg in &aggregate.args {
            let value = arg.eval(row, scope)?;
            if aggregate.function.strict && value.is_null() {
                return Ok(());
            }
            args.push(value);
        }
        match self {
            Input::Stream(accumulator) => accumulator.add(args, held)?,
            Input::Sort(rows) => {
                let (keys, args) = (sort_keys(aggregate, row, scope)?, args.clone());
                held.add(weight(&keys) + weight(&args))?;
                rows.push((keys, args));
            }
            Input::Distinct(rows) => {
                let mut bytes = Vec::new();
                args.iter().for_each(|arg| key::write(arg, false, &mut bytes));
                if let Entry::Vacant(place) = rows.entry(bytes) {
                    let (keys, args) = (sort_keys(aggregate, row, scope)?, args.clone());
                    held.add(place.key().len() + weight(&keys) + weight(&args) + 48)?;
                    place.insert((keys, args));
                }
            }
            Input::Within(..) => {}
        }
        Ok(())
    }

    /// Fails with 42804 if rows are to be sorted or made distinct that do not compare.
    fn check_similar(&self) -> Result<(), SqlError> {
        let (mut keys, mut args) = (Similar::default(), Similar::default());
        match self {
            Input::Stream(_) => Ok(()),
            Input::Within(_, rows) => rows.iter().try_for_each(|row| keys.check(row)),
            Input::Sort(rows) => rows.iter().try_for_each(|(row, _)| keys.check(row)),
            Input::Distinct(rows) => rows.values().try_for_each(|(row, of)| {
                keys.check(row)?;
                args.check(of)
            }),
        }
    }

    /// Returns the aggregate's value.
    pub(crate) fn finish(
        self,
        aggregate: &Aggregate,
        held: &mut Held,
        zone: &Zone,
    ) -> Result<Datum, SqlError> {
        self.check_similar()?;
        let by = &aggregate.order;
        let mut rows: Vec<_> = match self {
            Input::Stream(accumulator) => return accumulator.value(),
            Input::Within(direct, mut values) => {
                values.sort_by(|a, b| compare_keys(by, a, b));
                let sorted = Sorted { rows: &values, by };
                return match aggregate.function.work {
                    Work::Ordered(_, kernel) | Work::Hypothetical(kernel) => {
                        kernel(&direct.unwrap_or_default(), sorted)
                    }
                    Work::Rows(_) => Ok(Datum::Null),
                };
            }
            Input::Sort(rows) => rows,
            Input::Distinct(rows) => rows.into_values().collect(),
        };
        rows.sort_by(|(a, _), (b, _)| compare_keys(by, a, b));
        let Some(mut accumulator) = aggregate.function.start(aggregate.ty, zone) else {
            return Ok(Datum::Null);
        };
        for (_, args) in &rows {
            accumulator.add(args, held)?;
        }
        accumulator.value()
    }
}

fn sort_keys(
    aggregate: &Aggregate,
    row: &[Datum],
    scope: &Scope<'_>,
) -> Result<Vec<Datum>, SqlError> {
    aggregate.order.iter().map(|key| key.expr.eval(row, scope)).collect()
}
