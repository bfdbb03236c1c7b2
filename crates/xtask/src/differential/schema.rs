//! Tables: columns, constraints, indexes and rows.

use super::generator::Generator;
use super::types::{SqlType, Value};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type, as expressions know it.
    pub of: SqlType,
    /// The type as declared.
    pub declared: &'static str,
    /// True if it is NOT NULL.
    pub not_null: bool,
    /// The default.
    pub default: Option<Value>,
}

/// The kind of a key or index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// PRIMARY KEY
    Primary,
    /// UNIQUE, as a constraint.
    Unique,
    /// A unique index.
    UniqueIndex,
    /// An index.
    Index,
}

/// A key or an index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The kind.
    pub kind: KeyKind,
    /// The names of its columns, and of an index that is not unique perhaps an expression.
    pub columns: Vec<String>,
    /// The clauses behind the columns: INCLUDE and WHERE.
    pub clauses: String,
}

impl Key {
    /// True if no two rows may have equal values in it.
    pub fn is_unique(&self) -> bool {
        self.kind != KeyKind::Index
    }
}

/// A table and its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The keys and indexes.
    pub keys: Vec<Key>,
    /// The rows; one value for each column.
    pub rows: Vec<Vec<Value>>,
    /// True if it is analyzed once the rows are there.
    pub analyzed: bool,
}

impl Table {
    /// Returns the statements that create and fill the table.
    pub fn statements(&self) -> Vec<String> {
        let mut parts: Vec<String> = self.columns.iter().map(declaration).collect();
        let list = |key: &Key| key.columns.join(", ");
        let mut indexes = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            let index = |unique| {
                let (name, list) = (&self.name, list(key));
                format!("CREATE {unique}INDEX {name}_{at} ON {name} ({list}){}", key.clauses)
            };
            match key.kind {
                KeyKind::Primary => parts.push(format!("PRIMARY KEY ({})", list(key))),
                KeyKind::Unique => parts.push(format!("UNIQUE ({})", list(key))),
                KeyKind::UniqueIndex => indexes.push(index("UNIQUE ")),
                KeyKind::Index => indexes.push(index("")),
            }
        }
        let mut statements = vec![format!("CREATE TABLE {} ({})", self.name, parts.join(", "))];
        statements.extend(indexes);
        if !self.rows.is_empty() {
            let row = |row: &Vec<Value>| {
                let cells: Vec<String> = row.iter().map(Value::cell).collect();
                format!("({})", cells.join(", "))
            };
            let rows: Vec<String> = self.rows.iter().map(row).collect();
            statements.push(format!("INSERT INTO {} VALUES {}", self.name, rows.join(", ")));
        }
        if self.analyzed {
            statements.push(format!("ANALYZE {}", self.name));
        }
        statements
    }

    /// True if two rows are equal in a unique key, or a row lacks a value that it must have.
    fn forbids(&self, row: &[Value]) -> bool {
        let cells = |row: &[Value], key: &Key| -> Option<Vec<String>> {
            let named = self.columns.iter().zip(row);
            let of_key = named.filter(|(column, _)| key.columns.contains(&column.name));
            of_key.map(|(_, value)| value.text.clone()).collect()
        };
        self.keys.iter().filter(|key| key.is_unique()).any(|key| {
            let new = cells(row, key);
            let taken = || self.rows.iter().any(|row| cells(row, key) == new);
            if new.is_none() { key.kind == KeyKind::Primary } else { taken() }
        })
    }
}

fn declaration(column: &Column) -> String {
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    let default = column.default.as_ref().map(|value| format!(" DEFAULT {}", value.cell()));
    format!("{} {}{not_null}{}", column.name, column.declared, default.unwrap_or_default())
}

impl Generator<'_> {
    /// Draws one to four tables.
    pub fn schema(&mut self) -> Vec<Table> {
        let count = 1 + self.below(4);
        (0..count).map(|number| self.table(number)).collect()
    }

    fn table(&mut self, number: usize) -> Table {
        let mut columns: Vec<Column> = Vec::new();
        for _ in 0..1 + self.below(5) {
            let column = self.column(&columns);
            columns.push(column);
        }
        let mut keys: Vec<Key> = Vec::new();
        let kinds = [
            (0.7, KeyKind::Primary),
            (0.15, KeyKind::Unique),
            (0.15, KeyKind::UniqueIndex),
            (0.3, KeyKind::Index),
        ];
        for (probability, kind) in kinds {
            if self.chance(probability) {
                let mut names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
                let size = 1 + self.below(names.len().min(2));
                let of_key = (0..size).map(|_| names.remove(self.below(names.len()))).collect();
                let mut key = Key { kind, columns: of_key, clauses: String::new() };
                self.extend(&mut key, &columns);
                keys.push(key);
            }
        }
        let mut table = Table {
            name: format!("t{number}"),
            columns,
            keys,
            rows: Vec::new(),
            analyzed: self.chance(0.5),
        };
        let size = if self.chance(0.12) { 0 } else { 1 + self.below(9) };
        for _ in 0..size {
            let columns = table.columns.clone();
            let cell = |column: &Column| {
                let null = !column.not_null && self.chance(0.2);
                let text = (!null).then(|| self.pick(column.of.domain()).to_string());
                Value { of: column.of, text, bare: true }
            };
            let row: Vec<Value> = columns.iter().map(cell).collect();
            if !table.forbids(&row) {
                table.rows.push(row);
            }
        }
        table
    }

    /// Gives an index included columns, a predicate, or an expression.
    fn extend(&mut self, key: &mut Key, columns: &[Column]) {
        if !matches!(key.kind, KeyKind::Index | KeyKind::UniqueIndex) {
            return;
        }
        if self.chance(0.3) {
            let free: Vec<&Column> =
                columns.iter().filter(|column| !key.columns.contains(&column.name)).collect();
            if !free.is_empty() {
                key.clauses = format!(" INCLUDE ({})", self.pick(&free).name);
            }
        }
        if key.kind == KeyKind::UniqueIndex {
            return;
        }
        let column = self.pick(columns).clone();
        if self.chance(0.3) {
            let condition = match self.below(3) {
                0 => format!("{} IS NOT NULL", column.name),
                1 => format!("{} IS NULL", column.name),
                _ => {
                    let text = Some(self.pick(column.of.domain()).to_string());
                    let value = Value { of: column.of, text, bare: false };
                    format!("{} >= {}", column.name, value.cell())
                }
            };
            key.clauses += &format!(" WHERE {condition}");
        }
        let expression = match column.of {
            SqlType::Text => Some(format!("lower({})", column.name)),
            SqlType::Int4 => Some(format!("({} % 7)", column.name)),
            _ => None,
        };
        if let Some(expression) = expression.filter(|_| self.chance(0.3)) {
            key.columns[0] = expression;
        }
    }

    fn column(&mut self, others: &[Column]) -> Column {
        let of = if self.chance(0.5) {
            *self.pick(&[SqlType::Int4, SqlType::Text])
        } else {
            *self.pick(&SqlType::ALL)
        };
        let number = others.iter().filter(|other| other.of == of).count();
        let declared = match of {
            SqlType::Text if self.chance(0.3) => "varchar(5)",
            SqlType::Numeric => "numeric(8, 2)",
            of => of.name(),
        };
        let not_null = self.chance(0.2);
        let default = self.chance(0.15).then(|| {
            let text = Some(self.pick(of.domain()).to_string());
            Value { of, text, bare: true }
        });
        Column { name: format!("{}{number}", of.letter()), of, declared, not_null, default }
    }
}
