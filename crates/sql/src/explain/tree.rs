//! The explained plan of a query.

use super::cost::Cost;
use super::expr::{Names, aggregate, sql};
use super::{Detail, Explained, Style};
use crate::access::{Access, conjuncts};
use crate::catalog::Table;
use crate::expr::Expr;
use crate::logical::{ColumnId, SetOp};
use crate::physical::{How, Join, Kind, Node, Op, Query, RowsOf, Scan, SortBy};
use crate::types::Type;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest text of a column that is shown in its place, in bytes.
const LONGEST_TEXT: usize = 1000;

/// Explains a query. `steps` are the names of the steps of its statement, by their numbers.
pub(super) fn of(query: &Query, style: Style<'_>, steps: &BTreeMap<usize, String>) -> Explained {
    let name = |number: &usize| steps.get(number).cloned().unwrap_or_default();
    let given = query.given.iter().map(name).collect();
    // Each table and each query is a relation.
    let is_qualified = query.relations > 2;
    let mut tree = Tree { query, is_qualified, style, given, computed: BTreeMap::new() };
    tree.node(&query.root)
}

struct Tree<'a> {
    query: &'a Query,
    /// True if columns are shown with the names of their relations.
    is_qualified: bool,
    style: Style<'a>,
    /// The names of the steps whose rows it is given.
    given: Vec<String>,
    /// The expressions of computed columns, so far.
    computed: BTreeMap<ColumnId, String>,
}

impl Explained {
    /// Shows a filter with its input, or above it where that would say something else.
    fn filtered(self, condition: String, cost: Cost) -> Explained {
        const APART: [&str; 7] =
            ["Limit", "Sort", "Unique", "WindowAgg", "Append", "SetOp", "LockRows"];
        if APART.contains(&self.kind) {
            let shown = Explained::new("Subquery Scan", cost).detail("Filter", condition);
            return shown.inputs([self]);
        }
        let mut shown = Explained { cost, ..self };
        let known = shown.details.iter_mut().find(|(name, _)| *name == "Filter");
        if let Some((_, Detail::Text(known))) = known {
            *known = format!("({known} AND {condition})");
            return shown;
        }
        shown.detail("Filter", condition)
    }
}

