//! Meridian as a library: the same engine that the server runs, inside your process, without a
//! port.
//!
//! ```
//! use meridian::Database;
//!
//! let database = Database::in_memory()?;
//! database.execute("CREATE TABLE towns (name text PRIMARY KEY, people bigint)")?;
//! database.execute("INSERT INTO towns VALUES ('Lisbon', 545000), ('Porto', 231000)")?;
//!
//! let rows = database.query("SELECT people FROM towns WHERE name = 'Porto'")?;
//! assert_eq!(rows.get(0, 0).and_then(|people| people.as_i64()), Some(231000));
//!
//! // A session holds a transaction.
//! let mut session = database.session();
//! session.execute("BEGIN")?;
//! session.execute("DELETE FROM towns")?;
//! session.execute("ROLLBACK")?;
//! assert_eq!(session.query("SELECT name FROM towns")?.len(), 2);
//! # Ok::<(), meridian::Error>(())
//! ```
//!
//! `Database::open(path)` keeps the data in a folder. Calls block until they are answered; from
//! asynchronous code, make them on a thread that may block.

mod database;
#[doc(hidden)]
pub mod node_server;
#[doc(hidden)]
pub mod script;

pub use database::{Database, Error, Rows, Session};
pub use meridian_sql::{Column, Datum, SqlError, Type};
