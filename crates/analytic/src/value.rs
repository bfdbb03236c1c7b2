//! Converts types and values between SQL and Arrow.
//!
//! A numeric with a declared scale is a Decimal128 of that scale. A numeric without one (and the
//! result of division and avg) is [`FREE`], wide enough for every stored numeric; its trailing
//! zeros are not kept. Arrow does not know a type's modifier, so a field also carries the SQL type
//! in its metadata, which is used only if the Arrow type agrees.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder,
    PrimitiveBuilder, StringBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Field, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Schema, SchemaRef, TimeUnit,
    TimestampMicrosecondType, i256,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use meridian_sql::{Column, Datum, Interval, SqlError, Table, Type};
use rust_decimal::Decimal;
use std::collections::HashMap;
use std::sync::Arc;

/// The type of a numeric without declared scale.
pub(crate) const FREE: DataType = DataType::Decimal256(76, FREE_SCALE);
const FREE_SCALE: i8 = 28;
/// The days between 1970-01-01, Arrow's epoch, and 2000-01-01, PostgreSQL's.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
const ZONE: &str = "+00:00";
const KEY: &str = "sql";

pub(crate) fn arrow_type(ty: Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int2 => DataType::Int16,
        Type::Int4 => DataType::Int32,
        Type::Int8 => DataType::Int64,
        Type::Float8 => DataType::Float64,
        Type::Numeric(Some((precision, scale))) => {
            DataType::Decimal128(precision as u8, scale as i8)
        }
        Type::Numeric(None) => FREE,
        Type::Text | Type::Varchar(_) | Type::Char(_) => DataType::Utf8,
        Type::Bytea => DataType::Binary,
        Type::Uuid => DataType::FixedSizeBinary(16),
        Type::Date => DataType::Date32,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        // Tables with arrays are refused before.
        Type::Array(_) => DataType::Null,
    }
}

/// Returns the field of a value of a type.
pub(crate) fn field(name: &str, ty: Type, nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(ty), nullable);
    if ty.modifier() < 0 && ty == ty.base() {
        return field;
    }
    field
        .with_metadata(HashMap::from([(KEY.to_owned(), format!("{} {}", ty.oid(), ty.modifier()))]))
}

