//! Reads of sessions of a QWStore database at this node's replica, without a message.

use super::RequestRouter;
use meridian_mvcc::KeyRange;
use meridian_systems::baselines::qwstore::Local;
use meridian_txn::{Failure, Rows};

impl Local for RequestRouter {
    fn find(
        &self,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<Rows, Failure>> {
        let found = self.replica()?.runtime().find(range, reverse, limit);
        Some(found.map_err(|error| Failure::Storage(error.to_string())))
    }
}
