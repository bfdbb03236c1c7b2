//! The nodes of a cluster.

use meridian_machine::NodeId;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::fmt;

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Member {
    /// Its number, which is never reused.
    #[n(0)]
    pub node: NodeId,
    /// Its zone.
    #[n(1)]
    pub zone: String,
    /// The address for other nodes, `host:port`; empty for a node without peers.
    #[n(2)]
    pub address: String,
}

/// The reason why a list of members cannot be a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersError {
    /// The list is empty.
    Empty,
    /// Two members have the same number.
    Twice(NodeId),
    /// A member has the number 0, which stands for "no issuer" in a timestamp.
    Zero,
    /// A number is too great for a timestamp's issuer.
    TooGreat(NodeId),
}

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MembersError::Empty => f.write_str("a cluster needs at least one node"),
            MembersError::Twice(node) => write!(f, "node {} is named twice", node.0),
            MembersError::Zero => f.write_str("node numbers begin at 1"),
            MembersError::TooGreat(node) => {
                write!(f, "node {} has too great a number: the greatest is {}", node.0, u16::MAX)
            }
        }
    }
}

impl std::error::Error for MembersError {}

/// All nodes of a cluster, fixed at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMembers {
    by_node: BTreeMap<NodeId, Member>,
}

impl ClusterMembers {
    /// Makes the members of a new cluster.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, MembersError> {
        let mut by_node = BTreeMap::new();
        for member in members {
            let node = member.node;
            if node.0 == 0 {
                return Err(MembersError::Zero);
            }
            if node.0 > u16::MAX.into() {
                return Err(MembersError::TooGreat(node));
            }
            if by_node.insert(node, member).is_some() {
                return Err(MembersError::Twice(node));
            }
        }
        if by_node.is_empty() {
            return Err(MembersError::Empty);
        }
        Ok(ClusterMembers { by_node })
    }

    /// The members in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_node.values()
    }

    /// The members' numbers, ascending.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.by_node.keys().copied().collect()
    }

    /// Returns a member.
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.by_node.get(&node)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.by_node.len()
    }

    /// Returns false: a cluster has at least one node.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u32) -> Member {
        Member { node: NodeId(node), zone: "here".into(), address: String::new() }
    }

    #[test]
    fn a_cluster_has_distinct_numbered_members() {
        assert_eq!(ClusterMembers::new([]), Err(MembersError::Empty));
        assert_eq!(ClusterMembers::new([member(0)]), Err(MembersError::Zero));
        assert_eq!(
            ClusterMembers::new([member(70_000)]),
            Err(MembersError::TooGreat(NodeId(70_000)))
        );
        assert_eq!(
            ClusterMembers::new([member(1), member(1)]),
            Err(MembersError::Twice(NodeId(1)))
        );
        assert_eq!(
            ClusterMembers::new([member(2), member(1)]).unwrap().nodes(),
            [NodeId(1), NodeId(2)]
        );
    }
}
