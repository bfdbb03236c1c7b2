//! The text of a logical plan, for golden tests.

use super::{JoinKind, Rel, SetOp, Wants};
use crate::expr::Expr;
use std::fmt;

impl fmt::Display for Rel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, 0)
    }
}

impl Rel {
    fn show(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", depth * 2)?;
        match self {
            Rel::Values { columns, rows } => write!(f, "values {columns:?}: {} rows", rows.len())?,
            Rel::Scan { table, columns } => write!(f, "scan {} {columns:?}", table.name)?,
            Rel::Filter { condition, .. } => write!(f, "filter {condition}")?,
            Rel::Project { outputs, .. } => {
                write!(f, "project")?;
                for (id, expr) in outputs {
                    write!(f, " #{id}={expr}")?;
                }
            }
            Rel::Join(join) => {
                let kind = match join.kind {
                    JoinKind::Inner => "inner",
                    JoinKind::Left => "left",
                    JoinKind::Full => "full",
                    JoinKind::Semi => "semi",
                    JoinKind::Anti => "anti",
                    JoinKind::Single => "single",
                    JoinKind::Mark(_) => "mark",
                };
                write!(f, "{kind} join on {}", join.on)?;
                if let JoinKind::Mark(mark) = join.kind {
                    write!(f, " as #{mark}")?;
                }
            }
            Rel::Aggregate { keys, sets, aggregates, .. } => {
                write!(f, "aggregate by {keys:?}")?;
                if let Some(sets) = sets {
                    write!(f, " in sets {:?}", sets.sets)?;
                    sets.marks.iter().try_for_each(|(id, marks)| write!(f, " #{id}={marks:?}"))?;
                }
                for (id, aggregate) in aggregates {
                    write!(f, " #{id}={:?}(", aggregate.function)?;
                    list(f, &aggregate.args, ", ")?;
                    write!(f, ")")?;
                }
            }
            Rel::Window(window) => {
                write!(f, "window by {:?}", window.partition)?;
                for key in &window.order {
                    write!(f, " #{}{}", key.column, if key.descending { " desc" } else { "" })?;
                }
                for (id, call) in &window.calls {
                    write!(f, " #{id}={}(", call.name())?;
                    for (at, expr) in call.exprs().iter().enumerate() {
                        write!(f, "{}{expr}", if at > 0 { ", " } else { "" })?;
                    }
                    write!(f, ")")?;
                }
            }
            Rel::Distinct { on, .. } => write!(f, "distinct on {on:?}")?,
            Rel::Sort { by, .. } => {
                write!(f, "sort by")?;
                for key in by {
                    write!(f, " #{}{}", key.column, if key.descending { " desc" } else { "" })?;
                }
            }
            Rel::Limit { limit, offset, .. } => {
                write!(f, "limit")?;
                if let Some(limit) = limit {
                    write!(f, " {limit}")?;
                }
                if let Some(offset) = offset {
                    write!(f, " offset {offset}")?;
                }
            }
            Rel::Lock { locks, .. } => {
                write!(f, "lock {:?}", locks.iter().map(|locks| locks.of).collect::<Vec<_>>())?;
            }
            Rel::Set(set) => {
                let op = match set.op {
                    SetOp::Union => "union",
                    SetOp::Intersect => "intersect",
                    SetOp::Except => "except",
                };
                write!(f, "{op}{} {:?}", if set.all { " all" } else { "" }, set.columns)?;
            }
            Rel::With { name, .. } => write!(f, "with {name}")?,
            Rel::Named { name, columns, .. } => write!(f, "named {name} {columns:?}")?,
            Rel::Recursive(query) => {
                let all = if query.all { " all" } else { "" };
                write!(f, "recursive{all} {} {:?}", query.name, query.columns)?;
            }
            Rel::Functions(functions) => {
                write!(f, "functions {:?}", functions.columns)?;
                for (function, args) in &functions.calls {
                    write!(f, " {}", Expr::Call(function, args.clone()))?;
                }
            }
        }
        writeln!(f)?;
        self.inputs().into_iter().try_for_each(|input| input.show(f, depth + 1))
    }
}

fn list(f: &mut fmt::Formatter<'_>, parts: &[Expr], between: &str) -> fmt::Result {
    let mut parts = parts.iter().enumerate();
    parts.try_for_each(|(at, part)| write!(f, "{}{part}", if at > 0 { between } else { "" }))
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Const(datum) => write!(f, "{datum:?}"),
            Expr::Param(at) => write!(f, "${}", at + 1),
            Expr::Column(id) => write!(f, "#{id}"),
            Expr::Compare(op, sides) => write!(f, "({} {op:?} {})", sides.0, sides.1),
            Expr::Arith(op, _, sides) => write!(f, "({} {op:?} {})", sides.0, sides.1),
            Expr::Distinct(sides, negated) => {
                let not = if *negated { "not " } else { "" };
                write!(f, "({} is {not}distinct from {})", sides.0, sides.1)
            }
            Expr::And(all) => {
                write!(f, "(")?;
                list(f, all, " and ")?;
                write!(f, ")")
            }
            Expr::Or(all) => {
                write!(f, "(")?;
                list(f, all, " or ")?;
                write!(f, ")")
            }
            Expr::Not(inner) => write!(f, "not {inner}"),
            Expr::IsNull(inner, negated) => {
                write!(f, "{inner} is {}null", if *negated { "not " } else { "" })
            }
            Expr::IsBool(inner, value, negated) => {
                write!(f, "{inner} is {}{value}", if *negated { "not " } else { "" })
            }
            Expr::Cast(inner, ty, _) => write!(f, "{inner}::{}", ty.name()),
            Expr::Domain(inner, domain) => write!(f, "{inner}::{}", domain.shown()),
            Expr::Call(function, args) => {
                write!(f, "{function:?}(")?;
                list(f, args, ", ")?;
                write!(f, ")")
            }
            Expr::Coalesce(args) => {
                write!(f, "coalesce(")?;
                list(f, args, ", ")?;
                write!(f, ")")
            }
            Expr::In(needle, items, negated) => {
                write!(f, "{needle} {}in (", if *negated { "not " } else { "" })?;
                list(f, items, ", ")?;
                write!(f, ")")
            }
            Expr::Each(op, quantifier, sides) => {
                write!(f, "({} {op:?} {quantifier:?} {})", sides.0, sides.1)
            }
            Expr::Array(parts, _) => {
                write!(f, "array[")?;
                list(f, parts, ", ")?;
                write!(f, "]")
            }
            Expr::Row(parts, _) => {
                write!(f, "row(")?;
                list(f, parts, ", ")?;
                write!(f, ")")
            }
            Expr::Field(inner, at) => write!(f, "({inner}).{}", at + 1),
            Expr::Subquery(subquery) => match &subquery.wants {
                Wants::Value(id) => write!(f, "value of #{id} in [\n{}]", subquery.rel),
                Wants::Existence => write!(f, "exists [\n{}]", subquery.rel),
                Wants::Any(condition) => write!(f, "any {condition} in [\n{}]", subquery.rel),
            },
            Expr::Like { text, pattern, .. } => write!(f, "{text} like {pattern}"),
            Expr::Case { branches, otherwise } => {
                write!(f, "case")?;
                for (condition, result) in branches {
                    write!(f, " when {condition} then {result}")?;
                }
                write!(f, " else {otherwise} end")
            }
        }
    }
}
