//! `meridian start`: one real process, until it is told to stop.

use crate::doors::{Doors, loopback};
use clap::Args;
use meridian::house::{House, Place};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Flags, each of which may stand in the config file under the same name. A flag overrides the file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[group(id = "start")]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The folder that keeps the data; made if it is not there.
    #[arg(long, env = "MERIDIAN_DATA")]
    data: Option<PathBuf>,
    /// The name of the zone that this node stands in [default: local].
    #[arg(long)]
    zone: Option<String>,
    /// Where other nodes reach this one, HOST:PORT; needed with --join.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Where SQL clients connect [default: 127.0.0.1:5544].
    #[arg(long)]
    sql: Option<SocketAddr>,
    /// Where /health and /metrics are [default: 127.0.0.1:8844].
    #[arg(long)]
    http: Option<SocketAddr>,
    /// All initial members of the cluster, this node among them: HOST:PORT,HOST:PORT,…
    #[arg(long, value_delimiter = ',')]
    #[serde(default)]
    join: Vec<SocketAddr>,
    /// By how much the system's clock may differ from true time, for example 500us or 10ms.
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "clock-bound")]
    clock_bound: Option<String>,
    /// A TOML file with any of these.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

impl Options {
    /// Fills what no flag says from the config file.
    fn settled(mut self) -> Result<Options, String> {
        if let Some(path) = &self.config {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let file = parse(path, &text)?;
            self.data = self.data.or(file.data);
            self.zone = self.zone.or(file.zone);
            self.listen = self.listen.or(file.listen);
            self.sql = self.sql.or(file.sql);
            self.http = self.http.or(file.http);
            self.clock_bound = self.clock_bound.or(file.clock_bound);
            if self.join.is_empty() {
                self.join = file.join;
            }
        }
        Ok(self)
    }
}

fn parse(path: &Path, text: &str) -> Result<Options, String> {
    toml::from_str(text).map_err(|error| format!("{}: {}", path.display(), error.to_string().trim_end()))
}

/// Runs the node; comes back when it has stopped.
pub async fn run(options: Options) -> ExitCode {
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("meridian: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), String> {
    let options = options.settled()?;
    let data = options.data.ok_or("start needs a folder for its data: --data DIR")?;
    let zone = options.zone.unwrap_or_else(|| "local".to_owned());
    let sql = options.sql.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5544)));
    let http = options.http.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8844)));
    loopback("--sql", sql)?;
    loopback("--http", http)?;
    if let Some(listen) = options.listen {
        loopback("--listen", listen)?;
    }
    if let Some(bound) = &options.clock_bound {
        half_width_ns(bound)?;
    }
    if !options.join.is_empty() {
        return Err(
            "--join: a cluster of several processes is not there yet; without --join this is a one-node database"
                .into(),
        );
    }
    // Asked for before the first line is printed, so that a signal sent then is already heard.
    let stop = Stop::listen()?;
    let house = Arc::new(House::alone(Place::Folder(data.clone()))?);
    let doors = Doors::open(house.clone(), sql, http).await?;
    println!("Meridian {}: one node in zone {zone}, data in {}", env!("CARGO_PKG_VERSION"), data.display());
    println!("  sql    postgresql://root@{}/meridian", doors.sql);
    println!("  http   http://{}/health  /metrics", doors.http);
    println!("  {}", house.clock());
    println!("Ready. Ctrl-C or SIGTERM stops it; commits under way finish first.");
    let why = stop.wait().await;
    println!("{why}: finishing what is under way …");
    doors.close().await;
    house.close();
    println!("Stopped.");
    Ok(())
}

/// The signals that end a node in good order.
struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    #[cfg(unix)]
    fn listen() -> Result<Stop, String> {
        use tokio::signal::unix::{SignalKind, signal};
        let hear = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Stop { terminate: hear(SignalKind::terminate())?, interrupt: hear(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn wait(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "Interrupted",
        }
    }

    #[cfg(not(unix))]
    fn listen() -> Result<Stop, String> {
        Ok(Stop {})
    }

    #[cfg(not(unix))]
    async fn wait(self) -> &'static str {
        let _ = tokio::signal::ctrl_c().await;
        "Interrupted"
    }
}

/// A time such as `500us`, `10ms`, `1s`.
fn half_width_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("--clock-bound {text}: expected a number with a unit, for example 500us, 10ms or 1s");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let unit_ns: u64 = match &text[digits..] {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    number
        .checked_mul(unit_ns)
        .filter(|bound| *bound <= 60_000_000_000)
        .ok_or_else(|| format!("--clock-bound {text}: a clock that may be off by more than a minute orders nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_bound_has_a_unit() {
        assert_eq!(half_width_ns("500us"), Ok(500_000));
        assert_eq!(half_width_ns("10ms"), Ok(10_000_000));
        for wrong in ["", "10", "ms", "-1ms", "1h", "99999999999999999999s", "61s"] {
            assert!(half_width_ns(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_config_file_knows_the_flags_and_nothing_else() {
        let path = Path::new("m.toml");
        let file = parse(path, "data = \"d\"\nsql = \"127.0.0.1:1\"\nclock-bound = \"1ms\"\n").expect("valid");
        assert_eq!(file.data, Some(PathBuf::from("d")));
        assert_eq!(file.clock_bound.as_deref(), Some("1ms"));
        let error = parse(path, "dat = 1").expect_err("an unknown name");
        assert!(error.starts_with("m.toml: ") && error.contains("dat"), "{error}");
    }
}
