//! The options of a sequence, as CREATE, ALTER and IDENTITY give them.

use super::{CACHE, Sequence};
use crate::error::{SqlError, state};
use crate::types::Type;
use sqlparser::ast::ObjectName;

/// The options that a statement gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// AS
    pub(crate) ty: Option<Type>,
    pub(crate) increment: Option<i64>,
    /// MINVALUE; `None` inside for NO MINVALUE.
    pub(crate) min: Option<Option<i64>>,
    /// MAXVALUE; `None` inside for NO MAXVALUE.
    pub(crate) max: Option<Option<i64>>,
    pub(crate) start: Option<i64>,
    /// RESTART; `None` inside for the start value.
    pub(crate) restart: Option<Option<i64>>,
    pub(crate) cache: Option<i64>,
    pub(crate) cycle: Option<bool>,
    /// OWNED BY; `None` inside for NONE.
    pub(crate) owned_by: Option<Option<ObjectName>>,
    /// SEQUENCE NAME, of an identity column.
    pub(crate) name: Option<ObjectName>,
    /// BIT_REVERSED_POSITIVE
    pub(crate) reversed: bool,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, message)
}

/// Returns the values of an integer type.
fn range(ty: Type) -> Result<(i64, i64), SqlError> {
    match ty {
        Type::Int2 => Ok((i16::MIN.into(), i16::MAX.into())),
        Type::Int4 => Ok((i32::MIN.into(), i32::MAX.into())),
        Type::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

/// Returns the limits of a sequence without MINVALUE and MAXVALUE.
fn limits(ty: Type, increment: i64) -> Result<(i64, i64), SqlError> {
    let (least, most) = range(ty)?;
    Ok(if increment > 0 { (1, most) } else { (least, -1) })
}

impl Options {
    /// Returns the options of a sequence that is to be like another one.
    pub(crate) fn of(sequence: &Sequence) -> Options {
        Options {
            ty: Some(sequence.ty),
            increment: Some(sequence.increment),
            min: Some(Some(sequence.min)),
            max: Some(Some(sequence.max)),
            start: Some(sequence.start),
            restart: None,
            cache: Some(sequence.cache),
            cycle: Some(sequence.cycle),
            owned_by: None,
            name: None,
            reversed: sequence.reversed,
        }
    }
}

impl Sequence {
    /// Creates a sequence. `ty` is that of its values unless the options give one.
    pub(crate) fn new(
        id: u32,
        (schema, name): (u32, &str),
        ty: Type,
        options: &Options,
    ) -> Result<Sequence, SqlError> {
        let (min, max) = limits(options.ty.unwrap_or(ty), options.increment.unwrap_or(1))?;
        let mut sequence = Sequence {
            id,
            version: 1,
            name: name.into(),
            ty: options.ty.unwrap_or(ty),
            increment: 1,
            min,
            max,
            start: 0,
            cache: CACHE,
            cycle: false,
            reversed: options.reversed,
            owner: None,
            schema,
        };
        sequence.change(options)?;
        if options.start.is_none() {
            sequence.start = sequence.first();
        }
        sequence.check()?;
        Ok(sequence)
    }

    /// Returns the first value without START.
    fn first(&self) -> i64 {
        if self.increment > 0 { self.min } else { self.max }
    }

    /// Applies options to the descriptor. RESTART is not in it.
    pub(crate) fn alter(&mut self, options: &Options) -> Result<(), SqlError> {
        if options.reversed && !self.reversed {
            return Err(SqlError::unsupported("BIT_REVERSED_POSITIVE of a sequence that exists"));
        }
        self.change(options)?;
        self.check()
    }

    fn change(&mut self, options: &Options) -> Result<(), SqlError> {
        let before = limits(self.ty, self.increment)?;
        let increment = options.increment.unwrap_or(self.increment);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero"));
        }
        let ty = options.ty.unwrap_or(self.ty);
        let (min, max) = limits(ty, increment)?;
        // Limits that are those of the type change with it.
        let follows = ty != self.ty;
        self.min = match options.min {
            Some(given) => given.unwrap_or(min),
            None if follows && [before.0, range(self.ty)?.0].contains(&self.min) => min,
            None => self.min,
        };
        self.max = match options.max {
            Some(given) => given.unwrap_or(max),
            None if follows && [before.1, range(self.ty)?.1].contains(&self.max) => max,
            None => self.max,
        };
        (self.ty, self.increment) = (ty, increment);
        self.start = options.start.unwrap_or(self.start);
        self.cache = options.cache.unwrap_or(self.cache);
        self.cycle = options.cycle.unwrap_or(self.cycle);
        Ok(())
    }

    fn check(&self) -> Result<(), SqlError> {
        let (least, most) = range(self.ty)?;
        let ty = self.ty.name();
        for (name, value) in [("MAXVALUE", self.max), ("MINVALUE", self.min)] {
            if !(least..=most).contains(&value) {
                let message =
                    format!("{name} ({value}) is out of range for sequence data type {ty}");
                return Err(invalid(message));
            }
        }
        if self.min >= self.max {
            let (min, max) = (self.min, self.max);
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        self.check_within("START", self.start)?;
        if self.cache < 1 {
            return Err(invalid(format!("CACHE ({}) must be greater than zero", self.cache)));
        }
        if self.reversed && (self.min < 0 || self.ty != Type::Int8) {
            let message =
                "BIT_REVERSED_POSITIVE is for sequences of bigint without negative values";
            return Err(invalid(message));
        }
        Ok(())
    }

    /// Fails if a value is beyond the limits.
    pub(crate) fn check_within(&self, name: &str, value: i64) -> Result<(), SqlError> {
        let message = if value < self.min {
            format!("{name} value ({value}) cannot be less than MINVALUE ({})", self.min)
        } else if value > self.max {
            format!("{name} value ({value}) cannot be greater than MAXVALUE ({})", self.max)
        } else {
            return Ok(());
        };
        Err(invalid(message))
    }
}
