//! Members of a node start and end in order, on a node whose steps may fail.

use meridian_machine::ShardId;
use meridian_mvcc::KeyRange;
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::{Index, Membership, MembershipEpoch};
use meridian_systems::shard::lifecycle::{
    self, Ending, Endings, MemberHost, OrphanedSplit, Restored,
};
use meridian_systems::shard::{Damaged, Origin};
use std::collections::{BTreeMap, BTreeSet};

const PARENT: ShardId = ShardId(1);
const CHILD: ShardId = ShardId(5);
const OTHER: ShardId = ShardId(6);
const REMOVED: Index = Index(9);

/// A node that notes each step, and on which steps may fail.
#[derive(Default)]
struct Host {
    members: BTreeSet<ShardId>,
    endings: Endings<ShardId>,
    /// The shards with records in the log.
    records: BTreeSet<ShardId>,
    /// The children of a shard in the store.
    children: BTreeMap<ShardId, Vec<ShardId>>,
    /// The entries that removed the node, in the store.
    removed: BTreeMap<ShardId, Index>,
    /// Children that are to be started again.
    retried: Vec<ShardId>,
    /// The steps that fail.
    failing: BTreeSet<String>,
    steps: Vec<String>,
}

impl Host {
    fn with(members: &[ShardId]) -> Host {
        Host { members: members.iter().copied().collect(), ..Host::default() }
    }

    fn step(&mut self, step: String) -> Result<(), String> {
        self.steps.push(step.clone());
        if self.failing.contains(&step) { Err(step) } else { Ok(()) }
    }

    fn steps(&mut self) -> Vec<String> {
        std::mem::take(&mut self.steps)
    }
}

impl MemberHost for Host {
    type Member = ShardId;
    type Ended = ShardId;
    type Error = String;

    fn has(&self, shard: ShardId) -> bool {
        self.members.contains(&shard)
    }

    fn all_nodes(&self) -> Membership {
        Membership::default()
    }

    fn recovered(&self) -> Vec<ShardId> {
        self.records.iter().copied().collect()
    }

    fn has_records(&self, shard: ShardId) -> bool {
        self.records.contains(&shard)
    }

    fn forget_recovered(&mut self, shard: ShardId) {
        self.records.remove(&shard);
    }

    fn forget_log(&mut self, shard: ShardId) {
        self.steps.push(format!("forget {}", shard.0));
    }

    fn removed(&self, shard: ShardId) -> Result<Option<Index>, String> {
        Ok(self.removed.get(&shard).copied())
    }

    fn expects(&self, _: ShardId) -> bool {
        false
    }

    fn parent_knows(&self, parent: ShardId, _: ShardId) -> Option<Option<Membership>> {
        self.members.contains(&parent).then_some(None)
    }

    fn learn_route(&mut self, _: ShardId, _: &KeyRange) {}

    fn restore(
        &mut self,
        shard: ShardId,
        _: KeyRange,
        _: Origin,
        _: bool,
    ) -> Result<Restored<ShardId>, String> {
        self.step(format!("start {}", shard.0))?;
        Ok(Restored { member: Some(shard), ended: false, left: Vec::new() })
    }

    fn add(&mut self, shard: ShardId, _: ShardId) -> Result<Vec<(ShardId, KeyRange)>, String> {
        self.members.insert(shard);
        let children = self.children.get(&shard).into_iter().flatten();
        Ok(children.map(|child| (*child, KeyRange::all())).collect())
    }

    fn retry_child(&mut self, parent: ShardId, child: ShardId, _: KeyRange) {
        assert!(self.members.contains(&parent));
        self.retried.push(child);
    }

    fn take_out(&mut self, shard: ShardId) -> Option<ShardId> {
        let was_here = self.members.remove(&shard);
        was_here.then(|| self.steps.push(format!("take out {}", shard.0)));
        was_here.then_some(shard)
    }

    fn ending(&self, shard: ShardId) -> Option<Ending<ShardId>> {
        self.endings.get(&shard).cloned()
    }

    fn keep_ending(&mut self, shard: ShardId, ending: Option<Ending<ShardId>>) {
        match ending {
            Some(ending) => drop(self.endings.insert(shard, ending)),
            None => drop(self.endings.remove(&shard)),
        }
    }

    fn note_removal(&mut self, ended: &ShardId, since: Index) -> Result<(), String> {
        self.step(format!("note {} since {}", ended.0, since.0))?;
        self.removed.insert(*ended, since);
        Ok(())
    }

