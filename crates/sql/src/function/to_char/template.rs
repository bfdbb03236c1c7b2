//! Templates of times: patterns such as `YYYY`, with the modifiers around them, and text.

use crate::interrupt;

/// A pattern of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// `AD` or `BC`; true with points.
    Era(bool),
    /// `AM` or `PM`; true with points.
    Half(bool),
    Century,
    DayName,
    DayAbbreviated,
    DayOfYear,
    Day,
    DayOfWeek,
    /// A number of digits of the seconds' fraction.
    Fraction(u32),
    /// The fraction in milliseconds.
    Milliseconds,
    /// The fraction in microseconds.
    Microseconds,
    /// `FX`
    Fixed,
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// The last digits of the year of ISO 8601; 4 for all.
    IsoYear(u32),
    Julian,
    Minute,
    MonthName,
    MonthAbbreviated,
    Month,
    Quarter,
    RomanMonth,
    SecondOfDay,
    Second,
    /// `OF`
    Offset,
    Zone,
    ZoneHour,
    ZoneMinute,
    WeekOfYear,
    WeekOfMonth,
    /// `Y,YYY`
    YearWithComma,
    /// The last digits of the year; 4 for all.
    Year(u32),
}

/// The case of a pattern, which words take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    /// The first letter is upper case.
    Title,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Pattern {
        key: Key,
        /// Its name, as the template has it.
        name: String,
        case: Case,
        /// `FM`: without padding.
        bare: bool,
        /// `TM`: a word in the language of the session, without padding.
        translated: bool,
        /// `TH` or `th`; true if it is upper case.
        ordinal: Option<bool>,
    },
    Text {
        shown: char,
        quoted: bool,
    },
}

/// The patterns in upper case; each comes before its prefixes.
const PATTERNS: &[(&str, Key)] = &[
    ("A.D.", Key::Era(true)),
    ("A.M.", Key::Half(true)),
    ("AD", Key::Era(false)),
    ("AM", Key::Half(false)),
    ("B.C.", Key::Era(true)),
    ("BC", Key::Era(false)),
    ("CC", Key::Century),
    ("DAY", Key::DayName),
    ("DDD", Key::DayOfYear),
    ("DD", Key::Day),
    ("DY", Key::DayAbbreviated),
    ("D", Key::DayOfWeek),
    ("FF1", Key::Fraction(1)),
    ("FF2", Key::Fraction(2)),
    ("FF3", Key::Fraction(3)),
    ("FF4", Key::Fraction(4)),
    ("FF5", Key::Fraction(5)),
    ("FF6", Key::Fraction(6)),
    ("FX", Key::Fixed),
    ("HH24", Key::Hour24),
    ("HH12", Key::Hour12),
    ("HH", Key::Hour12),
    ("IDDD", Key::IsoDayOfYear),
    ("ID", Key::IsoDayOfWeek),
    ("IW", Key::IsoWeek),
    ("IYYY", Key::IsoYear(4)),
    ("IYY", Key::IsoYear(3)),
    ("IY", Key::IsoYear(2)),
    ("I", Key::IsoYear(1)),
    ("J", Key::Julian),
    ("MI", Key::Minute),
    ("MM", Key::Month),
    ("MONTH", Key::MonthName),
    ("MON", Key::MonthAbbreviated),
    ("MS", Key::Milliseconds),
    ("OF", Key::Offset),
    ("P.M.", Key::Half(true)),
    ("PM", Key::Half(false)),
    ("Q", Key::Quarter),
    ("RM", Key::RomanMonth),
    ("SSSSS", Key::SecondOfDay),
    ("SSSS", Key::SecondOfDay),
    ("SS", Key::Second),
    ("TZH", Key::ZoneHour),
    ("TZM", Key::ZoneMinute),
    ("TZ", Key::Zone),
    ("US", Key::Microseconds),
    ("WW", Key::WeekOfYear),
    ("W", Key::WeekOfMonth),
    ("Y,YYY", Key::YearWithComma),
    ("YYYY", Key::Year(4)),
    ("YYY", Key::Year(3)),
    ("YY", Key::Year(2)),
    ("Y", Key::Year(1)),
];

/// Finds the pattern at the beginning of a text: in upper or in lower case, or with its first
/// letter in upper case if it is a word.
fn pattern(text: &str) -> Option<(&'static str, Key, Case)> {
    PATTERNS.iter().find_map(|(name, key)| {
        let start = text.get(..name.len())?;
        let is_word = matches!(
            key,
            Key::DayName | Key::DayAbbreviated | Key::MonthName | Key::MonthAbbreviated
        );
        let is_title = || {
            let mut chars = start.chars();
            chars.next() == name.chars().next() && chars.as_str() == name[1..].to_ascii_lowercase()
        };
        let case = if start == *name {
            Case::Upper
        } else if start == name.to_ascii_lowercase() {
            Case::Lower
        } else if is_word && is_title() {
            Case::Title
        } else {
            return None;
        };
        Some((*name, *key, case))
    })
}

/// Splits a template into its parts.
pub(super) fn nodes(template: &str) -> Vec<Node> {
    let mut all = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        interrupt::step();
        let (mut bare, mut translated) = (false, false);
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            (bare, rest) = (true, after);
        } else if let Some(after) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
            (translated, rest) = (true, after);
        }
        if let Some((name, key, case)) = pattern(rest) {
            let (name, after) = rest.split_at(name.len());
            let name = name.to_owned();
            rest = after;
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            all.push(Node::Pattern { key, name, case, bare, translated, ordinal });
            continue;
        }
        let mut chars = rest.chars();
        match chars.next() {
            Some('"') => {
                // A backslash keeps the character behind it.
                while let Some(mut shown) = chars.next() {
                    if shown == '"' {
                        break;
                    }
                    if shown == '\\' {
                        shown = chars.next().unwrap_or('\\');
                    }
                    all.push(Node::Text { shown, quoted: true });
                }
            }
            Some('\\') if chars.as_str().starts_with('"') => {
                chars.next();
                all.push(Node::Text { shown: '"', quoted: false });
            }
            Some(shown) => all.push(Node::Text { shown, quoted: false }),
            None => {}
        }
        rest = chars.as_str();
    }
    all
}
