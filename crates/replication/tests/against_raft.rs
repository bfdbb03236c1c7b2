//! Compares the group with another implementation of Raft: for the same member and the same message
//! both must decide the same.
//!
//! Random members with random logs receive a message of a candidate or leader whose log agrees with
//! everything that is agreed. Whether the vote is granted, whether the append is accepted, and the
//! resulting log and commit index must be the same as in the `raft` crate. Features of only one of
//! the two (leases here, hints for a refused append there) are left out.

use bytes::Bytes;
use meridian_machine::{
    Address, DatabaseId, Effect, Interval, Machine, NodeId, Outbox, Reading, ShardId,
};
use meridian_replication::group::{
    Config, Entry, Group, Index, Message, Payload, Record, Restored, Term,
};
use raft::eraftpb::{Entry as PeerEntry, Message as PeerMessage, MessageType};
use raft::storage::MemStorage;
use raft::{RawNode, Storage};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const NOW_NS: u64 = 1_000_000_000_000;

/// The state of a member in both implementations. The term of the entry at index 1 comes first.
#[derive(Clone, Debug)]
struct Member {
    term: u64,
    voted_for: Option<u32>,
    log: Vec<u64>,
    commit: usize,
}

/// The result of a message.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    accepted: bool,
    log: Vec<u64>,
    commit: u64,
    term: u64,
}

/// A message of another member.
#[derive(Clone, Debug)]
enum Said {
    Vote { term: u64, last_index: u64, last_term: u64 },
    Append { term: u64, prev_index: u64, prev_term: u64, entries: Vec<u64>, commit: u64 },
}

fn ours(member: &Member, said: &Said) -> Outcome {
    let entry = |(at, term): (usize, &u64)| Entry {
        index: Index(at as u64 + 1),
        term: Term(*term),
        payload: Payload(Bytes::from(vec![1])),
        members: None,
    };
    let voted_for = member.voted_for.map(NodeId);
    let hard_state = Record::HardState { term: Term(member.term), voted_for, grant: None };
    let entries: Vec<Entry> = member.log.iter().enumerate().map(entry).collect();
    let applied_term = member.commit.checked_sub(1).map_or(0, |at| member.log[at]);
    let restored = Restored {
        records: vec![Record::Append { entries }, hard_state],
        applied: Index(member.commit as u64),
        applied_term: Term(applied_term),
    };
    let nodes = [1, 2, 3].map(NodeId).to_vec();
    let config = Config::new(NodeId(1), nodes, DatabaseId(1), ShardId(0));
    let lease_ns = config.lease_ns;
    let now = Reading::at(NOW_NS, Interval::around(NOW_NS, 1));
    let mut out = Outbox::new();
    let mut group = Group::new(config, 1, restored, now, &mut out);
    let message = match said.clone() {
        Said::Vote { term, last_index, last_term } => Message::Vote {
            term: Term(term),
            last_index: Index(last_index),
            last_term: Term(last_term),
            asked_at: 0,
        },
        Said::Append { term, prev_index, prev_term, entries, commit } => Message::Append {
            term: Term(term),
            prev_index: Index(prev_index),
            prev_term: Term(prev_term),
            entries: (prev_index as usize..).zip(&entries).map(entry).collect(),
            commit: Index(commit),
            asked_at: NOW_NS,
            since: Index(0),
            witness: false,
            lease_ns,
        },
    };
    group.on_message(
        now,
        Address::replica(NodeId(2), DatabaseId(1), ShardId(0)),
        message,
        &mut out,
    );
    // A refused append may still renew the lease and answer so; a vote that is not granted is not
    // answered.
    let mut accepted = matches!(said, Said::Append { .. });
    loop {
        let (mut through, effects): (_, Vec<_>) = (None, out.drain().collect());
        for effect in effects {
            match effect {
                Effect::Persist { position, .. } => through = Some(position),
                Effect::Send { message: Message::VoteReply { granted, .. }, .. } => {
                    accepted |= granted
                }
                Effect::Send { message: Message::Refused { .. }, .. } => accepted = false,
                _ => {}
            }
        }
        let Some(through) = through else { break };
        group.on_durable(now, through, &mut out);
    }
    let logged = group.checkpoint().into_iter().flat_map(|record| match record {
        Record::Append { entries } => entries,
        _ => Vec::new(),
    });
    Outcome {
        accepted,
        log: logged.map(|entry| entry.term.0).collect(),
        commit: group.commit_index().0,
        term: group.term().0,
    }
}

