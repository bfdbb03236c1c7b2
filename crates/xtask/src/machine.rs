//! Statistics of processes and of the machine from the kernel, on Linux; zero elsewhere.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The clock ticks per second of CPU time; 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// The resources of some processes since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// The CPU time, in seconds.
    pub cpu_seconds: f64,
    /// The current memory, in bytes.
    pub resident_bytes: u64,
}

/// Returns a process and all its descendants.
fn family(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let process: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((process, field(&stat, 1)? as u32))
        })
        .collect();
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    family
}

/// Returns a field of /proc/PID/stat, counted from after the name (which may hold any character).
fn field(stat: &str, at: usize) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(at)?.parse().ok()
}

/// Returns the resources that processes and their descendants have used.
pub fn used(roots: &[u32]) -> Used {
    let mut used = Used::default();
    for process in roots.iter().flat_map(|root| family(*root)) {
        let read =
            |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
        let stat = read("stat");
        let ticks: u64 = [11, 12, 13, 14].iter().filter_map(|at| field(&stat, *at)).sum();
        used.cpu_seconds += ticks as f64 / TICKS;
        let line = |text: &str, name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        used.resident_bytes += line(&read("status"), "VmRSS:") * 1024;
    }
    used
}

/// Returns the CPU time of the whole machine, in seconds.
pub fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    // user, nice, system, irq, softirq; not idle, not waiting.
    [0, 1, 2, 5, 6].iter().filter_map(|at| numbers.get(*at)).sum::<u64>() as f64 / TICKS
}

/// Returns the bytes that all disks of the machine have written. The kernel's count for a process
/// is of dirtied pages, which is a thousand times more where files are cached in large pieces.
pub fn disk_bytes() -> u64 {
    const SECTOR: u64 = 512;
    let written = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?;
        // Whole disks, without their partitions.
        let whole = Path::new("/sys/block").join(name).exists();
        words.nth(6)?.parse::<u64>().ok().filter(|_| whole)
    };
    let stats = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    stats.lines().filter_map(written).sum::<u64>() * SECTOR
}

/// Returns the average time in which the disk under a folder syncs a small write.
pub fn sync_latency(folder: &Path) -> std::io::Result<Duration> {
    const SYNCS: u32 = 200;
    let mut file = fs::File::create(folder.join("probe"))?;
    let began = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&[7; 512])?;
        file.sync_data()?;
    }
    Ok(began.elapsed() / SYNCS)
}

/// Returns the size of all files under a folder, in bytes.
pub fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let stat = "42 (a) b) S 7 1 1 0 -1 4194304 100 0 0 0 11 12 13 14 20 0";
        assert_eq!(
            (field(stat, 1), field(stat, 11), field(stat, 14)),
            (Some(7), Some(11), Some(14))
        );
        assert_eq!(field("garbage", 1), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let mut sum = 0u64;
        while used(&[std::process::id()]).cpu_seconds == 0.0 {
            sum = (0..1_000_000u64)
                .fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        assert!(used(&[std::process::id()]).resident_bytes > 0 && busy_seconds() > 0.0, "{sum}");
    }
}
