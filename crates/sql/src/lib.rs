//! Names to keys, rows to values, statements to reads and writes.

mod datetime;
mod datum;
mod engine;
mod error;
mod format_binary;
mod format_text;
mod response;
mod session;
mod types;

pub use datum::Datum;
pub use engine::Engine;
pub use error::{SqlError, state};
pub use response::{Column, Description, Response, Status};
pub use session::Session;
pub use types::Type;
