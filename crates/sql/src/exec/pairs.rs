//! The outcome of a left row's pairs, for each kind of join.

use super::Row;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::physical::Kind;

/// The pairs of one left row so far.
pub(super) struct Pairs<'a> {
    kind: Kind,
    left: &'a [Datum],
    right_width: usize,
    matches: usize,
    /// True if the condition was NULL for a pair.
    unknown: bool,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(kind: Kind, left: &'a [Datum], right_width: usize) -> Self {
        Pairs { kind, left, right_width, matches: 0, unknown: false }
    }

    /// Takes the condition's value for a pair. Returns false if no other pair matters.
    pub(super) fn add(
        &mut self,
        condition: &Datum,
        right: &[Datum],
        out: &mut Vec<Row>,
    ) -> Result<bool, SqlError> {
        match condition {
            Datum::Bool(true) => {}
            Datum::Null => {
                self.unknown = true;
                return Ok(self.kind != Kind::AntiUnknown);
            }
            _ => return Ok(true),
        }
        self.matches += 1;
        match self.kind {
            Kind::Inner | Kind::Left | Kind::Full => {}
            Kind::Single if self.matches == 1 => {}
            Kind::Single => {
                return Err(SqlError::new(
                    state::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            Kind::Semi | Kind::Anti | Kind::AntiUnknown | Kind::Mark => return Ok(false),
        }
        out.push(self.left.iter().chain(right).cloned().collect());
        Ok(true)
    }

    /// Ends the left row.
    pub(super) fn finish(self, out: &mut Vec<Row>) {
        let matched = self.matches > 0;
        match self.kind {
            Kind::Left | Kind::Full | Kind::Single if !matched => {
                let mut row = self.left.to_vec();
                row.resize(self.left.len() + self.right_width, Datum::Null);
                out.push(row);
            }
            Kind::Semi if matched => out.push(self.left.to_vec()),
            Kind::Anti if !matched => out.push(self.left.to_vec()),
            Kind::AntiUnknown if !matched && !self.unknown => out.push(self.left.to_vec()),
            Kind::Mark => {
                let mark = match (matched, self.unknown) {
                    (true, _) => Datum::Bool(true),
                    (false, true) => Datum::Null,
                    (false, false) => Datum::Bool(false),
                };
                out.push(self.left.iter().cloned().chain([mark]).collect());
            }
            _ => {}
        }
    }
}
