//! Spanner, Table 4, on processes: the duration of a COMMIT with several participant groups.

use super::cluster::{Cluster, ROWS};
use super::sessions::{Failures, Load, Sessions, Work};
use super::{Bench, world};
use meridian_figures::Figure;
use meridian_figures::spanner_table4::{Measured, figure, participants};
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::time::Duration;

const NODES: usize = 3;
/// The number of sessions. Each has a row of its own in each group, so that they never conflict.
const SESSIONS: usize = 4;

pub async fn measure(bench: Bench) -> Result<Figure, String> {
    let (groups, runs, window) =
        bench.pick((50, 3, Duration::from_secs(4)), (10, 1, Duration::from_millis(500)));
    bench.say(&format!("{NODES} nodes start, and a table is split among {groups} groups"));
    let flags = |_: usize, _: &[String]| ["--clock-bound", "2500us"].map(str::to_owned).to_vec();
    let cluster = Cluster::start(NODES, flags).await?;
    cluster.fill(groups, 8).await?;
    cluster.awake(0).await?;
    let urls = cluster.urls(0..NODES)?;
    let (mut all, mut failures) = (Vec::new(), Failures::default());
    for many in participants().filter(|many| *many as usize <= groups) {
        bench.say(&format!("{many} participants"));
        let mut measured = Measured::with(many);
        let before = move |session: usize, random: &mut StdRng| {
            update(session, many as usize, groups, random)
        };
        let work = Work::Commit(Arc::new(before));
        for _ in 0..runs {
            let sessions = Sessions::open(&urls, SESSIONS, &work).await?;
            let outcome = sessions.drive(Load { every: None, lasts: window }).await;
            measured.add(&outcome.took_ns()?);
            failures.add(&outcome.failures);
        }
        all.push(measured);
    }
    let notes = vec![
        world(&format!("{NODES} nodes")),
        format!(
            "{groups} groups of three, with leaders wherever they were elected; {SESSIONS} sessions, each on one of the nodes; the system clock's bound is \
             set to 2.5 ms, so that commit wait is 5 ms; {runs} × {} s for each number of participants. COMMIT is timed, from the client's request \
             to the response: the locks are held by then, and the statements before it are not included. The paper: 3 \
             zones of 25 servers, 10 runs; up to 200 participants.",
            window.as_secs_f64()
        ),
        failures.told(),
    ];
    Ok(figure(&all, notes))
}

/// Returns the statement that updates the session's own row in `participants` groups, beginning
/// with a random one.
fn update(session: usize, participants: usize, groups: usize, random: &mut StdRng) -> String {
    let first = random.random_range(0..groups);
    let keys = (0..participants).map(|at| (first + at) % groups * ROWS + session);
    let keys: Vec<String> = keys.map(|key| key.to_string()).collect();
    format!("UPDATE t SET n = n + 1 WHERE id IN ({})", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn sessions_write_to_as_many_groups_as_asked_and_never_the_same_row() {
        let mut random = StdRng::seed_from_u64(1);
        let mut keys = |session| {
            let sql = update(session, 5, 7, &mut random);
            let keys = sql.split(['(', ')']).nth(1).expect("a list").to_owned();
            keys.split(", ").map(|key| key.parse::<usize>().expect("a key")).collect::<Vec<_>>()
        };
        let (one, other) = (keys(0), keys(3));
        let groups: std::collections::BTreeSet<usize> = one.iter().map(|key| key / ROWS).collect();
        assert_eq!(groups.len(), 5);
        assert!(one.iter().all(|key| key % ROWS == 0) && other.iter().all(|key| key % ROWS == 3));
    }
}
