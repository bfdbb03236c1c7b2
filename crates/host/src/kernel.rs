//! The kernel's clock, and what it says of itself: the first source of UTC.
//!
//! Whoever disciplines the system clock (chrony with `rtcsync`, ntpd, PTP's phc2sys) tells the kernel how far it may be off; the kernel adds 500 ppm for the time
//! since. `adjtimex` reads that. While nobody has told it anything, or not for long, it says that it is not synchronised, and what it says then is no bound.

use crate::clock::{Clock, boot_ns, system_ns};
use meridian_clock::{Bound, Interval};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// It is asked so often: a question costs less than a microsecond.
const EVERY: Duration = Duration::from_millis(100);
/// What it said is used for so long.
const LASTS_NS: u64 = 2_000_000_000;

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
    /// Where the time lies, if this is worth anything, when the boot clock was `before` and then `after`, and the system clock between them `system_ns`.
    fn bound(&self, before: u64, system_ns: u64, after: u64) -> Option<Bound> {
        let Interval { earliest, latest } = Interval::around(system_ns, self.max_error_ns);
        let interval = Interval { earliest, latest: latest.saturating_add(after.saturating_sub(before)) };
        // At `after` it is later than what was read, and by no more than the reading took.
        self.synchronised.then_some(Bound { at: after, interval })
    }
}

/// Asks the kernel.
#[cfg(target_os = "linux")]
pub fn ask() -> io::Result<KernelClock> {
    // SAFETY: every bit pattern is a timex; with no mode set nothing is changed, and it is written to for the duration of the call only.
    let (state, answer) = unsafe {
        let mut answer: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut answer), answer)
    };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |microseconds: libc::c_long| u64::try_from(microseconds).unwrap_or(u64::MAX).saturating_mul(1_000);
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

/// A thread that asks the kernel again and again, and tells a clock.
pub struct Watch {
    stopped: Mutex<bool>,
    changed: Condvar,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Watch {
    /// Starts it.
    pub fn start(clock: Arc<Clock>) -> io::Result<Arc<Watch>> {
        ask()?;
        let watch = Arc::new(Watch { stopped: Mutex::new(false), changed: Condvar::new(), thread: Mutex::default() });
        let of_thread = Arc::clone(&watch);
        let thread = std::thread::Builder::new().name("time".into()).spawn(move || of_thread.run(&clock))?;
        *watch.thread.lock() = Some(thread);
        Ok(watch)
    }

    fn run(&self, clock: &Clock) {
        let mut known = None;
        loop {
            let (before, system_ns, said, after) = (boot_ns(), system_ns(), ask(), boot_ns());
            let bound = said.as_ref().ok().and_then(|said| said.bound(before, system_ns, after));
            if let Some(bound) = bound {
                clock.tell(bound, after + LASTS_NS);
            }
            if known.replace(bound.is_some()) != Some(bound.is_some()) {
                match bound {
                    Some(bound) => {
                        let half_width_us = bound.interval.half_width_ns() / 1_000;
                        tracing::info!(half_width_us, "the kernel's clock is synchronised");
                    }
                    None => tracing::warn!(
                        ?said,
                        "the kernel's clock is not synchronised: `meridian clock doctor` tells more"
                    ),
                }
            }
            let mut stopped = self.stopped.lock();
            if !*stopped {
                self.changed.wait_for(&mut stopped, EVERY);
            }
            if *stopped {
                return;
            }
        }
    }

    /// Ends it.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_is_synchronised_bounds_anything() {
        let good = KernelClock { synchronised: true, max_error_ns: 1_000, likely_error_ns: 10, leap: false };
        let bound = good.bound(50, 1_000_000, 90).unwrap();
        assert_eq!(bound, Bound { at: 90, interval: Interval { earliest: 999_000, latest: 1_001_040 } });
        assert_eq!(KernelClock { synchronised: false, ..good }.bound(50, 1_000_000, 90), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_answers_and_a_clock_believes_it_only_if_it_is_synchronised() {
        use crate::clock::ClockBound;
        use meridian_clock::Health;
        let said = ask().unwrap();
        let clock = Arc::new(Clock::new(ClockBound::Kernel));
        let watch = Watch::start(Arc::clone(&clock)).unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while said.synchronised && clock.now().health != Health::Good {
            assert!(std::time::Instant::now() < end, "{said:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        if !said.synchronised {
            std::thread::sleep(2 * EVERY);
            assert_eq!(clock.now().health, Health::Fenced, "{said:?}");
        }
        watch.stop();
    }
}
