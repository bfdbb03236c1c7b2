//! Nodes as processes, with a proxy in front of each.

use super::proxy::{self, Link};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The file size limit that simulates a full disk: no record of the log fits.
const FULL_BYTES: u64 = 4_096;

/// The time within which a node must be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// The SQL address of each node that runs.
pub type Addresses = Arc<Mutex<Vec<Option<SocketAddr>>>>;

/// The nodes' source of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timebase {
    /// Each node has a clock of its own, which claims this error, in nanoseconds.
    Own(u64),
    /// As `Own`; the nodes also poll each other as time masters.
    Masters(u64),
    /// The nodes trust no clock, and poll each other for the time.
    Cluster,
}

struct Node {
    child: Option<Child>,
    listen: SocketAddr,
    bind: SocketAddr,
}

/// The nodes.
pub struct Cluster {
    binary: PathBuf,
    folder: PathBuf,
    nodes: Vec<Node>,
    join: String,
    timebase: Timebase,
    tls: bool,
    /// The links between the nodes: by the sender, then by the receiver.
    links: Vec<Vec<Arc<Link>>>,
    /// The SQL addresses of the nodes.
    pub addresses: Addresses,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns a loopback address of this process: a port there stays free while its node is down, as
/// the connections of other processes leave from 127.0.0.1.
fn own_loopback() -> Ipv4Addr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.max(1), low, 1)
}

