//! Items of FROM: tables, subqueries and joins.

use super::features::Feature;
use super::generator::Generator;
use super::scope::{Level, Reference, Scope};
use super::tree::{Node, Role};
use super::types::SqlType;

/// An item of FROM, and its columns.
#[derive(Debug)]
pub struct Source {
    /// The item.
    pub node: Node,
    /// The columns.
    pub columns: Vec<Reference>,
    /// The names of the columns, if it is a relation.
    names: Vec<(String, SqlType)>,
}

impl Generator<'_> {
    /// Draws an item of FROM, with joins.
    pub fn source(&mut self, depth: usize, outer: &Scope) -> Source {
        let mut source = self.item(depth, outer);
        let joins = match self.below(10) {
            0..5 => 0,
            5..8 => 1,
            _ => 2,
        };
        for _ in 0..joins {
            if !self.skips(Feature::Join) {
                source = self.join(source, depth, outer);
            }
        }
        source
    }

    fn item(&mut self, depth: usize, outer: &Scope) -> Source {
        if depth > 0 && self.has(Feature::Derived, 0.2) {
            return self.derived("(#) AS #(#)", depth - 1, outer);
        }
        let relations = self.relations.clone();
        let relation = self.pick(&relations);
        let alias = self.alias('a');
        let columns =
            relation.columns.iter().map(|(name, of)| Reference::column(&alias, name, *of));
        let node = Node::leaf(Role::Source, format!("{} AS {alias}", relation.name));
        Source { node, columns: columns.collect(), names: relation.columns.clone() }
    }

    /// Draws a subquery in FROM.
    fn derived(&mut self, template: &'static str, depth: usize, scope: &Scope) -> Source {
        let types = self.types(3);
        let query = self.query(&types, depth, scope);
        let alias = self.alias('q');
        let names: Vec<String> = (0..types.len()).map(|at| format!("x{at}")).collect();
        let columns =
            names.iter().zip(&types).map(|(name, of)| Reference::column(&alias, name, *of));
        let columns = columns.collect();
        let parts = vec![query, Node::word(alias), Node::word(names.join(", "))];
        Source { node: Node::new(Role::Source, template, parts), columns, names: Vec::new() }
    }

    fn join(&mut self, left: Source, depth: usize, outer: &Scope) -> Source {
        if depth > 0 && self.has(Feature::Lateral, 0.12) {
            return self.lateral(left, depth, outer);
        }
        let right = self.item(depth, outer);
        let mut columns = left.columns;
        columns.extend(right.columns);
        let mut kinds = vec![("# JOIN # ON #", "# JOIN # USING (#)", "# NATURAL JOIN #")];
        if !self.skips(Feature::OuterJoin) {
            kinds.push(("# LEFT JOIN # ON #", "# LEFT JOIN # USING (#)", "# NATURAL LEFT JOIN #"));
            kinds.push((
                "# RIGHT JOIN # ON #",
                "# RIGHT JOIN # USING (#)",
                "# NATURAL RIGHT JOIN #",
            ));
        }
        if !self.skips(Feature::FullJoin) {
            kinds.push(("# FULL JOIN # ON #", "# FULL JOIN # USING (#)", "# NATURAL FULL JOIN #"));
        }
        let (on, using, natural) = *self.pick(&kinds);
        let names = Vec::new();
        let shared: Vec<&String> = left
            .names
            .iter()
            .filter(|(name, _)| right.names.iter().any(|(other, _)| other == name))
            .map(|(name, _)| name)
            .collect();
        if !shared.is_empty() && self.has(Feature::Using, 0.3) {
            let node = if self.chance(0.5) {
                Node::new(Role::Source, natural, vec![left.node, right.node])
            } else {
                let name = self.pick(&shared).to_string();
                Node::new(Role::Source, using, vec![left.node, right.node, Node::word(name)])
            };
            return Source { node, columns, names };
        }
        if self.chance(0.1) {
            let node = Node::new(Role::Source, "# CROSS JOIN #", vec![left.node, right.node]);
            return Source { node, columns, names };
        }
        let scope = outer.with(Level { columns: columns.clone(), aggregated: None });
        let condition = self.join_condition(depth, &columns, &scope);
        let node = Node::new(Role::Source, on, vec![left.node, right.node, condition]);
        Source { node, columns, names }
    }

    /// Draws a condition of a join: mostly an equality, which PostgreSQL needs for full joins.
    fn join_condition(&mut self, depth: usize, columns: &[Reference], scope: &Scope) -> Node {
        let equal = || {
            columns.iter().enumerate().flat_map(|(at, left)| {
                columns[at + 1..].iter().rev().map(move |right| (left, right))
            })
        };
        let pairs: Vec<_> = equal().filter(|(left, right)| left.of == right.of).collect();
        if pairs.is_empty() || self.chance(0.3) {
            return self.condition(depth.min(2), scope);
        }
        let (left, right) = *self.pick(&pairs);
        let parts = vec![left.node.clone(), right.node.clone()];
        let equality = Node::expression(SqlType::Bool, "(# = #)", parts);
        if self.chance(0.6) {
            return equality;
        }
        let condition = self.condition(depth.min(1), scope);
        Node::expression(SqlType::Bool, "(# AND #)", vec![equality, condition])
    }

    fn lateral(&mut self, left: Source, depth: usize, outer: &Scope) -> Source {
        let scope = outer.with(Level { columns: left.columns.clone(), aggregated: None });
        let right = self.derived("LATERAL (#) AS #(#)", depth - 1, &scope);
        let mut columns = left.columns;
        columns.extend(right.columns);
        let template = *self.pick(&["# JOIN # ON true", "# CROSS JOIN #", "# LEFT JOIN # ON true"]);
        let node = Node::new(Role::Source, template, vec![left.node, right.node]);
        Source { node, columns, names: Vec::new() }
    }
}
