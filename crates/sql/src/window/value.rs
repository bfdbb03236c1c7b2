//! The values of a window function over a sorted partition, row by row.
//!
//! An aggregate goes on from the row before while the frame only grows at its end. For any other
//! frame, the aggregate starts again: each row of a moving frame costs the length of the frame.

use super::frame::{self, Bounds, Measure, Peers};
use super::{Call, Frame, Kind, Units, Work};
use crate::aggregate::{Accumulator, Aggregate};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::memory::{Held, weight};
use crate::numeric::Numeric;
use crate::physical::SortBy;
use std::ops::Range;

/// The offsets of a call's frame, which are the same for all rows of a query.
pub(crate) struct Offsets(Bounds);

impl Offsets {
    /// Evaluates the offsets; fails for those that are NULL or negative.
    pub(crate) fn of(frame: &Frame, scope: &Scope<'_>) -> Result<Offsets, SqlError> {
        let value = |offset: Option<&Expr>, which: &str| {
            let Some(offset) = offset else { return Ok(Datum::Null) };
            let value = offset.eval(&[], scope)?;
            if value.is_null() {
                let message = format!("frame {which} offset must not be null");
                return Err(SqlError::new(state::NULL_NOT_ALLOWED, message));
            }
            let negative = match &value {
                Datum::Float8(x) => x.is_nan() || *x < 0.0,
                Datum::Numeric(n) => *n == Numeric::NaN || n.sign().is_lt(),
                Datum::Interval(interval) => interval.length() < 0,
                other => other.as_i64().is_some_and(|n| n < 0),
            };
            if negative {
                let message = match frame.units {
                    Units::Range => {
                        "invalid preceding or following size in window function".to_owned()
                    }
                    _ => format!("frame {which} offset must not be negative"),
                };
                return Err(SqlError::new(state::INVALID_FRAME, message));
            }
            Ok(value)
        };
        Ok(Offsets(Bounds {
            start: value(frame.start.offset(), "starting")?,
            end: value(frame.end.offset(), "ending")?,
        }))
    }
}

/// The rows of a partition, in order, and their groups of peers.
pub(crate) struct Partition<'a> {
    rows: &'a [Vec<Datum>],
    order: &'a [SortBy],
    peers: Peers,
    /// The rows whose value of the first column of the order is not NULL.
    known: Range<usize>,
}

impl<'a> Partition<'a> {
    /// Finds the peers in the rows, which are sorted.
    pub(crate) fn new(rows: &'a [Vec<Datum>], order: &'a [SortBy]) -> Self {
        let mut peers = Peers::default();
        for (at, row) in rows.iter().enumerate() {
            let is_peer = at > 0
                && order.iter().all(|key| row[key.column].order(&rows[at - 1][key.column]).is_eq());
            if !is_peer {
                peers.starts.push(at);
            }
            peers.group_of.push(peers.starts.len() - 1);
        }
        peers.starts.push(rows.len());
        let known = match order.first() {
            Some(key) => {
                let is_known = |row: &Vec<Datum>| !row[key.column].is_null();
                let first = rows.iter().position(is_known).unwrap_or(rows.len());
                first..rows.iter().rposition(is_known).map_or(first, |last| last + 1)
            }
            None => 0..rows.len(),
        };
        Partition { rows, order, peers, known }
    }

    /// Starts a function: evaluates its arguments for all rows, and takes memory for them.
    pub(crate) fn start<'p>(
        &'p self,
        call: &'p Call,
        offsets: &'p Offsets,
        scope: &Scope<'_>,
        held: &mut Held,
    ) -> Result<Running<'p>, SqlError> {
        let mut args = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let values = arguments(&call.work, row, scope)?;
            held.add(values.as_ref().map_or(0, |values| weight(values)))?;
            args.push(values);
        }
        let aggregate = match &call.work {
            Work::Aggregate(aggregate) => Some(aggregate),
            Work::Function(..) => None,
        };
        let zone = scope.session.zone().clone();
        let state = aggregate.map(|aggregate| Folded::new(aggregate, zone.clone()));
        let bounds = &offsets.0;
        Ok(Running { partition: self, call, bounds, zone, args, parts: Vec::new(), state })
    }
}