impl Cluster {
    /// Starts all nodes.
    pub fn start(
        binary: &Path,
        folder: &Path,
        options: &super::Options,
    ) -> Result<Cluster, String> {
        let (count, timebase, tls) = (usize::from(options.nodes), options.timebase(), options.tls);
        let listen = |ip: Ipv4Addr| TcpListener::bind((ip, 0)).map_err(text);
        let bind = || listen(Ipv4Addr::LOCALHOST);
        let mut proxies: Vec<TcpListener> = (0..count).map(|_| bind()).collect::<Result<_, _>>()?;
        let address = |listener: &TcpListener| listener.local_addr().map_err(text);
        // A node's number is its place in the sorted list.
        proxies.sort_by_key(|listener| address(listener).ok());
        let links: Vec<Vec<Arc<Link>>> =
            (0..count).map(|_| (0..count).map(|_| Arc::default()).collect()).collect();
        let mut nodes = Vec::new();
        for (at, listener) in proxies.into_iter().enumerate() {
            let (listen, bind) = (address(&listener)?, address(&listen(own_loopback())?)?);
            let from_all = links.iter().map(|from| Arc::clone(&from[at])).collect();
            proxy::stand(listener, bind, from_all);
            nodes.push(Node { child: None, listen, bind });
        }
        let join = nodes.iter().map(|node| node.listen.to_string()).collect::<Vec<_>>().join(",");
        let addresses = Arc::new(Mutex::new(vec![None; count]));
        let (binary, folder) = (binary.to_owned(), folder.to_owned());
        let mut cluster = Cluster { binary, folder, nodes, join, timebase, tls, links, addresses };
        cluster.keep_bounds()?;
        (0..count).try_for_each(|at| cluster.begin(at))?;
        Ok(cluster)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes' source of time.
    pub fn timebase(&self) -> Timebase {
        self.timebase
    }

    /// Returns the link from one node to another.
    pub fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from][to]
    }

    fn set_address(&self, at: usize, address: Option<SocketAddr>) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)[at] = address;
    }

    fn offset_file(&self, at: usize) -> PathBuf {
        self.folder.join(format!("offset{at}"))
    }

    /// Moves a node's clock: it is this many nanoseconds ahead of the system clock from then on.
    pub fn shift_clock(&self, at: usize, offset_ns: i64) -> Result<(), String> {
        let (file, next) = (self.offset_file(at), self.folder.join("offset.next"));
        // In one step, so that the node never reads a part.
        std::fs::write(&next, offset_ns.to_string())
            .and_then(|()| std::fs::rename(&next, &file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Shifts all clocks within their bounds, as far apart as these allow.
    fn keep_bounds(&self) -> Result<(), String> {
        let (Timebase::Own(error_ns) | Timebase::Masters(error_ns)) = self.timebase else {
            return Ok(());
        };
        let most = error_ns.cast_signed() / 10 * 9;
        (0..self.len()).try_for_each(|at| self.shift_clock(at, [most, -most, 0][at % 3]))
    }

    /// Starts a node that does not run, and waits until it is ready.
    pub fn begin(&mut self, at: usize) -> Result<(), String> {
        if self.nodes[at].child.is_some() {
            return Ok(());
        }
        let Node { listen, bind, .. } = &self.nodes[at];
        let said = self.folder.join(format!("node{at}.log"));
        let said = std::fs::File::options().create(true).append(true).open(&said).map_err(text)?;
        let mut command = Command::new(&self.binary);
        command.args(["start", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]);
        command.arg(self.folder.join(format!("node{at}")));
        command.args([
            "--listen",
            &listen.to_string(),
            "--bind",
            &bind.to_string(),
            "--join",
            &self.join,
        ]);
        match self.timebase {
            Timebase::Own(error_ns) | Timebase::Masters(error_ns) => {
                let file = self.offset_file(at);
                command.arg("--clock-bound");
                command.arg(format!("shifted:{}:{error_ns}ns", file.display()));
            }
            Timebase::Cluster => drop(command.arg("--cluster-time")),
        }
        if let Timebase::Masters(_) = self.timebase {
            command.args(["--time-masters", &self.join]);
        }
        if self.tls {
            command.arg("--tls");
            if at > 0 {
                command.arg("--token-file").arg(self.folder.join("node0/certificates/token"));
            }
        }
        crate::server::ends_with_us(&mut command, libc::SIGKILL);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).spawn();
        let mut child =
            child.map_err(|error| format!("cannot run {}: {error}", self.binary.display()))?;
        let out = child.stdout.take().ok_or("no output")?;
        self.nodes[at].child = Some(child);
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut sql = None;
            // To the end, so that the node never blocks on its output.
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(url) = line.trim().strip_prefix("sql ") {
                    sql = url
                        .split_once('@')
                        .and_then(|(_, rest)| rest.split('/').next()?.parse().ok())
                        .or(sql);
                }
                if line.starts_with("Ready") {
                    let _ = said.send(sql);
                }
            }
        });
        match heard.recv_timeout(PATIENCE) {
            Ok(sql) => self.set_address(at, sql),
            Err(_) => return Err(format!("node {} did not get ready: see node{at}.log", at + 1)),
        }
        Ok(())
    }

    fn signal(&self, at: usize, signal: i32) {
        if let Some(child) = &self.nodes[at].child {
            // SAFETY: a signal to a child that was not waited for yet, so that its number is still
            // its own.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
    }

    /// Ends a node with SIGKILL, or with SIGTERM, and waits for its end.
    pub fn end(&mut self, at: usize, in_order: bool) {
        self.set_address(at, None);
        self.signal(at, if in_order { libc::SIGTERM } else { libc::SIGKILL });
        if let Some(mut child) = self.nodes[at].child.take() {
            let _ = child.wait();
        }
    }

    /// Stops a node's process, or continues it.
    pub fn pause(&self, at: usize, paused: bool) {
        self.signal(at, if paused { libc::SIGSTOP } else { libc::SIGCONT });
    }

    /// Fills a node's disk, or makes room on it.
    pub fn fill(&self, at: usize, full: bool) {
        let Some(child) = &self.nodes[at].child else { return };
        let current = if full { FULL_BYTES } else { libc::RLIM_INFINITY };
        let limit = libc::rlimit { rlim_cur: current, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit outlives the call, and what was is not asked for.
        unsafe {
            libc::prlimit(child.id() as i32, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut())
        };
    }

    /// Returns a node that ended by itself; the caller has to judge that.
    pub fn died(&mut self) -> Option<(usize, String)> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            if let Some(Ok(Some(status))) = node.child.as_mut().map(Child::try_wait) {
                node.child = None;
                self.set_address(at, None);
                return Some((at, status.to_string()));
            }
        }
        None
    }

    /// Repairs all faults.
    pub fn heal(&mut self) -> Result<(), String> {
        self.links.iter().flatten().for_each(|link| {
            link.cut(false);
            link.delay(0);
        });
        self.keep_bounds()?;
        for at in 0..self.len() {
            self.fill(at, false);
            self.pause(at, false);
            self.begin(at)?;
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.len()).for_each(|at| self.end(at, false));
    }
}
