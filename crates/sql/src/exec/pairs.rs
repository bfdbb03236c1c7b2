//! The outcome of a left row's pairs, for each kind of join.

use super::Row;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::physical::{Join, Kind};
use std::collections::VecDeque;

/// The pairs of one left row so far.
#[derive(Default)]
pub(super) struct Pairs {
    matches: usize,
    /// True if the condition was NULL for a pair.
    unknown: bool,
}

impl Pairs {
    /// Takes the condition's value for a pair, which is the left row and the right row in one.
    /// Returns false if no other pair matters.
    pub(super) fn add(
        &mut self,
        join: &Join,
        condition: &Datum,
        pair: &[Datum],
        out: &mut VecDeque<Row>,
    ) -> Result<bool, SqlError> {
        match condition {
            Datum::Bool(true) => {}
            Datum::Null => {
                self.unknown = true;
                return Ok(join.kind != Kind::AntiUnknown);
            }
            _ => return Ok(true),
        }
        self.matches += 1;
        match join.kind {
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
        out.push_back(pair.to_vec());
        Ok(true)
    }

    /// Ends the left row.
    pub(super) fn finish(self, join: &Join, mut left: Row, out: &mut VecDeque<Row>) {
        let matched = self.matches > 0;
        match join.kind {
            Kind::Left | Kind::Full | Kind::Single if !matched => {
                left.resize(join.left_width + join.right_width, Datum::Null);
                out.push_back(left);
            }
            Kind::Semi if matched => out.push_back(left),
            Kind::Anti if !matched => out.push_back(left),
            Kind::AntiUnknown if !matched && !self.unknown => out.push_back(left),
            Kind::Mark => {
                left.push(match (matched, self.unknown) {
                    (true, _) => Datum::Bool(true),
                    (false, true) => Datum::Null,
                    (false, false) => Datum::Bool(false),
                });
                out.push_back(left);
            }
            _ => {}
        }
    }
}