/// Returns the values of a call's arguments for a row; `None` for a row that an aggregate leaves
/// out.
fn arguments(
    work: &Work,
    row: &[Datum],
    scope: &Scope<'_>,
) -> Result<Option<Vec<Datum>>, SqlError> {
    let (args, strict) = match work {
        Work::Function(_, args) => (args, false),
        Work::Aggregate(Aggregate { filter: Some(filter), .. }) if !filter.holds(row, scope)? => {
            return Ok(None);
        }
        Work::Aggregate(aggregate) => (&aggregate.args, aggregate.function.strict),
    };
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        let value = arg.eval(row, scope)?;
        if strict && value.is_null() {
            return Ok(None);
        }
        values.push(value);
    }
    Ok(Some(values))
}

/// A window function over one partition.
pub(crate) struct Running<'p> {
    partition: &'p Partition<'p>,
    call: &'p Call,
    bounds: &'p Bounds,
    /// The session's zone.
    zone: Zone,
    args: Vec<Option<Vec<Datum>>>,
    /// The parts of the current row's frame.
    parts: Vec<Range<usize>>,
    state: Option<Folded<'p>>,
}

/// An aggregate over the rows of some parts.
struct Folded<'p> {
    aggregate: &'p Aggregate,
    zone: Zone,
    accumulator: Option<Box<dyn Accumulator>>,
    parts: Vec<Range<usize>>,
    value: Datum,
    /// The memory that the accumulator took.
    held_bytes: usize,
}

impl<'p> Folded<'p> {
    fn new(aggregate: &'p Aggregate, zone: Zone) -> Self {
        Folded {
            aggregate,
            zone,
            accumulator: None,
            parts: Vec::new(),
            value: Datum::Null,
            held_bytes: 0,
        }
    }

    /// Returns the aggregate of the rows of other parts, and the number of rows that were added.
    fn of(
        &mut self,
        parts: &[Range<usize>],
        args: &[Option<Vec<Datum>>],
        held: &mut Held,
    ) -> Result<(Datum, usize), SqlError> {
        if self.accumulator.is_some() && self.parts == parts {
            return Ok((self.value.clone(), 0));
        }
        let grows = match (self.parts.as_slice(), parts) {
            ([], _) => self.accumulator.is_some(),
            ([old], [new]) => old.start == new.start && old.end <= new.end,
            _ => false,
        };
        let done = match (grows, self.parts.first()) {
            (true, Some(old)) => old.end,
            _ => 0,
        };
        if !grows {
            held.free(std::mem::take(&mut self.held_bytes));
            self.accumulator = self.aggregate.function.start(self.aggregate.ty, &self.zone);
        }
        let before = held.used();
        let mut added = 0;
        if let Some(accumulator) = &mut self.accumulator {
            for part in parts {
                for args in &args[part.start.max(done)..part.end] {
                    added += 1;
                    if let Some(args) = args {
                        accumulator.add(args, held)?;
                    }
                }
            }
            self.value = accumulator.value()?;
        }
        self.held_bytes += held.used() - before;
        self.parts = parts.to_vec();
        Ok((self.value.clone(), added))
    }
}

