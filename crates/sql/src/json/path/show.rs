//! Shows a path in PostgreSQL's normal form.

use super::{Id, Kind, Path, Steps};
use crate::interrupt;
use crate::json::write_string;
use crate::stack;
use std::fmt::{self, Write};

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps();
        let mut out = String::new();
        if steps.is_strict {
            out.push_str("strict ");
        }
        chain(steps, steps.root, true, &mut out)?;
        f.write_str(&out)
    }
}

/// The priority of an operator: the operand of a higher one needs no brackets.
fn priority(kind: &Kind) -> u8 {
    use super::Arithmetic::{Minus, Plus};
    match kind {
        Kind::Or(..) => 0,
        Kind::And(..) => 1,
        Kind::Compare(..) | Kind::StartsWith(..) => 2,
        Kind::Arithmetic(Plus | Minus, ..) => 3,
        Kind::Arithmetic(..) => 4,
        Kind::Sign(..) => 5,
        _ => 6,
    }
}

/// Writes a step and those that are applied to its result.
fn chain(steps: &Steps, first: Id, brackets: bool, out: &mut String) -> fmt::Result {
    let mut at = Some((first, brackets));
    while let Some((id, brackets)) = at {
        interrupt::step();
        stack::level(|| step(steps, id, id != first, brackets, out))?;
        at = steps.next(id).map(|next| (next, true));
    }
    Ok(())
}

/// Writes an operand, in brackets if its operator is no higher.
fn operand(steps: &Steps, of: &Kind, id: Id, out: &mut String) -> fmt::Result {
    chain(steps, id, priority(steps.kind(id)) <= priority(of), out)
}

fn step(steps: &Steps, id: Id, is_accessor: bool, brackets: bool, out: &mut String) -> fmt::Result {
    let kind = steps.kind(id);
    let dot = if is_accessor { "." } else { "" };
    match kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(b) => write!(out, "{b}")?,
        Kind::Number(n) if steps.next(id).is_some() => write!(out, "({n})")?,
        Kind::Number(n) => write!(out, "{n}")?,
        Kind::String(text) => write_string(text, out),
        Kind::Variable(name) => {
            out.push('$');
            write_string(name, out);
        }
        Kind::Root => out.push('$'),
        Kind::Current => out.push('@'),
        Kind::Last => out.push_str("last"),
        Kind::Key(key) => {
            out.push_str(dot);
            write_string(key, out);
        }
        Kind::AnyKey => write!(out, "{dot}*")?,
        Kind::AnyItem => out.push_str("[*]"),
        Kind::Items(ranges) => {
            for (at, (from, to)) in ranges.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                chain(steps, *from, false, out)?;
                if let Some(to) = to {
                    out.push_str(" to ");
                    chain(steps, *to, false, out)?;
                }
            }
            out.push(']');
        }
        Kind::AnyLevel(from, to) => {
            write!(out, "{dot}**")?;
            let shown = |level: &Option<u32>| level.map_or("last".to_owned(), |n| n.to_string());
            match (from, to) {
                (Some(0), None) => {}
                (from, to) if from == to => write!(out, "{{{}}}", shown(from))?,
                (from, to) => write!(out, "{{{} to {}}}", shown(from), shown(to))?,
            }
        }
        Kind::Filter(condition) => {
            out.push_str("?(");
            chain(steps, *condition, false, out)?;
            out.push(')');
        }
        Kind::Method(method) => write!(out, ".{}()", method.name())?,
        Kind::Datetime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                write_string(template, out);
            }
            out.push(')');
        }
        Kind::Not(condition) => {
            out.push_str("!(");
            chain(steps, *condition, false, out)?;
            out.push(')');
        }
        Kind::IsUnknown(condition) => {
            out.push('(');
            chain(steps, *condition, false, out)?;
            out.push_str(") is unknown");
        }
        Kind::Exists(path) => {
            out.push_str("exists (");
            chain(steps, *path, false, out)?;
            out.push(')');
        }
        operator => {
            if brackets {
                out.push('(');
            }
            operation(steps, operator, out)?;
            if brackets {
                out.push(')');
            }
        }
    }
    Ok(())
}

/// Writes an operator between its operands.
fn operation(steps: &Steps, kind: &Kind, out: &mut String) -> fmt::Result {
    let (left, sign, right) = match kind {
        Kind::And(left, right) => (left, "&&", right),
        Kind::Or(left, right) => (left, "||", right),
        Kind::Compare(comparison, left, right) => (left, comparison.sign(), right),
        Kind::Arithmetic(arithmetic, left, right) => (left, arithmetic.sign(), right),
        Kind::StartsWith(whole, start) => (whole, "starts with", start),
        Kind::Sign(is_minus, of) => {
            out.push(if *is_minus { '-' } else { '+' });
            return operand(steps, kind, *of, out);
        }
        Kind::LikeRegex(of, regex) => {
            operand(steps, kind, *of, out)?;
            out.push_str(" like_regex ");
            write_string(&regex.pattern, out);
            if !regex.flags.is_empty() {
                write!(out, " flag \"{}\"", regex.flags)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    operand(steps, kind, *left, out)?;
    write!(out, " {sign} ")?;
    operand(steps, kind, *right, out)
}
