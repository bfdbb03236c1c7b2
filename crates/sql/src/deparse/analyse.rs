//! Analyses a parsed expression: finds the type of each part, and the conversions between them.

use super::tree::{Cast, Const, Node, Subscript};
use super::types::{bare, common};
use super::{Columns, DEEPEST, LARGEST, Names, Place};
use crate::catalog::ColumnDef;
use crate::clauses;
use crate::datum::Datum;
use crate::dialect;
use crate::domain::{self, Domain};
use crate::names::{self, NamedTypes};
use crate::system::quoted;
use crate::types::{Object, Type};
use sqlparser::ast::{self, AccessExpr, DataType, UnaryOperator, Value as Literal};

/// An analysed expression, and its type: `None` for a literal that has none yet.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) node: Node,
    pub(super) ty: Option<Type>,
    /// The domain that it is of; `ty` is its base type then.
    pub(super) domain: Option<Domain>,
}

impl Value {
    pub(super) fn of(node: Node, ty: Type) -> Value {
        Value { node, ty: Some(ty), domain: None }
    }

    pub(super) fn boolean(node: Node) -> Value {
        Value::of(node, Type::Bool)
    }

    fn literal(text: Option<String>) -> Value {
        Value { node: Node::Const(Const { text, ty: Type::Text }), ty: None, domain: None }
    }
}

/// The analysis of an expression.
pub(super) struct Analysis<'a> {
    columns: Columns<'a>,
    types: NamedTypes,
    pub(super) names: &'a Names<'a>,
    depth: usize,
    /// The parts that were analysed so far.
    steps: usize,
}

/// Returns an expression without parentheses around it.
pub(super) fn inner(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(nested) = expr {
        expr = nested;
    }
    expr
}

/// Returns the columns of `(a, b)` and of `ROW(a, b)`.
pub(super) fn row_of(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match inner(expr) {
        ast::Expr::Tuple(parts) => Some(parts),
        _ => None,
    }
}

/// Returns the digits of a number behind minus signs, and true if it is negative.
fn number(expr: &ast::Expr) -> Option<(&str, bool)> {
    match inner(expr) {
        ast::Expr::Value(value) => match &value.value {
            Literal::Number(digits, _) => Some((digits, false)),
            _ => None,
        },
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            number(expr).map(|(digits, is_negative)| (digits, !is_negative))
        }
        _ => None,
    }
}

/// Returns the constant of the digits of a number.
fn number_constant(digits: &str) -> Option<Value> {
    let ty = match (digits.parse::<i32>(), digits.parse::<i64>()) {
        (Ok(_), _) => Type::Int4,
        (_, Ok(_)) => Type::Int8,
        _ => Type::Numeric(None),
    };
    let text = Datum::from_text(ty, digits).ok()?.to_text(ty)?;
    Some(Value::of(Node::constant(text, ty), ty))
}

impl<'a> Analysis<'a> {
    pub(super) fn new(columns: Columns<'a>, types: NamedTypes, names: &'a Names<'a>) -> Self {
        Analysis { columns, types, names, depth: 0, steps: 0 }
    }

    /// Analyses a whole expression.
    pub(super) fn whole(&mut self, expr: &ast::Expr, place: Place) -> Option<Node> {
        let value = self.value(expr)?;
        let ty = match (place, value.ty) {
            (Place::Condition, _) => Type::Bool,
            (Place::Value(ty), _) => bare(ty),
            (Place::Key, None) => Type::Text,
            (Place::Key, Some(_)) => return Some(value.node),
        };
        let is_same = value.ty.is_some_and(|from| bare(from) == ty) && value.domain.is_none();
        let from = value.ty;
        let node = if is_same { value.node } else { self.converted(value, ty, true)? };
        match place {
            // It is not written, but makes an operand of what is below.
            Place::Value(ty) if ty.modifier() >= 0 && from != Some(ty) => {
                let arg = Box::new(node);
                let cast = Cast { arg, ty, domain: None, is_implicit: true, is_call: true };
                Some(Node::Cast(cast))
            }
            _ => Some(node),
        }
    }

    /// Analyses an expression.
    pub(super) fn value(&mut self, expr: &ast::Expr) -> Option<Value> {
        if self.depth >= DEEPEST || self.steps >= LARGEST {
            return None;
        }
        self.depth += 1;
        self.steps += 1;
        let value = self.form(expr);
        self.depth -= 1;
        value
    }

