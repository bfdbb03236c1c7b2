//! Derives the keys to read from a condition: points and ranges of the primary key or of a
//! secondary index.
//!
//! For each key its leading columns are matched with equalities (`=`, `IN`, row `IN`, `IS NULL`)
//! and the next one with a range (`<`, `LIKE 'a%'`, `IS NOT NULL`). The whole condition is applied
//! as a filter afterwards.

mod choose;

pub(crate) use choose::{LOOKUP, Wish};

use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, Quantifier, Scope};
use crate::function;
use crate::index::{Index, IndexPart};
use crate::key;
use crate::kv;
use crate::physical::SortBy;
use meridian_mvcc::{Key, KeyRange};

/// The number of spans above which a list is only a filter.
const MOST_SPANS: usize = 20_000;

/// The access path to a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    /// The secondary index; `None` for the primary key.
    pub(crate) index: Option<usize>,
    /// The spans; none means a full scan.
    pub(crate) spans: Vec<Span>,
    /// True if the index's entries hold all that is wanted of a row.
    pub(crate) only: bool,
}

/// Values of leading columns, and bounds of the next: (value, inclusive).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Span {
    pub(crate) equal: Vec<Equal>,
    low: Option<(Expr, bool)>,
    high: Option<(Expr, bool)>,
    /// True if the next column is not NULL; it is not, either, if it has a bound.
    not_null: bool,
}

/// The values that a column is equal to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Equal {
    To(Expr),
    /// Any of an array's elements, which are known when the statement starts.
    ToAnyOf(Expr),
    /// NULL, which any number of a unique index's entries may have.
    Null,
}

/// A point or a range to read.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Point(Key),
    Range(KeyRange),
}

/// Collects the conjuncts of a condition.
pub(crate) fn conjuncts<'a>(filter: &'a Expr, out: &mut Vec<&'a Expr>) {
    match filter {
        Expr::And(all) => all.iter().for_each(|part| conjuncts(part, out)),
        other => out.push(other),
    }
}

impl Access {
    /// True if it finds at most one row.
    pub(crate) fn is_unique(&self, table: &Table) -> bool {
        let unique = self.index.is_none_or(|at| table.indexes[at].unique);
        let parts = self.parts(table).len();
        let is_point = |span: &Span| span.is_whole(parts) && !span.is_many();
        unique && matches!(self.spans.as_slice(), [only] if is_point(only))
    }

    /// True if it reads several places.
    pub(crate) fn is_many(&self) -> bool {
        self.spans.len() > 1 || self.spans.iter().any(Span::is_many)
    }

    /// True if each of its spans has values for the key's first column.
    pub(crate) fn has_key(&self) -> bool {
        !self.spans.is_empty() && self.spans.iter().all(|span| !span.equal.is_empty())
    }

