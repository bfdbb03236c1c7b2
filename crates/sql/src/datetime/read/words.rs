//! The words of times.

/// A word's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Month(i64),
    DayOfWeek,
    /// Before or after noon.
    Half {
        is_pm: bool,
    },
    Era {
        is_bc: bool,
    },
    /// The kind of the next number.
    Unit(Unit),
    /// The next field is a time.
    TimeFollows,
    /// Summer time of the zone before it.
    Summer,
    Ignored,
    Now,
    Yesterday,
    Today,
    Tomorrow,
    /// Midnight in UTC.
    Midnight,
    Epoch,
    Infinity,
    MinusInfinity,
}

/// The kind of a number, of which a word tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    /// A time of the day.
    Time,
    /// A kind that no number of a time is of.
    Other,
}

/// The length up to which words are compared.
const LENGTH: usize = 10;

/// Finds a word in lower case.
pub(super) fn find(word: &str) -> Option<Word> {
    let word = word.get(..LENGTH).unwrap_or(word);
    Some(match word {
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds"
        | "wednesday" | "thu" | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat"
        | "saturday" => Word::DayOfWeek,
        "am" => Word::Half { is_pm: false },
        "pm" => Word::Half { is_pm: true },
        "ad" => Word::Era { is_bc: false },
        "bc" => Word::Era { is_bc: true },
        "y" => Word::Unit(Unit::Year),
        "m" => Word::Unit(Unit::Month),
        "d" => Word::Unit(Unit::Day),
        "h" => Word::Unit(Unit::Hour),
        "mm" => Word::Unit(Unit::Minute),
        "s" => Word::Unit(Unit::Second),
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit(Unit::Other),
        "t" => Word::TimeFollows,
        "dst" => Word::Summer,
        "at" | "on" => Word::Ignored,
        "now" => Word::Now,
        "yesterday" => Word::Yesterday,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "allballs" => Word::Midnight,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "-infinity" => Word::MinusInfinity,
        _ => return None,
    })
}

/// True if a text of a time depends on when it is read.
pub(crate) fn is_relative(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    words.any(|word| {
        let found = find(&word.to_ascii_lowercase());
        matches!(found, Some(Word::Now | Word::Today | Word::Tomorrow | Word::Yesterday))
    })
}