impl Tree<'_> {
    /// Explains a node, after its inputs.
    fn node(&mut self, node: &Arc<Node>) -> Explained {
        let mut explained = self.operator(node);
        explained.node = Some(node.id());
        if self.style.verbose {
            explained.details.retain(|(name, _)| *name != "Output");
            let output: Vec<_> = node.layout.iter().map(|id| self.column(*id)).collect();
            if !output.is_empty() {
                explained.details.insert(0, ("Output", Detail::List(output)));
            }
        }
        explained
    }

    fn operator(&mut self, node: &Arc<Node>) -> Explained {
        let width = node.layout.iter().map(|id| self.width(*id)).sum();
        let cost = |inputs: &[&Explained]| {
            let inputs: Vec<_> = inputs.iter().map(|input| input.cost).collect();
            Cost::of(node, &inputs, width)
        };
        match &node.op {
            Op::Values(rows) if rows.len() == 1 => Explained::new("Result", cost(&[])),
            // What a condition that is never true has left.
            Op::Values(rows) if rows.is_empty() => {
                Explained::new("Result", cost(&[])).detail("One-Time Filter", "false".into())
            }
            Op::Values(_) => values(cost(&[])),
            Op::Scan(scan) => self.scan(scan, cost(&[])),
            Op::LockRows { input, .. } => {
                let input = self.node(input);
                Explained::new("LockRows", cost(&[&input])).inputs([input])
            }
            // A filter and a projection are shown with their inputs, as PostgreSQL does.
            Op::Filter { input, condition } => {
                let explained = self.node(input);
                let cost = cost(&[&explained]);
                let condition = self.sql(condition, &input.layout);
                explained.filtered(condition, cost)
            }
            Op::Project { input, outputs } => {
                let explained = self.node(input);
                for (id, output) in node.layout.iter().zip(outputs) {
                    let text = self.sql(output, &input.layout);
                    if !matches!(output, Expr::Column(at) if input.layout[*at] == *id) {
                        self.compute(*id, text);
                    }
                }
                let cost = cost(&[&explained]);
                Explained { cost, ..explained }
            }
            Op::Join(join) => {
                let left = self.node(&join.left);
                let right = self.node(&join.right);
                let cost = cost(&[&left, &right]);
                self.join(join, cost).inputs([left, right])
            }
            Op::Aggregate { input, keys, sets, aggregates } => {
                let explained = self.node(input);
                let named: Vec<String> =
                    keys.iter().map(|key| self.sql(key, &input.layout)).collect();
                let first = node.layout.len() - aggregates.len();
                for (id, call) in node.layout[first..].iter().zip(aggregates) {
                    let text = self.with_names(&input.layout, |names| aggregate(call, names));
                    self.compute(*id, text);
                }
                let (title, strategy) = match (keys.is_empty(), sets) {
                    (true, None) => ("Aggregate", "Plain"),
                    (false, None) => ("HashAggregate", "Hashed"),
                    (_, Some(_)) => ("MixedAggregate", "Mixed"),
                };
                let cost = cost(&[&explained]);
                let mut shown =
                    Explained { title: title.into(), ..Explained::new("Aggregate", cost) }
                        .quiet("Strategy", strategy);
                match sets {
                    None => shown = shown.list("Group Key", named),
                    Some(sets) => {
                        let set = |set: &Vec<usize>| {
                            let names: Vec<_> = set.iter().map(|at| named[*at].clone()).collect();
                            format!("({})", names.join(", "))
                        };
                        shown = shown.list("Grouping Sets", sets.sets.iter().map(set).collect());
                    }
                }
                shown.inputs([explained])
            }
            Op::Window { input, calls, .. } => {
                let explained = self.node(input);
                let first = node.layout.len() - calls.len();
                for (id, call) in node.layout[first..].iter().zip(calls) {
                    let args: Vec<_> =
                        call.exprs().into_iter().map(|arg| self.sql(arg, &input.layout)).collect();
                    let text = format!("{}({}) OVER (?)", call.name(), args.join(", "));
                    self.compute(*id, text);
                }
                Explained::new("WindowAgg", cost(&[&explained])).inputs([explained])
            }
            Op::Distinct { input, on } => {
                let explained = self.node(input);
                let keys = on.iter().map(|at| self.column(input.layout[*at])).collect();
                let cost = cost(&[&explained]);
                Explained::new("Unique", cost).list("Group Key", keys).inputs([explained])
            }
            Op::Sort { input, by, .. } => {
                let explained = self.node(input);
                let keys = by.iter().map(|key| self.sort_key(key, &input.layout)).collect();
                let shown = Explained::new("Sort", cost(&[&explained])).list("Sort Key", keys);
                shown.inputs([explained])
            }
            Op::Limit { input, .. } => {
                let explained = self.node(input);
                Explained::new("Limit", cost(&[&explained])).inputs([explained])
            }
            Op::Set { op, all, sides } => {
                let sides: Vec<_> = sides.iter().map(|side| self.node(side)).collect();
                let cost = cost(&sides.iter().collect::<Vec<_>>());
                let command = match (op, all) {
                    (SetOp::Union, true) => return Explained::new("Append", cost).inputs(sides),
                    (SetOp::Union, false) => "Union",
                    (SetOp::Intersect, false) => "Intersect",
                    (SetOp::Intersect, true) => "Intersect All",
                    (SetOp::Except, false) => "Except",
                    (SetOp::Except, true) => "Except All",
                };
                let title = format!("HashSetOp {command}");
                Explained { title, ..Explained::new("SetOp", cost) }
                    .quiet("Strategy", "Hashed")
                    .quiet("Command", command)
                    .inputs(sides)
            }
            Op::With { name, definition, body } => {
                let mut definition = self.node(definition);
                definition.subplan = Some(format!("CTE {}", with_name(*name)));
                let mut body = self.node(body);
                body.inputs.insert(0, definition);
                body
            }
            Op::Named { name, of, .. } => {
                let kind = match of {
                    RowsOf::Query(_) | RowsOf::Given => "CTE Scan",
                    RowsOf::Round => "WorkTable Scan",
                };
                let name = match self.given.get(*name) {
                    Some(given) => given.clone(),
                    None => with_name(*name),
                };
                let alias = node.layout.first().and_then(|id| self.query.known.get(*id));
                let alias = alias.map(|column| column.relation()).filter(|alias| *alias != name);
                let alias = alias.map_or(String::new(), |alias| format!(" {alias}"));
                let title = format!("{kind} on {name}{alias}");
                Explained { title, ..Explained::new(kind, cost(&[])) }.quiet("CTE Name", name)
            }
            Op::Recursive { first, step, .. } => {
                let (first, step) = (self.node(first), self.node(step));
                let cost = cost(&[&first, &step]);
                Explained::new("Recursive Union", cost).inputs([first, step])
            }
            Op::Functions { calls, .. } => {
                let names: Vec<_> = calls.iter().map(|(function, _)| function.name).collect();
                let calls: Vec<_> = calls
                    .iter()
                    .map(|(function, args)| {
                        let args: Vec<_> = args.iter().map(|arg| self.sql(arg, &[])).collect();
                        format!("{}({})", function.name, args.join(", "))
                    })
                    .collect();
                let title = format!("Function Scan on {}", names.join(", "));
                let shown = Explained { title, ..Explained::new("Function Scan", cost(&[])) };
                let shown = shown.quiet("Function Name", names.join(", "));
                match self.style.verbose {
                    true => shown.detail("Function Call", calls.join(", ")),
                    false => shown,
                }
            }
        }
    }

    /// Remembers the text of a computed column, unless it is long: a text may hold those of the
    /// columns below it several times.
    fn compute(&mut self, id: ColumnId, text: String) {
        if text.len() <= LONGEST_TEXT {
            self.computed.insert(id, text);
        }
    }

    fn scan(&self, scan: &Scan, cost: Cost) -> Explained {
        let alias = scan.columns.first().and_then(|id| self.query.known.get(*id));
        let alias = alias.map_or(&*scan.table.name, |column| column.relation());
        let name = |at: usize| match scan.table.columns.get(at) {
            Some(column) if self.is_qualified => format!("{alias}.{}", column.name),
            Some(column) => column.name.clone(),
            None => "meridian_commit_timestamp".to_owned(),
        };
        let mut shown = by_access(&scan.table, alias, &scan.access, scan.backwards);
        shown.cost = cost;
        let param = |at: usize| self.param(at);
        let names = Names { column: &name, param: &param, zone: self.style.zone };
        let shown = with_conditions(shown, &scan.table, &scan.access, scan.filter.as_ref(), &names);
        match scan.locks.filter(|locks| locks.keeps) {
            Some(locks) => shown.detail("Row Locks", locks.strength.to_string().to_lowercase()),
            None => shown,
        }
    }

    fn join(&self, join: &Join, cost: Cost) -> Explained {
        let both: Vec<ColumnId> =
            join.left.layout.iter().chain(&join.right.layout).copied().collect();
        let (kind, name) = match join.kind {
            Kind::Inner => ("Inner", ""),
            Kind::Left => ("Left", " Left"),
            Kind::Full => ("Full", " Full"),
            Kind::Semi => ("Semi", " Semi"),
            Kind::Anti => ("Anti", " Anti"),
            Kind::AntiUnknown => ("Anti", " Null-Aware Anti"),
            Kind::Single => ("Single", " Single"),
            Kind::Mark => ("Mark", " Mark"),
        };
        let mut filters: Vec<String> =
            join.guard.iter().map(|guard| self.sql(guard, &join.left.layout)).collect();
        let mut shown = match &join.how {
            How::Hash { left, right, rest } => {
                let pair = |(a, b): (&Expr, &Expr)| {
                    let (a, b) = (self.sql(a, &join.left.layout), self.sql(b, &join.right.layout));
                    format!("({a} = {b})")
                };
                let pairs: Vec<String> = left.iter().zip(right).map(pair).collect();
                filters.extend(rest.iter().map(|rest| self.sql(rest, &both)));
                Explained::new("Hash Join", cost).detail("Hash Cond", pairs.join(" AND "))
            }
            _ => {
                filters.extend(join.on.iter().map(|on| self.sql(on, &both)));
                Explained::new("Nested Loop", cost)
            }
        };
        shown.title = match (shown.kind, name) {
            ("Hash Join", name) => format!("Hash{name} Join"),
            (kind, "") => kind.to_owned(),
            (kind, name) => format!("{kind}{name} Join"),
        };
        let shown = shown.quiet("Join Type", kind);
        match filters.is_empty() {
            true => shown,
            false => shown.detail("Join Filter", filters.join(" AND ")),
        }
    }

    fn sort_key(&self, key: &SortBy, layout: &[ColumnId]) -> String {
        let mut out = self.column(layout[key.column]);
        if key.descending {
            out += " DESC";
        }
        if key.nulls_first != key.descending {
            out += if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" };
        }
        out
    }

    fn with_names<T>(&self, layout: &[ColumnId], show: impl FnOnce(&Names<'_>) -> T) -> T {
        let column = |at: usize| layout.get(at).map_or_else(String::new, |id| self.column(*id));
        let param = |at: usize| self.param(at);
        show(&Names { column: &column, param: &param, zone: self.style.zone })
    }

    fn sql(&self, expr: &Expr, layout: &[ColumnId]) -> String {
        self.with_names(layout, |names| sql(expr, names))
    }

    /// Shows a parameter, or the column of an enclosing relation.
    fn param(&self, at: usize) -> String {
        match at.checked_sub(self.query.params.len()).and_then(|at| self.query.passed.get(at)) {
            Some(id) => self.column(*id),
            None => format!("${}", at + 1),
        }
    }

    fn column(&self, id: ColumnId) -> String {
        if let Some(text) = self.computed.get(&id) {
            return text.clone();
        }
        match self.query.known.get(id) {
            Some(column) if self.is_qualified && !column.relation().is_empty() => {
                format!("{}.{}", column.relation(), column.name)
            }
            Some(column) => column.name.clone(),
            None => "?column?".to_owned(),
        }
    }

    /// A guess at the size of a column's values, in bytes, by their type alone.
    fn width(&self, id: ColumnId) -> f64 {
        match self.query.known.get(id).map(|column| column.ty.plain()) {
            Some(Type::Bool) => 1.0,
            Some(Type::Int2) => 2.0,
            Some(Type::Int4 | Type::Float4 | Type::Date | Type::Oid | Type::Object(_)) => 4.0,
            Some(Type::Int8 | Type::Float8 | Type::Timestamp | Type::TimestampTz) => 8.0,
            Some(Type::Uuid | Type::Interval) => 16.0,
            _ => 32.0,
        }
    }
}

