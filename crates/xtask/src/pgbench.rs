//! Runs PostgreSQL's own benchmark client, and parses its output.

use std::path::Path;
use std::process::Command;

/// The script to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// `-S`: reads one row by its key.
    SelectOnly,
    /// The TPC-B-like transaction.
    TpcB,
    /// Writes one row by its key, whether or not it exists: a key-value store's put.
    Put,
    /// Joins a customer with its orders and their lines.
    Join,
    /// Returns the newest orders of all customers, with the customers' names.
    Newest,
    /// Counts a customer's orders that have a large line: EXISTS, by the simple protocol.
    Exists,
    /// Joins two rows by their keys, by the simple protocol: planned each time.
    Plan,
}

/// The number of keys that [`Script::Put`] writes, and the size of its values.
pub const KEYS: u32 = 100_000;
pub const VALUE_BYTES: usize = 256;

/// The tables of the scripts that join: statements that create and fill them.
pub fn shop() -> Vec<String> {
    let (customers, orders, lines) = (CUSTOMERS, CUSTOMERS * 15, CUSTOMERS * 50);
    let mut statements = vec![
        "CREATE TABLE customers (id int PRIMARY KEY, name text)".to_owned(),
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, placed int)".to_owned(),
        "CREATE TABLE lines (id int PRIMARY KEY, order_id int, amount int)".to_owned(),
        "CREATE INDEX orders_customer ON orders (customer)".to_owned(),
        "CREATE INDEX orders_placed ON orders (placed)".to_owned(),
        "CREATE INDEX lines_order ON lines (order_id)".to_owned(),
    ];
    // In parts, since a transaction holds its writes in memory.
    const PART: u32 = 5_000;
    for (table, count, values) in [
        ("customers", customers, "g, 'customer ' || g".to_owned()),
        ("orders", orders, format!("g, g % {customers} + 1, (g * 7919) % 1000003")),
        ("lines", lines, format!("g, g % {orders} + 1, g % 100")),
    ] {
        for first in (1..=count).step_by(PART as usize) {
            let last = count.min(first + PART - 1);
            statements.push(format!(
                "INSERT INTO {table} SELECT {values} FROM generate_series({first}, {last}) g"
            ));
        }
        statements.push(format!("ANALYZE {table}"));
    }
    statements
}

/// The number of customers.
pub const CUSTOMERS: u32 = 2_000;

impl Script {
    /// Returns the text of a script that is not one of pgbench's own.
    fn text(self) -> Option<String> {
        let customer = format!("\\set id random(1, {CUSTOMERS})\n");
        Some(match self {
            Script::SelectOnly | Script::TpcB => return None,
            Script::Put => {
                let value = "x".repeat(VALUE_BYTES);
                format!(
                    "\\set k random(1, {KEYS})\nINSERT INTO kv VALUES (:k, '{value}') ON CONFLICT (k) DO UPDATE SET v = '{value}';\n"
                )
            }
            Script::Join => customer + "SELECT c.name, o.id, l.amount FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id WHERE c.id = :id;\n",
            Script::Newest => "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer ORDER BY o.placed DESC LIMIT 20;\n".to_owned(),
            Script::Exists => customer + "SELECT count(*) FROM orders o WHERE o.customer = :id AND EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND l.amount > 90);\n",
            Script::Plan => customer + "SELECT c.name, o.placed FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id = :id;\n",
        })
    }

    /// Returns pgbench's name of the protocol.
    fn protocol(self) -> &'static str {
        match self {
            Script::Exists | Script::Plan => "simple",
            _ => "prepared",
        }
    }

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Script::SelectOnly => "select-only",
            Script::TpcB => "TPC-B",
            Script::Put => "put",
            Script::Join => "customer ⋈ orders ⋈ lines",
            Script::Newest => "newest orders ⋈ customer",
            Script::Exists => "EXISTS, planned each time",
            Script::Plan => "small join, planned each time",
        }
    }
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Transactions per second, without the time to connect.
    pub tps: f64,
    /// The number of all transactions.
    pub transactions: u64,
    /// The number of failed transactions.
    pub failed: u64,
    /// The median latency, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of the latency, in milliseconds.
    pub p99_ms: f64,
}

/// Parses the output of pgbench.
pub fn read(shown: &str) -> Option<Outcome> {
    let after = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name));
    let number =
        |text: &str| text.trim().split([' ', '/']).next().unwrap_or_default().parse::<f64>().ok();
    Some(Outcome {
        tps: number(after("tps = ")?)?,
        transactions: number(after("number of transactions actually processed:")?)? as u64,
        failed: number(after("number of failed transactions:").unwrap_or(" 0"))? as u64,
        ..Outcome::default()
    })
}

