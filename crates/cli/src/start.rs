//! `meridian start`: one real process, until it is told to stop.

use crate::doors::{Doors, loopback};
use clap::Args;
use meridian::house::House;
use meridian_host::clock::ClockBound;
use meridian_host::node;
use meridian_host::trust::{Token, Trust};
use meridian_machine::NodeId;
use meridian_placement::Member;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Prints a line. Whoever read the first ones may have gone (`| head`): the node does not end for that.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

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
    /// Where to listen for other nodes, if that is not where they reach this one: behind a proxy or an address translation.
    #[arg(long)]
    bind: Option<SocketAddr>,
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
    /// The file with the token that the first member of the cluster has made (DATA/certificates/token), for every other member's first start: it gets its certificate for it.
    #[arg(long, value_name = "FILE", env = "MERIDIAN_TOKEN_FILE")]
    #[serde(rename = "token-file")]
    token_file: Option<PathBuf>,
    /// Let members know each other by certificates even if all of them are on this machine; where they are not, that is always so.
    #[arg(long)]
    #[serde(default)]
    tls: bool,
    /// By how much the system's clock may differ from true time, for example 500us or 10ms; `kernel`: by what the kernel says at each moment.
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "clock-bound")]
    clock_bound: Option<String>,
    /// Believe no system clock: the members ask each other what time it is. The default where members are on several machines and no --clock-bound is given.
    #[arg(long, conflicts_with = "clock_bound")]
    #[serde(rename = "cluster-time", default)]
    cluster_time: bool,
    /// How many megabytes the joins, sorts and groups of all queries may hold together [default: 256].
    #[arg(long, value_name = "MB")]
    #[serde(rename = "query-memory")]
    query_memory: Option<usize>,
    /// Memory for pages of stored data, in megabytes [default: an eighth of the machine's memory, 1024 at most].
    #[arg(long, value_name = "MB")]
    cache: Option<usize>,
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
            self.bind = self.bind.or(file.bind);
            self.sql = self.sql.or(file.sql);
            self.http = self.http.or(file.http);
            self.cache = self.cache.or(file.cache);
            if !self.cluster_time {
                self.clock_bound = self.clock_bound.or(file.clock_bound);
            }
            self.cluster_time |= file.cluster_time;
            self.token_file = self.token_file.or(file.token_file);
            self.tls |= file.tls;
            self.query_memory = self.query_memory.or(file.query_memory);
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
    let trust = trust(&options)?;
    let data = options.data.ok_or("start needs a folder for its data: --data DIR")?;
    let zone = options.zone.unwrap_or_else(|| "local".to_owned());
    let sql = options.sql.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5544)));
    let http = options.http.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8844)));
    loopback("--sql", sql)?;
    loopback("--http", http)?;
    if options.bind.is_some() {
        options.listen.ok_or("--bind needs --listen: where do the others reach this node?")?;
    }
    let bound = options.clock_bound.as_deref().map(bound).transpose()?;
    let query_memory_bytes = options.query_memory.map(|megabytes| megabytes.saturating_mul(1 << 20));
    if bound.is_some() && options.cluster_time {
        return Err(
            "--clock-bound and --cluster-time contradict each other: do the system clocks keep a bound, or not?".into(),
        );
    }
    let known = if options.cluster_time { Known::Nothing } else { bound.unwrap_or(Known::Unsaid) };
    let mut node = node(&data, &zone, options.listen, &options.join, known)?;
    node.cache_bytes =
        options.cache.map_or_else(cache_bytes, |megabytes| megabytes.saturating_mul(1 << 20)).max(8 << 20);
    let what = match node.members.len() {
        0 => "one node".to_owned(),
        many => {
            format!("node {} of {many}, listening on {}", node.node.0, node.members[node.node.0 as usize - 1].address)
        }
    };
    // A file that may grow no further is a full disk, and not the end of the process.
    #[cfg(unix)]
    let _ignored = hear(tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    // Asked for before the first line is printed, so that a signal sent then is already heard.
    let stop = Stop::listen()?;
    node.listen = options.bind.map(|bind| bind.to_string());
    let asks = matches!(trust, Trust::Certificates { token: Some(_) }) && !data.join("certificates").exists();
    if asks {
        say!("Asking the other members for a certificate …");
    }
    node.trust = trust;
    let addresses: Vec<String> = node.members.iter().map(|member| member.address.clone()).collect();
    let house = Arc::new(House::open_with(node, query_memory_bytes)?);
    let doors = Doors::open(house.clone(), sql, http).await?;
    say!("Meridian {}: {what} in zone {zone}, data in {}", env!("CARGO_PKG_VERSION"), data.display());
    say!("  sql    postgresql://root@{}/meridian", doors.sql);
    say!("  http   http://{}/health  /metrics", doors.http);
    say!("  {}", house.clock());
    if let Some(token) = house.token_file() {
        say!("  trust  every other member is let in by --token-file, with a copy of {}", token.display());
    }
    let to_meet: Vec<&str> =
        house.status().to_meet.iter().map(|node| addresses[node.0 as usize - 1].as_str()).collect();
    if !to_meet.is_empty() {
        say!("  new    a new cluster begins when all its members have met once: yet to meet {}", to_meet.join(" and "));
    }
    say!("Ready. Ctrl-C or SIGTERM stops it; commits under way finish first.");
    let (why, refused) = tokio::select! {
        signal = stop.wait() => (signal, None),
        stranger = house.is_a_stranger() => ("Not admitted to the cluster", Some(stranger)),
    };
    say!("{why}: finishing what is under way …");
    doors.close().await;
    house.close();
    say!("Stopped.");
    refused.map_or(Ok(()), Err)
}

