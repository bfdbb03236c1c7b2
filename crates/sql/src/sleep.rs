//! `pg_sleep` and its kind. The node's clock counts the time, so that no thread waits, and a
//! statement that sleeps is interrupted like one that waits for a lock.

use crate::datetime;
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::function::shifted;
use meridian_txn::{Begin, Mode, ReadAt};
use std::time::Duration;

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// A number of seconds: `pg_sleep`
    Seconds,
    /// An interval: `pg_sleep_for`
    Interval,
    /// Until a time: `pg_sleep_until`
    Until,
}

/// The longest time: a hundred years.
const LONGEST_SECONDS: f64 = 3.2e9;

/// Returns a time of seconds; none if they are not positive or not a number.
fn seconds(seconds: f64) -> Duration {
    let bounded = if seconds > LONGEST_SECONDS { LONGEST_SECONDS } else { seconds };
    Duration::try_from_secs_f64(bounded).unwrap_or(Duration::ZERO)
}

/// Returns the present time.
async fn now_us(engine: &Engine) -> Result<i64, SqlError> {
    let look = engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?;
    Ok(datetime::from_unix_ns(look.began().earliest))
}

/// Waits; returns the value of the function.
pub(crate) async fn call(how: Sleep, args: &[Datum], facts: &Facts) -> Result<Datum, SqlError> {
    let engine = facts.engine.as_ref().ok_or_else(|| SqlError::unsupported("pg_sleep here"))?;
    let time = match (how, args) {
        (Sleep::Seconds, [Datum::Float8(value)]) => seconds(*value),
        (Sleep::Interval, [Datum::Interval(interval)]) => {
            // From the present on: months have different lengths.
            let now = now_us(engine).await?;
            let then = shifted(now, *interval)?;
            seconds(then.saturating_sub(now) as f64 / 1e6)
        }
        (Sleep::Until, [Datum::TimestampTz(then)]) => {
            let now = now_us(engine).await?;
            seconds(then.saturating_sub(now) as f64 / 1e6)
        }
        _ => return Err(SqlError::corrupted("the argument of pg_sleep")),
    };
    if !time.is_zero() {
        engine.database().sleep(time).await;
    }
    Ok(Datum::text(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_positive_number_of_seconds_is_a_time() {
        for nothing in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(seconds(nothing), Duration::ZERO, "{nothing}");
        }
        assert_eq!(seconds(0.25), Duration::from_millis(250));
        assert_eq!(seconds(f64::INFINITY), seconds(1e300));
    }
}
