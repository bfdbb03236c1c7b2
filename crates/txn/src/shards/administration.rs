//! Administration of groups: membership changes and splits.

use super::asking::{PAUSE_NS, TIMEOUT_NS, ask_leader, unanswered};
use super::{MemberRoles, Request, RequestBody, RequestOutcome, Response, Shards};
use crate::{Age, Failure, Future, Node, TransactionId};
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Administers a database's shards from one node.
pub struct Administrator<S> {
    shards: Arc<S>,
}

impl<S: Shards> Administrator<S> {
    /// Returns an administrator of these shards.
    pub fn new(shards: Arc<S>) -> Self {
        Administrator { shards }
    }

    /// Splits a shard: the keys from `at` on become the shard `shard`'s, whose id is new. A
    /// repeated call succeeds if the split is done.
    pub fn split(&self, at: Key, shard: ShardId) -> Future<'static, Result<(), Failure>> {
        let task = Task::new(&self.shards);
        Box::pin(async move { task.split(at, shard).await })
    }

    /// Changes the members of each shard's group, one shard after the other. Returns when all of
    /// them have these members. A repeated call succeeds if the change is done.
    pub fn change_members(&self, members: MemberRoles) -> Future<'static, Result<(), Failure>> {
        let task = Task::new(&self.shards);
        Box::pin(async move { task.change_members(members).await })
    }
}

/// One administrative task, whose requests leaders tell apart as those of a transaction.
struct Task<S> {
    shards: Arc<S>,
    transaction: TransactionId,
    age: Age,
    requests: AtomicU64,
}

impl<S: Shards> Task<S> {
    fn new(shards: &Arc<S>) -> Self {
        let node = shards.node();
        let ((here, incarnation), number) = (node.here(), node.new_number());
        let began_ns = node.now().interval.latest;
        Task {
            transaction: TransactionId { node: here.0, incarnation: incarnation.0, number },
            age: Age { began_ns, node: here.0, number },
            requests: AtomicU64::new(0),
            shards: Arc::clone(shards),
        }
    }

    async fn ask(&self, shard: ShardId, body: &RequestBody) -> Result<Response, Failure> {
        let request = || {
            let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            Request::plain(self.transaction, self.age, id, body.clone())
        };
        match ask_leader(&*self.shards, shard, request).await {
            Some((_, RequestOutcome::Response(response))) => Ok(response),
            _ => Err(unanswered(&*self.shards, shard)),
        }
    }

    async fn pause(&self) {
        let node = self.shards.node();
        node.sleep_until(node.boot_ns() + PAUSE_NS).await;
    }

    fn is_late(&self, until: u64) -> bool {
        self.shards.node().boot_ns() >= until || self.shards.node().is_closed()
    }

    /// Changes the members of each shard, in the order of the shards' keys.
    async fn change_members(&self, members: MemberRoles) -> Result<(), Failure> {
        let mut next = Some(Key::default());
        while let Some(key) = next {
            let (shard, bounds) = self.locate(&key).await?;
            let body = RequestBody::Members(members.clone());
            let until = self.shards.node().boot_ns() + TIMEOUT_NS;
            loop {
                match self.ask(shard, &body).await? {
                    Response::Committed { .. } => break,
                    Response::Refused { why, .. } => return Err(Failure::Refused(why)),
                    _ if self.is_late(until) => return Err(unanswered(&*self.shards, shard)),
                    _ => self.pause().await,
                }
            }
            next = bounds.end;
        }
        Ok(())
    }

    /// Returns the shard that has a key, and the shard's keys. The shard itself confirms that.
    async fn locate(&self, key: &Key) -> Result<(ShardId, KeyRange), Failure> {
        let map = self.shards.map();
        let until = self.shards.node().boot_ns() + TIMEOUT_NS;
        loop {
            let (shard, bounds) = map.route(key);
            let body = RequestBody::LastTs { range: KeyRange::point(key.clone()) };
            match self.ask(shard, &body).await? {
                Response::LastTs { .. } => return Ok((shard, bounds)),
                Response::Moved { to: Some((from, other)), .. } => {
                    map.learn_route(key, from, other);
                }
                _ => {}
            }
            if self.is_late(until) {
                return Err(unanswered(&*self.shards, shard));
            }
            self.pause().await;
        }
    }

    /// Splits the shard that has a key.
    async fn split(&self, at: Key, shard: ShardId) -> Result<(), Failure> {
        let map = self.shards.map();
        let until = self.shards.node().boot_ns() + TIMEOUT_NS;
        loop {
            let (old, bounds) = map.route(&at);
            if old == shard || bounds.start == at {
                return Ok(());
            }
            match self.ask(old, &RequestBody::Split { at: at.clone(), shard }).await? {
                Response::Committed { .. } => {
                    map.learn_route(&at, at.clone(), shard);
                    return Ok(());
                }
                Response::Moved { to: Some((from, other)), .. } => {
                    map.learn_route(&at, from, other);
                }
                Response::Refused { why, .. } => return Err(Failure::Refused(why)),
                _ => {}
            }
            if self.is_late(until) {
                return Err(unanswered(&*self.shards, old));
            }
            self.pause().await;
        }
    }
}
