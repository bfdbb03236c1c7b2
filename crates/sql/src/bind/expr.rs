//! Binds the expressions of one query level.

use super::citext::{folding, folds, is_citext};
use super::subquery::row_of;
use super::target::is_default;
use super::types::shared;
use super::window::WindowCall;
use super::{Binder, Typed};
use crate::cast;
use crate::clauses;
use crate::datum::Datum;
use crate::dialect;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Compare, Expr, Quantifier};
use crate::function;
use crate::interrupt;
use crate::interval::{Fields, Interval};
use crate::logical::ColumnId;
use crate::names;
use crate::types::Type;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};

/// Returns the name of an operator that is a function of the catalog.
fn operator_name(op: &BinaryOperator) -> Option<&str> {
    Some(match op {
        BinaryOperator::StringConcat => "||",
        BinaryOperator::PGRegexMatch => "~",
        BinaryOperator::PGRegexIMatch => "~*",
        BinaryOperator::PGRegexNotMatch => "!~",
        BinaryOperator::PGRegexNotIMatch => "!~*",
        BinaryOperator::BitwiseAnd => "&",
        BinaryOperator::BitwiseOr => "|",
        BinaryOperator::PGBitwiseXor => "#",
        BinaryOperator::PGBitwiseShiftLeft => "<<",
        BinaryOperator::PGBitwiseShiftRight => ">>",
        BinaryOperator::PGExp => "^",
        BinaryOperator::AtArrow => "@>",
        BinaryOperator::Arrow => "->",
        BinaryOperator::LongArrow => "->>",
        BinaryOperator::HashArrow => "#>",
        BinaryOperator::HashLongArrow => "#>>",
        BinaryOperator::HashMinus => "#-",
        BinaryOperator::Question => "?",
        BinaryOperator::QuestionAnd => "?&",
        BinaryOperator::QuestionPipe => "?|",
        BinaryOperator::AtQuestion => "@?",
        BinaryOperator::AtAt => "@@",
        BinaryOperator::ArrowAt => "<@",
        BinaryOperator::PGOverlap => "&&",
        BinaryOperator::Custom(name) => name,
        // OPERATOR(pg_catalog.~)
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last()?,
        _ => return None,
    })
}

/// Returns the operator that `OPERATOR(pg_catalog.+)` names, if it is one of the parser.
fn plain_operator(op: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return None };
    let sign = match parts.as_slice() {
        [sign] => sign,
        [schema, sign] if schema == "pg_catalog" => sign,
        _ => return None,
    };
    Some(match sign.as_str() {
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// Fails with 3F000 for an operator of a schema that does not exist.
fn check_schema(op: &BinaryOperator) -> Result<(), SqlError> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return Ok(()) };
    match parts.as_slice() {
        [schema, _] if !matches!(schema.as_str(), "pg_catalog" | "public") => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(state::NO_SCHEMA, message))
        }
        _ => Ok(()),
    }
}

/// Returns whether an operator is that of NOT LIKE, and whether that of ILIKE.
fn pattern_operator(op: &BinaryOperator) -> Option<(bool, bool)> {
    Some(match op {
        BinaryOperator::PGLikeMatch => (false, false),
        BinaryOperator::PGILikeMatch => (false, true),
        BinaryOperator::PGNotLikeMatch => (true, false),
        BinaryOperator::PGNotILikeMatch => (true, true),
        _ => return None,
    })
}

/// Returns the name of a field of EXTRACT.
fn field_name(field: &ast::DateTimeField) -> String {
    match field {
        ast::DateTimeField::Custom(name) => name.value.clone(),
        other => other.to_string(),
    }
}

/// Returns the value of `INTERVAL '…'`, perhaps with fields.
pub(crate) fn interval(literal: &ast::Interval) -> Result<Interval, SqlError> {
    let fields = Fields::of(literal)?;
    let ast::Expr::Value(value) = &*literal.value else {
        return Err(SqlError::unsupported(format!("the expression {literal}")));
    };
    let Some(text) = value.value.clone().into_string() else {
        return Err(SqlError::unsupported(format!("the expression {literal}")));
    };
    Interval::from_text_of(&text, fields)
}

