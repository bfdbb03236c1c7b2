//! A case: tables, and statements that run on them in turn.

use super::features::{Feature, Skipped};
use super::generator::Generator;
use super::schema::Table;
use super::scope::Scope;
use super::tree::Node;

/// The order of a query's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The direction of each column in turn, all of them: the order is total.
    pub directions: Vec<&'static str>,
    /// LIMIT and OFFSET.
    pub limit: Option<(usize, usize)>,
}

/// A statement of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The statement, without the order at its end.
    pub tree: Node,
    /// The order at the end of a query.
    pub tail: Option<Tail>,
    /// True if it changes a table.
    pub changes: bool,
    /// True if it runs by the extended protocol, with its constants as parameters.
    pub extended: bool,
}

/// The directions of ORDER BY.
const DIRECTIONS: [&str; 6] =
    ["", " DESC", " NULLS FIRST", " ASC NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST"];

impl Statement {
    /// Returns the text, and the parameters of the extended protocol.
    pub fn sql(&self) -> (String, Vec<Option<String>>) {
        let (text, parameters) = if self.extended {
            self.tree.sql_with_parameters()
        } else {
            (self.tree.sql(), Vec::new())
        };
        (self.with_tail(text), parameters)
    }

    fn with_tail(&self, text: String) -> String {
        let Some(tail) = &self.tail else { return text };
        let ordinal = |(at, direction): (usize, &&str)| format!("{}{direction}", at + 1);
        let order: Vec<String> = tail.directions.iter().enumerate().map(ordinal).collect();
        let limit = match tail.limit.filter(|_| !has_several_windows(&text)) {
            Some((limit, 0)) => format!(" LIMIT {limit}"),
            Some((limit, offset)) => format!(" LIMIT {limit} OFFSET {offset}"),
            None => String::new(),
        };
        let order = order.join(", ");
        if text.contains("ORDER BY") {
            return format!("SELECT * FROM ({text}) AS z ORDER BY {order}{limit}");
        }
        format!("({text}) ORDER BY {order}{limit}")
    }
}

/// True if a query has several windows. These may pair the values of equal rows otherwise, which a
/// limit or DISTINCT hides.
pub fn has_several_windows(sql: &str) -> bool {
    sql.matches("OVER (").count() > 1
}

/// Tables and statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The tables.
    pub tables: Vec<Table>,
    /// The statements.
    pub statements: Vec<Statement>,
}

impl Case {
    /// Draws a case from a seed.
    pub fn draw(seed: u64, skipped: &Skipped) -> Case {
        let mut generator = Generator::new(seed, skipped);
        let tables = generator.schema();
        generator.know(&tables);
        let statements = (0..12).map(|_| generator.statement(&tables)).collect();
        Case { tables, statements }
    }

    /// Returns the statements that create and fill the tables.
    pub fn setup(&self) -> Vec<String> {
        self.tables.iter().flat_map(Table::statements).collect()
    }

    /// Returns the script for psql. Parameters are given by `\bind`, which psql has since
    /// version 16.
    pub fn script(&self) -> String {
        let mut script = String::new();
        for statement in self.setup() {
            script += &format!("{statement};\n");
        }
        for statement in &self.statements {
            let (text, parameters) = statement.sql();
            script += &text;
            if statement.extended {
                script += " \\bind";
                for parameter in parameters {
                    match parameter {
                        Some(text) => script += &format!(" '{}'", text.replace('\'', "''")),
                        None => script += " NULL",
                    }
                }
                script += " \\g\n";
            } else {
                script += ";\n";
            }
        }
        script
    }
}

impl Generator<'_> {
    fn statement(&mut self, tables: &[Table]) -> Statement {
        let extended = self.has(Feature::Extended, 0.25);
        if self.has(Feature::Change, 0.3) {
            let tree = self.change(tables);
            return Statement { tree, tail: None, changes: true, extended };
        }
        if self.chance(0.08) {
            return Statement { tree: self.star(2), tail: None, changes: false, extended };
        }
        let types = self.types(4);
        let depth = 1 + self.below(3);
        let tree = self.query(&types, depth, &Scope::default());
        let tail = self.chance(0.4).then(|| {
            let directions = types.iter().map(|_| *self.pick(&DIRECTIONS)).collect();
            let limited = self.has(Feature::Limit, 0.4);
            Tail { directions, limit: limited.then(|| (self.below(5), self.below(3))) }
        });
        Statement { tree, tail, changes: false, extended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_case() {
        let none = Skipped::default();
        for seed in 0..50 {
            let case = Case::draw(seed, &none);
            assert_eq!(case, Case::draw(seed, &none));
            assert!(case.script().starts_with("CREATE TABLE t0 ("));
        }
        assert_ne!(Case::draw(1, &none), Case::draw(2, &none));
    }

    #[test]
    fn a_feature_that_is_left_out_is_in_no_statement() {
        let features = vec![Feature::FullJoin, Feature::Window, Feature::Change, Feature::With];
        let skipped = Skipped { features, forms: vec!["COALESCE".to_owned()] };
        for seed in 0..200 {
            let script = Case::draw(seed, &skipped).script();
            for word in ["FULL", "OVER (", "UPDATE ", "WITH ", "COALESCE("] {
                assert!(!script.contains(word), "{script}");
            }
        }
    }
}
