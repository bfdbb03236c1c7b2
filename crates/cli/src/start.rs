//! `meridian start`: runs a node until it is stopped.

use crate::listeners::{Listeners, loopback};
use clap::Args;
use meridian::node_server::NodeServer;
use meridian_clock::Drift;
use meridian_host::clock::ClockBound;
use meridian_host::clock_sync::Utc;
use meridian_host::node;
use meridian_host::panics::OnPanic;
use meridian_host::sources::Reference;
use meridian_host::trust::{Token, Trust};
use meridian_machine::NodeId;
use meridian_placement::Member;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Prints a line, and ignores a closed reader (`| head`): the node does not end because of that.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

/// The range of a lease, in seconds.
const LEASE_SECONDS: std::ops::RangeInclusive<u64> = 1..=60;

/// The flags, each of which may be in the config file under the same name. A flag overrides the
/// file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[group(id = "start")]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The folder of the data; created if it does not exist.
    #[arg(long, env = "MERIDIAN_DATA")]
    data: Option<PathBuf>,
    /// The name of this node's zone [default: local].
    #[arg(long)]
    zone: Option<String>,
    /// The address at which other nodes reach this one, HOST:PORT; needed with --join.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// The address to listen on for other nodes, if it differs from --listen: behind a proxy or an
    /// address translation.
    #[arg(long)]
    bind: Option<SocketAddr>,
    /// The address for SQL clients [default: 127.0.0.1:5544].
    #[arg(long)]
    sql: Option<SocketAddr>,
    /// The address of /health and /metrics [default: 127.0.0.1:8844].
    #[arg(long)]
    http: Option<SocketAddr>,
    /// All initial members of the cluster, including this node: HOST:PORT,HOST:PORT,…
    #[arg(long, value_delimiter = ',')]
    #[serde(default)]
    join: Vec<SocketAddr>,
    /// The file with the token of the first member of the cluster (DATA/certificates/token), for
    /// every other member's first start, at which it gets its certificate.
    #[arg(long, value_name = "FILE", env = "MERIDIAN_TOKEN_FILE")]
    #[serde(rename = "token-file")]
    token_file: Option<PathBuf>,
    /// Use certificates between members even if all of them are on this machine; otherwise they are
    /// always used.
    #[arg(long)]
    #[serde(default)]
    tls: bool,
    /// The source of this machine's time: 500us or 10ms, if the system clock is known to be that
    /// accurate; kernel, chrony or clockbound, which report their bound at each moment; a hardware
    /// clock (/dev/ptp0:5us). Several at once are combined.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    #[serde(rename = "clock-bound", default)]
    clock_bound: Vec<String>,
    /// The members that serve as time masters, the same list on all members: HOST:PORT,… Each of
    /// them needs --clock-bound, or --oscillator.
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',', conflicts_with = "cluster_time")]
    #[serde(rename = "time-masters", default)]
    time_masters: Vec<SocketAddr>,
    /// For a time master with an oscillator of its own, which the other masters set every half
    /// minute: its largest rate error, in billionths.
    #[arg(long, value_name = "PPB", conflicts_with = "clock_bound")]
    oscillator: Option<u64>,
    /// Trust no system clock: the members poll each other for the time. The default if members are
    /// on several machines and no --clock-bound is given.
    #[arg(long, conflicts_with = "clock_bound")]
    #[serde(rename = "cluster-time", default)]
    cluster_time: bool,
    /// The largest difference in rate between the machines' clocks, in millionths [default: 200].
    #[arg(long, value_name = "PPM", value_parser = clap::value_parser!(u64).range(200..=10_000))]
    #[serde(rename = "clock-drift")]
    clock_drift: Option<u64>,
    /// The longest time for which a shard has no leader after its leader's machine died, in
    /// seconds; extending a shorter lease costs no more than a longer one (10 in the Spanner paper)
    /// [default: 2].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(LEASE_SECONDS))]
    lease: Option<u64>,
    /// The memory that the joins, sorts and groups of all queries and the rows of temporary tables
    /// may hold together, in megabytes
    /// [default: 256].
    #[arg(long, value_name = "MB")]
    #[serde(rename = "query-memory")]
    query_memory: Option<usize>,
    /// The memory for pages of stored data, in megabytes [default: an eighth of the machine's
    /// memory, 1024 at most].
    #[arg(long, value_name = "MB")]
    cache: Option<usize>,
    /// A TOML file with any of these options.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

