//! Items: the values between the steps of a path.

use super::datetime::Moment;
use crate::error::SqlError;
use crate::json::{Builder, Event, Jsonb, Node, View};
use crate::numeric::Numeric;
use std::borrow::Cow;
use std::ops::Range;

/// An item.
#[derive(Clone)]
pub(crate) enum Item<'a> {
    Null,
    Bool(bool),
    Number(Numeric),
    String(Cow<'a, str>),
    Moment(Moment),
    /// A value of the document or of the variables.
    Node(Node<'a>),
    /// A value inside one that a method has made.
    Made(Jsonb, Range<usize>),
}

/// An item by its kind.
pub(super) enum ItemView<'i> {
    Null,
    Bool(bool),
    Number(Cow<'i, Numeric>),
    String(&'i str),
    Moment(&'i Moment),
    Array,
    Object,
}

impl<'a> Item<'a> {
    /// Takes a value that a method has made.
    pub(super) fn made(value: Jsonb) -> Item<'a> {
        let whole = 0..value.as_bytes().len();
        Item::Made(value, whole)
    }

    /// Returns it by its kind.
    pub(super) fn view(&self) -> Result<ItemView<'_>, SqlError> {
        let node = match self {
            Item::Null => return Ok(ItemView::Null),
            Item::Bool(b) => return Ok(ItemView::Bool(*b)),
            Item::Number(n) => return Ok(ItemView::Number(Cow::Borrowed(n))),
            Item::String(text) => return Ok(ItemView::String(text)),
            Item::Moment(moment) => return Ok(ItemView::Moment(moment)),
            Item::Node(node) => *node,
            Item::Made(value, range) => value.root().within(range.clone()),
        };
        Ok(match node.view() {
            View::Null => ItemView::Null,
            View::Bool(b) => ItemView::Bool(b),
            View::Number(digits) => ItemView::Number(Cow::Owned(Numeric::from_text(digits)?)),
            View::String(text) => ItemView::String(text),
            View::Array(_) => ItemView::Array,
            View::Object(_) => ItemView::Object,
        })
    }

    /// Returns its value, if it is an array or an object, or may be.
    pub(super) fn node(&self) -> Option<Node<'_>> {
        match self {
            Item::Node(node) => Some(*node),
            Item::Made(value, range) => Some(value.root().within(range.clone())),
            _ => None,
        }
    }

    /// Returns the number of its items; `None` if it is no array.
    pub(super) fn array_length(&self) -> Option<usize> {
        match self.node()?.view() {
            View::Array(items) => Some(items.len()),
            _ => None,
        }
    }

    /// Returns the number of its parts, if it is an array or an object.
    pub(super) fn count(&self) -> usize {
        match self.node().map(Node::view) {
            Some(View::Array(items)) => items.len(),
            Some(View::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// True if it is an array or an object.
    pub(super) fn has_parts(&self) -> bool {
        self.node().is_some_and(|node| !node.is_scalar())
    }

    /// Returns a part of it.
    pub(super) fn part(
        &self,
        find: impl for<'n> FnOnce(Node<'n>) -> Option<Node<'n>>,
    ) -> Option<Item<'a>> {
        match self {
            Item::Node(node) => find(*node).map(Item::Node),
            Item::Made(value, range) => {
                let part = find(value.root().within(range.clone()))?;
                let from = value.root().place_of(part)?;
                Some(Item::Made(value.clone(), from..from + part.bytes().len()))
            }
            _ => None,
        }
    }

    /// Returns the item, or the value of the member, at a place.
    pub(super) fn part_at(&self, at: usize) -> Option<Item<'a>> {
        self.part(|node| match node.view() {
            View::Array(items) => items.get(at),
            View::Object(members) => members.get(at).map(|(_, value)| value),
            _ => None,
        })
    }

    /// Adds it to a value that is being built.
    pub(crate) fn add_to(&self, builder: &mut Builder) -> Result<(), SqlError> {
        match self {
            Item::Null => builder.add(Event::Null),
            Item::Bool(b) => builder.add(Event::Boolean(*b)),
            Item::Number(n) => builder.add(Event::Number(n.to_string().into())),
            Item::String(text) => builder.add(Event::String(Cow::Borrowed(text))),
            Item::Moment(moment) => builder.add(Event::String(moment.text().into())),
            Item::Node(node) => builder.add_node(*node),
            Item::Made(value, range) => builder.add_node(value.root().within(range.clone())),
        }
    }

    /// Returns it as a value of its own.
    pub(crate) fn to_jsonb(&self) -> Result<Jsonb, SqlError> {
        let mut builder = Builder::default();
        self.add_to(&mut builder)?;
        builder.finish()
    }

    /// Returns its truth value, which may be null; `None` if it is neither.
    pub(crate) fn truth(&self) -> Result<Option<Option<bool>>, SqlError> {
        Ok(match self.view()? {
            ItemView::Null => Some(None),
            ItemView::Bool(b) => Some(Some(b)),
            _ => None,
        })
    }

    /// Returns the name of its kind, as `.type()` shows it.
    pub(super) fn type_name(&self) -> Result<&'static str, SqlError> {
        Ok(match self.view()? {
            ItemView::Null => "null",
            ItemView::Bool(_) => "boolean",
            ItemView::Number(_) => "number",
            ItemView::String(_) => "string",
            ItemView::Moment(moment) => moment.type_name(),
            ItemView::Array => "array",
            ItemView::Object => "object",
        })
    }
}
