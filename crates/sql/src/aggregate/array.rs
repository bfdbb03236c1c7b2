//! Arrays of values, or of arrays.

use super::{Accumulator, Function};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::SqlError;
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

impl Accumulator for Gathered {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        held.add(weight(args))?;
        limits::check_value((self.parts.len() + 1).saturating_mul(size_of::<Datum>()))?;
        if let Some(Datum::Null) = args.first()
            && matches!(self.parts.first(), Some(Datum::Array(_)))
        {
            let message = "cannot accumulate null arrays";
            return Err(SqlError::new("22004", message));
        }
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
