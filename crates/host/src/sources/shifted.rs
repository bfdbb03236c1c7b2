//! The system clock, moved by an offset that a file names: tests shift the clock of one process so.
//!
//! The file holds a whole number of nanoseconds, which may be negative. It is read with each
//! reading, so that a test can move the clock of a running node. The source claims its configured
//! bound, whatever the offset.

use super::{Source, Statement, Status, widened};
use crate::clock::{boot_ns, system_ns};
use std::path::PathBuf;

/// A shifted system clock.
pub struct Shifted {
    file: PathBuf,
    within_ns: u64,
}

impl Shifted {
    /// Returns the source with this file and this claimed bound.
    pub fn new(file: PathBuf, within_ns: u64) -> Shifted {
        Shifted { file, within_ns }
    }
}

impl Source for Shifted {
    fn ask(&mut self) -> Result<Statement, String> {
        let of_file = |why: String| format!("{}: {why}", self.file.display());
        let text =
            std::fs::read_to_string(&self.file).map_err(|error| of_file(error.to_string()))?;
        let offset_ns: i64 = text
            .trim()
            .parse()
            .map_err(|_| of_file("expected a whole number of nanoseconds".into()))?;
        let (before, system_ns, after) = (boot_ns(), system_ns(), boot_ns());
        let read_ns = system_ns.saturating_add_signed(offset_ns);
        Ok(widened(before, read_ns, after, self.within_ns, Status::Synchronised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_moved_by_the_file_and_a_file_without_a_number_gives_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let mut clock = Shifted::new(file.clone(), 1_000);
        assert!(clock.ask().unwrap_err().contains("offset"), "there is no file");
        for (text, offset_ns) in [("0", 0), ("-90000000000\n", -90_000_000_000), (" 7", 7)] {
            std::fs::write(&file, text).unwrap();
            let before = system_ns().saturating_add_signed(offset_ns);
            let said = clock.ask().unwrap();
            let after = system_ns().saturating_add_signed(offset_ns);
            // The system clock may step meanwhile, but not by a minute.
            let slack_ns = 1_000 + 10_000_000_000;
            assert!(said.interval.half_width_ns() >= 1_000, "{text}");
            assert!(said.interval.earliest + slack_ns >= before, "{text}");
            assert!(said.interval.latest <= after + slack_ns, "{text}");
        }
        std::fs::write(&file, "soon").unwrap();
        assert!(clock.ask().unwrap_err().contains("whole number"));
    }
}
