//! The ids of objects that `.keyvalue()` shows.
//!
//! PostgreSQL's id of an object is its offset in the bytes of a value, plus 10^10 for each value of
//! an evaluation. Clients group rows by it, and tests compare it, so it is the same here: the
//! offset is computed as PostgreSQL lays out values.
//!
//! ```text
//!   array, object   header, an entry for each item (or key and value), then their bytes
//!   number          at a multiple of 4: header, weight and scale, groups of four digits
//!   string          its bytes
//! ```

use super::item::Item;
use crate::interrupt;
use crate::json::{Node, View};

/// The distance between the ids of two values.
const VALUE: i64 = 10_000_000_000;
/// The bytes of a header, an entry, and what numbers and containers are aligned to.
const WORD: i64 = 4;

/// A value in which objects have ids.
#[derive(Clone)]
pub(super) struct Base<'a> {
    value: Item<'a>,
    number: i64,
}

impl<'a> Base<'a> {
    pub(super) fn new(value: Item<'a>, number: i64) -> Base<'a> {
        Base { value, number }
    }

    /// Returns the id of an object.
    pub(super) fn id_of(&self, object: &Item<'a>) -> i64 {
        let offset = match (self.value.node(), object.node()) {
            (Some(whole), Some(part)) => offset(whole, part),
            _ => 0,
        };
        self.number * VALUE + offset
    }
}

/// Returns the offset of a value inside another; 0 if it is not inside.
fn offset(whole: Node<'_>, part: Node<'_>) -> i64 {
    let (mut at, mut node) = (0, whole);
    loop {
        interrupt::step();
        if node.bytes().as_ptr_range() == part.bytes().as_ptr_range() {
            return at;
        }
        let Some((from, inner)) = step_into(at, node, part) else { return 0 };
        (at, node) = (from, inner);
    }
}

/// Returns the part of a value that another is in, and its offset.
fn step_into<'a>(at: i64, node: Node<'a>, part: Node<'_>) -> Option<(i64, Node<'a>)> {
    let (parts, mut end): (Vec<Node<'a>>, i64) = match node.view() {
        View::Array(items) => (items.iter().collect(), at + WORD * (1 + items.len() as i64)),
        View::Object(members) => {
            let keys: usize = members.iter().map(|(key, _)| key.len()).sum();
            let entries = WORD * (1 + 2 * members.len() as i64);
            (members.iter().map(|(_, value)| value).collect(), at + entries + keys as i64)
        }
        _ => return None,
    };
    for inner in parts {
        interrupt::step();
        if inner.place_of(part).is_some() {
            return Some((start(end, inner), inner));
        }
        end = end_of(end, inner);
    }
    None
}

/// Returns where a value begins that is appended.
fn start(end: i64, node: Node<'_>) -> i64 {
    match node.view() {
        View::Number(_) | View::Array(_) | View::Object(_) => (end + WORD - 1) / WORD * WORD,
        _ => end,
    }
}

/// Returns where a value ends that is appended.
fn end_of(end: i64, node: Node<'_>) -> i64 {
    let at = start(end, node);
    match node.view() {
        View::Null | View::Bool(_) => at,
        View::String(text) => at + text.len() as i64,
        View::Number(digits) => at + number_bytes(digits),
        View::Array(items) => {
            let from = at + WORD * (1 + items.len() as i64);
            crate::stack::level(|| items.iter().fold(from, end_of))
        }
        View::Object(members) => {
            let keys: usize = members.iter().map(|(key, _)| key.len()).sum();
            let from = at + WORD * (1 + 2 * members.len() as i64) + keys as i64;
            let values = members.iter().map(|(_, value)| value);
            crate::stack::level(|| values.fold(from, end_of))
        }
    }
}

/// Returns the bytes of a number: groups of four digits, without those that are zero at the ends.
fn number_bytes(digits: &str) -> i64 {
    let digits = digits.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    // Each group has a number that grows to the left; the first behind the point has -1.
    let first = match whole.len() as i64 {
        0 => match fraction.find(|c| c != '0') {
            Some(at) => -(at as i64 / 4) - 1,
            // Zero has no groups.
            None => return 6,
        },
        length => (length - 1) / 4,
    };
    let last = match fraction.rfind(|c| c != '0') {
        Some(at) => -(at as i64 / 4) - 1,
        None => {
            let zeros = whole.len() - whole.trim_end_matches('0').len();
            zeros as i64 / 4
        }
    };
    let is_short = (-64..64).contains(&first) && fraction.len() < 64;
    (if is_short { 6 } else { 8 }) + 2 * (first - last + 1)
}