/// Returns the Arrow schema of a table.
pub(crate) fn schema(table: &Table) -> SchemaRef {
    let fields: Vec<_> = table
        .columns
        .iter()
        .map(|column| field(&column.name, column.ty, !column.not_null))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Returns the SQL type of a field.
pub(crate) fn type_of(field: &Field) -> Type {
    let noted = field.metadata().get(KEY).and_then(|text| {
        let (oid, modifier) = text.split_once(' ')?;
        Type::with_modifier(oid.parse().ok()?, modifier.parse().ok()?)
    });
    match noted {
        Some(ty) if arrow_type(ty) == *field.data_type() => ty,
        _ => base_type(field.data_type()),
    }
}

/// Returns the SQL type of an Arrow type; text for types that SQL here does not have.
pub(crate) fn base_type(ty: &DataType) -> Type {
    match ty {
        DataType::Boolean => Type::Bool,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => Type::Int2,
        DataType::UInt16 | DataType::Int32 => Type::Int4,
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => Type::Int8,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Type::Float8,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::Numeric(None),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytea,
        DataType::FixedSizeBinary(16) => Type::Uuid,
        DataType::Date32 | DataType::Date64 => Type::Date,
        DataType::Timestamp(_, None) => Type::Timestamp,
        DataType::Timestamp(_, Some(_)) => Type::TimestampTz,
        DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::Duration(TimeUnit::Microsecond) => Type::Interval,
        DataType::Dictionary(_, value) => base_type(value),
        _ => Type::Text,
    }
}

/// Returns the result's columns. The part of a name after the mark of [`crate::dialect`] is not
/// shown.
pub(crate) fn columns(fields: &[Arc<Field>]) -> Arc<[Column]> {
    let name =
        |field: &Field| field.name().split(crate::dialect::MARK).next().unwrap_or("").to_owned();
    fields.iter().map(|field| Column::new(name(field), type_of(field))).collect()
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut dyn Iterator<Item = &Datum>,
    ty: &DataType,
    native: impl Fn(&Datum) -> Result<T::Native, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let mut out =
        PrimitiveBuilder::<T>::with_capacity(values.size_hint().0).with_data_type(ty.clone());
    for value in values {
        if value.is_null() {
            out.append_null();
        } else {
            out.append_value(native(value)?);
        }
    }
    Ok(Arc::new(out.finish()))
}

fn mismatch(value: &Datum, ty: &DataType) -> SqlError {
    SqlError::corrupted(format!("a value of {:?} where {ty} stands", value.type_of()))
}

/// Returns the mantissa of a number at a scale.
fn mantissa(value: &Datum, scale: i8, ty: &DataType) -> Result<i256, SqlError> {
    let number = match value {
        Datum::Numeric(number) => *number,
        other => Decimal::from(other.as_i64().ok_or_else(|| mismatch(value, ty))?),
    };
    let from = number.scale() as i32;
    let mantissa = i256::from_i128(number.mantissa());
    let ten = i256::from_i128(10);
    Ok(match i32::from(scale) - from {
        up @ 0.. => mantissa.wrapping_mul(ten.wrapping_pow(up as u32)),
        down => {
            // Half away from zero, as PostgreSQL rounds numerics.
            let unit = ten.wrapping_pow(-down as u32);
            let half = unit.wrapping_div(i256::from_i128(2));
            let away = if mantissa.is_negative() {
                mantissa.wrapping_sub(half)
            } else {
                mantissa.wrapping_add(half)
            };
            away.wrapping_div(unit)
        }
    })
}

/// Returns values as an array of an Arrow type that [`arrow_type`] names.
pub(crate) fn array<'a>(
    mut values: impl ExactSizeIterator<Item = &'a Datum>,
    ty: &DataType,
) -> Result<ArrayRef, SqlError> {
    let bad = |value: &Datum| mismatch(value, ty);
    let whole = |value: &Datum| value.as_i64().ok_or_else(|| mismatch(value, ty));
    let length = values.len();
    Ok(match ty {
        DataType::Boolean => {
            let mut out = BooleanBuilder::with_capacity(length);
            for value in values {
                match value {
                    Datum::Null => out.append_null(),
                    Datum::Bool(b) => out.append_value(*b),
                    other => return Err(bad(other)),
                }
            }
            Arc::new(out.finish())
        }
        DataType::Int16 => primitive::<Int16Type>(&mut values, ty, |v| whole(v).map(|n| n as i16))?,
        DataType::Int32 => primitive::<Int32Type>(&mut values, ty, |v| whole(v).map(|n| n as i32))?,
        DataType::Int64 => primitive::<Int64Type>(&mut values, ty, whole)?,
        DataType::Float64 => {
            primitive::<Float64Type>(&mut values, ty, |v| v.as_f64().ok_or_else(|| bad(v)))?
        }
        DataType::Decimal128(_, scale) => primitive::<Decimal128Type>(&mut values, ty, |v| {
            mantissa(v, *scale, ty)?.to_i128().ok_or_else(|| {
                SqlError::new(meridian_sql::state::OUT_OF_RANGE, "numeric field overflow")
            })
        })?,
        DataType::Decimal256(_, scale) => {
            primitive::<Decimal256Type>(&mut values, ty, |v| mantissa(v, *scale, ty))?
        }
        DataType::Date32 => primitive::<Date32Type>(&mut values, ty, |v| match v {
            Datum::Date(days) => Ok(days.saturating_add(EPOCH_DAYS)),
            other => Err(bad(other)),
        })?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(&mut values, ty, |v| match v {
                Datum::Timestamp(us) | Datum::TimestampTz(us) => Ok(us.saturating_add(EPOCH_US)),
                other => Err(bad(other)),
            })?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType>(&mut values, ty, |v| match v {
                Datum::Interval(Interval { months, days, micros }) => micros
                    .checked_mul(1000)
                    .map(|nanos| IntervalMonthDayNano::new(*months, *days, nanos))
                    .ok_or_else(|| {
                        SqlError::new(
                            meridian_sql::state::DATETIME_OVERFLOW,
                            "interval out of range",
                        )
                    }),
                other => Err(bad(other)),
            })?
        }
        DataType::Utf8 => {
            let mut out = StringBuilder::with_capacity(length, length * 16);
            for value in values {
                match value {
                    Datum::Null => out.append_null(),
                    Datum::Text(text) => out.append_value(text),
                    other => return Err(bad(other)),
                }
            }
            Arc::new(out.finish())
        }
        DataType::Binary => {
            let mut out = BinaryBuilder::with_capacity(length, length * 16);
            for value in values {
                match value {
                    Datum::Null => out.append_null(),
                    Datum::Bytes(bytes) => out.append_value(bytes),
                    other => return Err(bad(other)),
                }
            }
            Arc::new(out.finish())
        }
        DataType::FixedSizeBinary(16) => {
            let mut out = FixedSizeBinaryBuilder::with_capacity(length, 16);
            for value in values {
                match value {
                    Datum::Null => out.append_null(),
                    Datum::Uuid(id) => {
                        out.append_value(id.as_bytes()).map_err(SqlError::corrupted)?
                    }
                    other => return Err(bad(other)),
                }
            }
            Arc::new(out.finish())
        }
        other => return Err(SqlError::unsupported(format!("the Arrow type {other}"))),
    })
}

