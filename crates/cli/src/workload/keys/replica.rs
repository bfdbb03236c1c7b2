//! Replicas as processes, and the client's node, which has no replica.

use crate::workload::cpu::Cpu;
use clap::Args;
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_host::panics::OnPanic;
use meridian_machine::NodeId;
use meridian_placement::Member;
use meridian_systems::Protocol;
use meridian_txn::Database;
use meridian_txn::shards::MemberRoles;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit for any step that is not measured.
const PATIENCE: Duration = Duration::from_secs(60);
const DATABASE: &str = "keys";

/// `meridian workload replica`: a node that ends with the process that started it.
#[derive(Debug, Args)]
pub struct Replica {
    /// The number of this node among the members.
    #[arg(long)]
    node: u32,
    /// The addresses of all members, the client's node included.
    #[arg(long, value_delimiter = ',')]
    members: Vec<String>,
    /// The folder of the log; in memory if not given.
    #[arg(long)]
    data: Option<PathBuf>,
}

impl Replica {
    /// Runs until the standard input is closed.
    pub fn run(&self) -> Result<(), String> {
        let node = open(self.node, &self.members, self.data.clone())?;
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        node.kill();
        Ok(())
    }
}

fn open(node: u32, addresses: &[String], data: Option<PathBuf>) -> Result<Arc<Node>, String> {
    let member = |(at, address): (usize, &String)| Member {
        node: NodeId(u32::try_from(at).unwrap_or(u32::MAX) + 1),
        zone: format!("zone{}", at + 1),
        address: address.clone(),
    };
    let members = addresses.iter().enumerate().map(member).collect();
    let on_panic = OnPanic::Exit;
    let options = Options { node: NodeId(node), members, data, on_panic, ..Options::loopback() };
    Node::open(options).map_err(|error| format!("node {node}: {error}"))
}

/// The client's node and the replicas.
pub struct Cluster {
    client: Arc<Node>,
    replicas: Vec<Child>,
    _folder: Option<TempDir>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.client.kill();
        for replica in &mut self.replicas {
            let _ = replica.kill();
            let _ = replica.wait();
        }
    }
}

/// Returns ports that are free now.
fn free_addresses(many: u32) -> Result<Vec<String>, String> {
    let wrong = |error| format!("no free port: {error}");
    let listeners: Result<Vec<TcpListener>, _> =
        (0..many).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let addresses: Result<Vec<String>, _> = listeners
        .map_err(wrong)?
        .iter()
        .map(|listener| Ok(listener.local_addr()?.to_string()))
        .collect();
    addresses.map_err(wrong)
}

impl Cluster {
    /// Starts `replicas` processes and the client's node, which has the next number.
    pub async fn start(replicas: u32, durable: bool) -> Result<Cluster, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
        let folder = durable.then(|| tempfile::Builder::new().prefix("meridian-keys-").tempdir());
        let folder = folder
            .transpose()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let addresses = free_addresses(replicas + 1)?;
        let spawn = |node: u32| {
            let mut command = Command::new(&program);
            command.args([
                "workload",
                "replica",
                "--node",
                &node.to_string(),
                "--members",
                &addresses.join(","),
            ]);
            if let Some(folder) = &folder {
                command.arg("--data").arg(folder.path().join(node.to_string()));
            }
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            spawned.map_err(|error| format!("node {node}: {error}"))
        };
        let client_node = replicas + 1;
        let replicas = (1..client_node).map(spawn).collect::<Result<Vec<Child>, String>>()?;
        let client = open(client_node, &addresses, None)?;
        Ok(Cluster { client, replicas, _folder: folder })
    }

    /// Creates a database of a protocol, with replicas on all nodes but the client's.
    pub async fn database(&self, protocol: &Protocol) -> Result<Arc<dyn Database>, String> {
        let nodes = || (1..).map(NodeId).take(self.replicas.len());
        let began = Instant::now();
        loop {
            // Groups with leaders begin on all nodes, and are moved afterwards.
            let made = match protocol.has_leaders() {
                true => match self.client.create_database(DATABASE, protocol, Vec::new()).await {
                    Ok(()) | Err(DatabaseError::Exists(_)) => {
                        let members =
                            MemberRoles { voters: nodes().collect(), ..MemberRoles::default() };
                        self.client.change_members(DATABASE, members).await
                    }
                    other => other,
                },
                false => self.client.create_database(DATABASE, protocol, nodes().collect()).await,
            };
            match made {
                Ok(()) => break,
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(format!("the database: {error}"));
                }
                // The nodes have not met yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        let found =
            self.client.find_database(DATABASE).await.map_err(|failure| failure.to_string())?;
        found.ok_or_else(|| "the database is not there".to_owned())
    }

    /// Returns the CPU time of all these processes, and of the machine.
    pub fn cpu(&self) -> Cpu {
        Cpu::of(self.replicas.iter().map(Child::id).chain([std::process::id()]))
    }
}
