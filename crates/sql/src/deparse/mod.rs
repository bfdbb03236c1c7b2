//! Shows stored expressions as PostgreSQL does: with the type of each constant, with each
//! conversion, and with the operators that stand for BETWEEN, IN and LIKE.
//!
//! ```text
//!   stored text ─▶ parsed expression ─▶ analysed expression ─▶ text
//!                                       (analyse, types)       (print)
//! ```
//!
//! The bound expression of [`expr`](crate::expr) is made to be evaluated: constants are converted,
//! and kinds of text are one. PostgreSQL shows what was there before, so that the parsed expression
//! is analysed for its own sake. It has been bound when it was stored; what cannot be shown as
//! PostgreSQL would is `None`, and the stored text is shown instead.

mod analyse;
mod calls;
mod operators;
mod print;
#[cfg(test)]
mod tests;
mod tree;
mod types;

use crate::catalog::Table;
use crate::datetime::Zone;
use crate::domain::Domain;
use crate::names::NamedTypes;
use crate::parse;
use crate::stack;
use crate::types::Type;
use analyse::Analysis;
use tree::Node;

/// The names of the objects that expressions name by their ids.
pub(crate) struct Names<'a> {
    /// Returns the name of a type, with its modifier.
    pub(crate) ty: &'a dyn Fn(Type) -> String,
    pub(crate) domain: &'a dyn Fn(Domain) -> String,
    pub(crate) relation: &'a dyn Fn(u32) -> Option<String>,
    /// The zone in which times are shown.
    pub(crate) zone: &'a Zone,
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// With parentheses around each operator.
    Plain,
    /// With those that are needed.
    Pretty,
}

impl Style {
    pub(crate) fn of(is_pretty: bool) -> Style {
        if is_pretty { Style::Pretty } else { Style::Plain }
    }
}

/// The columns that an expression may name.
#[derive(Clone, Copy)]
pub(crate) enum Columns<'a> {
    None,
    Of(&'a Table),
    /// The value of a domain over a type.
    Value(Type),
}

/// The place of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Condition,
    /// A value for a column of a type.
    Value(Type),
    /// An expression of an index.
    Key,
}

/// An expression as PostgreSQL shows it.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// True if it needs no parentheses in the definition of an index: a call, or a column.
    pub(crate) is_call: bool,
    /// The collation of an expression of an index.
    pub(crate) collation: Option<String>,
}

/// The depth of the deepest expression that is analysed.
const DEEPEST: usize = 60;
/// The parts of the largest expression that is analysed. BETWEEN has its operand twice, so that
/// what is shown may be much longer than what is stored.
const LARGEST: usize = 20_000;

/// Shows a stored expression. `types` are those of the database that it may name.
pub(crate) fn shown(
    text: &str,
    columns: Columns<'_>,
    types: NamedTypes,
    place: Place,
    style: Style,
    names: &Names<'_>,
) -> Option<Shown> {
    let parsed = parse::expression(text).ok()?;
    stack::with_room(DEEPEST, || {
        let mut analysis = Analysis::new(columns, types, names);
        let (node, collation) = match analysis.whole(&parsed, place)? {
            Node::Collate(inner, collation) if place == Place::Key => (*inner, Some(collation)),
            node => (node, None),
        };
        let is_call =
            matches!(node, Node::Call(..) | Node::Syntax(_) | Node::KeyWord(_) | Node::Column(_));
        Some(Shown { text: print::text(&node, names, style), is_call, collation })
    })
}
