//! The CPU time of processes and of the machine, on Linux; zero elsewhere.

use std::fs;

/// The clock ticks per second of CPU time; 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// Seconds of CPU time since some start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The CPU time of some processes.
    pub own: f64,
    /// The CPU time of the whole machine.
    pub machine: f64,
}

impl Cpu {
    /// Returns the current CPU time of these processes and of the machine.
    pub fn of(processes: impl IntoIterator<Item = u32>) -> Cpu {
        let stat =
            |process: u32| fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The fields after the name, which may hold any character: user and system time.
        let ticks = |stat: String| -> u64 {
            let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
            behind
                .split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|number| number.parse::<u64>().ok())
                .sum()
        };
        let own: u64 = processes.into_iter().map(|process| ticks(stat(process))).sum();
        let all = fs::read_to_string("/proc/stat").unwrap_or_default();
        let numbers = all.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        // user, nice, system, irq, softirq; not idle, not waiting.
        let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| numbers.get(*at)).sum();
        Cpu { own: own as f64 / TICKS, machine: busy as f64 / TICKS }
    }
}
