//! Casts, implicit, on assignment, and explicit.

use crate::base_type::Kind;
use crate::bits::Bits;
use crate::datetime::{self, Local, ZonedTime};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::hstore::{Hstore, Values};
use crate::interval::Interval;
use crate::limits;
use crate::memory;
use crate::number;
use crate::numeric::Numeric;
use crate::types::{Internal, NAME_LENGTH, Object, Type};
use std::sync::Arc;

/// The way in which a cast converts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coercion {
    /// True if it truncates what is too long.
    pub(crate) explicit: bool,
    /// True if the result depends on the session's settings or on the time.
    pub(crate) is_stable: bool,
}

impl Coercion {
    /// Returns that of a value of a type, or of a literal.
    pub(crate) fn of(from: Option<Type>, to: Type, explicit: bool) -> Coercion {
        Coercion { explicit, is_stable: is_stable(from.unwrap_or(Type::Text), to) }
    }
}

/// True if the conversion of a type depends on the session's settings or on the time.
fn is_stable(from: Type, to: Type) -> bool {
    let (from, to) = (from.element().unwrap_or(from), to.element().unwrap_or(to));
    let (from, to) = (from.plain(), to.plain());
    let is_zoned = |ty| matches!(ty, Type::TimestampTz | Type::TimeTz);
    let is_time = |ty| is_zoned(ty) || matches!(ty, Type::Date | Type::Time | Type::Timestamp);
    match (from, to) {
        (from, to) if from == to && is_zoned(to) => false,
        // As in PostgreSQL, whatever the fields are.
        (from, to) if from.is_row() && to.is_text() || from.is_text() && to.is_row() => true,
        (Type::TimeTz, _) => false,
        (Type::TimestampTz, to) => to.is_text() || is_time(to),
        (from, Type::TimestampTz | Type::TimeTz) => from.is_text() || is_time(from),
        // A text may name the present day.
        (from, to) => from.is_text() && is_time(to),
    }
}

/// True if a value of one type is converted to another implicitly: number to wider number, text to
/// text, date to timestamp.
pub(crate) fn is_implicit(from: Type, to: Type) -> bool {
    let rank = |ty| match ty {
        Type::Int2 => Some(1),
        Type::Int4 => Some(2),
        Type::Int8 => Some(3),
        Type::Numeric(_) => Some(4),
        Type::Float4 => Some(5),
        Type::Float8 => Some(6),
        _ => None,
    };
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return is_implicit(from, to);
    }
    let (from, to) = (from.plain(), to.plain());
    from.base() == to.base()
        || (to == Type::Oid && (from.is_oid() || from.is_integer()))
        || names_alike(from, to)
        || (from.is_text() && to.is_text())
        || (from.is_row() && to == Type::Record)
        || matches!((rank(from), rank(to)), (Some(a), Some(b)) if a <= b)
        || is_citext(from) && matches!(to, Type::Text | Type::Varchar(_))
        || matches!(
            (from, to),
            (Type::Date, Type::Timestamp | Type::TimestampTz)
                | (Type::Time, Type::Interval | Type::TimeTz)
                | (Type::Bit(_), Type::Varbit(_))
                | (Type::Varbit(_), Type::Bit(_))
                | (Type::ByteChar | Type::Internal(Internal::NodeTree), Type::Text)
                | (Type::Cidr, Type::Inet)
                | (Type::Timestamp, Type::TimestampTz)
        )
}

/// True for texts without regard to case, which convert as texts do.
fn is_citext(ty: Type) -> bool {
    matches!(ty, Type::Base(of) if of.kind() == Kind::Citext)
}

/// True if the ids of both types are those of objects of one kind: functions, or operators.
fn names_alike(from: Type, to: Type) -> bool {
    let kinds =
        [[Object::Procedure, Object::Signature], [Object::Operator, Object::OperatorSignature]];
    let (Type::Object(from), Type::Object(to)) = (from, to) else { return false };
    kinds.iter().any(|kind| kind.contains(&from) && kind.contains(&to))
}

/// Whether a value of one type may be stored in a column of another.
pub(crate) fn is_assignable(from: Type, to: Type) -> bool {
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return is_assignable(from, to);
    }
    let (from, to) = (from.plain(), to.plain());
    let in_time = |ty| matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz);
    is_implicit(from, to)
        || (from.is_number() && to.is_number())
        || (in_time(from) && in_time(to))
        || matches!((from, to), (Type::Timestamp | Type::TimestampTz | Type::Interval, Type::Time))
        || matches!((from, to), (Type::TimestampTz, Type::TimeTz) | (Type::TimeTz, Type::Time))
        || (from.is_oid() && matches!(to, Type::Int4 | Type::Int8))
        || (from == Type::Oid && matches!(to, Type::Object(_)))
        || (from.is_text() && to == Type::ByteChar)
        || matches!((from, to), (Type::Json, Type::Jsonb) | (Type::Jsonb, Type::Json))
        || matches!((from, to), (Type::Inet, Type::Cidr))
        || to.is_text()
        || is_citext(to)
}

