//! Nodes of this program as processes: started on free ports, in a temporary folder, and killed
//! when the measurement ends.

use crate::workload::connect;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_postgres::SimpleQueryMessage;

/// The time limit for any step that is not measured.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);
/// The number of rows per group in the measured table.
pub const ROWS: usize = 100;

/// A cluster of nodes, or a single node.
pub struct Cluster {
    /// First, so that they end before their folder does.
    nodes: Vec<Option<Node>>,
    /// The sorted addresses: node N is the Nth. Empty for a single node.
    addresses: Vec<String>,
    flags: Vec<Vec<String>>,
    folder: TempDir,
}

/// A process; killed when it is dropped.
struct Node {
    child: Child,
    addresses: Addresses,
}

/// The addresses that a node prints when it starts.
#[derive(Clone, Debug, Default)]
struct Addresses {
    /// The connection URL.
    sql: String,
    /// The host and port of its metrics.
    http: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a future up to a time limit.
pub async fn within<T, E: Display>(
    limit: Duration,
    what: &str,
    done: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, done).await {
        Ok(done) => done.map_err(|error| format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: nothing within {} s", limit.as_secs())),
    }
}

/// Returns free ports below the range that the system uses for outgoing connections, so that no
/// other program takes one by chance before its use.
fn free_addresses(many: usize) -> Result<Vec<String>, String> {
    const FIRST: u16 = 10_000;
    const ALL: u16 = 2_000;
    const APART: u16 = 16;
    // Two of these programs at once, whose ids are often next to each other, try different ports.
    let begin = u16::try_from(std::process::id() % u32::from(ALL / APART)).unwrap_or(0) * APART;
    let ports = (0..ALL).map(|at| FIRST + (begin + at) % ALL);
    let free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut addresses: Vec<String> =
        free.take(many).map(|port| format!("127.0.0.1:{port}")).collect();
    addresses.sort();
    if addresses.len() < many {
        return Err(format!("of the ports {FIRST} to {}, {many} are not free", FIRST + ALL - 1));
    }
    Ok(addresses)
}

impl Cluster {
    /// Starts this many nodes, with flags that may depend on a node's place and on all addresses,
    /// and waits until all are ready.
    pub async fn start(
        many: usize,
        flags: impl Fn(usize, &[String]) -> Vec<String>,
    ) -> Result<Cluster, String> {
        let folder = tempfile::Builder::new().prefix("meridian-figure-").tempdir();
        let folder = folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let addresses = if many > 1 { free_addresses(many)? } else { Vec::new() };
        let flags = (0..many).map(|at| flags(at, &addresses)).collect();
        let mut cluster = Cluster { nodes: Vec::new(), addresses, flags, folder };
        // All at once: a new cluster begins when all its members have met.
        let starting = (0..many).map(|at| cluster.spawn(at)).collect::<Result<Vec<_>, _>>()?;
        for (at, starting) in starting.into_iter().enumerate() {
            let node = cluster.ready(at, starting).await?;
            cluster.nodes.push(Some(node));
        }
        Ok(cluster)
    }

    fn spawn(&self, at: usize) -> Result<(Node, oneshot::Receiver<Addresses>), String> {
        let program =
            std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
        let wrong = |error: std::io::Error| format!("node {}: {error}", at + 1);
        let mut command = Command::new(program);
        for name in ["MERIDIAN_DATA", "MERIDIAN_TOKEN_FILE", "MERIDIAN_LOG"] {
            command.env_remove(name);
        }
        command.args(["start", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]);
        command.arg(self.folder.path().join((at + 1).to_string()));
        if let Some(own) = self.addresses.get(at) {
            command.args(["--listen", own, "--join", &self.addresses.join(",")]);
        }
        let complaints = File::create(self.complaints(at)).map_err(wrong)?;
        command
            .args(&self.flags[at])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(complaints);
        let mut node =
            Node { child: command.spawn().map_err(wrong)?, addresses: Addresses::default() };
        let lines = node.child.stdout.take().map(|out| BufReader::new(out).lines());
        let (send, receive) = oneshot::channel();
        std::thread::spawn(move || {
            let (mut send, mut addresses) = (Some(send), Addresses::default());
            // Reads to the end, so that the node never blocks on its output.
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                if let Some(found) = line.trim().strip_prefix("sql ") {
                    addresses.sql = found.trim().to_owned();
                }
                if let Some(found) = line.trim().strip_prefix("http ") {
                    let address = found.trim().trim_start_matches("http://").split('/').next();
                    addresses.http = address.unwrap_or_default().to_owned();
                }
                if line.starts_with("Ready") {
                    let _ = send.take().map(|send| send.send(addresses.clone()));
                }
            }
        });
        Ok((node, receive))
    }

    async fn ready(
        &self,
        at: usize,
        (mut node, addresses): (Node, oneshot::Receiver<Addresses>),
    ) -> Result<Node, String> {
        let ready = within(PATIENCE, &format!("node {} gets ready", at + 1), addresses).await;
        node.addresses = ready.map_err(|why| {
            let said = std::fs::read_to_string(self.complaints(at)).unwrap_or_default();
            format!("{why}; it said: {}", said.lines().last().unwrap_or("nothing"))
        })?;
        Ok(node)
    }

