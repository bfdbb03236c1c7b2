//! Arrays of values, or of arrays.

use super::{Accumulator, Function};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::function::{Out, Param};
use crate::limits;
use crate::memory::{Held, weight};
use crate::types::Type;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] =
    &[Function::new("array_agg", &[Param::Common], Out::Array, gather).lenient()];

fn gather(ty: Type) -> Box<dyn Accumulator> {
    Box::new(Gathered { element: ty.element().unwrap_or(ty), parts: Vec::new() })
}

/// The values so far, NULLs among them.
struct Gathered {
    element: Type,
    parts: Vec<Datum>,
}

impl Gathered {
    /// Fails if arrays are gathered, and an argument is none with elements, or has other dimensions
    /// than those before.
    fn check_array(&self, value: Option<&Datum>) -> Result<(), SqlError> {
        let null = || SqlError::new(state::NULL_NOT_ALLOWED, "cannot accumulate null arrays");
        let lengths = |array: &Array| -> Vec<usize> {
            array.dimensions().iter().map(|dimension| dimension.length).collect()
        };
        let message = match (self.parts.first(), value) {
            (Some(Datum::Array(_)), Some(Datum::Null)) => return Err(null()),
            (Some(Datum::Null), Some(Datum::Array(_))) => return Err(null()),
            (_, Some(Datum::Array(array))) if array.values().is_empty() => {
                "cannot accumulate empty arrays"
            }
            (Some(Datum::Array(first)), Some(Datum::Array(array)))
                if lengths(first) != lengths(array) =>
            {
                "cannot accumulate arrays of different dimensionality"
            }
            _ => return Ok(()),
        };
        Err(SqlError::new(state::ARRAY_SUBSCRIPT, message))
    }
}

impl Accumulator for Gathered {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        held.add(weight(args))?;
        limits::check_value((self.parts.len() + 1).saturating_mul(size_of::<Datum>()))?;
        self.check_array(args.first())?;
        self.parts.extend(args.first().cloned());
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        if self.parts.is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Array(Arc::new(Array::of_parts(self.element, self.parts.clone())?)))
    }
}
