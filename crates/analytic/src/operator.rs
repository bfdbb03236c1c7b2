//! Operators with PostgreSQL's semantics: integers overflow with an error, as does division by
//! zero; numerics divide exactly; a quoted literal has the type of the other operand.

use crate::error::outward;
use crate::function::{ByRow, Moment, cast_name, find, literal};
use crate::value::{FREE, base_type, datums};
use arrow::array::{ArrayRef, AsArray, Datum as ArrowDatum, Decimal128Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use meridian_sql::{Datum, SqlError, Type, arithmetic, state};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Plans operators that DataFusion computes differently.
#[derive(Debug)]
pub(crate) struct Operators(pub(crate) MomentOf);

/// A [`Moment`] that implements `Debug`.
#[derive(Clone)]
pub(crate) struct MomentOf(pub(crate) Moment);

impl std::fmt::Debug for MomentOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("moment")
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::*;
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The type of intervals.
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// True if values of a type are spans of time: intervals, and differences of timestamps.
pub(crate) fn is_span(ty: &DataType) -> bool {
    matches!(ty, DataType::Interval(_) | DataType::Duration(_))
}

pub(crate) fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

pub(crate) fn is_decimal(ty: &DataType) -> bool {
    use DataType::*;
    matches!(ty, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
}

/// Casts a numeric to the nearest float.
pub(crate) fn to_float(expr: Expr, moment: &Moment) -> Result<Expr> {
    if let Expr::Literal(value, _) = &expr {
        let number =
            datums(&value.to_array()?).map_err(outward)?.pop().and_then(|datum| datum.as_f64());
        return Ok(Expr::Literal(ScalarValue::Float64(number), None));
    }
    let name = cast_name(Type::Float8);
    let udf = find(&name, moment)
        .ok_or_else(|| outward(SqlError::new("XX000", "no cast to double precision")))?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![expr])))
}

/// Returns the length of a span of time, by which PostgreSQL compares intervals.
pub(crate) fn length(span: Expr) -> Expr {
    let udf = Arc::new(ScalarUDF::new_from_impl(Length(Signature::any(1, Volatility::Immutable))));
    Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![span]))
}

/// [`length`] in nanoseconds: a month has 30 days, a day 24 hours.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length(Signature);

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "length of interval"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        const DAY_NS: i128 = 86_400_000_000_000;
        let spans = arrow::compute::cast(&args.args[0].to_array(args.number_rows)?, &SPAN)?;
        let lengths = spans.as_primitive::<IntervalMonthDayNanoType>().iter().map(|span| {
            let span = span?;
            let days = i128::from(span.months) * 30 + i128::from(span.days);
            Some(days * DAY_NS + i128::from(span.nanoseconds))
        });
        let lengths =
            Decimal128Array::from_iter(lengths).with_data_type(DataType::Decimal128(38, 0));
        Ok(ColumnarValue::Array(Arc::new(lengths)))
    }
}

/// Returns the text of a quoted literal.
fn quoted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Some(text)
        }
        _ => None,
    }
}

fn untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