/// Returns the digits of a number, perhaps behind minus signs, and true if it is negative. The
/// least integers have no positive counterparts, so that the sign belongs to the literal.
fn constant(expr: &ast::Expr) -> Option<(&str, bool)> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some((digits, false)),
            _ => None,
        },
        ast::Expr::Nested(inner) => constant(inner),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            constant(expr).map(|(digits, is_negative)| (digits, !is_negative))
        }
        _ => None,
    }
}

/// Returns the constant of `B'…'` or `X'…'`.
fn bits(kind: char, digits: &str) -> Result<Typed, SqlError> {
    let ty = Type::Bit(None);
    Ok(Typed::of(Expr::Const(Datum::from_text(ty, &format!("{kind}{digits}"))?), ty))
}

/// Makes a value of a base type one of a domain, if there is one.
fn of_domain(value: Typed, domain: Option<Domain>) -> Typed {
    match domain {
        Some(of) => Typed { expr: Expr::Domain(Box::new(value.expr), of), domain, ..value },
        None => value,
    }
}

impl Binder {
    fn literal(&mut self, value: &Value) -> Result<Typed, SqlError> {
        Ok(match value {
            Value::Number(digits, _) => {
                if let Ok(n) = digits.parse::<i32>() {
                    Typed::of(Expr::Const(Datum::Int4(n)), Type::Int4)
                } else if let Ok(n) = digits.parse::<i64>() {
                    Typed::of(Expr::Const(Datum::Int8(n)), Type::Int8)
                } else {
                    let ty = Type::Numeric(None);
                    Typed::of(Expr::Const(Datum::from_text(ty, digits)?), ty)
                }
            }
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Typed::free(Expr::Const(Datum::text(text))),
            Value::DollarQuotedString(text) => Typed::free(Expr::Const(Datum::text(&text.value))),
            Value::SingleQuotedByteStringLiteral(digits) => bits('b', digits)?,
            Value::HexStringLiteral(digits) => bits('x', digits)?,
            Value::Boolean(b) => Typed::of(Expr::Const(Datum::Bool(*b)), Type::Bool),
            Value::Null => Typed::free(Expr::Const(Datum::Null)),
            Value::Placeholder(name) => {
                let number: usize =
                    name.strip_prefix('$').and_then(|digits| digits.parse().ok()).unwrap_or(0);
                if !(1..=65_535).contains(&number) {
                    return Err(SqlError::new(
                        state::UNDEFINED_PARAMETER,
                        format!("there is no parameter {name}"),
                    ));
                }
                if let Some(argument) = self.argument_numbered(number) {
                    return argument.ok_or_else(|| {
                        let message = format!("there is no parameter {name}");
                        SqlError::new(state::UNDEFINED_PARAMETER, message)
                    });
                }
                if self.params.len() < number {
                    self.params.resize(number, None);
                }
                Typed { ty: self.params[number - 1], ..Typed::free(Expr::Param(number - 1)) }
            }
            other => return Err(SqlError::unsupported(format!("the literal {other}"))),
        })
    }

    /// Binds an expression.
    pub(crate) fn bind(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        interrupt::step();
        // The position is of the innermost expression that has one, and takes a walk to find.
        self.bind_inner(expr).map_err(|error| match error.position {
            Some(_) => error,
            None => error.at(names::expr_position(expr)),
        })
    }

