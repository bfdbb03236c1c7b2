//! `meridian workload` as a client: started, and its report parsed.

use crate::pgbench::Outcome;
use std::path::Path;
use std::process::Command;

/// Runs `meridian workload`, and returns what it printed.
pub fn workload(binary: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(binary).arg("workload").args(arguments).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "meridian workload {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Parses the report of `meridian workload … run`.
pub fn read(shown: &str) -> Option<Outcome> {
    let words = |name: &str| words(shown, name);
    let count = |name: &str| words(name)?.first()?.parse::<u64>().ok();
    let latency = words("latency ms")?;
    let quantile = |name: &str| {
        let at = latency.iter().position(|word| *word == name)?;
        latency.get(at + 1)?.parse::<f64>().ok()
    };
    Some(Outcome {
        tps: words("ok ")?.get(1)?.parse().ok()?,
        transactions: count("ok ")?,
        failed: count("failed ")? + count("unknown ")?,
        p50_ms: quantile("p50")?,
        p99_ms: quantile("p99")?,
    })
}

/// Returns the words behind a name that a line begins with.
fn words<'a>(shown: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let line = shown.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    Some(line.split_whitespace().collect())
}

/// One kind of transaction in the report of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Transactions per minute.
    pub per_minute: f64,
    /// The median latency, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of the latency, in milliseconds.
    pub p99_ms: f64,
}

/// Parses the line of one kind of transaction.
pub fn read_kind(shown: &str, kind: &str) -> Option<Kind> {
    let words = words(shown, kind)?;
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse::<f64>().ok()
    };
    let per_minute = words.get(1)?.parse().ok()?;
    Some(Kind { per_minute, p50_ms: after("p50")?, p99_ms: after("p99")? })
}

/// Parses the number of attempts that were repeated.
pub fn read_retried(shown: &str) -> Option<u64> {
    words(shown, "retried ")?.first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_workload_is_read() {
        let shown = "   1 s     1200 tx/s  ok 1200  retried 0  failed 0  unknown 0\n\
                     bank, 8 clients, 2 s\n  ok             2400   1199.5 transactions/s\n  \
                     retried          7   the server asked for it (40001, 40P01)\n  \
                     failed           2   definitely did not happen\n  \
                     unknown          1   no response to COMMIT: may have happened\n  \
                     latency ms   mean 6.10   p50 5.90   p90 7.00   p99 9.25   p99.9 12.00   max 30.00\n";
        let expected =
            Outcome { tps: 1199.5, transactions: 2400, failed: 3, p50_ms: 5.9, p99_ms: 9.25 };
        assert_eq!(read(shown), Some(expected));
        assert_eq!(read("no transaction committed"), None);
        assert_eq!(read_retried(shown), Some(7));
    }

    #[test]
    fn one_kind_of_transaction_is_read() {
        let shown = "  latency ms   mean 1.00   p50 0.90\n  \
                     new order       1684   12571 per minute   p50 11.81 ms   p99 36.09 ms\n";
        let expected = Kind { per_minute: 12571.0, p50_ms: 11.81, p99_ms: 36.09 };
        assert_eq!(read_kind(shown, "new order"), Some(expected));
        assert_eq!(read_kind(shown, "payment"), None);
    }
}
