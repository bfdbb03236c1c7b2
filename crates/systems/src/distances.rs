//! Distances of replicas: a session reads at the closest one, by the response times that its node
//! has measured.
//!
//! No message is sent for that. A commit is proposed to every replica, so that all of them are
//! measured equally often, in whatever order reads ask them.

use meridian_machine::NodeId;
use std::collections::BTreeMap;

/// The weight of a later answer than the known distance is one part in this many: one late answer
/// changes no order.
const SMOOTH: u64 = 8;
/// The weight of an earlier answer, one part in this many: the replica is at most that far away.
const SMOOTH_EARLIER: u64 = 2;
/// A later answer counts as at most this many times the known distance. The time that this node or
/// the replica was paused, or that a lost request took, is no distance; a distance that has grown
/// is known after some answers.
const MOST_TIMES: u64 = 2;
/// The shortest time after which a request is repeated, in nanoseconds. A replica without a
/// measurement is taken to answer within half of it.
const SHORTEST_NS: u64 = 200_000_000;
/// The longest time after which a request is repeated, in nanoseconds.
const LONGEST_NS: u64 = 2_000_000_000;
/// The wait doubles with each repetition, up to two to this power.
const MOST_DOUBLINGS: u32 = 3;

/// The measurements of one replica.
#[derive(Clone, Copy, Debug)]
struct Distance {
    /// The smoothed time from a request to its answer, in nanoseconds.
    took_ns: u64,
    /// True if the last request was answered in time.
    answers: bool,
}

/// The recent response times of replicas, measured at one node.
#[derive(Debug, Default)]
pub struct Distances {
    known: BTreeMap<NodeId, Distance>,
}

impl Distances {
    /// Records the response time of a replica in nanoseconds. `None` means that it did not answer
    /// in time: reads ask it last until it answers again.
    pub fn measured(&mut self, replica: NodeId, took_ns: Option<u64>) {
        let Some(took_ns) = took_ns.map(|took_ns| took_ns.min(LONGEST_NS)) else {
            self.known.entry(replica).and_modify(|known| known.answers = false);
            return;
        };
        let known = self.known.entry(replica).or_insert(Distance { took_ns, answers: true });
        known.took_ns = if took_ns < known.took_ns {
            (known.took_ns * (SMOOTH_EARLIER - 1) + took_ns) / SMOOTH_EARLIER
        } else {
            // A distance of some nanoseconds grows, too.
            let most_ns = (MOST_TIMES * known.took_ns).max(known.took_ns + SMOOTH);
            (known.took_ns * (SMOOTH - 1) + took_ns.min(most_ns)) / SMOOTH
        };
        known.answers = true;
    }

    /// Returns the longest round trip to any of these replicas, in nanoseconds; zero if none has
    /// answered yet.
    pub fn round_trip_ns(&self, replicas: &[NodeId]) -> u64 {
        let known = replicas.iter().filter_map(|replica| self.known.get(replica));
        known.map(|known| known.took_ns).max().unwrap_or(0)
    }

