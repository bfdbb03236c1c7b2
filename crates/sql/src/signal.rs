//! `pg_cancel_backend` and `pg_terminate_backend`: a session ends the statement of another one of
//! its node, or that session itself.

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;

/// The signal to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ends the running statement.
    Cancel,
    /// Ends the session.
    Terminate,
}

/// Sends a signal; returns the value of the function: whether there is such a session. Without one,
/// warns the client.
pub(crate) fn call(signal: Signal, args: &[Datum], facts: &Facts) -> Result<Datum, SqlError> {
    match args.get(1).and_then(Datum::as_i64) {
        None | Some(0) => {}
        Some(..0) => {
            return Err(SqlError::new(state::OUT_OF_RANGE, "\"timeout\" must not be negative"));
        }
        Some(_) => return Err(SqlError::unsupported("pg_terminate_backend with a timeout")),
    }
    let pid = args.first().and_then(Datum::as_i64).unwrap_or_default();
    let Some(backend) = i32::try_from(pid).ok().and_then(|pid| facts.sessions.backend(pid)) else {
        let message = format!("PID {pid} is not a PostgreSQL backend process");
        facts.warn(SqlError::new("01000", message));
        return Ok(Datum::Bool(false));
    };
    match signal {
        Signal::Cancel => backend.cancel(),
        Signal::Terminate => backend.terminate(),
    }
    Ok(Datum::Bool(true))
}
