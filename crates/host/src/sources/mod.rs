//! Sources of the time of day.
//!
//! Each source returns an interval and the boot time for which it holds. The meaning is the same
//! for all: true time lies in the interval, as far as the source knows. A source that knows no
//! bound returns an error and is asked again; its last bound widens meanwhile
//! ([`meridian_clock::daemon`]).
//!
//! Leap seconds: true time here is what the sources count, smeared or not. All machines of a
//! cluster need sources that count alike, which a node cannot check.

pub mod chrony;
#[cfg(target_os = "linux")]
pub mod clockbound;
pub mod hardware;
pub mod kernel;
pub mod shifted;

use crate::clock::{boot_ns, system_ns};
use meridian_clock::{Bound, Interval};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The source is synchronised to a reference.
    Synchronised,
    /// The source has lost its reference and runs on its own oscillator.
    FreeRunning,
}

/// An answer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The interval in which true time lay.
    pub interval: Interval,
    /// The boot time for which the interval holds, in nanoseconds.
    pub as_of: u64,
    /// The state of the source.
    pub status: Status,
}

impl Statement {
    /// Returns the bound for the daemon.
    pub fn bound(&self) -> Bound {
        Bound { at: self.as_of, interval: self.interval }
    }
}

/// A source of the time of day.
pub trait Source {
    /// Returns the interval of the present time, or an error in words.
    fn ask(&mut self) -> Result<Statement, String>;
}

/// The kind and parameters of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The system clock, with a configured bound in nanoseconds.
    Within(u64),
    /// The system clock, with the kernel's bound.
    Kernel,
    /// The system clock, with chronyd's bound.
    Chrony,
    /// Amazon's ClockBound daemon, in shared memory.
    ClockBound,
    /// A hardware clock, with a configured bound.
    Hardware {
        /// The device.
        path: PathBuf,
        /// The bound, in nanoseconds.
        within_ns: u64,
    },
    /// The system clock, moved by an offset that a file names, with a configured bound: for tests.
    Shifted {
        /// The file.
        file: PathBuf,
        /// The bound, in nanoseconds.
        within_ns: u64,
    },
}

impl Reference {
    /// Returns the source. It opens its device or socket when it is asked, again after each error.
    pub fn open(&self) -> Box<dyn Source> {
        match self {
            Reference::Within(half_width_ns) => Box::new(Within(*half_width_ns)),
            Reference::Kernel => Box::new(kernel::Kernel),
            Reference::Chrony => Box::new(chrony::Chrony::default()),
            #[cfg(target_os = "linux")]
            Reference::ClockBound => Box::new(clockbound::Daemon::default()),
            #[cfg(not(target_os = "linux"))]
            Reference::ClockBound => Box::new(Nowhere),
            Reference::Hardware { path, within_ns } => {
                Box::new(hardware::Clock::new(path.clone(), *within_ns))
            }
            Reference::Shifted { file, within_ns } => {
                Box::new(shifted::Shifted::new(file.clone(), *within_ns))
            }
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Within(_) => f.write_str("system clock within --clock-bound"),
            Reference::Kernel => f.write_str("the kernel"),
            Reference::Chrony => f.write_str("chrony"),
            Reference::ClockBound => f.write_str("ClockBound"),
            Reference::Hardware { path, .. } => path.display().fmt(f),
            Reference::Shifted { file, .. } => {
                write!(f, "system clock, shifted by {}", file.display())
            }
        }
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kernel" => return Ok(Reference::Kernel),
            "chrony" => return Ok(Reference::Chrony),
            "clockbound" => return Ok(Reference::ClockBound),
            _ => {}
        }
        let bounded = |path: &str| {
            let (path, within) = path.rsplit_once(':').ok_or_else(|| {
                format!("{text}: add a bound on this clock's error, for example {text}:5us")
            })?;
            Ok::<_, String>((PathBuf::from(path), duration_ns(within)?))
        };
        if let Some(file) = text.strip_prefix("shifted:") {
            let (file, within_ns) = bounded(file)?;
            return Ok(Reference::Shifted { file, within_ns });
        }
        if !text.starts_with('/') {
            return Ok(Reference::Within(duration_ns(text)?));
        }
        let (path, within_ns) = bounded(text)?;
        Ok(Reference::Hardware { path, within_ns })
    }
}

/// Parses a duration such as `500us`, `10ms` or `1s`; returns nanoseconds.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text}: expected a number with a unit (500us, 10ms, 1s), or kernel, chrony, clockbound, or a device and a \
             bound on its error (/dev/ptp0:5us)"
        )
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let unit_ns: u64 = match &text[digits..] {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let bound = number.checked_mul(unit_ns).filter(|bound| *bound <= 60_000_000_000);
    bound.ok_or_else(|| format!("{text}: a bound on a clock's error is a minute at most"))
}

/// Reads the system clock between two readings of the boot clock.
fn system_clock(half_width_ns: u64, status: Status) -> Statement {
    let (before, system_ns, after) = (boot_ns(), system_ns(), boot_ns());
    widened(before, system_ns, after, half_width_ns, status)
}

/// Widens a reading by the time that it took, so that it holds at `after`.
fn widened(before: u64, read_ns: u64, after: u64, half_width_ns: u64, status: Status) -> Statement {
    let Interval { earliest, latest } = Interval::around(read_ns, half_width_ns);
    let latest = latest.saturating_add(after.saturating_sub(before));
    Statement { interval: Interval { earliest, latest }, as_of: after, status }
}

struct Within(u64);

impl Source for Within {
    fn ask(&mut self) -> Result<Statement, String> {
        Ok(system_clock(self.0, Status::Synchronised))
    }
}

#[cfg(not(target_os = "linux"))]
struct Nowhere;

#[cfg(not(target_os = "linux"))]
impl Source for Nowhere {
    fn ask(&mut self) -> Result<Statement, String> {
        Err("ClockBound is on Linux only".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_a_name_or_a_bound() {
        assert_eq!("500us".parse(), Ok(Reference::Within(500_000)));
        assert_eq!("10ms".parse(), Ok(Reference::Within(10_000_000)));
        assert_eq!("clockbound".parse(), Ok(Reference::ClockBound));
        let hardware = Reference::Hardware { path: "/dev/ptp0".into(), within_ns: 5_000 };
        assert_eq!("/dev/ptp0:5us".parse(), Ok(hardware));
        let shifted = Reference::Shifted { file: "offsets/a:b".into(), within_ns: 5_000_000 };
        assert_eq!("shifted:offsets/a:b:5ms".parse(), Ok(shifted));
        for wrong in [
            "",
            "10",
            "ms",
            "-1ms",
            "1h",
            "99999999999999999999s",
            "61s",
            "ntp",
            "/dev/ptp0",
            "/dev/ptp0:",
            "shifted:offset",
            "µ",
        ] {
            assert!(wrong.parse::<Reference>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_read_holds_at_the_end_of_reading_it() {
        let said = widened(50, 1_000_000, 90, 1_000, Status::Synchronised);
        assert_eq!(
            (said.as_of, said.interval),
            (90, Interval { earliest: 999_000, latest: 1_001_040 })
        );
        let now = Within(1_000).ask().unwrap();
        assert!(now.interval.half_width_ns() >= 1_000 && now.as_of <= boot_ns());
    }
}
