//! The wording of the transcripts: sessions by their names, timestamps in milliseconds since the
//! script began.

use super::BEGINNING;
use super::nodes::number;
use meridian_clock::{Timestamp, TimestampRange};
use meridian_machine::{Address, Role};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_systems::locking::Message;
use meridian_txn::TransactionId;
use meridian_txn::shards::{RequestBody, Response};
use meridian_txn::two_phase::{ParticipantMessage, Vote};
use std::collections::BTreeMap;

/// The names of sessions, by the nodes and numbers of their transactions.
#[derive(Default)]
pub struct Names(BTreeMap<(usize, u64), String>);

pub fn moment(at: Timestamp) -> String {
    if at == Timestamp::MAX {
        return "the end".into();
    }
    let text = format!("{:.6}", (at.nanos as f64 - BEGINNING as f64) / 1e6);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if at.logical == 0 { text.to_owned() } else { format!("{text}+{}", at.logical) }
}

fn key(key: &Key) -> String {
    String::from_utf8_lossy(key.as_ref()).into_owned()
}

fn keys(range: &KeyRange) -> String {
    let point = *range == KeyRange::point(range.start.clone());
    if point { key(&range.start) } else { format!("{} and above", key(&range.start)) }
}

pub fn write(write: &Write) -> String {
    let value = write.value.as_ref();
    let value = value.map_or("nothing".into(), |value| String::from_utf8_lossy(value).into_owned());
    format!("{}={value}", key(&write.key))
}

pub fn writes(writes: &[Write]) -> String {
    writes.iter().map(write).collect::<Vec<_>>().join(" ")
}

fn request(body: &RequestBody) -> Option<String> {
    Some(match body {
        RequestBody::Read { range, lock, .. } => format!("lock {} {lock:?}", keys(range)),
        RequestBody::Snapshot { at: Some(at), range, .. } => {
            format!("read {} at {}", keys(range), moment(*at))
        }
        RequestBody::Snapshot { at: None, range, .. } => format!("read {} now", keys(range)),
        RequestBody::Commit { writes: all, participants, .. } if participants.is_empty() => {
            format!("commit {}", writes(all))
        }
        RequestBody::Commit { writes: all, participants, .. } => {
            let with: Vec<String> =
                participants.iter().map(|shard| format!("s{}", shard.0 + 1)).collect();
            format!("commit {} with {}", writes(all), with.join(" "))
        }
        RequestBody::Prepare { writes: all, .. } => format!("prepare {}", writes(all)),
        RequestBody::LastTs { range } => format!("newest commit of {}", keys(range)),
        RequestBody::Abort => "abort".into(),
        RequestBody::SnapshotTimestamp => "a snapshot?".into(),
        _ => return None,
    })
}

fn response(response: &Response) -> String {
    match response {
        Response::Rows { at, rows, .. } => {
            let rows: Vec<Write> = rows
                .iter()
                .map(|(key, value)| Write { key: key.clone(), value: Some(value.clone()) })
                .collect();
            let found = if rows.is_empty() { "nothing".to_owned() } else { writes(&rows) };
            format!("{found}, as of {}", moment(*at))
        }
        Response::Committed { at, .. } => format!("committed at {}", moment(*at)),
        Response::Aborted { why, .. } => format!("aborted: {why}"),
        Response::Prepared { .. } => "prepared".into(),
        Response::SnapshotTimestamp { at, .. } => format!("snapshot {}", moment(*at)),
        Response::LastTs { at, .. } => format!("newest commit at {}", moment(*at)),
        Response::Refused { why, .. } => format!("refused: {why}"),
        Response::Waiting { .. } => "waits".into(),
        other => format!("{other:?}"),
    }
}

impl Names {
    pub fn call(&mut self, node: usize, transaction: u64, name: &str) {
        self.0.insert((node, transaction), name.to_owned());
    }

    fn of(&self, node: usize, transaction: u64) -> &str {
        self.0.get(&(node, transaction)).map_or("a session", String::as_str)
    }

    fn transaction(&self, of: &TransactionId) -> &str {
        self.of(of.node as usize - 1, of.number)
    }

    fn place(&self, address: Address) -> String {
        match address.role {
            Role::Coordinator(transaction) => self.of(number(address.node), transaction).to_owned(),
            _ => format!("s{}", address.shard.0 + 1),
        }
    }

    /// Returns a message as text, if it is about a transaction.
    pub fn message(&self, from: Address, to: Address, message: &Message) -> Option<String> {
        let what = match message {
            Message::Request(asked) => {
                let token = asked.token.map(|token| format!("; token {}", moment(token)));
                let snapshot = asked
                    .snapshot
                    .as_ref()
                    .map(|snapshot| format!("; snapshot {}", moment(snapshot.at)));
                request(&asked.body)? + &token.unwrap_or_default() + &snapshot.unwrap_or_default()
            }
            Message::Response(answer) => response(answer),
            Message::AskTimestamps { count, .. } => match count {
                1 => "a commit timestamp?".into(),
                count => format!("{count} commit timestamps?"),
            },
            Message::Timestamps { range: TimestampRange { first, count }, .. } => match count {
                1 => format!("commit timestamp {}", moment(*first)),
                count => format!("{count} commit timestamps from {}", moment(*first)),
            },
            Message::Participant(ParticipantMessage::Vote { transaction, vote, .. }) => {
                let of = self.transaction(transaction);
                match vote {
                    Vote::Prepared { at, .. } => format!("{of} is prepared at {}", moment(*at)),
                    Vote::Read { .. } => format!("{of} has only read here"),
                    Vote::No { why } => format!("{of} is refused: {why}"),
                }
            }
            Message::Participant(ParticipantMessage::Decided { transaction, at, .. }) => {
                let of = self.transaction(transaction);
                let outcome = at.map(|at| format!("has committed at {}", moment(at)));
                format!("{of} {}", outcome.unwrap_or_else(|| "is aborted".into()))
            }
            _ => return None,
        };
        Some(format!("{} → {}: {what}", self.place(from), self.place(to)))
    }
}
