//! The rows of a frame, as places in a sorted partition.

use super::{Bound, Exclude, Frame, Units};
use crate::datetime::{self, Zone};
use crate::datum::{Datum, float_order};
use crate::function;
use crate::interval::Interval;
use crate::number;
use crate::numeric::Numeric;
use std::ops::Range;

/// The values of a frame's offsets.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) start: Datum,
    pub(super) end: Datum,
}

/// The groups of peers of a sorted partition.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// The first row of each group, then the number of rows.
    pub(super) starts: Vec<usize>,
    /// The group of each row.
    pub(super) group_of: Vec<usize>,
}

impl Peers {
    pub(super) fn len(&self) -> usize {
        self.group_of.len()
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the peers of a row, with the row itself.
    pub(super) fn of(&self, row: usize) -> Range<usize> {
        let group = self.group_of[row];
        self.starts[group]..self.starts[group + 1]
    }
}

/// The values of the one column by which RANGE measures, and its direction.
pub(super) struct Measure<'a> {
    pub(super) values: &'a dyn Fn(usize) -> &'a Datum,
    pub(super) descending: bool,
    /// The rows whose values are not NULL.
    pub(super) known: Range<usize>,
    /// The session's zone, by which days are added to times.
    pub(super) zone: &'a Zone,
}

