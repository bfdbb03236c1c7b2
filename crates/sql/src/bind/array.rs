//! Arrays: their elements, their subscripts, and comparisons with all or any of their elements.

use super::target::is_default;
use super::{Binder, Typed};
use crate::array::{Array, MOST_DIMENSIONS};
use crate::cast;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Compare, Expr, Quantifier};
use crate::names;
use crate::parse;
use crate::types::Type;
use sqlparser::ast::{self, AccessExpr, Subscript};

/// Returns the elements of `ARRAY[…]`.
fn elements(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Array(ast::Array { elem, named: _ }) => Some(elem),
        ast::Expr::Nested(inner) => elements(inner),
        _ => None,
    }
}

impl Binder {
    /// Binds `ARRAY[…]`; `wanted` is the type of elements that a cast around it gives them.
    pub(super) fn array(
        &mut self,
        parts: &[ast::Expr],
        wanted: Option<Type>,
    ) -> Result<Typed, SqlError> {
        let mut bound = Vec::with_capacity(parts.len());
        for part in parts {
            bound.push(match elements(part) {
                Some(inner) => self.array(inner, wanted)?,
                None => self.bind(part)?,
            });
        }
        let element = match wanted {
            Some(element) => element,
            None if bound.is_empty() => {
                let message = "cannot determine type of empty array";
                return Err(SqlError::new(state::INDETERMINATE_TYPE, message)
                    .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
            }
            None => self.meet_all("ARRAY", &bound)?.unwrap_or(Type::Text),
        };
        let has_arrays = bound.iter().any(|part| part.ty.is_some_and(|ty| ty.element().is_some()));
        let element = element.element().unwrap_or(element);
        let of_part = if has_arrays { element.array() } else { element };
        let mut all = Vec::with_capacity(bound.len());
        for part in bound {
            all.push(self.coerce(part, of_part, wanted.is_some())?);
        }
        let base = element.base();
        Ok(Typed::of(Expr::Array(all, base), base.array()))
    }

    /// Binds the array of a cast, whose elements take its type. `None` if it is no `ARRAY[…]`.
    pub(super) fn cast_array(
        &mut self,
        expr: &ast::Expr,
        ty: Type,
    ) -> Result<Option<Typed>, SqlError> {
        match (elements(expr), ty.element()) {
            (Some(parts), Some(element)) => Ok(Some(self.array(parts, Some(element))?)),
            _ => Ok(None),
        }
    }

    /// Binds `array[1]`, `array[1:2][2]`.
    pub(super) fn subscripts(
        &mut self,
        root: &ast::Expr,
        chain: &[AccessExpr],
    ) -> Result<Typed, SqlError> {
        // Of `t.column[1]`, the parser takes the column for a field of `t`.
        let fields = chain.iter().take_while(|it| matches!(it, AccessExpr::Dot(_))).count();
        if let (ast::Expr::Identifier(table), 1..) = (root, fields) {
            let mut path = vec![table.clone()];
            path.extend(chain[..fields].iter().filter_map(|it| match it {
                AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(name.clone()),
                _ => None,
            }));
            let column = ast::Expr::CompoundIdentifier(path);
            return match &chain[fields..] {
                [] => self.bind(&column),
                rest => self.subscripts(&column, rest),
            };
        }
        let is_field = |access: &AccessExpr| matches!(access, AccessExpr::Dot(_));
        let behind = chain.iter().rposition(is_field).map_or(0, |at| at + 1);
        let (fields, chain) = chain.split_at(behind);
        let array = match fields {
            [] => self.bind_free(root)?,
            [before @ .., last] => {
                let AccessExpr::Dot(ast::Expr::Identifier(name)) = last else {
                    return Err(SqlError::unsupported("a field without a name"));
                };
                match (before, self.relation_named(root)) {
                    ([], Some(relation)) => self.resolve(Some(&relation), name)?,
                    ([], None) => {
                        let row = self.bind_free(root)?;
                        self.field(row, name)?
                    }
                    (before, _) => {
                        let row = self.subscripts(root, before)?;
                        self.field(row, name)?
                    }
                }
            }
        };
        if chain.is_empty() {
            return Ok(array);
        }
        if array.ty == Some(Type::Jsonb) {
            return self.jsonb_subscripts(array, chain);
        }
        if array.ty == Some(Type::Hstore) {
            return self.hstore_subscript(array, chain);
        }
        if array.ty == Some(Type::Name)
            && let [AccessExpr::Subscript(Subscript::Index { index })] = chain
        {
            // A name is an array of characters, counted from 0.
            let one = || Typed::of(Expr::Const(Datum::Int4(1)), Type::Int4);
            let index = self.subscript(index)?;
            let at = self.arith(Arith::Add, index, one(), "+")?;
            return self.apply("substr", vec![array, at, one()]);
        }
        if array.ty.is_some_and(|ty| ty.element().is_none()) {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                array.ty.map_or("unknown", Type::name)
            );
            return Err(SqlError::new(state::TYPE_MISMATCH, message).at(names::expr_position(root)));
        }
        let slices = chain.iter().any(is_slice);
        let args = [vec![array], self.bound_subscripts(chain)?].concat();
        self.apply(if slices { "[:]" } else { "[]" }, args)
    }