/// Returns one value as a scalar.
pub(crate) fn scalar(value: &Datum, ty: Type) -> Result<ScalarValue, SqlError> {
    let array = array(std::iter::once(value), &arrow_type(ty))?;
    ScalarValue::try_from_array(&array, 0).map_err(SqlError::corrupted)
}

fn too_large() -> SqlError {
    SqlError::new(meridian_sql::state::OUT_OF_RANGE, "value overflows numeric format")
        .detail("At most 28 digits are kept.")
}

fn decimal(mut mantissa: i256, mut scale: i8, free: bool) -> Result<Datum, SqlError> {
    let ten = i256::from_i128(10);
    if free {
        while scale > 0 && mantissa.wrapping_rem(ten) == i256::ZERO {
            (mantissa, scale) = (mantissa.wrapping_div(ten), scale - 1);
        }
    }
    loop {
        // A literal such as 1e10 has a scale below zero.
        while scale < 0 {
            let more = mantissa.checked_mul(ten);
            (mantissa, scale) = (more.ok_or_else(too_large)?, scale + 1);
        }
        if scale <= 28
            && let Some(small) = mantissa.to_i128()
            && let Ok(number) = Decimal::try_from_i128_with_scale(small, scale.max(0) as u32)
        {
            return Ok(Datum::Numeric(number));
        }
        if scale <= 0 {
            return Err(too_large());
        }
        // Digits beyond the supported scale are rounded away at the end.
        let half = if mantissa.is_negative() { i256::from_i128(-5) } else { i256::from_i128(5) };
        (mantissa, scale) = (mantissa.wrapping_add(half).wrapping_div(ten), scale - 1);
    }
}

/// Returns an interval of an array.
fn interval(months: i32, days: i32, micros: i64) -> Datum {
    Datum::Interval(Interval { months, days, micros })
}

