//! How far a replica's versions have come on its node: installed, in the store for good, and copied
//! from other replicas.
//!
//! ```text
//!   installed, at a place ── settled into the store, synced ──▶ what a view began with is there for good
//!   Copying ── all pages installed ──▶ Copied ── in the store for good ──▶ its horizon is kept ──▶ Kept ── on disk that it is ──▶ Serves
//! ```
//!
//! Commits have no place in an order: each takes the next one that is installed. A crash before the
//! last step begins the copy anew.

use meridian_clock::Timestamp;
use meridian_replication::inconsistent::View;
use std::collections::VecDeque;

/// How far a copy of what is settled has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    /// It is under way.
    Copying,
    /// Up to this place all of it is installed; what stood below the timestamp is not there.
    Installed { place: u64 },
    /// So it is in the store for good, which has its horizon.
    Kept,
    /// The replica serves.
    Serves,
}

/// How far a replica's versions have come, in one life of the node.
#[derive(Clone, Debug)]
pub struct Progress {
    installed: u64,
    /// That of the store at birth: at or below it the store has everything, but for what was
    /// superseded and collected.
    horizon: Timestamp,
    settled: Timestamp,
    copied: Copied,
    /// Views that began here, each with the place of the newest install before.
    began: VecDeque<(u64, View)>,
}

impl Progress {
    /// Of a replica whose store goes to a place and has this horizon; one that is `copying` has not
    /// everything.
    pub fn new(place: u64, horizon: Timestamp, copying: bool) -> Progress {
        let copied = if copying { Copied::Copying } else { Copied::Serves };
        Progress {
            installed: place,
            horizon,
            settled: Timestamp::ZERO,
            copied,
            began: VecDeque::new(),
        }
    }

    /// The place of a commit that is to be installed now; none if the store had it at the replica's
    /// birth.
    pub fn install(&mut self, at: Timestamp) -> Option<u64> {
        (at > self.horizon).then(|| {
            self.installed += 1;
            self.installed
        })
    }

    /// A view has begun with what is installed by now, where everything at or below `settled` has
    /// ended.
    pub fn began(&mut self, view: View, settled: Timestamp) {
        self.settled = settled;
        self.began.push_back((self.installed, view));
    }

    /// All of a copy is installed.
    pub fn copied(&mut self) {
        self.copied = Copied::Installed { place: self.installed };
    }

    /// It is on disk that the copy is in the store for good.
    pub fn serves(&mut self) {
        self.copied = Copied::Serves;
    }

    /// Whether the replica has everything, and serves.
    pub fn has_all(&self) -> bool {
        self.copied == Copied::Serves
    }

    /// Everything at or below has ended, and stands in the replica's store.
    pub fn closed(&self) -> Timestamp {
        if self.has_all() { self.settled } else { Timestamp::ZERO }
    }

    /// Whether the replica waits until the store has a copy for good.
    pub fn waits_for_store(&self) -> bool {
        matches!(self.copied, Copied::Installed { .. })
    }

    /// The store has everything up to a place for good: whether it now has a copy whose horizon is
    /// to be kept, durably, before [`stored`](Self::stored) is asked.
    pub fn has_copy_in(&self, place: u64) -> bool {
        matches!(self.copied, Copied::Installed { place: all } if all <= place)
    }

    /// The horizon is kept.
    pub fn horizon_kept(&mut self) {
        self.copied = Copied::Kept;
    }

    /// The store has everything up to a place for good: the newest view of which it thereby has
    /// what that began with, since this was last asked.
    pub fn stored(&mut self, place: u64) -> Option<View> {
        let mut stored = None;
        if matches!(self.copied, Copied::Kept | Copied::Serves) {
            while let Some((_, view)) = self.began.pop_front_if(|(before, _)| *before <= place) {
                stored = Some(view);
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn view(number: u64) -> View {
        View { epoch: 1, number }
    }

    #[test]
    fn what_the_store_had_is_not_installed_again_and_views_follow_it() {
        let mut progress = Progress::new(7, at(50), false);
        assert_eq!(
            [40, 50, 60, 55].map(|nanos| progress.install(at(nanos))),
            [None, None, Some(8), Some(9)]
        );
        progress.began(view(1), at(30));
        assert_eq!((progress.install(at(70)), progress.closed()), (Some(10), at(30)));
        progress.began(view(2), at(40));
        assert_eq!(
            [8, 9, 9, 12].map(|place| progress.stored(place)),
            [None, Some(view(1)), None, Some(view(2))]
        );
    }

    #[test]
    fn a_copy_counts_once_the_store_has_it_and_its_horizon_for_good() {
        let mut progress = Progress::new(0, Timestamp::ZERO, true);
        progress.began(view(0), at(30));
        assert_eq!((progress.install(at(10)), progress.install(at(20))), (Some(1), Some(2)));
        assert_eq!(
            (progress.stored(9), progress.closed(), progress.waits_for_store()),
            (None, Timestamp::ZERO, false)
        );
        progress.copied();
        assert_eq!(
            (progress.waits_for_store(), progress.has_copy_in(1), progress.has_copy_in(2)),
            (true, false, true)
        );
        assert_eq!(progress.stored(2), None, "its horizon is not kept");
        progress.horizon_kept();
        assert_eq!((progress.stored(2), progress.has_all()), (Some(view(0)), false));
        progress.serves();
        assert_eq!((progress.has_all(), progress.closed()), (true, at(30)));
    }
}
