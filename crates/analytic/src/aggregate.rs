//! SUM and AVG over exact numbers, with PostgreSQL's result types: a sum of bigints and every
//! average of exact numbers is a numeric.

use crate::error::outward;
use crate::value::FREE;
use arrow::array::{Array, ArrayRef, AsArray, Decimal256Array, Int64Array};
use arrow::datatypes::{DataType, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use meridian_sql::{Datum, SqlError, Type, arithmetic, state};
use rust_decimal::Decimal;
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Finds an aggregate by its name.
pub(crate) fn find(name: &str, session: &SessionState) -> Option<Arc<AggregateUDF>> {
    let inner = |name: &str| session.aggregate_functions().get(name).cloned();
    match name {
        "sum" | "avg" => {
            let inner = inner(name)?;
            let signature = Signature::user_defined(Volatility::Immutable);
            Some(Arc::new(AggregateUDF::new_from_impl(Exact {
                average: name == "avg",
                inner,
                signature,
            })))
        }
        "every" => inner("bool_and"),
        "variance" | "var_samp" => inner("var"),
        // Their results are lists, which have no wire format here.
        "array_agg" => None,
        name => inner(name),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    average: bool,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

fn is_integer(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::UInt64
    )
}

fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..))
}

impl Exact {
    /// True if this file computes the type, and not DataFusion.
    fn is_ours(&self, ty: &DataType) -> bool {
        is_integer(ty) || self.average && is_decimal(ty)
    }
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        if self.average { "avg" } else { "sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Null] => Ok(vec![DataType::Float64]),
            [ty] if is_integer(ty) || is_decimal(ty) || *ty == DataType::Float64 => {
                Ok(types.to_vec())
            }
            [DataType::Float32] => Ok(vec![DataType::Float64]),
            types => {
                let shown: Vec<_> =
                    types.iter().map(|ty| crate::value::base_type(ty).name()).collect();
                let message =
                    format!("function {}({}) does not exist", self.name(), shown.join(", "));
                Err(outward(SqlError::new(state::UNDEFINED_FUNCTION, message)))
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &types[0] {
            ty if self.average && self.is_ours(ty) => FREE,
            DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
            ty if is_integer(ty) => DataType::Decimal128(38, 0),
            _ => self.inner.return_type(types)?,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.expr_fields[0].data_type();
        if !self.is_ours(ty) {
            return self.inner.accumulator(args);
        }
        let scale = match ty {
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
            _ => 0,
        };
        let total = Total {
            sum: i256::ZERO,
            count: 0,
            scale,
            result: args.return_field.data_type().clone(),
        };
        if args.is_distinct {
            return Ok(Box::new(Distinct { seen: Default::default(), total }));
        }
        Ok(Box::new(total))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !self.is_ours(args.input_fields[0].data_type()) {
            return self.inner.state_fields(args);
        }
        let name = |part| format_state_name(args.name, part);
        Ok(vec![
            Arc::new(Field::new(name("sum"), DataType::Decimal256(76, 0), true)),
            Arc::new(Field::new(name("count"), DataType::Int64, true)),
        ])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !self.is_ours(args.expr_fields[0].data_type())
            && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if self.is_ours(args.expr_fields[0].data_type()) {
            return self.accumulator(args);
        }
        self.inner.create_sliding_accumulator(args)
    }
}

/// A sum of mantissas, and their number.
#[derive(Debug)]
struct Total {
    sum: i256,
    count: i64,
    scale: i8,
    result: DataType,
}

fn wide(values: &ArrayRef) -> Result<Decimal256Array> {
    let ty = match values.data_type() {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            DataType::Decimal256(76, *scale)
        }
        _ => DataType::Decimal256(76, 0),
    };
    Ok(arrow::compute::cast(values, &ty)?.as_primitive::<Decimal256Type>().clone())
}

impl Total {
    fn add(&mut self, value: i256, count: i64) -> Result<()> {
        self.sum = self.sum.checked_add(value).ok_or_else(too_large)?;
        self.count += count;
        Ok(())
    }
}

fn too_large() -> datafusion::common::DataFusionError {
    outward(SqlError::new(state::OUT_OF_RANGE, "value overflows numeric format"))
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let DataType::Int16 | DataType::Int32 | DataType::Int64 = values[0].data_type() {
            let long = arrow::compute::cast(&values[0], &DataType::Int64)?;
            let long = long.as_primitive::<Int64Type>();
            let sum: i128 = long.iter().flatten().map(i128::from).sum();
            return self.add(i256::from_i128(sum), (long.len() - long.null_count()) as i64);
        }
        for value in wide(&values[0])?.iter().flatten() {
            self.add(value, 1)?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in wide(&values[0])?.iter().flatten() {
            self.add(value.wrapping_neg(), -1)?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal256Type>();
        let counts: &Int64Array = states[1].as_primitive::<Int64Type>();
        for (sum, count) in sums.iter().zip(counts.iter()) {
            self.add(sum.unwrap_or(i256::ZERO), count.unwrap_or(0))?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Decimal256(Some(self.sum), 76, 0),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&self.result);
        }
        match self.result {
            DataType::Int64 => {
                let sum = self.sum.to_i128().and_then(|sum| i64::try_from(sum).ok());
                let sum = sum.ok_or_else(|| {
                    outward(SqlError::new(state::OUT_OF_RANGE, "bigint out of range"))
                })?;
                Ok(ScalarValue::Int64(Some(sum)))
            }
            DataType::Decimal128(precision, scale) => {
                let sum = self.sum.to_i128().ok_or_else(too_large)?;
                Ok(ScalarValue::Decimal128(Some(sum), precision, scale))
            }
            _ => {
                let array: ArrayRef = Arc::new(
                    Decimal256Array::from(vec![self.sum])
                        .with_precision_and_scale(76, self.scale)?,
                );
                let sum = crate::value::datums(&array).map_err(outward)?.swap_remove(0);
                let count = Datum::Numeric(Decimal::from(self.count));
                let mean = arithmetic(&BinaryOperator::Divide, Type::Numeric(None), &sum, &count);
                let mean = mean.unwrap_or(Ok(Datum::Null)).map_err(outward)?;
                crate::value::scalar(&mean, Type::Numeric(None)).map_err(outward)
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum over distinct values.
#[derive(Debug)]
struct Distinct {
    seen: std::collections::BTreeSet<i256>,
    total: Total,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in wide(&values[0])?.iter().flatten() {
            if self.seen.insert(value) {
                self.total.add(value, 1)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(outward(SqlError::unsupported("a distinct aggregate in parts")))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(outward(SqlError::unsupported("a distinct aggregate in parts")))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.total.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.len() * 64
    }
}
