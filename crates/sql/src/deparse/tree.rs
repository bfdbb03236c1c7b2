//! Expressions as PostgreSQL keeps them once they are analysed: with each conversion, and with the
//! operators that stand for BETWEEN, IN and LIKE.

use crate::domain::Domain;
use crate::types::Type;

/// An analysed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A column, by its name as SQL writes it.
    Column(String),
    Const(Const),
    /// A literal that has no type: an argument of any.
    Literal(String),
    /// A value that is a key word: `CURRENT_USER`.
    KeyWord(String),
    /// An operator before its operand, or between two.
    Operator(String, Vec<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// A test behind its operand: `IS NULL`.
    NullTest(Box<Node>, &'static str),
    /// `IS TRUE` and others.
    BoolTest(Box<Node>, &'static str),
    Distinct(Box<(Node, Node)>),
    /// An operator, and whether it must hold for all elements of an array, or for any.
    Each(String, &'static str, Box<(Node, Node)>),
    Cast(Cast),
    Collate(Box<Node>, String),
    /// The elements of an array, and its type.
    Array(Vec<Node>, Type),
    Row(Vec<Node>),
    /// A comparison of two rows other than `=` and `<>`.
    CompareRows(&'static str, Box<(Node, Node)>),
    Subscripts(Box<Node>, Vec<Subscript>),
    Case(Case),
    /// `name(…)`, by its name as SQL writes it; also COALESCE and others.
    Call(String, Vec<Node>),
    /// A call that has a syntax of its own.
    Syntax(Vec<Part>),
}

/// A constant; NULL has no text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Const {
    pub(super) text: Option<String>,
    pub(super) ty: Type,
}

/// A conversion to a type, or to a domain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cast {
    pub(super) arg: Box<Node>,
    pub(super) ty: Type,
    pub(super) domain: Option<Domain>,
    /// True if no `CAST` is written for it.
    pub(super) is_implicit: bool,
    /// True if PostgreSQL calls a function for it, rather than converting by way of text.
    pub(super) is_call: bool,
}

/// `[at]`, or `[from:to]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subscript {
    At(Node),
    Slice(Option<Node>, Option<Node>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) operand: Option<Box<Node>>,
    /// With an operand, the values that it is compared with.
    pub(super) branches: Vec<(Node, Node)>,
    pub(super) otherwise: Box<Node>,
}

/// A part of a call with a syntax of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Word(String),
    Arg(Node),
    /// An operand: in parentheses unless it is simple, where these are left out.
    Operand(Node),
}

impl Node {
    /// A constant.
    pub(super) fn constant(text: impl Into<String>, ty: Type) -> Node {
        Node::Const(Const { text: Some(text.into()), ty })
    }

    /// True if it names a column.
    pub(super) fn has_column(&self) -> bool {
        let any = |nodes: &[Node]| nodes.iter().any(Node::has_column);
        let both = |sides: &(Node, Node)| sides.0.has_column() || sides.1.has_column();
        match self {
            Node::Column(_) => true,
            Node::Const(_) | Node::Literal(_) | Node::KeyWord(_) => false,
            Node::Operator(_, args) | Node::Array(args, _) | Node::Call(_, args) => any(args),
            Node::And(args) | Node::Or(args) | Node::Row(args) => any(args),
            Node::Not(arg) | Node::NullTest(arg, _) | Node::BoolTest(arg, _) => arg.has_column(),
            Node::Collate(arg, _) | Node::Cast(Cast { arg, .. }) => arg.has_column(),
            Node::Distinct(sides) | Node::Each(_, _, sides) => both(sides),
            Node::CompareRows(_, sides) => both(sides),
            Node::Subscripts(root, all) => {
                root.has_column() || all.iter().flat_map(Subscript::nodes).any(Node::has_column)
            }
            Node::Case(Case { operand, branches, otherwise }) => {
                operand.as_ref().is_some_and(|operand| operand.has_column())
                    || branches.iter().any(both)
                    || otherwise.has_column()
            }
            Node::Syntax(parts) => parts.iter().any(|part| match part {
                Part::Word(_) => false,
                Part::Arg(node) | Part::Operand(node) => node.has_column(),
            }),
        }
    }
}

impl Subscript {
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        let (first, second) = match self {
            Subscript::At(at) => (Some(at), None),
            Subscript::Slice(from, to) => (from.as_ref(), to.as_ref()),
        };
        first.into_iter().chain(second)
    }
}
