//! Checks that ARCHITECTURE.md names items where the code has them.
//!
//! A row of three cells names an item and its file. A row of four cells also names the term by
//! which a reader finds the place in that file.

use std::path::{Path, PathBuf};

/// A row of a table of ARCHITECTURE.md that names an item.
struct Row<'a> {
    line: usize,
    item: &'a str,
    file: &'a str,
    term: Option<&'a str>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a cell between backticks, if the cell holds nothing else.
fn quoted(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

fn rows(page: &str) -> Vec<Row<'_>> {
    page.lines()
        .enumerate()
        .filter_map(|(at, line)| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let (item, file, term) = match cells[..] {
                [_, item, file] => (item, file, None),
                [_, item, file, term] => (item, file, Some(term.trim())),
                _ => return None,
            };
            Some(Row { line: at + 1, item: quoted(item)?, file: quoted(file)?, term })
        })
        .collect()
}

/// True if a file declares a function, type, trait or constant of this name.
fn declares(text: &str, item: &str) -> bool {
    ["fn", "struct", "enum", "trait", "type", "const", "static"].iter().any(|keyword| {
        let declaration = format!("{keyword} {item}");
        text.match_indices(&declaration).any(|(at, _)| {
            let next = text[at + declaration.len()..].chars().next();
            !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    })
}

/// The lines of the section under a heading, up to the next heading of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let level = heading.split(' ').next().expect("a heading");
    let from = page.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading:?}"));
    let rest = &page[from + heading.len()..];
    rest.find(&format!("\n{level} ")).map_or(rest, |to| &rest[..to])
}

#[test]
fn architecture_names_items_that_exist() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let rows = rows(&page);
    assert!(rows.len() > 50, "only {} rows name an item", rows.len());
    let mut wrong = Vec::new();
    for Row { line, item, file, term } in rows {
        let text = std::fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
        if !declares(&text, item) {
            wrong.push(format!("ARCHITECTURE.md:{line}: crates/{file} does not declare {item}"));
        }
        let lacks = |term: &&str| !text.to_lowercase().contains(&term.to_lowercase());
        if let Some(term) = term.filter(lacks) {
            wrong.push(format!("ARCHITECTURE.md:{line}: crates/{file} does not say {term:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_walk_answers_each_question_with_a_file_an_item_and_a_term() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let walk = section(&page, "## A newcomer's walk");
    for heading in [
        "### Where does a commit wait?",
        "### Where is a conflict decided?",
        "### What happens when a leader dies?",
        "### How do I add a protocol?",
    ] {
        let answers = rows(section(walk, heading));
        assert!(answers.len() >= 3, "{heading} has {} rows", answers.len());
        for row in answers {
            assert!(row.term.is_some_and(|term| !term.is_empty()), "{heading}: {}", row.item);
        }
    }
}

/// The pages of the project, without dated notes.
fn pages() -> Vec<PathBuf> {
    let pages = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).expect("a folder of the project");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    pages(root()).chain(pages(root().join("docs"))).collect()
}

#[test]
fn pages_name_paths_that_exist() {
    let mut missing = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for (at, line) in text.lines().enumerate() {
            let spans = line.split('`').skip(1).step_by(2);
            for path in spans.filter(|span| span.starts_with("crates/") && !span.contains(' ')) {
                // Of a pattern the folder is enough.
                let fixed = path.split('*').next().expect("a path");
                let folder = if fixed == path { path } else { fixed.rsplit_once('/').unwrap().0 };
                if !root().join(folder).exists() {
                    missing.push(format!("{}:{}: {path}", page.display(), at + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
}

#[test]
fn the_glossary_has_one_line_for_each_term_in_alphabetical_order() {
    let page = std::fs::read_to_string(root().join("docs/glossary.md")).expect("the page");
    let table = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let mut terms: Vec<String> = Vec::new();
    for line in table.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{line}");
        let term = cells[0].replace(['`', '*'], "").replace('-', " ").to_lowercase();
        if let Some(last) = terms.last() {
            assert!(*last < term, "{term:?} stands after {last:?}");
        }
        terms.push(term);
    }
    assert!(terms.len() > 100, "only {} terms", terms.len());
}

#[test]
fn each_path_has_at_most_fifteen_numbered_steps() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    for heading in ["## The path of one write", "## The path of one TAPIR commit"] {
        let steps = section(&page, heading).lines().filter(|line| line.starts_with("| "));
        let numbers: Vec<usize> = steps
            .filter_map(|line| line.trim_start_matches("| ").split('.').next()?.parse().ok())
            .collect();
        assert!((1..=15).contains(&numbers.len()), "{heading} has {} steps", numbers.len());
        assert_eq!(numbers, Vec::from_iter(1..=numbers.len()), "{heading}");
    }
}
