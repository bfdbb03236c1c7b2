//! The ports of a running node: SQL for clients, HTTP for monitoring.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use meridian::node_server::NodeServer;
use meridian_host::clock_sync::NodeTime;
use meridian_host::node::{DatabaseTransactions, ShardStatus};
use meridian_pg::{Counters, Options, Server};
use meridian_txn::TxnStats;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Open ports.
pub struct Listeners {
    /// The address of the SQL port.
    pub sql: SocketAddr,
    /// The address of the HTTP port, for health and metrics.
    pub http: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// The state that the HTTP port reports.
struct Watched {
    node_server: Arc<NodeServer>,
    counters: Arc<Counters>,
    began: Instant,
    stopping: watch::Receiver<bool>,
}

impl Listeners {
    /// Opens both ports and serves them.
    pub async fn open(
        node_server: Arc<NodeServer>,
        sql: SocketAddr,
        http: SocketAddr,
    ) -> Result<Listeners, String> {
        let options = Options {
            listen: sql,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Options::default()
        };
        let server = Server::bind(options, node_server.clone()).await.map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
                " (--sql ADDRESS, port 0 takes a free one)"
            } else {
                ""
            };
            format!("{error}{hint}")
        })?;
        let sql = server.local_addr().map_err(|error| error.to_string())?;
        loopback("--http", http)?;
        let listener = std::net::TcpListener::bind(http).map_err(|error| {
            format!(
                "cannot listen for HTTP on {http}: {error}; choose another port with --http (port 0 takes a free one), or \
                 stop the program that listens there"
            )
        })?;
        let http = listener.local_addr().map_err(|error| error.to_string())?;
        let (stop, stopping) = watch::channel(false);
        let watched = Watched {
            node_server,
            counters: server.counters(),
            began: Instant::now(),
            stopping: stopping.clone(),
        };
        let routes = Router::new()
            .route("/live", get(async || "{\"status\":\"live\"}\n"))
            .route("/health", get(health))
            .route("/metrics", get(metrics))
            .route("/", get(async || "Meridian. See /live, /health and /metrics.\n"))
            .with_state(Arc::new(watched));
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(stopped(stopping.clone())));
        let served = serve_apart(listener, routes, stopping).map_err(|error| {
            format!("cannot serve HTTP on {http}: {error}; is the limit of threads reached?")
        })?;
        tasks.spawn(served);
        Ok(Listeners { sql, http, stop, tasks })
    }

    /// Waits until an open port is no longer served, and returns the reason.
    pub async fn failed(&mut self) -> String {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(Err(error)) if error.is_panic() => {
                "the task of a port panicked, which is a bug in Meridian: start the node again"
                    .to_owned()
            }
            Some(_) => {
                "a port of this node failed, the log tells why: start the node again".to_owned()
            }
        }
    }

    /// Closes the ports at once, as a crash would, without a message to any session.
    pub async fn kill(mut self) {
        self.tasks.shutdown().await;
    }

    /// Closes the ports, after running statements have finished.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Serves HTTP on a thread of its own, so that it responds whatever the threads of SQL do. Returns
/// a future of its end; if that is dropped, it ends at once.
fn serve_apart(
    listener: std::net::TcpListener,
    routes: Router,
    stopping: watch::Receiver<bool>,
) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ended, has_ended) = oneshot::channel::<()>();
    let serve = async move {
        let listener = TcpListener::from_std(listener)?;
        axum::serve(listener, routes).with_graceful_shutdown(stopped(stopping)).await
    };
    let run = move || {
        let mut ended = ended;
        let served = runtime.block_on(async {
            tokio::select! {
                served = serve => served,
                () = ended.closed() => Ok(()),
            }
        });
        if let Err(error) = served {
            tracing::error!(%error, "the HTTP port failed");
        }
        drop(ended);
    };
    std::thread::Builder::new().name("http".into()).spawn(run)?;
    // An error is the end of the thread.
    Ok(async move { drop(has_ended.await) })
}