/// By what members know each other: beyond loopback, by certificates and in no other way.
fn trust(options: &Options) -> Result<Trust, String> {
    let addresses = options.join.iter().chain(&options.listen).chain(&options.bind);
    let beyond = addresses.into_iter().any(|address| !address.ip().is_loopback());
    if !options.tls && !beyond && options.token_file.is_none() {
        return Ok(Trust::Loopback);
    }
    let read = |path: &PathBuf| {
        let of_file = |error: &dyn std::fmt::Display| format!("--token-file {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| of_file(&error))?;
        text.parse::<Token>().map_err(|error| of_file(&error))
    };
    Ok(Trust::Certificates { token: options.token_file.as_ref().map(read).transpose()? })
}

/// What is said of the system clocks.
#[derive(Clone, Copy)]
enum Known {
    Unsaid,
    Bound(u64),
    Kernel,
    Nothing,
}

/// Who this node is. A cluster is the list of its members, the same for each of them: a node's number is its place in
/// the sorted list.
fn node(
    data: &Path,
    zone: &str,
    listen: Option<SocketAddr>,
    join: &[SocketAddr],
    known: Known,
) -> Result<node::Options, String> {
    if join.is_empty() {
        if listen.is_some() {
            return Err(
                "--listen is where other nodes reach this one: name all of them with --join, or leave it out".into()
            );
        }
        if matches!(known, Known::Nothing) {
            return Err(
                "--cluster-time is what several nodes tell each other: name them with --join, or leave it out".into()
            );
        }
        return Ok(node::Options::alone().at(data));
    }
    let listen = listen.ok_or("--join needs --listen: which of the members is this node?")?;
    let mut sorted = join.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("--join names {} twice", twice[0]));
    }
    let own = sorted.binary_search(&listen).map_err(|_| {
        format!(
            "--join does not name --listen {listen}: it lists all members, this node among them, and it is fixed when \
             the cluster is born (nodes cannot join a living cluster in this version)"
        )
    })?;
    if sorted.len() == 1 {
        return Err("--join names this node alone: a one-node database needs neither --join nor --listen".into());
    }
    let clock = match known {
        Known::Bound(half_width_ns) => ClockBound::HalfWidth { half_width_ns },
        Known::Kernel => ClockBound::Kernel,
        Known::Unsaid if sorted.iter().all(|address| address.ip().is_loopback()) => ClockBound::LOOPBACK,
        Known::Unsaid | Known::Nothing => ClockBound::Cluster,
    };
    let member = |(at, address): (usize, &SocketAddr)| Member {
        node: number(at),
        zone: if at == own { zone.to_owned() } else { String::new() },
        address: address.to_string(),
    };
    let members = sorted.iter().enumerate().map(member).collect();
    Ok(node::Options { node: number(own), members, clock, ..node::Options::alone().at(data) })
}

