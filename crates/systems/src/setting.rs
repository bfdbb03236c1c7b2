//! Settings that a database has in its row: `ALTER DATABASE … SET name = value`.
//!
//! A protocol declares which settings its databases take. A value is validated when it is set, and
//! kept in the row as text.

use meridian_clock::duration;
use meridian_placement::DatabaseRow;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A setting whose value is a duration.
#[derive(Debug)]
pub struct Setting {
    /// Its name in SQL.
    pub name: &'static str,
    /// The allowed values.
    pub possible: RangeInclusive<Duration>,
    /// The value of a database whose row has none. `None` if the node decides.
    pub default: Option<Duration>,
    /// A description of its values, with an example.
    pub hint: &'static str,
}

/// How long superseded versions are kept, in a database of any protocol. The name is Cloud
/// Spanner's.
pub static VERSION_RETENTION_PERIOD: Setting = Setting {
    name: "version_retention_period",
    possible: Duration::from_secs(1)..=Duration::from_secs(10 * 366 * 86_400),
    default: None,
    hint: "Superseded versions are kept for 1s to 3660d: ALTER DATABASE lab SET version_retention_period = '1h'.",
};

impl Setting {
    /// Validates a value, and returns it in the form in which it is stored. The error says what is
    /// wrong.
    pub fn validate(&self, value: &str) -> Result<String, String> {
        let time = duration::parse(value)
            .ok_or_else(|| format!("{}: '{value}' is no duration", self.name))?;
        if self.possible.contains(&time) {
            Ok(duration::show(time))
        } else {
            Err(format!("{}: '{value}' is out of range", self.name))
        }
    }

    /// The value in a database's row, or the default.
    pub fn of(&self, row: &DatabaseRow) -> Option<Duration> {
        let said = row.settings.get(self.name).and_then(|value| duration::parse(value));
        said.or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::DatabaseId;

    #[test]
    fn a_value_is_validated_and_reads_back() {
        let retention = &VERSION_RETENTION_PERIOD;
        assert_eq!(retention.validate("3600 s").as_deref(), Ok("1h"));
        for (value, why) in
            [("soon", "is no duration"), ("1ms", "is out of range"), ("9999d", "is out of range")]
        {
            assert!(retention.validate(value).is_err_and(|said| said.contains(why)), "{value}");
        }
        let mut row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(retention.of(&row), None);
        row.settings.insert(retention.name.into(), "1h".into());
        assert_eq!(retention.of(&row), Some(Duration::from_secs(3600)));
    }
}