/// Rejects addresses other than loopback, since there is no authentication yet.
pub fn loopback(flag: &str, address: SocketAddr) -> Result<(), String> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{flag} {address}: refusing to listen beyond this machine, because there is no authentication yet; \
         use 127.0.0.1 or [::1], and a tunnel to come from elsewhere"
    ))
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender was dropped, which is a stop as well.
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn health(State(watched): State<Arc<Watched>>) -> Response {
    let stopping = *watched.stopping.borrow();
    let (code, status) = match (stopping, watched.node_server.serves().await) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        (false, false) if !watched.node_server.status().to_meet.is_empty() => (
            StatusCode::SERVICE_UNAVAILABLE,
            "cannot serve: a new cluster begins when all its members have met once",
        ),
        (false, false) if watched.node_server.clock().half_width_ns.is_none() => (
            StatusCode::SERVICE_UNAVAILABLE,
            "cannot serve: the time is not known (SHOW CLOCK and `meridian clock doctor` tell more)",
        ),
        (false, false) => {
            (StatusCode::SERVICE_UNAVAILABLE, "cannot serve: is a majority of the nodes up?")
        }
        (false, true) => (StatusCode::OK, "ok"),
    };
    let clock = watched.node_server.clock();
    let body = format!(
        "{{\"status\":\"{status}\",\"version\":\"{}\",\"clock_half_width_ns\":{},\"clock_state\":\"{}\",\"clock_source\":\"{}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        clock.half_width_ns.map_or("null".to_owned(), |half_width_ns| half_width_ns.to_string()),
        clock.clock_status,
        label(&clock.source)
    );
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn metrics(State(watched): State<Arc<Watched>>) -> Response {
    let clock = watched.node_server.clock();
    let mut out = String::new();
    let _ = writeln!(out, "# TYPE meridian_uptime_seconds gauge");
    let _ = writeln!(out, "meridian_uptime_seconds {:.3}", watched.began.elapsed().as_secs_f64());
    // An unknown time has no uncertainty to report.
    let _ = writeln!(out, "# TYPE meridian_clock_uncertainty_seconds gauge");
    if let Some(half_width_ns) = clock.half_width_ns {
        let _ =
            writeln!(out, "meridian_clock_uncertainty_seconds {:.9}", half_width_ns as f64 / 1e9);
    }
    let _ = writeln!(out, "# TYPE meridian_clock_source_info gauge");
    let (source, state) = (label(&clock.source), clock.clock_status);
    let _ = writeln!(out, "meridian_clock_source_info{{source=\"{source}\",state=\"{state}\"}} 1");
    let status = watched.node_server.status();
    let _ = writeln!(out, "# TYPE meridian_clock_offset_seconds gauge");
    for NodeTime { node, ahead_ns, .. } in &status.others {
        if let Some(ahead_ns) = ahead_ns {
            let _ = writeln!(
                out,
                "meridian_clock_offset_seconds{{peer=\"{}\"}} {:.9}",
                node.0,
                *ahead_ns as f64 / 1e9
            );
        }
    }
    transactions(&mut out, &status.transactions);
    for (name, kind, value) in [
        ("clock_fenced", "gauge", u64::from(clock.half_width_ns.is_none())),
        ("node_number", "gauge", u64::from(status.node.0)),
        ("node_lives_total", "counter", u64::from(status.incarnation)),
        ("log_records_total", "counter", status.log.records),
        ("log_written_bytes_total", "counter", status.log.bytes),
        ("log_fsyncs_total", "counter", status.log.syncs),
        ("log_segments", "gauge", status.log.segments),
        ("disk_full", "gauge", u64::from(status.disk_full)),
        ("copies_received_total", "counter", status.copies_received),
    ] {
        let _ = writeln!(out, "# TYPE meridian_{name} {kind}\nmeridian_{name} {value}");
    }
    for (name, value) in [
        ("recent_bytes", (|shard| shard.memtable_bytes as u64) as fn(&ShardStatus) -> u64),
        ("shard_applied_position", |shard| shard.applied),
        ("shard_through_ns", |shard| shard.through.nanos),
        ("shard_closed_ns", |shard| shard.closed.nanos),
        ("shard_leads", |shard| u64::from(shard.leads)),
        ("shard_has_leader", |shard| u64::from(shard.leader.is_some())),
        // No node has the number 0.
        ("shard_leader_node", |shard| shard.leader.map_or(0, |node| u64::from(node.0))),
    ] {
        let _ = writeln!(out, "# TYPE meridian_{name} gauge");
        for shard in &status.shards {
            let (database, number) = (label(&shard.database), shard.shard.0);
            let labels = format!("database=\"{database}\",shard=\"{number}\"");
            let _ = writeln!(out, "meridian_{name}{{{labels}}} {}", value(shard));
        }
    }
    for (name, value) in watched.counters.read() {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(out, "# TYPE meridian_{name} {kind}\nmeridian_{name} {value}");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], out).into_response()
}

/// Writes the counters of transactions, by database.
fn transactions(out: &mut String, databases: &[DatabaseTransactions]) {
    let labels = |of: &DatabaseTransactions| {
        format!("database=\"{}\",protocol=\"{}\"", label(&of.database), of.protocol)
    };
    for (name, wait) in [
        ("commit_wait", (|stats| stats.commit_wait) as fn(&TxnStats) -> (u64, Duration)),
        ("read_wait", |stats| stats.read_wait),
        ("timestamp_wait", |stats| stats.timestamp_wait),
    ] {
        let _ = writeln!(out, "# TYPE meridian_{name}_seconds summary");
        for of in databases {
            let (labels, (count, sum)) = (labels(of), wait(&of.stats));
            let sum = sum.as_secs_f64();
            let _ = writeln!(out, "meridian_{name}_seconds_sum{{{labels}}} {sum:.9}");
            let _ = writeln!(out, "meridian_{name}_seconds_count{{{labels}}} {count}");
        }
    }
    let _ = writeln!(out, "# TYPE meridian_transaction_aborts_total counter");
    for of in databases {
        let labels = labels(of);
        for (cause, count) in &of.stats.aborts {
            let labels = format!("{labels},cause=\"{cause}\"");
            let _ = writeln!(out, "meridian_transaction_aborts_total{{{labels}}} {count}");
        }
    }
    for (name, count) in [
        ("transaction_moves", (|stats| stats.moves) as fn(&TxnStats) -> u64),
        ("pushes", |stats| stats.pushes),
        ("unknown_outcomes", |stats| stats.unknown),
    ] {
        let _ = writeln!(out, "# TYPE meridian_{name}_total counter");
        for of in databases {
            let (labels, count) = (labels(of), count(&of.stats));
            let _ = writeln!(out, "meridian_{name}_total{{{labels}}} {count}");
        }
    }
}

/// Escapes a label's value: quoted identifiers and paths may hold any character.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::loopback;

    #[test]
    fn only_this_machine_may_come_in() {
        for (address, allowed) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("10.0.0.1:1", false)]
        {
            assert_eq!(
                loopback("--sql", address.parse().expect("an address")).is_ok(),
                allowed,
                "{address}"
            );
        }
    }
}
