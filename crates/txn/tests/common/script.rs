//! Golden transcripts: commands, followed by their output.
//!
//! ```text
//! # what this shows
//! command
//! another
//! ----
//! their output
//! ```
//!
//! Blocks are separated by a blank line. `UPDATE=1 cargo test` writes the output anew; the diff is
//! then reviewed like code.

use std::fmt::Write;
use std::path::Path;

/// Runs every script of a folder, each in a state of its own.
pub fn check<W>(
    folder: &Path,
    fresh: impl Fn() -> W,
    step: impl Fn(&mut W, &str) -> Result<String, String>,
) {
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of the scripts exists")
        .flatten()
        .map(|e| e.path())
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "no script in {}", folder.display());
    for script in scripts {
        let text = std::fs::read_to_string(&script).expect("a script is text");
        let (mut world, mut out) = (fresh(), String::new());
        for block in text.split("\n\n").map(str::trim_end).filter(|block| !block.is_empty()) {
            let commands = block.split("\n----").next().unwrap_or_default();
            let _ = writeln!(out, "{commands}\n----");
            for command in commands.lines().filter(|line| !line.starts_with('#')) {
                let answer = step(&mut world, command);
                let answer =
                    answer.unwrap_or_else(|why| panic!("{}: {command}: {why}", script.display()));
                if !answer.is_empty() {
                    let _ = writeln!(out, "{}", answer.trim_end());
                }
            }
            out.push('\n');
        }
        let out = format!("{}\n", out.trim_end());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&script, &out).expect("the script can be written");
        }
        let differs = text.lines().zip(out.lines()).position(|(expected, found)| expected != found);
        assert!(
            text == out || std::env::var_os("UPDATE").is_some(),
            "{}: line {} differs; UPDATE=1 writes what was found:\n{out}",
            script.display(),
            differs.map_or(text.lines().count(), |at| at) + 1
        );
    }
}
