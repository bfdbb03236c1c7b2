//! A session's side of TAPIR: sends an operation of inconsistent replication to a shard until its
//! result is known (TOCS'18 §3.1).

use super::{Message, Page};
use crate::tapir::rules;
use crate::{Next, Round, Wire};
use futures::stream::{FuturesUnordered, StreamExt};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId, sometimes};
use meridian_mvcc::{Chunk, Key, KeyRange, Value};
use meridian_replication::inconsistent::{Invocation, Message as Said, Op, OpId, View};
use meridian_replication::rules as replication_rules;
use meridian_txn::tapir::{
    Common, ConsensusOp, ConsensusResult, End, InconsistentOp, ReadResult, SnapshotRead, Turn,
    TxnStatus, Vote, decide, stands,
};
use meridian_txn::{Failure, Node};
use std::collections::BTreeMap;

/// The shortest wait for further answers once enough have arrived, in nanoseconds. They are awaited
/// for as long again as the first ones took.
const SHORTEST_WAIT_NS: u64 = 2_000_000;
/// How long a session pauses when there is no replica to ask, in nanoseconds.
const PAUSE_NS: u64 = 10_000_000;
/// After this time a session that is queued for its turn repeats its request, in nanoseconds: the
/// queue may be lost.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

/// Decides a shard's result from the answers of enough replicas; `quorum` answers are enough.
pub fn common(
    question: &ConsensusOp,
    answers: Vec<&ConsensusResult>,
    quorum: usize,
) -> ConsensusResult {
    if let [known] = answers[..] {
        return known.clone();
    }
    match question {
        ConsensusOp::Prepare(_) => {
            let vote = |answer: &&ConsensusResult| {
                if let ConsensusResult::Vote(vote) = answer { Some(*vote) } else { None }
            };
            let votes: Vec<Vote> = answers.iter().filter_map(vote).collect();
            ConsensusResult::Vote(decide(&votes, quorum))
        }
        ConsensusOp::Resolve { .. } => {
            let status = |answer: &&'_ ConsensusResult| {
                if let ConsensusResult::Stands(status) = answer {
                    Some(status.clone())
                } else {
                    None
                }
            };
            let standings: Vec<_> = answers.iter().filter_map(status).collect();
            ConsensusResult::Stands(stands(&standings))
        }
    }
}

