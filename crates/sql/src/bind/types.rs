//! The types of operands: literals and parameters take them from their context, and two operands
//! meet in one type.

use super::{Binder, Typed};
use crate::cast::{self, Coercion};
use crate::collation;
use crate::datetime::{self, Local, Zone};
use crate::datum::Datum;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Compare, Expr};
use crate::function;
use crate::types::{Object, Type};

/// Fails with 42883 for a type whose values are neither equal nor different.
pub(super) fn check_equality(ty: Type) -> Result<(), SqlError> {
    if ty.has_order() { Ok(()) } else { Err(function::no_equality(ty)) }
}

/// True if values of a type are texts, or have texts in them whose order decides about theirs.
fn has_text(ty: Type) -> bool {
    ty.is_text() || ty.is_row() || ty.element().is_some_and(has_text)
}

/// Fails with 42883 for a type whose values have no order.
pub(super) fn check_order(ty: Type) -> Result<(), SqlError> {
    if ty.has_order() {
        return Ok(());
    }
    let message = format!("could not identify an ordering operator for type {}", ty.name());
    Err(SqlError::new(state::UNDEFINED_FUNCTION, message)
        .hint("Use an explicit ordering operator or modify the query."))
}

/// True if values of the first type are ids, and those of the second may be.
fn is_id(a: Type, b: Type) -> bool {
    a.is_oid() && (b.is_oid() || b.is_integer())
}

/// Returns the domain that all of several values are of.
pub(super) fn shared(mut domains: impl Iterator<Item = Option<Domain>>) -> Option<Domain> {
    let first = domains.next().flatten();
    first.filter(|_| domains.all(|domain| domain == first))
}

impl Binder {
    /// Returns the relation that a literal names, if that is known without a look at the catalog:
    /// by its id, or by a name that was looked up with the tables.
    fn relation_of_literal(&self, text: &str) -> Option<u32> {
        if self.is_stored {
            return text.parse().ok();
        }
        self.relations.iter().find(|(name, _)| name == text).map(|(_, id)| *id)
    }

    /// Returns the type of an expression. Another use of a parameter may have given it one since it
    /// was bound.
    pub(super) fn type_of(&self, typed: &Typed) -> Option<Type> {
        match typed.expr {
            Expr::Param(at) => typed.ty.or_else(|| self.params[at]),
            _ => typed.ty,
        }
    }

    /// Converts an expression to a type.
    pub(crate) fn coerce(
        &mut self,
        bound: Typed,
        ty: Type,
        explicit: bool,
    ) -> Result<Expr, SqlError> {
        if let (Type::Object(Object::Class), None, Expr::Const(Datum::Text(text))) =
            (ty, bound.ty, &bound.expr)
            && let Some(id) = self.relation_of_literal(text)
        {
            return Ok(Expr::Const(Datum::Object(id, text.clone())));
        }
        // The catalog knows an object by its name or its id.
        if let (Type::Object(kind), false) = (ty, bound.ty == Some(ty)) {
            return Ok(self.apply(kind.name(), vec![bound])?.expr);
        }
        if explicit && ty == Type::Int4 && bound.ty == Some(Type::ByteChar) {
            return Ok(self.apply("ascii", vec![bound])?.expr);
        }
        if ty.is_text() && matches!(bound.ty, Some(Type::Int2Vector | Type::OidVector)) {
            let blank = Typed::of(Expr::Const(Datum::text(" ")), Type::Text);
            let text = self.apply("array_to_string", vec![bound, blank])?;
            return self.coerce(text, ty, explicit);
        }
        match (self.type_of(&bound), bound.expr) {
            (None, Expr::Param(at)) => {
                self.params[at] = Some(ty.unlimited());
                let expr = Expr::Param(at);
                let how = Coercion::of(Some(ty.unlimited()), ty, explicit);
                Ok(if ty.modifier() < 0 { expr } else { Expr::Cast(Box::new(expr), ty, how) })
            }
            (None, Expr::Const(Datum::Text(text))) => self.literal_of(&text, ty, explicit),
            (None, Expr::Const(Datum::Null)) => Ok(Expr::Const(Datum::Null)),
            (Some(from), expr) if from == ty => Ok(expr),
            (Some(from), expr)
                if let Type::Composite(to) = ty
                    && from.is_row() =>
            {
                self.composite_of(expr, from, to, explicit)
            }
            // A constant that does not convert is an error where it is evaluated, if ever.
            (Some(from), Expr::Const(datum)) if explicit || cast::is_assignable(from, ty) => {
                let how = Coercion::of(Some(from), ty, explicit);
                if how.is_stable {
                    return Ok(Expr::Cast(Box::new(Expr::Const(datum)), ty, how));
                }
                Ok(match cast::cast(datum.clone(), ty, explicit, Local::utc()) {
                    Ok(datum) => Expr::Const(datum),
                    Err(_) => Expr::Cast(Box::new(Expr::Const(datum)), ty, how),
                })
            }
            (Some(from), expr)
                if from.is_text() && matches!(ty, Type::Text | Type::Varchar(None)) =>
            {
                Ok(expr)
            }
            (from, expr) => Ok(Expr::Cast(Box::new(expr), ty, Coercion::of(from, ty, explicit))),
        }
    }

