//! Methods of items.

use super::arithmetic::number;
use super::datetime::Moment;
use super::evaluate::{Evaluation, Finds, Found, Stop};
use super::identity::Base;
use super::item::{Item, ItemView};
use super::{Id, Method};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::json::{Builder, Event, Node, View};
use crate::numeric::Numeric;
use crate::types::Type;

impl<'a> Evaluation<'a> {
    /// Applies a method to an item.
    pub(super) fn method(
        &mut self,
        id: Id,
        method: Method,
        item: &Item<'a>,
        unwraps: bool,
        found: &mut Found<'a>,
    ) -> Finds {
        let is_of_items = !matches!(method, Method::Type | Method::Size);
        if is_of_items && unwraps && item.array_length().is_some() {
            return self.each_part(Some(id), item, false, found);
        }
        match method {
            Method::Type => self.next(id, &Item::String(item.type_name()?.into()), found),
            Method::Size => {
                let length = match item.array_length() {
                    None if !self.is_lax && self.is_lenient => return Ok(false),
                    None if !self.is_lax => {
                        let message = applied_to(method, "an array");
                        return Err(self.fail(state::NO_JSON_ARRAY, message));
                    }
                    length => length.unwrap_or(1),
                };
                self.next(id, &Item::Number(Numeric::of(length as i128, 0)), found)
            }
            Method::Double => {
                let value = self.double(item)?;
                self.next(id, &value, found)
            }
            Method::Ceiling => self.of_number(id, method, Numeric::ceil, item, found),
            Method::Floor => self.of_number(id, method, Numeric::floor, item, found),
            Method::Abs => self.of_number(id, method, |n| Ok(n.abs()), item, found),
            Method::KeyValue => self.key_value(id, item, found),
        }
    }

    fn of_number(
        &mut self,
        id: Id,
        method: Method,
        of: fn(&Numeric) -> Result<Numeric, SqlError>,
        item: &Item<'a>,
        found: &mut Found<'a>,
    ) -> Finds {
        let Some(n) = number(item)? else {
            let message = applied_to(method, "a numeric value");
            return Err(self.fail(state::NON_NUMERIC_JSON_ITEM, message));
        };
        self.next(id, &Item::Number(of(&n)?), found)
    }

    /// Returns a number as it is, a text as the number of double precision that it is.
    fn double(&self, item: &Item<'a>) -> Result<Item<'a>, Stop> {
        let wrong = |message: &str| self.fail(state::NON_NUMERIC_JSON_ITEM, message);
        let read = |text: &str| match Datum::from_text(Type::Float8, text) {
            Ok(Datum::Float8(x)) => Some(x),
            _ => None,
        };
        match item.view()? {
            ItemView::Number(n) => match read(&n.to_string()) {
                Some(_) => Ok(item.clone()),
                None => Err(wrong(
                    "numeric argument of jsonpath item method .double() is out of range for type \
                     double precision",
                )),
            },
            ItemView::String(text) => match read(text).filter(|x| x.is_finite()) {
                Some(x) => Ok(Item::Number(Numeric::of_float(x)?)),
                None => Err(wrong(
                    "string argument of jsonpath item method .double() is not a valid \
                     representation of a double precision number",
                )),
            },
            _ => {
                let message = applied_to(Method::Double, "a string or numeric value");
                Err(self.fail(state::NON_NUMERIC_JSON_ITEM, message))
            }
        }
    }

    /// Returns the date or time that a text is.
    pub(super) fn datetime(&self, template: Option<&str>, item: &Item<'a>) -> Result<Moment, Stop> {
        let ItemView::String(text) = item.view()? else {
            let message = "jsonpath item method .datetime() can only be applied to a string";
            return Err(self.fail(state::BAD_JSON_DATETIME, message));
        };
        if template.is_some() {
            let what = "a template of the jsonpath item method .datetime()";
            return Err(SqlError::unsupported(what).into());
        }
        Moment::of_text(text).ok_or_else(|| {
            let message = format!("datetime format is not recognized: \"{text}\"");
            let hint = "Use a datetime template argument to specify the input data format.";
            match self.throws {
                true => SqlError::new(state::BAD_JSON_DATETIME, message).hint(hint).into(),
                false => Stop::Silent,
            }
        })
    }

    /// Makes an object of each member of an object.
    fn key_value(&mut self, id: Id, item: &Item<'a>, found: &mut Found<'a>) -> Finds {
        if !item.node().is_some_and(Node::is_object) {
            let message = applied_to(Method::KeyValue, "an object");
            return Err(self.fail(state::NO_JSON_OBJECT, message));
        }
        if item.count() > 0 && self.is_only_asked(id, found) {
            return Ok(true);
        }
        let number = self.base.id_of(item).to_string();
        let mut finds = false;
        for at in 0..item.count() {
            let mut builder = Builder::default();
            if let Some(View::Object(members)) = item.node().map(Node::view)
                && let Some((key, value)) = members.get(at)
            {
                builder.add(Event::StartObject)?;
                builder.add(Event::ObjectKey("id".into()))?;
                builder.add(Event::Number(number.as_str().into()))?;
                builder.add(Event::ObjectKey("key".into()))?;
                builder.add(Event::String(key.into()))?;
                builder.add_member("value", value)?;
                builder.add(Event::EndObject)?;
            }
            let pair = Item::made(builder.finish()?);
            let base = Base::new(pair.clone(), self.bases);
            self.bases += 1;
            finds |= self.with_base(base, |this| this.next(id, &pair, found))?;
            if finds && found.is_none() {
                break;
            }
        }
        Ok(finds)
    }
}

/// Returns the message of a method of an item of another kind.
fn applied_to(method: Method, what: &str) -> String {
    format!("jsonpath item method .{}() can only be applied to {what}", method.name())
}
