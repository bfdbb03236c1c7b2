//! One seed, told line by line: `cargo run -p meridian-sim --example one -- SEED [NODES [WORKLOAD [sql|time|masters|tapir|tapir-serializable]]]`.

use meridian_sim::{Options, Timebase, Workload, run};
use meridian_systems::Recipe;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>().expect("a number"));
    let seed = number(0).expect("a seed");
    let nodes = number(1).unwrap_or(3) as usize;
    let workload = arguments.get(2).map_or(Workload::Mixed, |text| text.parse().expect("a workload"));
    let report = run(Options {
        protocol: arguments.get(3).and_then(|how| Recipe::named(how)).unwrap_or_default(),
        nodes,
        clients: 2 * nodes,
        workload,
        sql: arguments.get(3).is_some_and(|how| how == "sql"),
        timebase: match arguments.get(3).map(String::as_str) {
            Some("time") => Timebase::Cluster,
            Some("masters") => Timebase::Masters,
            _ => Timebase::Bound,
        },
        tell: Some(|line| println!("{line}")),
        ..Options::new(seed)
    });
    println!("trace {:016x}, {:?}", report.trace_hash, report.faults);
    if let Err(why) = report.verdict {
        println!("{why}");
        std::process::exit(1);
    }
}
