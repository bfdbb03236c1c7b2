//! Groups on a part of the nodes, over TCP: replicas are added, removed, and added again.

mod common;

use common::{get, insist, members, open, put};
use futures::executor::block_on;
use meridian_clock::Timestamp;
use meridian_host::node::{DatabaseError, Node, ShardStatus};
use meridian_log::OsDisk;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::FIRST_SHARD;
use meridian_store::{RedbStore, ShardStore};
use meridian_txn::Failure;
use meridian_txn::shards::MemberRoles;
use std::sync::Arc;

fn to_be(voters: &[u32], learners: &[u32], witnesses: &[u32]) -> MemberRoles {
    let nodes = |numbers: &[u32]| numbers.iter().copied().map(NodeId).collect();
    MemberRoles { voters: nodes(voters), learners: nodes(learners), witnesses: nodes(witnesses) }
}

fn change(node: &Node, wanted: &MemberRoles) {
    insist(|| {
        block_on(node.change_members("meridian", wanted.clone())).map_err(|error| error.to_string())
    });
}

/// Returns how many shards of the database a node has a replica of.
fn shards(node: &Node) -> usize {
    node.status().shards.iter().filter(|shard| shard.database == "meridian").count()
}

fn insist_on_shards(node: &Node, wanted: usize) {
    insist(|| {
        if shards(node) == wanted {
            Ok(())
        } else {
            Err(format!("{} of {wanted} shards", shards(node)))
        }
    });
}

#[test]
fn members_come_and_go_and_come_back_and_nothing_is_lost() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), members());
    let mut nodes: Vec<Arc<Node>> =
        (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    for key in ["a", "m", "z"] {
        put(&nodes[0], key, "1");
    }
    insist(|| {
        block_on(nodes[0].split("meridian", vec![Key::from("m")]))
            .map_err(|error| error.to_string())
    });
    change(&nodes[1], &to_be(&[1, 2], &[3], &[]));
    // The present leader may be the one that is removed.
    change(&nodes[2], &to_be(&[2, 3], &[], &[]));
    insist_on_shards(&nodes[0], 0);
    put(&nodes[0], "z", "2"); // It has no replica, and sends the request to another node.
    assert_eq!(get(&nodes[0], "a").as_deref(), Some("1"));
    // A restart keeps that, and the node does not return in its old role.
    drop(nodes.remove(0));
    nodes.insert(0, open(1, &cluster, folder.path()));
    assert_eq!(get(&nodes[0], "z").as_deref(), Some("2"));
    assert_eq!(shards(&nodes[0]), 0);
    // It is added again, and gets a replica of a shard that is split off meanwhile.
    change(&nodes[2], &to_be(&[1, 2, 3], &[], &[]));
    insist(|| {
        block_on(nodes[1].split("meridian", vec![Key::from("t")]))
            .map_err(|error| error.to_string())
    });
    insist_on_shards(&nodes[0], 3);
    put(&nodes[0], "m", "3");
    // Its copy is its own: it and another replica are a majority.
    nodes[2].kill();
    drop(nodes.remove(2));
    put(&nodes[1], "a", "4");
    for (key, value) in [("a", "4"), ("m", "3"), ("z", "2")] {
        assert_eq!(get(&nodes[0], key).as_deref(), Some(value));
    }
}

#[test]
fn a_witness_is_enough_for_a_majority_and_stores_nothing() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), members());
    let mut nodes: Vec<Arc<Node>> =
        (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    put(&nodes[0], "k", "1");
    change(&nodes[0], &to_be(&[1, 2], &[], &[]));
    insist_on_shards(&nodes[2], 0);
    change(&nodes[0], &to_be(&[1, 2, 3], &[], &[3]));
    put(&nodes[2], "k", "2");
    nodes[0].kill();
    drop(nodes.remove(0));
    put(&nodes[0], "k", "3");
    assert_eq!(
        get(&nodes[1], "k").as_deref(),
        Some("3"),
        "read through the witness's node, at the leader"
    );
    let shard = |node: &Node| -> ShardStatus {
        node.status().shards.into_iter().find(|shard| shard.database == "meridian").unwrap()
    };
    let of_witness = shard(&nodes[1]);
    assert_eq!((of_witness.leads, of_witness.closed), (false, Timestamp::ZERO));
    // The witness replays its log, and stores no versions from it.
    drop(nodes.pop());
    let again = open(3, &cluster, folder.path());
    let settled = shard(&nodes[0]).applied;
    insist(|| if shard(&again).applied >= settled { Ok(()) } else { Err("not settled".into()) });
    drop(again);
    let disk = OsDisk::open(&folder.path().join("3/store")).unwrap();
    let store = Arc::new(RedbStore::open(&disk, 1 << 20).unwrap());
    let shard_store = ShardStore::open(of_witness.id.0, FIRST_SHARD.0, store).unwrap();
    assert!(shard_store.extent().unwrap().position > 0);
    assert!(
        shard_store
            .scan(&KeyRange::all(), Timestamp::MAX, false, 10, 1 << 20)
            .unwrap()
            .rows
            .is_empty()
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), members());
    let nodes: Vec<Arc<Node>> = (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    put(&nodes[0], "k", "1");
    let refused = |database: &str, wanted: MemberRoles| match block_on(
        nodes[1].change_members(database, wanted),
    ) {
        Err(DatabaseError::Failed(Failure::Refused(why))) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("meridian", to_be(&[1, 2, 9], &[], &[])), "there is no node 9");
    assert_eq!(
        refused("meridian", to_be(&[1, 2], &[2], &[])),
        "node 2 cannot be a voter and a learner"
    );
    assert_eq!(
        refused("meridian", to_be(&[1, 2], &[], &[2])),
        "fewer than half of the voters may be witnesses"
    );
    assert!(
        refused("meridian", to_be(&[1, 2, 3], &[], &[3]))
            .starts_with("node 3 would change between witness")
    );
    assert!(refused("system", to_be(&[1, 2], &[], &[])).starts_with("every node has a member of"));
    let missing = block_on(nodes[0].change_members("nowhere", to_be(&[1], &[], &[])));
    assert_eq!(missing, Err(DatabaseError::Missing("nowhere".into())));
}
