//! INSERT, UPDATE and DELETE.

use super::features::Feature;
use super::generator::Generator;
use super::schema::{Column, Key, Table};
use super::scope::{Level, Reference, Scope};
use super::tree::{Node, Role};
use super::types::SqlType;

impl Generator<'_> {
    /// Draws a statement that changes a table.
    pub fn change(&mut self, tables: &[Table]) -> Node {
        let table = self.pick(tables).clone();
        match self.below(10) {
            0..5 => self.insert(&table),
            5..8 => self.update(&table),
            _ => self.delete(&table),
        }
    }

    fn insert(&mut self, table: &Table) -> Node {
        let mut columns: Vec<&Column> = table.columns.iter().collect();
        if columns.len() > 1 && self.chance(0.3) {
            columns.remove(self.below(columns.len()));
        }
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let types: Vec<SqlType> = columns.iter().map(|column| column.of).collect();
        let rows = if self.chance(0.6) { self.new_rows(&types) } else { self.new_query(&types) };
        let conflict = self.on_conflict(table);
        let returning = self.returning(&table.name, table);
        let head = vec![Node::word(&table.name), Node::word(names.join(", "))];
        let parts = [head, vec![rows, conflict, returning]].concat();
        Node::new(Role::Fixed, "INSERT INTO # (#) ###", parts)
    }

    fn new_rows(&mut self, types: &[SqlType]) -> Node {
        let mut rows = Vec::new();
        for _ in 0..1 + self.below(3) {
            let mut cells = Vec::new();
            for of in types {
                cells.push(match self.below(10) {
                    0..7 => self.constant(*of),
                    7..9 => self.expression(*of, 2, &Scope::default()),
                    _ => Node::word("DEFAULT"),
                });
            }
            rows.push(Node::new(Role::Fixed, "(#)", vec![Node::fixed_list(cells)]));
        }
        Node::new(Role::Fixed, "VALUES #", vec![Node::list(rows)])
    }

    /// Draws a query whose rows are inserted in a defined order: on a conflict the first row wins.
    fn new_query(&mut self, types: &[SqlType]) -> Node {
        let query = self.query(types, 2, &Scope::default());
        let order: Vec<String> = (1..=types.len()).map(|at| at.to_string()).collect();
        let parts = vec![query, Node::word(order.join(", "))];
        Node::new(Role::Fixed, "SELECT * FROM (#) AS q ORDER BY #", parts)
    }

    fn on_conflict(&mut self, table: &Table) -> Node {
        if !self.has(Feature::OnConflict, 0.4) {
            return Node::absent();
        }
        let keys: Vec<&Key> = table.keys.iter().filter(|key| key.is_unique()).collect();
        if keys.is_empty() || self.chance(0.3) {
            return Node::leaf(Role::Optional, " ON CONFLICT DO NOTHING");
        }
        let key = Node::word(self.pick(&keys).columns.join(", "));
        let sets = self.assignments(table, &["excluded", &table.name], Vec::new());
        if sets.is_empty() || self.chance(0.3) {
            return Node::new(Role::Optional, " ON CONFLICT (#) DO NOTHING", vec![key]);
        }
        let columns = references(table, &table.name).chain(references(table, "excluded")).collect();
        let scope = Scope::default().with(Level { columns, aggregated: None });
        let condition = self.filter("WHERE #", 0.3, 2, &scope);
        let parts = vec![key, Node::list(sets), condition];
        Node::new(Role::Optional, " ON CONFLICT (#) DO UPDATE SET ##", parts)
    }

    /// Draws assignments to columns that no unique key has, seldom to others: PostgreSQL checks
    /// keys row by row, in an order of its own.
    fn assignments(
        &mut self,
        table: &Table,
        aliases: &[&str],
        others: Vec<Reference>,
    ) -> Vec<Node> {
        let in_key = |column: &Column| {
            table.keys.iter().any(|key| key.is_unique() && key.columns.contains(&column.name))
        };
        let mut columns: Vec<Reference> = others;
        columns.extend(aliases.iter().flat_map(|alias| references(table, alias)));
        let scope = Scope::default().with(Level { columns, aggregated: None });
        let mut sets = Vec::new();
        for column in &table.columns {
            if self.chance(if in_key(column) { 0.05 } else { 0.6 }) {
                let value = self.expression(column.of, 2, &scope);
                sets.push(Node::new(Role::Fixed, "# = #", vec![Node::word(&column.name), value]));
            }
        }
        sets
    }

    fn returning(&mut self, alias: &str, table: &Table) -> Node {
        if !self.has(Feature::Returning, 0.4) {
            return Node::absent();
        }
        if self.chance(0.4) {
            return Node::leaf(Role::Optional, format!(" RETURNING {alias}.*"));
        }
        let columns = references(table, alias).collect();
        let scope = Scope::default().with(Level { columns, aggregated: None });
        let items = self.types(3).into_iter().map(|of| self.expression(of, 2, &scope)).collect();
        Node::new(Role::Optional, " RETURNING #", vec![Node::list(items)])
    }

    fn update(&mut self, table: &Table) -> Node {
        let alias = self.alias('u');
        let joined =
            if self.has(Feature::Join, 0.4) { self.update_source(table, &alias) } else { None };
        let others = joined.as_ref().map(|(_, _, columns)| columns.clone()).unwrap_or_default();
        let mut columns = others.clone();
        columns.extend(references(table, &alias));
        let mut sets = self.assignments(table, &[&alias], others);
        if sets.is_empty() {
            let column = self.pick(&table.columns);
            let value = self.constant(column.of);
            sets.push(Node::new(Role::Fixed, "# = #", vec![Node::word(&column.name), value]));
        }
        let scope = Scope::default().with(Level { columns, aggregated: None });
        let returning = self.returning(&alias, table);
        let head = vec![Node::word(&table.name), Node::word(&alias), Node::list(sets)];
        match joined {
            None => {
                let condition = self.filter("WHERE #", 0.8, 2, &scope);
                let parts = [head, vec![condition, returning]].concat();
                Node::new(Role::Fixed, "UPDATE # AS # SET ###", parts)
            }
            Some((from, equality, _)) => {
                let condition = self.filter("AND #", 0.4, 2, &scope);
                let parts = [head, vec![from, equality, condition, returning]].concat();
                Node::new(Role::Fixed, "UPDATE # AS # SET # FROM # WHERE ###", parts)
            }
        }
    }

    /// Draws an item of FROM that has at most one row for each row of the table: of several,
    /// PostgreSQL takes any.
    fn update_source(
        &mut self,
        table: &Table,
        alias: &str,
    ) -> Option<(Node, Node, Vec<Reference>)> {
        let relations = self.relations.clone();
        let other = self.pick(&relations);
        let pairs: Vec<(&Column, &String)> = table
            .columns
            .iter()
            .flat_map(|column| other.columns.iter().map(move |other| (column, other)))
            .filter(|(column, (_, of))| column.of == *of)
            .map(|(column, (name, _))| (column, name))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let (column, key) = *self.pick(&pairs);
        let (inner, outer) = (self.alias('a'), self.alias('q'));
        let types = self.types(2);
        let rows = other.columns.iter().map(|(name, of)| Reference::column(&inner, name, *of));
        let level = Level { columns: Vec::new(), aggregated: Some(rows.collect()) };
        let scope = Scope::default().with(level);
        let mut items = Vec::new();
        for (at, of) in types.iter().enumerate() {
            let item = self.expression(*of, 2, &scope);
            items.push(Node::new(Role::Fixed, "# AS #", vec![item, Node::word(format!("x{at}"))]));
        }
        let text = |text: String| Node::word(text);
        let parts = vec![
            text(format!("{inner}.{key}")),
            Node::fixed_list(items),
            text(format!("{} AS {inner}", other.name)),
            text(format!("{inner}.{key}")),
            text(outer.clone()),
        ];
        let from = Node::new(Role::Fixed, "(SELECT # AS k, # FROM # GROUP BY #) AS #", parts);
        let equality = text(format!("{alias}.{} = {outer}.k", column.name));
        let columns = types.iter().enumerate();
        let columns =
            columns.map(|(at, of)| Reference::column(&outer, &format!("x{at}"), *of)).collect();
        Some((from, equality, columns))
    }

    fn delete(&mut self, table: &Table) -> Node {
        let alias = self.alias('u');
        let mut columns: Vec<Reference> = references(table, &alias).collect();
        let head = vec![Node::word(&table.name), Node::word(&alias)];
        let returning = self.returning(&alias, table);
        if self.has(Feature::Join, 0.3) {
            let source = self.source(1, &Scope::default());
            columns.extend(source.columns);
            let scope = Scope::default().with(Level { columns, aggregated: None });
            let condition = self.filter("WHERE #", 0.95, 2, &scope);
            let parts = [head, vec![source.node, condition, returning]].concat();
            return Node::new(Role::Fixed, "DELETE FROM # AS # USING ###", parts);
        }
        let scope = Scope::default().with(Level { columns, aggregated: None });
        let condition = self.filter("WHERE #", 0.95, 2, &scope);
        let parts = [head, vec![condition, returning]].concat();
        Node::new(Role::Fixed, "DELETE FROM # AS ###", parts)
    }
}

fn references<'a>(table: &'a Table, alias: &'a str) -> impl Iterator<Item = Reference> + 'a {
    table.columns.iter().map(move |column| Reference::column(alias, &column.name, column.of))
}
