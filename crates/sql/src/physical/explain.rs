//! The lines of EXPLAIN.

use super::{How, Kind, Node, Query};
use crate::logical::SetOp;

impl Query {
    /// Returns the lines of EXPLAIN.
    pub(crate) fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.root.explain(0, &mut lines);
        lines
    }
}

impl Node {
    fn explain(&self, depth: usize, lines: &mut Vec<String>) {
        let (line, inputs) = match self {
            Node::Values(rows) if rows.len() == 1 => ("Result".to_owned(), vec![]),
            Node::Values(rows) => (format!("Values: {} rows", rows.len()), vec![]),
            Node::Scan(scan) => {
                let backwards = if scan.backwards { ", backwards" } else { "" };
                (format!("{}{backwards}", scan.access.explain(&scan.table)), vec![])
            }
            Node::LockRows(locked) => ("Lock rows".to_owned(), vec![&locked.input]),
            Node::Filter { input, .. } => ("Filter".to_owned(), vec![input]),
            Node::Project { input, .. } => return input.explain(depth, lines),
            Node::Join(join) => {
                let how = match join.how {
                    How::Hash { .. } => "Hash join",
                    How::Loop => "Nested loop join",
                    How::Dependent { .. } => "Lookup join",
                };
                let kind = match join.kind {
                    Kind::Inner => "inner",
                    Kind::Left => "left",
                    Kind::Full => "full",
                    Kind::Semi => "semi",
                    Kind::Anti => "anti",
                    Kind::AntiUnknown => "anti, NULL is possible",
                    Kind::Single => "subquery's value",
                    Kind::Mark => "subquery's test",
                };
                (format!("{how} ({kind})"), vec![&join.left, &join.right])
            }
            Node::Aggregate { input, .. } => ("Group and aggregate".to_owned(), vec![input]),
            Node::Window { input, .. } => ("Window".to_owned(), vec![input]),
            Node::Distinct { input, .. } => ("Distinct".to_owned(), vec![input]),
            Node::Sort { input, most, .. } => {
                (if most.is_some() { "Sort, first rows" } else { "Sort" }.to_owned(), vec![input])
            }
            Node::Limit { input, .. } => ("Limit".to_owned(), vec![input]),
            Node::Set { op, all, sides } => {
                let op = match op {
                    SetOp::Union => "Union",
                    SetOp::Intersect => "Intersect",
                    SetOp::Except => "Except",
                };
                let all = if *all { " all" } else { "" };
                (format!("{op}{all}"), sides.iter().collect())
            }
            Node::With { definition, body, name } => {
                (format!("With query {}", name + 1), vec![definition, body])
            }
            Node::Recursive { first, step, .. } => {
                ("Recursive union".to_owned(), vec![first, step])
            }
            Node::Functions { calls, .. } => {
                let names: Vec<_> = calls.iter().map(|(function, _)| function.name).collect();
                (format!("Function scan on {}", names.join(", ")), vec![])
            }
            Node::Named { name, .. } => (format!("Rows of with query {}", name + 1), vec![]),
        };
        lines.push(format!("{:1$}{line}", "", depth * 2));
        inputs.into_iter().for_each(|input| input.explain(depth + 1, lines));
    }
}
