//! Timestamps that only grow, even across restarts.

use crate::Timestamp;
use crate::rules;
use meridian_machine::planted::broken;

/// The persisted bound on issued timestamps is used up: a higher one must be made durable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeilingReached;

/// Issues strictly increasing timestamps, above everything issued before and at or below a
/// persisted ceiling (Trap A.5-2: a wrong clock then costs freshness, never order).
///
/// Invariants:
/// 1. `last < ceiling`, and `ceiling` was durable before anything up to it was issued.
/// 2. After a restart the issuer starts above the ceiling of its previous incarnation.
#[derive(Clone, Copy, Debug)]
pub struct Issuer {
    issuer: u32,
    last: Timestamp,
    ceiling: u64,
}

impl Issuer {
    /// Creates an issuer that starts above `floor`. Nothing can be issued until a ceiling is
    /// raised.
    pub fn above(issuer: u32, floor: Timestamp) -> Self {
        Issuer { issuer, last: floor, ceiling: floor.nanos }
    }

    /// Allows timestamps up to `nanos`: the bound is durable.
    pub fn raise_ceiling(&mut self, nanos: u64) {
        self.ceiling = self.ceiling.max(nanos);
    }

    /// Returns the persisted bound, in nanoseconds.
    pub fn ceiling(&self) -> u64 {
        self.ceiling
    }

    /// Returns the newest timestamp issued or observed.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// Excludes every timestamp at or below `seen` from being issued.
    pub fn observe(&mut self, seen: Timestamp) {
        let sets_back = seen.nanos == self.last.nanos && broken(rules::SET_BACK_BY_A_MESSAGE);
        self.last = if sets_back { seen } else { self.last.max(seen) };
    }

    /// Issues the next timestamp, at or above `at_least` nanoseconds.
    pub fn issue(&mut self, at_least: u64) -> Result<Timestamp, CeilingReached> {
        let fresh = Timestamp { nanos: at_least, logical: 0, issuer: self.issuer };
        let next = if fresh > self.last {
            fresh
        } else if broken(rules::DUPLICATE_TIMESTAMP) {
            self.last
        } else if self.last.logical == u32::MAX && broken(rules::LOGICAL_WRAPS) {
            Timestamp { logical: 0, issuer: self.issuer, ..self.last }
        } else {
            Timestamp { issuer: self.issuer, ..self.last.successor() }
        };
        if next.nanos > self.ceiling {
            return Err(CeilingReached);
        }
        self.last = next;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_grow_and_stop_at_the_ceiling() {
        let mut issuer = Issuer::above(7, Timestamp::ZERO);
        assert_eq!(issuer.issue(10), Err(CeilingReached));
        issuer.raise_ceiling(10);
        let first = issuer.issue(10).unwrap();
        let second = issuer.issue(4).unwrap();
        assert!(second > first);
        assert_eq!(issuer.issue(11), Err(CeilingReached));
    }

    #[test]
    fn nothing_observed_is_issued_again() {
        let mut issuer = Issuer::above(1, Timestamp::ZERO);
        issuer.raise_ceiling(100);
        issuer.observe(Timestamp { nanos: 50, logical: 9, issuer: 2 });
        assert!(issuer.issue(20).unwrap() > Timestamp { nanos: 50, logical: 9, issuer: 2 });
    }
}
