//! JSON arrays of values, and JSON objects of keys and values.

use super::{Accumulator, Function};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::function::{Out, Param};
use crate::json::{self, Builder, Event, Style};
use crate::memory::Held;
use crate::types::Type;
use std::sync::Arc;

const ANY: Param = Param::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("json_agg", &[ANY], Out::Of(Type::Json), texts).lenient(),
    Function::new("json_object_agg", &[ANY, ANY], Out::Of(Type::Json), texts).lenient(),
    Function::new("jsonb_agg", &[ANY], Out::Of(Type::Jsonb), items).lenient(),
    Function::new("jsonb_object_agg", &[ANY, ANY], Out::Of(Type::Jsonb), items).lenient(),
];

fn no_key() -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, "field name must not be null")
}

fn texts(_: Type) -> Box<dyn Accumulator> {
    Box::new(Texts::default())
}

/// The text of a `json` without its last bracket.
#[derive(Default)]
struct Texts {
    text: String,
    is_object: bool,
    zone: Zone,
}

impl Accumulator for Texts {
    fn of_zone(&mut self, zone: &Zone) {
        self.zone = zone.clone();
    }

    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        let before = self.text.len();
        self.is_object = args.len() > 1;
        self.text.push_str(match (self.text.is_empty(), self.is_object) {
            (true, true) => "{ ",
            (true, false) => "[",
            (false, _) => ", ",
        });
        if let [key, _] = args {
            if key.is_null() {
                return Err(no_key());
            }
            json::write_string(&json::key_of(key, &self.zone)?, &mut self.text);
            self.text.push_str(" : ");
        }
        if let Some(value) = args.last() {
            let has_parts = matches!(value, Datum::Array(_) | Datum::Record(_));
            if has_parts && !self.is_object && before > 0 {
                self.text.push_str("\n ");
            }
            json::write_json(value, Style::Plain, &self.zone, &mut self.text)?;
        }
        held.add(self.text.len() - before)
    }

    fn value(&self) -> Result<Datum, SqlError> {
        if self.text.is_empty() {
            return Ok(Datum::Null);
        }
        let end = if self.is_object { " }" } else { "]" };
        Ok(Datum::Json(Arc::from(format!("{}{end}", self.text))))
    }
}

fn items(_: Type) -> Box<dyn Accumulator> {
    Box::new(Items::default())
}

/// A `jsonb` whose end has not come.
#[derive(Default)]
struct Items {
    builder: Option<Builder>,
    is_object: bool,
    zone: Zone,
}

impl Accumulator for Items {
    fn of_zone(&mut self, zone: &Zone) {
        self.zone = zone.clone();
    }

    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        self.is_object = args.len() > 1;
        let builder = match &mut self.builder {
            Some(builder) => builder,
            None => {
                let builder = self.builder.insert(Builder::default());
                builder.add(if self.is_object { Event::StartObject } else { Event::StartArray })?;
                builder
            }
        };
        let before = builder.len();
        if let [key, _] = args {
            if key.is_null() {
                return Err(no_key());
            }
            builder.add(Event::ObjectKey(json::key_of(key, &self.zone)?.into()))?;
        }
        if let Some(value) = args.last() {
            builder.add_datum(value, &self.zone)?;
        }
        held.add(builder.len() - before + 12)
    }

    fn value(&self) -> Result<Datum, SqlError> {
        let Some(mut builder) = self.builder.clone() else { return Ok(Datum::Null) };
        builder.add(if self.is_object { Event::EndObject } else { Event::EndArray })?;
        Ok(Datum::Jsonb(builder.finish()?))
    }
}
