//! Compares the message delays of transactions with the delays that the papers' protocols need:
//! `delays.txt`, `delays-hybrid.txt` and `delays-tapir.txt`. Their third column was written by
//! hand.

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
fn no_transaction_waits_for_more_messages_than_is_written() {
    assert_eq!(told((protocols::SPANNER.delays)()), golden(include_str!("delays.txt")));
}

#[test]
fn no_mode_waits_for_more_messages_than_is_written() {
    let golden = golden(include_str!("delays-hybrid.txt"));
    assert_eq!(told((protocols::HYBRID_TIME.delays)()), golden);
}

#[test]
fn without_leaders_no_transaction_waits_for_more_messages_than_is_written() {
    assert_eq!(told((protocols::TAPIR.delays)()), golden(include_str!("delays-tapir.txt")));
}