/// Returns the median and the 99th percentile of a transaction log (`-l`), whose third column is
/// microseconds.
pub fn percentiles(log: &str) -> Option<(f64, f64)> {
    let latency = |line: &str| line.split(' ').nth(2)?.parse::<u64>().ok();
    let mut latencies: Vec<u64> = log.lines().filter_map(latency).collect();
    latencies.sort_unstable();
    Some((percentile(&latencies, 0.5)?, percentile(&latencies, 0.99)?))
}

/// Returns a quantile of sorted microseconds, in milliseconds.
pub fn percentile(sorted_us: &[u64], part: f64) -> Option<f64> {
    let at = (sorted_us.len().saturating_sub(1) as f64 * part) as usize;
    sorted_us.get(at).map(|us| *us as f64 / 1e3)
}

/// The address of a server.
#[derive(Clone, Debug)]
pub struct Target {
    /// The port on this machine.
    pub port: u16,
    /// The user.
    pub user: String,
}

fn command(target: &Target) -> Command {
    let mut command = Command::new("pgbench");
    command.args(["-h", "127.0.0.1", "-p", &target.port.to_string(), "-U", &target.user]);
    command
}

/// Creates the tables.
pub fn init(target: &Target, scale: u32) -> Result<(), String> {
    let output = command(target).args(["-i", "-q", "-s", &scale.to_string(), "postgres"]).output();
    let output = output.map_err(|error| format!("cannot run pgbench: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("pgbench -i failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Runs a statement by psql, PostgreSQL's shell.
pub fn sql(target: &Target, statement: &str) -> Result<(), String> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-h", "127.0.0.1", "-p", &target.port.to_string(), "-U", &target.user]);
    let output = psql.args(["-v", "ON_ERROR_STOP=1", "-c", statement, "postgres"]).output();
    let output = output.map_err(|error| format!("cannot run psql: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("psql: {said}")) }
}

/// Runs a script. Its transaction log goes to a folder, sampled so that it stays small.
pub fn run(
    target: &Target,
    script: Script,
    clients: u32,
    seconds: u32,
    folder: &Path,
) -> Result<Outcome, String> {
    let prefix = folder.join("transactions");
    let mut command = command(target);
    command.args([
        "-n",
        "-M",
        script.protocol(),
        "-c",
        &clients.to_string(),
        "-j",
        &clients.min(2).to_string(),
    ]);
    command.args(["-T", &seconds.to_string(), "--max-tries=1", "-l", "--sampling-rate=0.05"]);
    command.arg(format!("--log-prefix={}", prefix.display()));
    if script == Script::SelectOnly {
        command.arg("-S");
    }
    if let Some(text) = script.text() {
        let file = folder.join("script.sql");
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        command.arg("-f").arg(file);
    }
    let output =
        command.arg("postgres").output().map_err(|error| format!("cannot run pgbench: {error}"))?;
    let (shown, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut outcome = read(&shown).ok_or_else(|| format!("pgbench failed: {complaint}"))?;
    if !output.status.success() {
        return Err(format!("pgbench ended early: {complaint}"));
    }
    let mut log = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("transactions.") {
            log += &std::fs::read_to_string(entry.path()).unwrap_or_default();
            let _ = std::fs::remove_file(entry.path());
        }
    }
    (outcome.p50_ms, outcome.p99_ms) = percentiles(&log).unwrap_or_default();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_prints_is_read() {
        let shown = "pgbench (15.1)\nscaling factor: 50\nnumber of transactions actually processed: 1234\n\
                     number of failed transactions: 5 (0.404%)\nlatency average = 1.580 ms\n\
                     tps = 5064.044012 (without initial connection time)\n";
        let outcome = read(shown).expect("valid");
        assert_eq!((outcome.tps, outcome.transactions, outcome.failed), (5064.044012, 1234, 5));
        assert_eq!(read("pgbench: error: connection refused"), None);
    }

    #[test]
    fn a_transaction_log_is_read() {
        let log: String =
            (1..=100).map(|at| format!("0 {at} {} 0 1700000000 1\n", at * 1000)).collect();
        assert_eq!(percentiles(&log), Some((50.0, 99.0)));
        assert_eq!(percentiles(""), None);
    }
}