    /// Returns the value of a literal of a type, by the zone that is in force while the statement
    /// is planned, as in PostgreSQL. A text of the present day is read when the statement runs.
    pub(super) fn literal_of(
        &mut self,
        text: &str,
        ty: Type,
        explicit: bool,
    ) -> Result<Expr, SqlError> {
        let is_zoned = ty.has_part(&|part| matches!(part, Type::TimeTz | Type::TimestampTz));
        let is_plain = |part| matches!(part, Type::Date | Type::Time | Type::Timestamp);
        let is_time = is_zoned || ty.has_part(&is_plain);
        // A time without a date has the offset of the present day.
        let has_offsets =
            self.zone.only_offset().is_none() && ty.has_part(&|part| part == Type::TimeTz);
        if is_time && !self.is_frozen && (has_offsets || datetime::is_relative(text)) {
            let how = Coercion { explicit, is_stable: true };
            return Ok(Expr::Cast(Box::new(Expr::Const(Datum::text(text))), ty, how));
        }
        let local = Local { zone: &self.zone, now_us: None };
        let local = if self.is_frozen { Local::utc() } else { local };
        let value = cast::cast(Datum::from_text_in(ty, text, local)?, ty, explicit, local)?;
        if self.is_frozen && is_zoned {
            let elsewhere = Zone::of_offset(1);
            let local = Local { zone: &elsewhere, now_us: None };
            let other = cast::cast(Datum::from_text_in(ty, text, local)?, ty, explicit, local)?;
            self.reads_zone |= other != value;
        }
        Ok(Expr::Const(value))
    }

    /// Returns the common type of several expressions. It has a length or a scale only if all of
    /// them have it; literals and parameters have none.
    pub(crate) fn meet(&self, all: &[Typed]) -> Result<Option<Type>, SqlError> {
        let mut met: Option<Type> = None;
        for ty in all.iter().filter_map(|typed| self.type_of(typed)) {
            met = Some(match met {
                None => ty,
                Some(old) if old == ty => old,
                // Of two that convert into each other, as kinds of text do, the first.
                Some(old) if cast::is_implicit(ty, old) && !ty.is_row() => old.unlimited(),
                Some(old) if cast::is_implicit(old, ty) && !old.is_row() => ty.unlimited(),
                Some(old) => {
                    let message =
                        format!("types {} and {} cannot be matched", old.name(), ty.name());
                    return Err(SqlError::new(state::TYPE_MISMATCH, message));
                }
            });
        }
        let is_free = |typed: &Typed| self.type_of(typed).is_none();
        Ok(if all.iter().any(is_free) { met.map(Type::unlimited) } else { met })
    }