fn theirs(member: &Member, said: &Said) -> Outcome {
    let entry = |(at, term): (usize, &u64)| {
        let mut entry = PeerEntry::default();
        (entry.index, entry.term, entry.data) = (at as u64 + 1, *term, vec![1].into());
        entry
    };
    let storage = MemStorage::new_with_conf_state((vec![1, 2, 3], vec![]));
    let entries: Vec<PeerEntry> = member.log.iter().enumerate().map(entry).collect();
    {
        let mut core = storage.wl();
        core.append(&entries).expect("the log begins at index 1");
        let state = core.mut_hard_state();
        (state.term, state.commit) = (member.term, member.commit as u64);
        state.vote = member.voted_for.map_or(0, u64::from);
    }
    let config =
        raft::Config { id: 1, election_tick: 10, heartbeat_tick: 1, ..raft::Config::default() };
    let mut node =
        RawNode::with_default_logger(&config, storage.clone()).expect("the node can be created");
    let mut message = PeerMessage::default();
    (message.from, message.to) = (2, 1);
    match said.clone() {
        Said::Vote { term, last_index, last_term } => {
            message.set_msg_type(MessageType::MsgRequestVote);
            (message.term, message.index, message.log_term) = (term, last_index, last_term);
        }
        Said::Append { term, prev_index, prev_term, entries, commit } => {
            message.set_msg_type(MessageType::MsgAppend);
            (message.term, message.index, message.log_term, message.commit) =
                (term, prev_index, prev_term, commit);
            message.entries =
                (prev_index as usize..).zip(&entries).map(entry).collect::<Vec<_>>().into();
        }
    }
    node.step(message).expect("the message is accepted");
    let mut accepted = false;
    if node.has_ready() {
        let mut ready = node.ready();
        let answers = ready.take_messages().into_iter().chain(ready.take_persisted_messages());
        for answer in answers.filter(|answer| answer.to == 2) {
            accepted = match answer.get_msg_type() {
                MessageType::MsgRequestVoteResponse | MessageType::MsgAppendResponse => {
                    !answer.reject && answer.term == said.term()
                }
                _ => accepted,
            };
        }
    }
    let log = &node.raft.raft_log;
    let terms =
        (1..=log.last_index()).map(|index| log.term(index).expect("the entry is in the log"));
    assert_eq!(storage.first_index().ok(), Some(1));
    Outcome { accepted, log: terms.collect(), commit: log.committed, term: node.raft.term }
}

impl Said {
    fn term(&self) -> u64 {
        match self {
            Said::Vote { term, .. } | Said::Append { term, .. } => *term,
        }
    }
}

/// Returns random terms that never fall, from `from` to `newest`.
fn terms(rng: &mut ChaCha8Rng, from: u64, newest: u64, most: usize) -> Vec<u64> {
    let count = rng.random_range(0..=most);
    let mut terms: Vec<u64> = (0..count).map(|_| rng.random_range(from.max(1)..=newest)).collect();
    terms.sort_unstable();
    terms
}

/// Returns a random member, and the log of another one that has the member's agreed entries.
fn pair(rng: &mut ChaCha8Rng) -> (Member, Vec<u64>) {
    let newest = rng.random_range(1..5);
    let shared = terms(rng, 1, newest, 5);
    let last = shared.last().copied().unwrap_or(1);
    let commit = rng.random_range(0..=shared.len());
    let (mut log, mut other) = (shared.clone(), shared);
    log.extend(terms(rng, last, newest, 4));
    let mut tail = terms(rng, last, newest, 4);
    // Entries of one term at one index are the same entry.
    let at = log.len().min(other.len() + tail.len());
    for place in other.len()..at {
        let own = log[place];
        if tail[place - other.len()] == own
            && log[..place] != [&other[..], &tail[..place - other.len()]].concat()[..]
        {
            tail.truncate(place - other.len());
            break;
        }
    }
    other.extend(tail);
    let term = rng.random_range(log.last().copied().unwrap_or(1)..=newest + 1);
    let voted_for = [None, Some(2), Some(3)][rng.random_range(0..3)];
    (Member { term, voted_for, log, commit }, other)
}

#[test]
fn votes_are_given_to_the_same_candidates() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut given = 0;
    for case in 0..4_000 {
        let (member, candidate) = pair(&mut rng);
        let last_term = candidate.last().copied().unwrap_or(0);
        let term = rng.random_range(
            member.term.saturating_sub(1).max(last_term).max(1)..=member.term.max(last_term) + 1,
        );
        let said = Said::Vote { term, last_index: candidate.len() as u64, last_term };
        let (ours, theirs) = (ours(&member, &said), theirs(&member, &said));
        assert_eq!(ours, theirs, "case {case}: {member:?} received {said:?}");
        given += usize::from(ours.accepted);
    }
    assert!((400..3_600).contains(&given), "{given} votes granted: the cases are one-sided");
}

#[test]
fn appends_leave_the_same_log_agreed_as_far() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut taken, mut replaced) = (0, 0);
    for case in 0..4_000 {
        let (mut member, leader) = pair(&mut rng);
        member.voted_for = None;
        let newest =
            leader.last().copied().unwrap_or(1).max(member.log.last().copied().unwrap_or(1));
        let term = rng
            .random_range(member.term.saturating_sub(1).max(newest)..=member.term.max(newest) + 1);
        if leader.len() < member.commit {
            continue;
        }
        let prev = rng.random_range(member.commit..=leader.len());
        let end = rng.random_range(prev..=leader.len());
        let said = Said::Append {
            term,
            prev_index: prev as u64,
            prev_term: prev.checked_sub(1).map_or(0, |at| leader[at]),
            entries: leader[prev..end].to_vec(),
            commit: rng.random_range(0..=leader.len()) as u64,
        };
        let (ours, theirs) = (ours(&member, &said), theirs(&member, &said));
        assert_eq!(ours, theirs, "case {case}: {member:?} received {said:?}");
        taken += usize::from(ours.accepted);
        replaced += usize::from(!ours.log.starts_with(&member.log));
    }
    assert!(
        taken > 1_000 && replaced > 50,
        "{taken} appends accepted, {replaced} logs truncated: the cases are one-sided"
    );
}
