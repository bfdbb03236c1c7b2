//! Evaluates paths.
//!
//! Each step is applied to an item, and the next one to each item of its result. The last adds its
//! items to those that are found; where only their existence is asked for, the first ends the
//! evaluation. In lax mode a step over members or items is applied to the items of an array, an
//! array is an array of itself, and what is missing is nothing; in strict mode these are errors.

use super::identity::Base;
use super::item::Item;
use super::{Id, Kind, MOST_STEPS, Path, Steps};
use crate::datetime::Local;
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::json::{Jsonb, Node};
use crate::limits;
use crate::numeric::Numeric;
use crate::stack;

/// The items that are found; `None` where only their existence is asked for.
pub(crate) type Found<'a> = Option<Vec<Item<'a>>>;

/// The end of an evaluation without a result.
pub(super) enum Stop {
    /// An error of SQL/JSON where these are not reported.
    Silent,
    Error(Box<SqlError>),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(Box::new(error))
    }
}

/// Whether a step has found something.
pub(super) type Finds = Result<bool, Stop>;

/// An evaluation of a path over a document.
pub(crate) struct Evaluation<'a> {
    pub(super) steps: &'a Steps,
    root: Node<'a>,
    /// The variables; each is null if there are none at all.
    vars: Option<Node<'a>>,
    pub(super) is_lax: bool,
    /// True if errors of SQL/JSON are reported.
    pub(super) throws: bool,
    /// True if steps to what is missing find nothing.
    pub(super) is_lenient: bool,
    /// The item that `@` is.
    pub(super) current: Item<'a>,
    /// The length of the array whose subscripts are evaluated.
    pub(super) length: Option<usize>,
    /// The value in which objects have their ids.
    pub(super) base: Base<'a>,
    /// The number of values that objects have ids in.
    pub(super) bases: i64,
    /// The zone of the session, where dates and times may be compared in it.
    pub(super) local: Option<Local<'a>>,
    depth: usize,
}

impl<'a> Evaluation<'a> {
    /// Prepares an evaluation. Fails with 22023 if the variables are no object.
    pub(crate) fn new(
        path: &'a Path,
        document: &'a Jsonb,
        vars: Option<&'a Jsonb>,
        is_silent: bool,
    ) -> Result<Self, SqlError> {
        let steps = path.steps();
        let vars = vars.map(Jsonb::root);
        if vars.is_some_and(|vars| !vars.is_object()) {
            let message = "\"vars\" argument is not an object";
            let detail =
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            return Err(SqlError::new(state::INVALID_PARAMETER, message).detail(detail));
        }
        let root = document.root();
        Ok(Evaluation {
            steps,
            root,
            vars,
            is_lax: !steps.is_strict,
            throws: !is_silent,
            is_lenient: !steps.is_strict,
            current: Item::Node(root),
            length: None,
            base: Base::new(Item::Node(root), 0),
            bases: 2,
            local: None,
            depth: 0,
        })
    }

    /// Compares dates and times in the zone of the session.
    pub(crate) fn in_zone(self, local: Local<'a>) -> Self {
        Evaluation { local: Some(local), ..self }
    }

    /// Returns whether the path finds something; `None` for an error that is not reported.
    pub(crate) fn exists(mut self) -> Result<Option<bool>, SqlError> {
        // In strict mode an error behind the first item counts.
        let mut found = (!self.is_lax).then(Vec::new);
        match self.run(&mut found) {
            Ok(finds) => Ok(Some(found.map_or(finds, |found| !found.is_empty()))),
            Err(Stop::Silent) => Ok(None),
            Err(Stop::Error(error)) => Err(*error),
        }
    }

