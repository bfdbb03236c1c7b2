//! What must be true when everybody went home.

use super::{Node, World};
use crate::client;
use crate::member::Life;
use meridian_mvcc::{KeyRange, StoreError};
use std::collections::BTreeMap;

impl World {
    /// Everybody went home, no lock is held, and everybody knows as much.
    pub(super) fn is_at_rest(&self) -> bool {
        let lives: Vec<&Life> = self.nodes.iter().filter_map(|node| node.life.as_ref()).collect();
        lives.len() + self.gone.len() == self.nodes.len()
            && self.clients.iter().all(|client| client.attempt.is_none())
            && lives.iter().all(|life| life.replica.locks().is_empty() && life.late.is_empty())
            && lives.iter().all(|life| {
                let (group, first) = (life.replica.group(), lives[0].replica.group());
                group.commit_index() == first.commit_index() && group.last_index() == group.commit_index()
            })
    }

    pub(super) fn what_is_left(&self) -> String {
        let attempts = self.clients.iter().filter(|client| client.attempt.is_some()).count();
        let of = |node: &Node| match &node.life {
            None => "down".to_owned(),
            Some(life) => {
                let group = life.replica.group();
                let locks = life.replica.locks().owners().count();
                format!("{} of {} agreed, {locks} hold locks", group.commit_index().0, group.last_index().0)
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        format!("{attempts} transactions; {}", nodes.join("; "))
    }

    /// All copies hold what was installed, at the end of it.
    pub(super) fn copies_are_equal(&self) -> Result<(), String> {
        let Some((last, _)) = self.installed.last_key_value() else { return Err("nothing was committed".into()) };
        let mut expected: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        for write in self.installed.values().flatten() {
            match &write.value {
                None => drop(expected.remove(write.key.as_ref())),
                Some(stored) => drop(expected.insert(write.key.as_ref(), stored.as_ref())),
            }
        }
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(life) = &there.life else { continue };
            let rows = match life.space.scan(&KeyRange::all(), *last, false, usize::MAX, usize::MAX) {
                Ok(chunk) => chunk.rows,
                Err(StoreError::Damaged { .. }) if self.injured.contains_key(&node) => continue,
                Err(error) => return Err(format!("{} cannot be read: {error}", self.members[node])),
            };
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
