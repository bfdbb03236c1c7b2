//! Analyses operators: comparisons, tests, arithmetic, and the constructs that stand for some.

use super::analyse::{Analysis, Value, inner, row_of};
use super::tree::{Const, Node};
use super::types::{bare, common, compared, computed};
use crate::dialect;
use crate::function::{self, Form, Param};
use crate::types::Type;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

/// Returns the name of an operator.
fn name_of(op: &BinaryOperator) -> Option<String> {
    Some(match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == "pg_catalog" => name.clone(),
            _ => return None,
        },
        BinaryOperator::NotEq => "<>".to_owned(),
        BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Overlaps => return None,
        other => other.to_string(),
    })
}

fn is_comparison(op: &str) -> bool {
    matches!(op, "=" | "<>" | "<" | "<=" | ">" | ">=")
}

/// True for the operators that compare a text with a pattern.
fn is_pattern(op: &str) -> bool {
    matches!(op, "~~" | "!~~" | "~~*" | "!~~*" | "~" | "!~" | "~*" | "!~*")
}

/// Returns the operands that AND or OR joins. Those on the left are joined to them, as the parser
/// of PostgreSQL does.
fn joined<'e>(expr: &'e ast::Expr, op: &BinaryOperator) -> Vec<&'e ast::Expr> {
    let mut all = Vec::new();
    let mut rest = expr;
    while let ast::Expr::BinaryOp { left, op: other, right } = inner(rest)
        && other == op
    {
        all.push(&**right);
        rest = left;
    }
    all.push(rest);
    all.reverse();
    all
}

/// Joins two conditions.
fn either(is_or: bool, parts: Vec<Node>) -> Node {
    if is_or { Node::Or(parts) } else { Node::And(parts) }
}