impl Running<'_> {
    /// Returns the value for a row, and the number of rows that were looked at. Rows come in order.
    pub(crate) fn value(
        &mut self,
        row: usize,
        held: &mut Held,
    ) -> Result<(Datum, usize), SqlError> {
        let kind = match &self.call.work {
            Work::Aggregate(_) => None,
            Work::Function(function, _) => Some(function.kind),
        };
        if matches!(kind, None | Some(Kind::First | Kind::Last | Kind::Nth)) {
            self.find_parts(row);
        }
        match kind {
            Some(kind) => Ok((self.function(kind, row)?, 1)),
            None => match &mut self.state {
                Some(state) => state.of(&self.parts, &self.args, held),
                None => Ok((Datum::Null, 0)),
            },
        }
    }

    /// Frees the memory that the function took.
    pub(crate) fn end(self, held: &mut Held) {
        let args = self.args.iter().flatten().map(|args| weight(args)).sum::<usize>();
        held.free(args + self.state.map_or(0, |state| state.held_bytes));
    }

    fn find_parts(&mut self, row: usize) {
        let (partition, frame) = (self.partition, &self.call.frame);
        let column = partition.order.first().map_or(0, |key| key.column);
        let values = |at: usize| &partition.rows[at][column];
        let measure = partition.order.first().map(|key| Measure {
            values: &values,
            descending: key.descending,
            known: partition.known.clone(),
            zone: &self.zone,
        });
        let range = frame::range(frame, self.bounds, &partition.peers, measure.as_ref(), row);
        let peers = partition.peers.of(row);
        frame::parts(range, frame.exclude, row, peers, &mut self.parts);
    }

    fn arg(&self, row: usize, at: usize) -> Datum {
        let args = self.args.get(row).and_then(Option::as_ref);
        args.and_then(|args| args.get(at)).cloned().unwrap_or(Datum::Null)
    }

    fn function(&self, kind: Kind, row: usize) -> Result<Datum, SqlError> {
        let (peers, len) = (&self.partition.peers, self.partition.rows.len());
        let own = peers.of(row);
        Ok(match kind {
            Kind::RowNumber => Datum::Int8(row as i64 + 1),
            Kind::Rank => Datum::Int8(own.start as i64 + 1),
            Kind::DenseRank => Datum::Int8(peers.group_of[row] as i64 + 1),
            Kind::PercentRank if len == 1 => Datum::Float8(0.0),
            Kind::PercentRank => Datum::Float8(own.start as f64 / (len - 1) as f64),
            Kind::CumeDist => Datum::Float8(own.end as f64 / len as f64),
            // The number of parts is that of the partition's first row.
            Kind::Ntile => match self.arg(0, 0).as_i64() {
                None => Datum::Null,
                Some(count) if count <= 0 => {
                    let message = "argument of ntile must be greater than zero";
                    return Err(SqlError::new(state::INVALID_NTILE, message));
                }
                Some(count) => Datum::Int4(part_of(row, len, count as usize) as i32 + 1),
            },
            Kind::Lag | Kind::Lead => {
                let by = match &self.call.work {
                    Work::Function(_, args) if args.len() == 1 => Some(1),
                    _ => self.arg(row, 1).as_i64(),
                };
                let Some(by) = by else { return Ok(Datum::Null) };
                let at = row as i64 + if kind == Kind::Lag { -by } else { by };
                match usize::try_from(at) {
                    Ok(at) if at < len => self.arg(at, 0),
                    _ => self.arg(row, 2),
                }
            }
            Kind::First => self.parts.first().map_or(Datum::Null, |part| self.arg(part.start, 0)),
            Kind::Last => self.parts.last().map_or(Datum::Null, |part| self.arg(part.end - 1, 0)),
            Kind::Nth => match self.arg(row, 1).as_i64() {
                None => Datum::Null,
                Some(n) if n <= 0 => {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new(state::INVALID_NTH_VALUE, message));
                }
                Some(n) => {
                    let mut left = n as usize - 1;
                    for part in &self.parts {
                        if left < part.len() {
                            return Ok(self.arg(part.start + left, 0));
                        }
                        left -= part.len();
                    }
                    Datum::Null
                }
            },
        })
    }
}

/// Returns the part of a row if rows are in parts whose sizes differ by one at most, the larger
/// ones first.
fn part_of(row: usize, rows: usize, parts: usize) -> usize {
    let (size, larger) = (rows / parts, rows % parts);
    let in_larger = larger * (size + 1);
    match row < in_larger {
        true => row / (size + 1),
        false => larger + (row - in_larger) / size.max(1),
    }
}