/// Shows rows of expressions.
pub(super) fn values(cost: Cost) -> Explained {
    let title = "Values Scan on \"*VALUES*\"".into();
    Explained { title, ..Explained::new("Values Scan", cost) }
}

fn with_name(number: usize) -> String {
    format!("with{}", number + 1)
}

/// Explains the scan of a table.
pub(super) fn by_access(table: &Table, alias: &str, access: &Access, backwards: bool) -> Explained {
    let index = match access.index {
        Some(at) => Some(&*table.indexes[at].name),
        None if access.spans.is_empty() && !backwards => None,
        None => table.primary.as_ref().map(|primary| &*primary.name),
    };
    let kind = match index.is_some() {
        true if access.only => "Index Only Scan",
        true => "Index Scan",
        false => "Seq Scan",
    };
    let mut title = kind.to_owned();
    if backwards {
        title += " Backward";
    }
    if let Some(index) = index {
        title += &format!(" using {index}");
    }
    title += &format!(" on {}", table.name);
    if alias != table.name {
        title += &format!(" {alias}");
    }
    let mut shown = Explained { title, ..Explained::new(kind, Cost::default()) };
    if let Some(index) = index {
        let direction = if backwards { "Backward" } else { "Forward" };
        shown = shown.quiet("Scan Direction", direction).quiet("Index Name", index);
    }
    shown.quiet("Relation Name", &*table.name).quiet("Alias", alias)
}

/// Adds the condition of a scan: the part that the key serves, and the rest.
pub(super) fn with_conditions(
    shown: Explained,
    table: &Table,
    access: &Access,
    filter: Option<&Expr>,
    names: &Names<'_>,
) -> Explained {
    let mut all = Vec::new();
    filter.iter().for_each(|filter| conjuncts(filter, &mut all));
    let (served, rest): (Vec<&Expr>, Vec<&Expr>) =
        all.into_iter().partition(|condition| access.serves(table, condition));
    let joined = |conditions: &[&Expr]| {
        let all: Vec<_> = conditions.iter().map(|condition| sql(condition, names)).collect();
        match all.as_slice() {
            [only] => only.clone(),
            all => format!("({})", all.join(" AND ")),
        }
    };
    let mut shown = shown;
    if !served.is_empty() {
        shown = shown.detail("Index Cond", joined(&served));
    }
    if !rest.is_empty() {
        shown = shown.detail("Filter", joined(&rest));
    }
    shown
}
