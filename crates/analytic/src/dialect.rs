//! Rewrites PostgreSQL's SQL for DataFusion's planner, where a rewrite of the syntax tree is
//! enough.
//!
//! - Tables are always referred to by an alias that no column has.
//! - An output without alias gets the name that PostgreSQL gives it; a name that is taken gets
//!   [`MARK`] and a number.
//! - A whole number that fits is an integer, not a bigint. If it is a position or a count, it stays
//!   as it is.
//! - Casts, `substring`, `trim` and the like become calls of this crate's functions.
//! - `pg_catalog.f`, `OPERATOR(pg_catalog.~)` and COLLATE lose the parts that DataFusion does not
//!   know.

use crate::catalog_forms::{empty, has_no_rows, inline_lateral, object_type};
use crate::{function, row, window};
use meridian_sql::{SqlError, Type, fold, heading, type_of_sql};
use sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, TableAliasColumnDef, TableFactor, Value, VisitMut,
    VisitorMut, WindowType,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Separates a column's name from a suffix that only makes it unique.
pub(crate) const MARK: char = '\u{1}';
/// The number of items above which IN is left to DataFusion.
const MOST_ITEMS: usize = 100;

/// Rewrites a query, and returns the numbers of the parameters that are counts (LIMIT and OFFSET).
pub(crate) fn rewrite(query: &mut Query) -> Result<BTreeSet<usize>, SqlError> {
    let mut rewriter = Rewriter { counts: BTreeSet::new() };
    match VisitMut::visit(query, &mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(rewriter.counts),
    }
}

struct Rewriter {
    counts: BTreeSet<usize>,
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args =
        args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: plain(name),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn plain(name: &str) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', name))])
}

pub(crate) fn null() -> Expr {
    Expr::value(Value::Null)
}

pub(crate) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

fn is_placeholder(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Nested(inner) => is_placeholder(inner),
        _ => false,
    }
}

/// Restores a number that was made an integer.
fn unwrap_number(expr: &mut Expr) {
    if let Expr::Cast { expr: inner, data_type: DataType::Int4(None), .. } = expr
        && let Expr::Value(value) = &**inner
        && matches!(value.value, Value::Number(..))
    {
        *expr = take(inner);
    }
}

/// True if an output has a name of its own.
fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn alias_outputs(select: &mut Select) {
    for item in &mut select.projection {
        // An output that is the id of a relation is shown as its name.
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Expr::Cast { expr: inner, data_type, .. } = expr
            && object_type(data_type) == Some("regclass")
            && matches!(&**inner, Expr::Value(_))
        {
            let (kind, data_type) = (ast::CastKind::DoubleColon, data_type.clone());
            *expr = Expr::Cast {
                kind,
                expr: Box::new(take(expr)),
                data_type,
                array: false,
                format: None,
            };
        }
    }
    let mut names = BTreeSet::new();
    let mut columns = BTreeSet::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => _ = names.insert(fold(alias)),
            SelectItem::UnnamedExpr(expr) if is_column(expr) => _ = names.insert(heading(expr)),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    for item in &mut select.projection {
        let (expr, wanted) = match item {
            SelectItem::UnnamedExpr(expr) if is_column(expr) => {
                if columns.insert(expr.to_string().to_lowercase()) {
                    continue;
                }
                (take(expr), None)
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = heading(expr);
                if names.insert(name.clone()) {
                    *item = SelectItem::ExprWithAlias {
                        expr: take(expr),
                        alias: Ident::with_quote('"', name),
                    };
                    continue;
                }
                (take(expr), Some(name))
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = fold(alias);
                if seen.insert(name.clone()) {
                    continue;
                }
                (take(expr), Some(name))
            }
            _ => continue,
        };
        let name = wanted.unwrap_or_else(|| heading(&expr));
        let apart =
            (2..).map(|n| format!("{name}{MARK}{n}")).find(|name| names.insert(name.clone()));
        let alias = Ident::with_quote('"', apart.unwrap_or(name));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// Returns a table's name in a form that no column has: for DataFusion, `a.b` may be a field of
/// column `a`.
pub(crate) fn apart(table: &Ident) -> Ident {
    Ident::with_quote('"', format!("{}{MARK}", fold(table)))
}

pub(crate) fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_subquery(inner),
        expr => matches!(expr, Expr::Subquery(_)),
    }
}

