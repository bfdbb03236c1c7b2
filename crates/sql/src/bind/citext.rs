//! Functions and operators of texts whose first operand is a `citext`: they disregard case.

use super::{Binder, Typed};
use crate::base_type::Kind;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::types::Type;

/// The characters that mean something in a regular expression, and the text that quotes one.
const QUOTED: (&str, &str) = ("([^a-zA-Z_0-9])", "\\\\\\1");

/// True for a type of texts without regard to case.
pub(super) fn is_citext(ty: Option<Type>) -> bool {
    matches!(ty, Some(Type::Base(of)) if of.kind() == Kind::Citext)
}

/// True if an operator of texts disregards case for operands of these types.
pub(super) fn folds(left: Option<Type>, right: Option<Type>) -> bool {
    is_citext(left) || left.is_none() && is_citext(right)
}

/// Returns the operator of regular expressions that disregards case.
pub(super) fn folding(operator: &str) -> &str {
    match operator {
        "~" => "~*",
        "!~" => "!~*",
        other => other,
    }
}

fn text(text: &str) -> Typed {
    Typed::of(Expr::Const(Datum::text(text)), Type::Text)
}

impl Binder {
    fn as_text(&mut self, value: Typed) -> Result<Typed, SqlError> {
        Ok(Typed::of(self.coerce(value, Type::Text, false)?, Type::Text))
    }

    /// True if a function of texts is one that disregards case: its first two arguments are of type
    /// `citext`, or the second is a literal.
    pub(super) fn is_folding_call(&self, name: &str, args: &[Typed]) -> bool {
        let names = [
            "regexp_match",
            "regexp_matches",
            "regexp_replace",
            "regexp_split_to_array",
            "regexp_split_to_table",
            "replace",
            "split_part",
            "strpos",
            "translate",
        ];
        let [first, second, ..] = args else { return false };
        let (first, second) = (self.type_of(first), self.type_of(second));
        names.contains(&name) && folds(first, second) && (second.is_none() || is_citext(second))
    }

    /// Binds a [call](Self::is_folding_call) by the function of texts. Fails with 0A000 if it has
    /// flags.
    pub(super) fn folding_call(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let mut args = args.into_iter();
        let (Some(first), Some(second)) = (args.next(), args.next()) else {
            return Err(crate::function::missing(name, &[]));
        };
        let (first, second) = (self.as_text(first)?, self.as_text(second)?);
        let rest: Vec<Typed> = args.collect();
        match (name, rest.as_slice()) {
            ("strpos", []) => {
                let sides = [first, second].map(|side| self.apply("lower", vec![side]));
                let sides = sides.into_iter().collect::<Result<_, _>>()?;
                self.apply(name, sides)
            }
            ("replace", [by]) => {
                let pattern = self.quoted_pattern(second)?;
                self.apply("regexp_replace", vec![first, pattern, by.clone(), text("gi")])
            }
            ("regexp_replace", [by]) => {
                self.apply(name, vec![first, second, by.clone(), text("i")])
            }
            ("split_part", [at]) => {
                let pattern = self.quoted_pattern(second)?;
                let parts = self.apply("regexp_split_to_array", vec![first, pattern, text("i")])?;
                self.apply("[]", vec![parts, at.clone()])
            }
            ("translate", [to]) => {
                let lower = self.apply("lower", vec![second.clone()])?;
                let upper = self.apply("upper", vec![second])?;
                let once = self.apply(name, vec![first, lower, to.clone()])?;
                self.apply(name, vec![once, upper, to.clone()])
            }
            (_, []) => self.apply(name, vec![first, second, text("i")]),
            _ => Err(SqlError::unsupported(format!("flags of {name} of citext"))),
        }
    }

    /// Returns a regular expression that finds a text.
    fn quoted_pattern(&mut self, of: Typed) -> Result<Typed, SqlError> {
        let args = vec![of, text(QUOTED.0), text(QUOTED.1), text("g")];
        self.apply("regexp_replace", args)
    }
}