impl Analysis<'_> {
    /// Analyses an operator or a test; `None` for other expressions.
    pub(super) fn operation(&mut self, expr: &ast::Expr) -> Option<Value> {
        use ast::Expr;
        let node = match expr {
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                let all = joined(expr, op).into_iter().map(|part| self.condition(part));
                either(*op == BinaryOperator::Or, all.collect::<Option<_>>()?)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
                return self.overlaps(row_of(left)?, row_of(right)?);
            }
            Expr::BinaryOp { left, op, right } => return self.binary(left, &name_of(op)?, right),
            Expr::IsNull(arg) => self.null_test(arg, "IS NULL")?,
            Expr::IsNotNull(arg) => self.null_test(arg, "IS NOT NULL")?,
            Expr::IsTrue(arg) => self.bool_test(arg, "IS TRUE")?,
            Expr::IsNotTrue(arg) => self.bool_test(arg, "IS NOT TRUE")?,
            Expr::IsFalse(arg) => self.bool_test(arg, "IS FALSE")?,
            Expr::IsNotFalse(arg) => self.bool_test(arg, "IS NOT FALSE")?,
            Expr::IsUnknown(arg) => self.bool_test(arg, "IS UNKNOWN")?,
            Expr::IsNotUnknown(arg) => self.bool_test(arg, "IS NOT UNKNOWN")?,
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right)?,
            Expr::IsNotDistinctFrom(left, right) => {
                Node::Not(Box::new(self.distinct(left, right)?))
            }
            Expr::Between { expr, negated, low, high } => {
                self.between(expr, low, high, *negated)?
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated)?,
            Expr::Like { negated, expr, pattern, escape_char, any: false } => {
                let op = if *negated { "!~~" } else { "~~" };
                return self.like(expr, op, pattern, escape_char.as_ref());
            }
            Expr::ILike { negated, expr, pattern, escape_char, any: false } => {
                let op = if *negated { "!~~*" } else { "~~*" };
                return self.like(expr, op, pattern, escape_char.as_ref());
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char: None } => {
                let (left, pattern) = (self.value(expr)?, self.value(pattern)?);
                let (args, ty) = self.resolved("similar_to_escape", vec![pattern])?;
                let pattern = Value::of(Node::Call("similar_to_escape".to_owned(), args), ty);
                return self.applied(left, if *negated { "!~" } else { "~" }, pattern);
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.each(left, &name_of(compare_op)?, right, "ANY")?
            }
            Expr::AllOp { left, compare_op, right } => {
                self.each(left, &name_of(compare_op)?, right, "ALL")?
            }
            _ => return None,
        };
        Some(Value::boolean(node))
    }

    /// Analyses an operator before its operand.
    pub(super) fn prefixed(&mut self, op: &UnaryOperator, operand: &ast::Expr) -> Option<Value> {
        let (name, function) = match op {
            UnaryOperator::Not => {
                let condition = self.condition(operand)?;
                return Some(Value::boolean(Node::Not(Box::new(condition))));
            }
            UnaryOperator::Plus => {
                let value = self.value(operand)?;
                let ty = value.ty.filter(|ty| ty.is_number() && value.domain.is_none())?;
                return Some(Value::of(Node::Operator("+".to_owned(), vec![value.node]), bare(ty)));
            }
            UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot => {
                let name = if *op == UnaryOperator::PGSquareRoot { "|/" } else { "||/" };
                let value = self.value(operand)?;
                let arg = self.converted(value, Type::Float8, true)?;
                return Some(Value::of(Node::Operator(name.to_owned(), vec![arg]), Type::Float8));
            }
            UnaryOperator::Minus => ("-", "-"),
            UnaryOperator::BitwiseNot => ("~", "~"),
            UnaryOperator::PGAbs => ("@", "abs"),
            _ => return None,
        };
        let value = self.value(operand)?;
        let (args, ty) = self.resolved(function, vec![value])?;
        Some(Value::of(Node::Operator(name.to_owned(), args), ty))
    }

    fn binary(&mut self, left: &ast::Expr, op: &str, right: &ast::Expr) -> Option<Value> {
        if is_comparison(op)
            && let (Some(lefts), Some(rights)) = (row_of(left), row_of(right))
        {
            return self.rows(lefts, op, rights).map(Value::boolean);
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        self.applied(left, op, right)
    }

    /// Analyses a comparison with a pattern.
    fn like(
        &mut self,
        text: &ast::Expr,
        op: &str,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> Option<Value> {
        let Some(escape) = escape else { return self.binary(text, op, pattern) };
        let (text, pattern) = (self.value(text)?, self.value(pattern)?);
        let escape = Node::constant(escape.value.clone().into_string()?, Type::Text);
        let args = vec![pattern, Value::of(escape, Type::Text)];
        let (args, ty) = self.resolved("like_escape", args)?;
        self.applied(text, op, Value::of(Node::Call("like_escape".to_owned(), args), ty))
    }

    /// Applies an operator.
    fn applied(&mut self, left: Value, op: &str, right: Value) -> Option<Value> {
        if is_comparison(op) {
            return self.compared(left, op, right).map(Value::boolean);
        }
        if is_pattern(op) {
            // The left side may be of any kind of text but `character varying`.
            let of = left.ty.filter(|_| left.domain.is_none()).map(bare);
            let of = of.filter(|ty| matches!(ty, Type::Char(_) | Type::Name));
            let left = self.converted(left, of.unwrap_or(Type::Text), true)?;
            let right = self.converted(right, Type::Text, true)?;
            return Some(Value::boolean(Node::Operator(op.to_owned(), vec![left, right])));
        }
        let is_arithmetic = matches!(op, "+" | "-" | "*" | "/" | "%");
        if is_arithmetic && let Some((a, b, result)) = computed(op, left.ty, right.ty) {
            let sides = vec![self.converted(left, a, true)?, self.converted(right, b, true)?];
            return Some(Value::of(Node::Operator(op.to_owned(), sides), result));
        }
        let (args, ty) = self.resolved(op, vec![left, right])?;
        Some(Value::of(Node::Operator(op.to_owned(), args), ty))
    }

    /// Chooses the form of a function or an operator of the catalog, and converts its arguments.
    pub(super) fn resolved(&mut self, name: &str, args: Vec<Value>) -> Option<(Vec<Node>, Type)> {
        let types: Vec<_> = args.iter().map(|arg| arg.ty.map(Type::base)).collect();
        let call = function::resolve(name, function::named(name), &types).ok()?;
        // Arrays of `character varying` are not converted, and a literal becomes one of them.
        let is_array = |ty: &Type| ty.element().is_some();
        let array = args.iter().filter_map(|arg| arg.ty.filter(is_array)).map(bare).next();
        let mut converted = Vec::with_capacity(args.len());
        for (at, (arg, param)) in args.into_iter().zip(call.params).enumerate() {
            converted.push(match param {
                _ if arg.ty.is_none() && call.function.param(at) == Param::Any => match arg.node {
                    Node::Const(Const { text: Some(text), .. }) => Node::Literal(text),
                    _ => return None,
                },
                Some(ty) if self.takes_as_is(name, &arg, ty) => arg.node,
                Some(ty) if arg.ty.is_none() && array.is_some_and(|it| it.base() == ty) => {
                    self.converted(arg, array.unwrap_or(ty), true)?
                }
                Some(ty) => self.converted(arg, ty, true)?,
                None => self.settled(arg)?,
            });
        }
        Some((converted, call.result))
    }

    /// True if a function has a form for a value's type that the catalog has under another.
    fn takes_as_is(&self, name: &str, arg: &Value, param: Type) -> bool {
        let (Some(from), None) = (arg.ty, arg.domain) else { return false };
        let (from, param) = (bare(from), bare(param));
        let is_length =
            matches!(name, "length" | "char_length" | "character_length" | "octet_length");
        match (from, param) {
            (Type::Array(_), Type::Array(_)) => from.element().map(Type::base) == param.element(),
            (Type::Char(_), Type::Text) => is_length,
            (Type::Date, Type::Timestamp) => matches!(name, "date_part" | "isfinite"),
            _ => false,
        }
    }

    fn compared(&mut self, left: Value, op: &str, right: Value) -> Option<Node> {
        let (left, right) = self.sides(left, right)?;
        Some(Node::Operator(op.to_owned(), vec![left, right]))
    }

    /// Converts the sides of a comparison.
    pub(super) fn sides(&mut self, left: Value, right: Value) -> Option<(Node, Node)> {
        // Arrays are compared as they are.
        let element = |value: &Value| value.ty.filter(|ty| ty.element().is_some()).map(bare);
        let (a, b) = match (element(&left), element(&right)) {
            (Some(ty), None) if right.ty.is_none() => (ty, ty),
            (None, Some(ty)) if left.ty.is_none() => (ty, ty),
            _ => compared(left.ty, right.ty)?,
        };
        Some((self.converted(left, a, true)?, self.converted(right, b, true)?))
    }

    /// Compares two rows.
    fn rows(&mut self, lefts: &[ast::Expr], op: &str, rights: &[ast::Expr]) -> Option<Node> {
        if lefts.len() != rights.len() || lefts.is_empty() {
            return None;
        }
        let sign = match op {
            "=" | "<>" => {
                let pairs = lefts.iter().zip(rights);
                let mut parts = pairs
                    .map(|(left, right)| {
                        let (left, right) = (self.value(left)?, self.value(right)?);
                        self.compared(left, op, right)
                    })
                    .collect::<Option<Vec<_>>>()?;
                return Some(match parts.len() {
                    1 => parts.remove(0),
                    _ => either(op == "<>", parts),
                });
            }
            "<" => "<",
            "<=" => "<=",
            ">" => ">",
            _ => ">=",
        };
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (one, other) in lefts.iter().zip(rights) {
            let (one, other) = (self.value(one)?, self.value(other)?);
            let (one, other) = self.sides(one, other)?;
            left.push(one);
            right.push(other);
        }
        Some(Node::CompareRows(sign, Box::new((Node::Row(left), Node::Row(right)))))
    }

    fn null_test(&mut self, arg: &ast::Expr, test: &'static str) -> Option<Node> {
        let value = self.value(arg)?;
        Some(Node::NullTest(Box::new(self.settled(value)?), test))
    }

    fn bool_test(&mut self, arg: &ast::Expr, test: &'static str) -> Option<Node> {
        Some(Node::BoolTest(Box::new(self.condition(arg)?), test))
    }

    fn distinct(&mut self, left: &ast::Expr, right: &ast::Expr) -> Option<Node> {
        if let (Some(lefts), Some(rights)) = (row_of(left), row_of(right)) {
            if lefts.len() != rights.len() || lefts.len() < 2 {
                return None;
            }
            let parts = lefts.iter().zip(rights).map(|(left, right)| self.distinct(left, right));
            return Some(Node::Or(parts.collect::<Option<_>>()?));
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        Some(Node::Distinct(Box::new(self.sides(left, right)?)))
    }

    fn between(
        &mut self,
        value: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Option<Node> {
        let Some(low) = dialect::symmetric(low) else {
            return self.within(value, low, high, negated);
        };
        let one = self.within(value, low, high, negated)?;
        let other = self.within(value, high, low, negated)?;
        Some(either(!negated, vec![one, other]))
    }

    fn within(
        &mut self,
        value: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Option<Node> {
        let (from, to) = if negated { ("<", ">") } else { (">=", "<=") };
        let low = self.binary(value, from, low)?.node;
        let high = self.binary(value, to, high)?.node;
        Some(either(negated, vec![low, high]))
    }

    /// Analyses IN: as an array, if several of its values name no column, which have one type
    /// together with the left side.
    fn in_list(&mut self, needle: &ast::Expr, list: &[ast::Expr], negated: bool) -> Option<Node> {
        let op = if negated { "<>" } else { "=" };
        if let Some(lefts) = row_of(needle) {
            let parts = list.iter().map(|item| self.rows(lefts, op, row_of(item)?));
            let mut parts = parts.collect::<Option<Vec<_>>>()?;
            return Some(if parts.len() == 1 { parts.remove(0) } else { either(!negated, parts) });
        }
        let items = self.values(list)?;
        let is_fixed = |item: &Value| !item.node.has_column();
        let fixed: Vec<Value> = items.iter().filter(|item| is_fixed(item)).cloned().collect();
        let together = match fixed.len() > 1 {
            true => common(std::iter::once(&self.value(needle)?).chain(&fixed)),
            false => None,
        };
        let mut parts = Vec::new();
        if let Some(element) = together {
            let typed = |it: &Self, item: Value| {
                Some(Value::of(it.converted(item, element, true)?, element))
            };
            let fixed = fixed.into_iter().map(|item| typed(self, item));
            let fixed = fixed.collect::<Option<Vec<_>>>()?;
            let array = self.array(fixed, None)?;
            let quantifier = if negated { "ALL" } else { "ANY" };
            let needle = self.value(needle)?;
            parts.push(self.elements(needle, op, array, quantifier)?);
        }
        for item in items {
            if together.is_none() || !is_fixed(&item) {
                let needle = self.value(needle)?;
                parts.push(self.compared(needle, op, item)?);
            }
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { either(!negated, parts) })
    }

    /// Analyses a comparison with the elements of an array.
    fn each(
        &mut self,
        left: &ast::Expr,
        op: &str,
        array: &ast::Expr,
        quantifier: &'static str,
    ) -> Option<Node> {
        if !is_comparison(op) || matches!(inner(array), ast::Expr::Subquery(_)) {
            return None;
        }
        let (left, array) = (self.value(left)?, self.value(array)?);
        self.elements(left, op, array, quantifier)
    }

    fn elements(
        &mut self,
        left: Value,
        op: &str,
        array: Value,
        quantifier: &'static str,
    ) -> Option<Node> {
        let element = match array.ty {
            Some(ty) => Some(ty.element()?),
            None => None,
        };
        let (one, other) = compared(left.ty, element)?;
        let left = self.converted(left, one, true)?;
        let array = self.converted(array, other.array(), true)?;
        Some(Node::Each(op.to_owned(), quantifier, Box::new((left, array))))
    }
}
