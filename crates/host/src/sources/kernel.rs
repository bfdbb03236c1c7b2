//! The kernel's clock, and what it says of itself.
//!
//! Whoever disciplines the system clock (chrony with `rtcsync`, ntpd, PTP's phc2sys) tells the
//! kernel how far it may be off; the kernel adds 500 ppm for the time since. `adjtimex` reads that.
//! While nobody has told it anything, or not for long, it says that it is not synchronised, and
//! what it says then is no bound.

use super::{Source, Statement, Status, system_clock};
use std::io;

/// What the kernel says of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// Somebody disciplines it, and has done so lately.
    pub synchronised: bool,
    /// By how much it may be off, at most.
    pub max_error_ns: u64,
    /// By how much it is off, as whoever disciplines it thinks.
    pub likely_error_ns: u64,
    /// A leap second is about to be inserted or deleted.
    pub leap: bool,
}

impl KernelClock {
    /// Where the time lies, if this is worth anything.
    fn statement(&self) -> Result<Statement, String> {
        if !self.synchronised {
            return Err(
                "the kernel's clock is not synchronised (STA_UNSYNC): `meridian clock doctor` tells more".into()
            );
        }
        // It adds 500 ppm a second to what it says; between the two calls that is nothing.
        Ok(system_clock(self.max_error_ns.saturating_add(1_000), Status::Synchronised))
    }
}

/// Asks the kernel.
#[cfg(target_os = "linux")]
pub fn ask() -> io::Result<KernelClock> {
    // SAFETY: every bit pattern is a timex; with no mode set nothing is changed, and it is written
    // to for the duration of the call only.
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

/// Asks the kernel: there is no such question here.
#[cfg(not(target_os = "linux"))]
pub fn ask() -> io::Result<KernelClock> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux says how good its clock is"))
}

/// The kernel, as a source.
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
