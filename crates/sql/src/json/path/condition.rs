//! Conditions: true, false or unknown (`None`).

use super::evaluate::{Evaluation, Stop};
use super::item::{Item, ItemView};
use super::{Comparison, Id, Kind};
use crate::datetime::Local;
use crate::error::SqlError;
use crate::interrupt;
use crate::stack;
use std::cmp::Ordering;

/// A truth value of three.
type Holds = Result<Option<bool>, Stop>;

impl<'a> Evaluation<'a> {
    /// Evaluates a condition for an item, which `@` is.
    pub(super) fn filters(&mut self, condition: Id, item: &Item<'a>) -> Holds {
        let before = std::mem::replace(&mut self.current, item.clone());
        let holds = self.condition(condition, item);
        self.current = before;
        holds
    }

    /// Evaluates a condition.
    pub(super) fn condition(&mut self, id: Id, item: &Item<'a>) -> Holds {
        interrupt::step();
        stack::level(|| self.holds(id, item))
    }

    fn holds(&mut self, id: Id, item: &Item<'a>) -> Holds {
        let steps = self.steps;
        match steps.kind(id) {
            Kind::And(left, right) => match self.condition(*left, item)? {
                Some(false) => Ok(Some(false)),
                left => Ok(match self.condition(*right, item)? {
                    Some(true) => left,
                    right => right,
                }),
            },
            Kind::Or(left, right) => match self.condition(*left, item)? {
                Some(true) => Ok(Some(true)),
                left => Ok(match self.condition(*right, item)? {
                    Some(false) => left,
                    right => right,
                }),
            },
            Kind::Not(of) => Ok(self.condition(*of, item)?.map(|holds| !holds)),
            Kind::IsUnknown(of) => Ok(Some(self.condition(*of, item)?.is_none())),
            Kind::Exists(path) => self.finds(*path, item),
            Kind::Compare(comparison, left, right) => {
                let local = self.local;
                let compare = |a: &Item<'a>, b: &Item<'a>| compare(*comparison, a, b, local);
                self.any_pair(*left, Some((*right, true)), item, compare)
            }
            Kind::StartsWith(whole, start) => {
                self.any_pair(*whole, Some((*start, false)), item, |whole, start| {
                    Ok(match (whole.view()?, start.view()?) {
                        (ItemView::String(whole), ItemView::String(start)) => {
                            Some(whole.starts_with(start))
                        }
                        _ => None,
                    })
                })
            }
            Kind::LikeRegex(of, regex) => self.any_pair(*of, None, item, |of, _| {
                Ok(match of.view()? {
                    ItemView::String(text) => Some(regex.compiled.is_match(text)?),
                    _ => None,
                })
            }),
            _ => Ok(None),
        }
    }

    /// Evaluates without reporting errors of SQL/JSON; `None` for one.
    fn silently<T>(
        &mut self,
        evaluate: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<Option<T>, Stop> {
        let before = std::mem::replace(&mut self.throws, false);
        let result = evaluate(self);
        self.throws = before;
        match result {
            Ok(result) => Ok(Some(result)),
            Err(Stop::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a path finds something.
    fn finds(&mut self, path: Id, item: &Item<'a>) -> Holds {
        // In strict mode an error behind the first item counts.
        let mut found = (!self.is_lax).then(Vec::new);
        let finds = self.silently(|this| this.step(path, item, &mut found))?;
        Ok(finds.map(|finds| found.map_or(finds, |found| !found.is_empty())))
    }

    /// Returns whether a predicate holds for a pair of items of two operands. The right one may
    /// be missing; it says whether its arrays stand for their items.
    fn any_pair(
        &mut self,
        left: Id,
        right: Option<(Id, bool)>,
        item: &Item<'a>,
        predicate: impl Fn(&Item<'a>, &Item<'a>) -> Result<Option<bool>, SqlError>,
    ) -> Holds {
        let Some(left) = self.silently(|this| this.operand(left, item, true))? else {
            return Ok(None);
        };
        let right = match right {
            Some((right, unwraps)) => self.silently(|this| this.operand(right, item, unwraps))?,
            None => Some(vec![Item::Null]),
        };
        let Some(right) = right else { return Ok(None) };
        let (mut holds, mut is_unknown) = (false, false);
        for left in &left {
            for right in &right {
                interrupt::step();
                match predicate(left, right)? {
                    None if !self.is_lax => return Ok(None),
                    None => is_unknown = true,
                    Some(true) if self.is_lax => return Ok(Some(true)),
                    Some(now) => holds |= now,
                }
            }
        }
        Ok(if holds || !is_unknown { Some(holds) } else { None })
    }
}

/// Compares two items: those of different kinds are not comparable, but for null.
fn compare(
    comparison: Comparison,
    a: &Item<'_>,
    b: &Item<'_>,
    local: Option<Local<'_>>,
) -> Result<Option<bool>, SqlError> {
    let (a, b) = (a.view()?, b.view()?);
    let order = match (&a, &b) {
        (ItemView::Null, ItemView::Null) => Ordering::Equal,
        (ItemView::Null, _) | (_, ItemView::Null) => {
            return Ok(Some(comparison == Comparison::NotEqual));
        }
        (ItemView::Bool(a), ItemView::Bool(b)) => a.cmp(b),
        (ItemView::Number(a), ItemView::Number(b)) => a.order(b),
        (ItemView::String(a), ItemView::String(b)) => a.cmp(b),
        (ItemView::Moment(a), ItemView::Moment(b)) => match a.order(b, local)? {
            Some(order) => order,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(comparison.holds(order)))
}
