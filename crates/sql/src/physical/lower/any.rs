//! Rows of a table for which one of several conditions is true, each of which has a key of its own:
//! `id = 5 OR customer = 9`.

use super::{Lowering, access};
use crate::access::LOOKUP;
use crate::expr::Expr;
use crate::logical::{ColumnId, Rel, SetOp, SetOperation};
use std::collections::BTreeSet;

/// The most conditions of all branches, which are planned one by one.
const MOST_CONDITIONS: usize = 1_000;
/// The most ORs that are looked at.
const MOST_ORS: usize = 4;

impl Lowering {
    /// Returns the union of the rows of a scan that each branch of an OR finds by a key, if no key
    /// serves the whole condition. A row that several branches find counts once: its primary key
    /// tells.
    pub(super) fn by_any_key(
        &self,
        scan: &Rel,
        condition: &Expr,
        needed: &BTreeSet<ColumnId>,
    ) -> Option<Rel> {
        let Rel::Scan { table, columns } = scan else { return None };
        let primary = table.primary.as_ref()?.columns.iter();
        let keys = primary.map(|part| columns.get(part.column()?).copied());
        let keys = keys.collect::<Option<Vec<ColumnId>>>()?;
        if table.is_made() || condition.is_volatile() {
            return None;
        }
        let mut conjuncts = Vec::new();
        condition.clone().into_conjuncts(&mut conjuncts);
        let is_or = |one: &&Expr| matches!(one, Expr::Or(_));
        if !conjuncts.iter().any(|one| is_or(&one)) || !access(scan, &conjuncts)?.spans.is_empty() {
            return None;
        }
        let others: Vec<Expr> = conjuncts.iter().filter(|one| !is_or(one)).cloned().collect();
        let mut ors = conjuncts.iter().enumerate().filter(|(_, one)| is_or(one)).take(MOST_ORS);
        let (at, branches) = ors.find_map(|(at, one)| {
            let Expr::Or(any) = one else { return None };
            let is_small = any.len().saturating_mul(conjuncts.len()) <= MOST_CONDITIONS;
            (is_small && self.is_cheap(scan, any, &others)?).then(|| (at, any.clone()))
        })?;
        let kept = |id: &ColumnId| needed.contains(id) || keys.contains(id);
        let columns: Vec<ColumnId> = columns.iter().copied().filter(kept).collect();
        let sides = branches.into_iter().map(|branch| {
            let mut conditions = conjuncts.clone();
            conditions[at] = branch;
            let condition = Expr::And(conditions);
            (Rel::Filter { input: Box::new(scan.clone()), condition }, columns.clone())
        });
        let sides = sides.collect();
        let union = SetOperation { op: SetOp::Union, all: true, columns, sides };
        Some(Rel::Distinct { input: Box::new(Rel::Set(Box::new(union))), on: keys })
    }

    /// True if the rows of a relation are found by several keys, and are fewer than those that are
    /// read in an order until `rows` of them are found.
    pub(super) fn finds_few(&self, rel: &Rel, rows: Option<f64>) -> bool {
        match rel {
            Rel::Project { input, .. } => self.finds_few(input, rows),
            Rel::Filter { input, condition } if matches!(**input, Rel::Scan { .. }) => {
                let accepted = self.estimates.scanned(input, std::slice::from_ref(condition));
                let in_order = |rows: f64| rows * self.estimates.rows(input) / accepted.max(1.0);
                rows.is_none_or(|rows| LOOKUP * accepted < in_order(rows))
                    && self.by_any_key(input, condition, &BTreeSet::new()).is_some()
            }
            _ => false,
        }
    }

    /// True if each of some conditions has a key, and together they find fewer rows than a scan.
    /// `None` if one of them has no key.
    fn is_cheap(&self, scan: &Rel, any: &[Expr], others: &[Expr]) -> Option<bool> {
        let Rel::Scan { table, .. } = scan else { return None };
        let (all, mut found) = (self.estimates.rows(scan), 0.0);
        for branch in any {
            let mut conditions = others.to_vec();
            conditions.push(branch.clone());
            let access = access(scan, &conditions)?;
            // The rows of a range are not known without statistics.
            let is_range = table.statistics.is_some() && !access.spans.is_empty();
            if !is_range && !access.has_key() {
                return None;
            }
            found += LOOKUP * (1.0 + self.estimates.scanned(scan, &conditions));
            if found >= all {
                return Some(false);
            }
        }
        Some(true)
    }
}