fn rows_of(offset: &Datum) -> usize {
    offset.as_i64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// Returns the first of `known` rows for which a property that all rows behind it share is true.
fn first(known: &Range<usize>, is_in: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (known.start, known.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_in(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Returns the rows of a frame, before exclusion.
pub(super) fn range(
    frame: &Frame,
    bounds: &Bounds,
    peers: &Peers,
    measure: Option<&Measure<'_>>,
    row: usize,
) -> Range<usize> {
    let (len, group, own) = (peers.len(), peers.group_of[row], peers.of(row));
    let starts = &peers.starts;
    let by_value = |offset: &Datum, preceding: bool, is_end: bool| {
        let Some(measure) = measure else { return 0 };
        let current = (measure.values)(row);
        if current.is_null() {
            return if is_end { own.end } else { own.start };
        }
        let (sub, less) = (preceding != measure.descending, is_end != measure.descending);
        let is_in = |at| in_range((measure.values)(at), current, offset, sub, less, measure.zone);
        first(&measure.known, |at| is_in(at) != is_end)
    };
    let start = match (&frame.start, frame.units) {
        (Bound::Unbounded, _) => 0,
        (Bound::Current, Units::Rows) => row,
        (Bound::Current, _) => own.start,
        (Bound::Preceding(_), Units::Rows) => row.saturating_sub(rows_of(&bounds.start)),
        (Bound::Following(_), Units::Rows) => row.saturating_add(rows_of(&bounds.start)).min(len),
        (Bound::Preceding(_), Units::Groups) => {
            starts[group.saturating_sub(rows_of(&bounds.start))]
        }
        (Bound::Following(_), Units::Groups) => {
            starts[group.saturating_add(rows_of(&bounds.start)).min(peers.count())]
        }
        (Bound::Preceding(_), Units::Range) => by_value(&bounds.start, true, false),
        (Bound::Following(_), Units::Range) => by_value(&bounds.start, false, false),
    };
    let end = match (&frame.end, frame.units) {
        (Bound::Unbounded, _) => len,
        (Bound::Current, Units::Rows) => row + 1,
        (Bound::Current, _) => own.end,
        (Bound::Preceding(_), Units::Rows) => (row + 1).saturating_sub(rows_of(&bounds.end)),
        (Bound::Following(_), Units::Rows) => {
            (row + 1).saturating_add(rows_of(&bounds.end)).min(len)
        }
        (Bound::Preceding(_), Units::Groups) => {
            starts[(group + 1).saturating_sub(rows_of(&bounds.end))]
        }
        (Bound::Following(_), Units::Groups) => {
            starts[(group + 1).saturating_add(rows_of(&bounds.end)).min(peers.count())]
        }
        (Bound::Preceding(_), Units::Range) => by_value(&bounds.end, true, true),
        (Bound::Following(_), Units::Range) => by_value(&bounds.end, false, true),
    };
    start..end.max(start)
}

/// Returns the parts of a frame that are not excluded, none of them empty, in order.
pub(super) fn parts(
    range: Range<usize>,
    exclude: Exclude,
    row: usize,
    peers: Range<usize>,
    out: &mut Vec<Range<usize>>,
) {
    out.clear();
    let (hole, kept) = match exclude {
        Exclude::Nothing => (row..row, None),
        Exclude::CurrentRow => (row..row + 1, None),
        Exclude::Group => (peers, None),
        Exclude::Ties => (peers, Some(row..row + 1)),
    };
    let clip = |part: Range<usize>| part.start.max(range.start)..part.end.min(range.end);
    if hole.is_empty() {
        out.push(range.clone());
    } else {
        out.push(clip(range.start..hole.start));
        out.extend(kept.map(clip));
        out.push(clip(hole.end..range.end));
    }
    out.retain(|part| !part.is_empty());
}

/// Returns the microseconds of a time, or of a date's midnight.
fn micros(time: &Datum) -> Option<i64> {
    match time {
        Datum::Timestamp(us) | Datum::TimestampTz(us) => Some(*us),
        Datum::Date(days) => datetime::midnight(*days).ok(),
        _ => None,
    }
}

/// Returns the microseconds of a time plus or minus an interval; `None` beyond all times.
fn shift(time: &Datum, offset: Interval, sub: bool, zone: &Zone) -> Option<i64> {
    let offset = if sub { offset.negated().ok()? } else { offset };
    match time {
        Datum::TimestampTz(us) => function::shifted_in(*us, offset, zone).ok(),
        _ => function::shifted(micros(time)?, offset).ok(),
    }
}

/// True if a value is at most (`less`) or at least the base plus or minus an offset.
pub(crate) fn in_range(
    value: &Datum,
    base: &Datum,
    offset: &Datum,
    sub: bool,
    less: bool,
    zone: &Zone,
) -> bool {
    let order = match (value, base, offset) {
        (Datum::Float4(_) | Datum::Float8(_), base, offset) => {
            let float = |datum: &Datum| datum.as_f64().unwrap_or(0.0);
            let (value, base, offset) = (float(value), float(base), float(offset));
            if value.is_nan() {
                return base.is_nan() || !less;
            }
            if base.is_nan() {
                return less;
            }
            // The distance of two infinite values is within an infinite offset.
            if offset.is_infinite() && base.is_infinite() && sub == (base > 0.0) {
                return true;
            }
            float_order(value, if sub { base - offset } else { base + offset })
        }
        (Datum::Numeric(value), Datum::Numeric(base), offset) => {
            let Ok(offset) = number::to_numeric(offset) else { return false };
            match if sub { base.minus(&offset) } else { base.plus(&offset) } {
                // The distance of two infinite values is within an infinite offset.
                Ok(Numeric::NaN) if *base != Numeric::NaN && *value != Numeric::NaN => return true,
                Ok(limit) => value.order(&limit),
                // The limit is beyond all values.
                Err(_) => return sub != less,
            }
        }
        (Datum::Interval(value), Datum::Interval(base), Datum::Interval(offset)) => {
            match if sub { base.minus(*offset) } else { base.plus(*offset) } {
                Ok(limit) => value.order(limit),
                Err(_) => return sub != less,
            }
        }
        (value, base, Datum::Interval(offset)) => {
            match (micros(value), shift(base, *offset, sub, zone)) {
                (Some(value), Some(limit)) => value.cmp(&limit),
                _ => return sub != less,
            }
        }
        (value, base, offset) => match (value.as_i64(), base.as_i64(), offset.as_i64()) {
            (Some(value), Some(base), Some(offset)) => {
                let (base, offset) = (i128::from(base), i128::from(offset));
                i128::from(value).cmp(&if sub { base - offset } else { base + offset })
            }
            _ => return false,
        },
    };
    if less { order.is_le() } else { order.is_ge() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_leaves_parts_of_a_frame() {
        let mut out = Vec::new();
        let mut of = |range, exclude| {
            // The current row is 4, its peers are 3, 4 and 5.
            parts(range, exclude, 4, 3..6, &mut out);
            out.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(of(0..8, Exclude::Nothing), [(0, 8)]);
        assert_eq!(of(0..8, Exclude::CurrentRow), [(0, 4), (5, 8)]);
        assert_eq!(of(0..8, Exclude::Group), [(0, 3), (6, 8)]);
        assert_eq!(of(0..8, Exclude::Ties), [(0, 3), (4, 5), (6, 8)]);
        assert_eq!(of(3..5, Exclude::Ties), [(4, 5)]);
        assert_eq!(of(4..5, Exclude::CurrentRow), []);
        assert_eq!(of(5..8, Exclude::Ties), [(6, 8)]);
        assert_eq!(of(0..2, Exclude::Group), [(0, 2)]);
        assert_eq!(of(6..6, Exclude::Nothing), []);
    }

    #[test]
    fn infinite_and_undefined_floats_have_ranges() {
        let within = |value: f64, base: f64, offset: f64, sub, less| {
            let float = Datum::Float8;
            in_range(&float(value), &float(base), &float(offset), sub, less, Zone::utc())
        };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert!(within(3.0, 4.0, 1.0, true, false) && !within(2.5, 4.0, 1.0, true, false));
        assert!(within(5.0, 4.0, 1.0, false, true) && !within(5.5, 4.0, 1.0, false, true));
        // NaN is a peer of NaN alone, above all numbers.
        assert!(within(nan, nan, 1.0, true, false) && within(nan, 1.0, 1.0, true, false));
        assert!(!within(nan, 1.0, 1.0, false, true) && within(1.0, nan, 1.0, false, true));
        assert!(within(inf, inf, 1.0, true, false) && !within(1.0, inf, 1.0, true, false));
        assert!(within(1.0, inf, inf, true, false));
    }
}
