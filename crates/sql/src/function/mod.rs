//! The catalog of functions, set-returning ones among them, and of operators that are functions:
//! one row for each form that PostgreSQL has, with its types, its strictness, its volatility and
//! its kernel.
//!
//! An operator's row has the operator as its name. [`resolve`] chooses a row for a call by
//! PostgreSQL's rules. Aggregates are in `aggregate`; comparisons and arithmetic of numbers are
//! expressions of their own, since access paths and estimates look at them.

mod array;
mod bits;
mod catalog;
mod conditional;
mod encode;
mod enumeration;
mod json;
mod locks;
mod math;
mod network;
mod notify;
mod path_pattern;
mod pattern;
mod reflect;
mod regex;
mod regexp;
mod resolve;
mod sequence;
mod session;
mod set;
mod text;
mod time;
mod to_char;
mod trigonometry;

pub(crate) use catalog::PG_TYPEOF;
pub(crate) use enumeration::{ENUM_END, ENUM_RANGE};
pub(crate) use json::{makes_json, takes_definitions};
pub(crate) use path_pattern::PathPattern;
pub(crate) use pattern::{like, like_range};
pub(crate) use reflect::is_reserved;
pub(crate) use resolve::{
    Call, Form, ambiguous, choose, is_operator, missing, no_equality, resolve,
};
pub(crate) use session::gen_random_uuid;
pub(crate) use time::{shifted, shifted_in};

