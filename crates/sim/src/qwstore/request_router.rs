//! The reads of QWStore sessions at their own node's replica.

use super::QwStore;
use crate::leaderless::{self, Leaderless};
use meridian_clock::Timestamp;
use meridian_mvcc::{KeyRange, StoreError};
use meridian_replication::inconsistent::OpId;
use meridian_store::ShardStore;
use meridian_systems::baselines::qwstore::{Local, Message};
use meridian_txn::{Failure, Rows};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// The largest result of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// The node's own replica, as its sessions read it.
#[derive(Default)]
pub struct Own {
    shard_store: OnceLock<Arc<ShardStore>>,
    damage: Mutex<Option<StoreError>>,
}

impl Own {
    /// Sets the store of the replica that has begun.
    pub fn set_shard_store(&self, shard_store: Arc<ShardStore>) {
        let _ = self.shard_store.set(shard_store); // Once per incarnation.
    }
}

impl Leaderless for QwStore {
    type Message = Message;
    type Own = Own;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }

    fn damage(own: &Own) -> Option<StoreError> {
        own.damage.lock().clone()
    }
}

pub type RequestRouter = leaderless::RequestRouter<QwStore>;

/// Reads the newest versions in a range of a replica.
pub fn find(
    shard_store: &ShardStore,
    range: &KeyRange,
    reverse: bool,
    limit_rows: usize,
) -> Result<Rows, StoreError> {
    let chunk = shard_store.scan(range, Timestamp::MAX, reverse, limit_rows, CHUNK_BYTES)?;
    Ok(Rows { rows: chunk.rows, at: Vec::new(), rest: chunk.rest })
}

impl Local for RequestRouter {
    fn find(
        &self,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<Rows, Failure>> {
        let found = find(self.own.shard_store.get()?, range, reverse, limit);
        Some(found.map_err(|error| {
            *self.own.damage.lock() = Some(error.clone());
            Failure::Storage(error.to_string())
        }))
    }
}