/// Whether an explicit cast exists.
pub(crate) fn exists(from: Type, to: Type) -> bool {
    // The catalog, which knows the names of objects, is not asked for those of an array.
    if matches!((from, to), (Type::Array(_), Type::Array(_)))
        && to.element().is_some_and(|to| matches!(to, Type::Object(_)))
    {
        return from == to;
    }
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return exists(from, to);
    }
    is_assignable(from, to)
        || (from.is_integer() && matches!(to, Type::Object(_)))
        || matches!((from, to), (Type::ByteChar, Type::Int4) | (Type::Int4, Type::ByteChar))
        || matches!((from, to), (Type::Int4 | Type::Int8, Type::Bit(_)))
        || matches!((from, to), (Type::Bit(_), Type::Int4 | Type::Int8))
        || from.is_text()
        || is_citext(from)
        || matches!((from, to), (Type::Bool, Type::Int4) | (Type::Int4, Type::Bool))
        || from == Type::Jsonb && (to.is_number() || to == Type::Bool)
        || from == Type::Hstore && matches!(to, Type::Json | Type::Jsonb)
        || to == Type::Hstore && from.element() == Some(Type::Text)
}

/// Converts a value. An implicit conversion or assignment rejects text that is too long; an
/// explicit one truncates it.
pub(crate) fn cast(
    datum: Datum,
    ty: Type,
    explicit: bool,
    local: Local<'_>,
) -> Result<Datum, SqlError> {
    let cannot = |datum: &Datum| {
        let from = datum.type_of().map_or("unknown", Type::name);
        SqlError::new(state::CANNOT_COERCE, format!("cannot cast type {from} to {}", ty.name()))
    };
    Ok(match (datum, ty) {
        (Datum::Null, _) => Datum::Null,
        (Datum::Text(text), Type::Rounded(rounded)) => {
            rounded.round(Datum::from_text_in(ty, &text, local)?)?
        }
        (other, Type::Rounded(rounded)) => {
            rounded.round(cast(other, rounded.plain(), explicit, local)?)?
        }
        (same @ Datum::Bool(_), Type::Bool)
        | (same @ Datum::Int2(_), Type::Int2)
        | (same @ Datum::Int4(_), Type::Int4)
        | (same @ Datum::Int8(_), Type::Int8)
        | (same @ Datum::Float4(_), Type::Float4)
        | (same @ Datum::Float8(_), Type::Float8)
        | (same @ Datum::Oid(_), Type::Oid | Type::Xid)
        | (same @ Datum::TimeTz(_), Type::TimeTz)
        | (same @ Datum::Numeric(_), Type::Numeric(None))
        | (same @ Datum::Bytes(_), Type::Bytea)
        | (same @ Datum::Uuid(_), Type::Uuid)
        | (same @ Datum::Date(_), Type::Date)
        | (same @ Datum::Time(_), Type::Time)
        | (same @ Datum::Timestamp(_), Type::Timestamp)
        | (same @ Datum::TimestampTz(_), Type::TimestampTz)
        | (same @ Datum::Interval(_), Type::Interval)
        | (same @ Datum::Enum(_), Type::Enum(_))
        | (same @ Datum::Base(_), Type::Base(_))
        | (same @ Datum::Record(_), Type::Record)
        | (same @ Datum::Text(_), Type::Text | Type::Varchar(None)) => same,
        (Datum::Text(text), Type::Varchar(Some(limit))) => {
            match limited(&text, limit, explicit, ty)? {
                Some(cut) => Datum::text(cut),
                None => Datum::Text(text),
            }
        }
        (Datum::Text(text), Type::Char(limit)) => {
            let trimmed = text.trim_end_matches(' ');
            let cut = if limit > 0 { limited(trimmed, limit, explicit, ty)? } else { None };
            match cut {
                Some(cut) => Datum::text(cut.trim_end_matches(' ')),
                None if trimmed.len() == text.len() => Datum::Text(text),
                None => Datum::text(trimmed),
            }
        }
        (Datum::Text(text), Type::Name) if text.len() <= NAME_LENGTH => Datum::Text(text),
        (Datum::Text(text), Type::ByteChar) if text.len() <= 1 => Datum::Text(text),
        (Datum::Int4(n), Type::ByteChar) => match u8::try_from(n).map(char::from) {
            Ok('\0') => Datum::text(""),
            Ok(byte) if n < 0x80 => Datum::text(byte.encode_utf8(&mut [0; 4])),
            _ if (-0x80..0x80).contains(&n) => {
                return Err(SqlError::unsupported("a value of type \"char\" that is not ASCII"));
            }
            _ => return Err(SqlError::new(state::OUT_OF_RANGE, "\"char\" out of range")),
        },
        (Datum::Bits(bits), Type::Bit(_) | Type::Varbit(_)) => {
            Datum::Bits(bits.limited(ty, explicit)?)
        }
        (Datum::Bits(bits), Type::Int4) => {
            Datum::Int4(bits.number(32).ok_or_else(|| number::overflow(ty))? as i32)
        }
        (Datum::Bits(bits), Type::Int8) => {
            Datum::Int8(bits.number(64).ok_or_else(|| number::overflow(ty))? as i64)
        }
        (Datum::Int4(n), Type::Bit(length)) => {
            Datum::Bits(Bits::of_number(n.into(), length.unwrap_or(1)))
        }
        (Datum::Int8(n), Type::Bit(length)) => Datum::Bits(Bits::of_number(n, length.unwrap_or(1))),
        // The bits stay, of an integer that has as many of them.
        (Datum::Oid(oid) | Datum::Object(oid, _), Type::Int4) => Datum::Int4(oid as i32),
        (Datum::Int4(n), Type::Oid) => Datum::Oid(n as u32),
        (Datum::Int2(n), Type::Oid) => Datum::Oid(i32::from(n) as u32),
        (Datum::Int8(n), Type::Oid) => {
            let wrong = |_| SqlError::new(state::OUT_OF_RANGE, "OID out of range");
            Datum::Oid(n.try_into().map_err(wrong)?)
        }
        (Datum::Object(oid, _), Type::Oid) => Datum::Oid(oid),
        (Datum::Record(record), Type::Composite(ty))
            if record.shape().ty() == Type::Composite(ty) =>
        {
            Datum::Record(record)
        }
        (same @ Datum::Object(..), Type::Object(_)) => same,
        (same @ Datum::Array(_), Type::Int2Vector | Type::OidVector) => same,
        (Datum::Array(array), Type::Array(element)) => {
            let element = element.ty();
            if array.element == element && element.modifier() < 0 {
                return Ok(Datum::Array(array));
            }
            let element_cast = |datum: &Datum| cast(datum.clone(), element, explicit, local);
            Datum::Array(Arc::new(array.map(element.base(), element_cast)?))
        }
        (same @ Datum::Json(_), Type::Json)
        | (same @ Datum::Jsonb(_), Type::Jsonb)
        | (same @ Datum::JsonPath(_), Type::JsonPath) => same,
        (same @ Datum::Hstore(_), Type::Hstore) => same,
        (Datum::Hstore(value), Type::Json) => {
            let mut text = String::new();
            value.write_json(Values::Strict, &mut text);
            limits::check_value(text.len())?;
            Datum::Json(text.into())
        }
        (Datum::Hstore(value), Type::Jsonb) => Datum::Jsonb(value.to_jsonb(Values::Strict)?),
        (Datum::Array(array), Type::Hstore) => Datum::Hstore(Hstore::of_array(&array)?),
        (Datum::Network(network), Type::Inet) => Datum::Network(network.as_inet()),
        (Datum::Network(network), Type::Cidr) => Datum::Network(network.network()),
        (Datum::Json(text), Type::Jsonb) => Datum::from_text(ty, &text)?,
        (json @ Datum::Jsonb(_), Type::Json) => {
            Datum::Json(json.to_text(Type::Jsonb).unwrap_or_default().into())
        }
        (Datum::Jsonb(json), to) if to.is_number() || to == Type::Bool => {
            cast(json.root().scalar(to)?, to, explicit, local)?
        }
        (Datum::Text(text), to) => {
            cast(Datum::from_text_in(to, &text, local)?, to, explicit, local)?
        }
        (Datum::Base(value), to) if !to.is_text() => {
            cast(Datum::text(value.text()), to, explicit, local)?
        }
        (other, Type::Base(ty)) => match cast(other, Type::Text, explicit, local)? {
            Datum::Text(text) => Datum::Base(ty.read(&text)?),
            other => return Err(cannot(&other)),
        },
        (Datum::Bool(b), Type::Int4) => Datum::Int4(b.into()),
        (Datum::Int4(n), Type::Bool) => Datum::Bool(n != 0),
        (other, to) if to.is_text() => {
            limits::check_value(match &other {
                Datum::Bits(bits) => bits.length() as usize,
                other => memory::behind(other),
            })?;
            let text = match other {
                Datum::Bool(b) => if b { "true" } else { "false" }.to_owned(),
                Datum::Network(network) => network.full(),
                ref other => other.to_text_in(Type::Text, local.zone).unwrap_or_default(),
            };
            cast(Datum::text(text), to, explicit, local)?
        }
        (number, Type::Int2 | Type::Int4 | Type::Int8) => match number {
            Datum::Float4(_) | Datum::Float8(_) => {
                let x = number.as_f64().unwrap_or(0.0);
                let rounded = x.round_ties_even();
                if rounded.is_nan() || rounded.abs() >= 1e19 {
                    return Err(number::overflow(ty));
                }
                number::integer(ty, rounded as i128)?
            }
            Datum::Numeric(n) => {
                if n.finite().is_none() {
                    let what = if n == Numeric::NaN { "NaN" } else { "infinity" };
                    let message = format!("cannot convert {what} to {}", ty.name());
                    return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
                }
                number::integer(ty, n.to_whole().ok_or_else(|| number::overflow(ty))?)?
            }
            other => number::integer(ty, other.as_i64().ok_or_else(|| cannot(&other))?.into())?,
        },
        (Datum::Numeric(n), Type::Float8) => {
            let x = n.to_f64();
            if n.finite().is_some() && (x.is_infinite() || (x == 0.0 && !n.is_zero())) {
                let message = format!("\"{n}\" is out of range for type double precision");
                return Err(SqlError::new(state::OUT_OF_RANGE, message));
            }
            Datum::Float8(x)
        }
        (Datum::Numeric(n), Type::Float4) if n.finite().is_some() => {
            Datum::from_text(ty, &n.to_string())?
        }
        (Datum::Int2(n), Type::Float4) => Datum::Float4(n.into()),
        (Datum::Int4(n), Type::Float4) => Datum::Float4(n as f32),
        (Datum::Int8(n), Type::Float4) => Datum::Float4(n as f32),
        (number, Type::Float4) => {
            let x = number.as_f64().ok_or_else(|| cannot(&number))?;
            Datum::Float4(number::narrow(x)?)
        }
        (number, Type::Float8) => Datum::Float8(number.as_f64().ok_or_else(|| cannot(&number))?),
        (
            number @ (Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Numeric(_)
            | Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)),
            Type::Numeric(limit),
        ) => {
            let n = number::to_numeric(&number)?.into_owned();
            Datum::Numeric(match limit {
                Some((precision, scale)) => n.limited(precision, scale)?,
                None => n,
            })
        }
        (Datum::Date(days), Type::Timestamp) => Datum::Timestamp(datetime::midnight(days)?),
        (Datum::Date(days), Type::TimestampTz) => {
            Datum::TimestampTz(datetime::instant_of(datetime::midnight(days)?, local.zone)?)
        }
        (Datum::Time(micros), Type::TimeTz) => {
            let now_us = local.zone.local(local.now_us.unwrap_or(0));
            let midnight = now_us - now_us.rem_euclid(datetime::DAY_US);
            let east_s = local.zone.east_s_of_local(i128::from(midnight) + i128::from(micros));
            Datum::TimeTz(ZonedTime { micros, east_s })
        }
        (Datum::TimestampTz(us), Type::TimeTz) => match datetime::is_infinite(us) {
            true => Datum::Null,
            false => {
                let micros = local.zone.local(us).rem_euclid(datetime::DAY_US);
                Datum::TimeTz(ZonedTime { micros, east_s: local.zone.east_s(us) })
            }
        },
        (Datum::TimeTz(time), Type::Time) => Datum::Time(time.micros),
        (Datum::TimestampTz(us), to @ (Type::Date | Type::Time | Type::Timestamp)) => {
            cast(Datum::Timestamp(datetime::local_of(us, local.zone)?), to, explicit, local)?
        }
        (Datum::Timestamp(us), Type::Date) => Datum::Date(datetime::day_of(us)),
        (Datum::Timestamp(us), Type::Time) => match datetime::is_infinite(us) {
            true => Datum::Null,
            false => Datum::Time(us.rem_euclid(datetime::DAY_US)),
        },
        (Datum::Interval(span), Type::Time) => {
            Datum::Time(span.micros.rem_euclid(datetime::DAY_US))
        }
        (Datum::Time(us), Type::Interval) => {
            Datum::Interval(Interval { micros: us, days: 0, months: 0 })
        }
        (Datum::Timestamp(us), Type::TimestampTz) => {
            Datum::TimestampTz(datetime::instant_of(us, local.zone)?)
        }
        (other, _) => return Err(cannot(&other)),
    })
}

/// Returns the text truncated to a limit; `None` if it fits. Assignment truncates only blanks.
fn limited(text: &str, limit: u32, explicit: bool, ty: Type) -> Result<Option<&str>, SqlError> {
    if text.len() <= limit as usize {
        return Ok(None);
    }
    let Some((at, _)) = text.char_indices().nth(limit as usize) else { return Ok(None) };
    if !explicit && text[at..].chars().any(|c| c != ' ') {
        return Err(SqlError::new(state::STRING_TOO_LONG, format!("value too long for type {ty}")));
    }
    Ok(Some(&text[..at]))
}
