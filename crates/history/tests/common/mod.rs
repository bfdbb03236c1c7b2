//! Histories in a short notation.

#![allow(dead_code)] // Each test file uses its own part.

use meridian_history::{Transaction, read};

pub fn parse(text: &str) -> Vec<Transaction> {
    read(text.as_bytes()).expect("a history")
}

/// Reads `start end ops…`, one transaction per line. `!` marks a failed one, `?` an unknown
/// outcome.
pub fn history(text: &str) -> Vec<Transaction> {
    let line = |(client, line): (usize, &str)| {
        let (status, line) = match line.trim().split_at(1) {
            ("!", rest) => ("fail", rest),
            ("?", rest) => ("info", rest),
            _ => ("ok", line.trim()),
        };
        let mut parts = line.splitn(3, ' ');
        let (start, end) = (parts.next().unwrap(), parts.next().unwrap());
        let ops = parts.next().unwrap();
        format!(
            r#"{{"client":{client},"start":{start},"end":{end},"status":"{status}","ops":[{ops}]}}"#
        )
    };
    parse(&text.trim().lines().enumerate().map(line).collect::<Vec<_>>().join("\n"))
}
