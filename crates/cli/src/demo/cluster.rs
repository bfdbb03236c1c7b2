//! The demo's three nodes.

use crate::listeners::{Listeners, loopback};
use meridian::node_server::{ClockLine, NodeServer};
use meridian_host::node;
use meridian_machine::NodeId;
use meridian_placement::Member;
use meridian_sql::Engine;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

const NODES: usize = 3;
const ZONES: [&str; NODES] = ["amsterdam", "lisbon", "tokyo"];
/// How long a restart waits for the killed node's threads, which may still hold its folder.
const LET_GO: Duration = Duration::from_secs(5);

struct Living {
    node_server: Arc<NodeServer>,
    listeners: Listeners,
}

/// Three nodes and their ports.
pub struct Cluster {
    runtime: Handle,
    folder: PathBuf,
    members: Vec<Member>,
    /// The open sockets of members that have not started yet, in a new folder.
    listeners: Mutex<Vec<TcpListener>>,
    /// The SQL and HTTP addresses of each node, which survive a restart.
    ports: Vec<(SocketAddr, SocketAddr)>,
    nodes: Mutex<Vec<Option<Living>>>,
}

impl Cluster {
    /// Opens three nodes in a folder.
    pub fn open(
        runtime: Handle,
        folder: &Path,
        sql: SocketAddr,
        http: SocketAddr,
    ) -> Result<Cluster, String> {
        loopback("--sql", sql)?;
        loopback("--http", http)?;
        let (members, listeners) = members(folder)?;
        let ports = (0..NODES).map(|at| Ok((next("--sql", sql, at)?, next("--http", http, at)?)));
        let ports = ports.collect::<Result<Vec<_>, String>>()?;
        let folder = folder.to_owned();
        let (listeners, nodes) = (Mutex::new(listeners), Mutex::default());
        let mut cluster = Cluster { runtime, folder, members, listeners, ports, nodes };
        for at in 0..NODES {
            let living = cluster.start(at, Duration::ZERO)?;
            // Port 0 takes a free one, which the node keeps.
            cluster.ports[at] = (living.listeners.sql, living.listeners.http);
            cluster.nodes().push(Some(living));
        }
        Ok(cluster)
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<Living>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, at: usize, let_go: Duration) -> Result<Living, String> {
        // They start in order.
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = (!listeners.is_empty()).then(|| Arc::new(listeners.remove(0)));
        drop(listeners);
        let options = node::Options {
            node: self.members[at].node,
            members: self.members.clone(),
            listener,
            ..node::Options::loopback().at(self.folder.join(ZONES[at]))
        };
        let node_server = Arc::new(NodeServer::open_again(options, let_go)?);
        let (sql, http) = self.ports[at];
        match self.runtime.block_on(Listeners::open(node_server.clone(), sql, http)) {
            Ok(listeners) => Ok(Living { node_server, listeners }),
            Err(error) => {
                // The node may be connected to members that will not start: it would wait for them.
                self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
                node_server.kill();
                Err(error)
            }
        }
    }

    /// Returns the default database, on the first running node.
    pub fn first(&self) -> Result<Arc<Engine>, String> {
        let nodes = self.nodes();
        let living = nodes.iter().flatten().next().ok_or("no node runs")?;
        Ok(living.node_server.first())
    }

