//! The listener: admission of connections, and shutdown.

use crate::analyst;
use crate::cancel::Registry;
use crate::connection;
use crate::counters::{Counters, count};
use crate::deliveries::Deliveries;
use crate::keeper;
use futures::future::BoxFuture;
use meridian_sql::Engine;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

/// The number of connections that may be between accept and the end of their handshake, beyond the
/// limit of sessions: room for cancel requests.
const HANDSHAKES: usize = 64;

/// The server's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// True to listen beyond loopback although there is no authentication.
    pub trust_the_network: bool,
    /// The version of Meridian, for `server_version`.
    pub version: String,
    /// The longest accepted message, in bytes.
    pub message_limit_bytes: usize,
    /// The number of sessions that may be open at once; more are rejected with 53300.
    pub connections_limit: usize,
    /// The time that a client has to send its startup packet.
    pub opening_timeout: Duration,
    /// The time that running statements have to finish when the server shuts down.
    pub shutdown_grace: Duration,
    /// The first process number given to a session; should differ from node to node.
    pub first_process: i32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5544)),
            trust_the_network: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            message_limit_bytes: 64 << 20,
            connections_limit: 1000,
            opening_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(30),
            first_process: 1,
        }
    }
}

/// The databases that clients may connect to.
pub trait Databases: Send + Sync + 'static {
    /// Returns the engine of a database, if it exists. An error, for the client to read, means that
    /// this cannot be determined now. May have to query other nodes.
    fn engine<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<Engine>>, String>>;
    /// The names of all databases, for the hint of an error.
    fn names(&self) -> Vec<String>;
    /// Returns the engines of the databases that are open here, whose statistics the server keeps
    /// up to date.
    fn open_engines(&self) -> Vec<Arc<Engine>> {
        Vec::new()
    }
    /// Returns the reason if the node behind the databases has failed while this process still
    /// runs: then a panic concerns more than its session.
    fn ended(&self) -> Option<String> {
        None
    }
}

/// The state that all connections share.
pub(crate) struct ServerState {
    pub(crate) options: Options,
    pub(crate) databases: Arc<dyn Databases>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// The tasks that read notifications.
    pub(crate) deliveries: Deliveries,
    /// A permit for each session that may be open.
    pub(crate) places: Arc<Semaphore>,
}

/// Waits until the server shuts down.
pub(crate) async fn stops(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|&stopping| stopping).await.is_err() {
        // The server was dropped without a shutdown; its sessions are dropped with it.
        std::future::pending::<()>().await;
    }
}

/// A bound server that does not accept connections yet.
pub struct Server {
    listener: TcpListener,
    state: ServerState,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Binds the port. Rejects an address beyond loopback, since there is no authentication yet.
    pub async fn bind(options: Options, databases: Arc<dyn Databases>) -> io::Result<Server> {
        if !options.listen.ip().is_loopback() && !options.trust_the_network {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "refusing to listen for SQL on {}: there is no authentication yet, so only loopback addresses \
                     (127.0.0.1, ::1) are allowed",
                    options.listen
                ),
            ));
        }
        let listener = TcpListener::bind(options.listen).await.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another program listens there: choose another port or end it"
                }
                _ => "",
            };
            io::Error::new(
                error.kind(),
                format!("cannot listen for SQL on {}: {error}{hint}", options.listen),
            )
        })?;
        let (stop, stopping) = watch::channel(false);
        let registry = Registry::new(options.first_process);
        let places = Arc::new(Semaphore::new(options.connections_limit));
        let state = ServerState {
            options,
            databases,
            counters: Arc::default(),
            registry,
            stopping,
            deliveries: Deliveries::default(),
            places,
        };
        Ok(Server { listener, state, stop })
    }

    /// Returns the address of the server.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the server's counters, for `/metrics`.
    pub fn counters(&self) -> Arc<Counters> {
        self.state.counters.clone()
    }

    /// Serves until `shutdown` is ready. Then no connection is accepted any more, idle ones receive
    /// 57P01, running statements finish within the grace period, and sessions that still run are
    /// dropped (and so aborted).
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Server { listener, state, stop } = self;
        let state = Arc::new(state);
        let mut connections = JoinSet::new();
        let mut analyst = JoinSet::new(); // It ends with the server.
        analyst.spawn(analyst::run(state.databases.clone()));
        let mut keeper = JoinSet::new();
        keeper.spawn(keeper::run(state.databases.clone()));
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if connections.len() < state.options.connections_limit + HANDSHAKES => {
                        count(&state.counters.connections_total);
                        connections.spawn(connection::run(stream, state.clone()));
                    }
                    Ok(_) => count(&state.counters.connections_refused),
                    Err(error) => {
                        // Out of file descriptors, or the client has disconnected already; neither
                        // is a reason to stop.
                        tracing::warn!(%error, "cannot accept a SQL connection");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                },
            }
        }
        drop(listener);
        stop.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(state.options.shutdown_grace, all).await.is_err() {
            let left = state.counters.connections_open.load(Relaxed);
            tracing::warn!(left, "sessions still ran after the grace period and are dropped");
            // Those that compute end by themselves.
            state.registry.cancel_all();
            connections.shutdown().await;
        }
    }
}

/// Returns an unpredictable secret: random bits from the operating system.
pub(crate) fn secret() -> i32 {
    let bytes = Uuid::new_v4().into_bytes();
    i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