impl Options {
    /// Takes options that no flag gives from the config file.
    fn settled(mut self) -> Result<Options, String> {
        if let Some(path) = &self.config {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let file = parse(path, &text)?;
            self.data = self.data.or(file.data);
            self.zone = self.zone.or(file.zone);
            self.listen = self.listen.or(file.listen);
            self.bind = self.bind.or(file.bind);
            self.sql = self.sql.or(file.sql);
            self.http = self.http.or(file.http);
            self.cache = self.cache.or(file.cache);
            if !self.cluster_time && self.clock_bound.is_empty() {
                self.clock_bound = file.clock_bound;
            }
            if self.time_masters.is_empty() {
                self.time_masters = file.time_masters;
            }
            self.oscillator = self.oscillator.or(file.oscillator);
            self.clock_drift = self.clock_drift.or(file.clock_drift);
            self.lease = self.lease.or(file.lease);
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
    toml::from_str(text)
        .map_err(|error| format!("{}: {}", path.display(), error.to_string().trim_end()))
}

/// Runs the node until it has stopped.
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
    let (trust, known) = (trust(&options)?, known(&options)?);
    let data = options.data.ok_or("start needs a folder for its data: --data DIR")?;
    let zone = options.zone.unwrap_or_else(|| "local".to_owned());
    let sql = options.sql.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5544)));
    let http = options.http.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8844)));
    loopback("--sql", sql)?;
    loopback("--http", http)?;
    if options.bind.is_some() {
        options
            .listen
            .ok_or("--bind needs --listen: the address at which other nodes reach this one")?;
    }
    let query_memory_bytes =
        options.query_memory.map(|megabytes| megabytes.saturating_mul(1 << 20));
    let mut node = node(&data, &zone, options.listen, &options.join, known)?;
    node.drift = match options.clock_drift {
        None => Drift::WORST,
        Some(ppm @ 200..=10_000) => Drift::ppm(ppm),
        Some(ppm) => return Err(format!("clock-drift {ppm}: expected 200 to 10000 millionths")),
    };
    match options.lease {
        None => {}
        Some(seconds) if LEASE_SECONDS.contains(&seconds) => {
            node.timeouts.lease = Duration::from_secs(seconds)
        }
        Some(seconds) => return Err(format!("lease {seconds}: expected 1 to 60 seconds")),
    }
    node.cache_bytes = options
        .cache
        .map_or_else(cache_bytes, |megabytes| megabytes.saturating_mul(1 << 20))
        .max(8 << 20);
    let what = match node.members.len() {
        0 => "one node".to_owned(),
        many => {
            format!(
                "node {} of {many}, listening on {}",
                node.node.0,
                node.members[node.node.0 as usize - 1].address
            )
        }
    };
    // A file that may grow no further counts as a full disk, and does not end the process.
    #[cfg(unix)]
    let _ignored =
        hear(tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    // Registers the handlers before the first line is printed, so that an early signal is not lost.
    let stop = Stop::listen()?;
    node.listen = options.bind.map(|bind| bind.to_string());
    let asks = matches!(trust, Trust::Certificates { token: Some(_) })
        && !data.join("certificates").exists();
    if asks {
        say!("Asking the other members for a certificate …");
    }
    node.trust = trust;
    let addresses: Vec<String> = node.members.iter().map(|member| member.address.clone()).collect();
    let node_server = Arc::new(NodeServer::open_with(node, query_memory_bytes)?);
    let mut listeners = Listeners::open(node_server.clone(), sql, http).await?;
    say!(
        "Meridian {}: {what} in zone {zone}, data in {}",
        env!("CARGO_PKG_VERSION"),
        data.display()
    );
    say!("  sql    postgresql://root@{}/meridian", listeners.sql);
    say!("  http   http://{}/health  /metrics", listeners.http);
    say!("  {}", node_server.clock());
    if let Some(token) = node_server.token_file() {
        say!(
            "  trust  every other member is admitted by --token-file, with a copy of {}",
            token.display()
        );
    }
    let to_meet: Vec<&str> = node_server
        .status()
        .to_meet
        .iter()
        .map(|node| addresses[node.0 as usize - 1].as_str())
        .collect();
    if !to_meet.is_empty() {
        say!(
            "  new    a new cluster begins when all its members have met once: yet to meet {}",
            to_meet.join(" and ")
        );
    }
    say!("Ready. Ctrl-C or SIGTERM stops it; commits under way finish first.");
    let (why, refused) = tokio::select! {
        signal = stop.wait() => (signal, None),
        unknown = node_server.identity_refused() => ("Not admitted to the cluster", Some(unknown)),
        failed = listeners.failed() => ("A port is no longer served", Some(failed)),
    };
    say!("{why}: finishing statements in progress …");
    listeners.close().await;
    node_server.close();
    say!("Stopped.");
    refused.map_or(Ok(()), Err)
}

