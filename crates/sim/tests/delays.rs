//! What transactions wait for, in message delays, beside what the paper's protocol must wait for: `delays.txt`, of which the third column was written by hand.

#[test]
fn no_transaction_waits_for_more_messages_than_is_written() {
    let golden: Vec<(&str, u64)> = include_str!("delays.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            (columns[0], columns[1].parse().expect("a number"))
        })
        .collect();
    let found = meridian_sim::delays();
    for (name, delays) in &found {
        println!("{name} | {delays}");
    }
    assert_eq!(found, golden);
}

#[test]
fn where_nobody_leads_neither() {
    for (name, delays) in meridian_sim::delays_of_tapir() {
        println!("{name} | {delays}");
    }
}
