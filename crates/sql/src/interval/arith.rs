//! Arithmetic of intervals. Results out of range are errors.

use super::{Interval, MONTH_DAYS, out_of_range};
use crate::datetime::DAY_US;
use crate::error::SqlError;
use crate::number;

impl Interval {
    /// Returns the sum, part by part.
    pub(crate) fn plus(self, other: Interval) -> Result<Interval, SqlError> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// Returns the difference, part by part.
    pub(crate) fn minus(self, other: Interval) -> Result<Interval, SqlError> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                micros: self.micros.checked_sub(other.micros)?,
            })
        };
        difference().ok_or_else(out_of_range)
    }

    /// Returns the interval with the opposite sign of each part.
    pub(crate) fn negated(self) -> Result<Interval, SqlError> {
        Interval::default().minus(self)
    }

    /// Returns a multiple. What is left of a month becomes days, what is left of a day time.
    pub(crate) fn times(self, factor: f64) -> Result<Interval, SqlError> {
        self.scaled(|part| part * factor)
    }

    /// Returns a fraction of the interval.
    pub(crate) fn divided_by(self, divisor: f64) -> Result<Interval, SqlError> {
        if divisor == 0.0 {
            return Err(number::by_zero());
        }
        self.scaled(|part| part / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
        let within = |x: f64, bound: f64| !x.is_nan() && x >= -bound && x < bound;
        let (months, days) = (scale(self.months.into()), scale(self.days.into()));
        if !within(months, 2f64.powi(31)) || !within(days, 2f64.powi(31)) {
            return Err(out_of_range());
        }
        // Rounded to microseconds, so that no fraction of one makes a day too few.
        let rounded = |x: f64| (x * 1e6).round_ties_even() / 1e6;
        let month_days = rounded((months - months.trunc()) * MONTH_DAYS as f64);
        let whole_days = month_days.trunc();
        let seconds = (days - days.trunc() + month_days - whole_days) * 86_400.0;
        let mut seconds = rounded(seconds);
        let (mut all_days, months) = (days as i32, months as i32);
        if seconds.abs() >= 86_400.0 {
            let more = (seconds / 86_400.0).trunc();
            all_days = all_days.checked_add(more as i32).ok_or_else(out_of_range)?;
            seconds -= more * 86_400.0;
        }
        let days = all_days.checked_add(whole_days as i32).ok_or_else(out_of_range)?;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        if !within(micros, 2f64.powi(63)) {
            return Err(out_of_range());
        }
        Ok(Interval { months, days, micros: micros as i64 })
    }

    /// Turns 24 hours into a day each, and gives days and time one sign.
    pub(crate) fn justified_hours(self) -> Result<Interval, SqlError> {
        let (whole, micros) = (self.micros / DAY_US, self.micros % DAY_US);
        let days = i64::from(self.days) + whole;
        let (days, micros) = one_sign(days, micros, DAY_US);
        let days = days.try_into().map_err(|_| out_of_range())?;
        Ok(Interval { months: self.months, days, micros })
    }

    /// Turns 30 days into a month each, and gives months and days one sign.
    pub(crate) fn justified_days(self) -> Result<Interval, SqlError> {
        let days = i64::from(self.days);
        let months = i64::from(self.months) + days / MONTH_DAYS;
        let (months, days) = one_sign(months, days % MONTH_DAYS, MONTH_DAYS);
        let months = months.try_into().map_err(|_| out_of_range())?;
        Ok(Interval { months, days: days as i32, micros: self.micros })
    }

    /// Turns time into days and days into months as far as possible, and gives all parts one sign.
    pub(crate) fn justified(self) -> Result<Interval, SqlError> {
        let days = i64::from(self.days) + self.micros / DAY_US;
        let micros = self.micros % DAY_US;
        let months = i64::from(self.months) + days / MONTH_DAYS;
        let days = days % MONTH_DAYS;
        // The sign of the months decides for the days, then that of both for the time.
        let (months, days) = match months {
            1.. if days < 0 || days == 0 && micros < 0 => (months - 1, days + MONTH_DAYS),
            ..=-1 if days > 0 || days == 0 && micros > 0 => (months + 1, days - MONTH_DAYS),
            _ => (months, days),
        };
        let (days, micros) = one_sign(days, micros, DAY_US);
        let months = months.try_into().map_err(|_| out_of_range())?;
        Ok(Interval { months, days: days as i32, micros })
    }
}

/// Moves one unit between a number of them and the rest if their signs differ.
fn one_sign(whole: i64, rest: i64, unit: i64) -> (i64, i64) {
    match (whole, rest) {
        (1.., ..=-1) => (whole - 1, rest + unit),
        (..=-1, 1..) => (whole + 1, rest - unit),
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Interval {
        Interval::from_text(text).expect("an interval")
    }

    #[test]
    fn fractions_are_passed_down() {
        let half = of("1 month 1 day").divided_by(2.0).expect("in range");
        assert_eq!(half, of("15 days 12:00:00"));
        assert_eq!(of("1 year").times(1.0 / 12.0).expect("in range"), of("1 month"));
        assert_eq!(of("1 day").times(0.1).expect("in range"), of("02:24:00"));
        assert_eq!(of("1 day").divided_by(0.0).expect_err("no number").sqlstate, "22012");
        assert_eq!(of("1 year").times(1e9).expect_err("too long").sqlstate, "22008");
    }

    #[test]
    fn parts_get_one_sign() {
        let justified = |text| of(text).justified().expect("in range");
        assert_eq!(justified("1 mon -1 hour"), of("29 days 23:00:00"));
        assert_eq!(justified("35 days 50 hours"), of("1 mon 7 days 02:00:00"));
        assert_eq!(of("27 hours").justified_hours().expect("in range"), of("1 day 03:00:00"));
        assert_eq!(of("-1 mon 45 days").justified_days().expect("in range"), of("15 days"));
    }
}
