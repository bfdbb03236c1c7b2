//! Names to keys, rows to values, statements to reads and writes.

mod aggregate;
mod analytic;
mod bind;
mod cast;
mod catalog;
mod compile;
mod control;
mod copy;
mod datetime;
mod datum;
mod ddl;
mod dml;
#[cfg(test)]
mod encoding_tests;
mod engine;
mod error;
mod expr;
mod format_binary;
mod format_text;
mod function;
mod key;
mod kv;
mod names;
mod number;
mod parse;
mod plan;
mod response;
mod row;
mod run;
mod scan;
mod select;
mod session;
mod settings;
mod types;
mod work;
mod write;

pub use analytic::{Analytic, AnalyticPlan, AnalyticRows, Reader};
pub use catalog::{ColumnDef, Index, IndexPart, Table};
pub use datum::Datum;
pub use engine::Engine;
pub use error::{SqlError, state};
pub use response::{Column, Description, Response, Status};
pub use scan::Position;
pub use session::Session;
pub use types::Type;