/// Sends a question to a shard until its result is durable whatever fails, or the boot clock
/// reaches `until`.
pub async fn invoke<W: Wire<Message = Message>>(
    wire: &W,
    shard: ShardId,
    question: &ConsensusOp,
    until: u64,
) -> Option<Common> {
    let id = wire.new_id();
    let mut members = wire.members(shard);
    let mut heard: Invocation<ConsensusResult> = Invocation::new(members.epoch, members.enough()?);
    let mut tells: Option<ConsensusResult> = None;
    let asked_ns = wire.node().boot_ns();
    let mut repetition = 0;
    while !wire.node().is_closed() && wire.node().boot_ns() < until {
        let known = wire.members(shard);
        // Within an epoch the replicas are the same, so a decision from their answers stands: a
        // client decides once.
        if known.epoch != members.epoch || broken(rules::DECIDES_TWICE) && known != members {
            sometimes!("others take over while an operation is under way");
            (heard, tells) = (Invocation::new(known.epoch, known.enough()?), None);
        }
        members = known;
        let (enough, replicas) =
            (members.enough()?, Vec::from_iter(members.replicas.iter().copied()));
        let began_ns = wire.node().boot_ns();
        let round_ends = until.min(began_ns + wire.timeout_ns(&replicas, repetition));
        let mut round = wire.round(shard, id, round_ends);
        let newest = heard.view();
        // A decision from answers of an earlier view does not count in this one.
        let decided = heard.decided().unwrap_or_default();
        tells.take_if(|_| decided < newest);
        let propose = || {
            let op = Op::Consensus(question.clone());
            Message::Operation(Said::Propose { id, op, newest })
        };
        match &tells {
            None => round.ask(&heard.lacks(&replicas), &propose()),
            Some(result) => {
                let result = Some(result.clone());
                let finalize = Said::Finalize { id, result, newest, decided };
                round.ask(&replicas, &Message::Operation(finalize));
            }
        }
        let (quorum, mut enough_ns, mut decides) = (enough.quorum(), None, false);
        loop {
            let times_out_at = match enough_ns {
                Some(after_ns) => began_ns + 2 * after_ns + SHORTEST_WAIT_NS,
                None => round_ends,
            };
            let lacking = quorum.saturating_sub(heard.heard());
            let next = round.next(times_out_at.min(round_ends), lacking).await;
            let (node, at_ns, answer) = match next {
                Next::Answer { node, at_ns, answer } => (node, at_ns, answer),
                Next::All => break,
                Next::Late => {
                    decides = true;
                    break;
                }
            };
            match answer {
                Message::Operation(Said::Reply { view, state, .. }) => {
                    // Measured from the first request, which this may answer. A replica that was
                    // silent for longer was unreachable, or between two views.
                    if repetition < 2 {
                        wire.measured(node, Some(at_ns.saturating_sub(asked_ns)));
                    }
                    heard.on_reply(node, view, state);
                }
                Message::Operation(Said::Confirm { view, .. }) => heard.on_confirm(node, view),
                Message::Operation(Said::Missing { .. }) => {
                    sometimes!("a replica has not heard of what is decided");
                    round.ask(&[node], &propose());
                }
                _ => {}
            }
            let by_all = heard.by_all();
            if let Some(result) = heard.settled().or(heard.fast()) {
                if *result == ConsensusResult::Stands(TxnStatus::Open) {
                    let view = heard.view();
                    replicas.iter().for_each(|node| {
                        wire.send((shard, *node), Message::Operation(Said::Renew { view }))
                    });
                }
                return Some(Common { answer: result.clone(), by_all });
            }
            if tells.is_none() && heard.is_slow() && heard.answers().is_some() {
                decides = true;
                break;
            }
            if tells.is_none() && enough_ns.is_none() && heard.answers().is_some() {
                enough_ns = Some(wire.node().boot_ns() - began_ns);
            }
        }
        if tells.is_none()
            && let Some(answers) = heard.answers()
        {
            sometimes!("an operation takes the slow path");
            let answer = common(question, answers, enough.quorum());
            tells = Some(heard.decide(answer).clone());
            repetition = 0;
            continue;
        }
        drop(round);
        repetition += 1;
        if !decides {
            // No answer is outstanding in this round.
            wire.node().sleep_until(until.min(wire.node().boot_ns() + PAUSE_NS)).await;
        }
    }
    None
}

/// Sends the outcome of a transaction to all replicas of a shard. A replica that misses it keeps
/// the transaction prepared until recovery finds the outcome.
pub fn send_end<W: Wire<Message = Message>>(wire: &W, shard: ShardId, end: &End) {
    let id = wire.new_id();
    for node in wire.replicas(shard) {
        wire.send(
            (shard, node),
            Message::Operation(Said::Tell { id, op: InconsistentOp::Ended(end.clone()) }),
        );
    }
}