/// Builds `a = x OR a = y …` as a balanced tree.
fn any_of(mut parts: Vec<Expr>) -> Expr {
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len() / 2 + 1);
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            next.push(match rest.next() {
                Some(right) => Expr::BinaryOp {
                    left: Box::new(left),
                    op: BinaryOperator::Or,
                    right: Box::new(right),
                },
                None => left,
            });
        }
        parts = next;
    }
    Expr::Nested(Box::new(parts.pop().unwrap_or_else(|| Expr::value(Value::Boolean(false)))))
}

pub(crate) fn equals(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

pub(crate) fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(expr) } } else { expr }
}

impl Rewriter {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) if digits.parse::<i32>().is_ok() => {
                    *expr = Expr::Cast {
                        kind: ast::CastKind::Cast,
                        expr: Box::new(take(expr)),
                        data_type: DataType::Int4(None),
                        array: false,
                        format: None,
                    };
                }
                // DataFusion's decimals have no room for such exponents.
                Value::Number(digits, _) if digits.contains(['e', 'E']) => {
                    let text = Expr::value(Value::SingleQuotedString(digits.clone()));
                    *expr = call(&function::cast_name(Type::Numeric(None)), vec![text]);
                }
                Value::EscapedStringLiteral(text)
                | Value::UnicodeStringLiteral(text)
                | Value::NationalStringLiteral(text) => {
                    *expr = Expr::value(Value::SingleQuotedString(text.clone()))
                }
                _ => {}
            },
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(name) = object_type(data_type) {
                    let inner = take(inner);
                    *expr = match name {
                        "oid" => call(&function::cast_name(Type::Int4), vec![inner]),
                        "name" | "char" => call(&function::cast_name(Type::Text), vec![inner]),
                        name => call(name, vec![inner]),
                    };
                } else if !matches!(data_type, DataType::Interval { .. } | DataType::Array(_)) {
                    let ty = type_of_sql(data_type)?;
                    if is_placeholder(inner) {
                        *data_type = base(ty);
                    } else {
                        *expr = call(&function::cast_name(ty), vec![take(inner)]);
                    }
                } else if matches!(data_type, DataType::Array(_)) {
                    *expr = take(inner);
                }
            }
            Expr::TypedString(typed) if !matches!(typed.data_type, DataType::Interval { .. }) => {
                let ty = type_of_sql(&typed.data_type)?;
                *expr = call(&function::cast_name(ty), vec![Expr::Value(typed.value.clone())]);
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
                if !is_subquery(right) =>
            {
                *expr = call("array_contains", vec![take(right), take(left)]);
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right }
                if !is_subquery(right) =>
            {
                *expr = negate(call("array_contains", vec![take(right), take(left)]), true);
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => *expr = row::quantified(take(expr), false)?,
            Expr::InSubquery { expr: sought, .. }
                if matches!(row::plain(sought), Expr::Tuple(_)) =>
            {
                *expr = row::quantified(take(expr), false)?;
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right)
                if row::is_row(left) || row::is_row(right) =>
            {
                let (left, right) = (take(left), take(right));
                *expr = row::distinct(left, right, matches!(expr, Expr::IsDistinctFrom(..)))?;
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) if row::is_row(inner) => {
                let inner = take(inner);
                *expr = row::is_null(inner, matches!(expr, Expr::IsNotNull(_)));
            }
            Expr::SimilarTo { negated, expr: text, pattern, escape_char } => {
                let mut args = vec![take(text), take(pattern)];
                args.extend(escape_char.take().map(Expr::Value));
                *expr = negate(call("similar to", args), *negated);
            }
            Expr::UnaryOp { op: ast::UnaryOperator::BitwiseNot, expr: inner } => {
                let ones = Expr::value(Value::Number("-1".into(), false));
                let op = BinaryOperator::PGBitwiseXor;
                *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                    left: inner.clone(),
                    op,
                    right: Box::new(ones),
                }));
            }
            Expr::UnaryOp { op: ast::UnaryOperator::PGSquareRoot, expr: inner } => {
                *expr = call("sqrt", vec![take(inner)]);
            }
            Expr::UnaryOp { op: ast::UnaryOperator::PGAbs, expr: inner } => {
                *expr = call("abs", vec![take(inner)])
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
                *expr = call("power", vec![take(left), take(right)]);
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = call("at time zone", vec![take(timestamp), take(time_zone)]);
            }
            Expr::Collate { expr: inner, collation } => {
                meridian_sql::collation(collation)?;
                *expr = take(inner);
            }
            Expr::Position { expr: what, r#in } => {
                *expr = call("strpos", vec![take(r#in), take(what)])
            }
            Expr::Substring { expr: text, substring_from, substring_for, .. } => {
                let from = substring_from
                    .as_deref_mut()
                    .map_or_else(|| Expr::value(Value::Number("1".into(), false)), take);
                let mut args = vec![take(text), from];
                args.extend(substring_for.as_deref_mut().map(take));
                *expr = call("substring", args);
            }
            Expr::Trim { expr: text, trim_where, trim_what, .. } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![take(text)];
                args.extend(trim_what.as_deref_mut().map(take));
                *expr = call(name, args);
            }
            Expr::Ceil { expr: inner, .. } => *expr = call("ceil", vec![take(inner)]),
            Expr::Floor { expr: inner, .. } => *expr = call("floor", vec![take(inner)]),
            Expr::Identifier(ident) if ident.quote_style.is_none() => {
                let name = fold(ident);
                if matches!(
                    name.as_str(),
                    "current_user"
                        | "session_user"
                        | "user"
                        | "current_role"
                        | "current_catalog"
                        | "current_schema"
                ) {
                    *expr = call(&name, Vec::new());
                }
            }
            Expr::Between { expr: value, negated, low, high } => {
                let value = take(value);
                let low = row::compare(value.clone(), BinaryOperator::GtEq, take(low))?;
                let high = row::compare(value, BinaryOperator::LtEq, take(high))?;
                let both = Expr::BinaryOp {
                    left: Box::new(low),
                    op: BinaryOperator::And,
                    right: Box::new(high),
                };
                *expr = negate(Expr::Nested(Box::new(both)), *negated);
            }
            Expr::InList { expr: value, list, negated } => {
                if row::is_row(value) || list.iter().any(row::is_row) {
                    let parts = list.iter_mut().map(|item| {
                        row::compare((**value).clone(), BinaryOperator::Eq, take(item))
                    });
                    *expr = negate(any_of(parts.collect::<Result<_, _>>()?), *negated);
                } else if list.len() <= MOST_ITEMS
                    && list.iter().any(|item| matches!(item, Expr::Value(_)))
                {
                    let parts =
                        list.iter_mut().map(|item| equals((**value).clone(), take(item))).collect();
                    *expr = negate(any_of(parts), *negated);
                }
            }
            Expr::BinaryOp { left, op, right } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                    *op = match parts.last().map(String::as_str) {
                        Some("~") => BinaryOperator::PGRegexMatch,
                        Some("~*") => BinaryOperator::PGRegexIMatch,
                        Some("!~") => BinaryOperator::PGRegexNotMatch,
                        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
                        Some("~~") => BinaryOperator::PGLikeMatch,
                        Some("!~~") => BinaryOperator::PGNotLikeMatch,
                        Some("=") => BinaryOperator::Eq,
                        Some("<>") => BinaryOperator::NotEq,
                        Some("+") => BinaryOperator::Plus,
                        Some("-") => BinaryOperator::Minus,
                        other => {
                            return Err(SqlError::unsupported(format!(
                                "the operator {}",
                                other.unwrap_or("")
                            )));
                        }
                    };
                }
                if row::is_row(left) || row::is_row(right) {
                    let op = op.clone();
                    *expr = row::compare(take(left), op, take(right))?;
                }
            }
            Expr::Function(function) => {
                let is_array = function.name.to_string().eq_ignore_ascii_case("array");
                let is_mod =
                    function.name.0.last().and_then(|part| part.as_ident()).map(fold).as_deref()
                        == Some("mod");
                if is_mod
                    && let FunctionArguments::List(list) = &mut function.args
                    && let [
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
                    ] = list.args.as_mut_slice()
                {
                    let (left, right) = (Box::new(take(left)), Box::new(take(right)));
                    *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                        left,
                        op: BinaryOperator::Modulo,
                        right,
                    }));
                } else if is_array && let FunctionArguments::Subquery(query) = &function.args {
                    *expr = self.list_of((**query).clone())?;
                } else {
                    self.function(function);
                }
            }
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, column] = parts.as_slice() {
                    *parts = vec![apart(table), column.clone()];
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Rewrites `ARRAY(SELECT …)` to the text of the list.
    fn list_of(&mut self, mut query: Query) -> Result<Expr, SqlError> {
        let refused = || SqlError::unsupported("this form of ARRAY(SELECT …)");
        let ast::SetExpr::Select(select) = &mut *query.body else { return Err(refused()) };
        let [SelectItem::UnnamedExpr(one) | SelectItem::ExprWithAlias { expr: one, .. }] =
            select.projection.as_mut_slice()
        else {
            return Err(refused());
        };
        if !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
            || query.limit_clause.is_some()
        {
            return Err(refused());
        }
        let of = take(one);
        let text = call(&function::cast_name(Type::Text), vec![of.clone()]);
        let mut joined =
            call("string_agg", vec![text, Expr::value(Value::SingleQuotedString(",".into()))]);
        if let (Some(order), Expr::Function(function)) = (query.order_by.take(), &mut joined)
            && let (ast::OrderByKind::Expressions(mut all), FunctionArguments::List(list)) =
                (order.kind, &mut function.args)
        {
            // A position means the one output.
            all.iter_mut()
                .filter(|by| matches!(by.expr, Expr::Value(_)))
                .for_each(|by| by.expr = of.clone());
            list.clauses.push(ast::FunctionArgumentClause::OrderBy(all));
        }
        *one = joined;
        let joined = Expr::Subquery(Box::new(query));
        let text = |text: &str| Expr::value(Value::SingleQuotedString(text.into()));
        let inner = call("coalesce", vec![joined, text("")]);
        let concat = |left: Expr, right: Expr| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::StringConcat,
            right: Box::new(right),
        };
        Ok(Expr::Nested(Box::new(concat(concat(text("{"), inner), text("}")))))
    }

    fn function(&mut self, function: &mut Function) {
        if let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(fold) {
            function.name = plain(&name);
            let positions = function.over.is_some()
                || matches!(name.as_str(), "round" | "trunc" | "nth_value" | "lag" | "lead");
            if positions && let FunctionArguments::List(list) = &mut function.args {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                        unwrap_number(arg);
                    }
                }
            }
        }
        if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
            unwrap_frame(spec);
        }
    }

    fn count(&mut self, expr: &mut Expr) {
        unwrap_number(expr);
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
            && let Ok(number) = name.trim_start_matches('$').parse()
        {
            self.counts.insert(number);
        }
    }
}

