//! A protocol that no released program has, in one file: versions under one lock, on a single node.
//! A node that is given the protocol runs SQL on it.

#[path = "../../sql/tests/common/mod.rs"]
mod common;

use common::Memory;
use meridian::node_server::NodeServer;
use meridian_host::context::NodeContext;
use meridian_host::database::{DatabaseHandle, ShardStatus};
use meridian_host::flusher::Flushable;
use meridian_host::identity::OpenError;
use meridian_host::node::Options;
use meridian_host::protocols::{self, HostedProtocol, those_or_all};
use meridian_placement::DatabaseRow;
use meridian_sql::Session;
use meridian_systems::Protocol;
use meridian_systems::envelope::{Frame, Kind};
use meridian_systems::setting::{Setting, Values};
use meridian_txn::{Consistency, Database, IsolationLevel};
use std::sync::Arc;
use std::time::Duration;

static TOY: Protocol = Protocol {
    name: "toy",
    kind: Kind(200),
    isolation: Some(IsolationLevel::RepeatableRead),
    consistency: &[Consistency::CommitWait],
    policy: None,
    own_settings: &[&PATIENCE],
};

static PATIENCE: Setting = Setting {
    name: "toy.patience",
    values: Values::Durations {
        possible: Duration::ZERO..=Duration::from_secs(1),
        default: Some(Duration::from_millis(3)),
    },
    hint: "It is at most 1s: ALTER DATABASE lab SET toy.patience = '5ms'.",
};

const HOSTED: HostedProtocol = HostedProtocol {
    protocol: &TOY,
    open: |_, _: &Arc<NodeContext>| {
        Ok(Arc::new(Handle(Memory::default().gives(IsolationLevel::RepeatableRead))))
    },
    choose_replicas: those_or_all,
};

struct Handle(Memory);

impl DatabaseHandle for Handle {
    fn protocol(&self) -> &'static Protocol {
        &TOY
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.0.clone())
    }

    fn apply(&self, _: &DatabaseRow) -> Result<(), OpenError> {
        Ok(())
    }

    fn receive(&self, _: &[Frame<'_>]) {}

    fn retention(&self) -> Option<Duration> {
        None
    }

    fn sweep(&self) {}

    fn shards(&self) -> Vec<Arc<dyn Flushable>> {
        Vec::new()
    }

    fn status(&self, _: &DatabaseRow) -> Vec<ShardStatus> {
        Vec::new()
    }

    fn close(&self) -> Vec<Arc<dyn Flushable>> {
        Vec::new()
    }
}

fn node(toy: &[HostedProtocol]) -> NodeServer {
    let protocols = [&protocols::ALL[..], toy].concat();
    NodeServer::open(Options { protocols, ..Options::alone() }).expect("a node in memory opens")
}

/// The database is created, and its settings are changed and read, from another database, as from
/// any session.
#[tokio::test]
async fn a_protocol_that_a_node_is_given_runs_under_sql() {
    let node_server = node(&[HOSTED]);
    let mut first = Session::new(node_server.first(), "root");
    let asked = async |session: &mut Session, sql: &str| {
        session.simple(sql).await.iter().flat_map(common::show).collect::<Vec<String>>()
    };
    assert_eq!(asked(&mut first, "CREATE DATABASE lab PROTOCOL = toy").await, ["CREATE DATABASE"]);
    let engine = node_server.find("lab").await.expect("it has transactions").expect("it exists");
    let mut lab = Session::new(engine, "root");
    let made =
        "CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one'), (2, 'two')";
    assert_eq!(asked(&mut lab, made).await, ["CREATE TABLE", "INSERT 0 2"]);
    assert_eq!(asked(&mut lab, "SELECT v FROM t WHERE k = 2").await, ["two", "SELECT 1"]);
    assert_eq!(asked(&mut lab, "SHOW transaction_isolation").await[0], "repeatable read");
    assert!(asked(&mut lab, "BEGIN ISOLATION LEVEL SERIALIZABLE").await[0].starts_with("0A000"));
    assert_eq!(asked(&mut lab, "SHOW toy.patience").await[0], "3ms");
    let set = "ALTER DATABASE lab SET toy.patience = '5ms'";
    assert_eq!(asked(&mut first, set).await, ["ALTER DATABASE"]);
    assert_eq!(asked(&mut lab, "SHOW toy.patience").await[0], "5ms");
    let elsewhere = asked(&mut first, "ALTER DATABASE meridian SET toy.patience = '5ms'").await;
    assert!(
        elsewhere[0].starts_with("42809") && elsewhere[0].contains("protocol toy"),
        "{elsewhere:?}"
    );
    for of_sessions in ["spanner.negotiate_timestamps", "transaction_isolation"] {
        let set = format!("ALTER DATABASE lab SET {of_sessions} = 'on'");
        let refused = asked(&mut first, &set).await;
        assert!(refused[0].starts_with("0A000"), "{set}: {refused:?}");
    }
    let refused = asked(&mut first, "ALTER DATABASE lab MEMBERS (1)").await;
    assert!(refused[0].contains("whose protocol is toy"), "{refused:?}");
    assert_eq!(asked(&mut first, "DROP DATABASE lab").await, ["DROP DATABASE"]);
    node_server.close();
}

#[tokio::test]
async fn a_node_without_its_row_says_which_protocols_there_are() {
    let node_server = node(&[]);
    let mut first = Session::new(node_server.first(), "root");
    let answers = first.simple("CREATE DATABASE lab PROTOCOL = toy").await;
    let said: Vec<String> = answers.iter().flat_map(common::show).collect();
    assert!(said[0].starts_with("22023") && said[0].contains("toy"), "{said:?}");
}