/// Reads a snapshot of a range: the newest versions that enough replicas have, where nothing else
/// can be written below the timestamp (§6.1). Returns `None` if there are not enough answers when
/// the boot clock reaches `until`. Answers count across rounds, so that the snapshot also succeeds
/// where replicas are farther away than a round lasts.
///
/// Only answers of one view count together, like those to proposals. A view may have begun at its
/// leader alone, without a transaction that got yes votes before, and be bypassed by the next view,
/// which has that transaction.
pub async fn look<W: Wire<Message = Message>>(
    wire: &W,
    shard: ShardId,
    range: &KeyRange,
    at: Timestamp,
    (reverse, limit): (bool, usize),
    until: u64,
) -> Option<Result<SnapshotRead, Failure>> {
    let (id, mut repetition) = (wire.new_id(), 0);
    let limit_rows = u32::try_from(limit).unwrap_or(u32::MAX);
    // Answers of replicas in the newest view stay valid: these replicas refuse later writes below
    // the snapshot.
    let (mut pages, mut newest) = (BTreeMap::<NodeId, Page>::new(), View::default());
    while !wire.node().is_closed() && wire.node().boot_ns() < until {
        let members = wire.members(shard);
        let (enough, epoch) = (members.enough()?.quorum(), members.epoch);
        if newest.epoch != epoch {
            (pages, newest) = (BTreeMap::new(), View { epoch, number: 0 });
        }
        let lacking: Vec<NodeId> =
            members.replicas.into_iter().filter(|node| !pages.contains_key(node)).collect();
        let round_ends = until.min(wire.node().boot_ns() + wire.timeout_ns(&lacking, repetition));
        let asked = lacking.into_iter().map(|node| {
            let message =
                Message::Look { id, at, range: range.clone(), reverse, limit_rows, epoch };
            async move { (node, look_at(wire, (shard, node), id, &message, round_ends).await) }
        });
        let (mut asked, mut too_old) = (asked.collect::<FuturesUnordered<_>>(), None);
        while let Some(said) = asked.next().await {
            match said {
                (_, Some(Message::Looked { page: Some(page), settled: true, .. })) => {
                    sometimes!("one replica alone serves what is settled");
                    return Some(Ok(looked(range, vec![page], (reverse, limit))));
                }
                (_, Some(Message::Looked { view, .. }))
                    if view.epoch != epoch && !broken(replication_rules::EPOCH_UNCHECKED) =>
                {
                    sometimes!("a snapshot's answer comes from another epoch");
                }
                (node, Some(Message::Looked { page: Some(page), view, .. })) => {
                    if view > newest && !broken(rules::VIEWS_MIXED) {
                        sometimes!("a snapshot's answers come from several views");
                        (pages, newest) = (BTreeMap::new(), view);
                    }
                    if view == newest
                        || broken(rules::VIEWS_MIXED)
                        || broken(replication_rules::EPOCH_UNCHECKED)
                    {
                        pages.insert(node, page);
                    }
                }
                (_, Some(Message::TooOld { oldest, .. })) => too_old = too_old.max(Some(oldest)),
                _ => {}
            }
            if pages.len() >= enough {
                return Some(Ok(looked(range, pages.into_values().collect(), (reverse, limit))));
            }
        }
        // Other replicas may keep older versions than one does.
        if let Some(oldest) = too_old {
            return Some(Err(Failure::BelowHorizon { oldest }));
        }
        repetition += 1;
        wire.node().sleep_until(until.min(wire.node().boot_ns() + PAUSE_NS)).await;
    }
    None
}

/// Asks one replica for its part of a snapshot, and repeats that while a transaction is prepared
/// below the snapshot there. Returns `None` if there is no other answer when the boot clock reaches
/// `until`.
async fn look_at<W: Wire<Message = Message>>(
    wire: &W,
    to: (ShardId, NodeId),
    id: OpId,
    look: &Message,
    until: u64,
) -> Option<Message> {
    while !wire.node().is_closed() && wire.node().boot_ns() < until {
        let said = wire.ask(to, id, look.clone(), until).await?;
        if !matches!(said, Message::Looked { page: None, .. }) {
            return Some(said);
        }
        wire.node().sleep_until(until.min(wire.node().boot_ns() + PAUSE_NS)).await;
    }
    None
}

/// Reads the newest versions of a range at one replica. Returns `None` if it has not answered when
/// the boot clock reaches `until`.
pub async fn read<W: Wire<Message = Message>>(
    wire: &W,
    from: (ShardId, NodeId),
    range: &KeyRange,
    (reverse, limit): (bool, usize),
    until: u64,
) -> Option<ReadResult> {
    let id = wire.new_id();
    let limit_rows = u32::try_from(limit).unwrap_or(u32::MAX);
    let asked_ns = wire.node().boot_ns();
    let answer = wire
        .ask(from, id, Message::Read { id, range: range.clone(), reverse, limit_rows }, until)
        .await;
    wire.measured(from.1, answer.is_some().then(|| wire.node().boot_ns() - asked_ns));
    match answer {
        Some(Message::Found { page, through, .. }) => {
            Some(ReadResult { chunk: page.chunk(), through })
        }
        _ => None,
    }
}

