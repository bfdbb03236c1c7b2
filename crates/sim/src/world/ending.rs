//! Checks at the end of a run, after the clients have stopped.

use super::{Node, World};
use crate::client;
use crate::node_process::Member;
use crate::sim_protocol::SimProtocol;
use crate::verdict::{Evidence, ending_later};
use meridian_clock::Timestamp;
use meridian_history::cycles::Model;
use meridian_machine::ShardId;
use meridian_mvcc::StoreError;
use std::collections::{BTreeMap, BTreeSet};

impl<R: SimProtocol> World<R> {
    /// True if all clients have ended, and replicas have no work left. A shard whose log has been
    /// at rest since no lock was held and no commit was unresolved stays so: its leader may still
    /// close timestamps, each by an entry.
    pub(super) fn is_at_rest(&self, rested: &mut BTreeSet<ShardId>) -> bool {
        let lives = || self.nodes.iter().filter_map(|node| node.process.as_ref());
        lives().count() + self.gone.len() == self.nodes.len()
            && self.clients.iter().all(|client| client.attempt.is_none())
            && lives()
                .flat_map(|process| process.members.values())
                .all(|member| member.late.is_empty())
            && R::is_at_rest(self, rested)
    }

    pub(super) fn what_is_left(&self) -> String {
        let attempts = self.clients.iter().filter(|client| client.attempt.is_some()).count();
        let of = |node: &Node<R>| match &node.process {
            None => "down".to_owned(),
            Some(process) => {
                let of_shard = |(shard, member): (&ShardId, &Member<R::Replica>)| {
                    format!("{}: {}", shard.0, R::what_is_left(member))
                };
                process.members.iter().map(of_shard).collect::<Vec<_>>().join(", ")
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        format!("{attempts} transactions; {}", nodes.join("; "))
    }

    /// Judges the history by an order of transactions, by the installed versions, and by the
    /// invariants of the workload.
    pub(crate) fn judge_transactions(&mut self) -> Result<(), String> {
        let (mut history, model) = (std::mem::take(&mut self.history), self.model());
        let true_time = self.tells_true_time();
        let apart_ns = (model == Model::Causal && true_time).then(|| self.have_shown().1);
        let evidence = Evidence {
            model,
            true_time: model > Model::Serializable && true_time,
            apart_ns,
            sql: self.options.sql,
            marks: &self.marks,
            past: &self.past,
            installed: &self.installed,
        };
        let verdict = evidence.judge(&mut history);
        self.history = history;
        let workload = self.options.workload;
        let kept = || {
            let judged = match apart_ns {
                // Its invariants of real time hold for transactions that are further apart.
                Some(by_ns) => workload.judge(&ending_later(&self.history, by_ns), true),
                None => workload.judge(&self.history, model == Model::StrictSerializable),
            };
            judged.map_err(|why| format!("workload {workload}: {why}"))
        };
        self.copies_are_equal().and(verdict).and_then(|()| kept())?;
        self.judge_modes()
    }

    /// Checks that all copies hold exactly the installed versions, and witnesses none.
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
            let Some(process) = &there.process else { continue };
            for member in process.members.values() {
                let Some((bounds, holds)) = R::holds(member) else { continue };
                let rows = match member.shard_store.scan(
                    &bounds,
                    Timestamp::MAX,
                    false,
                    usize::MAX,
                    usize::MAX,
                ) {
                    Ok(chunk) => chunk.rows,
                    Err(StoreError::Damaged { .. }) if self.corrupted.contains_key(&node) => {
                        continue;
                    }
                    Err(error) => {
                        return Err(format!("{} cannot be read: {error}", self.members[node]));
                    }
                };
                let found: BTreeMap<&[u8], &[u8]> =
                    rows.iter().map(|(key, stored)| (key.as_ref(), stored.as_ref())).collect();
                let expected = if holds { &expected } else { &nothing };
                let keys = expected.keys().filter(|key| bounds.contains(key)).chain(found.keys());
                if let Some(key) =
                    keys.into_iter().find(|key| expected.get(*key) != found.get(*key))
                {
                    let (name, node) = (String::from_utf8_lossy(key), self.members[node]);
                    let shown = |stored: Option<&&[u8]>| match stored {
                        None => "nothing".to_owned(),
                        Some(stored) => client::value(&name, Some(*stored)).to_string(),
                    };
                    let (found, expected) = (shown(found.get(key)), shown(expected.get(key)));
                    return Err(format!(
                        "{node} holds {found} at {name}, and {expected} was installed"
                    ));
                }
            }
        }
        Ok(())
    }
}
