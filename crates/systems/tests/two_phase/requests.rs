//! Requests of locking clients to two groups.

use super::groups::{MS, World, locks, writes};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_systems::locking::Locking;
use meridian_txn::shards::{LockEpoch, ReplicaId, RequestBody, Response};
use meridian_txn::two_phase::OneShot;
use meridian_txn::{Conflict, Lock};

impl World<Locking> {
    pub fn read(&mut self, shard: u32, number: u64, key: &str, lock: Lock) -> Option<LockEpoch> {
        let said = self.ask(shard, number, 1, None, locks(key, lock));
        said.iter().find_map(|reply| {
            if let Response::Rows { lock_epoch, .. } = reply { Some(*lock_epoch) } else { None }
        })
    }

    /// Returns the first outcome that a client has received, if there is one.
    pub fn outcome(&self) -> Option<Result<Timestamp, Conflict>> {
        self.heard.iter().find_map(|(_, reply)| match reply {
            Response::Committed { at, .. } => Some(Ok(*at)),
            Response::Aborted { why, .. } => Some(Err(why.clone())),
            _ => None,
        })
    }

    /// Returns the number of snapshots that were shown at a timestamp.
    pub fn shown_at(&self, at: Timestamp) -> usize {
        let is_it = |reply: &Response| matches!(reply, Response::Rows { at: of, .. } if *of == at);
        self.heard.iter().filter(|(_, reply)| is_it(reply)).count()
    }

    /// Makes later requests one-shot: they name the current terms, and may be admitted for a
    /// second.
    pub fn commits_one_shot(&mut self) {
        let terms = [0, 1].map(|shard: usize| self.groups[shard].replica.group().term().0);
        assert_eq!(terms[0], terms[1]);
        self.one_shot =
            Some(OneShot { term: terms[0], by: self.reading().interval.latest + 1_000 * MS });
    }

    /// Sends a commit to one group.
    pub fn put(&mut self, number: u64, key: &str) -> Vec<Response> {
        self.ask(
            0,
            number,
            5,
            None,
            RequestBody::Commit { writes: writes(&[key]), participants: Vec::new(), schema: None },
        )
    }

    pub fn prepare(
        &mut self,
        number: u64,
        lock_epoch: Option<LockEpoch>,
        keys: &[&str],
    ) -> Vec<Response> {
        let coordinator = ReplicaId { shard: ShardId(0), node: NodeId(1) };
        let (writes, one_shot, decides) = (writes(keys), self.one_shot, self.term(0));
        self.ask(
            1,
            number,
            5,
            lock_epoch,
            RequestBody::Prepare { writes, coordinator, schema: None, one_shot, decides },
        )
    }

    pub fn term(&self, shard: usize) -> u64 {
        self.groups[shard].replica.group().term().0
    }

    pub fn commit(
        &mut self,
        number: u64,
        lock_epoch: Option<LockEpoch>,
        keys: &[&str],
    ) -> Vec<Response> {
        let participants = vec![ShardId(1)];
        self.ask(
            0,
            number,
            5,
            lock_epoch,
            RequestBody::Commit { writes: writes(keys), participants, schema: None },
        )
    }
}

pub fn snapshot(key: &str, at: Timestamp) -> RequestBody {
    RequestBody::Snapshot {
        at: Some(at),
        range: KeyRange::point(Key::from(key)),
        reverse: false,
        limit_rows: 1,
        versions: false,
        single_shard_range: None,
    }
}
