//! The kernel's clock, with the kernel's bound on its error.
//!
//! The daemon that disciplines the system clock (chrony with `rtcsync`, ntpd, PTP's phc2sys) tells
//! the kernel the clock's maximum error; the kernel adds 500 ppm for the time since. `adjtimex`
//! reads that. Without a recent update by a daemon, the kernel reports its clock as unsynchronised,
//! and its error is no bound.

use super::{Source, Statement, Status, system_clock};
use std::io;

/// The state of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// True if a daemon has disciplined the clock lately.
    pub synchronised: bool,
    /// Bound on the clock's error, in nanoseconds.
    pub max_error_ns: u64,
    /// The daemon's estimate of the clock's error, in nanoseconds.
    pub likely_error_ns: u64,
    /// True if a leap second is about to be inserted or deleted.
    pub leap: bool,
}

impl KernelClock {
    /// Returns the interval of the present time. Fails if the clock is not synchronised.
    fn statement(&self) -> Result<Statement, String> {
        if !self.synchronised {
            return Err(
                "the kernel's clock is not synchronised (STA_UNSYNC): run `meridian clock doctor`"
                    .into(),
            );
        }
        // The kernel adds 500 ppm to its error; between the two calls that is negligible.
        Ok(system_clock(self.max_error_ns.saturating_add(1_000), Status::Synchronised))
    }
}

/// Reads the state of the kernel's clock.
#[cfg(target_os = "linux")]
pub fn ask() -> io::Result<KernelClock> {
    // SAFETY: every bit pattern is a valid timex; with no mode set the call changes nothing, and it
    // writes to the timex only while it runs.
    let (state, answer) = unsafe {
        let mut answer: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut answer), answer)
    };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |microseconds: libc::c_long| {
        u64::try_from(microseconds).unwrap_or(u64::MAX).saturating_mul(1_000)
    };
    Ok(KernelClock {
        synchronised: state != libc::TIME_ERROR && answer.status & libc::STA_UNSYNC == 0,
        max_error_ns: ns(answer.maxerror),
        likely_error_ns: ns(answer.esterror),
        leap: matches!(state, libc::TIME_INS | libc::TIME_DEL | libc::TIME_OOP),
    })
}

/// Returns an error: this system has no such call.
#[cfg(not(target_os = "linux"))]
pub fn ask() -> io::Result<KernelClock> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux reports its clock's error"))
}

/// The kernel's clock as a source.
pub struct Kernel;

impl Source for Kernel {
    fn ask(&mut self) -> Result<Statement, String> {
        let said = ask().map_err(|error| error.to_string())?;
        said.statement()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_is_synchronised_bounds_anything() {
        let good = KernelClock {
            synchronised: true,
            max_error_ns: 1_000,
            likely_error_ns: 10,
            leap: false,
        };
        assert!(good.statement().unwrap().interval.half_width_ns() >= 1_000);
        let why = KernelClock { synchronised: false, ..good }.statement().unwrap_err();
        assert!(why.contains("STA_UNSYNC"), "{why}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_answers() {
        assert_eq!(Kernel.ask().is_ok(), ask().unwrap().synchronised);
    }
}
