//! Tests three real processes: acknowledged writes survive, whichever node is killed.

mod common;

use common::{Started, free_addresses, installed, meridian, run, stderr, stdout};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Cluster {
    /// First, so that the nodes end before their folder does.
    nodes: Vec<Option<Started>>,
    addresses: Vec<String>,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Cluster { folder, addresses: free_addresses(3), nodes: Vec::new() };
        cluster.nodes = (0..3).map(|at| Some(cluster.open(at))).collect();
        cluster
    }

    fn open(&self, at: usize) -> Started {
        // In a different order on each node: the list is a set.
        let mut join = self.addresses.clone();
        join.rotate_left(at);
        Started::member(
            &self.folder.path().join(at.to_string()),
            &self.addresses[at],
            &join.join(","),
        )
    }

    fn kill(&mut self, at: usize) {
        self.nodes[at].take().expect("the node runs").kill();
    }

    fn restart(&mut self, at: usize) {
        self.nodes[at] = Some(self.open(at));
    }

    fn node(&self, at: usize) -> &Started {
        self.nodes[at].as_ref().expect("the node runs")
    }
}

/// On a network other than loopback, members have certificates, and a connection without one is
/// rejected.
#[test]
fn members_that_listen_beyond_loopback_have_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let start = |at: usize, more: &[&str]| {
        let everywhere = addresses[at].replace("127.0.0.1", "0.0.0.0");
        let flags =
            [&["--listen", &addresses[at], "--bind", &everywhere, "--join", &join], more].concat();
        Started::with(&folder.path().join(at.to_string()), &flags)
    };
    let first = start(0, &[]);
    let token = folder.path().join("0/certificates/token").display().to_string();
    let others = [1, 2].map(|at| start(at, &["--token-file", &token]));
    sql(&others[0], "create table t (id int primary key)");
    sql(&others[1], "insert into t values (1)");
    assert!(sql(&first, "select id from t").contains('1'));
}

fn sql(node: &Started, statement: &str) -> String {
    let output = run(&["sql", &node.url, "-e", statement]);
    assert!(output.status.success(), "{statement}: {}", stderr(&output));
    stdout(&output)
}

/// Transactions across the three groups of a table, while the node that leads them is killed: no
/// money appears or vanishes.
#[test]
fn money_moves_between_groups_whichever_node_is_killed() {
    let mut cluster = Cluster::start();
    sql(cluster.node(0), "create table account (id int primary key, balance int)");
    sql(cluster.node(0), "insert into account select i, 100 from generate_series(0, 29) i");
    sql(cluster.node(1), "alter table account split at values (10), (20)");
    sql(cluster.node(1), "alter table account split at values (10)"); // Changes nothing.
    let shards = sql(cluster.node(1), "select shard from meridian.shards");
    assert!(shards.contains("(3 rows)"), "{shards}");
    let committed = |at: usize| {
        sql(
            cluster.node(at),
            "select id, meridian_commit_timestamp from account where id in (5, 25) order by id",
        )
    };
    assert!(committed(0).contains("+00"), "{}", committed(0));
    assert_eq!((committed(0), committed(1)), (committed(1), committed(2)), "for any leader");
    let transfer = |node: &Started, from: u32, to: u32| {
        let commands = format!(
            "begin; update account set balance = balance - 1 where id = {from}; \
             update account set balance = balance + 1 where id = {to}; commit"
        );
        run(&["sql", &node.url, "-e", &commands]).status.success()
    };
    let mut moved = 0;
    for number in 0..6 {
        moved += u32::from(transfer(cluster.node(number as usize % 3), number, 29 - number));
    }
    assert_eq!(moved, 6);
    for killed in 0..3 {
        cluster.kill(killed);
        let (survivor, began) = ((killed + 1) % 3, Instant::now());
        let mut through = 0;
        while through < 3 && began.elapsed() < Duration::from_secs(120) {
            let number = u32::try_from(killed).expect("small") * 3 + through;
            through += u32::from(transfer(cluster.node(survivor), number, 29 - number));
        }
        assert_eq!(through, 3, "nothing went through after node {killed} was killed");
        cluster.restart(killed);
        for way in ["", "set meridian.negotiate_timestamps = on; "] {
            let query = format!("{way}select sum(balance) as total, count(*) from account");
            let all = sql(cluster.node(survivor), &query);
            assert!(all.contains("3000") && all.contains("30"), "{query}: {all}");
        }
    }
    // A node without any replica still serves sessions.
    sql(cluster.node(0), "alter database meridian members (2, 3)");
    let voters = sql(cluster.node(1), "select distinct voters from meridian.shards");
    assert!(voters.contains("2,3") && voters.contains("(1 row)"), "{voters}");
    assert!(transfer(cluster.node(0), 1, 2));
    let all = sql(cluster.node(0), "select sum(balance) as total, count(*) from account");
    assert!(all.contains("3000") && all.contains("30"), "{all}");
    let fails = |statement: &str| stderr(&run(&["sql", &cluster.node(1).url, "-e", statement]));
    assert!(fails("alter database meridian members (2, 9)").contains("there is no node 9"));
    assert!(fails("alter database meridian members 2").contains("MEMBERS takes numbers of nodes"));
}