/// Returns the authentication between members: beyond loopback, only certificates.
fn trust(options: &Options) -> Result<Trust, String> {
    let addresses = options.join.iter().chain(&options.listen).chain(&options.bind);
    let beyond = addresses.into_iter().any(|address| !address.ip().is_loopback());
    if !options.tls && !beyond && options.token_file.is_none() {
        return Ok(Trust::Loopback);
    }
    let read = |path: &PathBuf| {
        let of_file =
            |error: &dyn std::fmt::Display| format!("--token-file {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| of_file(&error))?;
        text.parse::<Token>().map_err(|error| of_file(&error))
    };
    Ok(Trust::Certificates { token: options.token_file.as_ref().map(read).transpose()? })
}

/// The clock options as given.
#[derive(Clone, Debug)]
enum Known {
    Unsaid,
    Nothing,
    Utc { sources: Vec<Reference>, masters: Vec<SocketAddr>, oscillator: Option<Drift> },
}

fn known(options: &Options) -> Result<Known, String> {
    let said = !options.clock_bound.is_empty()
        || !options.time_masters.is_empty()
        || options.oscillator.is_some();
    if options.cluster_time && said {
        return Err(
            "--cluster-time trusts no clock: leave out --clock-bound, --time-masters and --oscillator, or leave out --cluster-time".into(),
        );
    }
    if !said {
        return Ok(if options.cluster_time { Known::Nothing } else { Known::Unsaid });
    }
    let parse =
        |text: &String| text.parse::<Reference>().map_err(|why| format!("--clock-bound {why}"));
    let sources = options.clock_bound.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let (masters, own) = (options.time_masters.clone(), options.listen.as_ref());
    if let Some(unknown) = masters.iter().find(|master| !options.join.contains(master)) {
        return Err(format!(
            "--time-masters names {unknown}, which --join does not: time masters are members"
        ));
    }
    let is_master = own.is_some_and(|own| masters.contains(own));
    if is_master && sources.is_empty() && options.oscillator.is_none() {
        return Err(
            "this node is a time master and needs a source of time: give --clock-bound or --oscillator".into()
        );
    }
    let oscillator = match options.oscillator {
        Some(_) if !is_master || masters.len() < 3 => {
            return Err(
                "--oscillator needs three time masters or more, this node among them: the other masters set it".into()
            );
        }
        Some(ppb) if ppb > 100_000 => {
            return Err(format!("--oscillator {ppb}: the largest value is 100000 billionths"));
        }
        oscillator => oscillator.map(Drift::ppb),
    };
    Ok(Known::Utc { sources, masters, oscillator })
}

/// Returns the options of this node. A cluster is the list of its members, the same on each of
/// them: a node's number is its place in the sorted list.
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
                "--listen is the address for other nodes: name all of them with --join, or leave out --listen".into()
            );
        }
        if matches!(known, Known::Nothing) {
            return Err(
                "--cluster-time needs several nodes: name them with --join, or leave out --cluster-time".into()
            );
        }
        if matches!(known, Known::Utc { .. }) {
            return Err(
                "--clock-bound needs several nodes: a node alone has no other clock to differ from, and waits for none; \
                 name the members with --join, or leave out --clock-bound"
                    .into(),
            );
        }
        return Ok(node::Options { on_panic: OnPanic::Exit, ..node::Options::alone().at(data) });
    }
    let listen =
        listen.ok_or("--join needs --listen: the address of this node among the members")?;
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
        return Err(
            "--join names only this node: a one-node database needs neither --join nor --listen"
                .into(),
        );
    }
    let mut utc = Utc::default();
    let clock = match known {
        Known::Unsaid if sorted.iter().all(|address| address.ip().is_loopback()) => {
            ClockBound::LOOPBACK
        }
        Known::Unsaid | Known::Nothing => ClockBound::Cluster,
        Known::Utc { sources, masters, oscillator } => {
            let masters =
                sorted.iter().enumerate().filter(|(_, address)| masters.contains(address));
            utc = Utc { masters: masters.map(|(at, _)| number(at)).collect(), sources, oscillator };
            ClockBound::Utc
        }
    };
    let member = |(at, address): (usize, &SocketAddr)| Member {
        node: number(at),
        zone: if at == own { zone.to_owned() } else { String::new() },
        address: address.to_string(),
    };
    let members = sorted.iter().enumerate().map(member).collect();
    let on_panic = OnPanic::Exit;
    Ok(node::Options {
        node: number(own),
        members,
        clock,
        utc,
        on_panic,
        ..node::Options::alone().at(data)
    })
}

/// Returns an eighth of the machine's memory, within limits.
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