/// Returns an array's values; values of types that SQL here does not have as text.
pub(crate) fn datums(array: &ArrayRef) -> Result<Vec<Datum>, SqlError> {
    let wrong = |error: arrow::error::ArrowError| SqlError::corrupted(error);
    let plain = match array.data_type() {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, _) => array.data_type().clone(),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Dictionary(_, value) => (**value).clone(),
        other => other.clone(),
    };
    if plain != *array.data_type() {
        return datums(&arrow::compute::cast(array, &plain).map_err(wrong)?);
    }
    let mut out = Vec::with_capacity(array.len());
    macro_rules! take {
        ($array:expr, $value:expr) => {
            for value in $array.iter() {
                out.push(match value {
                    Some(value) => $value(value)?,
                    None => Datum::Null,
                });
            }
        };
    }
    type Made = Result<Datum, SqlError>;
    match array.data_type() {
        DataType::Null => out.resize(array.len(), Datum::Null),
        DataType::Boolean => take!(array.as_boolean(), |b| -> Made { Ok(Datum::Bool(b)) }),
        DataType::Int16 => {
            take!(array.as_primitive::<Int16Type>(), |n| -> Made { Ok(Datum::Int2(n)) })
        }
        DataType::Int32 => {
            take!(array.as_primitive::<Int32Type>(), |n| -> Made { Ok(Datum::Int4(n)) })
        }
        DataType::Int64 => {
            take!(array.as_primitive::<Int64Type>(), |n| -> Made { Ok(Datum::Int8(n)) })
        }
        DataType::Float64 => {
            take!(array.as_primitive::<Float64Type>(), |x| -> Made { Ok(Datum::Float8(x)) })
        }
        DataType::Decimal128(_, scale) => {
            take!(array.as_primitive::<Decimal128Type>(), |n| decimal(
                i256::from_i128(n),
                *scale,
                false
            ));
        }
        DataType::Decimal256(_, scale) => {
            take!(array.as_primitive::<Decimal256Type>(), |n| decimal(
                n,
                *scale,
                *scale >= FREE_SCALE
            ));
        }
        DataType::Date32 => take!(array.as_primitive::<Date32Type>(), |days: i32| -> Made {
            Ok(Datum::Date(days.saturating_sub(EPOCH_DAYS)))
        }),
        DataType::Timestamp(_, None) => {
            take!(array.as_primitive::<TimestampMicrosecondType>(), |us: i64| -> Made {
                Ok(Datum::Timestamp(us.saturating_sub(EPOCH_US)))
            });
        }
        DataType::Timestamp(_, Some(_)) => {
            take!(array.as_primitive::<TimestampMicrosecondType>(), |us: i64| -> Made {
                Ok(Datum::TimestampTz(us.saturating_sub(EPOCH_US)))
            });
        }
        DataType::Utf8 => take!(array.as_string::<i32>(), |text| -> Made { Ok(Datum::text(text)) }),
        DataType::Binary => {
            take!(array.as_binary::<i32>(), |bytes: &[u8]| -> Made {
                Ok(Datum::Bytes(bytes.to_vec().into()))
            })
        }
        DataType::FixedSizeBinary(16) => take!(array.as_fixed_size_binary(), |bytes: &[u8]| {
            uuid::Uuid::from_slice(bytes).map(Datum::Uuid).map_err(SqlError::corrupted)
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            take!(
                array.as_primitive::<IntervalMonthDayNanoType>(),
                |span: IntervalMonthDayNano| -> Made {
                    Ok(interval(span.months, span.days, span.nanoseconds / 1000))
                }
            );
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            // As PostgreSQL subtracts timestamps: whole days are days.
            take!(array.as_primitive::<DurationMicrosecondType>(), |us: i64| -> Made {
                Ok(interval(0, (us / 86_400_000_000) as i32, us % 86_400_000_000))
            });
        }
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(wrong)?;
            for row in 0..array.len() {
                let text = formatter.value(row).to_string();
                out.push(if array.is_null(row) { Datum::Null } else { Datum::text(text) });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_pass_through_exactly() {
        let held = DataType::Decimal128(20, 3);
        for text in ["0", "1.500", "-123456789.125", "99999999999999.999"] {
            let number = Datum::Numeric(text.parse().expect("a number"));
            for ty in [&held, &FREE] {
                let there = array(std::iter::once(&number), ty).expect("it fits");
                let back = datums(&there).expect("it is one of ours").swap_remove(0);
                assert!(back.order(&number).is_eq(), "{text} became {back:?}");
            }
        }
        let too_many = Datum::Numeric("9999999999999999999".parse().expect("a number"));
        assert!(array(std::iter::once(&too_many), &DataType::Decimal128(38, 28)).is_err());
        assert!(decimal(i256::MAX, 0, false).is_err(), "more than 28 digits");
        assert_eq!(
            decimal(i256::from_i128(1), -10, false),
            Ok(Datum::Numeric(Decimal::from(10_000_000_000i64)))
        );
    }

    #[test]
    fn intervals_pass_through_unless_nanoseconds_are_too_many() {
        let ty = arrow_type(Type::Interval);
        let span = interval(14, -3, 7_200_500_000);
        let there = array(std::iter::once(&span), &ty).expect("it fits");
        assert_eq!(datums(&there), Ok(vec![span]));
        assert!(array(std::iter::once(&interval(0, 0, i64::MAX)), &ty).is_err());
    }
}
