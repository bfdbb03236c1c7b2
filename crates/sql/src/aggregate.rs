//! COUNT, SUM, MIN, MAX and AVG over groups.

use crate::cast;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Arith, Expr, Scope};
use crate::key;
use crate::memory::{Held, weight};
use crate::number;
use crate::types::Type;
use rust_decimal::Decimal;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CountRows,
    Count,
    Sum,
    Min,
    Max,
    Avg,
    And,
    Or,
}

impl Kind {
    pub(crate) fn of_name(name: &str) -> Option<Kind> {
        Some(match name {
            "count" => Kind::Count,
            "sum" => Kind::Sum,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "avg" => Kind::Avg,
            "bool_and" | "every" => Kind::And,
            "bool_or" => Kind::Or,
            _ => return None,
        })
    }

    /// Returns the type of the result for an argument's type; `None` if there is none.
    pub(crate) fn result(self, arg: Type) -> Option<Type> {
        Some(match (self, arg.base()) {
            (Kind::Count | Kind::CountRows, _) => Type::Int8,
            (Kind::And | Kind::Or, Type::Bool) => Type::Bool,
            (Kind::And | Kind::Or, _) => return None,
            (Kind::Min | Kind::Max, ty) => ty,
            (Kind::Sum, Type::Int2 | Type::Int4) => Type::Int8,
            (Kind::Sum | Kind::Avg, Type::Float8) => Type::Float8,
            (Kind::Sum | Kind::Avg, Type::Interval) => Type::Interval,
            (Kind::Sum | Kind::Avg, ty) if ty.is_number() => Type::Numeric(None),
            _ => return None,
        })
    }
}

/// One aggregate of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    pub(crate) arg: Expr,
    pub(crate) ty: Type,
    pub(crate) distinct: bool,
    /// Only rows for which it is true count.
    pub(crate) filter: Option<Expr>,
}

impl Aggregate {
    /// Its expressions.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        std::iter::once(&self.arg).chain(&self.filter).collect()
    }

    /// Its expressions.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        std::iter::once(&mut self.arg).chain(&mut self.filter).collect()
    }
}

#[derive(Clone, Default)]
struct Sum {
    count: i64,
    value: Option<Datum>,
    seen: BTreeMap<Vec<u8>, ()>,
}

/// The groups of a running query, in the order of their keys.
pub(crate) struct Groups<'a> {
    keys: &'a [Expr],
    aggregates: &'a [Aggregate],
    groups: BTreeMap<Vec<u8>, (Vec<Datum>, Vec<Sum>)>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(keys: &'a [Expr], aggregates: &'a [Aggregate]) -> Self {
        let mut groups = BTreeMap::new();
        if keys.is_empty() {
            groups.insert(Vec::new(), (Vec::new(), vec![Sum::default(); aggregates.len()]));
        }
        Groups { keys, aggregates, groups }
    }

    /// Adds a row to its group.
    pub(crate) fn add(
        &mut self,
        row: &[Datum],
        scope: &Scope<'_>,
        held: &mut Held,
    ) -> Result<(), SqlError> {
        let mut bytes = Vec::new();
        let mut values = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            let value = key.eval(row, scope)?;
            key::write(&value, false, &mut bytes);
            values.push(value);
        }
        let (_, sums) = match self.groups.entry(bytes) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(place) => {
                held.add(
                    place.key().len()
                        + weight(&values)
                        + self.aggregates.len() * size_of::<Sum>()
                        + 64,
                )?;
                place.insert((values, vec![Sum::default(); self.aggregates.len()]))
            }
        };
        for (aggregate, sum) in self.aggregates.iter().zip(sums) {
            if let Some(filter) = &aggregate.filter
                && !filter.holds(row, scope)?
            {
                continue;
            }
            let value = aggregate.arg.eval(row, scope)?;
            if aggregate.kind != Kind::CountRows && value.is_null() {
                continue;
            }
            if aggregate.distinct {
                let mut bytes = Vec::new();
                key::write(&value, false, &mut bytes);
                let length = bytes.len();
                if sum.seen.insert(bytes, ()).is_some() {
                    continue;
                }
                held.add(length + 48)?;
            }
            sum.count += 1;
            let wide =
                if aggregate.ty == Type::Float8 { Type::Float8 } else { Type::Numeric(None) };
            sum.value = match (aggregate.kind, sum.value.take()) {
                (Kind::Count | Kind::CountRows, _) => None,
                (Kind::Min | Kind::Max | Kind::And | Kind::Or, None) => Some(value),
                (Kind::And, Some(old)) => {
                    Some(if value == Datum::Bool(false) { value } else { old })
                }
                (Kind::Or, Some(old)) => Some(if value == Datum::Bool(true) { value } else { old }),
                (Kind::Min, Some(old)) => Some(if value.order(&old).is_lt() { value } else { old }),
                (Kind::Max, Some(old)) => Some(if value.order(&old).is_gt() { value } else { old }),
                (_, None) if aggregate.ty == Type::Interval => Some(value),
                (_, None) => Some(cast::cast(value, wide, false)?),
                (_, Some(Datum::Interval(old))) => match value {
                    Datum::Interval(value) => Some(Datum::Interval(old.plus(value)?)),
                    _ => None,
                },
                (_, Some(old)) => Some(number::arith(Arith::Add, wide, &old, &value)?),
            };
        }
        Ok(())
    }

    /// The groups as rows: keys, then aggregates.
    pub(crate) fn finish(self) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut rows = Vec::with_capacity(self.groups.len());
        for (mut row, sums) in self.groups.into_values() {
            for (aggregate, sum) in self.aggregates.iter().zip(sums) {
                row.push(match (aggregate.kind, sum.value) {
                    (Kind::Count | Kind::CountRows, _) => Datum::Int8(sum.count),
                    (_, None) => Datum::Null,
                    (Kind::Sum, Some(value)) => cast::cast(value, aggregate.ty, false)?,
                    (Kind::Avg, Some(Datum::Float8(x))) => Datum::Float8(x / sum.count as f64),
                    (Kind::Avg, Some(Datum::Interval(interval))) => {
                        Datum::Interval(interval.divided_by(sum.count as f64)?)
                    }
                    (Kind::Avg, Some(value)) => Datum::Numeric(number::divide(
                        number::to_decimal(&value)?,
                        Decimal::from(sum.count),
                    )?),
                    (_, Some(value)) => value,
                });
            }
            rows.push(row);
        }
        Ok(rows)
    }
}