    /// Returns the key: a secondary index, or the primary key, if there is one.
    pub(crate) fn key<'a>(&self, table: &'a Table) -> Option<&'a Index> {
        match self.index {
            Some(at) => table.indexes.get(at),
            None => table.primary.as_ref(),
        }
    }

    /// Returns the columns of the key.
    fn parts<'a>(&self, table: &'a Table) -> &'a [IndexPart] {
        self.key(table).map_or(&[], |index| &index.columns)
    }

    /// Returns `Some` if it returns rows in an order of the table's columns; true if it must run
    /// backwards. A secondary index and the primary key put NULLs last when ascending, as
    /// PostgreSQL's default is.
    pub(crate) fn order(&self, table: &Table, by: &[SortBy]) -> Option<bool> {
        if by.is_empty() {
            return Some(false);
        }
        if self.is_many() {
            return None;
        }
        let parts = self.parts(table);
        let fixed = self.spans.first().map_or(0, |span| span.equal.len());
        let is_open =
            |by: &&SortBy| !parts[..fixed].iter().any(|part| part.column as usize == by.column);
        let rest: Vec<_> = by.iter().filter(is_open).collect();
        if rest.len() > parts.len() - fixed {
            return None;
        }
        let mut backwards = None;
        for (by, part) in rest.iter().zip(&parts[fixed..]) {
            let turned = by.descending != part.descending;
            if by.column != part.column as usize
                || by.nulls_first != by.descending
                || backwards.is_some_and(|b| b != turned)
            {
                return None;
            }
            backwards = Some(turned);
        }
        Some(backwards.unwrap_or(false))
    }

    /// Returns the keys to read, in key order, without overlaps.
    pub(crate) fn targets(
        &self,
        table: &Table,
        scope: &Scope<'_>,
    ) -> Result<Vec<Target>, SqlError> {
        let (storage, unique) = match self.index {
            Some(at) => (table.indexes[at].id, table.indexes[at].unique),
            None => (table.storage, true),
        };
        let prefix = kv::storage_prefix(storage);
        if self.spans.is_empty() {
            return Ok(vec![Target::Range(kv::prefix_range(&prefix))]);
        }
        let parts = self.parts(table);
        let mut targets = Vec::with_capacity(self.spans.len());
        for span in &self.spans {
            span.targets(prefix.clone(), parts, unique, scope, &mut targets)?;
        }
        if targets.len() > 1 {
            targets = merge(targets);
        }
        Ok(targets)
    }

    /// True if the key finds the rows for which a condition is true.
    pub(crate) fn serves(&self, table: &Table, condition: &Expr) -> bool {
        let used = self.spans.iter().map(Span::used).max().unwrap_or(0);
        let Some(index) = self.key(table) else { return false };
        let keys = index.keys();
        match condition {
            Expr::Or(any) if self.spans.len() > 1 => {
                let mut parts = Vec::new();
                any.iter().for_each(|one| conjuncts(one, &mut parts));
                parts.iter().all(|part| serves_one(&keys[..used], part))
            }
            condition => serves_one(&keys[..used], condition),
        }
    }
}

fn serves_one(keys: &[Expr], condition: &Expr) -> bool {
    keys.iter().any(|key| match condition {
        Expr::In(needle, _, false) => **needle == *key,
        Expr::Each(Compare::Eq, Quantifier::Any, sides) => sides.0 == *key,
        Expr::IsNull(inner, _) => **inner == *key,
        Expr::Like { text, .. } => **text == *key && function::like_range(condition).is_some(),
        condition => about(condition, key).is_some_and(|(op, _)| op != Compare::Ne),
    })
}

fn merge(targets: Vec<Target>) -> Vec<Target> {
    let start = |target: &Target| match target {
        Target::Point(key) => key.clone(),
        Target::Range(range) => range.start.clone(),
    };
    let mut targets = targets;
    targets.sort_by_key(start);
    let mut merged: Vec<Target> = Vec::with_capacity(targets.len());
    for target in targets {
        let overlaps = match (merged.last_mut(), &target) {
            (Some(Target::Point(last)), Target::Point(key)) => last == key,
            (Some(Target::Range(last)), Target::Point(key)) => last.contains(key),
            (Some(Target::Range(last)), Target::Range(next))
                if last.end.as_ref().is_none_or(|end| next.start < *end) =>
            {
                if last.end.is_some() && (next.end.is_none() || next.end > last.end) {
                    last.end = next.end.clone();
                }
                true
            }
            (Some(Target::Point(last)), Target::Range(next)) if next.start == *last => {
                merged.pop();
                false
            }
            _ => false,
        };
        if !overlaps {
            merged.push(target);
        }
    }
    merged
}

/// Returns the operator and the other side of a comparison with a column or an expression.
fn about<'a>(conjunct: &'a Expr, key: &Expr) -> Option<(Compare, &'a Expr)> {
    let Expr::Compare(op, sides) = conjunct else { return None };
    match (&sides.0, &sides.1) {
        (left, value) if left == key && value.is_row_free() => Some((*op, value)),
        (value, right) if right == key && value.is_row_free() => Some((op.flipped(), value)),
        _ => None,
    }
}

fn disjunct_spans(keys: &[Expr], all: &[&Expr]) -> Vec<Span> {
    let spans = spans(keys, all);
    if spans.iter().any(|span| span.worth() > 0) {
        return spans;
    }
    for (at, conjunct) in all.iter().enumerate() {
        let Expr::Or(branches) = conjunct else { continue };
        let mut union = Vec::new();
        for branch in branches {
            let mut rest: Vec<&Expr> =
                all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, e)| *e).collect();
            conjuncts(branch, &mut rest);
            let part = self::spans(keys, &rest);
            if part.is_empty()
                || part.iter().any(|span| span.worth() == 0)
                || union.len() > MOST_SPANS
            {
                union.clear();
                break;
            }
            union.extend(part);
        }
        if !union.is_empty() {
            return union;
        }
    }
    spans
}

