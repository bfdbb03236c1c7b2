//! Counts, sums, averages, extremes, and folds of truth values and bits.

use super::{Accumulator, Function};
use crate::cast;
use crate::datetime::Local;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Arith;
use crate::function::Out;
use crate::function::Param;
use crate::function::of::*;
use crate::interval::Interval;
use crate::memory::{Held, behind};
use crate::number;
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("count", &[Param::Any], AN_INT8, count),
    Function::new("sum", &[INT2], AN_INT8, sum),
    Function::new("sum", &[INT4], AN_INT8, sum),
    Function::new("sum", &[INT8], A_NUMERIC, sum),
    Function::new("sum", &[NUMERIC], A_NUMERIC, sum),
    Function::new("sum", &[FLOAT4], A_FLOAT4, sum),
    Function::new("sum", &[FLOAT8], A_FLOAT8, sum),
    Function::new("sum", &[INTERVAL], AN_INTERVAL, |_| Box::new(Intervals::of(false))),
    Function::new("avg", &[INT2], A_NUMERIC, average),
    Function::new("avg", &[INT4], A_NUMERIC, average),
    Function::new("avg", &[INT8], A_NUMERIC, average),
    Function::new("avg", &[NUMERIC], A_NUMERIC, average),
    Function::new("avg", &[INTERVAL], AN_INTERVAL, |_| Box::new(Intervals::of(true))),
    Function::new("min", &[Param::Common], Out::Common, |_| Box::new(Extreme::<false>(None)))
        .only(has_extremes),
    Function::new("max", &[Param::Common], Out::Common, |_| Box::new(Extreme::<true>(None)))
        .only(has_extremes),
    Function::new("bool_and", &[BOOL], A_BOOL, |_| fold(and)),
    Function::new("every", &[BOOL], A_BOOL, |_| fold(and)),
    Function::new("bool_or", &[BOOL], A_BOOL, |_| fold(or)),
    Function::new("bit_and", &[INT2], AN_INT2, |_| fold(and)),
    Function::new("bit_and", &[INT4], AN_INT4, |_| fold(and)),
    Function::new("bit_and", &[INT8], AN_INT8, |_| fold(and)),
    Function::new("bit_or", &[INT2], AN_INT2, |_| fold(or)),
    Function::new("bit_or", &[INT4], AN_INT4, |_| fold(or)),
    Function::new("bit_or", &[INT8], AN_INT8, |_| fold(or)),
    Function::new("bit_xor", &[INT2], AN_INT2, |_| fold(xor)),
    Function::new("bit_xor", &[INT4], AN_INT4, |_| fold(xor)),
    Function::new("bit_xor", &[INT8], AN_INT8, |_| fold(xor)),
];

/// The number of rows.
struct Count(i64);

pub(super) fn count(_: Type) -> Box<dyn Accumulator> {
    Box::new(Count(0))
}

impl Accumulator for Count {
    fn add(&mut self, _: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        self.0 += 1;
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(Datum::Int8(self.0))
    }
}

/// The sum of values, in the type of the result.
struct Sum {
    ty: Type,
    sum: Option<Datum>,
}

fn sum(ty: Type) -> Box<dyn Accumulator> {
    Box::new(Sum { ty, sum: None })
}

impl Accumulator for Sum {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        let [value] = args else { return Ok(()) };
        let before = self.sum.as_ref().map_or(0, behind);
        let sum = match self.sum.take() {
            None => cast::cast(value.clone(), self.ty, false, Local::utc())?,
            Some(sum) => number::arith(Arith::Add, self.ty, &sum, value)?,
        };
        held.add(behind(&sum).saturating_sub(before))?;
        self.sum = Some(sum);
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(self.sum.clone().unwrap_or(Datum::Null))
    }
}

/// The average of numbers that are not floats.
struct Average {
    count: i64,
    sum: Sum,
}

fn average(ty: Type) -> Box<dyn Accumulator> {
    Box::new(Average { count: 0, sum: Sum { ty, sum: None } })
}

impl Accumulator for Average {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        self.count += 1;
        self.sum.add(args, held)
    }

    fn value(&self) -> Result<Datum, SqlError> {
        let Some(sum) = &self.sum.sum else { return Ok(Datum::Null) };
        number::to_numeric(sum)?.over(&self.count.into()).map(Datum::Numeric)
    }
}

/// The sum or the average of intervals.
struct Intervals {
    is_average: bool,
    count: i64,
    sum: Option<Interval>,
}

impl Intervals {
    fn of(is_average: bool) -> Intervals {
        Intervals { is_average, count: 0, sum: None }
    }
}

impl Accumulator for Intervals {
    fn add(&mut self, args: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        let [Datum::Interval(value)] = args else { return Ok(()) };
        self.count += 1;
        self.sum = Some(match self.sum {
            None => *value,
            Some(sum) => sum.plus(*value)?,
        });
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(match self.sum {
            None => Datum::Null,
            Some(sum) if self.is_average => Datum::Interval(sum.divided_by(self.count as f64)?),
            Some(sum) => Datum::Interval(sum),
        })
    }
}

/// The types without an order among aggregates in PostgreSQL 15.
fn has_extremes(ty: Type) -> bool {
    !matches!(
        ty,
        Type::Bool
            | Type::Bytea
            | Type::Uuid
            | Type::Json
            | Type::Jsonb
            | Type::JsonPath
            | Type::Hstore
            | Type::Bit(_)
            | Type::Varbit(_)
            | Type::Xid
    )
}

/// The greatest or the least value; of equal ones (1.0 and 1.00) the last.
struct Extreme<const GREATEST: bool>(Option<Datum>);

impl<const GREATEST: bool> Accumulator for Extreme<GREATEST> {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        let [value] = args else { return Ok(()) };
        let replaces = self.0.as_ref().is_none_or(|old| match GREATEST {
            true => value.order(old).is_ge(),
            false => value.order(old).is_le(),
        });
        if replaces {
            held.add(behind(value))?;
            if let Some(old) = self.0.replace(value.clone()) {
                held.free(behind(&old));
            }
        }
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(self.0.clone().unwrap_or(Datum::Null))
    }
}

/// A value that each row combines with its own.
struct Fold {
    value: Datum,
    combine: fn(&Datum, &Datum) -> Datum,
}

fn fold(combine: fn(&Datum, &Datum) -> Datum) -> Box<dyn Accumulator> {
    Box::new(Fold { value: Datum::Null, combine })
}

impl Accumulator for Fold {
    fn add(&mut self, args: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        let [value] = args else { return Ok(()) };
        self.value = match self.value.is_null() {
            true => value.clone(),
            false => (self.combine)(&self.value, value),
        };
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        Ok(self.value.clone())
    }
}

/// Combines two truth values, or the bits of two numbers of one width.
macro_rules! combine {
    ($name:ident, $op:tt) => {
        fn $name(a: &Datum, b: &Datum) -> Datum {
            match (a, b) {
                (Datum::Bool(a), Datum::Bool(b)) => Datum::Bool(a $op b),
                (Datum::Int2(a), Datum::Int2(b)) => Datum::Int2(a $op b),
                (Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(a $op b),
                (Datum::Int8(a), Datum::Int8(b)) => Datum::Int8(a $op b),
                _ => Datum::Null,
            }
        }
    };
}

combine!(and, &);
combine!(or, |);
combine!(xor, ^);
