//! The value of a text, once all of its fields are read.

use super::super::Failure;
use super::super::numbers::mask;
use super::{Decoded, Decoder, Moment};
use crate::datetime::DAY_US;
use crate::datetime::civil::{date_of, days_of, month_days};
use crate::datetime::zone::Named;

impl Decoder<'_> {
    /// Settles the date, once all of its parts are known.
    fn settle_date(&mut self) -> Result<(), Failure> {
        if self.known & mask::YEAR != 0 && !self.is_julian {
            self.year = match self.year {
                ..=0 if self.is_bc || !self.is_short_year || self.year < 0 => {
                    return Err(Failure::Field);
                }
                year if self.is_bc => 1 - year,
                year @ ..70 if self.is_short_year => year + 2000,
                year @ ..100 if self.is_short_year => year + 1900,
                year => year,
            };
        }
        if self.known & mask::DAY_OF_YEAR != 0 {
            let days = days_of(self.year, 1, 1) + self.day_of_year - 1;
            (self.year, self.month, self.day) = date_of(days);
        }
        let has = |part| self.known & part != 0;
        if has(mask::MONTH) && !(1..=12).contains(&self.month)
            || has(mask::DAY) && !(1..=31).contains(&self.day)
        {
            return Err(Failure::MonthOrDay);
        }
        match self.has_all(mask::DATE) && self.day > month_days(self.year, self.month) {
            true => Err(Failure::Field),
            false => Ok(()),
        }
    }

    /// Returns the value.
    pub(super) fn finish(mut self) -> Result<Moment, Failure> {
        if let Some(constant) = self.constant.take() {
            return Ok(constant);
        }
        self.settle_date()?;
        match self.is_pm {
            Some(_) if self.hour > 12 => return Err(Failure::Field),
            Some(false) if self.hour == 12 => self.hour = 0,
            Some(true) if self.hour != 12 => self.hour += 12,
            _ => {}
        }
        let (has_date, has_zone) = (self.has_all(mask::DATE), self.known & mask::ZONE != 0);
        if self.is_time() {
            if !self.is_in_day() {
                return Err(Failure::Field);
            }
            if !self.has_all(mask::TIME) || !has_zone && self.known & mask::DATE != 0 && !has_date {
                return Err(Failure::Syntax);
            }
        } else if !has_date {
            return Err(Failure::Syntax);
        }
        if self.known & mask::SUMMER != 0 && (self.named.is_some() || !has_zone) {
            return Err(Failure::Syntax);
        }
        let days = if has_date { days_of(self.year, self.month, self.day) } else { 0 };
        let within = self.within();
        let at = i128::from(days) * i128::from(DAY_US) + i128::from(within);
        let east_s = match &self.named {
            // The offset of a zone that has several is that of a day.
            Some(Named::Zone(zone)) if !has_date => zone.only_offset().ok_or(Failure::Syntax)?,
            Some(named) => named.east_s_of_local(at),
            None if has_zone => self.east_s,
            // Without a date, it is the offset of the present day.
            None if !has_date && self.local.now_us.is_some() => {
                let now_us = self.local.now_us.map_or(0, |us| self.local.zone.local(us));
                let midnight = i128::from(now_us.div_euclid(DAY_US)) * i128::from(DAY_US);
                self.local.zone.east_s_of_local(midnight + at)
            }
            None => self.local.zone.east_s_of_local(at),
        };
        Ok(Moment::At(Decoded { days, within, east_s }))
    }
}
