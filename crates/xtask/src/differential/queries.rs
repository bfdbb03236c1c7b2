//! Queries: selects, set operations, VALUES and WITH.

use super::case::has_several_windows;
use super::features::Feature;
use super::generator::{Generator, Relation};
use super::scope::{Level, Reference, Scope};
use super::tree::{Node, Role};
use super::types::SqlType;

impl Generator<'_> {
    /// Draws a query with columns of these types.
    pub fn query(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        if depth > 0 && self.has(Feature::SetOperation, 0.12) {
            return self.set_operation(types, depth, outer);
        }
        if self.has(Feature::Values, 0.04) {
            return self.values(types, depth, outer);
        }
        if depth > 0 && self.has(Feature::With, 0.06) {
            return self.with(types, depth, outer);
        }
        if depth > 0 && self.has(Feature::Limit, 0.05) {
            return self.limited(types, depth, outer);
        }
        if self.has(Feature::Group, 0.25) {
            let by = self.chance(0.8);
            return self.grouped_select(types, depth, outer, by);
        }
        self.select(types, depth, outer)
    }

    fn set_operation(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        let template = *self.pick(&[
            "(#) UNION (#)",
            "(#) UNION ALL (#)",
            "(#) INTERSECT (#)",
            "(#) INTERSECT ALL (#)",
            "(#) EXCEPT (#)",
            "(#) EXCEPT ALL (#)",
        ]);
        let sides = (0..2).map(|_| self.query(types, depth - 1, outer)).collect();
        Node::new(Role::Query(types.to_vec()), template, sides)
    }

    fn values(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        // A level of its own: aggregates of the query around it are not allowed here.
        let scope = outer.with(Level::default());
        let mut rows = Vec::new();
        for _ in 0..1 + self.below(3) {
            let cell = |of: &SqlType| self.expression(*of, depth.min(1), &scope);
            let cells = types.iter().map(cell).collect();
            rows.push(Node::new(Role::Fixed, "(#)", vec![Node::list(cells)]));
        }
        Node::new(Role::Query(types.to_vec()), "VALUES #", vec![Node::list(rows)])
    }

    fn with(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        let columns = self.types(3);
        let query = self.query(&columns, depth - 1, outer);
        let name = self.alias('w');
        let named = |(at, of): (usize, &SqlType)| (format!("y{at}"), *of);
        let columns: Vec<_> = columns.iter().enumerate().map(named).collect();
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let known = self.relations.len();
        // Twice, so that queries draw it more often than others.
        for _ in 0..2 {
            self.relations.push(Relation { name: name.clone(), columns: columns.clone() });
        }
        let mut body = self.query(types, depth - 1, outer);
        self.relations.truncate(known);
        if body.sql().starts_with("WITH") {
            body = Node::new(Role::Query(types.to_vec()), "SELECT * FROM (#) AS o", vec![body]);
        }
        let template = *self.pick(&[
            "WITH #(#) AS (#) #",
            "WITH #(#) AS MATERIALIZED (#) #",
            "WITH #(#) AS NOT MATERIALIZED (#) #",
        ]);
        let parts = vec![Node::word(name), Node::word(names.join(", ")), query, body];
        Node::new(Role::Query(types.to_vec()), template, parts)
    }

    /// Draws a query with a limit, whose order is total.
    fn limited(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        let query = self.query(types, depth - 1, outer);
        let order: Vec<String> = (1..=types.len()).map(|at| at.to_string()).collect();
        let order = Node::word(order.join(", "));
        let (limit, offset) = (1 + self.below(3), self.below(2));
        if has_several_windows(&query.sql()) {
            return query;
        }
        let template = if self.bare_order(&query) {
            "(#) ORDER BY # LIMIT # OFFSET #"
        } else {
            "SELECT * FROM (#) AS o ORDER BY # LIMIT # OFFSET #"
        };
        let parts =
            vec![query, order, Node::word(limit.to_string()), Node::word(offset.to_string())];
        Node::new(Role::Query(types.to_vec()), template, parts)
    }

    /// True if the query stands in parentheses before ORDER BY, as it may if it has no order.
    pub fn bare_order(&mut self, query: &Node) -> bool {
        self.has(Feature::Parentheses, 0.3) && !query.sql().contains("ORDER BY")
    }

    fn select(&mut self, types: &[SqlType], depth: usize, outer: &Scope) -> Node {
        let source = self.source(depth, outer);
        let level = Level { columns: source.columns.clone(), aggregated: None };
        let scope = outer.with(level);
        let condition = self.filter("WHERE #", 0.6, depth, &scope);
        // Of equal rows, DISTINCT ON takes any, and a window may tell them apart.
        let distinct_on = self.has(Feature::DistinctOn, 0.05);
        let window = !distinct_on && self.has(Feature::Window, 0.12);
        let mut items = Vec::new();
        for of in types {
            let item = match self.window(*of, &source.columns) {
                Some(item) if window => item,
                _ => self.expression(*of, depth, &scope),
            };
            items.push(item);
        }
        let role = Role::Query(types.to_vec());
        if distinct_on {
            // The order stays total while the shrinker replaces other parts.
            let word = |column: &Reference| Node::word(column.node.sql());
            let mut order: Vec<Node> = source.columns.iter().map(word).collect();
            let first = order.remove(self.below(order.len()));
            order.insert(0, first.clone());
            let parts =
                vec![first, Node::list(items), source.node, condition, Node::fixed_list(order)];
            return Node::new(role, "SELECT DISTINCT ON (#) # FROM ## ORDER BY #", parts);
        }
        // Two windows may pair the values of equal rows otherwise, and DISTINCT hides that.
        let distinct = !(window && types.len() > 1) && self.has(Feature::Distinct, 0.12);
        let template = if distinct { "SELECT DISTINCT # FROM ##" } else { "SELECT # FROM ##" };
        Node::new(role, template, vec![Node::list(items), source.node, condition])
    }

    /// Draws a select that takes all columns of its tables, without a known number of columns.
    pub fn star(&mut self, depth: usize) -> Node {
        let source = self.source(depth, &Scope::default());
        let level = Level { columns: source.columns, aggregated: None };
        let condition = self.filter("WHERE #", 0.5, depth, &Scope::default().with(level));
        Node::new(Role::Fixed, "SELECT * FROM ##", vec![source.node, condition])
    }

    /// Draws a clause with a condition, or none.
    pub fn filter(
        &mut self,
        template: &'static str,
        probability: f64,
        depth: usize,
        scope: &Scope,
    ) -> Node {
        if !self.chance(probability) {
            return Node::absent();
        }
        let condition = self.condition(depth, scope);
        let clause = Node::new(Role::Fixed, template, vec![condition]);
        Node::new(Role::Optional, " #", vec![clause])
    }

    /// Draws a select with aggregates, whose groups are those of some columns, or all rows.
    pub fn grouped_select(
        &mut self,
        types: &[SqlType],
        depth: usize,
        outer: &Scope,
        by: bool,
    ) -> Node {
        let source = self.source(depth, outer);
        let level = Level { columns: source.columns.clone(), aggregated: None };
        let condition = self.filter("WHERE #", 0.4, depth, &outer.with(level));
        let mut keys: Vec<Reference> = Vec::new();
        if by {
            for _ in 0..1 + self.below(2) {
                keys.push(self.pick(&source.columns).clone());
            }
        }
        let group = if by {
            let list = Node::list(keys.iter().map(|key| key.node.clone()).collect());
            Node::new(Role::Optional, " GROUP BY #", vec![list])
        } else {
            Node::absent()
        };
        let scope = outer.with(Level { columns: keys, aggregated: Some(source.columns) });
        let having = self.filter("HAVING #", if by { 0.3 } else { 0.1 }, depth, &scope);
        let item = |of: &SqlType| self.expression(*of, depth.max(1), &scope);
        let items = Node::list(types.iter().map(item).collect());
        let parts = vec![items, source.node, condition, group, having];
        Node::new(Role::Query(types.to_vec()), "SELECT # FROM ####", parts)
    }

    /// Draws a window function of this type. Its order is total where its result depends on that.
    fn window(&mut self, of: SqlType, columns: &[Reference]) -> Option<Node> {
        let all: Vec<String> = columns.iter().map(|column| column.node.sql()).collect();
        let total = all.join(", ");
        let partition = self.pick(&all).clone();
        let key = self.pick(&all).clone();
        let argument = columns.iter().filter(|column| column.of == of).collect::<Vec<_>>();
        let argument = (!argument.is_empty()).then(|| self.pick(&argument).node.sql());
        let text = match (of, argument) {
            (SqlType::Int8, _) => match self.below(5) {
                0 => format!("row_number() OVER (ORDER BY {total})"),
                1 => format!("rank() OVER (PARTITION BY {partition} ORDER BY {key})"),
                2 => format!("dense_rank() OVER (ORDER BY {key} DESC)"),
                3 => format!("count({key}) OVER (PARTITION BY {partition})"),
                _ => format!("count(*) OVER (ORDER BY {key})"),
            },
            (_, None) => return None,
            (SqlType::Numeric, Some(argument)) if self.chance(0.5) => {
                format!("sum({argument}) OVER (PARTITION BY {partition} ORDER BY {key})")
            }
            (_, Some(argument)) => match self.below(4) {
                0 => format!("lag({argument}) OVER (ORDER BY {total})"),
                1 => {
                    format!("lead({argument}, 2) OVER (PARTITION BY {partition} ORDER BY {total})")
                }
                2 => format!("first_value({argument}) OVER (ORDER BY {total})"),
                _ => format!(
                    "last_value({argument}) OVER (ORDER BY {total} ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)"
                ),
            },
        };
        Some(Node::leaf(Role::Expression(of), text))
    }
}
