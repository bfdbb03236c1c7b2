//! Binds names to columns, and literals and parameters to types.
//!
//! A quoted literal and an undeclared parameter have no type until another operand gives them one,
//! as in PostgreSQL.

use crate::aggregate::{Aggregate, Kind};
use crate::cast;
use crate::catalog::Table;
use crate::clauses;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Compare, Expr};
use crate::function::{self, Function};
use crate::names;
use crate::select::Grouping;
use crate::system;
use crate::types::Type;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};
use std::sync::Arc;

/// A bound expression and its type; `None` while the type is undetermined.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Option<Type>,
}

impl Typed {
    pub(crate) fn of(expr: Expr, ty: Type) -> Self {
        Typed { expr, ty: Some(ty) }
    }
}

/// A table in the scope of a statement.
#[derive(Clone)]
pub(crate) struct Relation {
    pub(crate) table: Arc<Table>,
    pub(crate) alias: String,
    /// The position of its first column in the row.
    pub(crate) offset: usize,
}

/// Binds the expressions of one statement.
pub(crate) struct Binder {
    pub(crate) relations: Vec<Relation>,
    /// The types of parameters, as far as they are determined.
    pub(crate) params: Vec<Option<Type>>,
    /// Set while outputs of a grouped query are bound.
    pub(crate) grouping: Option<Grouping>,
    /// True if the statement may read rows' commit timestamps.
    pub(crate) versions: bool,
}

/// A column that every table has and `*` leaves out: the commit timestamp of the row, NULL for rows
/// that the transaction itself wrote. It comes after the other columns.
pub(crate) const COMMIT_TIMESTAMP: &str = "meridian_commit_timestamp";

impl Binder {
    pub(crate) fn new(declared: &[Option<Type>]) -> Self {
        Binder { relations: Vec::new(), params: declared.to_vec(), grouping: None, versions: false }
    }

    /// Adds a table; its columns follow those of the tables before it.
    pub(crate) fn add(&mut self, table: Arc<Table>, alias: &str) {
        let offset = self.relations.iter().map(|relation| relation.table.columns.len()).sum();
        self.relations.push(Relation { table, alias: alias.into(), offset });
    }

    /// Returns the parameters' types; undetermined ones are text.
    pub(crate) fn param_types(&self) -> Arc<[Type]> {
        self.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect()
    }

