//! The bytes of a `jsonb`, which are read in place.
//!
//! A value's last byte is its tag, so that a builder appends what it meets and never moves it.
//! Positions count from the value's first byte; numbers are 32 bits, little end first.
//!
//! ```text
//!   null, false, true   tag
//!   number, string      text, tag
//!   array               items, end of each item, count, depth (2 bytes), tag
//!   object              members (key, value), then for each in the order of keys: start of the
//!                       key, start and end of the value; count, depth (2 bytes), tag
//! ```
//!
//! Keys are ordered by length, then by bytes, as PostgreSQL does.

use super::build::Builder;
use super::{Event, read};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::types::Type;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const NUMBER: u8 = 3;
pub(super) const STRING: u8 = 4;
pub(super) const ARRAY: u8 = 5;
pub(super) const OBJECT: u8 = 6;

/// The bytes of a position.
const WORD: usize = 4;
/// The bytes of the number of levels.
const DEPTH: usize = 2;
/// The bytes of a member of an object: three positions.
const MEMBER: usize = 3 * WORD;

/// A value of `jsonb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jsonb(Arc<[u8]>);

impl Jsonb {
    /// Takes the bytes of a value. Wrong ones read as `null`, wholly or in part.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Jsonb(Arc::from(bytes))
    }

    /// Parses a text. Fails with 22P02 for what is no JSON, with 22P05 for a zero character, with
    /// 22003 for a number that PostgreSQL's `numeric` does not hold, with 54001 if it is nested too
    /// deeply.
    pub(crate) fn from_text(text: &str) -> Result<Self, SqlError> {
        let mut builder = Builder::default();
        for event in read::events(text) {
            builder.add(event?)?;
        }
        builder.finish()
    }

    /// Returns its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value itself, to be looked into.
    pub(crate) fn root(&self) -> Node<'_> {
        Node(&self.0)
    }

    /// Orders two values as PostgreSQL's index operators do.
    pub(crate) fn order(&self, other: &Jsonb) -> Ordering {
        if self.0 == other.0 {
            return Ordering::Equal;
        }
        self.root().key().cmp(&other.root().key())
    }
}

/// A value inside a `jsonb`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(&'a [u8]);

/// A value by its kind.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Null,
    Bool(bool),
    /// In plain decimal notation.
    Number(&'a str),
    String(&'a str),
    Array(Items<'a>),
    Object(Members<'a>),
}

/// Returns the place in an array that a step of a path names, from the end if it is negative.
pub(crate) fn place(step: &str) -> Option<i32> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\u{B}', '\u{C}', '\r']);
    digits.parse().ok()
}

fn word(bytes: &[u8], at: usize) -> usize {
    let word = bytes.get(at..at + WORD).and_then(|word| word.try_into().ok());
    word.map_or(0, |word| u32::from_le_bytes(word) as usize)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

impl<'a> Node<'a> {
    /// Returns its bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the value at a place of its bytes.
    pub(crate) fn within(self, place: Range<usize>) -> Node<'a> {
        Node(self.0.get(place).unwrap_or_default())
    }

    /// Returns the place in its bytes at which a value begins that is inside it.
    pub(crate) fn place_of(self, part: Node<'_>) -> Option<usize> {
        let (whole, part) = (self.0.as_ptr_range(), part.0.as_ptr_range());
        let is_inside = whole.start <= part.start && part.end <= whole.end;
        is_inside.then(|| part.start as usize - whole.start as usize)
    }

    /// True if it is an object.
    pub(crate) fn is_object(self) -> bool {
        matches!(self.0.last(), Some(&OBJECT))
    }

    /// Returns it as a value of its own.
    pub(crate) fn to_owned(self) -> Jsonb {
        Jsonb(Arc::from(self.0))
    }

    /// Returns it by its kind.
    pub(crate) fn view(self) -> View<'a> {
        let Some((tag, body)) = self.0.split_last() else { return View::Null };
        let table = |width: usize| {
            let rest = body.len().checked_sub(WORD + DEPTH)?;
            let count = word(body, rest);
            let from = rest.checked_sub(count.checked_mul(width)?)?;
            Some((&body[..from], &body[from..rest], count))
        };
        match *tag {
            FALSE => View::Bool(false),
            TRUE => View::Bool(true),
            NUMBER => View::Number(text(body)),
            STRING => View::String(text(body)),
            ARRAY => table(WORD).map_or(View::Null, |(data, table, count)| {
                View::Array(Items { data, table, count })
            }),
            OBJECT => table(MEMBER).map_or(View::Null, |(data, table, count)| {
                View::Object(Members { data, table, count })
            }),
            _ => View::Null,
        }
    }

    /// Returns the value of a key, if it is an object that has it.
    pub(crate) fn member(self, key: &str) -> Option<Node<'a>> {
        match self.view() {
            View::Object(members) => members.find(key),
            _ => None,
        }
    }

    /// Returns an item of an array; a negative place counts from the end.
    pub(crate) fn item(self, at: i64) -> Option<Node<'a>> {
        match self.view() {
            View::Array(items) => items.place(at).and_then(|at| items.get(at)),
            _ => None,
        }
    }

    /// Returns the value at a step of a path: a key of an object, or a place in an array.
    pub(crate) fn step(self, step: &str) -> Option<Node<'a>> {
        match self.view() {
            View::Object(members) => members.find(step),
            View::Array(_) => self.item(place(step)?.into()),
            _ => None,
        }
    }

    /// Returns the number of arrays and objects inside each other; 0 for a scalar.
    pub(crate) fn depth(self) -> usize {
        match self.0 {
            [.., low, high, ARRAY | OBJECT] => u16::from_le_bytes([*low, *high]).into(),
            _ => 0,
        }
    }

    /// Returns the text of a string.
    pub(crate) fn string(self) -> Option<&'a str> {
        match self.view() {
            View::String(text) => Some(text),
            _ => None,
        }
    }

    /// True unless it is an array or an object.
    pub(crate) fn is_scalar(self) -> bool {
        !matches!(self.0.last(), Some(&(ARRAY | OBJECT)))
    }

    /// Returns a number or a truth value as a value of SQL that converts to a type. Fails with
    /// 22023 for any other.
    pub(crate) fn scalar(self, to: Type) -> Result<Datum, SqlError> {
        let kind = match self.view() {
            View::Bool(b) if to == Type::Bool => return Ok(Datum::Bool(b)),
            // A float holds numbers that a numeric does not.
            View::Number(digits) if to == Type::Float8 => return Datum::from_text(to, digits),
            View::Number(digits) if to != Type::Bool => {
                return Datum::from_text(Type::Numeric(None), digits);
            }
            View::Null => "null",
            View::Bool(_) => "boolean",
            View::Number(_) => "numeric",
            View::String(_) => "string",
            View::Array(_) => "array",
            View::Object(_) => "object",
        };
        let message = format!("cannot cast jsonb {kind} to type {}", to.name());
        Err(SqlError::new(state::INVALID_PARAMETER, message))
    }

    /// Walks over it and all inside it.
    pub(crate) fn events(self) -> Events<'a> {
        Events { next: Some(self), open: Vec::new() }
    }
}

