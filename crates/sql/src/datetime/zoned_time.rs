//! A time of the day with an offset: `time with time zone`.

use super::zone::write_offset;
use super::{DAY_US, time_to_text};
use std::cmp::Ordering;

/// The farthest offset that a client may write, in seconds.
const FARTHEST_WRITTEN_S: i32 = 15 * 3600 + 59 * 60 + 59;

/// The farthest offset of a value, in seconds: zones and intervals give offsets that no text may.
const FARTHEST_S: i32 = 1 << 30;

/// A time of the day in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight in the zone, up to those of a day.
    pub(crate) micros: i64,
    /// Seconds to the east of UTC.
    pub(crate) east_s: i32,
}

impl ZonedTime {
    /// Returns a time; `None` if it is none of a day, or no value can have the offset.
    pub(crate) fn of(micros: i64, east_s: i32) -> Option<ZonedTime> {
        let is_known =
            (0..=DAY_US).contains(&micros) && (-FARTHEST_S..=FARTHEST_S).contains(&east_s);
        is_known.then_some(ZonedTime { micros, east_s })
    }

    /// Does so for an offset that a client writes, which may be no farther than zones are.
    pub(crate) fn written(micros: i64, east_s: i32) -> Option<ZonedTime> {
        ZonedTime::of(micros, east_s).filter(ZonedTime::is_writable)
    }

    /// True if a client may write its offset.
    pub(crate) fn is_writable(&self) -> bool {
        (-FARTHEST_WRITTEN_S..=FARTHEST_WRITTEN_S).contains(&self.east_s)
    }

    /// Returns the microseconds since midnight of UTC, perhaps before it or after its day.
    pub(crate) fn utc_us(self) -> i64 {
        self.micros - i64::from(self.east_s) * 1_000_000
    }

    /// Returns the same time in another zone; `None` if no value can have the offset.
    pub(crate) fn in_zone(self, east_s: i64) -> Option<ZonedTime> {
        let us = self.utc_us().checked_add(east_s.checked_mul(1_000_000)?)?;
        ZonedTime::of(us.rem_euclid(DAY_US), east_s.try_into().ok()?)
    }

    /// Orders by the time in UTC; equal times by their zones, the easternmost first.
    pub(crate) fn order(self, other: ZonedTime) -> Ordering {
        self.utc_us().cmp(&other.utc_us()).then(other.east_s.cmp(&self.east_s))
    }

    /// Renders it as `07:08:09.123456+02`.
    pub(crate) fn write_text(self, out: &mut String) {
        time_to_text(self.micros, out);
        write_offset(self.east_s, out);
    }
}
