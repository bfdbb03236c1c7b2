//! Paths of SQL/JSON: the type `jsonpath`.
//!
//! ```text
//!   text ── token ── parse ──▶ Path ──▶ show ── text in its normal form
//!                               │
//!        jsonb, variables ── evaluate ──▶ items
//! ```
//!
//! The steps of a path are in one list and name each other by their places, so that a path is
//! dropped without recursion. The number of steps is bounded ([`MOST_STEPS`]), and so are the
//! levels of an evaluation; the stack of both grows with them.

mod accessor;
mod arithmetic;
mod condition;
mod datetime;
mod evaluate;
mod identity;
mod item;
mod method;
mod parse;
mod show;
mod token;

pub(crate) use evaluate::Evaluation;
pub(crate) use item::Item;

use crate::error::SqlError;
use crate::function::PathPattern;
use crate::limits;
use crate::numeric::Numeric;
use std::cmp::Ordering;
use std::sync::Arc;

/// The most steps of a path, and the most levels of an evaluation.
const MOST_STEPS: usize = 50_000;
/// The most bytes of a step in the normal form, besides those of a text or number.
const LONGEST_SIGN: usize = 32;
/// The most bytes that a byte of a text takes in the normal form: `\u0001`.
const LONGEST_ESCAPE: usize = 6;

/// A path.
#[derive(Clone, Debug)]
pub struct Path(Arc<Steps>);

/// Paths of the same text in the normal form are equal.
impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Path {
    /// Parses a text. Fails with 42601 or 22P02 for what is no path, with 2201B for a wrong regular
    /// expression, with 54001 if it has too many steps.
    pub(crate) fn from_text(text: &str) -> Result<Path, SqlError> {
        Ok(Path(Arc::new(parse::parse(text)?)))
    }

    /// Returns the most bytes that its text has.
    pub(crate) fn text_bytes(&self) -> usize {
        self.0.text_bytes
    }

    /// Returns the bytes that it takes behind itself.
    pub(crate) fn behind(&self) -> usize {
        self.0.list.len() * size_of::<Step>() + self.0.text_bytes
    }

    fn steps(&self) -> &Steps {
        &self.0
    }
}

/// The place of a step in the list.
type Id = usize;

/// The steps of a path.
#[derive(Debug, Default)]
struct Steps {
    is_strict: bool,
    root: Id,
    list: Vec<Step>,
    /// The most bytes that its normal form has.
    text_bytes: usize,
}

impl Steps {
    /// Adds a step. Fails with 54001 if there are too many, with 54000 for too long a text.
    fn add(&mut self, kind: Kind) -> Result<Id, SqlError> {
        // A number with an exponent is far longer without it.
        let of_number = if let Kind::Number(n) = &kind { n.to_string().len() } else { 0 };
        self.text_bytes += of_number + LONGEST_SIGN;
        limits::check_value(self.text_bytes)?;
        if self.list.len() >= MOST_STEPS {
            return Err(too_many());
        }
        self.list.push(Step { kind, next: None });
        Ok(self.list.len() - 1)
    }

    fn kind(&self, id: Id) -> &Kind {
        &self.list[id].kind
    }

    fn next(&self, id: Id) -> Option<Id> {
        self.list[id].next
    }
}

fn too_many() -> SqlError {
    limits::too_deep("Steps of a jsonpath", MOST_STEPS)
}

/// A step of a path, and the step that is applied to its result.
#[derive(Debug)]
struct Step {
    kind: Kind,
    next: Option<Id>,
}

/// The kind of a step, with the places of its operands.
#[derive(Debug)]
enum Kind {
    Null,
    Bool(bool),
    Number(Numeric),
    String(Box<str>),
    /// `$name`
    Variable(Box<str>),
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// `.key`
    Key(Box<str>),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyItem,
    /// `[from to to, …]`
    Items(Vec<(Id, Option<Id>)>),
    /// `.**{from to to}`; `None` is `last`
    AnyLevel(Option<u32>, Option<u32>),
    /// `? (condition)`
    Filter(Id),
    Method(Method),
    /// `.datetime(template)`
    Datetime(Option<Box<str>>),
    Arithmetic(Arithmetic, Id, Id),
    /// `-` if true, else `+`
    Sign(bool, Id),
    And(Id, Id),
    Or(Id, Id),
    Not(Id),
    IsUnknown(Id),
    Compare(Comparison, Id, Id),
    Exists(Id),
    StartsWith(Id, Id),
    LikeRegex(Id, Box<Regex>),
}

/// The pattern of `like_regex`.
#[derive(Debug)]
struct Regex {
    pattern: Box<str>,
    /// The flags, each once, in the order of the normal form.
    flags: Box<str>,
    compiled: PathPattern,
}

/// A method of an item, without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

impl Method {
    const ALL: [(Method, &'static str); 7] = [
        (Method::Type, "type"),
        (Method::Size, "size"),
        (Method::Double, "double"),
        (Method::Ceiling, "ceiling"),
        (Method::Floor, "floor"),
        (Method::Abs, "abs"),
        (Method::KeyValue, "keyvalue"),
    ];

    fn name(self) -> &'static str {
        Method::ALL[self as usize].1
    }

    fn named(name: &str) -> Option<Method> {
        Method::ALL.iter().find(|(_, other)| *other == name).map(|(method, _)| *method)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
    Rest,
}

impl Arithmetic {
    fn sign(self) -> &'static str {
        match self {
            Arithmetic::Plus => "+",
            Arithmetic::Minus => "-",
            Arithmetic::Times => "*",
            Arithmetic::Over => "/",
            Arithmetic::Rest => "%",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// True if an order satisfies it.
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests;
