//! The interface of QWStore's sessions to their node.

use super::Desk;
use meridian_clock::Reading;
use meridian_machine::NodeId;
use meridian_mvcc::KeyRange;
use meridian_systems::Wire;
use meridian_systems::baselines::qwstore::Site;
use meridian_txn::{Failure, Rows};

impl Site for Desk {
    fn now(&self) -> Reading {
        self.plumbing().clock.now()
    }

    fn is_full(&self) -> bool {
        self.plumbing().journal.is_full()
    }

    fn find_here(
        &self,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<Rows, Failure>> {
        let found = self.replica()?.world().find(range, reverse, limit);
        Some(found.map_err(|error| Failure::Storage(error.to_string())))
    }

    fn another(&self) -> Option<NodeId> {
        self.nearest(false).into_iter().find(|node| *node != Wire::here(self).0)
    }
}
