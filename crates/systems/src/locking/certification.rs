//! Certification: a commit is refused if a row that it writes has a version above its snapshot
//! (Clock-SI §III-B, Algorithm 2, lines 6 and 24).
//!
//! The locks of the written rows are held when a commit is certified, and until it ends. So of two
//! commits under way that write one row, the second is certified after the first has ended: against
//! prepared and committing transactions too (Trap A.3-3). Waiting for each other ends, because the
//! older of two wounds the younger.

use super::Member;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::sometimes;
use meridian_mvcc::Write;
use meridian_txn::locking::MOST_TOKEN_AHEAD_NS;
use meridian_txn::shards::{Request, RequestBody};
use meridian_txn::snapshot::rules;
use meridian_txn::{Conflict, TransactionId};

impl Member {
    /// Begins to certify, as this member begins to serve: it knows what was agreed until now, and
    /// not which rows that wrote.
    pub(super) fn begin_to_certify(&mut self) {
        if let Some(recent) = &mut self.participant.recent {
            recent.begin(self.agreed);
        }
    }

    /// Remembers committed writes, unless no other transaction can meet them: there may be more
    /// of those than a leader remembers.
    pub(super) fn remember_writes(
        &mut self,
        transaction: TransactionId,
        writes: &[Write],
        at: Timestamp,
    ) {
        let this = &mut self.participant;
        let Some(recent) = this.recent.as_mut().filter(|_| self.serving) else { return };
        let private = this.active.get(&transaction).and_then(|active| active.private.as_ref());
        let met = |write: &&Write| private.is_none_or(|private| !private.contains(&write.key));
        writes.iter().filter(met).for_each(|write| recent.add(&write.key, at));
    }

    /// Returns why a commit or a prepare that holds its locks is refused: the first row that may
    /// have a version above its snapshot.
    pub(super) fn uncertified(&self, request: &Request) -> Option<Conflict> {
        let (snapshot, recent) = (request.snapshot.as_ref()?, self.participant.recent.as_ref()?);
        let (RequestBody::Commit { writes, .. } | RequestBody::Prepare { writes, .. }) =
            &request.body
        else {
            return None;
        };
        let mut written = writes.iter().filter_map(|write| {
            let at = recent.written_since(&write.key, snapshot)?;
            Some((write.key.clone(), at))
        });
        let (key, at) = written.next()?;
        sometimes!("a commit is refused because a row was written after its snapshot");
        Some(Conflict::WrittenSince { key, at: Some(at) })
    }

    /// True if the snapshot that a request reads or is certified against, or its token, is too far
    /// ahead to be true (Trap A.3-9): its commit would wait for that time with its locks.
    pub(super) fn is_far_ahead(&self, now: Reading, request: &Request) -> bool {
        if self.participant.recent.is_none() {
            return false;
        }
        let read = match &request.body {
            RequestBody::Snapshot { at, .. } => *at,
            // Ends and signs of life are never refused.
            RequestBody::Abort | RequestBody::KeepAlive | RequestBody::Withdraw => return false,
            _ => None,
        };
        let certified = request.snapshot.as_ref().map(|read| read.at);
        let ahead_ns = |at: Timestamp| at.nanos.saturating_sub(now.interval.latest);
        let far = |at: Timestamp| ahead_ns(at) > MOST_TOKEN_AHEAD_NS;
        read.max(certified).max(request.token).is_some_and(far)
    }

    /// Returns how long a commit still waits until this leader's clock has reached its snapshot and
    /// its session's token, in nanoseconds (Algorithm 1, line 21; Trap A.3-7). `None` if it need
    /// not wait; then timestamps are issued above both.
    ///
    /// The paper waits before it certifies. Here the commit waits with its locks, because it draws
    /// its timestamp afterwards, and for no longer than a leader's clock may be behind; a commit of
    /// the same rows meanwhile would make certification fail.
    pub(super) fn behind_snapshot(&mut self, now: Reading, request: &Request) -> Option<u64> {
        if self.participant.recent.is_none() || broken(rules::COMMIT_BELOW_SNAPSHOT) {
            return None;
        }
        let read = request.snapshot.as_ref().map(|read| read.at);
        let snapshot = read.max(request.token)?;
        let left = snapshot.nanos.saturating_sub(self.present(now).nanos);
        if left > 0 {
            sometimes!("a commit waits until the leader's clock has reached its snapshot");
            return Some(left);
        }
        self.issuer.observe(snapshot);
        None
    }
}