    /// Returns how long a request to these replicas waits for answers before it is repeated, in
    /// nanoseconds: twice the longest round trip, doubled with each of the earlier repetitions. The
    /// doubling reaches a replica whose distance is not known yet.
    pub fn timeout_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        let first_ns = (2 * self.round_trip_ns(replicas)).max(SHORTEST_NS);
        (first_ns << repetition.min(MOST_DOUBLINGS)).min(LONGEST_NS)
    }

    /// Orders replicas for a read at node `me`, given in random order: the node's own first, then
    /// the closer ones, and those without a measurement last. A `fresh` read follows one that may
    /// have returned an old version: it asks the closest replica last, because that one may answer
    /// the same again.
    pub fn order(&self, me: NodeId, mut drawn: Vec<NodeId>, fresh: bool) -> Vec<NodeId> {
        let answers = |node: &NodeId| self.known.get(node).filter(|known| known.answers);
        let distance = |node: &NodeId| {
            if *node == me { 0 } else { answers(node).map_or(u64::MAX, |known| known.took_ns) }
        };
        if !fresh {
            drawn.sort_by_key(distance);
        } else if let Some(closest) = drawn.iter().copied().min_by_key(distance) {
            drawn.retain(|node| *node != closest);
            drawn.push(closest);
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    /// From Asia (9), as in the TAPIR paper's Table 1: replicas in the US (1), in Europe (2) and in
    /// Asia (3).
    fn from_asia() -> Distances {
        let mut distances = Distances::default();
        [(1, 167), (2, 263), (3, 11)]
            .into_iter()
            .for_each(|(node, ms)| distances.measured(NodeId(node), Some(ms * MS)));
        distances
    }

    #[test]
    fn the_closest_is_asked_first() {
        assert_eq!(from_asia().order(NodeId(9), nodes(&[2, 1, 3]), false), nodes(&[3, 1, 2]));
    }

    #[test]
    fn a_replica_of_the_node_itself_is_closer_than_any() {
        assert_eq!(from_asia().order(NodeId(2), nodes(&[1, 2, 3]), false), nodes(&[2, 3, 1]));
    }

    #[test]
    fn where_nothing_is_known_the_draw_decides() {
        assert_eq!(
            Distances::default().order(NodeId(9), nodes(&[2, 3, 1]), false),
            nodes(&[2, 3, 1])
        );
    }

    #[test]
    fn one_late_answer_changes_no_order_and_many_do() {
        let mut distances = from_asia();
        distances.measured(NodeId(3), Some(500 * MS));
        assert_eq!(distances.order(NodeId(9), nodes(&[1, 2, 3]), false)[0], NodeId(3));
        (0..30).for_each(|_| distances.measured(NodeId(3), Some(500 * MS)));
        assert_eq!(distances.order(NodeId(9), nodes(&[1, 2, 3]), false)[0], NodeId(1));
    }

    #[test]
    fn a_pause_is_no_distance() {
        let mut distances = from_asia();
        (1..=3).for_each(|node| distances.measured(NodeId(node), Some(5_000 * MS)));
        assert_eq!(distances.round_trip_ns(&nodes(&[1, 2, 3])) / MS, 263 * 9 / 8);
        distances.measured(NodeId(5), Some(0));
        (0..200).for_each(|_| distances.measured(NodeId(5), Some(100 * MS)));
        assert!(distances.round_trip_ns(&nodes(&[5])) > 90 * MS, "it was no distance");
        // The first answer of all came after a pause.
        distances.measured(NodeId(4), Some(1_800 * MS));
        (0..5).for_each(|_| distances.measured(NodeId(4), Some(100 * MS)));
        assert!(distances.round_trip_ns(&nodes(&[4])) < 160 * MS);
    }

    #[test]
    fn silent_nodes_are_ordered_after_answering_ones() {
        let mut distances = from_asia();
        distances.measured(NodeId(3), None);
        assert_eq!(distances.order(NodeId(9), nodes(&[3, 2, 1]), false), nodes(&[1, 2, 3]));
    }

    #[test]
    fn a_fresh_read_asks_other_replicas_first_in_drawn_order() {
        assert_eq!(from_asia().order(NodeId(9), nodes(&[2, 3, 1]), true), nodes(&[2, 1, 3]));
        assert_eq!(from_asia().order(NodeId(1), nodes(&[1, 2, 3]), true), nodes(&[2, 3, 1]));
    }

    #[test]
    fn a_request_waits_for_the_farthest_of_those_that_it_asks_and_longer_each_time() {
        let ms = |replicas: &[u32], repetition| {
            from_asia().timeout_ns(&nodes(replicas), repetition) / MS
        };
        assert_eq!(
            [0, 1, 2, 9].map(|repetition| ms(&[1, 2, 3], repetition)),
            [526, 1_052, 2_000, 2_000]
        );
        assert_eq!(
            [0, 1, 2, 3, 9].map(|repetition| ms(&[3], repetition)),
            [200, 400, 800, 1_600, 1_600]
        );
        assert_eq!(Distances::default().timeout_ns(&nodes(&[1, 2, 3]), 0), SHORTEST_NS);
        assert_eq!(from_asia().round_trip_ns(&nodes(&[1, 3, 7])), 167 * MS);
    }

    #[test]
    fn a_replica_that_does_not_answer_keeps_its_distance() {
        let mut distances = from_asia();
        distances.measured(NodeId(2), None);
        assert_eq!(distances.timeout_ns(&nodes(&[2]), 0), 526 * MS);
    }
}