    /// Returns the items that the path finds: up to an error, if that is not reported.
    pub(crate) fn items(mut self) -> Result<Vec<Item<'a>>, SqlError> {
        let mut found = Some(Vec::new());
        match self.run(&mut found) {
            Ok(_) | Err(Stop::Silent) => Ok(found.unwrap_or_default()),
            Err(Stop::Error(error)) => Err(*error),
        }
    }

    fn run(&mut self, found: &mut Found<'a>) -> Finds {
        self.step(self.steps.root, &Item::Node(self.root), found)
    }

    /// Returns the end of an evaluation at an error of SQL/JSON.
    pub(super) fn fail(&self, sqlstate: &'static str, message: impl Into<String>) -> Stop {
        match self.throws {
            true => SqlError::new(sqlstate, message).into(),
            false => Stop::Silent,
        }
    }

    /// Applies a step to an item; in lax mode to the items of an array.
    pub(super) fn step(&mut self, id: Id, item: &Item<'a>, found: &mut Found<'a>) -> Finds {
        self.step_unwrapping(id, item, self.is_lax, found)
    }

    pub(super) fn step_unwrapping(
        &mut self,
        id: Id,
        item: &Item<'a>,
        unwraps: bool,
        found: &mut Found<'a>,
    ) -> Finds {
        self.deeper(|this| this.apply(id, item, unwraps, found))
    }

    /// Evaluates a level deeper. Fails with 54001 if there are too many levels.
    pub(super) fn deeper(&mut self, evaluate: impl FnOnce(&mut Self) -> Finds) -> Finds {
        interrupt::step();
        if self.depth >= MOST_STEPS {
            return Err(limits::too_deep("Levels of a jsonpath's evaluation", MOST_STEPS).into());
        }
        self.depth += 1;
        let finds = stack::level(|| evaluate(self));
        self.depth -= 1;
        finds
    }

    /// Applies the step behind one to an item, or adds the item to those that are found.
    pub(super) fn next(&mut self, id: Id, item: &Item<'a>, found: &mut Found<'a>) -> Finds {
        match (self.steps.next(id), found) {
            (Some(next), found) => self.step(next, item, found),
            (None, Some(found)) => add(item, found),
            (None, None) => Ok(true),
        }
    }

    /// True if a step's value is not needed: its existence is asked for.
    pub(super) fn is_only_asked(&self, id: Id, found: &Found<'a>) -> bool {
        found.is_none() && self.steps.next(id).is_none()
    }

    fn apply(&mut self, id: Id, item: &Item<'a>, unwraps: bool, found: &mut Found<'a>) -> Finds {
        let steps = self.steps;
        let is_of_array = unwraps && item.array_length().is_some();
        match steps.kind(id) {
            Kind::Key(_) | Kind::AnyKey | Kind::Filter(_) if is_of_array => {
                self.each_part(Some(id), item, false, found)
            }
            Kind::Key(key) => self.key(id, key, item, found),
            Kind::AnyKey => match item.node().is_some_and(Node::is_object) {
                true => self.each_part(steps.next(id), item, self.is_lax, found),
                false if self.is_lenient => Ok(false),
                false => Err(self.fail(
                    state::NO_JSON_OBJECT,
                    "jsonpath wildcard member accessor can only be applied to an object",
                )),
            },
            Kind::AnyItem if item.array_length().is_some() => {
                self.each_part(steps.next(id), item, self.is_lax, found)
            }
            Kind::AnyItem if self.is_lax => self.next(id, item, found),
            Kind::AnyItem if self.is_lenient => Ok(false),
            Kind::AnyItem => Err(self.fail(
                state::NO_JSON_ARRAY,
                "jsonpath wildcard array accessor can only be applied to an array",
            )),
            Kind::Items(ranges) => self.subscripts(id, ranges, item, found),
            Kind::AnyLevel(from, to) => self.levels(id, *from, *to, item, found),
            Kind::Filter(condition) => match self.filters(*condition, item)? {
                Some(true) => self.next(id, item, found),
                _ => Ok(false),
            },
            Kind::Root => {
                let root = Item::Node(self.root);
                self.with_base(Base::new(root.clone(), 0), |this| this.next(id, &root, found))
            }
            Kind::Current => {
                let current = self.current.clone();
                self.next(id, &current, found)
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_)
                if self.is_only_asked(id, found) =>
            {
                Ok(true)
            }
            Kind::Null => self.next(id, &Item::Null, found),
            Kind::Bool(b) => self.next(id, &Item::Bool(*b), found),
            Kind::Number(n) => self.next(id, &Item::Number(n.clone()), found),
            Kind::String(text) => self.next(id, &Item::String((&**text).into()), found),
            Kind::Variable(_) if self.is_only_asked(id, found) => Ok(true),
            Kind::Variable(name) => {
                let Some(vars) = self.vars else { return self.next(id, &Item::Null, found) };
                let value = Item::Node(vars.member(name).ok_or_else(|| {
                    let message = format!("could not find jsonpath variable \"{name}\"");
                    SqlError::new(state::UNDEFINED_OBJECT, message)
                })?);
                let base = Base::new(Item::Node(vars), 1);
                self.with_base(base, |this| this.next(id, &value, found))
            }
            Kind::Last => {
                let last = self.length.map_or(0, |length| length as i128 - 1);
                self.next(id, &Item::Number(Numeric::of(last, 0)), found)
            }
            Kind::Arithmetic(arithmetic, left, right) => {
                self.arithmetic(id, *arithmetic, [*left, *right], item, found)
            }
            Kind::Sign(is_minus, of) => self.sign(id, *is_minus, *of, item, found),
            Kind::Method(method) => self.method(id, *method, item, unwraps, found),
            Kind::Datetime(_) if is_of_array => self.each_part(Some(id), item, false, found),
            Kind::Datetime(template) => {
                let moment = Item::Moment(self.datetime(template.as_deref(), item)?);
                self.next(id, &moment, found)
            }
            Kind::And(..)
            | Kind::Or(..)
            | Kind::Not(_)
            | Kind::IsUnknown(_)
            | Kind::Compare(..)
            | Kind::Exists(_)
            | Kind::StartsWith(..)
            | Kind::LikeRegex(..) => {
                let holds = self.condition(id, item)?;
                if self.is_only_asked(id, found) {
                    return Ok(true);
                }
                self.next(id, &holds.map_or(Item::Null, Item::Bool), found)
            }
        }
    }

    /// Evaluates with another value that objects have their ids in.
    pub(super) fn with_base(
        &mut self,
        base: Base<'a>,
        evaluate: impl FnOnce(&mut Self) -> Finds,
    ) -> Finds {
        let before = std::mem::replace(&mut self.base, base);
        let finds = evaluate(self);
        self.base = before;
        finds
    }

    /// Evaluates with or without errors where something is missing.
    pub(super) fn with_lenience(
        &mut self,
        is_lenient: bool,
        evaluate: impl FnOnce(&mut Self) -> Finds,
    ) -> Finds {
        let before = std::mem::replace(&mut self.is_lenient, is_lenient);
        let finds = evaluate(self);
        self.is_lenient = before;
        finds
    }
}

/// Adds an item to those that are found. Fails with 54000 if they take too much.
pub(super) fn add<'a>(item: &Item<'a>, found: &mut Vec<Item<'a>>) -> Finds {
    limits::check_value(found.len() * size_of::<Item<'_>>())?;
    found.push(item.clone());
    Ok(true)
}
