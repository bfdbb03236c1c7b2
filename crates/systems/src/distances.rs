//! Which replica a session reads at: the closest, by how long those take that it hears.
//!
//! Nobody is asked for that. A commit is proposed to every replica, so that whoever is asked last for a read is measured as often as whoever is asked first.

use meridian_machine::NodeId;
use std::collections::BTreeMap;

/// An answer moves what is known by one part in so many: one that was late changes no order.
const SMOOTH: u64 = 8;

/// How long replicas took to answer of late, seen from a node.
#[derive(Debug, Default)]
pub struct Distances {
    took_ns: BTreeMap<NodeId, u64>,
}

impl Distances {
    /// A replica has answered after so long; or not in time, and of it nothing is known any more.
    pub fn measured(&mut self, replica: NodeId, took_ns: Option<u64>) {
        let Some(took_ns) = took_ns else {
            self.took_ns.remove(&replica);
            return;
        };
        let known = self.took_ns.entry(replica).or_insert(took_ns);
        *known = (*known * (SMOOTH - 1) + took_ns) / SMOOTH;
    }

    /// Whom a read at node `me` asks one after the other, of replicas in an order that was drawn: that of the node itself, then the closer ones first; of whom nothing is known come
    /// last. A `fresh` read, after one that may have been of something old, asks the others first, whichever: the next one may be as old, and asking it again would not help.
    pub fn order(&self, me: NodeId, mut drawn: Vec<NodeId>, fresh: bool) -> Vec<NodeId> {
        let distance = |node: &NodeId| if *node == me { 0 } else { *self.took_ns.get(node).unwrap_or(&u64::MAX) };
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

    /// From Asia (9), as in the TAPIR paper's Table 1: replicas in the US (1), in Europe (2) and in Asia (3).
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
        assert_eq!(Distances::default().order(NodeId(9), nodes(&[2, 3, 1]), false), nodes(&[2, 3, 1]));
    }

    #[test]
    fn one_late_answer_changes_no_order_and_many_do() {
        let mut distances = from_asia();
        distances.measured(NodeId(3), Some(500 * MS));
        assert_eq!(distances.order(NodeId(9), nodes(&[1, 2, 3]), false)[0], NodeId(3));
        (0..8).for_each(|_| distances.measured(NodeId(3), Some(500 * MS)));
        assert_eq!(distances.order(NodeId(9), nodes(&[1, 2, 3]), false)[0], NodeId(1));
    }

    #[test]
    fn who_does_not_answer_comes_after_who_does() {
        let mut distances = from_asia();
        distances.measured(NodeId(3), None);
        assert_eq!(distances.order(NodeId(9), nodes(&[3, 2, 1]), false), nodes(&[1, 2, 3]));
    }

    #[test]
    fn a_fresh_read_asks_the_others_first_as_they_were_drawn() {
        assert_eq!(from_asia().order(NodeId(9), nodes(&[2, 3, 1]), true), nodes(&[2, 1, 3]));
        assert_eq!(from_asia().order(NodeId(1), nodes(&[1, 2, 3]), true), nodes(&[2, 3, 1]));
    }
}
