//! One seed, told line by line: `cargo run -p meridian-sim --example one -- SEED [NODES]`.

use meridian_sim::{Options, run};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let seed = arguments.next().expect("a seed");
    let nodes = arguments.next().unwrap_or(3) as usize;
    let report = run(Options { nodes, tell: Some(|line| println!("{line}")), ..Options::new(seed) });
    println!("trace {:016x}, {:?}", report.trace_hash, report.faults);
    if let Err(why) = report.verdict {
        println!("{why}");
        std::process::exit(1);
    }
}
