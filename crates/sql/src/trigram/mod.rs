//! Trigrams of texts, and the similarities of texts by them: the computations of `pg_trgm`.
//!
//! A text is a sequence of words, which are runs of letters and digits. The trigrams of a word are
//! its runs of three characters, in lower case, with two blanks before the word and one behind it.

mod extent;
mod threshold;

pub(crate) use extent::{strict_word_similarity, word_similarity};
pub(crate) use threshold::Threshold;

use regex::Regex;
use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

/// The blanks before a word.
const BLANKS_BEFORE: usize = 2;

/// The bytes that the similarity of texts takes for each of their bytes, at most.
pub(crate) const BYTES_PER_BYTE: usize = 32;

/// Three characters, or three bytes of a checksum of those that take more than three bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trigram([u8; 3]);

impl Trigram {
    fn of(chars: &[char]) -> Trigram {
        let mut bytes = [0; 12];
        let mut length = 0;
        for c in chars {
            length += c.encode_utf8(&mut bytes[length..]).len();
        }
        match bytes[..length] {
            [a, b, c] => Trigram([a, b, c]),
            ref longer => {
                let [a, b, c, _] = checksum(longer).to_le_bytes();
                Trigram([a, b, c])
            }
        }
    }
}

/// Trigrams are ordered by their bytes, which have signs: as by PostgreSQL on most machines.
impl Ord for Trigram {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.map(u8::cast_signed).cmp(&other.0.map(u8::cast_signed))
    }
}

impl PartialOrd for Trigram {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Shows three letters, digits or blanks as they are, and other trigrams in hexadecimal digits.
impl fmt::Display for Trigram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.0;
        match self.0.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ') {
            true => write!(f, "{}{}{}", char::from(a), char::from(b), char::from(c)),
            false => write!(f, "0x{a:02x}{b:02x}{c:02x}"),
        }
    }
}

/// Returns the checksum by which PostgreSQL shortens trigrams: the table of the reflected CRC-32,
/// shifted as for the one that is not reflected.
fn checksum(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
        let shifted = |n: u32| n >> 1 ^ if n & 1 == 1 { 0xEDB8_8320 } else { 0 };
        std::array::from_fn(|at| (0..8).fold(at as u32, |n, _| shifted(n)))
    });
    let next = |sum: u32, byte: &u8| TABLE[usize::from((sum >> 24) as u8 ^ byte)] ^ sum << 8;
    !bytes.iter().fold(u32::MAX, next)
}

/// True for the characters of words: letters, and the digits of decimal numbers.
fn is_of_word(c: char) -> bool {
    static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());
    let is_digit = || {
        let mut bytes = [0; 4];
        DIGIT.as_ref().is_some_and(|digit| digit.is_match(c.encode_utf8(&mut bytes)))
    };
    c.is_alphabetic() || c.is_ascii_digit() || (c.is_numeric() && is_digit())
}

/// Returns a character in lower case, which is one character.
fn folded(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// The trigrams of a text in their order: calls `each` with those of each word.
fn each_word(text: &str, mut each: impl FnMut(&mut dyn Iterator<Item = Trigram>)) {
    let mut word = vec![' '; BLANKS_BEFORE];
    let ends = std::iter::once(' ');
    for c in text.chars().chain(ends) {
        if is_of_word(c) {
            word.push(folded(c));
        } else if word.len() > BLANKS_BEFORE {
            word.push(' ');
            each(&mut word.windows(3).map(Trigram::of));
            word.truncate(BLANKS_BEFORE);
        }
    }
}

/// Returns the trigrams of a text, each once and in their order.
pub(crate) fn trigrams(text: &str) -> Vec<Trigram> {
    let mut all = Vec::new();
    each_word(text, |word| all.extend(word));
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the part that `shared` trigrams are of all trigrams of two sets.
fn ratio(shared: usize, left: usize, right: usize) -> f32 {
    shared as f32 / (left + right - shared) as f32
}

/// Returns the similarity of two texts, from 0 to 1: the part of their trigrams that both have.
pub(crate) fn similarity(left: &str, right: &str) -> f32 {
    let (left, right) = (trigrams(left), trigrams(right));
    if left.is_empty() || right.is_empty() {
        return 0.0;
    }
    let shared = left.iter().filter(|trigram| right.binary_search(trigram).is_ok()).count();
    ratio(shared, left.len(), right.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        trigrams(text).iter().map(|trigram| format!("[{trigram}]")).collect()
    }

    /// The values are PostgreSQL's.
    #[test]
    fn trigrams_are_those_of_postgresql() {
        assert_eq!(shown(""), "");
        assert_eq!(shown(" -- "), "");
        assert_eq!(shown("a"), "[  a][ a ]");
        assert_eq!(shown("Cat cat"), "[  c][ ca][at ][cat]");
        assert_eq!(shown("foo|bar"), "[  b][  f][ ba][ fo][ar ][bar][foo][oo ]");
        assert_eq!(shown("İ²x"), "[  i][  x][ i ][ x ]");
    }

    #[test]
    fn words_have_letters_and_decimal_digits() {
        for c in ['a', 'Z', '0', 'é', 'ß', '中', '٣', 'ª', 'Ⅷ'] {
            assert!(is_of_word(c), "{c}");
        }
        for c in [' ', '_', '\'', '²', '½', '①', '€', '\u{301}', '\0'] {
            assert!(!is_of_word(c), "{c}");
        }
    }

    #[test]
    fn the_similarity_is_the_part_of_shared_trigrams() {
        assert_eq!(similarity("word", "two words"), 4.0 / 11.0);
        assert_eq!(similarity("Same", "same"), 1.0);
        assert_eq!(similarity("", ""), 0.0);
        assert_eq!(similarity("a", ""), 0.0);
    }
}
