//! TPC-C on one node beside one PostgreSQL server, at SERIALIZABLE and at READ COMMITTED: the
//! program's own workload, without thinking time, on both. The conditions of consistency are
//! checked after the runs.

use super::workload::{read, read_kind, read_retried, workload};
use super::{Measured, Options, Report, WARM_UP_SECONDS, fill, peer, watch};
use crate::server::{Server, meridian, readable};
use std::path::Path;

/// A server, and an isolation level if it is not the server's own.
struct Contender<'a> {
    name: &'static str,
    server: &'a Server,
    level: Option<&'static str>,
}

impl Contender<'_> {
    fn url(&self) -> String {
        let (user, port) = (&self.server.target.user, self.server.target.port);
        let mut url = format!("postgresql://{user}@127.0.0.1:{port}/postgres");
        if let Some(level) = self.level {
            url += &format!("?options=-c%20default_transaction_isolation%3D{level}");
        }
        url
    }

    /// Runs the workload, and returns what was measured and printed.
    fn run(&self, binary: &Path, clients: u32, seconds: u32) -> Result<(Measured, String), String> {
        eprintln!("{}: tpcc with {clients} clients …", self.name);
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        let mut shown = String::new();
        let run = || {
            shown =
                workload(binary, &["tpcc", "run", &self.url(), "-c", &clients, "-d", &seconds])?;
            read(&shown).ok_or_else(|| format!("meridian workload printed {shown}"))
        };
        let measured = watch(|| self.server.used(), libc::RUSAGE_CHILDREN, run)?;
        Ok((measured, shown))
    }
}

/// Measures each number of warehouses in servers of its own.
pub fn run(
    report: &mut Report,
    options: &Options,
    binary: &Path,
    folder: &Path,
) -> Result<(), String> {
    let postgres = peer(report)?;
    for warehouses in &options.warehouses {
        let home = tempfile::Builder::new().prefix("tpcc-").tempdir_in(folder);
        let home = home.map_err(|error| error.to_string())?;
        readable(home.path())?;
        let servers = [meridian(binary, home.path(), 1, &[])?, postgres.start(home.path(), 0)?];
        let contender = |name, at: usize, level| Contender { name, server: &servers[at], level };
        let contenders = [
            contender("meridian", 0, None),
            contender("postgresql, SERIALIZABLE", 1, Some("serializable")),
            contender("postgresql, READ COMMITTED", 1, None),
        ];
        fill(report, &servers, |server| {
            let of = contenders.iter().find(|contender| contender.server.name == server.name);
            let url = of.map(Contender::url).ok_or("no contender")?;
            let scale = warehouses.to_string();
            workload(binary, &["tpcc", "init", &url, "--scale", &scale]).map(drop)
        })?;
        report.line("");
        report.line("| warehouses | clients | server | new orders/min | ratio | p50 ms | p99 ms | stock level p50 ms | retried | failed | CPU µs/txn | others' cores |");
        report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
        for contender in &contenders {
            contender.run(binary, 8, WARM_UP_SECONDS)?;
        }
        for clients in &options.clients {
            let runs = contenders
                .iter()
                .map(|contender| contender.run(binary, *clients, options.seconds))
                .collect::<Result<Vec<_>, _>>()?;
            let ours = runs.first().and_then(|(_, shown)| read_kind(shown, "new order"));
            for (contender, (measured, shown)) in contenders.iter().zip(&runs) {
                let ours = ours.map_or(0.0, |kind| kind.per_minute);
                let what = format!("| {warehouses} | {clients} | {} |", contender.name);
                report.line(&format!("{what} {}", row(measured, shown, ours)?));
            }
        }
        report.line("");
        for contender in &contenders[..2] {
            workload(binary, &["tpcc", "check", &contender.url()])?;
        }
        report.line("the conditions of consistency hold on both servers");
    }
    Ok(())
}

/// Returns the columns that were measured; the ratio is ours to the one in the row.
fn row(measured: &Measured, shown: &str, ours: f64) -> Result<String, String> {
    let kind = |name| read_kind(shown, name).ok_or_else(|| format!("no {name} in {shown}"));
    let (order, stock) = (kind("new order")?, kind("stock level")?);
    let retried = read_retried(shown).unwrap_or_default();
    Ok(format!(
        "{:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {retried} | {} | {:.0} | {:.2} |",
        order.per_minute,
        ours / order.per_minute.max(1e-9),
        order.p50_ms,
        order.p99_ms,
        stock.p50_ms,
        measured.outcome.failed,
        measured.cpu_us,
        measured.others_cores
    ))
}
