//! The matrix and the differences, as Markdown.

use super::catalog::{Client, Run};
use super::lines::Results;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row of the matrix.
pub struct Row<'a> {
    pub client: &'a Client,
    pub run: &'a Run,
    pub outcome: Outcome,
}

/// The result of a run.
pub enum Outcome {
    /// The client could not be installed.
    Absent(String),
    /// It ran on both servers.
    Ran { postgres: Results, meridian: Results },
}

/// The counts of a run on both servers.
struct Counts {
    checks: usize,
    postgres: usize,
    /// Those that pass on PostgreSQL and on Meridian.
    both: usize,
}

impl Counts {
    /// Returns the share in per cent, rounded down: only all is 100.
    fn share(&self) -> String {
        if self.postgres == 0 {
            return "–".to_owned();
        }
        let tenths = self.both * 1000 / self.postgres;
        match tenths % 10 {
            0 => format!("{} %", tenths / 10),
            tenth => format!("{}.{tenth} %", tenths / 10),
        }
    }
}

/// Checks that do not pass for the same reason.
struct Difference<'a> {
    reason: String,
    checks: Vec<&'a str>,
}

/// The number of checks that the matrix and the terminal name for one reason.
const NAMED: usize = 3;
/// The number of reasons in a row of the matrix.
const FIRST: usize = 2;

impl Outcome {
    fn counts(&self) -> Option<Counts> {
        let Outcome::Ran { postgres, meridian } = self else { return None };
        let passed = postgres.checks.keys().filter(|name| postgres.passes(name));
        let both = passed.filter(|name| meridian.passes(name)).count();
        Some(Counts { checks: postgres.checks.len(), postgres: postgres.passed(), both })
    }

    /// Returns what passes on PostgreSQL and not on Meridian, the most frequent reason first.
    fn differences(&self) -> Vec<Difference<'_>> {
        let Outcome::Ran { postgres, meridian } = self else { return Vec::new() };
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in postgres.checks.keys().filter(|name| postgres.passes(name)) {
            if !meridian.passes(name) {
                by_reason.entry(meridian.reason(name)).or_default().push(name);
            }
        }
        let pair = |(reason, checks)| Difference { reason, checks };
        let mut differences: Vec<Difference<'_>> = by_reason.into_iter().map(pair).collect();
        differences.sort_by_key(|difference| std::cmp::Reverse(difference.checks.len()));
        differences
    }

    /// Returns a line about the run.
    pub fn summary(&self, run: &Run) -> String {
        let name = if run.name.is_empty() { "" } else { &format!("{}: ", run.name) };
        match (self, self.counts()) {
            (Outcome::Ran { postgres, .. }, Some(counts)) => {
                let mut line = format!(
                    "{name}{} of {} pass on PostgreSQL, {} of these on Meridian: {}",
                    counts.postgres,
                    counts.checks,
                    counts.both,
                    counts.share()
                );
                for name in postgres.checks.keys().filter(|name| !postgres.passes(name)) {
                    let _ = write!(line, "\n  PostgreSQL: {name}: {}", postgres.reason(name));
                }
                if let Some(end) = &postgres.end {
                    let _ = write!(line, "\n  PostgreSQL: {end}: {}", postgres.last);
                }
                line
            }
            (Outcome::Absent(why), _) => format!("{name}not installed: {why}"),
            (Outcome::Ran { .. }, None) => name.to_owned(),
        }
    }
}

impl Row<'_> {
    fn title(&self) -> String {
        match self.run.name {
            "" => self.client.name.to_owned(),
            run => format!("{} {run}", self.client.name),
        }
    }

    fn cells(&self) -> [String; 6] {
        let (title, libraries) = (self.title(), self.client.libraries.to_owned());
        let Some(counts) = self.outcome.counts() else {
            let dash = || "–".to_owned();
            return [title, libraries, dash(), dash(), dash(), "could not be installed".to_owned()];
        };
        let all = self.outcome.differences();
        let mut first: Vec<String> = all.iter().take(FIRST).map(|one| cell(&one.reason)).collect();
        if all.len() > FIRST {
            first.push(format!("{} more", all.len() - FIRST));
        }
        [
            title,
            libraries,
            format!("{} of {}", counts.postgres, counts.checks),
            counts.both.to_string(),
            counts.share(),
            first.join("; "),
        ]
    }
}

/// Returns a text that is safe in a cell of a table.
fn cell(text: &str) -> String {
    let text: String = text.chars().take(70).collect();
    format!("`{}`", text.replace('`', "'").replace('|', "/"))
}

/// Returns the table of all runs.
pub fn matrix(rows: &[Row<'_>]) -> String {
    let mut text = "| client | libraries | pass on PostgreSQL | of these on Meridian | share \
                    | first differences |\n|---|---|--:|--:|--:|---|\n"
        .to_owned();
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}

/// Returns every difference, by run and reason.
pub fn differences(rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Outcome::Absent(why) = &row.outcome {
            let _ = write!(text, "\n### {}\n\nCould not be installed: {why}\n", row.title());
            continue;
        }
        let all = row.outcome.differences();
        if all.is_empty() {
            continue;
        }
        let _ = write!(text, "\n### {}\n\n", row.title());
        for Difference { reason, checks } in all {
            let named = checks.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let more = match checks.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let item = format!("- {named}{more}: `{}`", reason.replace('`', "'"));
            text += &wrapped(&item, "  ");
        }
    }
    text
}

/// The width of a line of a page.
const WIDTH: usize = 100;

/// Returns a text in lines of the page's width; all but the first begin with an indentation.
fn wrapped(words: &str, indentation: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in words.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            text += indentation;
            width = indentation.len();
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(postgres: &str, meridian: &str) -> Outcome {
        Outcome::Ran { postgres: Results::read(postgres), meridian: Results::read(meridian) }
    }

    #[test]
    fn the_share_is_of_what_passes_on_postgresql() {
        let ran = outcome("ok a\nok b\nok c\nnot ok d: x\n", "ok a\nok b\nnot ok c: y\nok d\n");
        let counts = ran.counts().expect("ran");
        assert_eq!((counts.checks, counts.postgres, counts.both), (4, 3, 2));
        assert_eq!(counts.share(), "66.6 %");
        assert_eq!(Counts { checks: 1, postgres: 0, both: 0 }.share(), "–");
        assert_eq!(Counts { checks: 2000, postgres: 2000, both: 1999 }.share(), "99.9 %");
        assert_eq!(Counts { checks: 2, postgres: 2, both: 2 }.share(), "100 %");
    }

    #[test]
    fn differences_are_grouped_by_reason() {
        let ran = outcome("ok a\nok b\nok c\nok d\n", "not ok a: x\nnot ok b: y\nnot ok c: y\n");
        let found: Vec<(String, usize)> =
            ran.differences().into_iter().map(|one| (one.reason, one.checks.len())).collect();
        let expected = [("y".to_owned(), 2), ("not run".to_owned(), 1), ("x".to_owned(), 1)];
        assert_eq!(found, expected);
    }

    #[test]
    fn items_are_wrapped() {
        let item = format!("- {}", "word ".repeat(50).trim_end());
        let text = wrapped(&item, "  ");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.split_whitespace().count(), 51);
    }
}
