//! What must be true when everybody went home.

use super::{Node, World};
use crate::client;
use crate::member::{Life, Member};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::StoreError;
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// Everybody went home, no lock is held, and everybody knows as much.
    pub(super) fn is_at_rest(&self) -> bool {
        let lives: Vec<&Life> = self.nodes.iter().filter_map(|node| node.life.as_ref()).collect();
        lives.len() + self.gone.len() == self.nodes.len()
            && self.clients.iter().all(|client| client.attempt.is_none())
            && lives.iter().flat_map(|life| life.members.values()).all(|member| {
                let replica = &member.replica;
                replica.locks().is_empty()
                    && replica.unresolved() == 0
                    && member.late.is_empty()
                    && replica.group().last_index() == replica.group().commit_index()
            })
            && self.shards().into_iter().all(|shard| self.is_known_everywhere(shard))
    }

    fn shards(&self) -> BTreeSet<ShardId> {
        let lives = self.nodes.iter().filter_map(|node| node.life.as_ref());
        lives.flat_map(|life| life.members.keys().copied()).collect()
    }

    /// Whether those are members of a shard who are to be, and all of them know as much.
    fn is_known_everywhere(&self, shard: ShardId) -> bool {
        let member = |node: usize| self.nodes[node].life.as_ref().and_then(|life| life.members.get(&shard));
        let group = |node: usize| member(node).map(|member| member.replica.group());
        let Some(newest) = (0..self.nodes.len()).filter_map(group).max_by_key(|group| group.commit_index()) else {
            return false;
        };
        let to_be = newest.membership().nodes();
        (0..self.nodes.len()).all(|node| match group(node) {
            Some(group) => to_be.contains(&self.members[node]) && group.commit_index() == newest.commit_index(),
            None => !to_be.contains(&self.members[node]) || self.gone.contains(&node),
        })
    }

    pub(super) fn what_is_left(&self) -> String {
        let attempts = self.clients.iter().filter(|client| client.attempt.is_some()).count();
        let of = |node: &Node| match &node.life {
            None => "down".to_owned(),
            Some(life) => {
                let of_shard = |(shard, member): (&ShardId, &Member)| {
                    let (group, locks) = (member.replica.group(), member.replica.locks().owners().count());
                    let (agreed, last) = (group.commit_index().0, group.last_index().0);
                    let unresolved = member.replica.unresolved();
                    let members = group.membership().roster();
                    let (voters, learners) = (members.voters, members.learners);
                    format!(
                        "{}: {agreed} of {last} agreed, {locks} hold locks, {unresolved} unresolved, {voters:?} vote, {learners:?} learn",
                        shard.0
                    )
                };
                life.members.iter().map(of_shard).collect::<Vec<_>>().join(", ")
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        format!("{attempts} transactions; {}", nodes.join("; "))
    }

    /// All copies hold what was installed, at the end of it; witnesses nothing.
    pub(super) fn copies_are_equal(&self) -> Result<(), String> {
        if self.installed.is_empty() {
            return Err("nothing was committed".into());
        }
        let mut expected: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        for write in self.installed.values().flatten() {
            match &write.value {
                None => drop(expected.remove(write.key.as_ref())),
                Some(stored) => drop(expected.insert(write.key.as_ref(), stored.as_ref())),
            }
        }
        let nothing = BTreeMap::new();
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(life) = &there.life else { continue };
            for member in life.members.values() {
                let (bounds, group) = (member.replica.bounds(), member.replica.group());
                let rows = match member.space.scan(bounds, Timestamp::MAX, false, usize::MAX, usize::MAX) {
                    Ok(chunk) => chunk.rows,
                    Err(StoreError::Damaged { .. }) if self.injured.contains_key(&node) => continue,
                    Err(error) => return Err(format!("{} cannot be read: {error}", self.members[node])),
                };
                let found: BTreeMap<&[u8], &[u8]> =
                    rows.iter().map(|(key, stored)| (key.as_ref(), stored.as_ref())).collect();
                let expected = if group.is_witness() { &nothing } else { &expected };
                let keys = expected.keys().filter(|key| bounds.contains(key)).chain(found.keys());
                if let Some(key) = keys.into_iter().find(|key| expected.get(*key) != found.get(*key)) {
                    let (name, node) = (String::from_utf8_lossy(key), self.members[node]);
                    let shown = |stored: Option<&&[u8]>| match stored {
                        None => "nothing".to_owned(),
                        Some(stored) => client::value(&name, Some(*stored)).to_string(),
                    };
                    let (found, expected) = (shown(found.get(key)), shown(expected.get(key)));
                    return Err(format!("{node} holds {found} at {name}, and {expected} was installed"));
                }
            }
        }
        Ok(())
    }
}
