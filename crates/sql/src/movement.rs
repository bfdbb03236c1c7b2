//! FETCH and MOVE: the movement that they ask for, as steps of a cursor.

use crate::error::{SqlError, state};
use sqlparser::ast::{self, FetchDirection};

/// A movement of a cursor. Its numbers are rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    /// Over the next rows, or those before; 0 stays, and returns the row there.
    By(i64),
    /// To a row, counted from 1, or from the end if it is negative.
    To(i64),
    /// To a row, counted from where the cursor is.
    Relative(i64),
}

/// A step of a movement. The last one passes the rows that FETCH returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Goes before the first row.
    Rewind,
    Forward(usize),
    Backward(usize),
}

/// The place of a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The rows up to and including the one it is on.
    pub(crate) passed: usize,
    /// True if it is behind the last row.
    pub(crate) at_end: bool,
}

impl Place {
    pub(crate) fn is_on_row(self) -> bool {
        self.passed > 0 && !self.at_end
    }
}

/// All rows in a direction.
const ALL: i64 = i64::MAX;

/// Returns the error of a cursor that goes back, and cannot.
pub(crate) fn only_forward() -> SqlError {
    SqlError::new(state::NOT_IN_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

fn rows(count: i64) -> usize {
    match count.unsigned_abs() {
        all if all == ALL.unsigned_abs() => usize::MAX,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

impl Movement {
    pub(crate) fn of(direction: &FetchDirection) -> Result<Movement, SqlError> {
        let count = |limit: &ast::ValueWithSpan| {
            let text = limit.to_string();
            let wrong =
                || SqlError::new(state::SYNTAX, format!("syntax error at or near \"{text}\""));
            text.parse::<i32>().map(i64::from).map_err(|_| wrong())
        };
        Ok(match direction {
            FetchDirection::Next | FetchDirection::Forward { limit: None } => Movement::By(1),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                Movement::By(count(limit)?)
            }
            FetchDirection::All | FetchDirection::ForwardAll => Movement::By(ALL),
            FetchDirection::Prior | FetchDirection::Backward { limit: None } => Movement::By(-1),
            FetchDirection::Backward { limit: Some(limit) } => Movement::By(-count(limit)?),
            FetchDirection::BackwardAll => Movement::By(-ALL),
            FetchDirection::First => Movement::To(1),
            FetchDirection::Last => Movement::To(-1),
            FetchDirection::Absolute { limit } => Movement::To(count(limit)?),
            FetchDirection::Relative { limit } => Movement::Relative(count(limit)?),
        })
    }

    /// True if it ends where it begins.
    pub(crate) fn stays(self) -> bool {
        matches!(self, Movement::By(0) | Movement::Relative(0))
    }

    /// Returns its steps from a place, as PostgreSQL makes them: a cursor that only goes forward
    /// fails at one that goes back.
    pub(crate) fn steps(self, from: Place) -> Vec<Step> {
        use Step::{Backward, Forward, Rewind};
        match self {
            Movement::By(0) | Movement::Relative(0) if from.is_on_row() => {
                vec![Backward(1), Forward(1)]
            }
            Movement::By(0) | Movement::Relative(0) => Vec::new(),
            Movement::By(count) if count > 0 => vec![Forward(rows(count))],
            Movement::By(count) => vec![Backward(rows(count))],
            Movement::Relative(count) if count > 0 => vec![Forward(rows(count - 1)), Forward(1)],
            Movement::Relative(count) => vec![Backward(rows(count + 1)), Backward(1)],
            Movement::To(0) => vec![Rewind, Forward(0)],
            Movement::To(row) if row < 0 => {
                vec![Forward(usize::MAX), Backward(rows(row + 1)), Backward(1)]
            }
            Movement::To(row) => {
                let before = rows(row - 1);
                let here = from.passed + usize::from(from.at_end);
                let to = match () {
                    // Nearer from the beginning.
                    () if before <= from.passed / 2 => vec![Rewind, Forward(before)],
                    () if before < here => vec![Backward(here - before)],
                    () => vec![Forward(before - here)],
                };
                to.into_iter().chain([Forward(1)]).collect()
            }
        }
    }
}
