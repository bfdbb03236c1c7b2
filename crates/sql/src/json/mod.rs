//! JSON: `json` keeps its text, `jsonb` keeps its values.
//!
//! ```text
//!   text ────────── read ──┐                          ┌── show ── text
//!   values of SQL ─ make ──┼── events ── Builder ── Jsonb
//!   functions ─────────────┘      ↑                   ├── key ── order, equality
//!                                 └────── events ─────┘
//! ```
//!
//! All walks are loops over events, so that nesting takes no stack. The functions of SQL are in
//! `function::json`, the aggregates in `aggregate::json`.

mod build;
mod key;
mod make;
mod number;
mod read;
mod show;
mod value;

pub(crate) use build::{Builder, zero_character};
pub(crate) use make::{Style, key_of, write_json, write_string};
pub(crate) use read::{Part, Reader, check, events};
pub(crate) use show::{Writer, pretty, write_text};
pub use value::Jsonb;
pub(crate) use value::{Node, View, place};

/// The most arrays and objects inside each other.
const DEEPEST: usize = 6_000;

pub(crate) use json_event_parser::JsonEvent as Event;

#[cfg(test)]
mod tests;
