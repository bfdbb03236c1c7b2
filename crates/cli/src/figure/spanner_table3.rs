//! Spanner, Table 3, on processes: as many nodes as replicas, with sessions on all of them.

use super::cluster::{Cluster, ROWS};
use super::sessions::{Failures, Load, Sessions, Work};
use super::{Bench, world};
use meridian_figures::spanner_table3::{Measured, Operation, Setting, figure, settings};
use meridian_figures::{Figure, Runs, mean_ms};
use std::time::Duration;

/// Commit wait is twice that: the paper's 5 ms.
const HALF_WIDTH: &str = "2500us";
/// «Standalone read and write operations of 4KB».
const BYTES: usize = 4096;
/// The number of sessions and their interval, so that none waits for another.
const QUIET: (usize, Duration) = (4, Duration::from_millis(20));

pub async fn measure(bench: Bench) -> Result<Figure, String> {
    let (groups, runs, many) = bench.pick((10, 3, 64), (3, 1, 4));
    let window = Duration::from_millis(bench.pick(1_500, 300));
    let (mut all, mut failures) = (Vec::new(), Failures::default());
    let settings: Vec<Setting> = settings().collect();
    for same in
        settings.chunk_by(|one, other| (one.replicas, one.waits) == (other.replicas, other.waits))
    {
        let Setting { replicas, waits, .. } = same[0];
        bench.say(&format!("{} replicas: nodes start", same[0].name()));
        let cluster = start(replicas, waits, groups).await?;
        let urls = cluster.urls(0..replicas)?;
        for setting in same {
            bench.say(&format!("{} replicas: {}", setting.name(), setting.operation.name()));
            let work = Work::Statement { sql: sql(setting.operation), keys: groups * ROWS };
            let (mut latency, mut throughput) = (Runs::default(), Runs::default());
            for _ in 0..runs {
                let (sessions, every) = QUIET;
                let quiet = Sessions::open(&urls, sessions, &work).await?;
                let quiet = quiet.drive(Load { every: Some(every), lasts: window }).await;
                latency.0.push(mean_ms(&quiet.took_ns()?));
                let busy = Sessions::open(&urls, many * replicas, &work).await?;
                let busy = busy.drive(Load { every: None, lasts: window }).await;
                busy.took_ns()?;
                throughput.0.push(busy.rate(window) / 1e3);
                failures.add(&quiet.failures);
                failures.add(&busy.failures);
            }
            all.push(Measured { setting: *setting, latency, throughput });
        }
    }
    let notes = vec![
        world("as many nodes as replicas"),
        format!(
            "{groups} groups, with leaders wherever they were elected; values of 4 KB; the system clock's bound is set to 2.5 ms, so that commit wait is 5 \
             ms (1D: a single node without commit wait; 1: one of two nodes, the other of which has no replica). {runs} × {} s each. \
             Latency: four sessions, each of which begins an operation every 20 ms. Throughput: {many} sessions per node.",
            window.as_secs_f64()
        ),
        "A write is an UPDATE by primary key, which reads and locks first; a read-only transaction a SELECT by primary key; a snapshot read the \
         same AS OF SYSTEM TIME with_max_staleness('10s'), at the node that the session is connected to. All nodes share the cores, so that their \
         throughput does not add up as the paper's does, whose clients and servers had machines of their own."
            .to_owned(),
        failures.told(),
    ];
    Ok(figure(&all, notes))
}

async fn start(replicas: usize, waits: bool, groups: usize) -> Result<Cluster, String> {
    // A single node has no commit wait, since it needs no clock but its own; with commit wait,
    // there are two nodes at least.
    let nodes = if waits { replicas.max(2) } else { replicas };
    let flags = |_: usize, _: &[String]| match waits {
        true => ["--clock-bound", HALF_WIDTH].map(str::to_owned).to_vec(),
        false => Vec::new(),
    };
    let cluster = Cluster::start(nodes, flags).await?;
    cluster.fill(groups, BYTES).await?;
    if replicas < nodes {
        cluster.only_on(0).await?;
    }
    cluster.awake(0).await?;
    Ok(cluster)
}

fn sql(operation: Operation) -> String {
    match operation {
        Operation::Write => format!("UPDATE t SET v = '{}' WHERE id = $1", "y".repeat(BYTES)),
        Operation::ReadOnly => "SELECT v FROM t WHERE id = $1".to_owned(),
        Operation::Snapshot => {
            "SELECT v FROM t WHERE id = $1 AS OF SYSTEM TIME with_max_staleness('10s')".to_owned()
        }
    }
}