/// The items of an array.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    data: &'a [u8],
    table: &'a [u8],
    count: usize,
}

impl<'a> Items<'a> {
    pub(crate) fn len(self) -> usize {
        self.count
    }

    /// Returns the item at a place from 0.
    pub(crate) fn get(self, at: usize) -> Option<Node<'a>> {
        if at >= self.count {
            return None;
        }
        let start = if at == 0 { 0 } else { word(self.table, (at - 1) * WORD) };
        self.data.get(start..word(self.table, at * WORD)).map(Node)
    }

    /// Returns the place from 0 of one that may count from the end.
    pub(crate) fn place(self, at: i64) -> Option<usize> {
        let at = if at < 0 { at + self.count as i64 } else { at };
        usize::try_from(at).ok().filter(|at| *at < self.count)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Node<'a>> {
        (0..self.count).map_while(move |at| self.get(at))
    }
}

/// The members of an object, in the order of their keys.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a> {
    data: &'a [u8],
    table: &'a [u8],
    count: usize,
}

impl<'a> Members<'a> {
    pub(crate) fn len(self) -> usize {
        self.count
    }

    /// Returns the member at a place from 0.
    pub(crate) fn get(self, at: usize) -> Option<(&'a str, Node<'a>)> {
        if at >= self.count {
            return None;
        }
        let [key, value, end] = [0, 1, 2].map(|part| word(self.table, at * MEMBER + part * WORD));
        Some((text(self.data.get(key..value)?), Node(self.data.get(value..end)?)))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        (0..self.count).map_while(move |at| self.get(at))
    }

    fn find(self, key: &str) -> Option<Node<'a>> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            let (met, value) = self.get(middle)?;
            match order_of_keys(met.as_bytes(), key.as_bytes()) {
                Ordering::Equal => return Some(value),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
            }
        }
        None
    }
}

/// Orders keys of objects: shorter ones first.
pub(super) fn order_of_keys(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// A walk over a value.
pub(crate) struct Events<'a> {
    next: Option<Node<'a>>,
    open: Vec<Open<'a>>,
}

enum Open<'a> {
    Array(Items<'a>, usize),
    Object(Members<'a>, usize),
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        interrupt::step();
        if let Some(node) = self.next.take() {
            return Some(match node.view() {
                View::Null => Event::Null,
                View::Bool(b) => Event::Boolean(b),
                View::Number(digits) => Event::Number(Cow::Borrowed(digits)),
                View::String(text) => Event::String(Cow::Borrowed(text)),
                View::Array(items) => {
                    self.next = items.get(0);
                    self.open.push(Open::Array(items, 1));
                    Event::StartArray
                }
                View::Object(members) => {
                    self.open.push(Open::Object(members, 0));
                    Event::StartObject
                }
            });
        }
        let (event, next) = match self.open.last_mut()? {
            Open::Array(items, at) => {
                *at += 1;
                match items.get(*at - 1) {
                    Some(node) => {
                        self.next = Some(node);
                        return self.next();
                    }
                    None => (Event::EndArray, None),
                }
            }
            Open::Object(members, at) => {
                *at += 1;
                match members.get(*at - 1) {
                    Some((key, value)) => (Event::ObjectKey(Cow::Borrowed(key)), Some(value)),
                    None => (Event::EndObject, None),
                }
            }
        };
        if next.is_none() {
            self.open.pop();
        }
        self.next = next;
        Some(event)
    }
}