fn flow(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

fn base(ty: meridian_sql::Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int2 => DataType::SmallInt(None),
        Type::Int4 => DataType::Integer(None),
        Type::Int8 => DataType::BigInt(None),
        Type::Float8 => DataType::DoublePrecision,
        Type::Numeric(_) => DataType::Numeric(ast::ExactNumberInfo::None),
        Type::Text | Type::Varchar(_) | Type::Char(_) => DataType::Text,
        Type::Bytea => DataType::Bytea,
        Type::Uuid => DataType::Uuid,
        Type::Date => DataType::Date,
        Type::Timestamp => DataType::Timestamp(None, ast::TimezoneInfo::None),
        Type::TimestampTz => DataType::Timestamp(None, ast::TimezoneInfo::WithTimeZone),
        Type::Interval => DataType::Interval { fields: None, precision: None },
        Type::Array(element) => DataType::Array(ast::ArrayElemTypeDef::SquareBracket(
            Box::new(base(element.ty())),
            None,
        )),
    }
}

fn unwrap_frame(spec: &mut ast::WindowSpec) {
    let bound = |bound: &mut ast::WindowFrameBound| {
        if let ast::WindowFrameBound::Preceding(Some(n))
        | ast::WindowFrameBound::Following(Some(n)) = bound
        {
            unwrap_number(n);
        }
    };
    if let Some(frame) = &mut spec.window_frame {
        bound(&mut frame.start_bound);
        frame.end_bound.iter_mut().for_each(bound);
    }
}

