//! Writes an analysed expression as PostgreSQL does: with parentheses around everything, or, in its
//! pretty form, only where they are needed.

use super::tree::{Case, Cast, Const, Node, Part, Subscript};
use super::types::bare;
use super::{Names, Style};
use crate::types::Type;

/// The columns by which the parts of CASE are indented.
const INDENT: usize = 4;
/// The indentation beyond which each level adds less.
const INDENT_LIMIT: usize = 40;

/// Returns the text of an expression.
pub(super) fn text(node: &Node, names: &Names<'_>, style: Style) -> String {
    let mut printer = Printer { out: String::new(), names, style, indent: 0 };
    printer.node(node, false);
    printer.out
}

struct Printer<'a> {
    out: String,
    names: &'a Names<'a>,
    style: Style,
    indent: usize,
}

/// Returns the basic arithmetic operator of a node with two operands: true if it binds tightly.
fn arithmetic(node: &Node) -> Option<bool> {
    match node {
        Node::Operator(op, args) if args.len() == 2 => match op.as_str() {
            "+" | "-" => Some(false),
            "*" | "/" | "%" => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// True if an operand of a parent needs no parentheses.
fn is_simple(node: &Node, parent: &Node) -> bool {
    match node {
        Node::Column(_) | Node::Const(_) | Node::Literal(_) | Node::KeyWord(_) => true,
        Node::Subscripts(..) => true,
        Node::Array(..) | Node::Row(_) | Node::Call(..) | Node::Syntax(_) | Node::Case(_) => true,
        Node::Cast(cast) => cast.is_call || is_simple(&cast.arg, node),
        Node::Operator(..) if matches!(parent, Node::Operator(..)) => {
            match (arithmetic(node), arithmetic(parent)) {
                (Some(true), Some(false)) => true,
                (Some(false), Some(true)) | (None, _) | (_, None) => false,
                // `(a - b) - c` needs none.
                _ => matches!(parent, Node::Operator(_, args)
                    if args.first().is_some_and(|first| std::ptr::eq(first, node))),
            }
        }
        Node::Operator(..) | Node::NullTest(..) | Node::BoolTest(..) | Node::Distinct(_) => {
            is_inside(parent) || matches!(parent, Node::And(_) | Node::Or(_) | Node::Not(_))
        }
        Node::And(_) => is_inside(parent) || matches!(parent, Node::And(_) | Node::Or(_)),
        Node::Or(_) => is_inside(parent) || matches!(parent, Node::Or(_)),
        Node::Not(_) => is_inside(parent) || matches!(parent, Node::And(_) | Node::Or(_)),
        Node::Each(..) | Node::Collate(..) | Node::CompareRows(..) => false,
    }
}

/// True if the operands of a node stand between brackets or key words of its own.
fn is_inside(parent: &Node) -> bool {
    matches!(
        parent,
        Node::Call(..) | Node::Subscripts(..) | Node::Array(..) | Node::Row(_) | Node::Case(_)
    )
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes between parentheses, which the pretty form leaves out.
    fn enclosed(&mut self, write: impl FnOnce(&mut Self)) {
        let encloses = self.style == Style::Plain;
        if encloses {
            self.push("(");
        }
        write(self);
        if encloses {
            self.push(")");
        }
    }

    /// Writes an operand: in parentheses where the pretty form needs them.
    fn operand(&mut self, node: &Node, parent: &Node, shows_implicit: bool) {
        match self.style == Style::Pretty && !is_simple(node, parent) {
            true => {
                self.push("(");
                self.node(node, shows_implicit);
                self.push(")");
            }
            false => self.node(node, shows_implicit),
        }
    }

    fn listed(&mut self, nodes: &[Node], between: &str, mut write: impl FnMut(&mut Self, &Node)) {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                self.push(between);
            }
            write(self, node);
        }
    }

    /// Writes operands that AND or OR joins.
    fn joined(&mut self, nodes: &[Node], between: &str, parent: &Node) {
        self.enclosed(|it| it.listed(nodes, between, |it, node| it.operand(node, parent, false)));
    }

    fn node(&mut self, node: &Node, shows_implicit: bool) {
        match node {
            Node::Column(name) | Node::KeyWord(name) => self.push(name),
            Node::Const(constant) => self.constant(constant, true),
            Node::Literal(text) => self.quoted(text),
            Node::Operator(op, args) => self.enclosed(|it| match args.as_slice() {
                [left, right] => {
                    it.operand(left, node, true);
                    it.push(&format!(" {op} "));
                    it.operand(right, node, true);
                }
                args => {
                    it.push(&format!("{op} "));
                    it.listed(args, " ", |it, arg| it.operand(arg, node, true));
                }
            }),
            Node::And(args) => self.joined(args, " AND ", node),
            Node::Or(args) => self.joined(args, " OR ", node),
            Node::Not(arg) => self.enclosed(|it| {
                it.push("NOT ");
                it.operand(arg, node, false);
            }),
            Node::NullTest(arg, test) => self.tested(arg, test, node, true),
            Node::BoolTest(arg, test) => self.tested(arg, test, node, false),
            Node::Distinct(sides) => self.enclosed(|it| {
                it.operand(&sides.0, node, true);
                it.push(" IS DISTINCT FROM ");
                it.operand(&sides.1, node, true);
            }),
            Node::Each(op, quantifier, sides) => self.enclosed(|it| {
                it.operand(&sides.0, node, true);
                it.push(&format!(" {op} {quantifier} ("));
                it.operand(&sides.1, node, true);
                it.push(")");
            }),
            Node::Cast(cast) if cast.is_implicit && !shows_implicit => {
                self.operand(&cast.arg, node, false);
            }
            Node::Cast(cast) => self.cast(cast, node),
            Node::Collate(arg, collation) => self.enclosed(|it| {
                it.operand(arg, node, shows_implicit);
                it.push(&format!(" COLLATE {collation}"));
            }),
            Node::Array(elements, ty) => {
                self.push("ARRAY[");
                self.listed(elements, ", ", |it, element| it.node(element, true));
                self.push("]");
                if elements.is_empty() {
                    self.labelled(*ty);
                }
            }
            Node::Row(fields) => {
                self.push("ROW(");
                self.listed(fields, ", ", |it, field| it.node(field, true));
                self.push(")");
            }
            Node::CompareRows(op, sides) => {
                self.push("(");
                self.node(&sides.0, true);
                self.push(&format!(" {op} "));
                self.node(&sides.1, true);
                self.push(")");
            }
            Node::Subscripts(root, all) => self.subscripts(root, all, shows_implicit),
            Node::Case(case) => self.case(case),
            Node::Call(name, args) => {
                self.push(&format!("{name}("));
                self.listed(args, ", ", |it, arg| it.node(arg, true));
                self.push(")");
            }
            Node::Syntax(parts) => {
                for part in parts {
                    match part {
                        Part::Word(word) => self.push(word),
                        Part::Arg(arg) => self.node(arg, false),
                        Part::Operand(arg) => self.operand(arg, node, false),
                    }
                }
            }
        }
    }

    fn tested(&mut self, arg: &Node, test: &str, parent: &Node, shows_implicit: bool) {
        self.enclosed(|it| {
            it.operand(arg, parent, shows_implicit);
            it.push(&format!(" {test}"));
        });
    }

    fn quoted(&mut self, text: &str) {
        self.push(&format!("'{}'", text.replace('\'', "''")));
    }

    fn labelled(&mut self, ty: Type) {
        let label = (self.names.ty)(ty);
        self.push(&format!("::{label}"));
    }

    fn constant(&mut self, constant: &Const, has_label: bool) {
        let Const { text, ty } = constant;
        let Some(text) = text else {
            self.push("NULL");
            return if has_label {
                self.labelled(*ty)
            };
        };
        let is_unsigned = text.starts_with(|c: char| c.is_ascii_digit());
        let (is_bare, is_labelled) = match ty {
            Type::Bool => (true, false),
            Type::Int4 => (is_unsigned, !is_unsigned),
            Type::Numeric(_) => {
                let is_float = is_unsigned && text.contains(['e', 'E', '.']);
                (is_float, !is_float)
            }
            _ => (false, true),
        };
        match is_bare {
            true => self.push(text),
            false => self.quoted(text),
        }
        if is_labelled && has_label {
            self.labelled(*ty);
        }
    }

    fn cast(&mut self, cast: &Cast, node: &Node) {
        let Cast { arg, ty, domain, .. } = cast;
        match &**arg {
            Node::Const(constant) if domain.is_none() && constant.ty == bare(*ty) => {
                self.constant(constant, false);
            }
            arg => self.enclosed(|it| it.operand(arg, node, false)),
        }
        match domain {
            Some(domain) => {
                let label = (self.names.domain)(*domain);
                self.push(&format!("::{label}"));
            }
            None => self.labelled(*ty),
        }
    }

    fn subscripts(&mut self, root: &Node, all: &[Subscript], shows_implicit: bool) {
        match root {
            Node::Column(_) => self.node(root, shows_implicit),
            _ => {
                self.push("(");
                self.node(root, shows_implicit);
                self.push(")");
            }
        }
        for subscript in all {
            self.push("[");
            match subscript {
                Subscript::At(at) => self.node(at, false),
                Subscript::Slice(from, to) => {
                    from.iter().for_each(|from| self.node(from, false));
                    self.push(":");
                    to.iter().for_each(|to| self.node(to, false));
                }
            }
            self.push("]");
        }
    }

    /// Begins a part of CASE: on a line of its own.
    fn begin(&mut self, word: &str) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        let indent = match self.indent.checked_sub(INDENT_LIMIT) {
            None => self.indent,
            Some(beyond) => (INDENT_LIMIT + beyond / INDENT) % INDENT_LIMIT,
        };
        self.push(&format!("\n{:indent$}{word}", ""));
    }

    fn case(&mut self, case: &Case) {
        let Case { operand, branches, otherwise } = case;
        self.begin("CASE");
        self.indent += INDENT;
        if let Some(operand) = operand {
            self.push(" ");
            self.node(operand, true);
        }
        for (condition, result) in branches {
            self.begin("WHEN ");
            self.node(condition, false);
            self.push(" THEN ");
            self.node(result, true);
        }
        self.begin("ELSE ");
        self.node(otherwise, true);
        self.indent -= INDENT;
        self.begin("END");
    }
}