/// Waits for the turn of contested ranges at the first of a shard's replicas that answers, in the
/// order of node ids, so that sessions of all nodes queue at the same replica. Returns `None` if no
/// replica has given the turn when the boot clock reaches `until`.
pub async fn take_turn<W: Wire<Message = Message>>(
    wire: &W,
    (shard, key): (ShardId, Key),
    ranges: Vec<KeyRange>,
    holds_ns: u64,
    until: u64,
) -> Option<Turn> {
    let request = wire.new_id();
    // Each message has its own number, so that a late answer to an earlier one is not taken for its
    // answer.
    let take = |node: NodeId, waits: bool, until: u64| {
        let id = wire.new_id();
        let (key, ranges) = (key.clone(), ranges.clone());
        let message = Message::TakeTurn { id, request, key, holds_ns, waits, ranges };
        wire.ask((shard, node), id, message, until)
    };
    for node in wire.members(shard).replicas {
        let mut place = Place { wire, at: (shard, node), request, key: &key, leaves: true };
        let mut waited = false;
        while !wire.node().is_closed() && wire.node().boot_ns() < until {
            let times_out_at = until.min(wire.node().boot_ns() + wire.timeout_ns(&[node], 0));
            let mut said = take(node, false, times_out_at).await;
            if let Some(Message::Queued { .. }) = said {
                waited = true;
                said = take(node, true, until.min(wire.node().boot_ns() + ASK_AGAIN_NS)).await;
            } else if said.is_none() {
                break;
            }
            if let Some(Message::HasTurn { .. }) = said {
                place.leaves = false;
                drop(place);
                let (key, number) = ((shard, key), request.number);
                return Some(Turn { key, ranges, at: node, number, waited });
            }
        }
    }
    None
}

/// A request's place at a replica, left when this is dropped: also by a session that is gone.
struct Place<'a, W: Wire<Message = Message>> {
    wire: &'a W,
    at: (ShardId, NodeId),
    request: OpId,
    key: &'a Key,
    /// False once the session has its turn.
    leaves: bool,
}

impl<W: Wire<Message = Message>> Drop for Place<'_, W> {
    fn drop(&mut self) {
        if self.leaves {
            let leave = Message::Leave { request: self.request, key: self.key.clone() };
            self.wire.send(self.at, leave);
        }
    }
}

/// Passes a turn on to another session of this node.
pub fn keep_turn<W: Wire<Message = Message>>(wire: &W, turn: &Turn, holds_ns: u64) {
    let (shard, key) = turn.key.clone();
    wire.send((shard, turn.at), Message::KeepTurn { request: request(wire, turn), key, holds_ns });
}

/// Ends a turn.
pub fn leave<W: Wire<Message = Message>>(wire: &W, turn: &Turn) {
    let (shard, key) = turn.key.clone();
    wire.send((shard, turn.at), Message::Leave { request: request(wire, turn), key });
}

/// Returns the id under which a turn was requested.
fn request<W: Wire<Message = Message>>(wire: &W, turn: &Turn) -> OpId {
    let (node, incarnation) = wire.node().here();
    OpId { node: node.0, incarnation: incarnation.0, number: turn.number }
}

