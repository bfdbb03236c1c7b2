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
use crate::stack;

/// The distance between the ids of two values.
const VALUE: i64 = 10_000_000_000;
/// The bytes of a header, an entry, and what numbers and containers are aligned to.
const WORD: i64 = 4;

/// A value in which objects have ids.
#[derive(Clone)]
pub(super) struct Base<'a> {
    value: Item<'a>,
    number: i64,
    /// The place of the last id at each level: the next one is often behind it.
    cursors: Vec<Cursor>,
}

/// A place in an array or an object.
#[derive(Clone, Default)]
struct Cursor {
    /// Where the container's bytes begin and end.
    container: (usize, usize),
    /// The offset of its first part.
    from: i64,
    /// The number of parts before the place.
    at: usize,
    /// The offset behind these.
    end: i64,
}

impl<'a> Base<'a> {
    pub(super) fn new(value: Item<'a>, number: i64) -> Base<'a> {
        Base { value, number, cursors: Vec::new() }
    }

    /// Returns the id of an object.
    pub(super) fn id_of(&mut self, object: &Item<'a>) -> i64 {
        let offset = match (self.value.node(), object.node()) {
            (Some(whole), Some(part)) => offset(whole, part, &mut self.cursors),
            _ => 0,
        };
        self.number * VALUE + offset
    }
}

/// Returns the offset of a value inside another; 0 if it is not inside.
fn offset(whole: Node<'_>, part: Node<'_>, cursors: &mut Vec<Cursor>) -> i64 {
    let (mut offset, mut node) = (0, whole);
    for level in 0.. {
        interrupt::step();
        if bounds(node) == bounds(part) {
            return offset;
        }
        if cursors.len() == level {
            cursors.push(Cursor::default());
        }
        match cursors[level].step_into(offset, node, part) {
            Some(inner) => (offset, node) = inner,
            None => break,
        }
    }
    0
}

fn bounds(node: Node<'_>) -> (usize, usize) {
    let bytes = node.bytes().as_ptr_range();
    (bytes.start as usize, bytes.end as usize)
}

/// Returns the item, or the value of the member, at a place.
fn part_at(node: Node<'_>, at: usize) -> Option<Node<'_>> {
    match node.view() {
        View::Array(items) => items.get(at),
        View::Object(members) => members.get(at).map(|(_, value)| value),
        _ => None,
    }
}

/// Returns the offset of the first part of a container that begins at an offset.
fn first_part(offset: i64, node: Node<'_>) -> i64 {
    match node.view() {
        View::Array(items) => offset + WORD * (1 + items.len() as i64),
        View::Object(members) => {
            let keys: usize = members.iter().map(|(key, _)| key.len()).sum();
            offset + WORD * (1 + 2 * members.len() as i64) + keys as i64
        }
        _ => offset,
    }
}

impl Cursor {
    /// Returns the part of a container that another value is in, and its offset.
    fn step_into<'a>(
        &mut self,
        offset: i64,
        node: Node<'a>,
        part: Node<'_>,
    ) -> Option<(i64, Node<'a>)> {
        if self.container != bounds(node) {
            let from = first_part(offset, node);
            *self = Cursor { container: bounds(node), from, at: 0, end: from };
        }
        // Perhaps it is before the place.
        for _ in 0..2 {
            while let Some(inner) = part_at(node, self.at) {
                interrupt::step();
                if inner.place_of(part).is_some() {
                    return Some((start(self.end, inner), inner));
                }
                self.end = end_of(self.end, inner);
                self.at += 1;
            }
            (self.at, self.end) = (0, self.from);
        }
        None
    }
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
    interrupt::step();
    let at = start(end, node);
    match node.view() {
        View::Null | View::Bool(_) => at,
        View::String(text) => at + text.len() as i64,
        View::Number(digits) => at + number_bytes(digits),
        View::Array(_) | View::Object(_) => {
            let parts = (0..).map_while(|place| part_at(node, place));
            stack::level(|| parts.fold(first_part(at, node), end_of))
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
