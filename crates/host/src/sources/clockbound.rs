//! ClockBound: Amazon's daemon, which publishes a bound on the system clock's error in shared
//! memory.

use super::{Source, Statement, Status};
use crate::clock::boot_ns;
use clock_bound_client::{
    CLOCKBOUND_SHM_DEFAULT_PATH, ClockBoundClient, ClockBoundError, ClockBoundErrorKind,
    ClockStatus,
};
use meridian_clock::Interval;

/// ClockBound's shared-memory segment as a source.
pub struct Daemon {
    path: String,
    client: Option<ClockBoundClient>,
}

impl Default for Daemon {
    fn default() -> Self {
        Daemon::at(CLOCKBOUND_SHM_DEFAULT_PATH)
    }
}

impl Daemon {
    /// Returns the source for a segment at another path.
    pub fn at(path: &str) -> Daemon {
        Daemon { path: path.into(), client: None }
    }

    fn words(&self, error: &ClockBoundError) -> String {
        let what = match error.kind {
            ClockBoundErrorKind::SegmentNotInitialized => {
                "the daemon has written nothing there yet: does it run?"
            }
            ClockBoundErrorKind::SegmentMalformed => "this is not a segment of ClockBound",
            ClockBoundErrorKind::SegmentVersionNotSupported => {
                "the daemon has another version than 2"
            }
            ClockBoundErrorKind::CausalityBreach => {
                "it was written in the future of the system clock"
            }
            ClockBoundErrorKind::Syscall => {
                return format!("{}: {} ({})", self.path, error.errno, error.detail);
            }
        };
        format!("{}: {what}", self.path)
    }
}

impl Source for Daemon {
    fn ask(&mut self) -> Result<Statement, String> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                ClockBoundClient::new_with_path(&self.path).map_err(|error| self.words(&error))?
            }
        };
        let before = boot_ns();
        // After an error, the next call opens the segment again.
        let said = client.now().map_err(|error| self.words(&error))?;
        let after = boot_ns();
        self.client = Some(client);
        let status = match said.clock_status {
            ClockStatus::Synchronized => Status::Synchronised,
            ClockStatus::FreeRunning => Status::FreeRunning,
            ClockStatus::Disrupted => {
                return Err(
                    "the clock was disrupted, for example by a migration of the machine".into()
                );
            }
            ClockStatus::Unknown => return Err("the daemon is not synchronised yet".into()),
        };
        let nanoseconds = |seconds: i64, nanoseconds: i64| {
            u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)).ok()
        };
        let earliest = nanoseconds(said.earliest.tv_sec(), said.earliest.tv_nsec());
        let latest = nanoseconds(said.latest.tv_sec(), said.latest.tv_nsec());
        let (Some(earliest), Some(latest)) = (earliest, latest) else {
            return Err("the daemon gives a time before 1970".into());
        };
        let latest = latest.saturating_add(after.saturating_sub(before));
        Ok(Statement { interval: Interval { earliest, latest }, as_of: after, status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_ns;
    use clock_bound_shm::{ClockErrorBound, ShmWrite, ShmWriter};
    use nix::sys::time::TimeSpec;
    use nix::time::{ClockId, clock_gettime};

    #[test]
    fn a_segment_is_read_and_what_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shm0");
        let text = path.to_str().unwrap();
        let mut daemon = Daemon::at(text);
        assert!(daemon.ask().unwrap_err().contains("does it run?"));
        let mut writer = ShmWriter::new(&path).unwrap();
        let mut write = |bound_ns, status| {
            let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).unwrap();
            let until = TimeSpec::new(now.tv_sec() + 100, 0);
            writer.write(&ClockErrorBound::new(now, until, bound_ns, 0, 1_000, status, false));
        };
        for (said, status) in [
            (ClockStatus::Synchronized, Status::Synchronised),
            (ClockStatus::FreeRunning, Status::FreeRunning),
        ] {
            write(50_000, said);
            let Statement { interval, status: told, .. } = daemon.ask().unwrap();
            assert!(
                told == status && (50_000..20_000_000).contains(&interval.half_width_ns()),
                "{interval}"
            );
            assert!(interval.earliest <= system_ns());
        }
        for said in [ClockStatus::Unknown, ClockStatus::Disrupted] {
            write(50_000, said);
            assert!(daemon.ask().is_err());
        }
        drop(writer);
        let mut other_version = std::fs::read(&path).unwrap();
        other_version[12..14].copy_from_slice(&9_999u16.to_ne_bytes());
        for (bytes, what) in [
            (vec![7u8; 200], "does it run?"),
            (other_version, "another version"),
            (Vec::new(), "does it run?"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let why = Daemon::at(text).ask().unwrap_err();
            assert!(why.contains(text) && why.contains(what), "{why}");
        }
    }
}
