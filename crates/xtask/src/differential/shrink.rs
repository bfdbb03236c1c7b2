//! The shrinker: it makes a case smaller as long as the case shows its difference.
//!
//! A step is taken only if the script gets shorter, so that the shrinker ends.

use super::case::{Case, Statement};
use super::schema::Table;
use super::tree::{Content, Node, Role};
use super::types::{SqlType, Value};

/// Shrinks a case. `shows` runs a case, and returns true if it shows the difference.
pub fn shrink(mut case: Case, shows: &mut impl FnMut(&Case) -> bool) -> Case {
    loop {
        let before = case.script().len();
        shrink_statements(&mut case, shows);
        shrink_tree(&mut case, shows);
        shrink_tables(&mut case, shows);
        if case.script().len() >= before {
            return case;
        }
    }
}

/// Replaces the case by a shorter one that shows the difference.
fn accept(case: &mut Case, shorter: Case, shows: &mut impl FnMut(&Case) -> bool) -> bool {
    let taken = shorter.script().len() < case.script().len() && shows(&shorter);
    if taken {
        *case = shorter;
    }
    taken
}

/// Changes a copy of the case, and keeps the copy if it is shorter and shows the difference.
fn attempt(
    case: &mut Case,
    shows: &mut impl FnMut(&Case) -> bool,
    change: impl FnOnce(&mut Case),
) -> bool {
    let mut shorter = case.clone();
    change(&mut shorter);
    accept(case, shorter, shows)
}

fn shrink_statements(case: &mut Case, shows: &mut impl FnMut(&Case) -> bool) {
    attempt(case, shows, |case| case.statements = case.statements.split_off(last(case)));
    for at in (0..last(case)).rev() {
        attempt(case, shows, |case| drop(case.statements.remove(at)));
    }
    let mut simpler = |change: fn(&mut Statement)| {
        attempt(case, shows, |case| {
            if let Some(statement) = case.statements.last_mut() {
                change(statement);
            }
        });
    };
    simpler(|statement| statement.extended = false);
    simpler(|statement| statement.tail = None);
    simpler(|statement| {
        if let Some(tail) = &mut statement.tail {
            tail.limit = None;
        }
    });
    simpler(|statement| {
        if let Some(tail) = &mut statement.tail {
            tail.directions.fill("");
        }
    });
}

fn last(case: &Case) -> usize {
    case.statements.len().saturating_sub(1)
}

fn shrink_tables(case: &mut Case, shows: &mut impl FnMut(&Case) -> bool) {
    for at in (0..case.tables.len()).rev() {
        if !attempt(case, shows, |case| drop(case.tables.remove(at))) {
            shrink_rows(case, at, shows);
            shrink_declarations(case, at, shows);
        }
    }
}

/// Removes all rows of a table, halves of them, and single ones.
fn shrink_rows(case: &mut Case, at: usize, shows: &mut impl FnMut(&Case) -> bool) {
    let mut removed = |change: &dyn Fn(&mut Vec<Vec<Value>>)| {
        attempt(case, shows, |case| change(&mut case.tables[at].rows))
    };
    removed(&Vec::clear);
    removed(&|rows| rows.truncate(rows.len() / 2));
    removed(&|rows| drop(rows.drain(..rows.len() / 2)));
    for row in (0..case.tables[at].rows.len()).rev() {
        attempt(case, shows, |case| drop(case.tables[at].rows.remove(row)));
    }
}

fn shrink_declarations(case: &mut Case, at: usize, shows: &mut impl FnMut(&Case) -> bool) {
    for key in (0..case.tables[at].keys.len()).rev() {
        attempt(case, shows, |case| drop(case.tables[at].keys.remove(key)));
    }
    for column in (0..case.tables[at].columns.len()).rev() {
        let removed = attempt(case, shows, |case| remove_column(&mut case.tables[at], column));
        if removed {
            continue;
        }
        attempt(case, shows, |case| case.tables[at].columns[column].not_null = false);
        attempt(case, shows, |case| case.tables[at].columns[column].default = None);
        for row in 0..case.tables[at].rows.len() {
            let of = case.tables[at].columns[column].of;
            for text in [Some(of.domain()[1].to_owned()), None] {
                attempt(case, shows, |case| case.tables[at].rows[row][column].text = text);
            }
        }
    }
}

