//! Whole copies of a shard, for members that are too far behind.

use super::{Event, Happening, MS, S, World};
use crate::Defect;
use crate::life::Unfit;
use crate::spanner::Spanner;
use crate::spanner::life::Copy;
use meridian_machine::ShardId;
use meridian_replication::group::Index;
use rand::Rng;

impl World<Spanner> {
    pub(super) fn copy_out(
        &mut self,
        node: usize,
        shard: ShardId,
        to: usize,
        (index, witness): (Index, bool),
        tries: u32,
    ) {
        let whom = self.whom(node);
        let Some(life) = &self.nodes[node].life else { return };
        match life.whole(shard, index, witness) {
            Ok(Some(mut copy)) => {
                copy.extent.position += u64::from(self.options.defect == Some(Defect::CopyClaimsMore));
                let position = Index(copy.extent.position);
                let delay = self.rng.random_range(MS..50 * MS);
                let away = self.nodes[to].life.is_none() || !self.nodes[to].acquaintances.admitted();
                let lost = !self.network.open(self.now(), node, to) || away;
                if lost {
                    // Given up after a while: the group begins anew.
                    self.push(3 * S, whom, Event::Of(Happening::CopyDone { shard, to, index: Index(0) }));
                } else {
                    let receiver = self.whom(to);
                    self.push(
                        delay,
                        receiver,
                        Event::Of(Happening::CopyIn { shard, from: node, copy: Some(copy), index: position }),
                    );
                    self.push(3 * S, whom, Event::Of(Happening::CopyDone { shard, to, index: Index(0) }));
                }
            }
            Ok(None) if tries < 20 => {
                self.push(
                    100 * MS,
                    whom,
                    Event::Of(Happening::CopyOut { shard, to, index, witness, tries: tries + 1 }),
                );
            }
            Ok(None) => self.push(0, whom, Event::Of(Happening::CopyDone { shard, to, index: Index(0) })),
            Err(error) => self.unfit(node, "copy", error.into()),
        }
    }

    pub(super) fn copy_in(&mut self, node: usize, shard: ShardId, from: usize, copy: Option<Copy>, index: Index) {
        let sender = self.whom(from);
        let there = &mut self.nodes[node];
        let (Some(life), Some(copy)) = (&mut there.life, copy) else { return };
        match life.learn_births(there.clock.reading(), shard, &copy) {
            Ok(true) => self.perform(node, shard),
            Ok(false) => {}
            Err(why) => return self.unfit(node, "read a copy", why),
        }
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return }; // It ended at a step.
        match life.take_over(there.clock.reading(), shard, copy) {
            Ok(()) => {
                *self.changed.entry("whole copy").or_default() += 1;
                self.tell(|| format!("{} goes on from a copy through {}", self.members[node], index.0));
                self.push(MS, sender, Event::Of(Happening::CopyDone { shard, to: node, index }));
            }
            Err(Unfit::Full) => {} // No room: the sender gives up, and tries again.
            Err(why) => return self.unfit(node, "take a copy", why),
        }
        self.bear_children(node);
        self.perform_all(node);
    }
}
