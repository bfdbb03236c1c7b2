//! The types of operands, and the conversions between them, by PostgreSQL's rules.

use super::analyse::{Analysis, Value};
use super::tree::{Cast, Const, Node};
use crate::cast;
use crate::datetime::{self, Local};
use crate::datum::Datum;
use crate::types::Type;

/// Returns a type without its modifier.
pub(super) fn bare(ty: Type) -> Type {
    match ty {
        Type::Array(element) => bare(element.ty()).array(),
        ty => ty.unlimited(),
    }
}

/// Returns the type by whose operators values of a type are compared.
fn compared_as(ty: Type) -> Type {
    match bare(ty) {
        Type::Varchar(_) => Type::Text,
        Type::Cidr => Type::Inet,
        ty => ty,
    }
}

fn is_instant(ty: Type) -> bool {
    matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz)
}

/// Returns the types of the operands of an operator on two numbers.
fn numbers(a: Type, b: Type) -> (Type, Type) {
    let is_float = |ty| matches!(ty, Type::Float4 | Type::Float8);
    match (a, b) {
        (a, b) if a.is_integer() && b.is_integer() || is_float(a) && is_float(b) => (a, b),
        // The operators of `real` with `double precision` are preferred.
        (Type::Float4, _) => (Type::Float4, Type::Float8),
        (_, Type::Float4) => (Type::Float8, Type::Float4),
        (a, b) if is_float(a) || is_float(b) => (Type::Float8, Type::Float8),
        _ => (Type::Numeric(None), Type::Numeric(None)),
    }
}

/// Returns the types of the operands of a comparison of these types.
pub(super) fn compared(left: Option<Type>, right: Option<Type>) -> Option<(Type, Type)> {
    let (a, b) = match (left.map(bare), right.map(bare)) {
        (None, None) => return Some((Type::Text, Type::Text)),
        (Some(ty), None) | (None, Some(ty)) => (compared_as(ty), compared_as(ty)),
        (Some(a), Some(b)) => (a, b),
    };
    Some(match (a, b) {
        (Type::Char(_), Type::Varchar(_)) | (Type::Varchar(_), Type::Char(_)) => {
            (Type::Char(0), Type::Char(0))
        }
        (Type::Char(_), Type::Name) | (Type::Name, Type::Char(_)) => return None,
        _ => match (compared_as(a), compared_as(b)) {
            (a, b) if a.is_number() && b.is_number() => numbers(a, b),
            (a, b) if a == b || is_instant(a) && is_instant(b) => (a, b),
            (Type::Char(_), Type::Text) | (Type::Text, Type::Char(_)) => (Type::Text, Type::Text),
            sides @ ((Type::Name, Type::Text) | (Type::Text, Type::Name)) => sides,
            (Type::Time, Type::TimeTz) | (Type::TimeTz, Type::Time) => (Type::TimeTz, Type::TimeTz),
            (Type::Bit(_), Type::Varbit(_)) | (Type::Varbit(_), Type::Bit(_)) => {
                (Type::Varbit(None), Type::Varbit(None))
            }
            (Type::Oid, b) if b.is_integer() => (Type::Oid, Type::Oid),
            (a, Type::Oid) if a.is_integer() => (Type::Oid, Type::Oid),
            _ => return None,
        },
    })
}

/// Returns the types of the operands and of the result of `+`, `-`, `*`, `/` or `%` on numbers;
/// `None` for other types.
pub(super) fn computed(
    op: &str,
    left: Option<Type>,
    right: Option<Type>,
) -> Option<(Type, Type, Type)> {
    let (a, b) = match (left.map(bare), right.map(bare)) {
        (None, None) => return None,
        (Some(ty), None) | (None, Some(ty)) => (ty, ty),
        (Some(a), Some(b)) => (a, b),
    };
    if !a.is_number() || !b.is_number() {
        return None;
    }
    let (a, b) = numbers(a, b);
    let wider = if cast::is_implicit(a, b) { b } else { a };
    // Both sides of `%` have one type.
    Some(if op == "%" { (wider, wider, wider) } else { (a, b, wider) })
}

