//! Estimated costs.

use crate::access::{Access, LOOKUP};
use crate::catalog::Table;
use crate::expr::Expr;
use crate::physical::{How, Join, Node, Op, estimated};

/// The cost of a row that is read or made.
const ROW: f64 = 0.01;
/// The cost of evaluating a condition or comparing two values.
const OPERATOR: f64 = 0.0025;
/// The highest cost that is shown.
const MOST: f64 = 1e120;

/// The estimated cost of a node, with that of its inputs, and its result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Until the first row.
    pub(super) startup: f64,
    /// Until the last row.
    pub(super) total: f64,
    pub(super) rows: f64,
    /// The bytes of a row.
    pub(super) width: f64,
}

impl Cost {
    /// The cost of a node with inputs of these costs.
    pub(super) fn of(node: &Node, inputs: &[Cost], width: f64) -> Cost {
        let sum: f64 = inputs.iter().map(|input| input.total).sum();
        let first = inputs.first().copied().unwrap_or_default();
        let made = node.rows * ROW;
        let (startup, total) = match &node.op {
            Op::Scan(scan) => {
                let filter = scan.filter.as_ref();
                (0.0, Cost::of_finding(&scan.table, &scan.access, filter).total)
            }
            Op::Join(join) => of_join(join, inputs, made),
            Op::Sort { .. } => {
                let compared = first.rows * first.rows.max(2.0).log2() * 2.0 * OPERATOR;
                (first.total + compared, first.total + compared + made)
            }
            Op::Aggregate { .. } | Op::Window { .. } => {
                let grouped = first.total + first.rows * OPERATOR;
                (grouped, grouped + made)
            }
            Op::Limit { .. } => {
                let part = if first.rows > 0.0 { (node.rows / first.rows).min(1.0) } else { 1.0 };
                (first.startup, first.startup + (first.total - first.startup) * part)
            }
            Op::Filter { .. } => (first.startup, first.total + first.rows * OPERATOR),
            Op::Project { .. } => (first.startup, first.total),
            _ => (first.startup, sum + made),
        };
        // Products of guesses stay finite.
        let (startup, total) = (startup.min(MOST), total.min(MOST));
        Cost { startup, total, rows: node.rows, width }
    }

    /// The cost of finding rows of a table.
    pub(super) fn of_finding(table: &Table, access: &Access, filter: Option<&Expr>) -> Cost {
        let (read, rows) = estimated(table, access, filter);
        Cost { startup: 0.0, total: scanned(access, filter, read), rows, width: 0.0 }
    }

    /// The cost of rows that stand in the statement.
    pub(super) fn of_values(rows: usize) -> Cost {
        let rows = rows as f64;
        Cost { startup: 0.0, total: rows * ROW, rows, width: 0.0 }
    }
}

/// The rows that are read, each through an index with a lookup, unless that holds all of them.
fn scanned(access: &Access, filter: Option<&Expr>, read: f64) -> f64 {
    let is_lookup = access.index.is_some() && !access.only;
    let lookup = if is_lookup { LOOKUP } else { 0.0 };
    let condition = if filter.is_some() { OPERATOR } else { 0.0 };
    read * (ROW * (1.0 + lookup) + condition)
}

fn of_join(join: &Join, inputs: &[Cost], made: f64) -> (f64, f64) {
    let [left, right] = inputs else { return (0.0, made) };
    let pairs = left.rows * right.rows * OPERATOR;
    match join.how {
        How::Hash { .. } => {
            let startup = right.total + right.rows * OPERATOR + left.startup;
            (startup, startup + left.total - left.startup + left.rows * OPERATOR + made)
        }
        How::Loop => (left.startup + right.total, left.total + right.total + pairs + made),
        How::Dependent { .. } => {
            let lookups = left.rows * (right.total + LOOKUP * ROW);
            (left.startup + right.startup, left.total + lookups + made)
        }
    }
}
