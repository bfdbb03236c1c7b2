//! A hardware clock that the kernel knows (PTP: `/dev/ptp0`). It gives the time but no bound on its
//! error: the bound is configured.
//!
//! Such a clock often counts TAI, which is 37 seconds ahead of UTC. That is as good as any time
//! here, if it is so on all machines.

use super::{Source, Statement, Status, widened};
use crate::clock::boot_ns;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A hardware clock as a source.
pub struct Clock {
    path: PathBuf,
    within_ns: u64,
    device: Option<File>,
}

impl Clock {
    /// Returns the source. The device is opened when it is first asked.
    pub fn new(path: PathBuf, within_ns: u64) -> Clock {
        Clock { path, within_ns, device: None }
    }

    fn read(&mut self) -> io::Result<u64> {
        let device = match self.device.take() {
            Some(device) => device,
            None => File::open(&self.path)?,
        };
        let read = nanoseconds(&device)?;
        self.device = Some(device); // After an error it is opened again.
        Ok(read)
    }
}

#[cfg(target_os = "linux")]
fn nanoseconds(device: &File) -> io::Result<u64> {
    use std::os::fd::AsRawFd;
    // The clock id of a device is made from its descriptor (clock_getres(2), "Dynamic clocks").
    let id = (!device.as_raw_fd() << 3) | 3;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, only while it runs.
    if unsafe { libc::clock_gettime(id, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    of_timespec(time.tv_sec, time.tv_nsec)
        .ok_or_else(|| io::Error::other("the clock shows a time before 1970"))
}

#[cfg(not(target_os = "linux"))]
fn nanoseconds(_: &File) -> io::Result<u64> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "hardware clocks are read on Linux only"))
}

/// Converts a timespec to nanoseconds since 1970.
#[cfg(target_os = "linux")]
fn of_timespec(seconds: i64, nanoseconds: i64) -> Option<u64> {
    let nanoseconds =
        u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds < 1_000_000_000)?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

impl Source for Clock {
    fn ask(&mut self) -> Result<Statement, String> {
        let before = boot_ns();
        let read = self.read().map_err(|error| format!("{}: {error}", self.path.display()))?;
        Ok(widened(before, read, boot_ns(), self.within_ns, Status::Synchronised))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Most machines have no such clock: the test uses a recorded answer, and checks the errors of
    /// paths that are no clocks.
    #[test]
    fn a_device_s_answer_is_a_time_and_what_is_no_clock_is_named() {
        assert_eq!(of_timespec(1_700_000_037, 5), Some(1_700_000_037_000_000_005));
        for (seconds, nanoseconds) in [(-1, 0), (1, -1), (1, 1_000_000_000), (i64::MAX, 0)] {
            assert_eq!(of_timespec(seconds, nanoseconds), None);
        }
        let ask = |path: &str| Clock::new(path.into(), 5_000).ask().unwrap_err();
        assert!(ask("/dev/null").starts_with("/dev/null: "), "{}", ask("/dev/null"));
        assert!(ask("/nowhere").contains("/nowhere: No such file"), "{}", ask("/nowhere"));
    }
}