    /// Returns the common type of the parts of a construct, which an error names.
    pub(super) fn meet_all(&self, of: &str, all: &[Typed]) -> Result<Option<Type>, SqlError> {
        self.meet(all)
            .map_err(|error| SqlError { message: format!("{of} {}", error.message), ..error })
    }

    pub(super) fn no_operator(op: &str, left: Option<Type>, right: Option<Type>) -> SqlError {
        let name = |ty: Option<Type>| ty.map_or("unknown", Type::name);
        SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("operator does not exist: {} {op} {}", name(left), name(right)),
        )
        .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
    }

    /// Fails with 0A000 for an order of texts that may have the collation of a language. Columns of
    /// tables have theirs; a computed text may have that of any table of the statement.
    pub(super) fn check_collation(&self, value: &Typed) -> Result<(), SqlError> {
        let Some(collation) = &self.collation else { return Ok(()) };
        let is_of_bytes = match &value.expr {
            Expr::Const(_) | Expr::Param(_) => true,
            Expr::Column(id) => {
                let column = &self.columns[*id];
                column.origin != (0, 0) && !column.is_collated
            }
            _ => false,
        };
        match is_of_bytes || value.is_of_bytes || !has_text(value.ty.unwrap_or(Type::Text)) {
            true => Ok(()),
            false => Err(collation::not_ordered(collation)),
        }
    }

    /// Does so for the sides of a comparison: COLLATE of one is that of both.
    pub(super) fn check_collations(
        &self,
        op: Compare,
        left: &Typed,
        right: &Typed,
    ) -> Result<(), SqlError> {
        if matches!(op, Compare::Eq | Compare::Ne) || left.is_of_bytes || right.is_of_bytes {
            return Ok(());
        }
        self.check_collation(left)?;
        self.check_collation(right)
    }

    /// Compares two bound sides. The keys of integers of all widths, and of text of all kinds, are
    /// compatible, so those sides are not converted.
    pub(crate) fn compare(
        &mut self,
        op: Compare,
        left: Typed,
        right: Typed,
        shown: &str,
    ) -> Result<Expr, SqlError> {
        self.check_collations(op, &left, &right)?;
        let has_no_order =
            [left.ty, right.ty].iter().flatten().any(|ty| matches!(ty, Type::Xid | Type::Hstore));
        if has_no_order && !matches!(op, Compare::Eq | Compare::Ne) {
            return Err(Self::no_operator(shown, left.ty, right.ty));
        }
        let (left, right) = self.meet_sides(left, right, shown)?;
        Ok(Expr::Compare(op, Box::new((left, right))))
    }

    pub(super) fn meet_sides(
        &mut self,
        left: Typed,
        right: Typed,
        shown: &str,
    ) -> Result<(Expr, Expr), SqlError> {
        let types = (self.type_of(&left), self.type_of(&right));
        if [types.0, types.1].into_iter().flatten().any(|ty| !ty.has_order()) {
            return Err(Self::no_operator(shown, types.0, types.1));
        }
        Ok(match types {
            (None, None) => {
                (self.coerce(left, Type::Text, false)?, self.coerce(right, Type::Text, false)?)
            }
            (Some(ty), None) => (left.expr.clone(), self.coerce_side(right, ty)?),
            (None, Some(ty)) => (self.coerce_side(left, ty)?, right.expr),
            (Some(a), Some(b))
                if a.base() != b.base() && (a.element().is_some() || b.element().is_some()) =>
            {
                return Err(Self::no_operator(shown, Some(a), Some(b)));
            }
            (Some(a), Some(b)) if a.is_row() && b.is_row() => (left.expr, right.expr),
            (Some(a), Some(b)) if a.base() == b.base() || (a.is_integer() && b.is_integer()) => {
                (left.expr, right.expr)
            }
            (Some(Type::ByteChar), Some(b)) if b.is_text() => {
                (self.coerce(left, Type::Text, false)?, right.expr)
            }
            (Some(a), Some(Type::ByteChar)) if a.is_text() => {
                (left.expr, self.coerce(right, Type::Text, false)?)
            }
            // The id of a transaction is compared with a number behind it.
            (Some(Type::Xid), Some(Type::Int2 | Type::Int4)) => {
                (left.expr, self.coerce(right, Type::Oid, false)?)
            }
            // Ids are compared as numbers.
            (Some(a), Some(b)) if is_id(a, b) || is_id(b, a) => {
                (self.coerce(left, Type::Oid, false)?, self.coerce(right, Type::Oid, false)?)
            }
            // A `real` is compared with other numbers as the float that it is; their keys agree.
            (Some(Type::Float4), Some(b)) if b.is_number() => {
                (left.expr, self.coerce(right, Type::Float8, false)?)
            }
            (Some(a), Some(Type::Float4)) if a.is_number() => {
                (self.coerce(left, Type::Float8, false)?, right.expr)
            }
            (Some(a), Some(b)) if a.is_text() && b.is_text() => {
                let trim = |typed: Typed, other: Type| match (other, &typed.expr) {
                    (Type::Char(_), Expr::Const(_) | Expr::Param(_)) => {
                        let how = Coercion { explicit: true, is_stable: false };
                        Expr::Cast(Box::new(typed.expr), Type::Char(0), how)
                    }
                    _ => typed.expr,
                };
                (trim(left, b), trim(right, a))
            }
            (Some(a), Some(b)) if cast::is_implicit(b, a) => {
                (left.expr, self.coerce(right, a.base(), false)?)
            }
            (Some(a), Some(b)) if cast::is_implicit(a, b) => {
                (self.coerce(left, b.base(), false)?, right.expr)
            }
            (a, b) => return Err(Self::no_operator(shown, a, b)),
        })
    }

    /// Converts a literal or parameter to the type of the column beside it, without its length
    /// limit.
    fn coerce_side(&mut self, side: Typed, ty: Type) -> Result<Expr, SqlError> {
        let ty = match ty {
            Type::Char(_) => Type::Char(0),
            // Comparisons are those of `inet`.
            Type::Cidr => Type::Inet,
            ty => ty.base(),
        };
        self.coerce(side, ty, false)
    }

    pub(super) fn arith(
        &mut self,
        op: Arith,
        left: Typed,
        right: Typed,
        shown: &str,
    ) -> Result<Typed, SqlError> {
        let types = (self.type_of(&left), self.type_of(&right));
        let is_float = |ty| matches!(ty, Some(Type::Float4 | Type::Float8));
        if op == Arith::Mod && (is_float(types.0) || is_float(types.1)) {
            return Err(Self::no_operator(shown, types.0, types.1));
        }
        let ty = match types {
            (None, None) if op != Arith::Mod || self.forms(shown).is_empty() => {
                return Err(function::ambiguous(shown, &[None, None]));
            }
            (Some(ty), None) | (None, Some(ty)) if ty.is_number() => ty.base(),
            (Some(a), Some(b)) if a.is_number() && b.is_number() => {
                match (a, b) {
                    // Of the floats, the wider one is preferred.
                    (Type::Float4, b) | (b, Type::Float4) if b != Type::Float4 => Type::Float8,
                    (a, b) if cast::is_implicit(a, b) => b.base(),
                    (a, _) => a.base(),
                }
            }
            // Arithmetic of times is a matter of the catalog.
            _ => return self.apply(shown, vec![left, right]),
        };
        let side = |binder: &mut Self, side: Typed| {
            if binder
                .type_of(&side)
                .is_some_and(|from| from.is_integer() && ty.is_integer() || from.base() == ty)
            {
                Ok(side.expr)
            } else {
                binder.coerce(side, ty, false)
            }
        };
        let sides = (side(self, left)?, side(self, right)?);
        Ok(Typed::of(Expr::Arith(op, ty, Box::new(sides)), ty))
    }
}