    /// Binds the subscripts of an array: a number for each dimension, or two if one is a slice.
    fn bound_subscripts(&mut self, chain: &[AccessExpr]) -> Result<Vec<Typed>, SqlError> {
        if chain.len() > MOST_DIMENSIONS {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({MOST_DIMENSIONS})",
                chain.len()
            );
            return Err(SqlError::new(state::TOO_LARGE, message));
        }
        let slices = chain.iter().any(is_slice);
        let bound = |value: i64| Typed::of(Expr::Const(Datum::Int8(value)), Type::Int8);
        let mut args = Vec::with_capacity(chain.len());
        for access in chain {
            let AccessExpr::Subscript(subscript) = access else {
                return Err(SqlError::unsupported("a field of an array's element"));
            };
            match subscript {
                Subscript::Index { index } => {
                    // Among slices, `[n]` is `[1:n]`.
                    if slices {
                        args.push(bound(1));
                    }
                    args.push(self.subscript(index)?);
                }
                Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                    for (given, open) in [(lower_bound, i64::MIN), (upper_bound, i64::MAX)] {
                        args.push(match given {
                            Some(expr) => self.subscript(expr)?,
                            None => bound(open),
                        });
                    }
                }
                Subscript::Slice { .. } => {
                    return Err(SqlError::unsupported("a slice with a stride"));
                }
            }
        }
        Ok(args)
    }

    /// Returns an array, which a column has, with another element or slice, or with another part
    /// of an element. `text`: the subscripts.
    pub(super) fn with_element(
        &mut self,
        array: Expr,
        (name, ty): (&str, Type),
        text: &str,
        path: &[ast::Ident],
        value: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        let ast::Expr::CompoundFieldAccess { access_chain: chain, .. } =
            parse::expression(&format!("a{text}"))?
        else {
            return Err(SqlError::new(state::SYNTAX, "a subscript is missing"));
        };
        let Some(element) = ty.element() else {
            let name = ty.name();
            if matches!(ty, Type::Jsonb | Type::Hstore) {
                let what = format!("an assignment to a subscript of {name}");
                return Err(SqlError::unsupported(what));
            }
            let message =
                format!("cannot subscript type {name} because it does not support subscripting");
            return Err(SqlError::new(state::TYPE_MISMATCH, message));
        };
        let slices = chain.iter().any(is_slice);
        let subscripts = self.bound_subscripts(&chain)?;
        let wanted = if slices { ty } else { element };
        // A NULL is an array without elements.
        let empty = Expr::Const(Datum::Array(Array::of(element, Vec::new())?.into()));
        let array = Typed::of(Expr::Coalesce(vec![array, empty]), ty);
        let part = match path {
            [] if is_default(value) => {
                let message = "cannot set an array element to DEFAULT";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            [] => {
                let bound = self.bind_as(value, wanted, false)?;
                let from = self.type_of(&bound).filter(|from| !cast::is_assignable(*from, wanted));
                if let Some(from) = from {
                    let (wanted, from) = (wanted.name(), from.name());
                    let message = format!(
                        "subscripted assignment to \"{name}\" requires type {wanted} but expression is of type {from}"
                    );
                    return Err(SqlError::new(state::TYPE_MISMATCH, message)
                        .hint("You will need to rewrite or cast the expression.")
                        .at(names::expr_position(value)));
                }
                self.coerce(bound, wanted, false)?
            }
            path => {
                let args = [vec![array.clone()], subscripts.clone()].concat();
                let part = self.apply(if slices { "[:]" } else { "[]" }, args)?;
                self.with_field_of(part.expr, (name, wanted), path, value)?
            }
        };
        let args = [vec![array, Typed::of(part, wanted)], subscripts].concat();
        Ok(self.apply(if slices { "[:]=" } else { "[]=" }, args)?.expr)
    }

    /// Binds `value['key'][1]` of a `jsonb`.
    fn jsonb_subscripts(&mut self, value: Typed, chain: &[AccessExpr]) -> Result<Typed, SqlError> {
        let mut args = vec![value];
        for access in chain {
            let AccessExpr::Subscript(Subscript::Index { index }) = access else {
                let message = "jsonb subscript does not support slices";
                return Err(SqlError::new(state::TYPE_MISMATCH, message));
            };
            let bound = self.bind_free(index)?;
            if !bound.ty.is_some_and(|ty| ty.is_text() || matches!(ty, Type::Int2 | Type::Int4)) {
                let ty = bound.ty.map_or("unknown", Type::name);
                let message = format!("subscript type {ty} is not supported");
                return Err(SqlError::new(state::TYPE_MISMATCH, message)
                    .hint("jsonb subscript must be coercible to either integer or text.")
                    .at(names::expr_position(index)));
            }
            args.push(Typed::of(self.coerce(bound, Type::Text, true)?, Type::Text));
        }
        self.apply("[]", args)
    }

    fn hstore_subscript(&mut self, value: Typed, chain: &[AccessExpr]) -> Result<Typed, SqlError> {
        let [AccessExpr::Subscript(Subscript::Index { index })] = chain else {
            let message = "hstore allows only one subscript";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        };
        let key = self.bind(index)?;
        let key = Typed::of(self.coerce(key, Type::Text, false)?, Type::Text);
        self.apply("->", vec![value, key])
    }

    fn subscript(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let bound = self.bind(expr)?;
        if bound.ty.is_some_and(|ty| !ty.is_number()) {
            let message = "array subscript must have type integer";
            return Err(SqlError::new(state::TYPE_MISMATCH, message).at(names::expr_position(expr)));
        }
        let number = self.coerce(bound, Type::Int4, false)?;
        Ok(Typed::of(number, Type::Int4))
    }

    /// Returns the elements of `ARRAY[…]`, if there are any, and the type that a cast around it
    /// gives them, as PostgreSQL writes IN.
    fn listed<'e>(&self, array: &'e ast::Expr) -> Option<(&'e [ast::Expr], Option<Type>)> {
        let (parts, wanted) = match array {
            ast::Expr::Nested(inner) => return self.listed(inner),
            ast::Expr::Cast { expr, data_type, .. } => {
                let parts = elements(expr)?;
                let (ty, None) = names::declared_type(data_type, &self.types).ok()? else {
                    return None;
                };
                (parts, Some(ty.element()?))
            }
            array => (elements(array)?, None),
        };
        (!parts.is_empty()).then_some((parts, wanted))
    }

    /// Binds `left op ANY (array)` or `ALL (array)`.
    pub(super) fn any_of_array(
        &mut self,
        left: &ast::Expr,
        op: Compare,
        array: &ast::Expr,
        quantifier: Quantifier,
    ) -> Result<Typed, SqlError> {
        let left = self.bind(left)?;
        let boolean = |expr| Ok(Typed::of(expr, Type::Bool));
        if let Some((parts, wanted)) = self.listed(array) {
            let bound = parts.iter().map(|part| self.bind(part)).collect::<Result<Vec<_>, _>>()?;
            let common = match wanted {
                Some(wanted) => wanted,
                None => self.meet_all("ARRAY", &bound)?.unwrap_or(Type::Text),
            };
            let nested = bound.iter().any(|part| part.ty.is_some_and(|ty| ty.element().is_some()));
            // The same as a list, if all elements have one type.
            let listed = matches!((op, quantifier), (Compare::Eq, Quantifier::Any))
                || matches!((op, quantifier), (Compare::Ne, Quantifier::All));
            if listed && !nested {
                let mut side = left.clone();
                let mut items = Vec::with_capacity(bound.len());
                for part in bound {
                    let part = self.coerce(part, common, wanted.is_some())?;
                    let part = Typed::of(part, common);
                    let (needle, item) = self.meet_sides(left.clone(), part, "=")?;
                    side = Typed { expr: needle, ..left.clone() };
                    items.push(item);
                }
                return boolean(Expr::In(Box::new(side.expr), items, op == Compare::Ne));
            }
        }
        let right = match left.ty {
            Some(ty) => self.bind_array_of(array, ty)?,
            None => match self.bind(array)? {
                Typed { expr, ty: None, .. } => {
                    let texts = Type::Text.array();
                    Typed::of(self.coerce(Typed::free(expr), texts, false)?, texts)
                }
                typed => typed,
            },
        };
        let Some(element) = right.ty.and_then(Type::element) else {
            let message = "op ANY/ALL (array) requires array on right side";
            return Err(SqlError::new(state::WRONG_OBJECT, message).at(names::expr_position(array)));
        };
        self.check_collations(op, &left, &right)?;
        // The types of both sides meet as those of an element and the left side do.
        let stand_in = Typed::of(Expr::Param(usize::MAX), element);
        let (left, made) = self.meet_sides(left, stand_in, op.sign())?;
        let right = match made {
            Expr::Cast(_, ty, how) => Expr::Cast(Box::new(right.expr), ty.array(), how),
            _ => right.expr,
        };
        boolean(Expr::Each(op, quantifier, Box::new((left, right))))
    }

    /// Binds an array whose elements are compared with a type: a literal or a parameter is an array
    /// of that type.
    fn bind_array_of(&mut self, array: &ast::Expr, ty: Type) -> Result<Typed, SqlError> {
        let bound = match elements(array) {
            Some([]) => self.array(&[], Some(ty.base()))?,
            _ => self.bind(array)?,
        };
        if bound.ty.is_some() {
            return Ok(bound);
        }
        let array =
            if matches!(ty, Type::Char(_)) { Type::Char(0).array() } else { ty.base().array() };
        Ok(Typed::of(self.coerce(bound, array, false)?, array))
    }
}

fn is_slice(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }))
}