    fn orphaned(&self, ended: &ShardId) -> Result<Vec<OrphanedSplit>, String> {
        let children = self.children.get(ended).into_iter().flatten();
        Ok(children.map(|child| (*child, KeyRange::all(), Vec::new())).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> String {
        what
    }
}

/// Returns a node that has a member of a shard with two children, which have no members here yet.
fn parent() -> Host {
    let children = BTreeMap::from([(PARENT, vec![CHILD, OTHER])]);
    Host { children, ..Host::with(&[PARENT]) }
}

fn since(since: Index) -> MembershipEpoch {
    MembershipEpoch { since, witness: false }
}

const END: [&str; 5] = ["take out 1", "note 1 since 9", "start 5", "start 6", "forget 1"];

#[test]
fn the_steps_of_an_end_come_in_order() {
    let mut host = parent();
    assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Ok(true));
    assert_eq!(host.steps(), END);
    assert_eq!(host.members, BTreeSet::from([CHILD, OTHER]));
    assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Ok(false));
    assert!(host.steps().is_empty() && host.endings.is_empty());
}

#[test]
fn an_end_continues_with_the_step_that_failed() {
    for (failing, first, then) in [
        (END[1], &END[..2], &END[1..]),
        // The other child starts all the same, and once.
        (END[2], &END[..4], &[END[2], END[4]][..]),
        (END[3], &END[..4], &[END[3], END[4]][..]),
    ] {
        let mut host = parent();
        host.failing.insert(failing.to_owned());
        assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Err(failing.to_owned()));
        assert_eq!(host.steps(), first, "{failing}");
        assert!(host.endings.contains_key(&PARENT), "the log's records are still there");
        host.failing.clear();
        assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Ok(true));
        assert_eq!(host.steps(), then, "{failing}");
        assert_eq!(host.members, BTreeSet::from([CHILD, OTHER]));
        assert!(host.endings.is_empty());
    }
}

#[test]
fn a_shard_whose_end_is_under_way_does_not_start() {
    let mut host = parent();
    host.failing.insert(END[1].to_owned());
    assert!(lifecycle::leave(&mut host, PARENT, REMOVED).is_err());
    host.steps();
    for entry in [Index(3), Index(12)] {
        assert_eq!(lifecycle::accepts(&host, PARENT, since(entry)), Ok(false));
        assert_eq!(lifecycle::invite(&mut host, PARENT, since(entry)), Ok(false));
    }
    let origin = Origin::Remembered;
    assert_eq!(lifecycle::begin(&mut host, PARENT, KeyRange::all(), origin, false), Ok(()));
    assert!(host.steps().is_empty());
    host.failing.clear();
    assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Ok(true));
    assert_eq!(lifecycle::accepts(&host, PARENT, since(Index(3))), Ok(false), "an earlier entry");
    assert_eq!(lifecycle::accepts(&host, PARENT, since(Index(12))), Ok(true), "a later one");
}

/// The entry that added it was never agreed, and the node that says so is behind.
#[test]
fn a_later_removal_stays_noted() {
    let mut host = Host::with(&[PARENT]);
    host.removed.insert(PARENT, Index(12));
    assert_eq!(lifecycle::leave(&mut host, PARENT, REMOVED), Ok(true));
    assert_eq!(lifecycle::accepts(&host, PARENT, since(Index(12))), Ok(false));
    assert_eq!(lifecycle::accepts(&host, PARENT, since(Index(13))), Ok(true));
}

#[test]
fn a_child_that_cannot_start_is_reported_again_and_the_others_start() {
    let mut host = Host::with(&[PARENT]);
    host.failing.insert("start 5".to_owned());
    let children = vec![(CHILD, KeyRange::all()), (OTHER, KeyRange::all())];
    let begun = lifecycle::begin_children(&mut host, PARENT, children, true);
    assert_eq!(begun, Err("start 5".to_owned()));
    assert_eq!(host.retried, [CHILD]);
    assert_eq!(host.members, BTreeSet::from([PARENT, OTHER]));
}

#[test]
fn a_start_that_failed_continues_with_what_is_missing() {
    let mut host = parent();
    host.members.clear();
    host.records = BTreeSet::from([PARENT, ShardId(2)]);
    host.failing = BTreeSet::from(["start 5".to_owned(), "start 2".to_owned()]);
    assert!(lifecycle::start(&mut host, false).is_err());
    assert_eq!(host.retried, [CHILD], "its parent reports it");
    host.failing.clear();
    host.steps();
    assert_eq!(lifecycle::start(&mut host, false), Ok(()));
    assert_eq!(host.steps(), ["start 2"]);
    assert_eq!(host.members, BTreeSet::from([FIRST_SHARD, PARENT, ShardId(2), OTHER]));
}
