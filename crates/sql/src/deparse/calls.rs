//! Analyses calls of functions, and the constructs that look like some.

use super::analyse::{Analysis, Value};
use super::tree::{Case, Const, Node, Part};
use super::types::common;
use crate::function;
use crate::names;
use crate::system::quoted;
use crate::types::Type;
use sqlparser::ast::{self, TrimWhereField};

/// The values that are key words, with their types.
const KEY_WORDS: [(&str, Type); 10] = [
    ("current_catalog", Type::Name),
    ("current_date", Type::Date),
    ("current_role", Type::Name),
    ("current_schema", Type::Name),
    ("current_time", Type::TimeTz),
    ("current_timestamp", Type::TimestampTz),
    ("current_user", Type::Name),
    ("localtime", Type::Time),
    ("localtimestamp", Type::Timestamp),
    ("session_user", Type::Name),
];

fn word(text: &str) -> Part {
    Part::Word(text.to_owned())
}

impl Analysis<'_> {
    /// Returns the value of a key word.
    pub(super) fn key_word(&self, name: &str, is_quoted: bool) -> Option<Value> {
        let (_, ty) = KEY_WORDS.iter().find(|(word, _)| *word == name && !is_quoted)?;
        Some(Value::of(Node::KeyWord(name.to_uppercase()), *ty))
    }

    /// Analyses a call; `None` for other expressions.
    pub(super) fn call(&mut self, expr: &ast::Expr) -> Option<Value> {
        use ast::Expr;
        match expr {
            Expr::Function(call) => self.function(call),
            Expr::Floor { expr, .. } => self.called("floor", &[expr]),
            Expr::Ceil { expr, .. } => self.called("ceil", &[expr]),
            Expr::Extract { field, syntax: ast::ExtractSyntax::From, expr } => {
                let name = match field {
                    ast::DateTimeField::Custom(name) => name.value.clone(),
                    field => field.to_string(),
                };
                let name = name.to_lowercase();
                let value = self.value(expr)?;
                let field = Node::Const(Const { text: Some(name.clone()), ty: Type::Text });
                let field = Value { node: field, ty: None, domain: None };
                let (mut args, ty) = self.resolved("extract", vec![field, value])?;
                let begin = format!("EXTRACT({} FROM ", quoted(&name));
                let parts = vec![Part::Word(begin), Part::Arg(args.pop()?), word(")")];
                Some(Value::of(Node::Syntax(parts), ty))
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let args = vec![self.value(time_zone)?, self.value(timestamp)?];
                let (args, ty) = self.resolved("timezone", args)?;
                let [zone, time] = <[Node; 2]>::try_from(args).ok()?;
                let operands = [Part::Operand(time), word(" AT TIME ZONE "), Part::Operand(zone)];
                let parts = [word("(")].into_iter().chain(operands).chain([word(")")]);
                Some(Value::of(Node::Syntax(parts.collect()), ty))
            }
            Expr::Position { expr, r#in } => {
                let args = vec![self.value(r#in)?, self.value(expr)?];
                let (args, ty) = self.resolved("position", args)?;
                let [text, part] = <[Node; 2]>::try_from(args).ok()?;
                let begin = [word("POSITION(("), Part::Arg(part), word(") IN (")];
                let parts = begin.into_iter().chain([Part::Arg(text), word("))")]);
                Some(Value::of(Node::Syntax(parts.collect()), ty))
            }
            Expr::Substring { expr, substring_from, substring_for, special, shorthand } => {
                let name = if *shorthand { "substr" } else { "substring" };
                let from = substring_from.as_deref();
                let args: Vec<&Expr> =
                    [Some(&**expr), from, substring_for.as_deref()].into_iter().flatten().collect();
                if *special || *shorthand {
                    return self.called(name, &args);
                }
                from?;
                self.substring(&args)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![&**expr, &**overlay_what, &**overlay_from];
                args.extend(overlay_for.as_deref());
                let words = ["OVERLAY(", " PLACING ", " FROM ", " FOR "];
                self.with_syntax("overlay", &args, &words)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let (name, side) = match trim_where {
                    Some(TrimWhereField::Leading) => ("ltrim", "LEADING"),
                    Some(TrimWhereField::Trailing) => ("rtrim", "TRAILING"),
                    _ => ("btrim", "BOTH"),
                };
                let mut args = vec![&**expr];
                // The parser adds the blank that is trimmed by default.
                let is_blank = |it: &&Expr| {
                    let Expr::Value(value) = it else { return false };
                    matches!(&value.value, ast::Value::SingleQuotedString(text) if text == " ")
                };
                args.extend(trim_what.as_deref().filter(|what| !is_blank(what)));
                let args = args.into_iter().map(|arg| self.value(arg)).collect::<Option<_>>()?;
                let (args, ty) = self.resolved(name, args)?;
                let mut args = args.into_iter();
                let text = args.next()?;
                let mut parts = vec![Part::Word(format!("TRIM({side} "))];
                if let Some(what) = args.next() {
                    parts.extend([Part::Arg(what), word(" ")]);
                }
                parts.extend([word("FROM "), Part::Arg(text), word(")")]);
                Some(Value::of(Node::Syntax(parts), ty))
            }
            _ => None,
        }
    }

    /// Analyses `(a, b) OVERLAPS (c, d)`.
    pub(super) fn overlaps(&mut self, left: &[ast::Expr], right: &[ast::Expr]) -> Option<Value> {
        let args = self.values(left)?.into_iter().chain(self.values(right)?).collect();
        let (args, ty) = self.resolved("overlaps", args)?;
        let [a, b, c, d] = <[Node; 4]>::try_from(args).ok()?;
        let words = ["((", ", ", ") OVERLAPS (", ", "];
        let parts = words.iter().zip([a, b, c, d]).flat_map(|(it, arg)| [word(it), Part::Arg(arg)]);
        Some(Value::of(Node::Syntax(parts.chain([word("))")]).collect()), ty))
    }

    /// Analyses `SUBSTRING(text FROM …)`: that of a pattern is shown as a plain call.
    fn substring(&mut self, args: &[&ast::Expr]) -> Option<Value> {
        let second = self.value(args.get(1)?)?;
        match second.ty.is_some_and(Type::is_integer) {
            true => self.with_syntax("substring", args, &["SUBSTRING(", " FROM ", " FOR "]),
            false if args.len() == 2 => self.called("substring", args),
            false => None,
        }
    }

    /// Analyses a call whose arguments have a word before each.
    fn with_syntax(&mut self, name: &str, args: &[&ast::Expr], words: &[&str]) -> Option<Value> {
        let args = args.iter().map(|arg| self.value(arg)).collect::<Option<_>>()?;
        let (args, ty) = self.resolved(name, args)?;
        let parts = words.iter().zip(args).flat_map(|(it, arg)| [word(it), Part::Arg(arg)]);
        let parts = parts.chain([word(")")]).collect();
        Some(Value::of(Node::Syntax(parts), ty))
    }

    fn called(&mut self, name: &str, args: &[&ast::Expr]) -> Option<Value> {
        let args = args.iter().map(|arg| self.value(arg)).collect::<Option<Vec<_>>>()?;
        // The binder adds the blanks of a padded text.
        let is_padded = |arg: &Value| matches!(arg.ty, Some(Type::Char(_)));
        if function::makes_json(name) && args.iter().any(is_padded) {
            return None;
        }
        let (args, ty) = self.resolved(name, args)?;
        Some(Value::of(Node::Call(quoted(name), args), ty))
    }

    fn function(&mut self, call: &ast::Function) -> Option<Value> {
        let ast::Function { name, parameters, args, filter, null_treatment, over, .. } = call;
        let is_plain = matches!(parameters, ast::FunctionArguments::None)
            && filter.is_none()
            && null_treatment.is_none()
            && over.is_none()
            && call.within_group.is_empty();
        let is_builtin = match name.0.as_slice() {
            [_] => true,
            [schema, _] => schema.as_ident().is_some_and(|it| names::fold(it) == "pg_catalog"),
            _ => false,
        };
        let name = names::function_name(name);
        match args {
            _ if !is_plain || !is_builtin => return None,
            ast::FunctionArguments::None => return self.key_word(&name, false),
            ast::FunctionArguments::List(list) if list.duplicate_treatment.is_some() => {
                return None;
            }
            ast::FunctionArguments::List(list) if !list.clauses.is_empty() => return None,
            _ => {}
        }
        let args = names::arguments(call).ok()?;
        match name.as_str() {
            "coalesce" | "greatest" | "least" => return self.common_call(&name, &args),
            "nullif" => return self.nullif(&args),
            "pg_typeof" | "enum_first" | "enum_last" | "enum_range" => return None,
            // A precision stands behind the key word.
            name if KEY_WORDS.iter().any(|(word, _)| *word == name) => {
                let [precision] = args.as_slice() else { return None };
                let Node::Const(Const { text: Some(digits), ty: Type::Int4 }) =
                    self.value(precision)?.node
                else {
                    return None;
                };
                let value = self.key_word(name, false)?;
                let shown = format!("{}({digits})", name.to_uppercase());
                return Some(Value { node: Node::KeyWord(shown), ..value });
            }
            name if function::named(name).is_empty() => return None,
            _ => {}
        }
        self.called(&name, &args)
    }

    /// Analyses a call whose arguments have one type.
    fn common_call(&mut self, name: &str, args: &[&ast::Expr]) -> Option<Value> {
        let values = args.iter().map(|arg| self.value(arg)).collect::<Option<Vec<_>>>()?;
        let ty = common(&values)?;
        let args = values.into_iter().map(|value| self.converted(value, ty, true));
        let args = args.collect::<Option<_>>()?;
        Some(Value::of(Node::Call(name.to_uppercase(), args), ty))
    }

    fn nullif(&mut self, args: &[&ast::Expr]) -> Option<Value> {
        let [left, right] = args else { return None };
        let (left, right) = (self.value(left)?, self.value(right)?);
        let (from, other) = (left.ty, right.ty);
        let (left, right) = self.sides(left, right)?;
        let ty = super::types::compared(from, other)?.0;
        Some(Value::of(Node::Call("NULLIF".to_owned(), vec![left, right]), ty))
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Option<Value> {
        let operand = match operand {
            None => None,
            Some(operand) => {
                let value = self.value(operand)?;
                let ty = value.ty.unwrap_or(Type::Text);
                let domain = value.domain;
                Some(Value { node: self.settled(value)?, ty: Some(ty), domain })
            }
        };
        let null = Const { text: None, ty: Type::Text };
        let mut results = vec![match otherwise {
            Some(otherwise) => self.value(otherwise)?,
            None => Value { node: Node::Const(null), ty: None, domain: None },
        }];
        let mut guards = Vec::with_capacity(conditions.len());
        for when in conditions {
            guards.push(match &operand {
                None => self.condition(&when.condition)?,
                Some(operand) => {
                    let right = self.value(&when.condition)?;
                    // Its type decides about the other side.
                    let left = Value { node: Node::Row(Vec::new()), ..*operand };
                    self.sides(left, right)?.1
                }
            });
            results.push(self.value(&when.result)?);
        }
        let ty = common(&results)?;
        let results = results.into_iter().map(|result| self.converted(result, ty, true));
        let mut results = results.collect::<Option<Vec<_>>>()?;
        let otherwise = Box::new(results.remove(0));
        let branches = guards.into_iter().zip(results).collect();
        let operand = operand.map(|operand| Box::new(operand.node));
        Some(Value::of(Node::Case(Case { operand, branches, otherwise }), ty))
    }
}
