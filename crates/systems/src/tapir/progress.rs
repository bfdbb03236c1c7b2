//! Progress of a replica's versions on its node: installed, durable in the store, and copied from
//! other replicas.
//!
//! ```text
//!   view     installed ── flushed to the store, synced ──▶ all that the view began with is durable
//!   copy     Copying ── all pages installed ──▶ Installed
//!            ── flushed, synced, horizon kept ──▶ Kept
//!            ── a log record says so ──▶ Serves
//! ```
//!
//! Commits have no index in a log: each takes the next place in the order of installation. After a
//! crash before the last step the copy begins anew.

use meridian_clock::Timestamp;
use meridian_replication::inconsistent::View;
use std::collections::VecDeque;

/// The state of a copy of the settled versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    /// It is under way.
    Copying,
    /// All of it is installed, up to this place.
    Installed { place: u64 },
    /// It is durable in the store, and so is its horizon.
    LogRecord,
    /// The replica serves.
    Serves,
}

/// The progress of a replica's versions since its node started.
#[derive(Clone, Debug)]
pub struct Progress {
    installed: u64,
    /// The store's horizon at the start: at or below it the store has everything, except superseded
    /// versions that were collected.
    horizon: Timestamp,
    settled: Timestamp,
    copied: Copied,
    /// Views that began here, each with the place of the newest install before it.
    began: VecDeque<(u64, View)>,
}

impl Progress {
    /// Makes the progress of a replica whose store reaches a place and has this horizon. If
    /// `copying`, the replica is incomplete.
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

    /// Returns the place of a commit that is to be installed now; `None` if the store had it when
    /// the replica started.
    pub fn install(&mut self, at: Timestamp) -> Option<u64> {
        (at > self.horizon).then(|| {
            self.installed += 1;
            self.installed
        })
    }

    /// Notes that a view has begun with what is installed by now. Every transaction at or below
    /// `settled` has ended in it.
    pub fn began(&mut self, view: View, settled: Timestamp) {
        self.settled = settled;
        self.began.push_back((self.installed, view));
    }

    /// Notes that all pages of a copy are installed.
    pub fn copied(&mut self) {
        self.copied = Copied::Installed { place: self.installed };
    }

    /// Notes that the log says that the copy is durable.
    pub fn serves(&mut self) {
        self.copied = Copied::Serves;
    }

    /// True if the replica is complete, and serves.
    pub fn has_all(&self) -> bool {
        self.copied == Copied::Serves
    }

    /// Returns the closed timestamp: every transaction at or below it has ended, and the replica's
    /// store has its versions.
    pub fn closed(&self) -> Timestamp {
        if self.has_all() { self.settled } else { Timestamp::ZERO }
    }

    /// True if the replica waits until the store has a copy durably.
    pub fn waits_for_store(&self) -> bool {
        matches!(self.copied, Copied::Installed { .. })
    }

    /// True if the store, which is durable up to a place, now has a complete copy. Its horizon must
    /// then be kept durably before [`stored`](Self::stored) is called.
    pub fn has_copy_in(&self, place: u64) -> bool {
        matches!(self.copied, Copied::Installed { place: all } if all <= place)
    }

    /// Notes that the horizon of the copy is kept durably.
    pub fn horizon_kept(&mut self) {
        self.copied = Copied::LogRecord;
    }

    /// Returns the newest view whose initial state is durable in the store, which is durable up to
    /// a place. `None` if there is no such view since the last call.
    pub fn stored(&mut self, place: u64) -> Option<View> {
        let mut stored = None;
        if matches!(self.copied, Copied::LogRecord | Copied::Serves) {
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
