use super::super::{Zone, date_to_text, timestamp_to_text};
use super::*;

fn date(text: &str) -> String {
    let mut out = String::new();
    match date_from_text(text, Local::utc()) {
        Ok(days) => date_to_text(days, &mut out),
        Err(error) => out.push_str(error.sqlstate),
    }
    out
}

fn timestamp(text: &str) -> String {
    timestamp_in(text, "UTC")
}

fn timestamp_in(text: &str, zone: &str) -> String {
    let zone = Zone::named(zone).expect("a zone");
    let mut out = String::new();
    match timestamp_from_text(text, true, Local { zone: &zone, now_us: None }) {
        Ok(us) => timestamp_to_text(us, Some(&zone), &mut out),
        Err(error) => out.push_str(error.sqlstate),
    }
    out
}

/// Inputs, and what PostgreSQL 15 shows for them or its error.
#[test]
fn dates_are_read_as_postgresql_reads_them() {
    for (text, shown) in [
        ("2024-02-29", "2024-02-29"),
        ("20240229", "2024-02-29"),
        ("2/29/2024", "2024-02-29"),
        ("2/29/24", "2024-02-29"),
        ("1/2/70", "1970-01-02"),
        ("January 8, 1999", "1999-01-08"),
        ("8 Jan 1999", "1999-01-08"),
        ("1999-Sept-08", "1999-09-08"),
        ("0044-03-15 BC", "0044-03-15 BC"),
        ("4714-11-24 BC", "4714-11-24 BC"),
        ("4714-11-23 BC", "22008"),
        ("5874897-12-31", "5874897-12-31"),
        ("5874898-01-01", "22008"),
        ("0000-01-01", "22008"),
        ("2023-02-29", "22008"),
        ("infinity", "infinity"),
        ("someday", "22007"),
        ("", "22007"),
    ] {
        assert_eq!(date(text), shown, "{text}");
    }
}

#[test]
fn timestamps_are_read_as_postgresql_reads_them() {
    for (text, shown) in [
        ("2024-02-29 12:34:56.789", "2024-02-29 12:34:56.789+00"),
        ("2024-02-29T12:34:56Z", "2024-02-29 12:34:56+00"),
        ("2024-02-29 12:00+02", "2024-02-29 10:00:00+00"),
        ("2024-02-29 12:00-0230", "2024-02-29 14:30:00+00"),
        ("2024-02-29 24:00:00", "2024-03-01 00:00:00+00"),
        ("2024-02-29 23:59:60", "2024-03-01 00:00:00+00"),
        ("2024-02-29 00:00:00.9999999", "2024-02-29 00:00:01+00"),
        ("0044-03-15 12:00:00+02 BC", "0044-03-15 10:00:00+00 BC"),
        ("294276-12-31 23:59:59", "294276-12-31 23:59:59+00"),
        ("294277-01-01", "22008"),
        ("2024-02-29 25:00", "22008"),
        ("2024-02-29 noon", "22007"),
        ("-infinity", "-infinity"),
    ] {
        assert_eq!(timestamp(text), shown, "{text}");
    }
}

/// Local times in gaps and overlaps, abbreviations and names of zones, as PostgreSQL 15 has them.
#[test]
fn zones_are_those_of_postgresql() {
    for (text, zone, shown) in [
        ("2020-07-01 12:00", "europe/paris", "2020-07-01 12:00:00+02"),
        ("2020-03-29 02:30", "Europe/Paris", "2020-03-29 03:30:00+02"),
        ("2020-10-25 02:30", "Europe/Paris", "2020-10-25 02:30:00+01"),
        ("2020-10-25 02:30 CEST", "Europe/Paris", "2020-10-25 02:30:00+02"),
        ("2020-07-01 12:00 America/New_York", "UTC", "2020-07-01 16:00:00+00"),
        ("2020-07-01 12:00 EST", "UTC", "2020-07-01 17:00:00+00"),
        ("2020-07-01 12:00 PST8PDT", "UTC", "2020-07-01 19:00:00+00"),
        ("2020-07-01 12:00 +05:30", "Asia/Kathmandu", "2020-07-01 12:15:00+05:45"),
        ("2000-07-01 12:00 MSK", "UTC", "2000-07-01 09:00:00+00"),
        ("2013-07-01 12:00 MSK", "UTC", "2013-07-01 08:00:00+00"),
        ("290000-07-01 12:00", "Europe/Paris", "290000-07-01 12:00:00+02"),
        ("2020-07-01 12:00 Europe/Nowhere", "UTC", "22023"),
        ("2020-07-01 12:00 nowhere", "UTC", "22007"),
        ("2020-07-01 12:00 +16", "UTC", "22009"),
    ] {
        assert_eq!(timestamp_in(text, zone), shown, "{text} in {zone}");
    }
}

/// A text of any kind is read or refused.
#[test]
fn no_text_breaks_the_reader() {
    let parts = [
        "2020",
        "-",
        "j",
        "99999999999",
        ".",
        ":",
        "t",
        "now",
        "bc",
        "+",
        "é",
        " ",
        "12",
        "jan",
        "24:60:61",
        "zulu",
        "infinity",
        "pm",
        "1e9",
        "\0",
        "europe/paris",
        "m",
        "00000001",
    ];
    let local = Local { zone: Zone::utc(), now_us: Some(0) };
    for a in parts {
        for b in parts {
            for c in parts {
                for text in [format!("{a}{b}{c}"), format!("{a} {b} {c}")] {
                    let _ = date_from_text(&text, local);
                    let _ = timestamp_from_text(&text, true, local);
                    let _ = time_from_text(&text, local);
                }
            }
        }
    }
}
