//! The Gregorian calendar, extended to all years. Years are astronomical: 0 is 1 BC.

use super::DAY_US;

/// A moment by the calendar and the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

impl Civil {
    /// Returns the calendar's view of microseconds since 2000.
    pub(crate) fn of(us: i64) -> Civil {
        let (year, month, day) = date_of(us.div_euclid(DAY_US));
        let within = us.rem_euclid(DAY_US);
        Civil {
            year,
            month,
            day,
            hour: within / 3_600_000_000,
            minute: within / 60_000_000 % 60,
            second: within / 1_000_000 % 60,
            micros: within % 1_000_000,
        }
    }

    /// Returns the days since 2000, and the microseconds of the day.
    pub(crate) fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// Returns the microseconds since midnight.
    pub(crate) fn within(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros
    }

    /// Returns the microseconds since 2000, perhaps out of range.
    pub(crate) fn micros_wide(&self) -> i128 {
        i128::from(self.days()) * i128::from(DAY_US) + i128::from(self.within())
    }
}

/// The days from 0000-03-01, with which a cycle of 400 years begins, to 2000-01-01.
const CYCLE_TO_2000: i64 = 730_425;

/// Returns year, month and day of a day counted from 2000-01-01 (Howard Hinnant's algorithm).
pub(crate) fn date_of(days: i64) -> (i64, i64, i64) {
    let z = days + CYCLE_TO_2000;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// Returns the day of a date, counted from 2000-01-01. A day beyond its month's end counts on.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year
        - CYCLE_TO_2000
}

/// Returns the number of days of a month.
pub(crate) fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns a date's day; `None` if there is no such date.
pub(crate) fn valid_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let exists = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    exists.then(|| days_of(year, month, day))
}

/// Returns the day of the week: 0 is Sunday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// Returns the day of the year, from 1.
pub(crate) fn day_of_year(days: i64) -> i64 {
    days - days_of(date_of(days).0, 1, 1) + 1
}

/// Returns the year and the week of ISO 8601: a week belongs to the year of its Thursday.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = monday(days) + 3;
    (date_of(thursday).0, (day_of_year(thursday) - 1) / 7 + 1)
}

/// Returns the Monday of a day's week.
pub(crate) fn monday(days: i64) -> i64 {
    days - (weekday(days) + 6) % 7
}

/// Returns the Julian day number.
pub(crate) fn julian(days: i64) -> i64 {
    days + 2_451_545
}

/// Returns a year as people count it: there is no year 0, 1 BC is -1.
pub(crate) fn counted(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_convert_both_ways() {
        for (days, date) in [
            (0, (2000, 1, 1)),
            (59, (2000, 2, 29)),
            (-10_957, (1970, 1, 1)),
            (-730_485, (0, 1, 1)),
            (-2_451_545, (-4713, 11, 24)),
            (2_145_031_948, (5_874_897, 12, 31)),
        ] {
            assert_eq!(date_of(days), date);
            assert_eq!(days_of(date.0, date.1, date.2), days);
        }
        for days in -800_000..800_000 {
            let (year, month, day) = date_of(days);
            assert_eq!(valid_days(year, month, day), Some(days));
        }
        assert_eq!(valid_days(2023, 2, 29), None);
    }

    #[test]
    fn weeks_are_those_of_iso() {
        assert_eq!(iso_week(days_of(2021, 1, 1)), (2020, 53));
        assert_eq!(iso_week(days_of(2018, 12, 31)), (2019, 1));
        assert_eq!(weekday(days_of(2024, 2, 29)), 4);
    }
}
