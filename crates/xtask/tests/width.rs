//! Tests that prose fits 100 columns: comments, and Markdown outside of tables, drawings and
//! commands.

use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, found);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns the prose of a line, or `None` if the line is code.
fn prose(line: &str, markdown: bool) -> Option<&str> {
    let text = line.trim_start();
    if markdown {
        return Some(text);
    }
    let comment = text.strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

#[test]
fn prose_fits_a_hundred_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut wide) = (Vec::new(), Vec::new());
    files(&root, &mut found);
    assert!(found.len() > 300, "only {} files are looked at", found.len());
    for path in found {
        let markdown = path.extension().is_some_and(|extension| extension == "md");
        let text = std::fs::read_to_string(&path).expect("text");
        let mut verbatim = false;
        for (at, line) in text.lines().enumerate() {
            let Some(prose) = prose(line, markdown) else {
                verbatim = false;
                continue;
            };
            if prose.starts_with("```") {
                verbatim = !verbatim;
            }
            let columns = line.chars().count();
            if columns > COLUMNS && !verbatim && !prose.starts_with('|') {
                let name = path.strip_prefix(&root).unwrap_or(&path).display();
                wide.push(format!("{name}:{}: {columns} columns", at + 1));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {COLUMNS} columns:\n{}", wide.join("\n"));
}
