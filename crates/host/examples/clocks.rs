//! Measures clock readings: `cargo run --release -p meridian-host --example clocks`.
//!
//! Each line has the best and the median of some rounds, on one core. The difference between them
//! is noise of the machine.

use meridian_clock::oracle::{Batches, Oracle, Terms};
use meridian_clock::{Bound, Hybrid, Interval, Issuer, Reading, Timestamp, TimestampPolicy};
use meridian_host::clock::{Clock, ClockBound, boot_ns};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;
const TIMES: u64 = 1_000_000;

fn measure<T>(name: &str, mut what: impl FnMut() -> T) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..TIMES {
                black_box(what());
            }
            began.elapsed().as_nanos() as f64 / TIMES as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.1} {:>8.1}", rounds[0], rounds[ROUNDS / 2]);
}

fn main() {
    println!("{:<44} {:>8} {:>8}", "nanoseconds", "best", "median");
    measure("the boot clock alone", boot_ns);
    measure("a reading, alone", {
        let clock = Clock::new(ClockBound::Alone);
        move || clock.now()
    });
    measure("a reading, system clock within a bound", {
        let clock = Clock::new(ClockBound::LOOPBACK);
        move || clock.now()
    });
    measure("a reading, cluster time", {
        let clock = Clock::new(ClockBound::Cluster);
        clock.set_bound(
            Bound { at: boot_ns(), interval: Interval::around(1 << 60, 50_000) },
            u64::MAX,
        );
        move || clock.now()
    });
    let reading = Reading::at(0, Interval::around(1 << 60, 50_000));
    measure("a timestamp of a batch (K2-TB)", {
        let mut batches =
            Batches::above(Terms { step_ns: 1, ttl_ns: u64::MAX >> 8, ..Terms::K2 }, 1, 0);
        batches.ask(0);
        batches.receive(0, Interval { earliest: 1 << 50, latest: 1 << 50 });
        move || batches.next(black_box(1)).expect("there are some")
    });
    measure("an oracle's answer", {
        let mut oracle = Oracle::default();
        move || oracle.answer(black_box(reading), u64::MAX).expect("it answers")
    });
    let mut hybrid = Issuer::above(1, Timestamp::ZERO);
    hybrid.raise_ceiling(u64::MAX);
    measure("hybrid: now", || {
        hybrid.issue(Hybrid.next_ns(black_box(reading))).expect("below its ceiling")
    });
    let heard = Timestamp { nanos: 1 << 60, logical: 7, issuer: 2 };
    measure("hybrid: a message is heard", || hybrid.observe(black_box(heard)));
}