fn spans(keys: &[Expr], all: &[&Expr]) -> Vec<Span> {
    let mut spans = vec![Span::default()];
    for key in keys {
        let equal = all.iter().find_map(|e| about(e, key).filter(|(op, _)| *op == Compare::Eq));
        if let Some((_, value)) = equal {
            spans.iter_mut().for_each(|span| span.equal.push(Equal::To(value.clone())));
            continue;
        }
        let is_null =
            |conjunct: &&Expr| matches!(conjunct, Expr::IsNull(of, false) if **of == *key);
        if all.iter().any(is_null) {
            spans.iter_mut().for_each(|span| span.equal.push(Equal::Null));
            continue;
        }
        let list = all.iter().find_map(|conjunct| match conjunct {
            Expr::In(needle, list, false) if **needle == *key => {
                list.iter().all(Expr::is_row_free).then_some(list)
            }
            _ => None,
        });
        if let Some(list) = list.filter(|list| list.len().saturating_mul(spans.len()) <= MOST_SPANS)
        {
            spans = spans
                .into_iter()
                .flat_map(|span| {
                    list.iter().map(move |value| {
                        let mut span = span.clone();
                        span.equal.push(Equal::To(value.clone()));
                        span
                    })
                })
                .collect();
            continue;
        }
        let any = all.iter().find_map(|conjunct| match conjunct {
            Expr::Each(Compare::Eq, Quantifier::Any, sides)
                if sides.0 == *key && sides.1.is_row_free() =>
            {
                Some(&sides.1)
            }
            _ => None,
        });
        if let Some(array) = any {
            spans.iter_mut().for_each(|span| span.equal.push(Equal::ToAnyOf(array.clone())));
            continue;
        }
        let bounds = bounds_of(key, all);
        spans.iter_mut().for_each(|span| {
            (span.low, span.high) = (bounds.low.clone(), bounds.high.clone());
            span.not_null = bounds.not_null;
        });
        break;
    }
    spans
}

/// Returns the bounds that conditions are for one column.
fn bounds_of(key: &Expr, all: &[&Expr]) -> Span {
    let mut bounds = Span::default();
    for conjunct in all {
        match conjunct {
            Expr::IsNull(of, true) if **of == *key => bounds.not_null = true,
            Expr::Like { text, .. } if **text == *key => {
                let Some((low, high)) = function::like_range(conjunct) else { continue };
                bounds.low.get_or_insert((Expr::Const(low), true));
                if let Some((high, inclusive)) = high {
                    bounds.high.get_or_insert((Expr::Const(high), inclusive));
                }
            }
            conjunct => match about(conjunct, key) {
                Some((op @ (Compare::Gt | Compare::Ge), value)) => {
                    bounds.low.get_or_insert((value.clone(), op == Compare::Ge));
                }
                Some((op @ (Compare::Lt | Compare::Le), value)) => {
                    bounds.high.get_or_insert((value.clone(), op == Compare::Le));
                }
                _ => {}
            },
        }
    }
    bounds
}

impl Span {
    /// A measure for the rows that it spares. Many rows may have a NULL, and most another value.
    fn worth(&self) -> usize {
        let worth = |equal: &Equal| if *equal == Equal::Null { 2 } else { 4 };
        let bounds = usize::from(self.low.is_some()) + usize::from(self.high.is_some());
        self.equal.iter().map(worth).sum::<usize>() + bounds
    }

    /// True if it has bounds of the column behind the equal ones.
    fn is_bounded(&self) -> bool {
        self.low.is_some() || self.high.is_some() || self.not_null
    }

    /// The number of the key's columns that it uses.
    fn used(&self) -> usize {
        self.equal.len() + usize::from(self.is_bounded())
    }