impl VisitorMut for Rewriter {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let ast::SetExpr::Select(select) = &*query.body
            && has_no_rows(select)
        {
            query.order_by = None;
        }
        if let Some(fetch) = query.fetch.take() {
            if fetch.with_ties || fetch.percent {
                return ControlFlow::Break(SqlError::unsupported("FETCH WITH TIES"));
            }
            let limit =
                fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
            match &mut query.limit_clause {
                Some(LimitClause::LimitOffset { limit: own, .. }) => *own = Some(limit),
                none => {
                    *none = Some(LimitClause::LimitOffset {
                        limit: Some(limit),
                        offset: None,
                        limit_by: Vec::new(),
                    });
                }
            }
        }
        if !query.locks.is_empty() {
            return ControlFlow::Break(SqlError::unsupported(
                "FOR UPDATE over more than one plain table",
            ));
        }
        flow(window::resolve_order(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(|expr| self.count(expr));
                offset.iter_mut().for_each(|offset| self.count(&mut offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.count(offset);
                self.count(limit);
            }
            None => {}
        }
        if let Some(order) = &mut query.order_by
            && let ast::OrderByKind::Expressions(all) = &mut order.kind
        {
            all.iter_mut().for_each(|by| unwrap_number(&mut by.expr));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if has_no_rows(select) {
            empty(select);
        }
        inline_lateral(select);
        if select.into.is_some() {
            return ControlFlow::Break(SqlError::unsupported("SELECT INTO"));
        }
        for condition in row::conditions(select) {
            if let Err(error) = row::settle(condition) {
                return ControlFlow::Break(error);
            }
        }
        if let Err(error) = window::resolve(select) {
            return ControlFlow::Break(error);
        }
        alias_outputs(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && let Some(last) = name.0.last().and_then(|part| part.as_ident())
            {
                *name = ObjectName(vec![ObjectNamePart::Identifier(apart(last))]);
            }
        }
        // DataFusion resolves positions in GROUP BY; nothing else is a bare number there.
        if let GroupByExpr::Expressions(all, _) = &mut select.group_by {
            all.iter_mut().for_each(unwrap_number);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, alias, args, .. } = factor {
            let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
            if let (Some(args), Some(last)) = (args, last) {
                for arg in &mut args.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                        unwrap_number(arg);
                    }
                }
                // The one column of such a function has the table's name.
                let alias = alias.get_or_insert_with(|| ast::TableAlias {
                    explicit: true,
                    name: Ident::with_quote('"', &last),
                    columns: Vec::new(),
                    at: None,
                });
                if alias.columns.is_empty() {
                    alias
                        .columns
                        .push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
                }
                *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(last))]);
            }
        }
        if let TableFactor::Table { name, alias, .. } = factor
            && alias.is_none()
            && let Some(last) = name.0.last().and_then(|part| part.as_ident()).map(fold)
        {
            let name = Ident::with_quote('"', last);
            *alias = Some(ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } = factor
        {
            alias.name = apart(&alias.name);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        flow(self.expr(expr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn rewritten(sql: &str) -> String {
        let parsed = Parser::new(&PostgreSqlDialect {})
            .try_with_sql(sql)
            .and_then(|mut parser| parser.parse_query());
        let mut query = *parsed.expect("it parses");
        rewrite(&mut query).expect("it is rewritten");
        query.to_string()
    }

    #[test]
    fn outputs_are_named_as_postgresql_names_them() {
        let sql = "SELECT count(*), count(*), x, x, lower(y) FROM t";
        let named = rewritten(sql);
        assert!(named.contains("AS \"count\","), "{named}");
        assert!(named.contains(&format!("AS \"count{MARK}2\"")), "{named}");
        assert!(named.contains(&format!("x AS \"x{MARK}2\"")), "{named}");
        assert!(named.contains("AS \"lower\""), "{named}");
    }

    #[test]
    fn counts_and_positions_stay_numbers() {
        let sql = rewritten("SELECT x + 1 FROM t GROUP BY 1 ORDER BY 1 LIMIT 5 OFFSET 6");
        assert!(sql.ends_with("GROUP BY 1 ORDER BY 1 LIMIT 5 OFFSET 6"), "{sql}");
        assert!(sql.contains("CAST(1 AS INT4)"), "{sql}");
    }
}
