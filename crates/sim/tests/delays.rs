//! Compares the message delays of transactions with the delays that the papers' protocols need:
//! `delays.txt`, `delays-hybrid.txt`, `delays-k2.txt` and `delays-tapir.txt`. Their third column
//! was written by hand. `delays-snapshots.txt` compares snapshot isolation by clocks with that by
//! an authority.

use meridian_sim::protocols;

fn golden(text: &'static str) -> Vec<(&'static str, u64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let golden = lines.map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        (columns[0], columns[1].parse().expect("a number"))
    });
    golden.collect()
}

fn told(found: Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
    for (name, delays) in &found {
        println!("{name} | {delays}");
    }
    found
}

#[test]
fn k2_needs_one_round_trip_per_read_and_two_per_commit() {
    assert_eq!(told((protocols::K2.delays)()), golden(include_str!("delays-k2.txt")));
}

#[test]
fn no_transaction_waits_for_more_messages_than_is_written() {
    assert_eq!(told((protocols::SPANNER.delays)()), golden(include_str!("delays.txt")));
}

#[test]
fn no_mode_waits_for_more_messages_than_is_written() {
    let golden = golden(include_str!("delays-hybrid.txt"));
    assert_eq!(told((protocols::HYBRID_TIME.delays)()), golden);
}

/// A read-only transaction asks the authority once, and one that writes twice (Clock-SI §II-D).
#[test]
fn an_authority_costs_the_round_trips_that_are_written() {
    let lines = include_str!("delays-snapshots.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let golden: Vec<Vec<&str>> =
        lines.map(|line| line.split('|').map(str::trim).take(3).collect()).collect();
    let by_clocks = (protocols::CLOCK_SI.delays)();
    let by_authority = (protocols::CONVENTIONAL_SI.delays)();
    let mut found = Vec::new();
    for ((name, clocks), (_, authority)) in by_clocks.into_iter().zip(by_authority) {
        println!("{name} | {clocks} | {authority}");
        found.push(vec![name.to_owned(), clocks.to_string(), authority.to_string()]);
    }
    assert_eq!(found, golden);
}

#[test]
fn without_leaders_no_transaction_waits_for_more_messages_than_is_written() {
    assert_eq!(told((protocols::TAPIR.delays)()), golden(include_str!("delays-tapir.txt")));
}
