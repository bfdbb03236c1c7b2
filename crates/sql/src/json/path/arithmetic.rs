//! Arithmetic of items: that of `numeric`.

use super::evaluate::{Evaluation, Finds, Found, Stop, add};
use super::item::{Item, ItemView};
use super::{Arithmetic, Id};
use crate::error::{SqlError, state};
use crate::numeric::Numeric;

impl<'a> Evaluation<'a> {
    /// Returns the items of an operand: in lax mode those of an array instead of the array.
    pub(super) fn operand(
        &mut self,
        id: Id,
        item: &Item<'a>,
        unwraps: bool,
    ) -> Result<Vec<Item<'a>>, Stop> {
        let mut found = Some(Vec::new());
        self.step(id, item, &mut found)?;
        let items = found.unwrap_or_default();
        if !unwraps || !self.is_lax || items.iter().all(|item| item.array_length().is_none()) {
            return Ok(items);
        }
        let mut all = Some(Vec::new());
        for item in &items {
            match (item.array_length(), &mut all) {
                (None, Some(all)) => _ = add(item, all)?,
                _ => _ = self.each_part(None, item, false, &mut all)?,
            }
        }
        Ok(all.unwrap_or_default())
    }

    pub(super) fn arithmetic(
        &mut self,
        id: Id,
        arithmetic: Arithmetic,
        operands: [Id; 2],
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        let [left, right] = operands;
        let (left, right) = (self.operand(left, item, true)?, self.operand(right, item, true)?);
        let single = |this: &Self, items: &[Item<'a>], side: &str| {
            let number = match items {
                [only] => number(only)?,
                _ => None,
            };
            let sign = arithmetic.sign();
            let message =
                format!("{side} operand of jsonpath operator {sign} is not a single numeric value");
            number.ok_or_else(|| this.fail(state::NO_SINGLE_JSON_ITEM, message))
        };
        let left = single(self, &left, "left")?;
        let right = single(self, &right, "right")?;
        let result = match arithmetic {
            Arithmetic::Plus => left.plus(&right),
            Arithmetic::Minus => left.minus(&right),
            Arithmetic::Times => left.times(&right),
            Arithmetic::Over => left.over(&right),
            Arithmetic::Rest => left.rest(&right),
        };
        let result = result.map_err(|error| match self.throws {
            true => error.into(),
            false => Stop::Silent,
        })?;
        self.next(id, &Item::Number(result), found)
    }

    pub(super) fn sign(
        &mut self,
        id: Id,
        is_minus: bool,
        of: Id,
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        let mut finds = false;
        for item in self.operand(of, item, true)? {
            let is_asked = self.is_only_asked(id, found);
            let Some(n) = number(&item)? else {
                if is_asked {
                    continue;
                }
                let sign = if is_minus { "-" } else { "+" };
                let message =
                    format!("operand of unary jsonpath operator {sign} is not a numeric value");
                return Err(self.fail(state::NO_JSON_NUMBER, message));
            };
            let value = Item::Number(if is_minus { n.negated() } else { n });
            finds |= self.next(id, &value, found)?;
            if finds && found.is_none() {
                break;
            }
        }
        Ok(finds)
    }
}

/// Returns the value of an item that is a number.
pub(super) fn number(item: &Item<'_>) -> Result<Option<Numeric>, SqlError> {
    Ok(match item.view()? {
        ItemView::Number(n) => Some(n.into_owned()),
        _ => None,
    })
}