    /// True if it has values of all columns of a key, of which a unique key has each once.
    fn is_whole(&self, parts: usize) -> bool {
        self.equal.len() == parts && !self.equal.contains(&Equal::Null)
    }

    fn is_many(&self) -> bool {
        self.equal.iter().any(|equal| matches!(equal, Equal::ToAnyOf(_)))
    }

    /// Adds the keys to read: one for each choice of its columns' values.
    fn targets(
        &self,
        prefix: Vec<u8>,
        parts: &[IndexPart],
        unique: bool,
        scope: &Scope<'_>,
        out: &mut Vec<Target>,
    ) -> Result<(), SqlError> {
        let mut prefixes = vec![prefix];
        for (equal, part) in self.equal.iter().zip(parts) {
            let mut values = match equal {
                Equal::To(value) => vec![value.eval(&[], scope)?],
                Equal::ToAnyOf(array) => match array.eval(&[], scope)? {
                    Datum::Array(array) => array.values().to_vec(),
                    _ => Vec::new(),
                },
                Equal::Null => vec![Datum::Null],
            };
            values.retain(|value| value.is_null() == (*equal == Equal::Null));
            values.sort_by(|a, b| a.order(b));
            values.dedup_by(|a, b| a.order(b).is_eq());
            let made = out.len().saturating_add(prefixes.len().saturating_mul(values.len()));
            if (prefixes.len() > 1 || !out.is_empty()) && made > MOST_SPANS {
                let whole = prefixes.iter().map(|prefix| Target::Range(beginning_with(prefix)));
                out.extend(whole);
                return Ok(());
            }
            let mut longer = Vec::with_capacity(prefixes.len() * values.len());
            for prefix in &prefixes {
                for value in &values {
                    let mut prefix = prefix.clone();
                    key::write(value, part.descending, &mut prefix);
                    longer.push(prefix);
                }
            }
            prefixes = longer;
        }
        for prefix in prefixes {
            out.extend(self.target(prefix, parts, unique, scope)?);
        }
        Ok(())
    }

    /// Returns the keys to read behind the values of the equal columns.
    fn target(
        &self,
        prefix: Vec<u8>,
        parts: &[IndexPart],
        unique: bool,
        scope: &Scope<'_>,
    ) -> Result<Option<Target>, SqlError> {
        if self.equal.len() == parts.len() {
            return Ok(Some(if unique && self.is_whole(parts.len()) {
                Target::Point(kv::to_key(prefix))
            } else {
                Target::Range(beginning_with(&prefix))
            }));
        }
        if !self.is_bounded() {
            return Ok(Some(Target::Range(beginning_with(&prefix))));
        }
        let descending = parts[self.equal.len()].descending;
        let bound =
            |bound: &Option<(Expr, bool)>| -> Result<Option<Option<(Vec<u8>, bool)>>, SqlError> {
                let Some((value, inclusive)) = bound else { return Ok(Some(None)) };
                let value = value.eval(&[], scope)?;
                if value.is_null() {
                    return Ok(None);
                }
                let mut out = prefix.clone();
                key::write(&value, descending, &mut out);
                Ok(Some(Some((out, *inclusive))))
            };
        let (Some(low), Some(high)) = (bound(&self.low)?, bound(&self.high)?) else {
            return Ok(None);
        };
        let (first, last) = if descending { (high, low) } else { (low, high) };
        let mut null = prefix.clone();
        key::write(&Datum::Null, descending, &mut null);
        let start = match first {
            Some((bytes, true)) => bytes,
            Some((bytes, false)) => after(&bytes),
            // NULLs are at one end, and no bound matches them.
            None if descending => after(&null),
            None => prefix.clone(),
        };
        let end = match last {
            Some((bytes, true)) => after(&bytes),
            Some((bytes, false)) => bytes,
            None if descending => after(&prefix),
            None => null,
        };
        Ok((start < end).then(|| Target::Range(kv::range(start, Some(end)))))
    }
}

/// Returns the end of all keys that begin with values.
fn after(values: &[u8]) -> Vec<u8> {
    let mut end = values.to_vec();
    key::end(&mut end);
    end
}

/// Returns the range of all keys that begin with values.
fn beginning_with(values: &[u8]) -> KeyRange {
    kv::range(values.to_vec(), Some(after(values)))
}
