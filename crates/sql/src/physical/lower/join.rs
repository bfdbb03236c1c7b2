//! Lowers joins: by key, by a table of keys, or pair by pair.

use super::{Lowering, access, position, scan_of};
use crate::access::LOOKUP;
use crate::error::SqlError;
use crate::expr::{Arith, Compare, Expr};
use crate::logical::{self, ColumnId, JoinKind, Rel};
use crate::physical::ordered::Wanted;
use crate::physical::{How, Join, Kind, Node, Op};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Lowering {
    pub(super) fn join(
        &mut self,
        join: logical::Join,
        needed: &BTreeSet<ColumnId>,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Arc<Node>, SqlError> {
        let logical::Join { kind, left, right, on } = join;
        if kind == JoinKind::Full && on.has_subquery() {
            return Err(SqlError::unsupported("FULL JOIN with a subquery in its condition"));
        }
        let lefts: BTreeSet<ColumnId> = left.columns().into_iter().collect();
        let rights: BTreeSet<ColumnId> = right.columns().into_iter().collect();
        let mut conjuncts = Vec::new();
        on.into_conjuncts(&mut conjuncts);
        let (guards, mut pairs): (Vec<_>, Vec<_>) = conjuncts
            .into_iter()
            .partition(|conjunct| logical::Join::is_guard(kind, conjunct, &rights));
        let mut physical = match kind {
            JoinKind::Inner => Kind::Inner,
            JoinKind::Left => Kind::Left,
            JoinKind::Full => Kind::Full,
            JoinKind::Semi => Kind::Semi,
            JoinKind::Anti => Kind::Anti,
            JoinKind::Single => Kind::Single,
            JoinKind::Mark(_) => Kind::Mark,
        };
        if let (Kind::Anti, [Expr::IsBool(inner, false, true)]) = (physical, &*pairs) {
            let mut inner_pairs = Vec::new();
            inner.as_ref().clone().into_conjuncts(&mut inner_pairs);
            pairs = inner_pairs;
            physical = Kind::AntiUnknown;
        }

        // By key, if there are few left rows, or if the right side depends on them anyway.
        let is_dependent = right.names_any(&lefts);
        let knows_null = matches!(physical, Kind::Mark | Kind::AntiUnknown)
            && !pairs.iter().all(Expr::is_never_null);
        let by_key = kind != JoinKind::Full
            && !knows_null
            && !is_dependent
            && self.looked_up(&right, &pairs, &lefts).is_some_and(|found| {
                let most = wanted.as_ref().and_then(|wanted| wanted.rows);
                let count = self.estimates.rows(&left).min(most.unwrap_or(f64::MAX));
                let is_cheaper = count * (LOOKUP + found) < count + self.base_rows(&right);
                self.by_key.unwrap_or(is_cheaper)
            });
        if kind == JoinKind::Semi
            && wanted.is_none()
            && !by_key
            && !is_dependent
            && guards.is_empty()
            && let Some(on) = keys_of(&pairs, &rights)
            && self.is_few(&right, &on, &left, &pairs)
        {
            // Each left row matches one value of the right side at most.
            let few = Rel::Distinct { input: Box::new(right), on };
            let on = Expr::all_of(pairs).unwrap_or_else(Expr::truth);
            let join = logical::Join { kind: JoinKind::Inner, left: few, right: left, on };
            return self.join(join, needed, None);
        }
        let (mut left, mut right) = (left, right);
        // The smaller side is held in memory. The left side gives the order.
        let swaps = kind == JoinKind::Inner
            && wanted.is_none()
            && !by_key
            && !is_dependent
            && guards.is_empty()
            && self.estimates.rows(&left) < self.estimates.rows(&right);
        let (lefts, rights) = if swaps { (rights, lefts) } else { (lefts, rights) };
        if swaps {
            std::mem::swap(&mut left, &mut right);
        }
        if by_key {
            let truths = std::mem::take(&mut pairs).into_iter().map(|pair| match pair {
                Expr::IsBool(inner, true, false) => *inner,
                pair => pair,
            });
            right = right.filter(truths.collect()).settled();
        }
        let dependent = by_key || is_dependent;

        let mut below_left: BTreeSet<ColumnId> = needed.intersection(&lefts).copied().collect();
        let mut below_right: BTreeSet<ColumnId> = needed.intersection(&rights).copied().collect();
        for expr in guards.iter().chain(&pairs) {
            expr.each_column(&mut |id| {
                if lefts.contains(&id) {
                    below_left.insert(id);
                } else if rights.contains(&id) {
                    below_right.insert(id);
                }
            });
        }
        let passed: Vec<ColumnId> = match dependent {
            true => right.free_columns().intersection(&lefts).copied().collect(),
            false => Vec::new(),
        };
        below_left.extend(&passed);
        let left = match wanted {
            Some(wanted) => {
                below_left.extend(wanted.by.iter().map(|key| key.column));
                self.lower_in_order(left, wanted, &below_left)?
            }
            None => self.lower(left, &below_left)?,
        };
        let left_layout = left.layout.clone();
        let mut slots = Vec::with_capacity(passed.len());
        for id in &passed {
            slots.push((position(&left_layout, *id)?, self.slots));
            self.outer.insert(*id, self.slots);
            self.passed.push(*id);
            self.slots += 1;
        }
        let remembers = !right.is_volatile();
        let right = self.lower(right, &below_right)?;
        let right_layout = right.layout.clone();
        for id in &passed {
            self.outer.remove(id);
        }

        let guards = self.place_all(guards, &left_layout)?;
        let both: Vec<ColumnId> = left_layout.iter().chain(&right_layout).copied().collect();
        let how = match dependent {
            true => How::Dependent { slots, remembers },
            false => self.keys(&pairs, &left_layout, &right_layout, &both)?,
        };
        let on = Expr::all_of(self.place_all(pairs, &both)?);
        let left_width = left_layout.len();
        let layout = match kind {
            JoinKind::Semi | JoinKind::Anti => left_layout,
            JoinKind::Mark(mark) => left_layout.into_iter().chain([mark]).collect(),
            _ => both,
        };
        let right_width = right_layout.len();
        let guard = Expr::all_of(guards);
        let join = Join { kind: physical, left, right, left_width, right_width, guard, on, how };
        Ok(self.node(Op::Join(join), layout))
    }

    /// The rows that a right side reads without a key of the left side.
    fn base_rows(&self, right: &Rel) -> f64 {
        match scan_of(right) {
            Some((scan, conditions)) if reads_by_key(scan, &conditions) => {
                self.estimates.scanned(scan, &conditions)
            }
            Some((scan, _)) => self.estimates.rows(scan),
            None => self.estimates.rows(right),
        }
    }

    /// True if the left rows of a semi join are better looked up for each value of the right side.
    fn is_few(&self, right: &Rel, on: &[ColumnId], left: &Rel, pairs: &[Expr]) -> bool {
        let rights: BTreeSet<ColumnId> = right.columns().into_iter().collect();
        let Some(found) = self.looked_up(left, pairs, &rights) else { return false };
        let values = self.estimates.distinct(right, on);
        self.by_key.unwrap_or(values * (LOOKUP + found) < self.base_rows(left))
    }

    /// Returns the estimated rows of a lookup, if the conditions give a key of a right side that is
    /// a table.
    fn looked_up(&self, right: &Rel, pairs: &[Expr], lefts: &BTreeSet<ColumnId>) -> Option<f64> {
        let (scan, mut conditions) = scan_of(right)?;
        if let Rel::Scan { table, .. } = scan
            && table.is_made()
        {
            return None;
        }
        let alone = access(scan, &conditions)?;
        let joining = pairs.iter().filter(|pair| pair.names_any(lefts)).map(|pair| match pair {
            Expr::IsBool(inner, true, false) => (**inner).clone(),
            pair => pair.clone(),
        });
        conditions.extend(joining);
        let found = access(scan, &conditions)?;
        (found.has_key() && found != alone).then(|| self.estimates.scanned(scan, &conditions))
    }

    /// Finds equalities between the sides; without one, all pairs are looked at.
    fn keys(
        &mut self,
        pairs: &[Expr],
        left: &[ColumnId],
        right: &[ColumnId],
        both: &[ColumnId],
    ) -> Result<How, SqlError> {
        let (lefts, rights): (BTreeSet<_>, BTreeSet<_>) =
            (left.iter().copied().collect(), right.iter().copied().collect());
        let (mut left_keys, mut right_keys, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs {
            let equal = match pair {
                Expr::IsBool(inner, true, false) => inner,
                pair => pair,
            };
            let sides = match equal {
                Expr::Compare(Compare::Eq, sides) => Some((&sides.0, &sides.1)),
                _ => None,
            };
            let apart = |(a, b): &(&Expr, &Expr)| !a.names_any(&rights) && !b.names_any(&lefts);
            let own = |(a, b): &(&Expr, &Expr)| a.names_any(&lefts) && b.names_any(&rights);
            let sides =
                sides.map(|(a, b)| if apart(&(a, b)) { (a, b) } else { (b, a) }).filter(|sides| {
                    apart(sides) && own(sides) && !may_fail(sides.0) && !may_fail(sides.1)
                });
            match sides {
                Some((a, b)) => {
                    left_keys.push(self.place(a.clone(), left)?);
                    right_keys.push(self.place(b.clone(), right)?);
                }
                None => rest.push(pair.clone()),
            }
        }
        if left_keys.is_empty() {
            return Ok(How::Loop);
        }
        let rest = Expr::all_of(self.place_all(rest, both)?);
        Ok(How::Hash { left: left_keys, right: right_keys, rest })
    }
}

/// Returns the columns of the right side that conditions compare with, if each is an equality with
/// one.
fn keys_of(pairs: &[Expr], rights: &BTreeSet<ColumnId>) -> Option<Vec<ColumnId>> {
    let key = |pair: &Expr| match pair {
        Expr::Compare(Compare::Eq, sides) => match &**sides {
            (other, Expr::Column(id)) | (Expr::Column(id), other)
                if rights.contains(id) && !other.names_any(rights) && !may_fail(other) =>
            {
                Some(*id)
            }
            _ => None,
        },
        _ => None,
    };
    pairs.iter().map(key).collect()
}

/// True if the value may be an error for some rows. Overflow counts only where it is likely.
fn may_fail(expr: &Expr) -> bool {
    let mut may = false;
    expr.walk(&mut |part| {
        may |= match part {
            Expr::Arith(op, ..) => matches!(op, Arith::Div | Arith::Mod),
            Expr::Cast(_, _, how) => how.explicit,
            Expr::Call(..) | Expr::Case { .. } => true,
            _ => false,
        };
    });
    may
}

impl Rel {
    /// Merges a filter into the filter or the scan below it.
    fn settled(self) -> Rel {
        match self {
            Rel::Filter { input, condition } => match *input {
                Rel::Filter { input, condition: inner } => {
                    let mut all = Vec::new();
                    inner.into_conjuncts(&mut all);
                    condition.into_conjuncts(&mut all);
                    input.filter(all)
                }
                input => Rel::Filter { input: Box::new(input), condition },
            },
            other => other,
        }
    }
}

fn reads_by_key(scan: &Rel, conditions: &[Expr]) -> bool {
    access(scan, conditions).is_some_and(|access| access.has_key())
}
