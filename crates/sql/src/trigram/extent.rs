//! The similarity of a text to the extent of another text that is most similar to it.
//!
//! An extent is a run of the trigrams of a text in their order. All ends of extents are tried from
//! left to right. For each, the beginning moves to the right as long as the extent becomes more
//! similar: a beginning that was left is not tried again, so that the greatest similarity may be
//! missed, as by PostgreSQL.

use super::{Trigram, each_word, ratio, trigrams};
use crate::interrupt;
use std::collections::HashMap;

/// A trigram in a text.
struct Place {
    /// The number of the trigram among those of the text.
    trigram: usize,
    /// True if an extent may begin at it.
    begins: bool,
    /// True if an extent may end at it.
    ends: bool,
}

/// The trigrams of a text, as the extents of another text are compared with them.
struct Text {
    places: Vec<Place>,
    /// For each trigram, true if the other text has it.
    wanted: Vec<bool>,
    /// The number of trigrams of the other text.
    all_wanted: usize,
}

impl Text {
    /// Reads a text. Extents consist of whole words if it is `strict`; otherwise, they begin
    /// anywhere, and end at trigrams that the other text has.
    fn of(text: &str, other: &str, strict: bool) -> Text {
        let other = trigrams(other);
        let mut numbers: HashMap<Trigram, usize> = HashMap::new();
        let (mut places, mut wanted): (Vec<Place>, Vec<bool>) = (Vec::new(), Vec::new());
        each_word(text, |word| {
            let first = places.len();
            for trigram in word {
                let next = numbers.len();
                let number = *numbers.entry(trigram).or_insert(next);
                if number == next {
                    wanted.push(other.binary_search(&trigram).is_ok());
                }
                let ends = !strict && wanted[number];
                places.push(Place { trigram: number, begins: !strict, ends });
            }
            if strict && let [first, .., last] = &mut places[first..] {
                (first.begins, last.ends) = (true, true);
            }
        });
        Text { places, wanted, all_wanted: other.len() }
    }
}

/// The different trigrams of an extent.
#[derive(Clone, Copy)]
struct Counts {
    all: usize,
    wanted: usize,
}

impl Counts {
    fn similarity(self, text: &Text) -> f32 {
        ratio(self.wanted, text.all_wanted, self.all)
    }
}

/// The extent that ends at the current place.
struct Extent<'t> {
    text: &'t Text,
    /// The place of its beginning; `None` before the first one.
    begin: Option<usize>,
    counts: Counts,
    /// The last place of each trigram of it.
    last: Vec<Option<usize>>,
}

impl Extent<'_> {
    /// Adds a place behind the end.
    fn add(&mut self, at: usize) {
        let trigram = self.text.places[at].trigram;
        let is_wanted = self.text.wanted[trigram];
        if self.begin.is_none() && !is_wanted {
            return;
        }
        self.begin.get_or_insert(at);
        if self.last[trigram].replace(at).is_none() {
            self.counts.all += 1;
            self.counts.wanted += usize::from(is_wanted);
        }
    }

    /// Moves the beginning to where the extent is the most similar. Returns its similarity.
    fn shorten(&mut self, end: usize) -> f32 {
        let Some(begin) = self.begin else { return 0.0 };
        let mut greatest = self.counts.similarity(self.text);
        let (mut counts, mut best) = (self.counts, begin);
        for at in begin..=end {
            interrupt::step();
            let place = &self.text.places[at];
            let similarity = counts.similarity(self.text);
            if place.begins && similarity > greatest {
                (greatest, best, self.counts) = (similarity, at, counts);
            }
            if self.last[place.trigram] == Some(at) {
                counts.all -= 1;
                counts.wanted -= usize::from(self.text.wanted[place.trigram]);
            }
        }
        for at in begin..best {
            let last = &mut self.last[self.text.places[at].trigram];
            *last = last.filter(|last| *last != at);
        }
        self.begin = Some(best);
        greatest
    }
}

fn greatest_similarity(text: &Text, begin: Option<usize>) -> f32 {
    let counts = Counts { all: 0, wanted: 0 };
    let last = vec![None; text.wanted.len()];
    let mut extent = Extent { text, begin, counts, last };
    let mut greatest = 0.0f32;
    for at in 0..text.places.len() {
        extent.add(at);
        if text.places[at].ends {
            greatest = greatest.max(extent.shorten(at));
        }
    }
    greatest
}

/// Returns the similarity of a text to the most similar extent of `within`.
pub(crate) fn word_similarity(text: &str, within: &str) -> f32 {
    greatest_similarity(&Text::of(within, text, false), None)
}

/// Returns the similarity of a text to the most similar extent of whole words of `within`.
pub(crate) fn strict_word_similarity(text: &str, within: &str) -> f32 {
    greatest_similarity(&Text::of(within, text, true), Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are PostgreSQL's.
    #[test]
    fn similarities_are_those_of_postgresql() {
        for (text, within, word, strict) in [
            ("word", "two words", 0.8, 4.0 / 7.0),
            ("word", "words", 0.8, 4.0 / 7.0),
            ("two", "two words", 1.0, 1.0),
            ("", "a", 0.0, 0.0),
            ("a", "", 0.0, 0.0),
            ("abc def", "x def abc y", 1.0, 1.0),
        ] {
            assert_eq!(word_similarity(text, within), word as f32, "{text} {within}");
            assert_eq!(strict_word_similarity(text, within), strict as f32, "{text} {within}");
        }
    }
}