    fn bind_inner(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let boolean = |expr| Typed::of(expr, Type::Bool);
        Ok(match expr {
            ast::Expr::Identifier(_) if is_default(expr) => {
                return Err(SqlError::new(state::SYNTAX, "DEFAULT is not allowed in this context"));
            }
            ast::Expr::Identifier(ident) => match self.resolve(None, ident) {
                Err(missing) if ident.quote_style.is_none() => {
                    let name = names::fold(ident);
                    let is_function = name.starts_with("current_") || name.ends_with("user");
                    if !is_function || function::named(&name).is_empty() {
                        return Err(missing);
                    }
                    self.apply(&name, Vec::new())?
                }
                found => found?,
            },
            ast::Expr::CompoundIdentifier(parts) if dialect::is_whole_row(parts) => {
                self.whole_row_of(&parts[0])?
            }
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] | [_, table, column] => {
                    self.resolve(Some(&names::fold(table)), column)?
                }
                _ => return Err(SqlError::unsupported(format!("the name {expr}"))),
            },
            ast::Expr::QualifiedWildcard(name, _)
                if let [part] = name.0.as_slice()
                    && let Some(ident) = part.as_ident() =>
            {
                self.whole_row_of(ident)?
            }
            ast::Expr::Tuple(parts) => self.row(parts)?,
            ast::Expr::Value(value) => self.literal(&value.value)?,
            ast::Expr::TypedString(typed) => {
                let (ty, domain) = names::declared_type(&typed.data_type, &self.types)
                    .map_err(|error| error.at(names::type_position(&typed.data_type)))?;
                // `char` and `bit` have no length here, as where a value is cast to `bpchar`.
                let ty = match &typed.data_type {
                    ast::DataType::Char(None) | ast::DataType::Character(None) => Type::Char(0),
                    ast::DataType::Bit(None) => Type::Bit(None),
                    _ => ty,
                };
                let text = typed.value.value.clone().into_string().unwrap_or_default();
                let text = Typed::free(Expr::Const(Datum::text(text)));
                let value = self.coerce(text, ty, true);
                let at = names::place(typed.value.span.start);
                let value = value.map_err(|error| error.at(at))?;
                of_domain(Typed::of(value, ty), domain)
            }
            ast::Expr::Interval(literal) => {
                Typed::of(Expr::Const(Datum::Interval(interval(literal)?)), Type::Interval)
            }
            ast::Expr::Nested(inner) => self.bind(inner)?,
            ast::Expr::Array(ast::Array { elem, named: _ }) => self.array(elem, None)?,
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscripts(root, access_chain)?
            }
            ast::Expr::Cast { expr, data_type, .. } => {
                let (ty, domain) = names::declared_type(data_type, &self.types)?;
                if let Some(array) = self.cast_array(expr, ty)? {
                    let array = Typed::of(self.coerce(array, ty, true)?, ty);
                    return Ok(of_domain(array, domain));
                }
                let inner = self.bind_as(expr, ty, true)?;
                if domain.is_some() && inner.domain == domain {
                    return Ok(inner);
                }
                if let Some(from) = inner.ty
                    && !cast::exists(from, ty)
                {
                    let from = inner.domain.map_or(from.name(), Domain::shown);
                    let to = domain.map_or(ty.name(), Domain::shown);
                    let message = format!("cannot cast type {from} to {to}");
                    return Err(SqlError::new(state::CANNOT_COERCE, message));
                }
                of_domain(Typed::of(self.coerce(inner, ty, true)?, ty), domain)
            }
            ast::Expr::UnaryOp { op, expr } => match op {
                UnaryOperator::Not => boolean(Expr::Not(Box::new(self.bind_bool(expr, "NOT")?))),
                UnaryOperator::Plus => {
                    let bound = self.bind(expr)?;
                    if bound.ty.is_some_and(|ty| !ty.is_number()) {
                        return self.apply("+", vec![bound]);
                    }
                    bound
                }
                UnaryOperator::Minus => {
                    if let Some((digits, is_negative)) = constant(expr) {
                        let sign = if is_negative { "" } else { "-" };
                        return self.literal(&Value::Number(format!("{sign}{digits}"), false));
                    }
                    self.function("-", &[expr])?
                }
                UnaryOperator::BitwiseNot => self.function("~", &[expr])?,
                UnaryOperator::PGAbs => self.function("abs", &[expr])?,
                UnaryOperator::PGSquareRoot => self.function("sqrt", &[expr])?,
                UnaryOperator::PGCubeRoot => self.function("cbrt", &[expr])?,
                other => return Err(SqlError::unsupported(format!("the operator {other}"))),
            },
            ast::Expr::Prefixed { prefix, value } if dialect::is_sign(&prefix.value) => {
                self.function(&prefix.value, &[value])?
            }
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right)?,
            // A row is NULL if all of its columns are, and not NULL if none of them is.
            ast::Expr::IsNull(inner) if let Some(parts) = row_of(inner) => {
                boolean(self.all_null(parts, false)?)
            }
            ast::Expr::IsNotNull(inner) if let Some(parts) = row_of(inner) => {
                boolean(self.all_null(parts, true)?)
            }
            ast::Expr::IsNull(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_tested(inner)?), false))
            }
            ast::Expr::IsNotNull(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_tested(inner)?), true))
            }
            ast::Expr::IsTrue(inner) => boolean(self.is_bool(inner, true, false)?),
            ast::Expr::IsNotTrue(inner) => boolean(self.is_bool(inner, true, true)?),
            ast::Expr::IsFalse(inner) => boolean(self.is_bool(inner, false, false)?),
            ast::Expr::IsNotFalse(inner) => boolean(self.is_bool(inner, false, true)?),
            ast::Expr::IsDistinctFrom(left, right) | ast::Expr::IsNotDistinctFrom(left, right)
                if let (Some(lefts), Some(rights)) = (row_of(left), row_of(right)) =>
            {
                let same = matches!(expr, ast::Expr::IsNotDistinctFrom(..));
                boolean(self.distinct_rows(lefts, rights, same)?)
            }
            ast::Expr::IsDistinctFrom(left, right) | ast::Expr::IsNotDistinctFrom(left, right) => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                let sides = self.meet_sides(left, right, "IS DISTINCT FROM")?;
                boolean(Expr::Distinct(
                    Box::new(sides),
                    matches!(expr, ast::Expr::IsNotDistinctFrom(..)),
                ))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let within = match dialect::symmetric(low) {
                    None => self.between(expr, low, high)?,
                    Some(low) => Expr::Or(vec![
                        self.between(expr, low, high)?,
                        self.between(expr, high, low)?,
                    ]),
                };
                boolean(if *negated { Expr::Not(Box::new(within)) } else { within })
            }
            ast::Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated)?,
            ast::Expr::Like { negated, expr, pattern, escape_char, .. } => {
                self.like(*negated, expr, pattern, escape_char.as_ref(), false)?
            }
            ast::Expr::ILike { negated, expr, pattern, escape_char, .. } => {
                self.like(*negated, expr, pattern, escape_char.as_ref(), true)?
            }
            ast::Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                let (operand, otherwise) = (operand.as_deref(), else_result.as_deref());
                self.without_sets("CASE", |binder| binder.case(operand, conditions, otherwise))?
            }
            ast::Expr::Function(call) => self.call(call)?,
            ast::Expr::Extract { field, syntax: ast::ExtractSyntax::From, expr } => {
                let field = Expr::Const(Datum::text(field_name(field)));
                let time = self.bind(expr)?;
                self.apply("extract", vec![Typed::free(field), time])?
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                self.function("timezone", &[time_zone, timestamp])?
            }
            ast::Expr::Floor { expr, .. } => self.function("floor", &[expr])?,
            ast::Expr::Ceil { expr, .. } => self.function("ceil", &[expr])?,
            ast::Expr::Position { expr, r#in } => self.function("position", &[r#in, expr])?,
            ast::Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let one = ast::Expr::value(Value::Number("1".into(), false));
                let mut args = vec![&**expr, substring_from.as_deref().unwrap_or(&one)];
                args.extend(substring_for.as_deref());
                self.function(if *shorthand { "substr" } else { "substring" }, &args)?
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![&**expr, &**overlay_what, &**overlay_from];
                args.extend(overlay_for.as_deref());
                self.function("overlay", &args)?
            }
            ast::Expr::Trim { trim_where, trim_what, expr, .. } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![&**expr];
                args.extend(trim_what.as_deref());
                self.function(name, &args)?
            }
            ast::Expr::Collate { expr, collation } => {
                clauses::collation(collation)?;
                Typed { is_of_bytes: true, ..self.bind(expr)? }
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                if escape_char.is_some() {
                    return Err(SqlError::unsupported("SIMILAR TO … ESCAPE"));
                }
                let sides = self.bind_all(&[expr, pattern])?;
                if folds(self.type_of(&sides[0]), self.type_of(&sides[1])) {
                    return Err(SqlError::unsupported("SIMILAR TO of citext"));
                }
                let similar = self.apply("similar to", sides)?.expr;
                boolean(if *negated { Expr::Not(Box::new(similar)) } else { similar })
            }
            ast::Expr::Subquery(query) => self.scalar_subquery(query)?,
            ast::Expr::Exists { subquery, negated } => self.exists(subquery, *negated)?,
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let op = if *negated { Compare::Ne } else { Compare::Eq };
                self.quantified(expr, op, subquery, *negated)?
            }
            ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => {
                self.any_or_all(left, compare_op, right, false)?
            }
            ast::Expr::AllOp { left, compare_op, right } => {
                self.any_or_all(left, compare_op, right, true)?
            }
            ast::Expr::IsUnknown(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_bool(inner, "IS UNKNOWN")?), false))
            }
            ast::Expr::IsNotUnknown(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_bool(inner, "IS UNKNOWN")?), true))
            }
            other => return Err(SqlError::unsupported(format!("the expression {other}"))),
        })
    }

    /// Binds `value BETWEEN low AND high`.
    fn between(
        &mut self,
        value: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        if let (Some(value), Some(low), Some(high)) = (row_of(value), row_of(low), row_of(high)) {
            let low = self.compare_rows(Compare::Ge, value, low)?;
            let high = self.compare_rows(Compare::Le, value, high)?;
            return Ok(Expr::And(vec![low, high]));
        }
        // Errors and the types of parameters come from the first comparison first.
        let (value, low) = (self.bind(value)?, self.bind(low)?);
        let low = self.compare(Compare::Ge, value.clone(), low, ">=")?;
        let high = self.bind(high)?;
        let high = self.compare(Compare::Le, value, high, "<=")?;
        Ok(Expr::And(vec![low, high]))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, SqlError> {
        let mut guards = Vec::new();
        let operand = operand.map(|operand| self.bind(operand)).transpose()?;
        // An operand without a type is text, whatever it is compared with.
        let operand = match operand {
            Some(operand) if operand.ty.is_none() => {
                Some(Typed::of(self.coerce(operand, Type::Text, false)?, Type::Text))
            }
            operand => operand,
        };
        if operand.as_ref().is_some_and(|operand| operand.expr.is_volatile()) {
            return Err(SqlError::unsupported("CASE of an operand that differs each time"));
        }
        // The common type begins with that of ELSE.
        let mut results = Vec::with_capacity(conditions.len() + 1);
        results.push(Typed::free(Expr::Const(Datum::Null)));
        for when in conditions {
            guards.push(match &operand {
                Some(left) => {
                    let right = self.bind(&when.condition)?;
                    self.compare(Compare::Eq, left.clone(), right, "=")?
                }
                None => self.bind_bool(&when.condition, "CASE/WHEN")?,
            });
            results.push(self.bind(&when.result)?);
        }
        if let Some(otherwise) = otherwise {
            results[0] = self.bind(otherwise)?;
        }
        let ty = self.meet_all("CASE", &results)?.unwrap_or(Type::Text);
        let domain = shared(results.iter().map(|result| result.domain));
        let results = results.into_iter().map(|result| self.coerce(result, ty, false));
        let mut results = results.collect::<Result<Vec<_>, _>>()?;
        let otherwise = Box::new(results.remove(0));
        let branches = guards.into_iter().zip(results).collect();
        Ok(Typed { domain, ..Typed::of(Expr::Case { branches, otherwise }, ty) })
    }

    /// Binds the operand of IS NULL. It leaves a parameter without a type, so that another use of
    /// it gives the type: `$1 IS NULL OR a = $1`.
    fn bind_tested(&mut self, expr: &ast::Expr) -> Result<Expr, SqlError> {
        let bound = self.bind(expr)?;
        self.tested(bound)
    }

    fn tested(&mut self, bound: Typed) -> Result<Expr, SqlError> {
        match (&bound.expr, bound.ty) {
            (Expr::Param(_), None) | (_, Some(_)) => Ok(bound.expr),
            _ => self.coerce(bound, Type::Text, false),
        }
    }

    /// Binds IS [NOT] NULL of a row's columns.
    fn all_null(&mut self, parts: &[ast::Expr], negated: bool) -> Result<Expr, SqlError> {
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            let tested = self.bind(part)?;
            // A row among the columns is NULL by itself, whatever its own fields are.
            all.push(match tested.ty {
                Some(ty) if ty.is_row() => {
                    let sides = (tested.expr, Expr::Const(Datum::Null));
                    Expr::Distinct(Box::new(sides), !negated)
                }
                _ => Expr::IsNull(Box::new(self.tested(tested)?), negated),
            });
        }
        Ok(Expr::And(all))
    }

    fn any_or_all(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed, SqlError> {
        check_schema(op)?;
        let op = &plain_operator(op).unwrap_or_else(|| op.clone());
        match (Compare::of_operator(op), right) {
            (Some(op), ast::Expr::Subquery(query)) => self.quantified(left, op, query, all),
            (Some(op), array) => {
                let quantifier = if all { Quantifier::All } else { Quantifier::Any };
                self.any_of_array(left, op, array, quantifier)
            }
            (None, ast::Expr::Subquery(_)) => {
                Err(SqlError::unsupported(format!("the operator {op} with ANY or ALL")))
            }
            _ => Err(SqlError::unsupported("ANY or ALL of an array")),
        }
    }

    fn is_bool(&mut self, inner: &ast::Expr, value: bool, negated: bool) -> Result<Expr, SqlError> {
        Ok(Expr::IsBool(Box::new(self.bind_bool(inner, "IS")?), value, negated))
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        check_schema(op)?;
        let op = &plain_operator(op).unwrap_or_else(|| op.clone());
        if let Some((negated, fold)) = pattern_operator(op) {
            return self.like(negated, left, right, None, fold);
        }
        let compare = Compare::of_operator(op);
        let arith = match op {
            BinaryOperator::Plus => Some(Arith::Add),
            BinaryOperator::Minus => Some(Arith::Sub),
            BinaryOperator::Multiply => Some(Arith::Mul),
            BinaryOperator::Divide => Some(Arith::Div),
            BinaryOperator::Modulo => Some(Arith::Mod),
            _ => None,
        };
        if let (Some(op), Some(lefts), ast::Expr::Subquery(query)) = (compare, row_of(left), right)
        {
            return self.compare_row_of(op, lefts, query);
        }
        if let (Some(compare), Some(lefts), Some(rights)) = (compare, row_of(left), row_of(right)) {
            return Ok(Typed::of(self.compare_rows(compare, lefts, rights)?, Type::Bool));
        }
        if *op == BinaryOperator::Overlaps {
            let (Some([a, b]), Some([c, d])) = (row_of(left), row_of(right)) else {
                let message = "wrong number of parameters on a side of OVERLAPS expression";
                return Err(SqlError::new(state::SYNTAX, message));
            };
            return self.function("overlaps", &[a, b, c, d]);
        }
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            let and = *op == BinaryOperator::And;
            let place = if and { "AND" } else { "OR" };
            let mut parts = Vec::new();
            for side in [left, right] {
                match self.bind_bool(side, place)? {
                    Expr::And(inner) if and => parts.extend(inner),
                    Expr::Or(inner) if !and => parts.extend(inner),
                    other => parts.push(other),
                }
            }
            return Ok(Typed::of(if and { Expr::And(parts) } else { Expr::Or(parts) }, Type::Bool));
        }
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        let shown = op.to_string();
        if let Some(compare) = compare {
            return Ok(Typed::of(self.compare(compare, left, right, &shown)?, Type::Bool));
        }
        if let Some(arith) = arith {
            return self.arith(arith, left, right, &shown);
        }
        if let Some(name) = operator_name(op) {
            let (of_left, of_right) = (self.type_of(&left), self.type_of(&right));
            let name = if folds(of_left, of_right) { folding(name) } else { name };
            return self.apply(name, vec![left, right]);
        }
        Err(SqlError::unsupported(format!("the operator {op}")))
    }

    fn in_list(
        &mut self,
        needle: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Typed, SqlError> {
        if let Some(lefts) = row_of(needle)
            && list.iter().any(|item| row_of(item).is_some())
        {
            let any = self.row_in(lefts, list)?;
            return Ok(Typed::of(if negated { Expr::Not(Box::new(any)) } else { any }, Type::Bool));
        }
        let needle = self.bind(needle)?;
        let mut items = list.iter().map(|item| self.bind(item)).collect::<Result<Vec<_>, _>>()?;
        // Several values that name no column of this query have one type together with the needle,
        // if there is one.
        let alone = items.iter().filter(|item| !self.names_own_column(&item.expr)).cloned();
        let alone: Vec<Typed> = std::iter::once(needle.clone()).chain(alone).collect();
        if alone.len() > 2
            && let Ok(Some(ty)) = self.meet(&alone)
            && alone.iter().any(|item| item.ty != Some(ty))
        {
            for item in items.iter_mut() {
                if self.names_own_column(&item.expr) {
                    continue;
                }
                *item = Typed::of(self.coerce(item.clone(), ty, false)?, ty);
            }
        }
        // The values by what the needle becomes beside them: each pair has its own common type.
        let mut lists: Vec<(Expr, Vec<Expr>)> = Vec::new();
        for item in items {
            let (side, item) = self.meet_sides(needle.clone(), item, "=")?;
            match lists.iter_mut().find(|(known, _)| *known == side) {
                Some((_, items)) => items.push(item),
                None => lists.push((side, vec![item])),
            }
        }
        if let [(side, items)] = lists.as_mut_slice() {
            let (side, items) = (std::mem::replace(side, Expr::truth()), std::mem::take(items));
            return Ok(Typed::of(Expr::In(Box::new(side), items, negated), Type::Bool));
        }
        if needle.expr.has_subquery() || needle.expr.is_volatile() {
            return Err(SqlError::unsupported(
                "a subquery, or a value that differs each time, IN values of several types",
            ));
        }
        let any = lists.into_iter().map(|(side, items)| Expr::In(Box::new(side), items, false));
        let any = Expr::Or(any.collect());
        Ok(Typed::of(if negated { Expr::Not(Box::new(any)) } else { any }, Type::Bool))
    }

    /// True if an expression names a column of the innermost query, perhaps in the arguments of an
    /// aggregate or window function.
    fn names_own_column(&self, expr: &Expr) -> bool {
        let mut ids = Vec::new();
        expr.each_column(&mut |id| ids.push(id));
        ids.into_iter().filter(|id| self.is_own(*id)).any(|id| match self.arguments_of(id) {
            Some(exprs) => exprs.into_iter().any(|expr| self.names_own_column(expr)),
            None => true,
        })
    }

    /// Returns the arguments of the aggregate or window function whose value a column has.
    fn arguments_of(&self, id: ColumnId) -> Option<Vec<&Expr>> {
        let level = self.levels.last()?;
        let mut aggregates = level.aggregates.iter().flatten();
        if let Some((_, aggregate)) = aggregates.find(|(of, _)| *of == id) {
            return Some(aggregate.exprs());
        }
        let mut calls = level.windows.iter().flat_map(|windows| &windows.calls);
        calls.find(|call| call.id == id).map(WindowCall::exprs)
    }

    fn like(
        &mut self,
        negated: bool,
        text: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        fold: bool,
    ) -> Result<Typed, SqlError> {
        let (mut text, mut pattern) = (self.bind(text)?, self.bind_free(pattern)?);
        let fold = fold || folds(self.type_of(&text), pattern.ty);
        if text.ty.is_none() {
            text = Typed::of(self.coerce(text, Type::Text, false)?, Type::Text);
        }
        if is_citext(pattern.ty) {
            pattern = Typed::of(self.coerce(pattern, Type::Text, false)?, Type::Text);
        }
        if text.ty == Some(Type::ByteChar) || is_citext(text.ty) {
            text = Typed::of(self.coerce(text, Type::Text, false)?, Type::Text);
        }
        if !text.ty.is_some_and(Type::is_text) || !pattern.ty.is_some_and(Type::is_text) {
            return Err(Self::no_operator("~~", text.ty, pattern.ty));
        }
        let escape = match escape {
            None => Some('\\'),
            Some(literal) => {
                let Some(text) = literal.value.clone().into_string() else {
                    return Err(SqlError::unsupported("ESCAPE of anything but a literal"));
                };
                let mut chars = text.chars();
                let escape = chars.next();
                if chars.next().is_some() {
                    return Err(SqlError::new("22025", "invalid escape string")
                        .hint("Escape string must be empty or one character."));
                }
                escape
            }
        };
        let (text, pattern) = (Box::new(text.expr), Box::new(pattern.expr));
        Ok(Typed::of(Expr::Like { text, pattern, escape, negated, fold }, Type::Bool))
    }
}