    fn resolve(&self, qualifier: Option<&str>, ident: &ast::Ident) -> Result<Typed, SqlError> {
        let name = names::fold(ident);
        let mut found = None;
        for relation in &self.relations {
            if qualifier.is_some_and(|qualifier| qualifier != relation.alias) {
                continue;
            }
            if let Some(column) = relation.table.column(&name) {
                if found.is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(
                        SqlError::new(state::AMBIGUOUS_COLUMN, message).at(names::position(ident))
                    );
                }
                let ty = relation.table.columns[column].ty;
                found = Some(Typed::of(Expr::Column(relation.offset + column), ty));
            }
        }
        if let (None, true, COMMIT_TIMESTAMP, [only]) =
            (&found, self.versions, &*name, &*self.relations)
            && qualifier.is_none_or(|qualifier| qualifier == only.alias)
            && !system::is_system(only.table.id)
        {
            found = Some(Typed::of(Expr::Column(only.table.columns.len()), Type::TimestampTz));
        }
        if let Some(found) = found {
            let Some(grouping) = &self.grouping else { return Ok(found) };
            if let Some(at) = grouping.keys.iter().position(|(_, key)| key.expr == found.expr) {
                return Ok(Typed { expr: Expr::Column(at), ty: found.ty });
            }
            let message = format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            );
            return Err(SqlError::new(state::GROUPING, message).at(names::position(ident)));
        }
        if let Some(qualifier) = qualifier
            && !self.relations.iter().any(|relation| relation.alias == qualifier)
        {
            let message = format!("missing FROM-clause entry for table \"{qualifier}\"");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message).at(names::position(ident)));
        }
        let shown = qualifier
            .map_or_else(|| format!("\"{name}\""), |qualifier| format!("{qualifier}.{name}"));
        let mut error =
            SqlError::new(state::UNDEFINED_COLUMN, format!("column {shown} does not exist"));
        let all = self
            .relations
            .iter()
            .flat_map(|r| r.table.columns.iter().map(|column| column.name.as_str()));
        if let Some(near) = names::nearest(&name, all) {
            error = error.hint(format!("Did you mean \"{near}\"?"));
        }
        Err(error.at(names::position(ident)))
    }

    /// Binds an expression whose context gives no type; a literal is text.
    pub(crate) fn bind_free(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let bound = self.bind(expr)?;
        if bound.ty.is_some() {
            return Ok(bound);
        }
        let expr = self.coerce(bound, Type::Text, false)?;
        Ok(Typed::of(expr, Type::Text))
    }

    /// Binds a condition.
    pub(crate) fn bind_bool(&mut self, expr: &ast::Expr, place: &str) -> Result<Expr, SqlError> {
        let bound = self.bind(expr)?;
        match bound.ty {
            Some(Type::Bool) | None => self.coerce(bound, Type::Bool, false),
            Some(ty) => {
                let message =
                    format!("argument of {place} must be type boolean, not type {}", ty.name());
                Err(SqlError::new(state::TYPE_MISMATCH, message).at(names::expr_position(expr)))
            }
        }
    }

    /// Binds a value for a column.
    pub(crate) fn bind_for(
        &mut self,
        expr: &ast::Expr,
        table: &Table,
        column: usize,
    ) -> Result<Expr, SqlError> {
        let column = &table.columns[column];
        let bound = self.bind(expr)?;
        if let Some(ty) = bound.ty
            && !cast::is_assignable(ty, column.ty)
        {
            return Err(SqlError::new(
                state::TYPE_MISMATCH,
                format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name,
                    column.ty.name(),
                    ty.name()
                ),
            )
            .hint("You will need to rewrite or cast the expression.")
            .at(names::expr_position(expr)));
        }
        self.coerce(bound, column.ty, false).map_err(|e| e.at(names::expr_position(expr)))
    }

    /// Converts an expression to a type.
    pub(crate) fn coerce(
        &mut self,
        bound: Typed,
        ty: Type,
        explicit: bool,
    ) -> Result<Expr, SqlError> {
        match (bound.ty, bound.expr) {
            (None, Expr::Param(at)) => {
                self.params[at] = Some(ty.base());
                let expr = Expr::Param(at);
                Ok(if ty.modifier() < 0 { expr } else { Expr::Cast(Box::new(expr), ty, explicit) })
            }
            (None, Expr::Const(Datum::Text(text))) => {
                Ok(Expr::Const(cast::cast(Datum::from_text(ty, &text)?, ty, explicit)?))
            }
            (None, Expr::Const(Datum::Null)) => Ok(Expr::Const(Datum::Null)),
            (Some(from), expr) if from == ty => Ok(expr),
            (Some(from), Expr::Const(datum)) if explicit || cast::is_assignable(from, ty) => {
                Ok(Expr::Const(cast::cast(datum, ty, explicit)?))
            }
            (Some(from), expr)
                if from.is_text() && matches!(ty, Type::Text | Type::Varchar(None)) =>
            {
                Ok(expr)
            }
            (_, expr) => Ok(Expr::Cast(Box::new(expr), ty, explicit)),
        }
    }

    /// Returns the common type of several expressions.
    pub(crate) fn meet(&self, all: &[Typed]) -> Result<Option<Type>, SqlError> {
        let mut met: Option<Type> = None;
        for ty in all.iter().filter_map(|typed| typed.ty) {
            met = Some(match met {
                None => ty,
                Some(old) if old == ty || cast::is_implicit(ty, old) && old.base() == old => old,
                Some(old) if cast::is_implicit(old, ty) => ty.base(),
                Some(old) if cast::is_implicit(ty, old) => old.base(),
                Some(old) => {
                    let message =
                        format!("types {} and {} cannot be matched", old.name(), ty.name());
                    return Err(SqlError::new(state::TYPE_MISMATCH, message));
                }
            });
        }
        Ok(met)
    }

    fn no_operator(op: &str, left: Option<Type>, right: Option<Type>) -> SqlError {
        let name = |ty: Option<Type>| ty.map_or("unknown", Type::name);
        SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("operator does not exist: {} {op} {}", name(left), name(right)),
        )
        .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
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
        let (left, right) = self.meet_sides(left, right, shown)?;
        Ok(Expr::Compare(op, Box::new((left, right))))
    }

    fn meet_sides(
        &mut self,
        left: Typed,
        right: Typed,
        shown: &str,
    ) -> Result<(Expr, Expr), SqlError> {
        Ok(match (left.ty, right.ty) {
            (None, None) => {
                (self.coerce(left, Type::Text, false)?, self.coerce(right, Type::Text, false)?)
            }
            (Some(ty), None) => (left.expr.clone(), self.coerce_side(right, ty)?),
            (None, Some(ty)) => (self.coerce_side(left, ty)?, right.expr),
            (Some(a), Some(b)) if a.base() == b.base() || (a.is_integer() && b.is_integer()) => {
                (left.expr, right.expr)
            }
            (Some(a), Some(b)) if a.is_text() && b.is_text() => {
                let trim = |typed: Typed, other: Type| match (other, &typed.expr) {
                    (Type::Char(_), Expr::Const(_) | Expr::Param(_)) => {
                        Expr::Cast(Box::new(typed.expr), Type::Char(0), true)
                    }
                    _ => typed.expr,
                };
                (trim(left, b), trim(right, a))
            }
            (Some(Type::Timestamp), Some(Type::TimestampTz))
            | (Some(Type::TimestampTz), Some(Type::Timestamp)) => (left.expr, right.expr),
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
        let ty = if matches!(ty, Type::Char(_)) { Type::Char(0) } else { ty.base() };
        self.coerce(side, ty, false)
    }

    fn arith(
        &mut self,
        op: Arith,
        left: Typed,
        right: Typed,
        shown: &str,
    ) -> Result<Typed, SqlError> {
        let ty = match (left.ty, right.ty) {
            (None, None) => Type::Int4,
            (Some(Type::Date), other)
                if matches!(op, Arith::Add | Arith::Sub) && other.is_none_or(Type::is_integer) =>
            {
                let right = self.coerce(right, Type::Int4, false)?;
                return Ok(Typed::of(
                    Expr::Arith(op, Type::Date, Box::new((left.expr, right))),
                    Type::Date,
                ));
            }
            (Some(ty), None) | (None, Some(ty)) => ty.base(),
            (Some(a), Some(b)) if a.is_number() && b.is_number() => {
                if cast::is_implicit(a, b) {
                    b.base()
                } else {
                    a.base()
                }
            }
            (a, b) => return Err(Self::no_operator(shown, a, b)),
        };
        if !ty.is_number() {
            return Err(Self::no_operator(shown, left.ty, right.ty));
        }
        let side = |binder: &mut Self, side: Typed| {
            if side.ty.is_some_and(|from| from.is_integer() && ty.is_integer() || from.base() == ty)
            {
                Ok(side.expr)
            } else {
                binder.coerce(side, ty, false)
            }
        };
        let sides = (side(self, left)?, side(self, right)?);
        Ok(Typed::of(Expr::Arith(op, ty, Box::new(sides)), ty))
    }

    fn literal(&mut self, value: &Value) -> Result<Typed, SqlError> {
        Ok(match value {
            Value::Number(digits, _) => {
                if let Ok(n) = digits.parse::<i32>() {
                    Typed::of(Expr::Const(Datum::Int4(n)), Type::Int4)
                } else if let Ok(n) = digits.parse::<i64>() {
                    Typed::of(Expr::Const(Datum::Int8(n)), Type::Int8)
                } else {
                    let ty = Type::Numeric(None);
                    match (Datum::from_text(ty, digits), digits.parse::<f64>()) {
                        (Ok(datum), _) => Typed::of(Expr::Const(datum), ty),
                        // Beyond what a numeric holds here, but written like a float: 1e300.
                        (Err(_), Ok(float)) if float.is_finite() && digits.contains(['e', 'E']) => {
                            Typed::of(Expr::Const(Datum::Float8(float)), Type::Float8)
                        }
                        (Err(error), _) => return Err(error),
                    }
                }
            }
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => {
                Typed { expr: Expr::Const(Datum::text(text)), ty: None }
            }
            Value::DollarQuotedString(text) => {
                Typed { expr: Expr::Const(Datum::text(&text.value)), ty: None }
            }
            Value::Boolean(b) => Typed::of(Expr::Const(Datum::Bool(*b)), Type::Bool),
            Value::Null => Typed { expr: Expr::Const(Datum::Null), ty: None },
            Value::Placeholder(name) => {
                let number: usize =
                    name.strip_prefix('$').and_then(|digits| digits.parse().ok()).unwrap_or(0);
                if !(1..=65_535).contains(&number) {
                    return Err(SqlError::new(
                        state::UNDEFINED_PARAMETER,
                        format!("there is no parameter {name}"),
                    ));
                }
                if self.params.len() < number {
                    self.params.resize(number, None);
                }
                Typed { expr: Expr::Param(number - 1), ty: self.params[number - 1] }
            }
            other => return Err(SqlError::unsupported(format!("the literal {other}"))),
        })
    }

    /// Binds an expression.
    pub(crate) fn bind(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        self.bind_inner(expr).map_err(|error| error.at(names::expr_position(expr)))
    }

    fn bind_inner(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let boolean = |expr| Typed::of(expr, Type::Bool);
        if let Some(grouping) = &self.grouping
            && let Some(at) = grouping.keys.iter().position(|(key, _)| key == expr)
        {
            return Ok(Typed { expr: Expr::Column(at), ty: grouping.keys[at].1.ty });
        }
        Ok(match expr {
            ast::Expr::Identifier(ident) => match self.resolve(None, ident) {
                Err(missing) if ident.quote_style.is_none() => {
                    let name = names::fold(ident);
                    match function::find(&name, &[]) {
                        Some((function, ty))
                            if name.starts_with("current_") || name.ends_with("user") =>
                        {
                            Typed::of(Expr::Call(function, Vec::new()), ty)
                        }
                        _ => return Err(missing),
                    }
                }
                found => found?,
            },
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] | [_, table, column] => {
                    self.resolve(Some(&names::fold(table)), column)?
                }
                _ => return Err(SqlError::unsupported(format!("the name {expr}"))),
            },
            ast::Expr::Value(value) => self.literal(&value.value)?,
            ast::Expr::TypedString(typed) => {
                let ty = names::data_type(&typed.data_type)?;
                let text = typed.value.value.clone().into_string().unwrap_or_default();
                Typed::of(Expr::Const(cast::cast(Datum::from_text(ty, &text)?, ty, true)?), ty)
            }
            ast::Expr::Nested(inner) => self.bind(inner)?,
            ast::Expr::Cast { expr, data_type, .. } => {
                let ty = names::data_type(data_type)?;
                let inner = self.bind(expr)?;
                if let Some(from) = inner.ty
                    && !cast::exists(from, ty)
                {
                    let message = format!("cannot cast type {} to {}", from.name(), ty.name());
                    return Err(SqlError::new(state::CANNOT_COERCE, message));
                }
                Typed::of(self.coerce(inner, ty, true)?, ty)
            }
            ast::Expr::UnaryOp { op, expr } => match op {
                UnaryOperator::Not => boolean(Expr::Not(Box::new(self.bind_bool(expr, "NOT")?))),
                UnaryOperator::Plus => self.bind(expr)?,
                UnaryOperator::Minus => {
                    if let ast::Expr::Value(value) = &**expr
                        && let Value::Number(digits, long) = &value.value
                    {
                        return self.literal(&Value::Number(format!("-{digits}"), *long));
                    }
                    let inner = self.bind(expr)?;
                    let ty = inner.ty.unwrap_or(Type::Float8).base();
                    if !ty.is_number() {
                        let message = format!("operator does not exist: - {}", ty.name());
                        return Err(SqlError::new(state::UNDEFINED_FUNCTION, message));
                    }
                    let inner = self.coerce(inner, ty, false)?;
                    Typed::of(Expr::Call(Function::Negate, vec![inner]), ty)
                }
                other => return Err(SqlError::unsupported(format!("the operator {other}"))),
            },
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right)?,
            ast::Expr::IsNull(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_free(inner)?.expr), false))
            }
            ast::Expr::IsNotNull(inner) => {
                boolean(Expr::IsNull(Box::new(self.bind_free(inner)?.expr), true))
            }
            ast::Expr::IsTrue(inner) => boolean(self.is_bool(inner, true, false)?),
            ast::Expr::IsNotTrue(inner) => boolean(self.is_bool(inner, true, true)?),
            ast::Expr::IsFalse(inner) => boolean(self.is_bool(inner, false, false)?),
            ast::Expr::IsNotFalse(inner) => boolean(self.is_bool(inner, false, true)?),
            ast::Expr::IsDistinctFrom(left, right) | ast::Expr::IsNotDistinctFrom(left, right) => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                let sides = self.meet_sides(left, right, "IS DISTINCT FROM")?;
                boolean(Expr::Distinct(
                    Box::new(sides),
                    matches!(expr, ast::Expr::IsNotDistinctFrom(..)),
                ))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let value = self.bind(expr)?;
                let (low, high) = (self.bind(low)?, self.bind(high)?);
                let low = self.compare(Compare::Ge, value.clone(), low, ">=")?;
                let high = self.compare(Compare::Le, value, high, "<=")?;
                let both = Expr::And(vec![low, high]);
                boolean(if *negated { Expr::Not(Box::new(both)) } else { both })
            }
            ast::Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated)?,
            ast::Expr::Like { negated, expr, pattern, escape_char, .. } => {
                self.like(*negated, expr, pattern, escape_char.as_ref(), false)?
            }
            ast::Expr::ILike { negated, expr, pattern, escape_char, .. } => {
                self.like(*negated, expr, pattern, escape_char.as_ref(), true)?
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                let mut results = Vec::new();
                let mut guards = Vec::new();
                for when in conditions {
                    guards.push(match operand {
                        Some(operand) => {
                            let (left, right) = (self.bind(operand)?, self.bind(&when.condition)?);
                            self.compare(Compare::Eq, left, right, "=")?
                        }
                        None => self.bind_bool(&when.condition, "CASE/WHEN")?,
                    });
                    results.push(self.bind(&when.result)?);
                }
                results.push(match else_result {
                    Some(result) => self.bind(result)?,
                    None => Typed { expr: Expr::Const(Datum::Null), ty: None },
                });
                let ty = self.meet(&results)?.unwrap_or(Type::Text);
                let mut results = results
                    .into_iter()
                    .map(|result| self.coerce(result, ty, false))
                    .collect::<Result<Vec<_>, _>>()?;
                let otherwise = Box::new(results.pop().unwrap_or(Expr::Const(Datum::Null)));
                Typed::of(
                    Expr::Case { branches: guards.into_iter().zip(results).collect(), otherwise },
                    ty,
                )
            }
            ast::Expr::Function(call) => self.call(call)?,
            ast::Expr::Floor { expr, .. } => self.function("floor", &[expr])?,
            ast::Expr::Ceil { expr, .. } => self.function("ceil", &[expr])?,
            ast::Expr::Position { expr, r#in } => self.function("strpos", &[r#in, expr])?,
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                let one = ast::Expr::value(Value::Number("1".into(), false));
                let mut args = vec![&**expr, substring_from.as_deref().unwrap_or(&one)];
                args.extend(substring_for.as_deref());
                self.function("substring", &args)?
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
                self.bind(expr)?
            }
            other => return Err(SqlError::unsupported(format!("the expression {other}"))),
        })
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
        let compare = match op {
            BinaryOperator::Eq => Some(Compare::Eq),
            BinaryOperator::NotEq => Some(Compare::Ne),
            BinaryOperator::Lt => Some(Compare::Lt),
            BinaryOperator::LtEq => Some(Compare::Le),
            BinaryOperator::Gt => Some(Compare::Gt),
            BinaryOperator::GtEq => Some(Compare::Ge),
            _ => None,
        };
        let arith = match op {
            BinaryOperator::Plus => Some(Arith::Add),
            BinaryOperator::Minus => Some(Arith::Sub),
            BinaryOperator::Multiply => Some(Arith::Mul),
            BinaryOperator::Divide => Some(Arith::Div),
            BinaryOperator::Modulo => Some(Arith::Mod),
            _ => None,
        };
        if let (Some(Compare::Eq), ast::Expr::Tuple(lefts), ast::Expr::Tuple(rights)) =
            (compare, left, right)
        {
            return Ok(Typed::of(self.row_equals(lefts, rights)?, Type::Bool));
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
        if matches!(op, BinaryOperator::StringConcat) {
            let side = |binder: &mut Self, side: Typed| match side.ty {
                None => binder.coerce(side, Type::Text, false),
                Some(_) => Ok(side.expr),
            };
            let sides = vec![side(self, left)?, side(self, right)?];
            return Ok(Typed::of(Expr::Call(Function::Join, sides), Type::Text));
        }
        Err(SqlError::unsupported(format!("the operator {op}")))
    }

    fn row_equals(&mut self, lefts: &[ast::Expr], rights: &[ast::Expr]) -> Result<Expr, SqlError> {
        if lefts.len() != rights.len() {
            return Err(SqlError::new(
                state::SYNTAX,
                "unequal number of entries in row expressions",
            ));
        }
        let mut parts = Vec::with_capacity(lefts.len());
        for (left, right) in lefts.iter().zip(rights) {
            let (left, right) = (self.bind(left)?, self.bind(right)?);
            parts.push(self.compare(Compare::Eq, left, right, "=")?);
        }
        Ok(Expr::And(parts))
    }

    fn in_list(
        &mut self,
        needle: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Typed, SqlError> {
        if let ast::Expr::Tuple(lefts) = needle {
            let mut any = Vec::with_capacity(list.len());
            for item in list {
                let ast::Expr::Tuple(rights) = item else {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "unequal number of entries in row expressions",
                    ));
                };
                any.push(self.row_equals(lefts, rights)?);
            }
            let any = Expr::Or(any);
            return Ok(Typed::of(if negated { Expr::Not(Box::new(any)) } else { any }, Type::Bool));
        }
        let needle = self.bind(needle)?;
        let mut side = needle.expr.clone();
        let mut items = Vec::with_capacity(list.len());
        let mut same = true;
        for item in list {
            let item = self.bind(item)?;
            let (left, right) = self.meet_sides(needle.clone(), item, "=")?;
            same &= items.is_empty() || left == side;
            side = left;
            items.push(right);
        }
        if same {
            return Ok(Typed::of(Expr::In(Box::new(side), items, negated), Type::Bool));
        }
        Err(SqlError::unsupported("IN over values of several types"))
    }

    fn like(
        &mut self,
        negated: bool,
        text: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        fold: bool,
    ) -> Result<Typed, SqlError> {
        let (text, pattern) = (self.bind_free(text)?, self.bind_free(pattern)?);
        if !text.ty.is_some_and(Type::is_text) || !pattern.ty.is_some_and(Type::is_text) {
            return Err(Self::no_operator("~~", text.ty, pattern.ty));
        }
        let escape = escape
            .and_then(|value| value.value.clone().into_string())
            .and_then(|text| text.chars().next());
        let (text, pattern) = (Box::new(text.expr), Box::new(pattern.expr));
        Ok(Typed::of(Expr::Like { text, pattern, escape, negated, fold }, Type::Bool))
    }

    fn call(&mut self, call: &ast::Function) -> Result<Typed, SqlError> {
        let name = names::function_name(&call.name);
        if call.over.is_some() || call.filter.is_some() {
            return Err(SqlError::unsupported(format!("a window or FILTER of {name}")));
        }
        match name.as_str() {
            "now"
            | "current_timestamp"
            | "transaction_timestamp"
            | "statement_timestamp"
            | "clock_timestamp" => {
                return Ok(Typed::of(Expr::Now, Type::TimestampTz));
            }
            "localtimestamp" => {
                return Ok(Typed::of(
                    Expr::Cast(Box::new(Expr::Now), Type::Timestamp, true),
                    Type::Timestamp,
                ));
            }
            "current_date" => {
                return Ok(Typed::of(
                    Expr::Cast(Box::new(Expr::Now), Type::Date, true),
                    Type::Date,
                ));
            }
            _ => {}
        }
        if let Some(kind) = Kind::of_name(&name) {
            return self.aggregate(kind, &name, call);
        }
        let args = names::arguments(call)?;
        if name == "coalesce" {
            let all = args.iter().map(|arg| self.bind(arg)).collect::<Result<Vec<_>, _>>()?;
            let ty = self.meet(&all)?.unwrap_or(Type::Text);
            let all =
                all.into_iter().map(|arg| self.coerce(arg, ty, false)).collect::<Result<_, _>>()?;
            return Ok(Typed::of(Expr::Coalesce(all), ty));
        }
        self.function(&name, &args)
    }

    fn aggregate(
        &mut self,
        kind: Kind,
        name: &str,
        call: &ast::Function,
    ) -> Result<Typed, SqlError> {
        let Some(grouping) = self.grouping.take() else {
            return Err(SqlError::new(state::GROUPING, "aggregate functions are not allowed here"));
        };
        let bound = self.aggregate_inner(kind, name, call);
        let grouping = self.grouping.insert(grouping);
        let aggregate = bound?;
        let ty = aggregate.ty;
        let at =
            grouping.aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
                grouping.aggregates.push(aggregate);
                grouping.aggregates.len() - 1
            });
        Ok(Typed::of(Expr::Column(grouping.keys.len() + at), ty))
    }

    fn aggregate_inner(
        &mut self,
        kind: Kind,
        name: &str,
        call: &ast::Function,
    ) -> Result<Aggregate, SqlError> {
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::new(
                state::SYNTAX,
                format!("{name}(*) must be used to call a parameterless aggregate"),
            ));
        };
        if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] = list.args.as_slice()
            && kind == Kind::Count
        {
            let arg = Expr::Const(Datum::Null);
            return Ok(Aggregate { kind: Kind::CountRows, arg, ty: Type::Int8, distinct: false });
        }
        let args = names::arguments(call)?;
        let [arg] = args.as_slice() else {
            return Err(SqlError::new(
                state::UNDEFINED_FUNCTION,
                format!("function {name} takes one argument"),
            ));
        };
        let bound = self.bind_free(arg)?;
        let from = bound.ty.unwrap_or(Type::Text);
        let ty = kind.result(from).ok_or_else(|| {
            SqlError::new(
                state::UNDEFINED_FUNCTION,
                format!("function {name}({}) does not exist", from.name()),
            )
        })?;
        let distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        Ok(Aggregate { kind, arg: bound.expr, ty, distinct })
    }

    fn function(&mut self, name: &str, args: &[&ast::Expr]) -> Result<Typed, SqlError> {
        let bound = args.iter().map(|arg| self.bind(arg)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = bound.iter().map(|arg| arg.ty).collect();
        let Some((function, ty)) = function::find(name, &types) else {
            let shown: Vec<_> = types.iter().map(|ty| ty.map_or("unknown", Type::name)).collect();
            let message = format!("function {name}({}) does not exist", shown.join(", "));
            return Err(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ));
        };
        let meets = matches!(
            function,
            Function::NullIf | Function::Greatest | Function::Least | Function::Mod
        );
        let common = if meets { self.meet(&bound)? } else { None };
        let numeric = matches!(
            function,
            Function::Abs
                | Function::Ceil
                | Function::Floor
                | Function::Round
                | Function::Sqrt
                | Function::Power
        );
        let mut out = Vec::with_capacity(bound.len());
        for (at, arg) in bound.into_iter().enumerate() {
            let counts = match function {
                Function::Substring | Function::Left | Function::Right | Function::Round => at > 0,
                Function::Repeat | Function::LeftPad | Function::RightPad => at == 1,
                _ => false,
            };
            out.push(match (common, arg.ty) {
                (Some(ty), _) => self.coerce(arg, ty, false)?,
                (None, None) if counts => self.coerce(arg, Type::Int4, false)?,
                (None, None) if numeric => self.coerce(arg, Type::Float8, false)?,
                (None, None) => self.coerce(arg, Type::Text, false)?,
                (None, Some(_)) => arg.expr,
            });
        }
        Ok(Typed::of(Expr::Call(function, out), common.unwrap_or(ty)))
    }
}