/// Returns the common type of several values; `text` for literals alone.
pub(super) fn common<'v>(values: impl IntoIterator<Item = &'v Value>) -> Option<Type> {
    let mut met: Option<Type> = None;
    for ty in values.into_iter().filter_map(|value| value.ty).map(bare) {
        met = Some(match met {
            None => ty,
            Some(old) if old == ty || cast::is_implicit(ty, old) => old,
            Some(old) if cast::is_implicit(old, ty) => ty,
            Some(_) => return None,
        });
    }
    Some(met.unwrap_or(Type::Text))
}

/// True if PostgreSQL has a function for a conversion: others go by way of text, or change nothing.
fn is_call(from: Type, to: Type) -> bool {
    let is_same_bytes = |ty| matches!(ty, Type::Text | Type::Varchar(_));
    let (from, to) = (bare(from), bare(to));
    match (from, to) {
        (from, to) if from.element().is_some() || to.element().is_some() => false,
        (from, to) if from == to => true,
        (from, to) if is_same_bytes(from) => matches!(to, Type::Char(_)) || to == Type::Name,
        (Type::Bool | Type::Char(_) | Type::Name | Type::ByteChar, to) if to.is_text() => true,
        (Type::Inet | Type::Cidr, to) if to.is_text() => true,
        (Type::Bit(_), Type::Varbit(_)) | (Type::Varbit(_), Type::Bit(_)) => false,
        (Type::Cidr, Type::Inet) | (Type::Json, Type::Jsonb) | (Type::Jsonb, Type::Json) => false,
        (Type::Int4, to) if to.is_oid() => false,
        (from, to) => !from.is_text() && !to.is_text(),
    }
}

impl Analysis<'_> {
    /// Returns the constant of a literal of a type without a modifier. `None` for a time of the
    /// present day, and for a literal that is none of the type.
    fn literal(&self, text: &str, ty: Type) -> Option<Node> {
        let is_plain_time = |part| matches!(part, Type::Date | Type::Time | Type::Timestamp);
        let is_zoned = |part| matches!(part, Type::TimeTz | Type::TimestampTz);
        let is_time = ty.has_part(&|part| is_plain_time(part) || is_zoned(part));
        if is_time && datetime::is_relative(text) || matches!(ty, Type::Object(_)) {
            return None;
        }
        let value = Datum::from_text_in(ty, text, Local::utc()).ok()?;
        let value = cast::cast(value, ty, true, Local::utc()).ok()?;
        if let Datum::Bool(value) = value {
            return Some(Node::constant(value.to_string(), ty));
        }
        Some(Node::constant(value.to_text_in(ty, self.names.zone)?, ty))
    }

    /// Converts a value to a type, whose modifier is that of an explicit cast.
    pub(super) fn converted(&self, value: Value, ty: Type, is_implicit: bool) -> Option<Node> {
        let of = bare(ty);
        let (node, from) = match (value.ty, value.node) {
            (None, Node::Const(Const { text: None, .. })) => {
                (Node::Const(Const { text: None, ty: of }), of)
            }
            (None, Node::Const(Const { text: Some(text), .. })) => (self.literal(&text, of)?, of),
            (None, _) => return None,
            (Some(from), node) if value.domain.is_some() => {
                // A domain's values become those of its base type, also where that is the same.
                let cast = Cast {
                    arg: Box::new(node),
                    ty,
                    domain: None,
                    is_implicit,
                    is_call: bare(from) != of && is_call(from, ty),
                };
                return Some(Node::Cast(cast));
            }
            (Some(from), node) => (node, from),
        };
        let has_own = ty.modifier() >= 0;
        let is_same = bare(from) == of;
        if is_same && (from == ty || is_implicit && !has_own) {
            return Some(node);
        }
        let arg = Box::new(node);
        // Without a modifier, the value stays.
        let is_call = if is_same { has_own } else { has_own || is_call(from, ty) };
        Some(Node::Cast(Cast { arg, ty, domain: None, is_implicit, is_call }))
    }
}