fn settle(expr: Expr, ty: &DataType) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => Expr::Placeholder(Placeholder {
            id,
            field: Some(Arc::new(Field::new("", ty.clone(), true))),
        }),
        other => other,
    }
}

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        mut raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let moment = &self.0.0;
        let type_of = |expr: &Expr| expr.get_type(schema).ok();
        let (Some(mut left), Some(mut right)) = (type_of(&raw.left), type_of(&raw.right)) else {
            return Ok(PlannerResult::Original(raw));
        };
        // A quoted literal or a parameter beside a typed value has that type.
        if is_arithmetic(&raw.op) || is_comparison(&raw.op) {
            for swap in [false, true] {
                let (side, own, other, typed) = match swap {
                    false => (&mut raw.left, &mut left, &raw.right, &right),
                    true => (&mut raw.right, &mut right, &raw.left, &left),
                };
                let known = !typed.is_null() && !untyped(other) && quoted(other).is_none();
                if !known {
                    continue;
                }
                let ty = base_type(typed);
                let ty = if ty == Type::Date && is_arithmetic(&raw.op) { Type::Int4 } else { ty };
                if let Some(text) = quoted(side)
                    && !ty.is_text()
                    && !matches!(
                        typed,
                        DataType::Interval(_) | DataType::Duration(_) | DataType::List(_)
                    )
                    && !(is_arithmetic(&raw.op)
                        && matches!(ty, Type::Timestamp | Type::TimestampTz))
                {
                    let datum = Datum::from_text(ty, text).map_err(outward)?;
                    *side = Expr::Literal(literal(&datum, ty).map_err(outward)?, None);
                    *own = crate::value::arrow_type(ty);
                } else if untyped(side) {
                    let ty = crate::value::arrow_type(ty);
                    *side = settle(
                        std::mem::replace(side, Expr::Literal(ScalarValue::Null, None)),
                        &ty,
                    );
                    *own = ty;
                }
            }
        }
        if is_comparison(&raw.op)
            && (is_span(&left) || is_span(&right))
            && !left.is_null()
            && !right.is_null()
        {
            for (side, own) in [(&mut raw.left, &mut left), (&mut raw.right, &mut right)] {
                if quoted(side).is_some() || matches!(side, Expr::Placeholder(_)) {
                    *side = Expr::Cast(Cast::new(Box::new(side.clone()), SPAN));
                    *own = SPAN;
                }
            }
            if !is_span(&left) || !is_span(&right) {
                let name =
                    |ty: &DataType| if is_span(ty) { "interval" } else { base_type(ty).name() };
                let message =
                    format!("operator does not exist: {} {} {}", name(&left), raw.op, name(&right));
                return Err(outward(SqlError::new(state::UNDEFINED_FUNCTION, message)));
            }
            // `repair` compares their lengths.
            return Ok(PlannerResult::Original(raw));
        }
        if is_comparison(&raw.op) && !comparable(&left, &right)
            || is_arithmetic(&raw.op) && !computable(&left, &right)
        {
            let name = |ty: &DataType| base_type(ty).name();
            let message =
                format!("operator does not exist: {} {} {}", name(&left), raw.op, name(&right));
            return Err(outward(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            )));
        }
        if !is_arithmetic(&raw.op) {
            return Ok(PlannerResult::Original(raw));
        }
        // A date becomes a timestamp if a span of time is added.
        for (side, own, other) in [(&mut raw.left, &left, &right), (&mut raw.right, &right, &left)]
        {
            if *own == DataType::Date32 && is_span(other) {
                let ty = crate::value::arrow_type(Type::Timestamp);
                *side = Expr::Cast(Cast::new(Box::new(side.clone()), ty));
            }
        }
        let (l, r) = (base_type(&left), base_type(&right));
        let is_date = |ty: &DataType| matches!(ty, DataType::Date32);
        let udf = if is_date(&left) && is_date(&right) && raw.op == BinaryOperator::Minus {
            ByRow::of("date_minus_date", Type::Int4, moment, |_, args| match args {
                [Datum::Date(a), Datum::Date(b)] => a
                    .checked_sub(*b)
                    .map(Datum::Int4)
                    .ok_or_else(|| SqlError::new(state::DATETIME_OVERFLOW, "date out of range")),
                _ => Ok(Datum::Null),
            })
        } else if is_date(&left)
            && r.is_integer()
            && matches!(raw.op, BinaryOperator::Plus | BinaryOperator::Minus)
        {
            by_row(&raw.op, Type::Date, moment)
        } else if l.is_number() && r.is_number() && !left.is_null() && !right.is_null() {
            let decimals =
                |ty: &DataType| matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..));
            match wider(l, r) {
                ty if ty.is_integer()
                    && !matches!(raw.op, BinaryOperator::Divide | BinaryOperator::Modulo) =>
                {
                    Arc::new(ScalarUDF::new_from_impl(Checked::new(&raw.op, ty)))
                }
                ty if ty.is_integer() => by_row(&raw.op, ty, moment),
                Type::Numeric(_) => {
                    let divides = matches!(raw.op, BinaryOperator::Divide | BinaryOperator::Modulo);
                    let free = decimals(&left) && left == FREE || decimals(&right) && right == FREE;
                    if !divides && !free {
                        return Ok(PlannerResult::Original(raw));
                    }
                    by_row(&raw.op, Type::Numeric(None), moment)
                }
                ty => by_row(&raw.op, ty, moment),
            }
        } else {
            return Ok(PlannerResult::Original(raw));
        };
        let call = ScalarFunction::new_udf(udf, vec![raw.left, raw.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// True if PostgreSQL compares values of the two types; types that SQL here does not have are left
/// to DataFusion.
pub(crate) fn comparable(left: &DataType, right: &DataType) -> bool {
    let (Some(l), Some(r)) = (settled(left), settled(right)) else { return true };
    let in_time = |ty| matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz);
    l.base() == r.base()
        || l.is_text() && r.is_text()
        || l.is_number() && r.is_number()
        || in_time(l) && in_time(r)
}

fn computable(left: &DataType, right: &DataType) -> bool {
    let (Some(l), Some(r)) = (settled(left), settled(right)) else { return true };
    !(l.is_text()
        || r.is_text()
        || l == Type::Bool
        || r == Type::Bool
        || l == Type::Uuid
        || r == Type::Uuid)
}

/// Returns the SQL type, if it is certain.
fn settled(ty: &DataType) -> Option<Type> {
    let ours = base_type(ty);
    let text = matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    (ours != Type::Text || text).then_some(ours)
}

fn wider(a: Type, b: Type) -> Type {
    let rank = |ty: Type| match ty {
        Type::Int2 => 1,
        Type::Int4 => 2,
        Type::Int8 => 3,
        Type::Numeric(_) => 4,
        _ => 5,
    };
    if rank(a) >= rank(b) { a } else { b }
}

fn by_row(op: &BinaryOperator, ty: Type, moment: &Moment) -> Arc<ScalarUDF> {
    let owned = op.clone();
    ByRow::of(format!("{} {op}", ty.name()), ty, moment, move |_, args| match args {
        [left, right] => {
            let side = if ty == Type::Date { Some(right.clone()) } else { None };
            match (ty, left, side) {
                (Type::Date, Datum::Null, _) | (Type::Date, _, Some(Datum::Null)) => {
                    Ok(Datum::Null)
                }
                (Type::Date, Datum::Date(days), Some(n)) => {
                    let n = n.as_i64().unwrap_or(0);
                    let n = if owned == BinaryOperator::Minus { -n } else { n };
                    i32::try_from(i64::from(*days).saturating_add(n))
                        .map(Datum::Date)
                        .map_err(|_| SqlError::new(state::DATETIME_OVERFLOW, "date out of range"))
                }
                _ => arithmetic(&owned, ty, left, right).unwrap_or(Ok(Datum::Null)),
            }
        }
        _ => Ok(Datum::Null),
    })
}

/// Integer arithmetic on whole arrays that detects overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    name: String,
    op: BinaryOperator,
    ty: DataType,
    shown: &'static str,
    signature: Signature,
}

impl Checked {
    fn new(op: &BinaryOperator, ty: Type) -> Self {
        Checked {
            name: format!("{} {op}", ty.name()),
            op: op.clone(),
            ty: crate::value::arrow_type(ty),
            shown: ty.name(),
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalars { 1 } else { args.number_rows };
        let side = |at: usize| -> Result<ArrayRef> {
            Ok(arrow::compute::cast(&args.args[at].to_array(rows)?, &self.ty)?)
        };
        let (left, right) = (side(0)?, side(1)?);
        let (left, right): (&dyn ArrowDatum, &dyn ArrowDatum) = (&left, &right);
        let result = match self.op {
            BinaryOperator::Plus => numeric::add(left, right),
            BinaryOperator::Minus => numeric::sub(left, right),
            _ => numeric::mul(left, right),
        };
        let result = result.map_err(|_| {
            outward(SqlError::new(state::OUT_OF_RANGE, format!("{} out of range", self.shown)))
        })?;
        if scalars {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
