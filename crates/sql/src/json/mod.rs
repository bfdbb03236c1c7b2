//! JSON: `json` keeps its text, `jsonb` keeps its values.
//!
//! ```text
//!   text ────────── read ──┐                          ┌── show ── text
//!   values of SQL ─ make ──┼── events ── Builder ── Jsonb
//!   functions ─────────────┘      ↑                   ├── key ── order, equality
//!                                 └────── events ─────┤
//!                                                     └── path ── items of a `jsonpath`
//! ```
//!
//! A walk over a value is a loop over its events, and takes no stack. What calls itself for each
//! level or step (`@>`, changes at a path) has a stack that grows. The functions of SQL are in
//! `function::json`, the aggregates in `aggregate::json`.

mod build;
mod key;
mod make;
mod number;
mod path;
mod read;
mod show;
mod value;

pub(crate) use build::{Builder, zero_character};
pub(crate) use make::{Style, key_of, write_json, write_string};
pub use path::Path;
pub(crate) use path::{Evaluation, Item};
pub(crate) use read::{Part, Reader, check, events};
pub(crate) use show::{Writer, pretty, write_text};
pub use value::Jsonb;
pub(crate) use value::{Node, View, place};

pub(crate) use json_event_parser::JsonEvent as Event;

/// The most arrays and objects inside each other.
const DEEPEST: usize = 6_000;

#[cfg(test)]
mod tests;
