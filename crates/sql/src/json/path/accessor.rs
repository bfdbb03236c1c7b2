//! Accessors: members of objects, items of arrays, and the values at all levels.

use super::Id;
use super::arithmetic::number;
use super::evaluate::{Evaluation, Finds, Found, Stop, add};
use super::item::Item;
use crate::error::state;
use crate::interrupt;
use crate::json::Node;

impl<'a> Evaluation<'a> {
    pub(super) fn key(
        &mut self,
        id: Id,
        key: &str,
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        if !item.node().is_some_and(Node::is_object) {
            return match self.is_lenient {
                true => Ok(false),
                false => Err(self.fail(
                    state::NO_JSON_MEMBER,
                    "jsonpath member accessor can only be applied to an object",
                )),
            };
        }
        match item.part(|node| node.member(key)) {
            Some(value) => self.next(id, &value, found),
            None if self.is_lenient => Ok(false),
            None => {
                let message = format!("JSON object does not contain key \"{key}\"");
                Err(self.fail(state::NO_JSON_MEMBER, message))
            }
        }
    }

    /// Applies a step to each item of an array or value of an object, or adds them to those that
    /// are found.
    pub(super) fn each_part(
        &mut self,
        step: Option<Id>,
        item: &Item<'a>,
        unwraps: bool,
        found: &mut Found<'a>,
    ) -> Finds {
        let mut finds = false;
        for at in 0..item.count() {
            interrupt::step();
            let Some(part) = item.part_at(at) else { break };
            finds |= match (step, &mut *found) {
                (Some(step), found) => self.step_unwrapping(step, &part, unwraps, found)?,
                (None, Some(found)) => add(&part, found)?,
                (None, None) => true,
            };
            if finds && found.is_none() {
                break;
            }
        }
        Ok(finds)
    }

    /// Applies the step behind `**` to the values inside an item.
    pub(super) fn levels(
        &mut self,
        id: Id,
        from: Option<u32>,
        to: Option<u32>,
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        let mut finds = false;
        if from == Some(0) {
            finds = match self.with_lenience(true, |this| this.next(id, item, found)) {
                // As in PostgreSQL, the values inside decide then.
                Err(Stop::Silent) if item.has_parts() => false,
                finds => finds?,
            };
            if finds && found.is_none() {
                return Ok(true);
            }
        }
        Ok(self.level(id, 1, (from, to), item, found)? || finds)
    }

    /// Applies the step behind `**` to the values at a level and those inside them.
    fn level(
        &mut self,
        id: Id,
        level: u32,
        (from, to): (Option<u32>, Option<u32>),
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        interrupt::step();
        let mut finds = false;
        if to.is_some_and(|to| level > to) {
            return Ok(false);
        }
        for at in 0..item.count() {
            let Some(part) = item.part_at(at) else { break };
            // `last` has the values that have no others inside them.
            let is_met = match from {
                Some(from) => level >= from,
                None => to.is_none() && !part.has_parts(),
            };
            if is_met {
                finds |= self.with_lenience(true, |this| this.next(id, &part, found))?;
            }
            if finds && found.is_none() {
                break;
            }
            if part.has_parts() {
                finds |= self.deeper(|this| this.level(id, level + 1, (from, to), &part, found))?;
            }
            if finds && found.is_none() {
                break;
            }
        }
        Ok(finds)
    }

    pub(super) fn subscripts(
        &mut self,
        id: Id,
        ranges: &[(Id, Option<Id>)],
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        let length = item.array_length();
        if length.is_none() && !self.is_lax {
            return match self.is_lenient {
                true => Ok(false),
                false => Err(self.fail(
                    state::NO_JSON_ARRAY,
                    "jsonpath array accessor can only be applied to an array",
                )),
            };
        }
        let before = self.length.replace(length.unwrap_or(1));
        let mut finds = false;
        for (from, to) in ranges {
            match self.range(id, (*from, *to), item, length, found) {
                Ok(now) => finds |= now,
                Err(stop) => {
                    self.length = before;
                    return Err(stop);
                }
            }
            if finds && found.is_none() {
                break;
            }
        }
        self.length = before;
        Ok(finds)
    }

    /// Applies the next step to the items of a range of places.
    fn range(
        &mut self,
        id: Id,
        (from, to): (Id, Option<Id>),
        item: &Item<'a>,
        length: Option<usize>,
        found: &mut Found<'a>,
    ) -> Finds {
        let from = self.subscript(from, item)?;
        let to = to.map_or(Ok(from), |to| self.subscript(to, item))?;
        let most = length.unwrap_or(1) as i64;
        if !self.is_lenient && (from < 0 || from > to || to >= most) {
            let message = "jsonpath array subscript is out of bounds";
            return Err(self.fail(state::JSON_SUBSCRIPT, message));
        }
        let mut finds = false;
        for at in from.max(0)..=to.min(most - 1) {
            interrupt::step();
            let part =
                if length.is_none() { Some(item.clone()) } else { item.part_at(at as usize) };
            let Some(part) = part else { continue };
            finds |= self.next(id, &part, found)?;
            if finds && found.is_none() {
                break;
            }
        }
        Ok(finds)
    }

    /// Returns a place in an array.
    fn subscript(&mut self, id: Id, item: &Item<'a>) -> Result<i64, Stop> {
        let mut found = Some(Vec::new());
        self.step(id, item, &mut found)?;
        let number = match found.as_deref().unwrap_or_default() {
            [only] => number(only)?,
            _ => None,
        };
        let Some(number) = number else {
            let message = "jsonpath array subscript is not a single numeric value";
            return Err(self.fail(state::JSON_SUBSCRIPT, message));
        };
        let whole = number.truncated(0).to_whole().and_then(|n| i32::try_from(n).ok());
        let message = "jsonpath array subscript is out of integer range";
        whole.map(i64::from).ok_or_else(|| self.fail(state::JSON_SUBSCRIPT, message))
    }
}
