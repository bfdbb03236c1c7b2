//! The groups of a scenario, and their leaders.

use crate::scenario::Scenario;
use crate::shard::Leaders;
use crate::world::scenario::start_of;
use crate::world::{S, World};
use meridian_machine::ShardId;
use meridian_mvcc::KeyRange;
use meridian_systems::shard::Participant;
use std::collections::BTreeSet;

/// The time within which every group elects a leader.
const ELECTED: u64 = S;
/// The head start of the intended leaders: less than a message delay, so that the other members
/// exist when they receive the request for votes.
const FIRST: u64 = 400_000;

impl<P: Participant> World<Leaders<P>> {
    /// Sets up a scenario for groups with leaders.
    pub(super) fn set(&mut self, scenario: Scenario) {
        self.populate(scenario);
        self.until(ELECTED.max(8 * self.options.regions.farthest_ns()), |_| false);
        self.introduce(scenario);
    }

    /// Creates every group's members, the intended leader first.
    fn populate(&mut self, scenario: Scenario) {
        for leads in [true, false] {
            for group in 0..scenario.groups {
                let (members, shard) = (scenario.members(group), ShardId(group));
                let voters: Vec<_> = members.iter().map(|node| self.members[*node]).collect();
                let end = (group + 1 < scenario.groups).then(|| start_of(group + 1));
                let bounds = KeyRange { start: start_of(group), end };
                for node in if leads { &members[..1] } else { &members[1..] } {
                    let Some(process) = &mut self.nodes[*node].process else { continue };
                    match process.place(shard, bounds.clone(), &voters, leads) {
                        Ok(()) => self.perform(*node, shard),
                        Err(why) => self.node_failure(*node, "begin a member", why),
                    }
                }
            }
            if leads {
                self.until(FIRST, |_| false);
            }
        }
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()) {
            (0..scenario.groups).for_each(|group| {
                let start = start_of(group);
                process.router.map().learn_route(&start, start.clone(), ShardId(group));
            });
        }
    }

    /// Tells every node's sessions the current leaders.
    fn introduce(&mut self, scenario: Scenario) {
        let mut well_led = BTreeSet::new();
        for group in 0..scenario.groups {
            let shard = ShardId(group);
            let leads = |node: &usize| {
                let process = self.nodes[*node].process.as_ref();
                process
                    .and_then(|process| process.members.get(&shard))
                    .is_some_and(|member| member.replica.is_serving())
            };
            let members = scenario.members(group);
            let Some(leader) = members.iter().copied().find(leads) else { continue };
            well_led.extend((leader == members[0]).then_some(group));
            let leader = self.members[leader];
            self.nodes
                .iter()
                .filter_map(|node| node.process.as_ref())
                .for_each(|process| process.router.map().set_leader(shard, leader));
        }
        self.well_led = well_led.len() as u32;
    }
}