    fn complaints(&self, at: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("{}.stderr", at + 1))
    }

    /// Returns the connection URL of a node.
    pub fn url(&self, at: usize) -> Result<String, String> {
        Ok(self.node(at)?.addresses.sql.clone())
    }

    fn node(&self, at: usize) -> Result<&Node, String> {
        let node = self.nodes.get(at).and_then(Option::as_ref);
        node.ok_or_else(|| format!("node {} does not run", at + 1))
    }

    /// Returns the ids of the running processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flatten().map(|node| node.child.id())
    }

    /// Returns a metric of a node, the sum over its labels.
    pub async fn metric(&self, at: usize, name: &str) -> Result<f64, String> {
        let address = &self.node(at)?.addresses.http;
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let answered = async {
            let (mut stream, mut answer) = (TcpStream::connect(address).await?, String::new());
            stream.write_all(request.as_bytes()).await?;
            stream.read_to_string(&mut answer).await?;
            Ok::<String, std::io::Error>(answer)
        };
        let answer = within(PATIENCE, "the metrics", answered).await?;
        let value = |line: &str| {
            let value = line.strip_prefix(name)?;
            let value = match value.strip_prefix('{') {
                Some(labelled) => labelled.rsplit_once('}')?.1,
                None => value,
            };
            value.trim().parse::<f64>().ok()
        };
        let found: Vec<f64> = answer.lines().filter_map(value).collect();
        if found.is_empty() {
            return Err(format!("node {} has no metric {name}", at + 1));
        }
        Ok(found.iter().sum())
    }

    /// Returns the connection URLs of some nodes.
    pub fn urls(&self, of: impl IntoIterator<Item = usize>) -> Result<Vec<String>, String> {
        of.into_iter().map(|at| self.url(at)).collect()
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at] = None;
    }

    /// Sends SIGTERM to a node, which transfers its leaderships and shuts down.
    #[cfg(unix)]
    pub fn terminate(&mut self, at: usize) -> Result<(), String> {
        use rustix::process::{Pid, Signal, kill_process};
        let node =
            self.nodes[at].as_ref().ok_or_else(|| format!("node {} does not run", at + 1))?;
        kill_process(Pid::from_child(&node.child), Signal::TERM)
            .map_err(|error| format!("node {}: {error}", at + 1))
    }

    /// Fails: this system has no SIGTERM.
    #[cfg(not(unix))]
    pub fn terminate(&mut self, at: usize) -> Result<(), String> {
        Err(format!("node {}: this system has no SIGTERM", at + 1))
    }

    /// Restarts a killed node on its data.
    pub async fn restart(&mut self, at: usize) -> Result<(), String> {
        let starting = self.spawn(at)?;
        self.nodes[at] = Some(self.ready(at, starting).await?);
        Ok(())
    }

    /// Runs a statement on a node, and returns its rows.
    pub async fn sql(
        &self,
        at: usize,
        statement: &str,
    ) -> Result<Vec<Vec<Option<String>>>, String> {
        let url = self.url(at)?;
        let shown: String = statement.chars().take(60).collect();
        let answered = async {
            let client = connect::open(&url).await?;
            client.simple_query(statement).await.map_err(|error| connect::explain(&error))
        };
        let answers = within(PATIENCE, &shown, answered).await?;
        let row = |answer: SimpleQueryMessage| match answer {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(row).collect())
    }

    /// Creates a table of this many groups of [`ROWS`] rows, each row with a text of `bytes` bytes.
    pub async fn fill(&self, groups: usize, bytes: usize) -> Result<(), String> {
        self.sql(0, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, v text NOT NULL)").await?;
        let text = "x".repeat(bytes);
        for group in 0..groups {
            let rows: Vec<String> =
                (0..ROWS).map(|row| format!("({}, 0, '{text}')", group * ROWS + row)).collect();
            self.sql(0, &format!("INSERT INTO t VALUES {}", rows.join(","))).await?;
        }
        let bounds: Vec<String> = (1..groups).map(|group| format!("({})", group * ROWS)).collect();
        if !bounds.is_empty() {
            self.sql(0, &format!("ALTER TABLE t SPLIT AT VALUES {}", bounds.join(", "))).await?;
        }
        Ok(())
    }

    /// Moves all replicas to one node.
    pub async fn only_on(&self, at: usize) -> Result<(), String> {
        self.sql(at, &format!("ALTER DATABASE meridian MEMBERS ({})", at + 1)).await.map(drop)
    }

    /// Makes one node lead all groups: the groups are moved to that node alone, and then to all
    /// nodes.
    pub async fn led_by(&self, at: usize) -> Result<(), String> {
        self.only_on(at).await?;
        let all: Vec<String> = (1..=self.nodes.len()).map(|number| number.to_string()).collect();
        self.sql(at, &format!("ALTER DATABASE meridian MEMBERS ({})", all.join(", ")))
            .await
            .map(drop)
    }

    /// Returns the leader of each group, as a node knows it; `None` if it knows none.
    pub async fn leaders(&self, at: usize) -> Result<Vec<Option<usize>>, String> {
        let rows = self.sql(at, "SELECT leader FROM meridian.shards").await?;
        let leader = |row: &Vec<Option<String>>| {
            row.first()?.as_ref()?.parse::<usize>().ok()?.checked_sub(1)
        };
        Ok(rows.iter().map(leader).collect())
    }

    /// Wakes all groups, and waits until a node knows a leader of each.
    pub async fn awake(&self, at: usize) -> Result<(), String> {
        let (end, mut why) = (Instant::now() + PATIENCE, "some are not known".to_owned());
        while Instant::now() < end {
            let counted = self.sql(at, "SELECT count(*) FROM t").await;
            match (counted, self.leaders(at).await) {
                (Ok(_), Ok(leaders)) if leaders.iter().all(Option::is_some) => return Ok(()),
                (Err(error), _) | (_, Err(error)) => why = error,
                _ => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!(
            "a leader of each group, at node {}, within {} s: {why}",
            at + 1,
            PATIENCE.as_secs()
        ))
    }
}
