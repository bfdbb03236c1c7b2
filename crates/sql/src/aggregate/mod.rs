//! The catalog of aggregate functions: one row for each form that PostgreSQL has, with its types,
//! its strictness and its accumulator. [`resolve`] chooses a row for a call by the rules of scalar
//! functions.
//!
//! ```text
//!   a row ── FILTER ── arguments ── DISTINCT, ORDER BY (input) ── Accumulator ── value
//! ```
//!
//! `groups` keeps the accumulators of each group of a query; the executor of window functions keeps
//! those of a frame.

mod array;
mod basic;
mod groups;
mod input;
mod json;
mod moments;
mod ordered;
mod regression;
mod text;

pub(crate) use groups::Groups;

use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::function::{self, Call, Form, Out, Param};
use crate::memory::Held;
use crate::types::Type;
use std::collections::HashMap;
use std::sync::LazyLock;

/// An aggregate function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    params: &'static [Param],
    variadic: bool,
    result: Out,
    /// True if rows with a NULL argument are left out.
    pub(crate) strict: bool,
    /// The types that `Param::Common` stands for.
    takes: fn(Type) -> bool,
    pub(crate) work: Work,
}

/// The way to compute an aggregate.
pub(crate) enum Work {
    /// Row by row. The accumulator is created for the type of the result.
    Rows(fn(Type) -> Box<dyn Accumulator>),
    /// From the values of WITHIN GROUP in order, behind that many direct arguments.
    Ordered(usize, ordered::Kernel),
    /// From the place that the direct arguments have among the values of WITHIN GROUP.
    Hypothetical(ordered::Kernel),
}

/// The state of an aggregate for one group or frame.
pub(crate) trait Accumulator: Send {
    /// Adds a row's arguments. Takes memory for what grows with the number of rows.
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError>;

    /// Tells it the session's zone, before the first row.
    fn of_zone(&mut self, _: &Zone) {}

    /// Returns the value for the rows so far; more may be added afterwards.
    fn value(&self) -> Result<Datum, SqlError>;
}

impl Function {
    /// A function that leaves out rows with a NULL argument.
    const fn new(
        name: &'static str,
        params: &'static [Param],
        result: Out,
        start: fn(Type) -> Box<dyn Accumulator>,
    ) -> Function {
        Function {
            name,
            params,
            variadic: false,
            result,
            strict: true,
            takes: |_| true,
            work: Work::Rows(start),
        }
    }

    /// A function of values in order.
    const fn ordered(
        name: &'static str,
        params: &'static [Param],
        result: Out,
        direct: usize,
        kernel: ordered::Kernel,
    ) -> Function {
        Function {
            name,
            params,
            variadic: false,
            result,
            strict: true,
            takes: |_| true,
            work: Work::Ordered(direct, kernel),
        }
    }

    /// A function of a row's place among others.
    const fn hypothetical(name: &'static str, result: Out, kernel: ordered::Kernel) -> Function {
        Function {
            name,
            params: &[Param::Any],
            variadic: true,
            result,
            strict: false,
            takes: |_| true,
            work: Work::Hypothetical(kernel),
        }
    }

    /// Its parameters may have these types alone.
    const fn only(self, takes: fn(Type) -> bool) -> Function {
        Function { takes, ..self }
    }

    /// Rows with NULLs count.
    const fn lenient(self) -> Function {
        Function { strict: false, ..self }
    }

    /// True if it needs WITHIN GROUP.
    pub(crate) fn is_ordered_set(&self) -> bool {
        !matches!(self.work, Work::Rows(_))
    }

    /// True if a value of this type may be its argument.
    pub(crate) fn takes(&self, ty: Type) -> bool {
        (self.takes)(ty)
    }

    /// Creates the state of a group; `None` for an ordered-set aggregate.
    pub(crate) fn start(&self, ty: Type, zone: &Zone) -> Option<Box<dyn Accumulator>> {
        match self.work {
            Work::Rows(start) => {
                let mut accumulator = start(ty);
                accumulator.of_zone(zone);
                Some(accumulator)
            }
            _ => None,
        }
    }
}

impl Form for Function {
    fn params(&self) -> &[Param] {
        self.params
    }

    fn is_variadic(&self) -> bool {
        self.variadic
    }

    fn result(&self) -> Out {
        self.result
    }
}

/// Rows of the catalog are the same only if they are one.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const ALL: [&[Function]; 7] = [
    array::FUNCTIONS,
    basic::FUNCTIONS,
    json::FUNCTIONS,
    moments::FUNCTIONS,
    ordered::FUNCTIONS,
    regression::FUNCTIONS,
    text::FUNCTIONS,
];

/// `count(*)`, which has no arguments.
pub(crate) static COUNT_ROWS: Function =
    Function::new("count", &[], Out::Of(Type::Int8), basic::count);

/// Iterates over all aggregate functions, `count(*)` first.
pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    std::iter::once(&COUNT_ROWS).chain(ALL.into_iter().flatten())
}

/// Returns the forms of an aggregate function.
pub(crate) fn named(name: &str) -> &'static [&'static Function] {
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Function>>> = LazyLock::new(|| {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for function in all().skip(1) {
            by_name.entry(function.name).or_default().push(function);
        }
        by_name
    });
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Chooses the form of an aggregate for arguments of these types, as PostgreSQL does.
pub(crate) fn resolve(
    name: &str,
    args: &[Option<Type>],
) -> Result<Call<'static, Function>, SqlError> {
    let call = function::choose(name, named(name), args)?;
    let typed = args.iter().zip(&call.params).map(|(arg, param)| param.or(*arg));
    // Rows have an order, and no extremes in PostgreSQL 15.
    let is_extreme = |ty: Type| matches!(name, "min" | "max") && ty.is_row();
    match typed.flatten().all(|ty| call.function.takes(ty) && !is_extreme(ty)) {
        true => Ok(call),
        false => Err(function::missing(name, args)),
    }
}

/// One aggregate of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) function: &'static Function,
    /// The arguments; those of an ordered-set aggregate are its direct ones.
    pub(crate) args: Vec<Expr>,
    pub(crate) ty: Type,
    pub(crate) distinct: bool,
    /// ORDER BY among the arguments, or WITHIN GROUP.
    pub(crate) order: Vec<OrderKey>,
    /// Only rows for which it is true count.
    pub(crate) filter: Option<Expr>,
}

/// An expression that rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderKey {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Aggregate {
    /// Returns its expressions.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        let order = self.order.iter().map(|key| &key.expr);
        self.args.iter().chain(order).chain(&self.filter).collect()
    }

    /// Returns its expressions.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let order = self.order.iter_mut().map(|key| &mut key.expr);
        self.args.iter_mut().chain(order).chain(&mut self.filter).collect()
    }
}