/// Merges pages: the newest version of each key, for the keys that all pages cover.
pub fn looked(range: &KeyRange, pages: Vec<Page>, (reverse, limit): (bool, usize)) -> SnapshotRead {
    let mut rest: Option<KeyRange> = None;
    let mut versions: BTreeMap<Key, (Timestamp, Option<Value>)> = BTreeMap::new();
    for page in pages {
        // The rests begin at different keys of the same range. The largest rest contains every key
        // that some page does not cover.
        let larger =
            |left: &KeyRange| page.rest.as_ref().is_none_or(|other| left.contains_range(other));
        rest = rest.filter(larger).or(page.rest);
        for (at, write) in page.versions {
            let known = versions.entry(write.key).or_default();
            if at >= known.0 {
                *known = (at, write.value);
            }
        }
    }
    let mut looked =
        SnapshotRead { chunk: Chunk { rest, ..Chunk::default() }, ..SnapshotRead::default() };
    let chunk = &mut looked.chunk;
    let beyond =
        |chunk: &Chunk, key: &Key| chunk.rest.as_ref().is_some_and(|rest| rest.contains(key));
    let mut all: Vec<(Key, (Timestamp, Option<Value>))> = versions.into_iter().collect();
    if reverse {
        all.reverse();
    }
    for (key, (at, value)) in all {
        if beyond(chunk, &key) {
            break;
        }
        if chunk.rows.len() == limit && value.is_some() {
            chunk.rest = Some(range.from_key(&key, reverse));
            break;
        }
        looked.newest = looked.newest.max(at);
        match value {
            Some(value) => {
                chunk.rows.push((key, value));
                chunk.at.push(at);
            }
            None => chunk.gone.push((key, at)),
        }
    }
    looked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distances;
    use futures::FutureExt;
    use meridian_clock::{Interval, Reading};
    use meridian_machine::Incarnation;
    use meridian_machine::planted::plant;
    use meridian_mvcc::Write;
    use meridian_replication::inconsistent::ReplicaSet;
    use meridian_replication::inconsistent::State;
    use meridian_txn::TransactionId;
    use meridian_txn::tapir::{Footprint, Proposal};
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    /// Replicas with scripted answers, by node and round.
    struct Replicas {
        answers: fn(u32, usize) -> Option<(View, u64)>,
        /// The only replica from the second round on, if the replicas change.
        then: Option<NodeId>,
        round: AtomicUsize,
        distances: parking_lot::Mutex<Distances>,
    }

    impl Replicas {
        fn that(answers: fn(u32, usize) -> Option<(View, u64)>, then: Option<NodeId>) -> Replicas {
            Replicas { answers, then, round: AtomicUsize::new(0), distances: Default::default() }
        }

        fn round(&self) -> usize {
            self.round.load(Ordering::Relaxed)
        }
    }

    impl Node for Replicas {
        fn now(&self) -> Reading {
            Reading::at(self.round() as u64 * PAUSE_NS, Interval::around(0, 0))
        }

        fn here(&self) -> (NodeId, Incarnation) {
            (NodeId(3), Incarnation(1))
        }

        fn new_number(&self) -> u64 {
            1
        }

        fn random(&self) -> f64 {
            0.0
        }

        fn random_below(&self, _: usize) -> usize {
            0
        }

        fn is_closed(&self) -> bool {
            false
        }

        fn is_full(&self) -> bool {
            false
        }

        fn reaches(&self, _: NodeId) -> bool {
            true
        }

        async fn sleep_until(&self, _: u64) {
            self.round.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wire for Replicas {
        type Message = Message;
        type Node = Self;

        fn node(&self) -> &Self {
            self
        }

        fn distances(&self) -> &parking_lot::Mutex<Distances> {
            &self.distances
        }

        fn members(&self, _: ShardId) -> ReplicaSet {
            let first = ReplicaSet::first([1, 2, 3].map(NodeId).into());
            let then = self.then.filter(|_| self.round() > 0);
            then.map(|node| first.then([node].into())).unwrap_or(first)
        }

        async fn ask(
            &self,
            to: (ShardId, NodeId),
            id: OpId,
            _: Message,
            _: u64,
        ) -> Option<Message> {
            let (view, nanos) = (self.answers)(to.1.0, self.round())?;
            let write = Write { key: Key::from(b"r".to_vec()), value: Some(Value::from(vec![0])) };
            let page = Page { versions: vec![(at(nanos), write)], rest: None };
            Some(Message::Looked { id, page: Some(page), settled: false, view })
        }

        fn send(&self, _: (ShardId, NodeId), _: Message) {}
    }

    fn reads(replicas: &Replicas) -> Timestamp {
        let range = KeyRange::point(Key::from(b"r".to_vec()));
        let looked = look(replicas, ShardId(1), &range, at(900), (false, 1), 10 * PAUSE_NS);
        looked
            .now_or_never()
            .flatten()
            .expect("enough replicas answer in the end")
            .expect("nothing is too old")
            .newest
    }

    /// Node 2 answers late, as one of three replicas; afterwards it is the only one. (A campaign
    /// found this: 25300712, `--moves 4`.)
    fn while_others_take_over() -> Timestamp {
        let answers = |node, round| match (node, round) {
            (2, 1) => Some((View { epoch: 0, number: 9 }, 78)),
            (2, 2..) => Some((View { epoch: 1, number: 0 }, 104)),
            _ => None,
        };
        reads(&Replicas::that(answers, Some(NodeId(2))))
    }

    /// Node 2 answers in a view that node 3 has not reached yet. (Seed 22000071 without turns, over
    /// continents.)
    fn while_a_view_begins() -> Timestamp {
        let answers = |node, round| match (node, round) {
            (3, 0) => Some((View { epoch: 0, number: 90 }, 78)),
            (2, 0) => Some((View { epoch: 0, number: 91 }, 78)),
            (1 | 3, 1..) => Some((View { epoch: 0, number: 93 }, 104)),
            _ => None,
        };
        reads(&Replicas::that(answers, None))
    }

    /// Replicas of which node 1 requires another timestamp and the others vote yes. The client's
    /// decision is lost. Then the change of replicas ends, so that there are no former ones any
    /// more, and node 1 is not reached.
    #[derive(Default)]
    struct Ending {
        told: Mutex<BTreeSet<Vote>>,
        asked: AtomicUsize,
        distances: parking_lot::Mutex<Distances>,
    }

    impl Node for Ending {
        fn now(&self) -> Reading {
            Reading::at(
                self.asked.load(Ordering::Relaxed) as u64 * PAUSE_NS,
                Interval::around(0, 0),
            )
        }

        fn here(&self) -> (NodeId, Incarnation) {
            (NodeId(4), Incarnation(1))
        }

        fn new_number(&self) -> u64 {
            1
        }

        fn random(&self) -> f64 {
            0.0
        }

        fn random_below(&self, _: usize) -> usize {
            0
        }

        fn is_closed(&self) -> bool {
            false
        }

        fn is_full(&self) -> bool {
            false
        }

        fn reaches(&self, _: NodeId) -> bool {
            true
        }

        async fn sleep_until(&self, _: u64) {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wire for Ending {
        type Message = Message;
        type Node = Self;

        fn node(&self) -> &Self {
            self
        }

        fn distances(&self) -> &parking_lot::Mutex<Distances> {
            &self.distances
        }

        fn members(&self, _: ShardId) -> ReplicaSet {
            let first = ReplicaSet::first([1, 2, 4].map(NodeId).into());
            let then = first.then([1, 2, 3].map(NodeId).into());
            let former = if self.told.lock().expect("one thread").is_empty() {
                then.former
            } else {
                BTreeSet::new()
            };
            ReplicaSet { former, ..then }
        }

        async fn ask(
            &self,
            to: (ShardId, NodeId),
            id: OpId,
            message: Message,
            _: u64,
        ) -> Option<Message> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut told = self.told.lock().expect("one thread");
            let vote = match (message, to.1.0) {
                (
                    Message::Operation(Said::Finalize {
                        result: Some(ConsensusResult::Vote(vote)),
                        ..
                    }),
                    _,
                ) => {
                    told.insert(vote);
                    return None;
                }
                (_, 1) if told.is_empty() => Vote::Retry(at(90)),
                (_, 2) => Vote::Ok,
                (_, 3) if !told.is_empty() => Vote::Ok,
                _ => return None,
            };
            let (view, state) =
                (View { epoch: 1, number: 5 }, State::Tentative(Some(ConsensusResult::Vote(vote))));
            Some(Message::Operation(Said::Reply { id, view, state }))
        }

        fn send(&self, _: (ShardId, NodeId), _: Message) {}
    }

    fn decided_while_a_change_ends() -> BTreeSet<Vote> {
        let (transaction, wire) =
            (TransactionId { node: 4, incarnation: 1, number: 1 }, Ending::default());
        let footprint =
            Footprint { reads: Vec::new(), writes: Vec::new(), participants: vec![ShardId(0)] };
        let proposal =
            Proposal { transaction, attempt: 0, at: at(10), footprint: Arc::new(footprint) };
        let question = ConsensusOp::Prepare(proposal);
        let invoked = invoke(&wire, ShardId(0), &question, 50 * PAUSE_NS);
        assert!(invoked.now_or_never().flatten().is_none(), "nothing is confirmed");
        wire.told.into_inner().expect("one thread")
    }

    #[test]
    fn a_client_decides_once_also_while_a_change_of_replicas_ends() {
        assert_eq!(decided_while_a_change_ends(), [Vote::Retry(at(90))].into());
        let planted = std::thread::spawn(|| {
            plant(Some(rules::DECIDES_TWICE), true);
            decided_while_a_change_ends()
        });
        assert_eq!(planted.join().expect("it decides").len(), 2, "it is noticed");
    }

    #[test]
    fn answers_of_another_epoch_or_of_different_views_do_not_count_together() {
        assert_eq!((while_others_take_over(), while_a_view_begins()), (at(104), at(104)));
    }

    #[test]
    fn that_they_count_is_noticed() {
        let with = |rule, reads: fn() -> Timestamp| {
            let planted = std::thread::spawn(move || {
                plant(Some(rule), true);
                reads()
            });
            planted.join().expect("it reads")
        };
        assert_eq!(with(replication_rules::EPOCH_UNCHECKED, while_others_take_over), at(78));
        assert_eq!(with(rules::VIEWS_MIXED, while_a_view_begins), at(78));
    }
}
