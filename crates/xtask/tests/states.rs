//! Checks that the code still has each state that a campaign is to meet: a name that stands in no
//! `sometimes!` is never met, and the campaign can only fail.

use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The string literals of a text that stand alone on a line.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.trim().trim_end_matches(','));
    lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'))
}

#[test]
fn each_state_that_a_campaign_is_to_meet_stands_in_the_code() {
    let (mut files, mut code, mut missing, mut count) = (Vec::new(), String::new(), Vec::new(), 0);
    for source in ["clock", "mvcc", "replication", "sim", "store", "systems", "txn"] {
        rust_files(&crates().join(source).join("src"), &mut files);
    }
    let is_list = |path: &Path| path.file_name().is_some_and(|name| name == "protocol.rs");
    let (lists, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| is_list(path) && path.starts_with(crates().join("sim")));
    for path in others {
        code += &std::fs::read_to_string(path).expect("text");
    }
    for path in lists {
        let text = std::fs::read_to_string(&path).expect("text");
        for name in names(&text) {
            count += 1;
            if !code.contains(&format!("\"{name}\"")) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(count > 50, "only {count} names were read");
    assert!(missing.is_empty(), "states that no code reaches:\n{}", missing.join("\n"));
}