    /// Returns the connection URL, with the addresses of all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|(sql, _)| sql.to_string()).collect();
        format!("postgresql://root@{}/meridian", hosts.join(","))
    }

    /// Returns the state of the clock of the first running node.
    pub fn clock(&self) -> String {
        let clock = |living: &Living| -> ClockLine { living.node_server.clock() };
        self.nodes()
            .iter()
            .flatten()
            .next()
            .map(clock)
            .map_or_else(String::new, |line| line.to_string())
    }

    /// Returns a line for each node's ports.
    pub fn lines(&self) -> Vec<String> {
        let line = |at: usize| {
            let (sql, http) = self.ports[at];
            format!(
                "node {}   {:<10} postgresql://root@{sql}/meridian   http://{http}/health  /metrics",
                at + 1,
                ZONES[at]
            )
        };
        (0..NODES).map(line).collect()
    }

    /// Kills a node, as a crash would.
    pub fn kill(&self, at: usize) -> Result<String, String> {
        let mut nodes = self.nodes();
        let living = nodes.iter().flatten().count();
        let Some(killed) = nodes[at].take() else {
            return Err(format!("node {} is down already", at + 1));
        };
        drop(nodes);
        self.runtime.block_on(killed.listeners.kill());
        let _in_runtime = self.runtime.enter();
        killed.node_server.kill();
        let rest = match living - 1 {
            2 => "The other two are a majority and continue, after a few seconds at most.",
            1 => {
                "One of three is no majority: nothing can be committed or read until another is restarted."
            }
            _ => "No node is left: restart two of them.",
        };
        Ok(format!(
            "Node {} in {} is killed. {rest} \\demo restart {} brings it back.",
            at + 1,
            ZONES[at],
            at + 1
        ))
    }

    /// Restarts a killed node.
    pub fn restart(&self, at: usize) -> Result<String, String> {
        if self.nodes()[at].is_some() {
            return Err(format!("node {} runs; \\demo kill {} first", at + 1, at + 1));
        }
        self.nodes()[at] = Some(self.start(at, LET_GO)?);
        Ok(format!(
            "Node {} in {} restarts from its log, and catches up with what it missed.",
            at + 1,
            ZONES[at]
        ))
    }

    /// Returns the status of each node.
    pub fn status(&self) -> String {
        let mut out = String::new();
        for (at, node) in self.nodes().iter().enumerate() {
            let Some(living) = node else {
                out +=
                    &format!("node {} {:<10} down; \\demo restart {}\n", at + 1, ZONES[at], at + 1);
                continue;
            };
            let status = living.node_server.status();
            let leads: Vec<&str> = status
                .shards
                .iter()
                .filter(|shard| shard.leads)
                .map(|shard| shard.database.as_str())
                .collect();
            let leads = if leads.is_empty() { "nothing".to_owned() } else { leads.join(", ") };
            out += &format!(
                "node {} {:<10} life {}, leads {leads}\n",
                at + 1,
                ZONES[at],
                status.incarnation
            );
            out += &format!(
                "       {}; log: {} records, {} bytes, {} fsyncs\n",
                living.node_server.clock(),
                status.log.records,
                status.log.bytes,
                status.log.syncs
            );
        }
        out
    }

    /// Shuts all nodes down.
    pub fn close(&self) {
        let nodes: Vec<Living> = self.nodes().iter_mut().filter_map(Option::take).collect();
        let (servers, listeners): (Vec<_>, Vec<_>) =
            nodes.into_iter().map(|living| (living.node_server, living.listeners)).unzip();
        self.runtime
            .block_on(futures::future::join_all(listeners.into_iter().map(Listeners::close)));
        // Kills all nodes at once: no node is left to take over a leadership.
        servers.iter().for_each(|node_server| node_server.kill());
    }
}

/// Returns the address this many ports further; port 0 stays 0.
fn next(flag: &str, first: SocketAddr, places: usize) -> Result<SocketAddr, String> {
    let places = u16::try_from(places).expect("invariant: three nodes");
    let port = match first.port() {
        0 => Some(0),
        port => port.checked_add(places),
    };
    let port = port.ok_or_else(|| {
        format!("{flag} {first}: the nodes take three ports from there, up to 65535")
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

/// Returns the members, with free ports for their connections to each other, and the sockets that
/// keep these ports. A kept folder stores the members, because their addresses identify the
/// cluster: then the nodes open the sockets.
fn members(folder: &Path) -> Result<(Vec<Member>, Vec<TcpListener>), String> {
    let file = folder.join("members");
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let (addresses, listeners): (Vec<String>, _) = match fs::read_to_string(&file) {
        Ok(text) => (text.lines().map(str::to_owned).collect(), Vec::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let listeners: Result<Vec<TcpListener>, _> =
                (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
            let listeners =
                listeners.map_err(|error| format!("cannot find a free port: {error}"))?;
            let address =
                |listener: &TcpListener| listener.local_addr().map(|address| address.to_string());
            let addresses: Vec<String> =
                listeners.iter().map(address).collect::<Result<_, _>>().map_err(wrong)?;
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            fs::write(&file, addresses.join("\n")).map_err(wrong)?;
            (addresses, listeners)
        }
        Err(error) => return Err(wrong(error)),
    };
    if addresses.len() != NODES {
        return Err(format!(
            "{} should name {NODES} addresses: choose another folder with --keep",
            file.display()
        ));
    }
    let member = |(at, address): (usize, String)| Member {
        node: NodeId(u32::try_from(at).expect("invariant: three nodes") + 1),
        zone: ZONES[at].to_owned(),
        address,
    };
    Ok((addresses.into_iter().enumerate().map(member).collect(), listeners))
}
