//! EXPLAIN: plans in the shape of PostgreSQL's, as text and as JSON, so that people's tools draw
//! them.
//!
//! A plan becomes a tree of [`Explained`] nodes (`tree`, `change`), with expressions as SQL
//! (`expr`) and costs (`cost`); then it is shown (`text`, `json`). EXPLAIN ANALYZE runs the plan
//! and adds the counts of each node ([`Actual`]).
//!
//! Costs are in PostgreSQL's unit as far as there is one: 0.01 for a row. They are compared only
//! with each other.

mod change;
mod cost;
mod expr;
mod json;
mod options;
mod text;
mod tree;

pub(crate) use change::{counted, counted_step};
pub(crate) use options::{Format, Options};

use crate::compile::Plan;
use crate::datetime::Zone;
use cost::Cost;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A node of an explained plan.
#[derive(Debug, Default)]
pub(crate) struct Explained {
    /// PostgreSQL's name of the operator, such as `Index Scan`.
    kind: &'static str,
    /// The line of text: the name of the operator, and of its table and index.
    title: String,
    /// Names and values, in PostgreSQL's order.
    details: Vec<(&'static str, Detail)>,
    cost: Cost,
    /// The plan's node, if it is one that runs.
    node: Option<NodeId>,
    inputs: Vec<Explained>,
    /// The name of a query of WITH that it defines.
    subplan: Option<String>,
}

/// A value beside a name.
#[derive(Debug)]
enum Detail {
    Text(String),
    List(Vec<String>),
    /// Only for JSON: the title of the text has it.
    Quiet(String),
}

/// The identity of a node, as long as its plan exists.
pub(crate) type NodeId = usize;

/// The counts of a node of a plan that ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Actual {
    /// The rows that it returned in all.
    pub(crate) rows: u64,
    /// How often it was started.
    pub(crate) loops: u64,
    /// The time until its first rows in all loops, and until their ends, with that of its inputs.
    pub(crate) first: Duration,
    pub(crate) total: Duration,
}

/// The counts of all nodes of a plan.
pub(crate) type Actuals = HashMap<NodeId, Actual>;

/// A line behind the plan: its name, and its value with a unit.
pub(crate) type Summary = Vec<(&'static str, String)>;

/// The form in which a plan is explained.
#[derive(Clone, Copy)]
pub(crate) struct Style<'a> {
    /// True if the columns of each node are shown.
    pub(crate) verbose: bool,
    /// The zone in which times are shown.
    pub(crate) zone: &'a Zone,
}

/// Explains a plan.
pub(crate) fn explain(plan: &Plan, style: Style<'_>) -> Explained {
    match plan {
        Plan::Query(query) => tree::of(query, style, &BTreeMap::new()),
        Plan::Write { write, .. } => change::of_write(write, style, &BTreeMap::new()),
        Plan::With(with) => change::of_with(with, style),
        // No other statement is explained.
        _ => Explained::new("Result", Cost::default()),
    }
}

impl Explained {
    fn new(kind: &'static str, cost: Cost) -> Explained {
        Explained { kind, title: kind.into(), cost, ..Explained::default() }
    }

    fn detail(mut self, name: &'static str, value: String) -> Self {
        self.details.push((name, Detail::Text(value)));
        self
    }

    fn list(mut self, name: &'static str, values: Vec<String>) -> Self {
        if !values.is_empty() {
            self.details.push((name, Detail::List(values)));
        }
        self
    }

    fn quiet(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, Detail::Quiet(value.into())));
        self
    }

    fn inputs(mut self, inputs: impl IntoIterator<Item = Explained>) -> Self {
        self.inputs.extend(inputs);
        self
    }

    /// Returns the rows of the result of EXPLAIN.
    pub(crate) fn show(
        &self,
        options: &Options,
        actuals: Option<&Actuals>,
        summary: &Summary,
    ) -> Vec<String> {
        match options.format {
            Format::Text => text::lines(self, options, actuals, summary),
            Format::Json => vec![json::document(self, options, actuals, summary)],
        }
    }
}
