//! Recovery of a transaction whose coordinator is gone.
//!
//! ```text
//!   any node ── Resolve ──▶ every participant    Open: a view begins with the operation; retried
//!                                                Committed or Aborted: the outcome
//!                                                all Prepared, the same attempt: it has committed
//!                                                anything else: it has not, and never will
//!            ── End ──────▶ every participant
//! ```
//!
//! The papers elect a backup coordinator in a backup shard, which polls the participants. Here the
//! result of the replicas of a view does not change, and the outcome is a function of these
//! results: every recovery finds the same outcome, and so does a coordinator that was only slow. So
//! no coordinator is elected, no outcome is logged before it is sent, and any number of nodes may
//! recover one transaction at once (Trap A.2-12).

use super::{ConsensusOp, ConsensusResult, End, Proposal, Shards, TxnStatus};
use crate::tapir::rules;
use crate::{Node, TransactionId, knows_time};
use futures::future::join_all;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};

/// The distance above now to which an `Abort` closes a transaction's timestamps, in nanoseconds: a
/// coordinator that does not know of the abort may still propose it there.
const FAR_NS: u64 = 20_000_000_000;
/// The pause before a retry, in nanoseconds; a view has mostly begun by then.
const PAUSE_NS: u64 = 50_000_000;

/// Determines the outcome of a transaction and sends it to every participant. Returns true if it
/// has committed, and `None` if the outcome cannot be determined before the boot clock reaches
/// `until`.
pub async fn recover<S: Shards>(
    shards: &S,
    txn: TransactionId,
    participants: &[ShardId],
    until: u64,
) -> Option<bool> {
    if !knows_time(shards.node()).await {
        return None;
    }
    let through = Timestamp::end_of(shards.node().now().interval.latest.saturating_add(FAR_NS));
    let asked = participants.iter().map(|shard| resolve(shards, *shard, (txn, through), until));
    let stands: Option<Vec<TxnStatus>> = join_all(asked).await.into_iter().collect();
    let stands = stands?;
    let outcome = outcome(&stands)?;
    // A state that names other participants, or none, is not used: the outcome would not be that of
    // all participants.
    let named = |status: &TxnStatus| match status {
        TxnStatus::Committed(proposal) | TxnStatus::Prepared(proposal) => {
            proposal.participants == participants
        }
        _ => true,
    };
    if participants.is_empty() || !stands.iter().all(named) {
        return None;
    }
    let proposals: Option<Vec<Proposal>> = stands.into_iter().map(proposal).collect();
    match (outcome, proposals) {
        (true, Some(proposals)) => {
            sometimes!("a transaction is recovered that has committed");
            // Where only the name is left every replica has the commit.
            for (shard, proposal) in
                participants.iter().zip(proposals).filter(|(_, proposal)| !proposal.is_name())
            {
                shards.send(*shard, End::Commit(proposal));
            }
        }
        // The transaction cannot have committed if a participant has not prepared it: no outcome is
        // sent.
        (true, None) => return None,
        (false, _) => {
            sometimes!("a transaction is recovered that has not committed");
            participants.iter().for_each(|shard| {
                shards.send(*shard, End::Abort { transaction: txn, at: through })
            });
        }
    }
    Some(outcome)
}

fn proposal(status: TxnStatus) -> Option<Proposal> {
    match status {
        TxnStatus::Committed(proposal) | TxnStatus::Prepared(proposal) => Some(proposal),
        _ => None,
    }
}

/// Returns true if a transaction in these states has committed; `None` if a state is still open.
fn outcome(stands: &[TxnStatus]) -> Option<bool> {
    if stands.contains(&TxnStatus::Open) {
        return None;
    }
    let any = |is: fn(&TxnStatus) -> bool| stands.iter().any(is);
    if any(|status| matches!(status, TxnStatus::Committed(_))) {
        return Some(true);
    }
    if any(|status| matches!(status, TxnStatus::Aborted | TxnStatus::Never)) {
        return Some(false);
    }
    let attempt = |status: &TxnStatus| match status {
        TxnStatus::Prepared(proposal) => Some(proposal.attempt),
        _ => None,
    };
    let first = stands.first().and_then(attempt);
    Some(stands.iter().all(|status| attempt(status) == first) || broken(rules::ATTEMPTS_MIXED))
}

/// Returns the state of a transaction in one shard, which prepares no attempt of it up to a
/// timestamp from then on.
async fn resolve<S: Shards>(
    shards: &S,
    shard: ShardId,
    (transaction, through): (TransactionId, Timestamp),
    until: u64,
) -> Option<TxnStatus> {
    while shards.node().now().boot_ns < until && !shards.node().is_closed() {
        match shards
            .ask(shard, ConsensusOp::Resolve { transaction, through }, until)
            .await
            .map(|common| common.answer)
        {
            Some(ConsensusResult::Stands(status)) if status != TxnStatus::Open => {
                return Some(status);
            }
            _ => {}
        }
        shards.node().sleep_until(shards.node().now().boot_ns + PAUSE_NS).await;
    }
    None
}