use crate::advisory;
use crate::array::Array;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::numeric::Numeric;
use crate::record::{Field, Shape};
use crate::signal::Signal;
use crate::sleep::Sleep;
use crate::system::Catalog;
use crate::types::Type;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Computes a function's value from the values of its arguments.
pub(crate) type Value = fn(&[Datum], &Scope<'_>) -> Result<Datum, SqlError>;

/// The rows of a call.
pub(crate) type Rows = Box<dyn Iterator<Item = Result<Vec<Datum>, SqlError>> + Send>;

/// The computation of a function.
#[derive(Clone, Copy)]
enum Kernel {
    Value(Value),
    /// Of a function that reads the catalog.
    Catalog(fn(&[Datum], &Scope<'_>, &Catalog) -> Result<Datum, SqlError>),
    /// Of a function that the executor calls, since it may have to wait.
    Effect(Effect),
    /// Of a set-returning function.
    Rows(fn(&[Datum], &Scope<'_>) -> Result<Rows, SqlError>),
}

/// The work of a function besides computing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads or changes a sequence.
    Sequence(crate::sequence::Use),
    /// It ends the statement of a session, or the session.
    Signal(Signal),
    /// It waits for a time.
    Sleep(Sleep),
    /// It takes or releases advisory locks.
    Advisory(advisory::Call),
}

/// A function, or an operator.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Param],
    /// True if the last parameter may be repeated.
    pub(crate) variadic: bool,
    pub(crate) result: Out,
    /// True if the value is NULL where an argument is NULL; the kernel is not called then.
    pub(crate) strict: bool,
    pub(crate) volatility: Volatility,
    /// True if it is stable since its value depends on the session's zone, and on nothing else.
    pub(crate) is_of_zone: bool,
    /// True if earlier releases took it for immutable: generated columns may be computed by it.
    pub(crate) was_immutable: bool,
    /// True if it compares values of the common type.
    compares: bool,
    /// The names and types of the columns of its rows, if they have names of their own.
    pub(crate) columns: &'static [(&'static str, Type)],
    kernel: Kernel,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Param {
    Of(Type),
    /// The common type of all such parameters (`anycompatible`).
    Common,
    /// An array of the common type (`anycompatiblearray`).
    Array,
    /// Any type (`any`).
    Any,
    /// Any type but an array (`anynonarray`).
    NonArray,
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Of(Type),
    /// The common type of the parameters.
    Common,
    /// An array of the common type.
    Array,
}

/// How far a value may differ between calls with the same arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volatility {
    /// Never.
    Immutable,
    /// Not within one statement.
    Stable,
    /// From call to call.
    Volatile,
}

impl Function {
    /// A strict and immutable function.
    pub(crate) const fn new(
        name: &'static str,
        params: &'static [Param],
        result: Out,
        kernel: Value,
    ) -> Function {
        Function {
            name,
            params,
            variadic: false,
            result,
            strict: true,
            volatility: Volatility::Immutable,
            is_of_zone: false,
            was_immutable: false,
            compares: false,
            columns: &[],
            kernel: Kernel::Value(kernel),
        }
    }

    /// A strict and immutable function that returns a set of values.
    pub(crate) const fn set(
        name: &'static str,
        params: &'static [Param],
        result: Out,
        kernel: fn(&[Datum], &Scope<'_>) -> Result<Rows, SqlError>,
    ) -> Function {
        Function { kernel: Kernel::Rows(kernel), ..Function::new(name, params, result, no_value) }
    }

    /// A strict and volatile function that the executor calls.
    const fn effect_of(
        name: &'static str,
        params: &'static [Param],
        result: Out,
        effect: Effect,
    ) -> Function {
        let function = Function::new(name, params, result, no_value).volatile();
        Function { kernel: Kernel::Effect(effect), ..function }
    }

    /// Its rows have these columns.
    pub(crate) const fn columns(self, columns: &'static [(&'static str, Type)]) -> Function {
        Function { columns, ..self }
    }

    /// Its last parameter may be repeated.
    pub(crate) const fn variadic(self) -> Function {
        Function { variadic: true, ..self }
    }

    /// It is called with NULLs, too.
    pub(crate) const fn lenient(self) -> Function {
        Function { strict: false, ..self }
    }

    /// It compares values of the common type, which must have an order.
    pub(crate) const fn compares(self) -> Function {
        Function { compares: true, ..self }
    }

    /// It has the volatility that functions have.
    const fn immutable(self) -> Function {
        self
    }

    pub(crate) const fn stable(self) -> Function {
        Function { volatility: Volatility::Stable, ..self }
    }

    /// Its value depends on the session's zone.
    pub(crate) const fn of_zone(self) -> Function {
        Function { volatility: Volatility::Stable, is_of_zone: true, ..self }
    }

    /// It is stable, and was taken for immutable by earlier releases.
    const fn no_longer_immutable(self) -> Function {
        Function { volatility: Volatility::Stable, was_immutable: true, ..self }
    }

    pub(crate) const fn volatile(self) -> Function {
        Function { volatility: Volatility::Volatile, ..self }
    }

    /// Returns its value.
    pub(crate) fn call(&self, args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
        match self.kernel {
            Kernel::Rows(_) => no_value(args, scope),
            _ if self.strict && args.iter().any(Datum::is_null) => Ok(Datum::Null),
            Kernel::Value(kernel) => match scope.effects {
                Some(effects) if self.volatility == Volatility::Volatile => {
                    effects.once(|| kernel(args, scope))
                }
                _ => kernel(args, scope),
            },
            Kernel::Catalog(kernel) => match scope.catalog {
                Some(catalog) => kernel(args, scope, catalog),
                None => Err(SqlError::unsupported(format!("{} here", self.name))),
            },
            Kernel::Effect(effect) => match scope.effects {
                Some(effects) => effects.value(effect, args),
                None => Err(SqlError::unsupported(format!("{} here", self.name))),
            },
        }
    }

    /// Returns what it does besides computing a value.
    pub(crate) fn effect(&self) -> Option<Effect> {
        match self.kernel {
            Kernel::Effect(effect) => Some(effect),
            _ => None,
        }
    }

    /// True if it reads the catalog.
    pub(crate) fn reads_catalog(&self) -> bool {
        matches!(self.kernel, Kernel::Catalog(_))
    }

    /// True if its value follows from its arguments alone, and is not larger than these or a
    /// number: planning may compute it.
    pub(crate) fn is_small(&self) -> bool {
        let is_small = match self.result {
            Out::Of(ty) => ty.length() > 0 || ty.is_number(),
            Out::Common => true,
            Out::Array => false,
        };
        let is_value = matches!(self.kernel, Kernel::Value(_));
        is_small && is_value && self.volatility == Volatility::Immutable
    }

    /// True if it returns a set.
    pub(crate) fn is_set(&self) -> bool {
        matches!(self.kernel, Kernel::Rows(_))
    }

    /// The number of columns of its rows.
    pub(crate) fn width(&self) -> usize {
        self.columns.len().max(1)
    }

    /// Returns its rows; its value as the only row if it returns no set. A strict function
    /// returns no rows for NULL.
    pub(crate) fn rows(&self, args: &[Datum], scope: &Scope<'_>) -> Result<Rows, SqlError> {
        match self.kernel {
            Kernel::Rows(_) if self.strict && args.iter().any(Datum::is_null) => {
                Ok(Box::new(std::iter::empty()))
            }
            Kernel::Rows(kernel) => Ok(Box::new(kernel(args, scope)?.fuse())),
            _ => Ok(self.only_row(self.call(args, scope)?)),
        }
    }

    /// Returns a value as the only row: the fields of a row are its columns.
    pub(crate) fn only_row(&self, value: Datum) -> Rows {
        let row = match value {
            Datum::Record(record) if !self.columns.is_empty() => record.values().to_vec(),
            value => vec![value; self.width()],
        };
        Box::new(std::iter::once(Ok(row)))
    }

    /// Returns the shape of its rows.
    pub(crate) fn shape(&self) -> Shape {
        Shape::Anonymous(self.columns.iter().map(Field::of).collect())
    }
}