/// The signals that shut a node down in order.
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
    /// Listens for the signals from now on.
    pub fn listen() -> Result<Stop, String> {
        let interrupt = Some(hear(tokio::signal::unix::SignalKind::interrupt())?);
        Ok(Stop { interrupt, ..Stop::of_terminate()? })
    }

    #[cfg(unix)]
    /// Listens for SIGTERM only, from now on.
    pub fn of_terminate() -> Result<Stop, String> {
        Ok(Stop { terminate: hear(tokio::signal::unix::SignalKind::terminate())?, interrupt: None })
    }

    #[cfg(unix)]
    /// Waits for the first signal.
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
    /// Listens for the signals from now on.
    pub fn listen() -> Result<Stop, String> {
        Ok(Stop { interrupt: true })
    }

    #[cfg(not(unix))]
    /// Listens for nothing: this system has no SIGTERM.
    pub fn of_terminate() -> Result<Stop, String> {
        Ok(Stop { interrupt: false })
    }

    #[cfg(not(unix))]
    /// Waits for the first signal.
    pub async fn wait(self) -> &'static str {
        if !self.interrupt {
            std::future::pending::<()>().await;
        }
        let _ = tokio::signal::ctrl_c().await;
        "Interrupted"
    }
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
        let (first, second) = (
            options(Some(2), &[3, 2, 1], Known::Unsaid),
            options(Some(2), &[1, 2, 3], Known::Unsaid),
        );
        let (first, second) = (first.expect("valid"), second.expect("valid"));
        assert_eq!((first.node, &first.members), (NodeId(2), &second.members));
        assert_eq!(first.clock, ClockBound::LOOPBACK);
        assert!(options(None, &[], Known::Unsaid).expect("alone").members.is_empty());
        for (listen, join, reason) in [
            (None, &[1, 2][..], "--listen"),
            (Some(9), &[1, 2], "does not name"),
            (Some(1), &[1, 1, 2], "twice"),
            (Some(1), &[1], "one-node"),
            (Some(1), &[], "--join"),
        ] {
            let error = options(listen, join, Known::Unsaid).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
        let far: Vec<SocketAddr> =
            ["10.0.0.1:1", "10.0.0.2:1"].map(|text| text.parse().expect("valid")).to_vec();
        let clock =
            |known| node(Path::new("d"), "here", Some(far[0]), &far, known).expect("valid").clock;
        assert_eq!(clock(Known::Unsaid), ClockBound::Cluster);
        let utc = |sources| Known::Utc { sources, masters: Vec::new(), oscillator: None };
        assert_eq!(clock(utc(vec![Reference::Within(7)])), ClockBound::Utc);
        assert_eq!(
            options(Some(2), &[1, 2], Known::Nothing).expect("valid").clock,
            ClockBound::Cluster
        );
    }

    #[test]
    fn time_masters_are_members_that_know_the_time() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let join: Vec<SocketAddr> = [1, 2, 3].map(address).to_vec();
        let options = |own: u16, masters: &[u16], bound: &[&str], oscillator| Options {
            listen: Some(address(own)),
            join: join.clone(),
            time_masters: masters.iter().copied().map(address).collect(),
            clock_bound: bound.iter().map(|text| (*text).to_owned()).collect(),
            oscillator,
            ..Options::default()
        };
        let of = |options: Options| {
            let known = known(&options)?;
            node(Path::new("d"), "here", options.listen, &options.join, known)
                .map(|node| (node.clock, node.utc))
        };
        let (clock, utc) = of(options(2, &[1, 2], &["kernel", "chrony"], None)).expect("valid");
        assert_eq!((clock, utc.masters), (ClockBound::Utc, vec![NodeId(1), NodeId(2)]));
        assert_eq!(utc.sources, [Reference::Kernel, Reference::Chrony]);
        assert!(of(options(3, &[1, 2], &[], None)).is_ok_and(|(_, utc)| utc.sources.is_empty()));
        assert!(
            of(options(1, &[1, 2, 3], &[], Some(20)))
                .is_ok_and(|(_, utc)| utc.oscillator.is_some())
        );
        for (wrong, reason) in [
            (options(1, &[1, 2], &[], None), "a source of time"),
            (options(1, &[4], &[], None), "masters are members"),
            (options(1, &[2, 3], &[], Some(20)), "--oscillator"),
            (options(1, &[1, 2, 3], &[], Some(1_000_000)), "--oscillator"),
            (options(1, &[], &["noon"], None), "--clock-bound noon"),
            (Options { cluster_time: true, ..options(1, &[], &["1ms"], None) }, "--cluster-time"),
        ] {
            let error = of(wrong).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_config_file_knows_the_flags_and_nothing_else() {
        let path = Path::new("m.toml");
        let file = parse(path, "data = \"d\"\nsql = \"127.0.0.1:1\"\nclock-bound = [\"1ms\"]\n")
            .expect("valid");
        assert_eq!(file.data, Some(PathBuf::from("d")));
        assert_eq!(file.clock_bound, ["1ms"]);
        let error = parse(path, "dat = 1").expect_err("an unknown name");
        assert!(error.starts_with("m.toml: ") && error.contains("dat"), "{error}");
    }
}
