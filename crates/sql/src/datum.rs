//! One value of a row.

use crate::array::Array;
use crate::base_type::BaseValue;
use crate::bits::Bits;
use crate::datetime::ZonedTime;
use crate::enumeration::EnumValue;
use crate::error::SqlError;
use crate::hstore::Hstore;
use crate::interval::Interval;
use crate::json::{Jsonb, Path};
use crate::network::Network;
use crate::numeric::Numeric;
use crate::record::Record;
use crate::types::{Object, Type};
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::Arc;
use uuid::Uuid;

/// A value. Text of `character(n)` is held without its padding, which the text and binary formats
/// add.
///
/// Two values are `==` if nothing tells one from the other: neither the scale of a numeric nor the
/// sign of a zero. SQL's comparison is [`Datum::order`].
#[derive(Clone, Debug)]
pub enum Datum {
    /// SQL's NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// Text of any kind.
    Text(Arc<str>),
    /// `bytea`
    Bytes(Bytes),
    /// `uuid`
    Uuid(Uuid),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since midnight, up to those of a day.
    Time(i64),
    /// `time with time zone`
    TimeTz(ZonedTime),
    /// Microseconds since 2000-01-01 00:00:00, without a zone.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00:00 UTC.
    TimestampTz(i64),
    /// `interval`
    Interval(Interval),
    /// `inet` or `cidr`
    Network(Network),
    /// `json`, as it is written
    Json(Arc<str>),
    /// `jsonb`
    Jsonb(Jsonb),
    /// `jsonpath`
    JsonPath(Path),
    /// `hstore`
    Hstore(Hstore),
    /// An array.
    Array(Arc<Array>),
    /// `bit` or `bit varying`
    Bits(Bits),
    /// `oid` or `xid`
    Oid(u32),
    /// The id of an object, and its name.
    Object(u32, Arc<str>),
    /// A value of an enum type.
    Enum(EnumValue),
    /// A value of a base type.
    Base(BaseValue),
    /// A row.
    Record(Arc<Record>),
}

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        use Datum::*;
        match (self, other) {
            (Null, Null) => true,
            (Bool(a), Bool(b)) => a == b,
            (Int2(a), Int2(b)) => a == b,
            (Int4(a), Int4(b)) | (Date(a), Date(b)) => a == b,
            (Int8(a), Int8(b)) | (Timestamp(a), Timestamp(b)) => a == b,
            (Time(a), Time(b)) | (TimestampTz(a), TimestampTz(b)) => a == b,
            (Float4(a), Float4(b)) => a.to_bits() == b.to_bits(),
            (Float8(a), Float8(b)) => a.to_bits() == b.to_bits(),
            (Numeric(a), Numeric(b)) => a == b,
            (Text(a), Text(b)) => a == b,
            (Bytes(a), Bytes(b)) => a == b,
            (Uuid(a), Uuid(b)) => a == b,
            (Interval(a), Interval(b)) => a == b,
            (Network(a), Network(b)) => a == b,
            (Json(a), Json(b)) => a == b,
            (Jsonb(a), Jsonb(b)) => a == b,
            (JsonPath(a), JsonPath(b)) => a == b,
            (Hstore(a), Hstore(b)) => a == b,
            (Array(a), Array(b)) => a == b,
            (TimeTz(a), TimeTz(b)) => a == b,
            (Bits(a), Bits(b)) => a == b,
            (Oid(a), Oid(b)) => a == b,
            (Object(a, x), Object(b, y)) => (a, x) == (b, y),
            (Enum(a), Enum(b)) => a == b,
            (Base(a), Base(b)) => a == b,
            (Record(a), Record(b)) => a == b,
            (
                Null | Bool(_) | Int2(_) | Int4(_) | Int8(_) | Float4(_) | Float8(_) | Numeric(_)
                | Text(_) | Bytes(_) | Uuid(_) | Date(_) | Time(_) | TimeTz(_) | Timestamp(_)
                | TimestampTz(_) | Interval(_) | Network(_) | Json(_) | Jsonb(_) | JsonPath(_)
                | Array(_) | Bits(_) | Oid(_) | Object(..) | Enum(_) | Base(_) | Record(_)
                | Hstore(_),
                _,
            ) => false,
        }
    }
}

