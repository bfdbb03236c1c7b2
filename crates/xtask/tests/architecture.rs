//! Tests that the functions that ARCHITECTURE.md names are in the files that it names.

use std::path::Path;

/// Returns the text of a cell that is entirely in backticks.
fn quoted(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

#[test]
fn what_the_architecture_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let (mut rows, mut missing) = (0, Vec::new());
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, function, file] = cells[..] else { continue };
        let (Some(function), Some(file)) = (quoted(function), quoted(file)) else { continue };
        rows += 1;
        let text = std::fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        let declared = ["(", "<"].map(|opens| text.contains(&format!("fn {function}{opens}")));
        if !declared.contains(&true) {
            missing.push(format!("{function} in {file}"));
        }
    }
    assert!(rows > 30, "only {rows} rows name a function");
    assert!(missing.is_empty(), "not there: {}", missing.join(", "));
}
