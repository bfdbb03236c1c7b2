//! The rows of notifications.

use super::Action;
use super::inbox::Notification;
use crate::error::SqlError;
use crate::kv;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Failure, Lock, Transaction};
use minicbor::{Decode, Encode};

/// The number of rows that are read at once.
const CHUNK_ROWS: usize = 1000;

#[derive(Encode, Decode)]
struct Row {
    /// The process number of the session that notifies.
    #[n(0)]
    pid: i32,
    #[n(1)]
    channel: String,
    #[n(2)]
    payload: String,
}

/// Returns the key of a transaction's notification, made at a time in nanoseconds since 1970.
fn key(made_ns: u64, age: Age, number: u32) -> Key {
    let mut bytes = kv::NOTIFICATIONS.to_vec();
    bytes.extend(made_ns.to_be_bytes());
    bytes.extend(age.began_ns.to_be_bytes());
    bytes.extend(age.node.to_be_bytes());
    bytes.extend(age.number.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    kv::to_key(bytes)
}

/// Returns when a key was made, in nanoseconds since 1970.
pub(super) fn made_ns(key: &Key) -> Result<u64, SqlError> {
    let bytes = key.0.strip_prefix(&kv::NOTIFICATIONS).and_then(|rest| rest.first_chunk());
    let bytes = bytes.ok_or_else(|| SqlError::corrupted("the key of a notification"))?;
    Ok(u64::from_be_bytes(*bytes))
}

/// Decodes a row.
pub(super) fn decode(value: &Value) -> Result<Notification, SqlError> {
    let Row { pid, channel, payload } = minicbor::decode(&value.0)
        .map_err(|error| SqlError::corrupted(format!("a notification: {error}")))?;
    Ok(Notification { pid, channel, payload })
}

/// Writes the notifications among the actions of a transaction, at a time in nanoseconds since
/// 1970.
pub(super) fn write(
    txn: &mut dyn Transaction,
    actions: &[Action],
    pid: i32,
    now_ns: u64,
) -> Result<(), Failure> {
    let mut number = 0;
    for action in actions {
        let Action::Notify { channel, payload } = action else { continue };
        let row = Row { pid, channel: channel.clone(), payload: payload.clone() };
        let bytes = minicbor::to_vec(&row).expect("invariant: a vector takes all bytes");
        txn.put(key(now_ns, txn.age(), number), Some(kv::to_value(bytes)))?;
        number += 1;
    }
    Ok(())
}

/// Visits the rows whose keys were made at a time or later, with the timestamps of their commits.
pub(super) async fn visit(
    txn: &mut dyn Transaction,
    from_ns: u64,
    mut see: impl FnMut(Key, Timestamp, Value),
) -> Result<(), Failure> {
    txn.show_versions();
    let mut range = kv::prefix_range(&kv::NOTIFICATIONS);
    range.start = kv::to_key([&kv::NOTIFICATIONS[..], &from_ns.to_be_bytes()].concat());
    let mut rest = Some(range);
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, CHUNK_ROWS).await?;
        for ((key, value), at) in chunk.rows.into_iter().zip(chunk.at) {
            see(key, at.unwrap_or(Timestamp::ZERO), value);
        }
        rest = chunk.rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_when_it_was_made_and_keys_are_in_that_order() {
        let age = |number| Age { began_ns: 9, node: 1, number };
        let keys = [key(1, age(9), 7), key(2, age(1), 0), key(2, age(1), 1), key(2, age(2), 0)];
        assert!(keys.is_sorted());
        assert_eq!(keys.each_ref().map(|key| made_ns(key).ok()), [1, 2, 2, 2].map(Some));
        assert!(made_ns(&kv::to_key(vec![1, 15, 0])).is_err());
    }
}
