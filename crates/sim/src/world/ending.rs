//! What must be true when everybody went home.

use super::{Node, World};
use crate::client;
use crate::member::{Life, Member};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::StoreError;
use std::collections::BTreeMap;

impl World {
    /// Everybody went home, no lock is held, and everybody knows as much.
    pub(super) fn is_at_rest(&self) -> bool {
        let lives: Vec<&Life> = self.nodes.iter().filter_map(|node| node.life.as_ref()).collect();
        lives.len() + self.gone.len() == self.nodes.len()
            && self.clients.iter().all(|client| client.attempt.is_none())
            && lives.iter().all(|life| {
                let first = &lives[0].members;
                life.members.len() == first.len()
                    && life.members.iter().all(|(shard, member)| {
                        let (replica, same) = (&member.replica, first.get(shard));
                        let agreed = replica.group().commit_index();
                        replica.locks().is_empty()
                            && replica.unresolved() == 0
                            && member.late.is_empty()
                            && replica.group().last_index() == agreed
                            && same.is_some_and(|first| first.replica.group().commit_index() == agreed)
                    })
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
                    format!("{}: {agreed} of {last} agreed, {locks} hold locks, {unresolved} unresolved", shard.0)
                };
                life.members.iter().map(of_shard).collect::<Vec<_>>().join(", ")
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        format!("{attempts} transactions; {}", nodes.join("; "))
    }

    /// All copies hold what was installed, at the end of it.
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
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(life) = &there.life else { continue };
            let mut rows = Vec::new();
            let mut damaged = false;
            for member in life.members.values() {
                match member.space.scan(member.replica.bounds(), Timestamp::MAX, false, usize::MAX, usize::MAX) {
                    Ok(chunk) => rows.extend(chunk.rows),
                    Err(StoreError::Damaged { .. }) if self.injured.contains_key(&node) => damaged = true,
                    Err(error) => return Err(format!("{} cannot be read: {error}", self.members[node])),
                }
            }
            if damaged {
                continue;
            }
            let found: BTreeMap<&[u8], &[u8]> =
                rows.iter().map(|(key, stored)| (key.as_ref(), stored.as_ref())).collect();
            let keys = expected.keys().chain(found.keys());
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
        Ok(())
    }
}
