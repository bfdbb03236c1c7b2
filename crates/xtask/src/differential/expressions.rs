//! Expressions: columns, constants, operators, functions, aggregates and subqueries.

use super::features::Feature;
use super::generator::Generator;
use super::scope::{Level, Reference, Scope};
use super::templates::{AGGREGATES, Slot, TEMPLATES, Template};
use super::tree::{Node, Role};
use super::types::{SqlType, Value};

impl Generator<'_> {
    /// Draws an expression of this type.
    pub fn expression(&mut self, of: SqlType, depth: usize, scope: &Scope) -> Node {
        let grouped = scope.aggregated().is_some();
        if grouped
            && self.has(Feature::Group, 0.35)
            && let Some(node) = self.aggregate(of, depth, scope)
        {
            return node;
        }
        if depth == 0 || self.chance(0.25) {
            return self.leaf(of, scope);
        }
        if self.has(Feature::Subquery, 0.12) {
            return self.subquery(of, depth - 1, scope);
        }
        match self.template(TEMPLATES, of) {
            Some(template) => self.filled(template, of, depth - 1, scope),
            None => self.leaf(of, scope),
        }
    }

    /// Draws a condition, which is seldom a constant.
    pub fn condition(&mut self, depth: usize, scope: &Scope) -> Node {
        let depth = depth.max(1);
        if self.has(Feature::Subquery, 0.15) {
            return self.subquery(SqlType::Bool, depth - 1, scope);
        }
        match self.template(TEMPLATES, SqlType::Bool) {
            Some(template) => self.filled(template, SqlType::Bool, depth - 1, scope),
            None => self.leaf(SqlType::Bool, scope),
        }
    }

    /// Draws a constant.
    pub fn constant(&mut self, of: SqlType) -> Node {
        let choices = if self.chance(0.85) { of.domain() } else { of.limits() };
        let text = (!self.chance(0.1)).then(|| self.pick(choices).to_string());
        // Without a cast most parameters are text.
        let bare = self.has(Feature::Untyped, if of == SqlType::Text { 0.5 } else { 0.05 });
        let bare = bare && text.is_some();
        Node::value(Value { of, text, bare })
    }

    fn leaf(&mut self, of: SqlType, scope: &Scope) -> Node {
        let (inner, outer) = scope.of_type(of);
        let outer = if self.skips(Feature::Correlation) { Vec::new() } else { outer };
        let columns = if inner.is_empty() || self.chance(0.3) { outer } else { inner };
        if columns.is_empty() || self.chance(0.25) {
            return self.constant(of);
        }
        self.pick(&columns).node.clone()
    }

    fn template(
        &mut self,
        templates: &'static [Template],
        of: SqlType,
    ) -> Option<&'static Template> {
        let gives = |template: &&Template| {
            let skipped = template.feature.is_some_and(|feature| self.skips(feature));
            !skipped
                && !self.skips_form(template.text)
                && (template.result == Slot::Of(of) || template.result == Slot::Any)
        };
        let choices: Vec<&'static Template> = templates.iter().filter(gives).collect();
        (!choices.is_empty()).then(|| *self.pick(&choices))
    }

    fn filled(
        &mut self,
        template: &'static Template,
        of: SqlType,
        depth: usize,
        scope: &Scope,
    ) -> Node {
        let any = match template.result {
            Slot::Any => of,
            Slot::Of(_) => *self.pick(&SqlType::ALL),
        };
        let argument = |slot: &Slot| {
            let of = if let Slot::Of(of) = slot { *of } else { any };
            self.expression(of, depth, scope)
        };
        let arguments = template.arguments.iter().map(argument).collect();
        Node::expression(of, template.text, arguments)
    }

    /// Draws an aggregate over the rows of a group.
    fn aggregate(&mut self, of: SqlType, depth: usize, scope: &Scope) -> Option<Node> {
        let columns = scope.aggregated()?.to_vec();
        if of == SqlType::Text && self.chance(0.3) {
            return self.string_agg(&columns);
        }
        let template = self.template(AGGREGATES, of)?;
        let inner = Scope::default().with(Level { columns, aggregated: None });
        let node = self.filled(template, of, depth.min(1), &inner);
        if self.has(Feature::Filter, 0.15) {
            let condition = self.condition(1, &inner);
            return Some(Node::expression(of, "# FILTER (WHERE #)", vec![node, condition]));
        }
        Some(node)
    }

    /// Draws an aggregate whose result depends on an order, which it names.
    fn string_agg(&mut self, columns: &[Reference]) -> Option<Node> {
        let text = |column: &&Reference| column.of == SqlType::Text;
        let columns: Vec<&Reference> = columns.iter().filter(text).collect();
        if columns.is_empty() || self.skips(Feature::Text) {
            return None;
        }
        let column = self.pick(&columns).node.sql();
        let distinct = if self.has(Feature::Distinct, 0.3) { "DISTINCT " } else { "" };
        let text = format!("string_agg({distinct}{column}, ',' ORDER BY {column})");
        Some(Node::leaf(Role::Expression(SqlType::Text), text))
    }

    /// Draws an expression that contains a query.
    fn subquery(&mut self, of: SqlType, depth: usize, scope: &Scope) -> Node {
        let depth = depth.min(2);
        if of != SqlType::Bool || self.chance(0.1) {
            let query = self.single_row(of, depth, scope);
            return Node::expression(of, "(#)", vec![query]);
        }
        if self.chance(0.3) {
            let types = self.types(2);
            let query = self.query(&types, depth, scope);
            let template = if self.chance(0.5) { "EXISTS (#)" } else { "(NOT EXISTS (#))" };
            return Node::expression(of, template, vec![query]);
        }
        let operand = *self.pick(&SqlType::ALL);
        let left = self.expression(operand, depth, scope);
        if self.has(Feature::Row, 0.1) {
            let query = self.query(&[operand, SqlType::Int4], depth, scope);
            let second = self.expression(SqlType::Int4, 0, scope);
            let template = *self.pick(&["((#, #) IN (#))", "((#, #) NOT IN (#))"]);
            return Node::expression(of, template, vec![left, second, query]);
        }
        let query = self.query(&[operand], depth, scope);
        let template = *self.pick(&[
            "(# IN (#))",
            "(# NOT IN (#))",
            "(# = ANY (#))",
            "(# < ANY (#))",
            "(# >= ALL (#))",
            "(# <> ALL (#))",
        ]);
        Node::expression(of, template, vec![left, query])
    }

    /// Draws a query that mostly gives one row at most.
    fn single_row(&mut self, of: SqlType, depth: usize, scope: &Scope) -> Node {
        let choice = self.below(10);
        if choice < 5 && !self.skips(Feature::Group) {
            return self.grouped_select(&[of], depth, scope, false);
        }
        if choice < 9 && !self.skips(Feature::Limit) {
            let query = self.query(&[of], depth, scope);
            let template = if self.bare_order(&query) {
                "(#) ORDER BY 1 LIMIT 1"
            } else {
                *self.pick(&[
                    "SELECT * FROM (#) AS o ORDER BY 1 LIMIT 1",
                    "SELECT * FROM (#) AS o ORDER BY 1 DESC LIMIT 1",
                    "SELECT * FROM (#) AS o ORDER BY 1 NULLS FIRST LIMIT 1 OFFSET 1",
                ])
            };
            return Node::new(Role::Query(vec![of]), template, vec![query]);
        }
        self.query(&[of], depth, scope)
    }
}
