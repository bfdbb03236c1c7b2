//! What processes and the machine have burnt. Linux only: elsewhere there is nothing to read, and
//! all is zero.

use std::fs;

/// Clock ticks for a second of CPU time; 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// Seconds of CPU since some beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Of some processes.
    pub own: f64,
    /// Of the whole machine.
    pub machine: f64,
}

impl Cpu {
    /// Now, of these processes.
    pub fn of(processes: impl IntoIterator<Item = u32>) -> Cpu {
        let stat =
            |process: u32| fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Counted from behind the name, which may hold anything: user and system.
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