/// An eighth of the machine's memory, within reason.
fn cache_bytes() -> usize {
    const UNKNOWN: usize = 128 << 20;
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
    });
    memory.map_or(UNKNOWN, |bytes| (bytes / 8).clamp(64 << 20, 1 << 30))
}

fn number(place: usize) -> NodeId {
    NodeId(u32::try_from(place).map_or(u32::MAX, |place| place.saturating_add(1)))
}

/// The signals that end a node in good order.
pub struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
    #[cfg(not(unix))]
    interrupt: bool,
}

#[cfg(unix)]
fn hear(kind: tokio::signal::unix::SignalKind) -> Result<tokio::signal::unix::Signal, String> {
    tokio::signal::unix::signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))
}

impl Stop {
    #[cfg(unix)]
    /// Listens from now on.
    pub fn listen() -> Result<Stop, String> {
        let interrupt = Some(hear(tokio::signal::unix::SignalKind::interrupt())?);
        Ok(Stop { interrupt, ..Stop::of_terminate()? })
    }

    #[cfg(unix)]
    /// Listens from now on for SIGTERM alone.
    pub fn of_terminate() -> Result<Stop, String> {
        Ok(Stop { terminate: hear(tokio::signal::unix::SignalKind::terminate())?, interrupt: None })
    }

    #[cfg(unix)]
    /// The first of them.
    pub async fn wait(mut self) -> &'static str {
        let interrupted = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = interrupted => "Interrupted",
        }
    }

    #[cfg(not(unix))]
    /// Listens from now on.
    pub fn listen() -> Result<Stop, String> {
        Ok(Stop { interrupt: true })
    }

    #[cfg(not(unix))]
    /// There is no SIGTERM here: nothing is heard.
    pub fn of_terminate() -> Result<Stop, String> {
        Ok(Stop { interrupt: false })
    }

    #[cfg(not(unix))]
    /// The first of them.
    pub async fn wait(self) -> &'static str {
        if !self.interrupt {
            std::future::pending::<()>().await;
        }
        let _ = tokio::signal::ctrl_c().await;
        "Interrupted"
    }
}

/// What `--clock-bound` says.
fn bound(text: &str) -> Result<Known, String> {
    if text == "kernel" {
        return Ok(Known::Kernel);
    }
    half_width_ns(text).map(Known::Bound)
}

/// A time such as `500us`, `10ms`, `1s`.
fn half_width_ns(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("--clock-bound {text}: expected `kernel`, or a number with a unit, for example 500us, 10ms or 1s");
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
    fn a_cluster_is_the_list_of_its_members_in_any_order() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let options = |listen: Option<u16>, join: &[u16], known| {
            let join: Vec<SocketAddr> = join.iter().copied().map(address).collect();
            node(Path::new("d"), "here", listen.map(address), &join, known)
        };
        let (first, second) =
            (options(Some(2), &[3, 2, 1], Known::Unsaid), options(Some(2), &[1, 2, 3], Known::Unsaid));
        let (first, second) = (first.expect("valid"), second.expect("valid"));
        assert_eq!((first.node, &first.members), (NodeId(2), &second.members));
        assert_eq!(first.clock, ClockBound::LOOPBACK);
        assert!(options(None, &[], Known::Unsaid).expect("alone").members.is_empty());
        for (listen, join, reason) in [
            (None, &[1, 2][..], "--listen"),
            (Some(9), &[1, 2], "does not name"),
            (Some(1), &[1, 1, 2], "twice"),
            (Some(1), &[1], "alone"),
            (Some(1), &[], "--join"),
        ] {
            let error = options(listen, join, Known::Unsaid).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
        let far: Vec<SocketAddr> = ["10.0.0.1:1", "10.0.0.2:1"].map(|text| text.parse().expect("valid")).to_vec();
        let clock = |known| node(Path::new("d"), "here", Some(far[0]), &far, known).expect("valid").clock;
        assert_eq!(clock(Known::Unsaid), ClockBound::Cluster);
        assert_eq!(clock(Known::Bound(7)), ClockBound::HalfWidth { half_width_ns: 7 });
        assert_eq!(options(Some(2), &[1, 2], Known::Nothing).expect("valid").clock, ClockBound::Cluster);
    }

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
