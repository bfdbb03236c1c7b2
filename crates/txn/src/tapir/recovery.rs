//! What became of a transaction whose coordinator is gone.
//!
//! ```text
//!   anybody ── Resolve ──▶ every participant        open?  a view begins with the question, and it is asked again
//!                                                   Committed, Aborted: so it is
//!                                                   all Prepared, the same attempt: it has committed
//!                                                   anything else: it has not, and never will
//!           ── End ──────▶ every participant
//! ```
//!
//! The papers elect a coordinator in a backup shard, and let it poll. Here what the replicas of a
//! view say is a fact that does not change, and the outcome a function of the facts: whoever asks
//! finds the same, also the coordinator that was only slow. So there is nobody to elect, no outcome
//! to write down before it is told, and any number may recover one transaction at once (Trap
//! A.2-12).

use super::{Answer, End, Proposal, Question, Shards, Standing};
use crate::tapir::rules;
use crate::{Node, TransactionId, knows_time};
use futures::future::join_all;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};

/// An aborted transaction may still be proposed by who does not know it, at timestamps below now
/// and this much.
const FAR_NS: u64 = 20_000_000_000;
/// A view has begun by then, mostly.
const PAUSE_NS: u64 = 50_000_000;

/// Finds out, and tells everybody who took part; whether it has committed. `None`, if that cannot
/// be found out by the time that the boot clock reaches `until`.
pub async fn recover<S: Shards>(
    shards: &S,
    who: TransactionId,
    participants: &[ShardId],
    until: u64,
) -> Option<bool> {
    if !knows_time(shards.node()).await {
        return None;
    }
    let through = Timestamp::end_of(shards.node().now().interval.latest.saturating_add(FAR_NS));
    let asked = participants.iter().map(|shard| resolve(shards, *shard, (who, through), until));
    let stands: Option<Vec<Standing>> = join_all(asked).await.into_iter().collect();
    let stands = stands?;
    let outcome = outcome(&stands)?;
    // Who names others, or nobody, is not believed: the outcome would not be that of all who take
    // part.
    let named = |standing: &Standing| match standing {
        Standing::Committed(proposal) | Standing::Prepared(proposal) => {
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
            // Where only its name is left everybody knows.
            for (shard, proposal) in
                participants.iter().zip(proposals).filter(|(_, proposal)| !proposal.is_name())
            {
                shards.tell(*shard, End::Commit(proposal));
            }
        }
        // It cannot have committed where somebody has not said yes: nothing is told.
        (true, None) => return None,
        (false, _) => {
            sometimes!("a transaction is recovered that has not committed");
            participants.iter().for_each(|shard| {
                shards.tell(*shard, End::Abort { transaction: who, at: through })
            });
        }
    }
    Some(outcome)
}

fn proposal(standing: Standing) -> Option<Proposal> {
    match standing {
        Standing::Committed(proposal) | Standing::Prepared(proposal) => Some(proposal),
        _ => None,
    }
}

/// Whether a transaction that stands so everywhere has committed.
fn outcome(stands: &[Standing]) -> Option<bool> {
    if stands.contains(&Standing::Open) {
        return None;
    }
    let any = |is: fn(&Standing) -> bool| stands.iter().any(is);
    if any(|standing| matches!(standing, Standing::Committed(_))) {
        return Some(true);
    }
    if any(|standing| matches!(standing, Standing::Aborted | Standing::Never)) {
        return Some(false);
    }
    let attempt = |standing: &Standing| match standing {
        Standing::Prepared(proposal) => Some(proposal.attempt),
        _ => None,
    };
    let first = stands.first().and_then(attempt);
    Some(stands.iter().all(|standing| attempt(standing) == first) || broken(rules::ATTEMPTS_MIXED))
}

/// How it stands in one shard, which prepares nothing more of it up to a timestamp.
async fn resolve<S: Shards>(
    shards: &S,
    shard: ShardId,
    (transaction, through): (TransactionId, Timestamp),
    until: u64,
) -> Option<Standing> {
    while shards.node().now().boot_ns < until && !shards.node().is_closed() {
        match shards
            .ask(shard, Question::Resolve { transaction, through }, until)
            .await
            .map(|common| common.answer)
        {
            Some(Answer::Stands(standing)) if standing != Standing::Open => return Some(standing),
            _ => {}
        }
        shards.node().sleep_until(shards.node().now().boot_ns + PAUSE_NS).await;
    }
    None
}
