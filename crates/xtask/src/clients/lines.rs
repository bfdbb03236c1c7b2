//! The lines that programs print: `ok NAME`, and `not ok NAME: ERROR`.

use std::collections::BTreeMap;

/// The results of a program on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// The error of each check that ran, `None` if it passed.
    pub checks: BTreeMap<String, Option<String>>,
    /// The unusual end of the program.
    pub end: Option<String>,
    /// The last line that is no result, or the last that is an error: why a program ended.
    pub last: String,
}

impl Results {
    /// Returns the results of a program that did not run.
    pub fn ended(why: &str) -> Results {
        Results { end: Some(why.to_owned()), ..Results::default() }
    }

    /// Reads the output of a program; lines of other forms are of its libraries.
    pub fn read(text: &str) -> Results {
        let mut results = Results::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("ok ") {
                // A check that failed before stays so.
                results.checks.entry(name.trim().to_owned()).or_insert(None);
            } else if let Some(rest) = line.strip_prefix("not ok ") {
                let (name, error) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
                results.checks.insert(name.trim().to_owned(), Some(short(error)));
            } else if line.contains(ERROR) || !line.trim().is_empty() && !results.errs() {
                results.last = short(line);
            }
        }
        results
    }

    fn errs(&self) -> bool {
        self.last.contains(ERROR)
    }

    /// Returns the number of checks that passed.
    pub fn passed(&self) -> usize {
        self.checks.values().filter(|error| error.is_none()).count()
    }

    /// True if a check passed.
    pub fn passes(&self, name: &str) -> bool {
        matches!(self.checks.get(name), Some(None))
    }

    /// Returns the reason why a check did not pass.
    pub fn reason(&self, name: &str) -> String {
        match (self.checks.get(name), &self.end) {
            (Some(error), _) => error.clone().unwrap_or_default(),
            (None, Some(end)) if self.last.is_empty() => format!("not run: {end}"),
            (None, Some(end)) => format!("not run: {end}: {}", self.last),
            (None, None) => "not run".to_owned(),
        }
    }
}

/// The mark of a line that tells an error.
const ERROR: &str = "Error: ";
/// The parts of errors that only repeat the statement.
const ENDS: [&str; 6] = [" LINE ", " [SQL:", " HINT: ", " Hint: ", " Position: ", " DETAIL: "];
const LENGTH: usize = 160;

/// Returns an error without its statement.
fn short(error: &str) -> String {
    let end = ENDS.iter().filter_map(|end| error.find(end)).min().unwrap_or(error.len());
    let kept = error[..end].trim();
    match kept.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{}…", kept[..at].trim_end()),
        None => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_among_other_lines() {
        let results = Results::read(
            "Creating …\nok one\nnot ok two: Error: no column \"a\" LINE 1: SELECT a\n\nok three\n\
             Traceback\nnot ok four\nnot ok five: a: b: c\n",
        );
        assert_eq!(results.passed(), 2);
        assert!(results.passes("three") && !results.passes("two") && !results.passes("missing"));
        assert_eq!(results.reason("two"), "Error: no column \"a\"");
        assert_eq!(results.reason("four"), "no reason given");
        assert_eq!(results.reason("five"), "a: b: c");
        assert_eq!(results.last, "Traceback");
        assert_eq!(results.reason("missing"), "not run");
    }

    #[test]
    fn a_check_that_failed_once_has_failed() {
        let results = Results::read("not ok a: x\nok a\nok b\nnot ok b: y\n");
        assert_eq!(results.passed(), 0);
    }

    #[test]
    fn a_program_that_ends_early_is_the_reason() {
        let mut results = Results::read("ok a\nthread died\n");
        results.end = Some("signal: 9".to_owned());
        assert_eq!(results.reason("b"), "not run: signal: 9: thread died");
        assert!(results.passes("a"));
        let results = Results::read("Trace\nDataError: wrong\nDETAIL: none\n");
        assert_eq!(results.last, "DataError: wrong");
    }

    #[test]
    fn long_errors_are_cut_at_characters() {
        let error = "ü".repeat(500);
        assert_eq!(short(&error).chars().count(), LENGTH + 1);
    }
}
