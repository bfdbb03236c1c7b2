//! The faults of a run, drawn from its seed.

use super::Options;
use super::clients::Board;
use super::cluster::{Cluster, Timebase};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Applies one fault after the other for a while, and returns the number of each.
pub fn apply(
    cluster: &mut Cluster,
    options: &Options,
    board: &Board,
) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let mut applied: BTreeMap<&'static str, u64> = BTreeMap::new();
    let end = board.began + Duration::from_secs_f64(60.0 * options.minutes);
    let wait = |ms: u64| {
        std::thread::sleep(
            Duration::from_millis(ms).min(end.saturating_duration_since(Instant::now())),
        )
    };
    // The only node whose clock may be wrong, if a majority of time masters must be right.
    let wrong = rng.random_range(0..cluster.len());
    while Instant::now() < end {
        let node = rng.random_range(0..cluster.len());
        let other = (node + rng.random_range(1..cluster.len())) % cluster.len();
        let for_ms = rng.random_range(50..4_000);
        let what = match rng.random_range(0..11) {
            0 | 1 => {
                cluster.end(node, false);
                wait(for_ms / 2);
                cluster.begin(node)?;
                "kill -9"
            }
            2 => {
                cluster.end(node, true);
                wait(for_ms / 2);
                cluster.begin(node)?;
                "end in order"
            }
            3 => {
                (0..cluster.len()).for_each(|node| cluster.end(node, false));
                wait(for_ms / 4);
                (0..cluster.len()).try_for_each(|node| cluster.begin(node))?;
                "kill -9 of all"
            }
            4 => {
                cluster.pause(node, true);
                wait(for_ms);
                cluster.pause(node, false);
                "stopped"
            }
            5 => {
                let links: Vec<(usize, usize)> = (0..cluster.len())
                    .filter(|b| *b != node)
                    .flat_map(|b| [(node, b), (b, node)])
                    .collect();
                links.iter().for_each(|(a, b)| cluster.link(*a, *b).cut(true));
                wait(for_ms);
                links.iter().for_each(|(a, b)| cluster.link(*a, *b).cut(false));
                "cut off"
            }
            6 => {
                cluster.link(node, other).cut(true);
                wait(for_ms);
                cluster.link(node, other).cut(false);
                "cut one way"
            }
            7 => {
                cluster.link(node, other).delay(for_ms / 20);
                wait(for_ms);
                cluster.link(node, other).delay(0);
                cluster.link(node, other).shut();
                "slow link, then broken"
            }
            8 => {
                cluster.fill(node, true);
                wait(for_ms);
                cluster.fill(node, false);
                "full disk"
            }
            _ => match cluster.timebase() {
                Timebase::Cluster => continue,
                Timebase::Own(error_ns) => shift(cluster, node, error_ns, options.lies, &mut rng)?,
                Timebase::Masters(error_ns) => {
                    let lies = options.lies && node == wrong;
                    shift(cluster, node, error_ns, lies, &mut rng)?
                }
            },
        };
        *applied.entry(what).or_default() += 1;
        if let Some((at, status)) = cluster.died() {
            return Err(format!(
                "node {} ended by itself ({status}), after: {what}; see node{at}.log",
                at + 1
            ));
        }
        if let Some(wrong) = &*board.wrong.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(format!("money appeared or vanished, after: {what}: {wrong}"));
        }
        let committed: u64 = board.committed.iter().map(|count| count.load(Relaxed)).sum();
        let left = end.saturating_duration_since(Instant::now()).as_secs();
        eprintln!("{left:>6} s left, {committed:>8} committed, node {}: {what}", node + 1);
        wait(rng.random_range(0..1_500));
    }
    Ok(applied)
}

/// Moves a node's clock within its error, or beyond it if it `lies`. A running node may find the
/// step out; a node that starts with a wrong clock cannot.
fn shift(
    cluster: &mut Cluster,
    node: usize,
    error_ns: u64,
    lies: bool,
    rng: &mut ChaCha8Rng,
) -> Result<&'static str, String> {
    let error_ns = error_ns.cast_signed();
    let sign = if rng.random_bool(0.5) { 1 } else { -1 };
    if lies && rng.random_bool(0.7) {
        cluster.shift_clock(node, sign * rng.random_range(2..40) * error_ns)?;
        if rng.random_bool(0.5) {
            cluster.end(node, false);
            cluster.begin(node)?;
            return Ok("kill -9, then a clock beyond its error");
        }
        return Ok("clock moved beyond its error");
    }
    cluster.shift_clock(node, sign * (error_ns / 10 * rng.random_range(0..=9)))?;
    Ok("clock moved within its error")
}
