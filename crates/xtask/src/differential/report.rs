//! Progress, differences and the summary, as text.

use super::answer::Outcome;
use super::case::Case;
use super::compare::Difference;
use super::lab::{Counts, Found, Refusals};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The time between two lines of progress.
const INTERVAL: Duration = Duration::from_secs(10);

/// The differences so far.
pub struct Report {
    began: Instant,
    told: Instant,
    /// The number of cases that ran.
    pub cases: u64,
    /// How often each difference was found, by the form of its shortest script.
    found: BTreeMap<String, u64>,
}

impl Default for Report {
    fn default() -> Report {
        let now = Instant::now();
        Report { began: now, told: now, cases: 0, found: BTreeMap::new() }
    }
}

impl Report {
    /// True if a difference with this error of Meridian was reported, so that it needs no script.
    pub fn knows(&mut self, found: &Found) -> bool {
        let known = error_form(found).and_then(|form| self.found.get_mut(&form));
        known.map(|count| *count += 1).is_some()
    }

    /// Adds a difference, and prints it if there was none of its form before.
    pub fn add(&mut self, command: &str, case: &Case, found: &Found) {
        let form = error_form(found).unwrap_or_else(|| form(case, found));
        let count = self.found.entry(form).or_default();
        *count += 1;
        if *count > 1 {
            return;
        }
        println!("\n-- difference {}: {:?}", self.found.len(), found.difference);
        println!("-- {command}");
        print!("{}", case.script());
        println!("-- PostgreSQL: {}", found.postgres.show().replace('\n', "\n-- "));
        println!("-- Meridian:   {}\n", found.meridian.show().replace('\n', "\n-- "));
    }

    /// Returns the number of differences of different forms.
    pub fn differences(&self) -> usize {
        self.found.len()
    }

    /// Prints a line of progress, if it is time.
    pub fn progress(&mut self, counts: &Counts) {
        if self.told.elapsed() >= INTERVAL {
            self.told = Instant::now();
            eprintln!("{}", self.line(counts));
        }
    }

    fn line(&self, counts: &Counts) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        format!(
            "{seconds:>5.0} s  {} cases ({:.1}/s), {} statements ({} succeeded), {} differences",
            self.cases,
            self.cases as f64 / seconds,
            counts.statements,
            counts.succeeded,
            self.differences()
        )
    }

    /// Prints the counts, and the refusals by their messages.
    pub fn summary(&self, counts: &Counts) {
        println!("{}", self.line(counts));
        for (form, count) in &self.found {
            println!("{count:>6} × {form}");
        }
        println!("soft          {} (--strict reports them)", counts.soft);
        println!("undecided     {} (PostgreSQL refused them)", counts.undecided);
        let mut refused: Vec<_> = counts.refused.iter().collect();
        refused.sort_by_key(|(_, refusals)| std::cmp::Reverse(refusals.count));
        let total: u64 = refused.iter().map(|(_, refusals)| refusals.count).sum();
        println!("refused       {total}");
        for (message, Refusals { count, shortest }) in refused {
            println!("       {count:>6} × {message}\n                {shortest}");
        }
    }
}

/// Returns the form of a difference in which Meridian fails: the error without numbers and names,
/// except keywords.
fn error_form(found: &Found) -> Option<String> {
    let Outcome::Failed(state, message) = &found.meridian.outcome else { return None };
    let message: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    let is_name =
        |(at, part): &(usize, &str)| at % 2 == 1 && !part.chars().all(|c| c.is_ascii_uppercase());
    let parts = message.split(['"', '\'']).enumerate();
    let kept: Vec<&str> = parts.map(|part| if is_name(&part) { "" } else { part.1 }).collect();
    let message = kept.join("\"");
    // The statement did not run, whatever PostgreSQL found while it ran.
    if state.starts_with("42") {
        return Some(format!("{state} {message}"));
    }
    Some(format!("{:?} {message}", found.difference))
}

/// Returns the form of a difference in rows, which is that of the shortest statement.
fn form(case: &Case, found: &Found) -> String {
    use Difference::{Names, Parameters, Types};
    if matches!(found.difference, Names(..) | Parameters(..) | Types(..)) {
        return format!("{:?}", found.difference);
    }
    let mut forms = Vec::new();
    if let Some(statement) = case.statements.last() {
        statement.tree.forms(&mut forms);
    }
    let forms: BTreeSet<String> = forms.into_iter().collect();
    format!("{:?} {forms:?}", found.difference)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::*;

    fn failed(state: &str, message: &str) -> Found {
        let answer = |state: &str, message: &str| Answer {
            outcome: Outcome::Failed(state.into(), message.into()),
            took: Duration::ZERO,
        };
        let difference = Difference::State("ok".into(), state.into());
        let meridian = answer(state, message);
        Found { at: None, difference, postgres: answer("22012", ""), meridian }
    }

    #[test]
    fn errors_of_one_form_are_one_difference() {
        let form = |state, message| error_form(&failed(state, message));
        let missing = |name| form("42P01", name);
        assert_eq!(missing("no table \"a1\""), missing("no table \"q27\""));
        assert_ne!(
            form("42601", "syntax error at or near \"UNION\""),
            form("42601", "syntax error at or near \"ON\"")
        );
        assert_eq!(form("XX000", "column 'a' is null"), form("XX000", "column 'b' is null"));
        assert_ne!(form("XX000", "one"), form("XX000", "other"));
    }
}