fn no_value(_: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let message = "set-valued function called in context that cannot accept a set";
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
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

const ALL: [&[Function]; 19] = [
    array::FUNCTIONS,
    bits::FUNCTIONS,
    catalog::FUNCTIONS,
    conditional::FUNCTIONS,
    locks::FUNCTIONS,
    math::FUNCTIONS,
    encode::FUNCTIONS,
    enumeration::FUNCTIONS,
    network::FUNCTIONS,
    notify::FUNCTIONS,
    pattern::FUNCTIONS,
    reflect::FUNCTIONS,
    regexp::FUNCTIONS,
    sequence::FUNCTIONS,
    session::FUNCTIONS,
    set::FUNCTIONS,
    text::FUNCTIONS,
    to_char::FUNCTIONS,
    trigonometry::FUNCTIONS,
];

/// Iterates over all functions and operators.
pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    ALL.into_iter().chain(json::ALL).chain(time::ALL).flatten()
}

/// Returns the forms of a function or an operator.
pub(crate) fn named(name: &str) -> &'static [&'static Function] {
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Function>>> = LazyLock::new(|| {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for function in all() {
            by_name.entry(function.name).or_default().push(function);
        }
        by_name
    });
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Parameter types, for the rows of the catalogs.
pub(crate) mod of {
    use super::{Out, Param};
    use crate::types::{Object, Type};

    pub(crate) const REGCLASS: Param = Param::Of(Type::Object(Object::Class));
    pub(crate) const BOOL: Param = Param::Of(Type::Bool);
    pub(crate) const DATE: Param = Param::Of(Type::Date);
    pub(crate) const BYTEA: Param = Param::Of(Type::Bytea);
    pub(crate) const BIT: Param = Param::Of(Type::Bit(None));
    pub(crate) const VARBIT: Param = Param::Of(Type::Varbit(None));
    pub(crate) const OID: Param = Param::Of(Type::Oid);
    pub(crate) const FLOAT4: Param = Param::Of(Type::Float4);
    pub(crate) const FLOAT8: Param = Param::Of(Type::Float8);
    pub(crate) const INT2: Param = Param::Of(Type::Int2);
    pub(crate) const INT4: Param = Param::Of(Type::Int4);
    pub(crate) const INT8: Param = Param::Of(Type::Int8);
    pub(crate) const NUMERIC: Param = Param::Of(Type::Numeric(None));
    pub(crate) const TEXT: Param = Param::Of(Type::Text);
    pub(crate) const INET: Param = Param::Of(Type::Inet);
    pub(crate) const CIDR: Param = Param::Of(Type::Cidr);
    pub(crate) const INTERVAL: Param = Param::Of(Type::Interval);
    pub(crate) const TIME: Param = Param::Of(Type::Time);
    pub(crate) const TIMETZ: Param = Param::Of(Type::TimeTz);
    pub(crate) const TIMESTAMP: Param = Param::Of(Type::Timestamp);
    pub(crate) const TIMESTAMPTZ: Param = Param::Of(Type::TimestampTz);

    pub(crate) const A_BYTEA: Out = Out::Of(Type::Bytea);
    pub(crate) const A_BOOL: Out = Out::Of(Type::Bool);
    pub(crate) const A_DATE: Out = Out::Of(Type::Date);
    pub(crate) const A_BIT: Out = Out::Of(Type::Bit(None));
    pub(crate) const A_VARBIT: Out = Out::Of(Type::Varbit(None));
    pub(crate) const AN_OID: Out = Out::Of(Type::Oid);
    pub(crate) const A_NAME: Out = Out::Of(Type::Name);
    pub(crate) const A_FLOAT4: Out = Out::Of(Type::Float4);
    pub(crate) const A_FLOAT8: Out = Out::Of(Type::Float8);
    pub(crate) const AN_INT2: Out = Out::Of(Type::Int2);
    pub(crate) const AN_INT4: Out = Out::Of(Type::Int4);
    pub(crate) const AN_INT8: Out = Out::Of(Type::Int8);
    pub(crate) const A_NUMERIC: Out = Out::Of(Type::Numeric(None));
    pub(crate) const A_TEXT: Out = Out::Of(Type::Text);
    pub(crate) const A_TIME: Out = Out::Of(Type::Time);
    pub(crate) const A_TIMETZ: Out = Out::Of(Type::TimeTz);
    pub(crate) const A_TIMESTAMP: Out = Out::Of(Type::Timestamp);
    pub(crate) const A_TIMESTAMPTZ: Out = Out::Of(Type::TimestampTz);
    pub(crate) const AN_INET: Out = Out::Of(Type::Inet);
    pub(crate) const A_CIDR: Out = Out::Of(Type::Cidr);
    pub(crate) const AN_INTERVAL: Out = Out::Of(Type::Interval);
    pub(crate) const A_VOID: Out = Out::Of(Type::Void);
    pub(crate) const A_UUID: Out = Out::Of(Type::Uuid);
}

/// Returns the error of an argument that a kernel cannot have: resolution is wrong.
pub(crate) fn wrong_type() -> SqlError {
    SqlError::new(state::UNDEFINED_FUNCTION, "a function has an argument of another type")
}

pub(crate) fn text_at(args: &[Datum], at: usize) -> Result<&str, SqlError> {
    match args.get(at) {
        Some(Datum::Text(text)) => Ok(text),
        _ => Err(wrong_type()),
    }
}

pub(crate) fn array_at(args: &[Datum], at: usize) -> Result<&Arc<Array>, SqlError> {
    match args.get(at) {
        Some(Datum::Array(array)) => Ok(array),
        _ => Err(wrong_type()),
    }
}

fn whole_at(args: &[Datum], at: usize) -> Result<i64, SqlError> {
    args.get(at).and_then(Datum::as_i64).ok_or_else(wrong_type)
}

fn float_at(args: &[Datum], at: usize) -> Result<f64, SqlError> {
    match args.get(at) {
        Some(Datum::Float8(x)) => Ok(*x),
        _ => Err(wrong_type()),
    }
}

fn numeric_at(args: &[Datum], at: usize) -> Result<&Numeric, SqlError> {
    match args.get(at) {
        Some(Datum::Numeric(n)) => Ok(n),
        _ => Err(wrong_type()),
    }
}