    /// Analyses a condition.
    pub(super) fn condition(&mut self, expr: &ast::Expr) -> Option<Node> {
        let value = self.value(expr)?;
        match value.ty {
            Some(Type::Bool) if value.domain.is_none() => Some(value.node),
            _ => self.converted(value, Type::Bool, true),
        }
    }

    fn form(&mut self, expr: &ast::Expr) -> Option<Value> {
        use ast::Expr;
        match expr {
            Expr::Nested(inner) => self.value(inner),
            Expr::Identifier(ident) => {
                let column = self.column(ident);
                column.or_else(|| self.key_word(&names::fold(ident), ident.quote_style.is_some()))
            }
            Expr::CompoundIdentifier(parts) if dialect::is_whole_row(parts) => None,
            Expr::CompoundIdentifier(parts) => self.column(parts.last()?),
            Expr::Value(value) => self.constant(&value.value),
            Expr::TypedString(typed) => {
                let text = typed.value.value.clone().into_string()?;
                self.cast(Value::literal(Some(text)), &typed.data_type)
            }
            Expr::Interval(literal) if literal.leading_field.is_none() => {
                let Expr::Value(value) = &*literal.value else { return None };
                let text = value.value.clone().into_string()?;
                let node = self.converted(Value::literal(Some(text)), Type::Interval, false)?;
                Some(Value::of(node, Type::Interval))
            }
            Expr::Cast { expr, data_type, .. } => match (inner(expr), data_type) {
                (Expr::Value(value), DataType::Regclass) => {
                    self.relation(&value.value.clone().into_string()?)
                }
                (Expr::Array(array), _) => self.cast_array(&array.elem, data_type),
                _ => {
                    let value = self.value(expr)?;
                    self.cast(value, data_type)
                }
            },
            Expr::Collate { expr, collation } => {
                clauses::collation(collation).ok()?;
                let Value { node, ty: Some(ty), .. } = self.value(expr)? else { return None };
                // The parser takes no COLLATE behind `::`.
                if matches!(node, Node::Cast(_) | Node::Const(_)) {
                    return None;
                }
                let name = collation.0.last()?.as_ident()?;
                Some(Value::of(Node::Collate(Box::new(node), quoted(&names::fold(name))), ty))
            }
            Expr::Array(array) => {
                let elements = self.values(&array.elem)?;
                self.array(elements, None)
            }
            Expr::Tuple(parts) => {
                let fields = self.values(parts)?.into_iter().map(|field| self.settled(field));
                Some(Value::of(Node::Row(fields.collect::<Option<_>>()?), Type::Record))
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.subscripts(root, access_chain),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Expr::UnaryOp { op, expr: operand } => match (op, number(expr)) {
                (UnaryOperator::Minus, Some((digits, is_negative))) => {
                    let sign = if is_negative { "-" } else { "" };
                    number_constant(&format!("{sign}{digits}"))
                }
                _ => self.prefixed(op, operand),
            },
            _ => self.operation(expr).or_else(|| self.call(expr)),
        }
    }

    /// Analyses several expressions.
    pub(super) fn values(&mut self, exprs: &[ast::Expr]) -> Option<Vec<Value>> {
        exprs.iter().map(|expr| self.value(expr)).collect()
    }

    /// Returns a value; a literal that has no type is text.
    pub(super) fn settled(&self, value: Value) -> Option<Node> {
        match value.ty {
            None => self.converted(value, Type::Text, true),
            Some(_) => Some(value.node),
        }
    }

    fn column(&self, ident: &ast::Ident) -> Option<Value> {
        let name = names::fold(ident);
        match self.columns {
            Columns::Of(table) => {
                let ColumnDef { ty, domain, .. } = table.columns.get(table.column(&name)?)?;
                let node = Node::Column(quoted(&name));
                Some(Value { node, ty: Some(*ty), domain: *domain })
            }
            Columns::Value(ty) if name == domain::VALUE => {
                Some(Value::of(Node::Column(name.to_uppercase()), ty))
            }
            Columns::Value(_) | Columns::None => None,
        }
    }

    fn constant(&mut self, value: &Literal) -> Option<Value> {
        Some(match value {
            Literal::Number(digits, _) => return number_constant(digits),
            Literal::Boolean(value) => {
                Value::boolean(Node::constant(value.to_string(), Type::Bool))
            }
            Literal::Null => Value::literal(None),
            Literal::SingleQuotedByteStringLiteral(digits) | Literal::HexStringLiteral(digits) => {
                let is_bytes = matches!(value, Literal::SingleQuotedByteStringLiteral(_));
                let kind = if is_bytes { 'b' } else { 'x' };
                let ty = Type::Bit(None);
                let bits = Datum::from_text(ty, &format!("{kind}{digits}")).ok()?;
                Value::of(Node::constant(bits.to_text(ty)?, ty), ty)
            }
            Literal::Placeholder(_) => return None,
            text => Value::literal(Some(text.clone().into_string()?)),
        })
    }

    /// Returns the literal that names a relation: by its id, as it is stored, or by its name.
    fn relation(&self, text: &str) -> Option<Value> {
        let ty = Type::Object(Object::Class);
        let name = match text.parse() {
            Ok(id) => (self.names.relation)(id)?,
            Err(_) => text.to_owned(),
        };
        Some(Value::of(Node::constant(name, ty), ty))
    }

    fn declared(&self, ty: &DataType) -> Option<(Type, Option<Domain>)> {
        match ty {
            DataType::Char(None) | DataType::Character(None) => None,
            ty => names::declared_type(ty, &self.types).ok(),
        }
    }

    /// Converts a value as `CAST` does.
    fn cast(&mut self, value: Value, ty: &DataType) -> Option<Value> {
        let (ty, domain) = self.declared(ty)?;
        let Some(domain) = domain else {
            return Some(Value::of(self.converted(value, ty, false)?, ty));
        };
        if value.domain == Some(domain) {
            return Some(value);
        }
        let arg = Box::new(self.converted(value, bare(ty), true)?);
        let cast = Cast { arg, ty, domain: Some(domain), is_implicit: false, is_call: false };
        Some(Value { node: Node::Cast(cast), ty: Some(ty), domain: Some(domain) })
    }

    fn cast_array(&mut self, elements: &[ast::Expr], ty: &DataType) -> Option<Value> {
        let (ty, None) = self.declared(ty)? else { return None };
        let values = self.values(elements)?;
        match ty.element() {
            Some(element) => self.array(values, Some(element)),
            None => None,
        }
    }

    /// Returns an array of elements; `wanted` is the type that a cast gives them.
    pub(super) fn array(&mut self, values: Vec<Value>, wanted: Option<Type>) -> Option<Value> {
        let element = match wanted {
            Some(wanted) => wanted,
            None if values.is_empty() => return None,
            None => common(&values)?,
        };
        let ty = element.array();
        let is_implicit = wanted.is_none();
        let element = |value: Value| match value.ty.and_then(Type::element) {
            Some(_) => self.converted(value, ty, is_implicit),
            None => self.converted(value, element, is_implicit),
        };
        let elements = values.into_iter().map(element).collect::<Option<Vec<_>>>()?;
        Some(Value::of(Node::Array(elements, ty), ty))
    }

    fn subscripts(&mut self, root: &ast::Expr, chain: &[AccessExpr]) -> Option<Value> {
        let root = self.value(root)?;
        let from = root.ty?;
        let is_json = from == Type::Jsonb;
        if root.domain.is_some() || !is_json && !matches!(from, Type::Array(_)) {
            return None;
        }
        let mut all = Vec::with_capacity(chain.len());
        let mut has_slice = false;
        for access in chain {
            let AccessExpr::Subscript(subscript) = access else { return None };
            all.push(match subscript {
                ast::Subscript::Index { index } => Subscript::At(self.subscript(index, is_json)?),
                ast::Subscript::Slice { lower_bound, upper_bound, stride: None } if !is_json => {
                    has_slice = true;
                    let mut bound = |bound: &Option<ast::Expr>| match bound {
                        Some(bound) => self.subscript(bound, false).map(Some),
                        None => Some(None),
                    };
                    Subscript::Slice(bound(lower_bound)?, bound(upper_bound)?)
                }
                ast::Subscript::Slice { .. } => return None,
            });
        }
        if has_slice && all.iter().any(|one| matches!(one, Subscript::At(_))) {
            return None;
        }
        let ty = if has_slice { from } else { from.element().unwrap_or(from) };
        Some(Value::of(Node::Subscripts(Box::new(root.node), all), ty))
    }

    fn subscript(&mut self, expr: &ast::Expr, is_json: bool) -> Option<Node> {
        let value = self.value(expr)?;
        match (is_json, value.ty) {
            (true, Some(Type::Int4)) => Some(value.node),
            (true, _) => self.converted(value, Type::Text, true),
            (false, _) => self.converted(value, Type::Int4, true),
        }
    }
}
