//! Window functions in the naive interpreter: each row is compared with each other.

use super::naive::{Naive, Row, Values, compare, with};
use super::{ColumnId, Window};
use crate::aggregate::Groups;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::window::{Bound, Call, Exclude, Kind, Units, Work, in_range};
use std::cmp::Ordering;

impl Naive {
    pub(super) fn window(&self, window: &Window, outer: &Values) -> Result<Vec<Row>, SqlError> {
        let columns = window.input.columns();
        let rows = self.rows(&window.input, outer)?;
        let at = |id: &ColumnId| columns.iter().position(|column| column == id).expect("a column");
        let in_partition = |a: &Row, b: &Row| {
            window.partition.iter().all(|id| a[at(id)].order(&b[at(id)]).is_eq())
        };
        let mut out = Vec::with_capacity(rows.len());
        for (own, row) in rows.iter().enumerate() {
            let mut partition: Vec<(usize, &Row)> =
                rows.iter().enumerate().filter(|(_, other)| in_partition(row, other)).collect();
            partition.sort_by(|(_, a), (_, b)| compare(&window.order, &columns, a, b));
            let place = partition.iter().position(|(number, _)| *number == own).expect("itself");
            let partition: Vec<&Row> = partition.into_iter().map(|(_, row)| row).collect();
            let mut more = row.clone();
            for (_, call) in &window.calls {
                let one = One {
                    naive: self,
                    outer,
                    window,
                    columns: &columns,
                    partition: &partition,
                    place,
                };
                more.push(one.value(call)?);
            }
            out.push(more);
        }
        Ok(out)
    }
}

/// One row of a partition.
struct One<'a> {
    naive: &'a Naive,
    outer: &'a Values,
    window: &'a Window,
    columns: &'a [ColumnId],
    partition: &'a [&'a Row],
    place: usize,
}

impl One<'_> {
    fn order(&self, a: usize, b: usize) -> Ordering {
        compare(&self.window.order, self.columns, self.partition[a], self.partition[b])
    }

    fn eval(&self, expr: &Expr, place: usize) -> Result<Datum, SqlError> {
        self.naive.eval(expr, &with(self.outer, self.columns, self.partition[place]))
    }

    /// The number of different groups of peers from one row to another.
    fn distance(&self, from: usize, to: usize) -> i64 {
        let (low, high) = (from.min(to), from.max(to));
        let steps = (low..high).filter(|at| self.order(*at, at + 1).is_ne()).count() as i64;
        if from <= to { steps } else { -steps }
    }

    /// True if a row is not before the start (or not behind the end) of the frame.
    fn is_within(
        &self,
        call: &Call,
        bound: &Bound,
        other: usize,
        is_end: bool,
    ) -> Result<bool, SqlError> {
        let (offset, preceding) = match bound {
            Bound::Unbounded => return Ok(true),
            Bound::Current => (Datum::Int8(0), true),
            Bound::Preceding(offset) => (self.eval(offset, self.place)?, true),
            Bound::Following(offset) => (self.eval(offset, self.place)?, false),
        };
        let steps = offset.as_i64().unwrap_or(0);
        let limit = if preceding { -steps } else { steps };
        let distance = match call.frame.units {
            Units::Rows => other as i64 - self.place as i64,
            Units::Groups => self.distance(self.place, other),
            Units::Range if *bound == Bound::Current => self.distance(self.place, other),
            Units::Range => {
                let key = self.window.order[0];
                let at = self.columns.iter().position(|id| *id == key.column).expect("a column");
                let (value, base) = (&self.partition[other][at], &self.partition[self.place][at]);
                return Ok(match (value.is_null(), base.is_null()) {
                    (false, false) => {
                        let sub = preceding != key.descending;
                        let (sub, less) = (sub, is_end != key.descending);
                        in_range(value, base, &offset, sub, less, Zone::utc())
                    }
                    (true, true) => true,
                    (true, false) => key.nulls_first == is_end,
                    (false, true) => key.nulls_first != is_end,
                });
            }
        };
        Ok(if is_end { distance <= limit } else { distance >= limit })
    }

    /// The rows of the frame.
    fn frame(&self, call: &Call) -> Result<Vec<usize>, SqlError> {
        let mut frame = Vec::new();
        for other in 0..self.partition.len() {
            let is_peer = self.order(other, self.place).is_eq();
            let excluded = match call.frame.exclude {
                Exclude::Nothing => false,
                Exclude::CurrentRow => other == self.place,
                Exclude::Group => is_peer,
                Exclude::Ties => is_peer && other != self.place,
            };
            if !excluded
                && self.is_within(call, &call.frame.start, other, false)?
                && self.is_within(call, &call.frame.end, other, true)?
            {
                frame.push(other);
            }
        }
        Ok(frame)
    }

    fn value(&self, call: &Call) -> Result<Datum, SqlError> {
        let (function, args) = match &call.work {
            Work::Aggregate(aggregate) => {
                let aggregates = [aggregate.clone()];
                let mut groups = Groups::new(&[], &aggregates, None, Zone::utc());
                let scope = self.naive.scope();
                for place in self.frame(call)? {
                    let values = with(self.outer, self.columns, self.partition[place]);
                    groups.add(&values, &scope, &mut self.naive.facts.held())?;
                }
                let mut rows = groups.finish(&mut self.naive.facts.held())?;
                return Ok(rows.remove(0).remove(0));
            }
            Work::Function(function, args) => (function, args),
        };
        let all = 0..self.partition.len();
        let before = all.clone().filter(|at| self.order(*at, self.place).is_lt()).count();
        let not_behind = all.clone().filter(|at| self.order(*at, self.place).is_le()).count();
        let (count, place) = (self.partition.len(), self.place);
        let arg = |at: usize, place: usize| match args.get(at) {
            Some(arg) => self.eval(arg, place),
            None => Ok(Datum::Null),
        };
        Ok(match function.kind {
            Kind::RowNumber => Datum::Int8(place as i64 + 1),
            Kind::Rank => Datum::Int8(before as i64 + 1),
            Kind::DenseRank => Datum::Int8(self.distance(0, place) + 1),
            Kind::PercentRank => Datum::Float8(before as f64 / (count as f64 - 1.0).max(1.0)),
            Kind::CumeDist => Datum::Float8(not_behind as f64 / count as f64),
            Kind::Ntile => {
                let parts = arg(0, 0)?.as_i64().expect("a number") as usize;
                // Deals the rows out one by one, and counts those before the row.
                let mut sizes = vec![0; parts];
                (0..count).for_each(|at| sizes[at % parts] += 1);
                let mut left = place;
                let part = sizes.iter().position(|size| {
                    let is_it = left < *size;
                    left = left.saturating_sub(*size);
                    is_it
                });
                Datum::Int4(part.expect("a part") as i32 + 1)
            }
            Kind::Lag | Kind::Lead => {
                let by = if args.len() > 1 { arg(1, place)?.as_i64() } else { Some(1) };
                let Some(by) = by else { return Ok(Datum::Null) };
                let other = place as i64 + if function.kind == Kind::Lag { -by } else { by };
                match (0..count as i64).contains(&other) {
                    true => arg(0, other as usize)?,
                    false => arg(2, place)?,
                }
            }
            Kind::First | Kind::Last | Kind::Nth => {
                let frame = self.frame(call)?;
                let found = match function.kind {
                    Kind::First => frame.first(),
                    Kind::Last => frame.last(),
                    _ => frame.get(arg(1, place)?.as_i64().expect("a number") as usize - 1),
                };
                found.map_or(Ok(Datum::Null), |at| arg(0, *at))?
            }
        })
    }
}
