//! Spanner, Figure 5, on processes: reads through two nodes while the third, or the leader, ends.

use super::cluster::{Cluster, ROWS};
use super::sessions::{Failures, Load, Sessions, Work, nanos};
use super::{Bench, world};
use meridian_figures::Figure;
use meridian_figures::spanner_figure5::{Course, Kill, Measured, figure};
use std::time::Duration;

const NODES: usize = 3;
/// The node that ends; sessions are on the other nodes.
const VICTIM: usize = 2;
const GROUPS: usize = 10;
/// The time before a node ends at which the leaders are checked.
const CHECKED_BEFORE: Duration = Duration::from_millis(500);

pub async fn measure(bench: Bench) -> Result<Figure, String> {
    let (lease_s, rate, sessions, killed_s, seconds) =
        bench.pick((10, 1000, 40, 5, 25), (2, 200, 20, 2, 8));
    // Processes that share cores are less steady than the simulator.
    let course = Course { seconds, killed_s, recovered: 0.9 };
    let every = Duration::from_secs(sessions as u64) / rate;
    let (mut all, mut failures) = (Vec::new(), Failures::default());
    for kill in Kill::ALL {
        bench.say(&format!("{}: nodes start", kill.name()));
        let leader = if kill == Kill::NonLeader { 0 } else { VICTIM };
        let flags = |_: usize, _: &[String]| vec!["--lease".to_owned(), lease_s.to_string()];
        let mut cluster = Cluster::start(NODES, flags).await?;
        cluster.fill(GROUPS, 8).await?;
        cluster.led_by(leader).await?;
        cluster.awake(0).await?;
        let work = Work::Statement {
            sql: "SELECT n FROM t WHERE id = $1".to_owned(),
            keys: GROUPS * ROWS,
        };
        let sessions = Sessions::open(&cluster.urls(0..VICTIM)?, sessions, &work).await?;
        bench.say(&format!("{}: {seconds} s", kill.name()));
        let load = Load { every: Some(every), lasts: Duration::from_secs(seconds) };
        let event = async {
            tokio::time::sleep(Duration::from_secs(killed_s) - CHECKED_BEFORE).await;
            let at = tokio::time::Instant::now() + CHECKED_BEFORE;
            all_led_by(&cluster, leader).await?;
            tokio::time::sleep_until(at).await;
            match kill {
                Kill::LeaderSoft => cluster.terminate(VICTIM),
                Kill::NonLeader | Kill::LeaderHard => {
                    cluster.kill(VICTIM);
                    Ok(())
                }
            }
        };
        let (outcome, ()) = tokio::try_join!(async { Ok(sessions.drive(load).await) }, event)?;
        outcome.took_ns()?;
        failures.add(&outcome.failures);
        let ended_ns = outcome.answers.iter().map(|(at, _)| nanos(*at)).collect();
        all.push(Measured { kill, ended_ns, failed: outcome.failures.count() });
    }
    let notes = vec![
        world(&format!("{NODES} nodes")),
        format!(
            "{GROUPS} groups of three, all led by one node (by meridian.shards, half a second before); {sessions} sessions on the two nodes that \
             remain, which read by primary key, {rate} times a second in all; a session that is late continues without a pause. After {killed_s} s a \
             node ends; leases last for {lease_s} s: one that leads nothing (SIGKILL), the one that leads all, with notice \
             (SIGTERM) and without (SIGKILL). {} The paper: 5 zones of 25 servers, 1250 groups, 50 thousand reads a second, leases of 10 s. Its \
             figure is a drawing; its values here are from the text.",
            course.reading()
        ),
        failures.told(),
    ];
    Ok(figure(course, &all, notes))
}

/// Fails, and names the actual leaders, unless one node leads all groups.
async fn all_led_by(cluster: &Cluster, leader: usize) -> Result<(), String> {
    let leaders = cluster.leaders(0).await?;
    if leaders.iter().all(|found| *found == Some(leader)) {
        return Ok(());
    }
    let names: Vec<String> =
        leaders.iter().map(|found| found.map_or("?".into(), |at| (at + 1).to_string())).collect();
    Err(format!(
        "node {} was to lead all groups, and now they are led by {}",
        leader + 1,
        names.join(", ")
    ))
}