#[test]
fn what_any_node_acknowledged_is_on_all_of_them_whichever_is_killed() {
    let mut cluster = Cluster::start();
    sql(cluster.node(0), "create table t (id int primary key, at text)");
    let (mut next, mut acknowledged) = (0, Vec::new());
    for killed in 0..3 {
        let survivor = (killed + 1) % 3;
        let url = cluster.node(survivor).url.clone();
        let began = Instant::now();
        // Statements one after the other, through a running node, while another one is killed.
        let mut dead = false;
        while began.elapsed() < Duration::from_millis(2_500) {
            if !dead && began.elapsed() > Duration::from_millis(500) {
                cluster.kill(killed);
                dead = true;
            }
            next += 1;
            let output = run(&["sql", &url, "-e", &format!("insert into t values ({next}, 'x')")]);
            if output.status.success() {
                acknowledged.push(next);
            } else {
                // Only a statement of unknown outcome may or may not have happened.
                assert!(stderr(&output).contains("40003"), "{}", stderr(&output));
            }
        }
        cluster.restart(killed);
        let back = sql(cluster.node(killed), "select id from t");
        for id in &acknowledged {
            assert!(
                back.lines().any(|line| line.trim() == id.to_string()),
                "{id} was acknowledged, and is lost"
            );
        }
    }
    assert!(acknowledged.len() > 20, "{} statements", acknowledged.len());
    for at in 0..3 {
        let end = Instant::now() + Duration::from_secs(120);
        while !cluster.node(at).get("/health").contains("\"status\":\"ok\"") {
            assert!(Instant::now() < end, "{}", cluster.node(at).get("/health"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_member_that_lost_its_folder_ends_and_says_why_even_if_the_others_restarted() {
    let mut cluster = Cluster::start();
    sql(cluster.node(0), "create table t (id int primary key)");
    (0..3).for_each(|at| cluster.kill(at));
    std::fs::remove_dir_all(cluster.folder.path().join("2")).expect("its folder is there");
    cluster.restart(0);
    let (folder, join) = (cluster.folder.path().join("2"), cluster.addresses.join(","));
    let arguments = [
        "start",
        "--sql",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--listen",
        &cluster.addresses[2],
    ];
    let output = meridian()
        .args(arguments)
        .args(["--join", &join, "--data"])
        .arg(folder)
        .output()
        .expect("it runs");
    let said = stderr(&output);
    assert!(
        !output.status.success() && said.contains("remembers this node with another disk"),
        "{said}"
    );
    assert!(stdout(&output).contains("yet to meet"), "{}", stdout(&output));
    cluster.restart(1);
    sql(cluster.node(1), "insert into t values (1)");
}

#[test]
fn a_new_cluster_waits_for_all_its_members_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let open = |at: usize| {
        Started::member(&folder.path().join(at.to_string()), &addresses[at], &addresses.join(","))
    };
    let two = [open(0), open(1)];
    let health = two[0].get("/health");
    assert!(health.contains("503") && health.contains("all its members have met once"), "{health}");
    let third = open(2);
    sql(&third, "create table t (id int primary key)");
    drop(third);
    sql(&two[1], "insert into t values (1)");
}

#[test]
fn members_that_believe_no_system_clock_find_out_the_time_and_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let open = |at: usize| {
        let flags = ["--listen", &addresses[at], "--join", &addresses.join(","), "--cluster-time"];
        Started::with(&folder.path().join(at.to_string()), &flags)
    };
    let nodes: Vec<Started> = (0..3).map(open).collect();
    let before = sql(&nodes[0], "show clock");
    assert!(before.contains("starting") && before.contains("cluster time"), "{before}");
    sql(&nodes[1], "create table t (id int primary key)");
    sql(&nodes[2], "insert into t values (1)");
    let end = Instant::now() + Duration::from_secs(120);
    let known = || {
        sql(
            &nodes[0],
            "select uncertainty_ns < 100000000 from meridian.clock where state = 'good' and ahead_ns is null",
        )
    };
    while !known().contains('t') {
        assert!(Instant::now() < end, "{}", sql(&nodes[0], "show clock"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let date = "select latest < timestamptz '2050-01-01 00:00:00+00' from meridian.clock where ahead_ns is null";
    assert!(sql(&nodes[0], date).contains('t'), "{}", sql(&nodes[0], "show clock"));
    while !nodes[0].get("/metrics").contains("meridian_clock_offset_seconds{peer=") {
        assert!(Instant::now() < end, "{}", nodes[0].get("/metrics"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        sql(&nodes[0], "select tt_now()").contains("+00\",\""),
        "{}",
        sql(&nodes[0], "select tt_now()")
    );
    let sure =
        "select tt_after(now() - interval '1 hour') and tt_before(now() + interval '1 hour')";
    assert!(sql(&nodes[0], sure).contains('t'), "{}", sql(&nodes[0], "show clock"));
    // Half of the round trip to the farther of the two nodes, the remaining distance between the
    // clocks, and the drift until the next poll: two seconds at 200 ppm.
    let narrow = "select (select uncertainty_ns from meridian.clock where ahead_ns is null) \
                  <= max(round_trip_ns) / 2 + max(abs(ahead_ns)) + 400000 from meridian.clock";
    while !sql(&nodes[0], narrow).contains('t') {
        assert!(Instant::now() < end, "{}", sql(&nodes[0], "show clock"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Each node reports its own knowledge.
    while !sql(&nodes[0], "select count(*) from meridian.clock where state = 'good'").contains('3')
    {
        assert!(Instant::now() < end, "{}", sql(&nodes[0], "show clock"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = run(&["clock", "status", &nodes[0].url]);
    assert!(
        told.status.success() && stdout(&told).contains("good"),
        "{}{}",
        stdout(&told),
        stderr(&told)
    );
    let doctor = run(&["clock", "doctor", &nodes[0].url]);
    assert!(
        doctor.status.success() && stdout(&doctor).contains("good (cluster time, ±"),
        "{}",
        stdout(&doctor)
    );
    // A node that receives no answers loses the time, but keeps running.
    let [first, second, third] = nodes.try_into().ok().expect("three");
    drop((second, third));
    while !first.get("/health").contains("the time is not known") {
        assert!(Instant::now() < end, "{}", first.get("/health"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sql(&first, "show clock").contains("fenced"));
    assert!(first.get("/live").contains("live"), "/live fails, but a restart would not help");
}

#[test]
fn the_doctor_reports_the_clock_limit_and_believes_only_maintained_bounds() {
    let doctor = run(&["clock", "doctor"]);
    let synchronised = stdout(&doctor).contains("kernel      synchronised");
    assert!(
        doctor.status.success() && (synchronised || stdout(&doctor).contains("STA_UNSYNC")),
        "{}",
        stdout(&doctor)
    );
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(2);
    let open = |at: usize| {
        let flags =
            ["--listen", &addresses[at], "--join", &addresses.join(","), "--clock-bound", "kernel"];
        Started::with(&folder.path().join(at.to_string()), &flags)
    };
    let nodes = [open(0), open(1)];
    if synchronised {
        sql(&nodes[0], "create table t (id int primary key)");
    } else {
        std::thread::sleep(Duration::from_secs(3));
        assert!(
            nodes[0].get("/health").contains("the time is not known"),
            "{}",
            nodes[0].get("/health")
        );
    }
    let refused = run(&["start", "--data", "nowhere", "--clock-bound", "soon"]);
    assert!(
        !refused.status.success() && stderr(&refused).contains("a number with a unit"),
        "{}",
        stderr(&refused)
    );
    for (flags, why) in [
        (&["--time-masters", "127.0.0.1:9"][..], "masters are members"),
        (&["--clock-bound", "/dev/ptp0"], "/dev/ptp0:5us"),
    ] {
        let refused = run(&[&["start", "--data", "nowhere"], flags].concat());
        assert!(
            !refused.status.success() && stderr(&refused).contains(why),
            "{}",
            stderr(&refused)
        );
    }
    let contradicted =
        run(&["start", "--data", "nowhere", "--clock-bound", "1ms", "--cluster-time"]);
    assert!(!contradicted.status.success(), "{}", stdout(&contradicted));
}

/// Two masters with known clock bounds, and a node that polls them.
#[test]
fn time_masters_tell_the_others_what_time_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let (join, masters) = (addresses.join(","), addresses[..2].join(","));
    let open = |at: usize| {
        let bound: &[&str] = if at < 2 { &["--clock-bound", "2ms"] } else { &[] };
        let flags = ["--listen", &addresses[at], "--join", &join, "--time-masters", &masters];
        Started::with(&folder.path().join(at.to_string()), &[&flags, bound].concat())
    };
    let nodes: Vec<Started> = (0..3).map(open).collect();
    sql(&nodes[2], "create table t (id int primary key)");
    let known = "select source from meridian.clock where state = 'good' and ahead_ns is null and uncertainty_ns < 100000000";
    let end = Instant::now() + Duration::from_secs(120);
    for (at, source) in
        ["--clock-bound and time masters", "--clock-bound and time masters", "time masters"]
            .iter()
            .enumerate()
    {
        // A node's number is its place in the sorted list.
        while !sql(&nodes[at], known).contains(source) {
            assert!(Instant::now() < end, "{}", sql(&nodes[at], "show clock"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(
        nodes[2]
            .get("/metrics")
            .contains("meridian_clock_source_info{source=\"time masters\",state=\"")
    );
}

#[test]
fn a_folder_keeps_its_cluster() {
    let mut cluster = Cluster::start();
    sql(cluster.node(2), "select 1");
    cluster.kill(0);
    let strangers = free_addresses(2);
    let join = format!("{},{},{}", cluster.addresses[0], strangers[0], strangers[1]);
    let folder = cluster.folder.path().join("0");
    let output = run(&[
        "start",
        "--data",
        folder.to_str().expect("UTF-8"),
        "--sql",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--listen",
        &cluster.addresses[0],
        "--join",
        &join,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = stderr(&output);
    assert!(
        complaint.contains("identity") && complaint.contains("membership cannot change"),
        "{complaint}"
    );
    // Another node's folder, and a single-node database.
    let flags = ["--sql", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let alone = run(&[&["start", "--data", folder.to_str().expect("UTF-8")], &flags[..]].concat());
    assert_eq!(alone.status.code(), Some(1));
    assert!(stderr(&alone).contains("belongs to"), "{}", stderr(&alone));
    let (own, join) = (cluster.addresses[1].clone(), cluster.addresses.join(","));
    let other =
        ["start", "--data", folder.to_str().expect("UTF-8"), "--listen", &own, "--join", &join];
    cluster.kill(1);
    let other = run(&[&other[..], &flags[..]].concat());
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("belongs to node"), "{}", stderr(&other));
}

#[test]
fn health_is_what_a_majority_can_serve() {
    let mut cluster = Cluster::start();
    sql(cluster.node(0), "select 1");
    let becomes = |node: &Started, code: &str| {
        let end = Instant::now() + Duration::from_secs(120);
        while !node.get("/health").starts_with(&format!("HTTP/1.1 {code}")) {
            assert!(Instant::now() < end, "not {code}: {}", node.get("/health"));
        }
    };
    (0..3).for_each(|at| becomes(cluster.node(at), "200"));
    let metrics = cluster.node(1).get("/metrics");
    for name in [
        "meridian_clock_uncertainty_seconds 0.000100000\n",
        "meridian_node_number ",
        "meridian_shard_leader_node{database=\"meridian\",shard=\"0\"} ",
        "meridian_shard_through_ns{database=\"meridian\",shard=\"0\"} ",
        "meridian_shard_applied_position{database=\"meridian\",shard=\"0\"} ",
        "meridian_recent_bytes{database=\"meridian\",shard=\"0\"} ",
        "meridian_log_fsyncs_total ",
        "meridian_pg_connections_open ",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    cluster.kill(0);
    (1..3).for_each(|at| becomes(cluster.node(at), "200"));
    cluster.kill(1);
    becomes(cluster.node(2), "503");
    // No node can tell now whether the database exists, so the error must not say that it does not.
    let nowhere = cluster.node(2).url.replace("/meridian", "/nowhere");
    let refused = stderr(&run(&["sql", &nowhere, "-e", "select 1"]));
    assert!(
        refused.contains("cannot determine now") && refused.contains("a majority of the nodes"),
        "{refused}"
    );
    cluster.restart(1);
    (1..3).for_each(|at| becomes(cluster.node(at), "200"));
}

#[test]
fn pgbench_balances_add_up_when_a_node_is_killed_in_the_middle() {
    if !installed("pgbench") {
        return;
    }
    let mut cluster = Cluster::start();
    let pgbench = |node: &Started, arguments: &[&str]| {
        let mut command = Command::new("pgbench");
        command
            .args(["-h", "127.0.0.1", "-p", node.port(), "-U", "root"])
            .args(arguments)
            .arg("meridian");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("pgbench runs")
    };
    let filled =
        pgbench(cluster.node(0), &["-i", "-s", "1", "-q"]).wait_with_output().expect("it ends");
    assert!(filled.status.success(), "{}", stderr(&filled));
    for killed in [1, 2] {
        let running = pgbench(cluster.node(0), &["-n", "-M", "prepared", "-c", "4", "-T", "6"]);
        std::thread::sleep(Duration::from_secs(2));
        cluster.kill(killed);
        let ran = running.wait_with_output().expect("it ends");
        let shown = stdout(&ran);
        assert!(
            shown.contains("number of transactions actually processed"),
            "{shown}{}",
            stderr(&ran)
        );
        let checked = run(&["workload", "tpcb", "check", &cluster.node(0).url]);
        assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
        cluster.restart(killed);
    }
}

#[test]
fn psql_goes_to_a_node_that_lives() {
    if !installed("psql") {
        return;
    }
    let mut cluster = Cluster::start();
    sql(cluster.node(2), "create table t (id int primary key)");
    for killed in 0..3 {
        // A restarted node has another port here.
        let hosts: Vec<String> = (0..3).map(|at| cluster.node(at).sql.clone()).collect();
        let url = format!("postgresql://root@{}/meridian?connect_timeout=5", hosts.join(","));
        let psql = |statement: &str| {
            Command::new("psql")
                .args(["-X", "-A", "-t", "-d", &url, "-c", statement])
                .output()
                .expect("psql runs")
        };
        cluster.kill(killed);
        // A statement may fail while no node leads; none may return a wrong result.
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let output = psql(&format!("insert into t values ({killed}) on conflict do nothing"));
            if output.status.success() {
                break;
            }
            assert!(Instant::now() < end, "{}", stderr(&output));
        }
        assert_eq!(stdout(&psql("select count(*) from t")).trim(), (killed + 1).to_string());
        cluster.restart(killed);
    }
}

#[test]
fn a_bank_keeps_its_sum_through_kills() {
    let mut cluster = Cluster::start();
    let filled = run(&["workload", "bank", "init", &cluster.node(0).url]);
    assert!(filled.status.success(), "{}", stderr(&filled));
    let load = meridian()
        .args([
            "workload",
            "bank",
            "run",
            &cluster.node(0).url,
            "--clients",
            "4",
            "--duration",
            "6",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    for killed in [1, 2] {
        std::thread::sleep(Duration::from_millis(1000));
        cluster.kill(killed);
        std::thread::sleep(Duration::from_millis(1000));
        cluster.restart(killed);
    }
    let load = load.wait_with_output().expect("it ends");
    assert!(!stdout(&load).contains("  ok                0 "), "{}", stdout(&load));
    for at in 0..3 {
        let checked = run(&["workload", "bank", "check", &cluster.node(at).url]);
        assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
    }
}

/// A session that listens, on a connection of its own.
struct Listener {
    heard: std::sync::mpsc::Receiver<String>,
    _client: tokio_postgres::Client,
}

impl Listener {
    async fn on(node: &Started) -> Listener {
        let (client, mut connection) =
            tokio_postgres::connect(&node.url, tokio_postgres::NoTls).await.expect("connects");
        let (sender, heard) = std::sync::mpsc::channel();
        tokio::spawn(async move {
            let next = |context: &mut std::task::Context<'_>| connection.poll_message(context);
            let mut next = next;
            while let Some(Ok(message)) = std::future::poll_fn(&mut next).await {
                if let tokio_postgres::AsyncMessage::Notification(it) = message {
                    let _ = sender.send(it.payload().to_owned());
                }
            }
        });
        client.batch_execute("listen a").await.expect("listens");
        Listener { heard, _client: client }
    }

    /// Returns the next payloads.
    fn next(&self, count: usize) -> Vec<String> {
        let patience = Duration::from_secs(30);
        (0..count).map(|_| self.heard.recv_timeout(patience).expect("it is told")).collect()
    }
}

/// Sessions of all nodes receive what sessions of any node notify, in one order, also when a node
/// dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_reach_the_sessions_of_all_nodes() {
    let mut cluster = Cluster::start();
    let notify = |node: &Started, payload: &str| {
        sql(node, &format!("begin; notify a, '{payload} 1'; notify a, '{payload} 2'; commit"));
    };
    notify(cluster.node(0), "before");
    let dying = Listener::on(cluster.node(0)).await;
    let listeners = [Listener::on(cluster.node(1)).await, Listener::on(cluster.node(2)).await];
    for at in 0..3 {
        notify(cluster.node(at), &format!("node {at}"));
    }
    let expected: Vec<String> =
        (0..3).flat_map(|at| [format!("node {at} 1"), format!("node {at} 2")]).collect();
    for listener in listeners.iter().chain([&dying]) {
        assert_eq!(listener.next(6), expected);
    }
    notify(cluster.node(0), "last");
    cluster.kill(0);
    notify(cluster.node(1), "after");
    for listener in &listeners {
        assert_eq!(listener.next(4), ["last 1", "last 2", "after 1", "after 2"]);
    }
    cluster.restart(0);
    let back = Listener::on(cluster.node(0)).await;
    notify(cluster.node(2), "again");
    assert_eq!(back.next(2), ["again 1", "again 2"], "and nothing older");
}