fn remove_column(table: &mut Table, at: usize) {
    if table.columns.len() < 2 {
        return;
    }
    let column = table.columns.remove(at);
    for row in &mut table.rows {
        row.remove(at);
    }
    for key in &mut table.keys {
        key.columns.retain(|name| *name != column.name);
    }
    table.keys.retain(|key| !key.columns.is_empty());
}

/// Shrinks the last statement, from its root on.
fn shrink_tree(case: &mut Case, shows: &mut impl FnMut(&Case) -> bool) {
    if !case.statements.is_empty() {
        shrink_node(case, &mut Vec::new(), shows);
    }
}

fn node_at<'a>(case: &'a mut Case, path: &[usize]) -> &'a mut Node {
    let at = last(case);
    let root = &mut case.statements[at].tree;
    path.iter().fold(root, |node, child| &mut node.children_mut()[*child])
}

fn shrink_node(case: &mut Case, path: &mut Vec<usize>, shows: &mut impl FnMut(&Case) -> bool) {
    let mut taken = true;
    while taken {
        let node = node_at(case, path).clone();
        taken = replacements(&node)
            .into_iter()
            .any(|smaller| attempt(case, shows, |case| *node_at(case, path) = smaller));
    }
    let mut child = 0;
    while child < node_at(case, path).children().len() {
        path.push(child);
        shrink_node(case, path, shows);
        path.pop();
        child += 1;
    }
}

/// Returns the nodes that can stand in place of a node.
fn replacements(node: &Node) -> Vec<Node> {
    let mut found = Vec::new();
    match &node.role {
        Role::Optional => found.push(Node::absent()),
        Role::Expression(of) => {
            found.extend(constants(*of));
            descendants(node, &node.role, &mut found);
        }
        Role::Query(_) | Role::Source => descendants(node, &node.role, &mut found),
        Role::List => {
            if let Content::Separated(separator, children) = &node.content
                && children.len() > 1
            {
                for at in 0..children.len() {
                    let mut rest = children.clone();
                    rest.remove(at);
                    let content = Content::Separated(separator, rest);
                    found.push(Node { role: Role::List, content });
                }
            }
        }
        Role::Fixed => {}
    }
    found
}

fn constants(of: SqlType) -> [Node; 3] {
    let value = |text, bare| Node::value(Value { of, text, bare });
    let simple = Some(of.domain()[1].to_owned());
    [value(simple.clone(), true), value(simple, false), value(None, false)]
}

/// Collects the nearest nodes of this role below a node.
fn descendants(node: &Node, role: &Role, found: &mut Vec<Node>) {
    for child in node.children() {
        if child.role == *role {
            found.push(child.clone());
        } else {
            descendants(child, role, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::features::Skipped;

    #[test]
    fn a_planted_difference_is_shrunk_to_what_shows_it() {
        let mut shrunk = 0;
        for seed in 0..300 {
            let mut case = Case::draw(seed, &Skipped::default());
            let shows = |case: &Case| {
                case.statements.last().is_some_and(|last| last.sql().0.contains("NOT IN ("))
            };
            while !case.statements.is_empty() && !shows(&case) {
                case.statements.pop();
            }
            if case.statements.is_empty() {
                continue;
            }
            let mut runs = 0;
            let small = shrink(case, &mut |case| {
                runs += 1;
                shows(case)
            });
            assert!(shows(&small));
            assert_eq!(small.statements.len(), 1);
            assert!(small.tables.is_empty());
            assert!(small.script().len() < 400, "{}", small.script());
            assert!(runs < 2000, "{runs} runs");
            shrunk += 1;
        }
        assert!(shrunk > 50, "only {shrunk} seeds show the difference");
    }

    #[test]
    fn rows_and_columns_that_matter_stay() {
        let has = |case: &Case| {
            let table = case.tables.first();
            table.is_some_and(|table| table.rows.len() >= 2 && !table.keys.is_empty())
        };
        let seed = (0..).find(|seed| has(&Case::draw(*seed, &Skipped::default()))).expect("a seed");
        let small = shrink(Case::draw(seed, &Skipped::default()), &mut |case| has(case));
        let table = &small.tables[0];
        assert_eq!((small.tables.len(), table.rows.len(), table.columns.len()), (1, 2, 1));
    }
}