impl Datum {
    /// Text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Datum::Text(Arc::from(text.as_ref()))
    }

    /// True if it is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Returns its type; NULL has none.
    pub fn type_of(&self) -> Option<Type> {
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(_) => Type::Bool,
            Datum::Int2(_) => Type::Int2,
            Datum::Int4(_) => Type::Int4,
            Datum::Int8(_) => Type::Int8,
            Datum::Float4(_) => Type::Float4,
            Datum::Float8(_) => Type::Float8,
            Datum::Numeric(_) => Type::Numeric(None),
            Datum::Text(_) => Type::Text,
            Datum::Bytes(_) => Type::Bytea,
            Datum::Uuid(_) => Type::Uuid,
            Datum::Date(_) => Type::Date,
            Datum::Time(_) => Type::Time,
            Datum::TimeTz(_) => Type::TimeTz,
            Datum::Timestamp(_) => Type::Timestamp,
            Datum::TimestampTz(_) => Type::TimestampTz,
            Datum::Interval(_) => Type::Interval,
            Datum::Network(network) if network.is_cidr() => Type::Cidr,
            Datum::Network(_) => Type::Inet,
            Datum::Json(_) => Type::Json,
            Datum::Jsonb(_) => Type::Jsonb,
            Datum::JsonPath(_) => Type::JsonPath,
            Datum::Hstore(_) => Type::Hstore,
            Datum::Array(array) => array.element.array(),
            // Whether it varies in length is a matter of its column, as is an object's kind.
            Datum::Bits(_) => Type::Bit(None),
            Datum::Oid(_) => Type::Oid,
            Datum::Object(..) => Type::Object(Object::Class),
            Datum::Enum(value) => Type::Enum(value.type_of()),
            Datum::Base(value) => Type::Base(value.type_of()),
            Datum::Record(record) => record.shape().ty(),
        })
    }

    /// Returns a whole number of any width, or the id of an object.
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Datum::Int2(n) => Some(*n as i64),
            Datum::Int4(n) => Some(*n as i64),
            Datum::Int8(n) => Some(*n),
            Datum::Oid(oid) | Datum::Object(oid, _) => Some(*oid as i64),
            _ => None,
        }
    }

    /// Orders two values of comparable types, NULL last. Values of types that do not compare are
    /// equal: the binder rejects such comparisons.
    pub fn order(&self, other: &Datum) -> Ordering {
        use Datum::*;
        match (self, other) {
            (Null, Null) => Ordering::Equal,
            (Null, _) => Ordering::Greater,
            (_, Null) => Ordering::Less,
            (Bool(a), Bool(b)) => a.cmp(b),
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (Uuid(a), Uuid(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Date(a), Date(b)) => a.cmp(b),
            (Time(a), Time(b)) => a.cmp(b),
            (TimeTz(a), TimeTz(b)) => a.order(*b),
            (Timestamp(a) | TimestampTz(a), Timestamp(b) | TimestampTz(b)) => a.cmp(b),
            (Date(a), Timestamp(b) | TimestampTz(b)) => {
                crate::datetime::midnight_wide(*a).cmp(&i128::from(*b))
            }
            (Timestamp(a) | TimestampTz(a), Date(b)) => {
                i128::from(*a).cmp(&crate::datetime::midnight_wide(*b))
            }
            (Interval(a), Interval(b)) => a.order(*b),
            (Network(a), Network(b)) => a.order(*b),
            (Jsonb(a), Jsonb(b)) => a.order(b),
            (Hstore(a), Hstore(b)) => a.order(b),
            (Array(a), Array(b)) => a.order(b),
            (Bits(a), Bits(b)) => a.order(b),
            (Enum(a), Enum(b)) => a.place().cmp(b.place()),
            (Base(a), Base(b)) => a.order(b),
            (Record(a), Record(b)) => a.order(b),
            (Numeric(a), Numeric(b)) => a.order(b),
            (Float4(_) | Float8(_), _) | (_, Float4(_) | Float8(_)) => {
                float_order(self.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(0.0))
            }
            (Numeric(a), b) => a.order(&b.as_i64().unwrap_or(0).into()),
            (a, Numeric(b)) => self::Numeric::from(a.as_i64().unwrap_or(0)).order(b),
            (a, b) => a.as_i64().cmp(&b.as_i64()),
        }
    }

    /// Orders two values as [`Datum::order`] does. Fails with 42804 for rows that do not compare,
    /// which is known by the values alone.
    pub(crate) fn compare(&self, other: &Datum) -> Result<Ordering, SqlError> {
        match (self, other) {
            (Datum::Record(a), Datum::Record(b)) => a.compare(b),
            (Datum::Array(a), Datum::Array(b)) => a.compare(b),
            (a, b) => Ok(a.order(b)),
        }
    }

    /// True if it is NULL, or a row whose fields all are: the value of IS NULL.
    pub(crate) fn tests_null(&self) -> bool {
        match self {
            Datum::Record(record) => record.values().iter().all(Datum::is_null),
            other => other.is_null(),
        }
    }

    /// True if it is not NULL, and no field of a row is: the value of IS NOT NULL.
    pub(crate) fn tests_not_null(&self) -> bool {
        match self {
            Datum::Record(record) => !record.values().iter().any(Datum::is_null),
            other => !other.is_null(),
        }
    }

    /// Returns a number as a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Datum::Float4(x) => Some((*x).into()),
            Datum::Float8(x) => Some(*x),
            Datum::Numeric(n) => Some(n.to_f64()),
            other => other.as_i64().map(|n| n as f64),
        }
    }
}

/// Orders floats as PostgreSQL does: NaN equals itself and is above everything, the zeros are
/// equal.
pub(crate) fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
