//! `to_char` of times, with the patterns that reports use. Patterns of numbers are not supported.

use meridian_sql::{Datum, SqlError, Type, state};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Renders a time with a pattern; NULL for NULL.
pub(crate) fn to_char(time: &Datum, pattern: &str) -> Result<Datum, SqlError> {
    let time = match time {
        Datum::Null => return Ok(Datum::Null),
        Datum::TimestampTz(us) => Datum::Timestamp(*us),
        Datum::Date(_) | Datum::Timestamp(_) => {
            meridian_sql::convert(time.clone(), Type::Timestamp, true)?
        }
        _ => return Err(SqlError::unsupported("to_char of anything but a time")),
    };
    let Datum::Timestamp(us) = time else { return Ok(Datum::Null) };
    let days = us.div_euclid(86_400_000_000);
    let within = us.rem_euclid(86_400_000_000);
    let (year, month, day) = civil(days);
    let out_of_range = || SqlError::new(state::DATETIME_OVERFLOW, "timestamp out of range");
    if !(1..=294_276).contains(&year) {
        return Err(out_of_range());
    }
    let (hour, minute, second) =
        (within / 3_600_000_000, within / 60_000_000 % 60, within / 1_000_000 % 60);
    let micros = within % 1_000_000;
    // 2000-01-01 was a Saturday.
    let weekday = (days + 6).rem_euclid(7) as usize;
    let of_year = days - from_civil(year, 1, 1) + 1;
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour < 12 { "am" } else { "pm" };
    let month_name = MONTHS[month as usize - 1];
    let mut out = String::new();
    let mut rest = pattern;
    let mut bare = false;
    while !rest.is_empty() {
        if let Some(text) = rest.strip_prefix('"') {
            let end = text.find('"').unwrap_or(text.len());
            out.push_str(&text[..end]);
            rest = text.get(end + 1..).unwrap_or("");
            continue;
        }
        let pad = |name: &str| if bare { name.to_owned() } else { format!("{name:9}") };
        let number =
            |n: i64, width: usize| if bare { n.to_string() } else { format!("{n:0width$}") };
        // Longer patterns come before their prefixes.
        let patterns: [(&str, String); 30] = [
            ("YYYY", number(year, 4)),
            ("YY", number(year % 100, 2)),
            ("MONTH", pad(&month_name.to_uppercase())),
            ("Month", pad(month_name)),
            ("month", pad(&month_name.to_lowercase())),
            ("MON", month_name[..3].to_uppercase()),
            ("Mon", month_name[..3].to_owned()),
            ("mon", month_name[..3].to_lowercase()),
            ("MM", number(month, 2)),
            ("MI", number(minute, 2)),
            ("MS", format!("{:03}", micros / 1000)),
            ("DDD", number(of_year, 3)),
            ("DD", number(day, 2)),
            ("DAY", pad(&DAYS[weekday].to_uppercase())),
            ("Day", pad(DAYS[weekday])),
            ("day", pad(&DAYS[weekday].to_lowercase())),
            ("DY", DAYS[weekday][..3].to_uppercase()),
            ("Dy", DAYS[weekday][..3].to_owned()),
            ("dy", DAYS[weekday][..3].to_lowercase()),
            ("D", (weekday + 1).to_string()),
            ("HH24", number(hour, 2)),
            ("HH12", number(twelve, 2)),
            ("HH", number(twelve, 2)),
            ("SS", number(second, 2)),
            ("US", format!("{micros:06}")),
            ("AM", half.to_uppercase()),
            ("PM", half.to_uppercase()),
            ("am", half.to_owned()),
            ("pm", half.to_owned()),
            ("Q", ((month + 2) / 3).to_string()),
        ];
        if let Some(more) = rest.strip_prefix("FM") {
            (bare, rest) = (true, more);
            continue;
        }
        let found = patterns.iter().find(|(name, _)| {
            // Patterns of numbers may be in lower case, too.
            let small = name.len() <= rest.len() && rest.is_char_boundary(name.len());
            let numeric = !name.starts_with("MON")
                && !name.starts_with("DAY")
                && *name != "DY"
                && !name.ends_with('M')
                || *name == "MM";
            rest.starts_with(name) || small && numeric && rest[..name.len()] == name.to_lowercase()
        });
        match found {
            Some((name, shown)) => {
                out.push_str(shown);
                rest = &rest[name.len()..];
                bare = false;
            }
            None => {
                let mut chars = rest.chars();
                out.extend(chars.next());
                rest = chars.as_str();
            }
        }
    }
    Ok(Datum::text(out))
}

/// Returns year, month and day of a day counted from 2000-01-01 (Howard Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 10_957 + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

fn from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year
        - 719_468
        - 10_957
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_postgresql_shows_them() {
        let time = Datum::from_text(Type::Timestamp, "2024-02-29 15:04:05.067").expect("a time");
        for (pattern, shown) in [
            ("YYYY-MM-DD", "2024-02-29"),
            ("yyyy/mm/dd hh24:mi:ss", "2024/02/29 15:04:05"),
            ("HH12:MI AM", "03:04 PM"),
            ("Month|MON|Dy|D|DDD|Q", "February |FEB|Thu|5|060|1"),
            ("FMMonth FMDD, YY", "February 29, 24"),
            ("MS US", "067 067000"),
            ("\"YYYY\" é", "YYYY é"),
        ] {
            assert_eq!(to_char(&time, pattern), Ok(Datum::text(shown)), "{pattern}");
        }
        assert!(to_char(&Datum::Int4(1), "9").is_err());
        for days in [-730_000, -1, 0, 59, 60, 8_000, 1_000_000] {
            let (year, month, day) = civil(days);
            assert_eq!(from_civil(year, month, day), days);
        }
    }
}
