//! Durations as text, in the units of PostgreSQL's settings.

use std::time::Duration;

/// Parses a number with a unit (`us`, `ms`, `s`, `min`, `h`, `d`); without one it is milliseconds.
/// Returns `None` if the text is no duration.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim().trim_matches('\'').trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let seconds = match text[end..].trim() {
        "us" => 1e-6,
        "ms" | "" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// Returns a duration in the largest unit of which it is a whole number, microseconds at least.
pub fn show(duration: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let us = duration.as_micros();
    let unit = UNITS.iter().find(|(unit, _)| us > 0 && us.is_multiple_of(*unit));
    unit.map_or_else(|| "0".to_owned(), |(unit, name)| format!("{}{name}", us / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_their_largest_unit() {
        let again = |text| parse(text).map(show);
        for (text, expected) in [
            ("0", "0"),
            ("250", "250ms"),
            ("1500ms", "1500ms"),
            ("60000", "1min"),
            ("2h", "2h"),
            ("1.5s", "1500ms"),
            ("250us", "250us"),
            ("36h", "36h"),
            ("48h", "2d"),
        ] {
            assert_eq!(again(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn durations_have_units_or_are_milliseconds() {
        let us = |text| parse(text).map(|duration| duration.as_micros());
        assert_eq!(us("0"), Some(0));
        assert_eq!(us("250"), Some(250_000));
        assert_eq!(us("1500ms"), Some(1_500_000));
        assert_eq!(us("5s"), Some(5_000_000));
        assert_eq!(us("1 min"), Some(60_000_000));
        assert_eq!(us("2h"), Some(7_200_000_000));
        assert_eq!(us("10us"), Some(10));
        for bad in ["", "s", "-1", "5 parsecs", "1e400", "\u{0}"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
