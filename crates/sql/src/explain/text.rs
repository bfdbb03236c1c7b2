//! EXPLAIN as text.

use super::{Actual, Actuals, Detail, Explained, Options, Summary};
use std::fmt::Write;

pub(super) fn lines(
    plan: &Explained,
    options: &Options,
    actuals: Option<&Actuals>,
    summary: &Summary,
) -> Vec<String> {
    let mut lines = Vec::new();
    add(plan, options, actuals, 0, &mut lines);
    if options.shows_summary() {
        lines.extend(summary.iter().map(|(name, value)| format!("{name}: {value}")));
    }
    lines
}

fn add(
    node: &Explained,
    options: &Options,
    actuals: Option<&Actuals>,
    depth: usize,
    lines: &mut Vec<String>,
) {
    let indent = match depth {
        0 => 0,
        depth => depth * 6 - 4,
    };
    let arrow = if depth > 0 { "->  " } else { "" };
    let mut line = format!("{:indent$}{arrow}{}", "", node.title);
    if options.costs {
        let cost = &node.cost;
        let _ = write!(
            line,
            "  (cost={:.2}..{:.2} rows={:.0} width={:.0})",
            cost.startup, cost.total, cost.rows, cost.width
        );
    }
    if let (Some(actuals), Some(id)) = (actuals, node.node) {
        match actuals.get(&id) {
            Some(actual) => {
                let Actual { rows, loops, .. } = actual;
                let each = *rows as f64 / (*loops).max(1) as f64;
                let times = match options.timing {
                    true => {
                        let [first, total] = actual.each_ms();
                        format!("time={first:.3}..{total:.3} ")
                    }
                    false => String::new(),
                };
                let _ = write!(line, " (actual {times}rows={each:.0} loops={loops})");
            }
            None => line.push_str(" (never executed)"),
        }
    }
    lines.push(line);
    let indent = if depth > 0 { indent + 6 } else { 2 };
    for (name, value) in &node.details {
        match value {
            Detail::Text(value) => lines.push(format!("{:indent$}{name}: {value}", "")),
            Detail::List(values) => {
                lines.push(format!("{:indent$}{name}: {}", "", values.join(", ")));
            }
            Detail::Quiet(_) => {}
        }
    }
    for input in &node.inputs {
        lines.extend(input.subplan.iter().map(|name| format!("{:indent$}{name}", "")));
        add(input, options, actuals, depth + 1, lines);
    }
}

impl Actual {
    /// The average times of a loop, in milliseconds.
    pub(super) fn each_ms(&self) -> [f64; 2] {
        let loops = self.loops.max(1) as f64;
        [self.first, self.total].map(|time| time.as_secs_f64() * 1e3 / loops)
    }
}
