//! The time zones that sessions may choose, and the abbreviations that texts may name.

use super::{Rows, SystemContext, Value, Writer};
use crate::datetime::zone;
use crate::interval::Interval;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_timezone_names" => names,
        "pg_timezone_abbrevs" => abbreviations,
        _ => return None,
    })
}

/// Returns the length of an offset.
fn offset(east_s: i32) -> Value<'static> {
    Value::Length(Interval { micros: i64::from(east_s) * 1_000_000, ..Interval::default() })
}

fn now_us(context: &SystemContext<'_>) -> i64 {
    context.facts.statement_us.unwrap_or(0)
}

fn names(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for zone in zone::all() {
        let at = zone.at(now_us(context));
        out.row(&[
            ("name", zone.name().into()),
            ("abbrev", at.abbreviation.into()),
            ("utc_offset", offset(at.east_s)),
            ("is_dst", at.is_summer.into()),
        ]);
    }
}

fn abbreviations(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (abbreviation, east_s, is_summer) in zone::all_abbreviations(now_us(context)) {
        out.row(&[
            ("abbrev", abbreviation.into()),
            ("utc_offset", offset(east_s)),
            ("is_dst", is_summer.into()),
        ]);
    }
}
