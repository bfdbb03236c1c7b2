//! The precedence graph of transactions, and its shortest cycles.

use super::{Edge, Model, Why};
use crate::{Status, Transaction};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The precedence graph. Nodes beyond the transactions are moments, which keep the edges of real
/// time few.
pub(crate) struct Graph<'a> {
    history: Vec<&'a Transaction>,
    model: Model,
    graph: DiGraph<(), Step<'a>>,
}

/// The reason for an edge: the relation, the key, and the third transaction.
type Step<'a> = (Why, Option<&'a str>, Option<usize>);

impl<'a> Graph<'a> {
    pub(crate) fn new(history: &[&'a Transaction], model: Model) -> Graph<'a> {
        let mut graph = DiGraph::with_capacity(2 * history.len(), 4 * history.len());
        // Under snapshot isolation each transaction has two nodes: one that rw edges lead to, and
        // one that other edges lead to.
        let copies = if model == Model::SnapshotIsolation { 2 } else { 1 };
        for _ in 0..copies * history.len() {
            graph.add_node(());
        }
        Graph { history: history.to_vec(), model, graph }
    }

    /// Returns the two nodes of a transaction: the one that other edges than rw lead to, and the
    /// one that rw edges lead to. They differ under snapshot isolation only, where no rw leads on
    /// from the second.
    pub(super) fn copies(&self, transaction: usize) -> (usize, usize) {
        let doubled = self.model == Model::SnapshotIsolation;
        (transaction, if doubled { transaction + self.history.len() } else { transaction })
    }

    /// Returns when a transaction began and ended, if real time counts and its end is known.
    pub(super) fn lasted(&self, transaction: usize) -> Option<(u64, u64)> {
        let it = self.history[transaction];
        (self.model == Model::StrictSerializable && it.status == Status::Ok)
            .then_some((it.start, it.end))
    }

    /// Returns the number of nodes: one for each transaction (two under snapshot isolation), then
    /// moments.
    pub(crate) fn nodes(&self) -> usize {
        self.graph.node_count()
    }

    /// The edges, as pairs of nodes.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.graph.edge_references().map(|edge| (edge.source().index(), edge.target().index()))
    }

    /// Returns the nodes in an order in which all edges lead forwards, if there is one.
    pub(super) fn sorted(&self) -> Option<Vec<usize>> {
        let sorted = petgraph::algo::toposort(&self.graph, None).ok()?;
        Some(sorted.into_iter().map(NodeIndex::index).collect())
    }

    /// The nodes that come directly after one.
    pub(super) fn next(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.graph.neighbors(NodeIndex::new(node)).map(NodeIndex::index)
    }

    /// Returns the place of each transaction in an order that keeps all edges but `Rw` and follows
    /// `before` otherwise.
    pub(super) fn places(
        &self,
        before: impl Fn(usize, usize) -> std::cmp::Ordering,
    ) -> Option<Vec<usize>> {
        let all = self.history.len();
        let mut by_time: Vec<usize> = (0..all).collect();
        by_time.sort_by(|one, other| before(*one, *other).then(one.cmp(other)));
        let mut rank = vec![0; all];
        by_time.iter().enumerate().for_each(|(at, transaction)| rank[*transaction] = at);
        let kept = || self.graph.edge_references().filter(|edge| edge.weight().0 != Why::Rw);
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); all];
        let mut waits = vec![0usize; all];
        for (from, to) in kept().map(|edge| (edge.source().index(), edge.target().index())) {
            if from < all && to < all {
                next[from].push(to);
                waits[to] += 1;
            }
        }
        let mut ready: BTreeSet<usize> =
            (0..all).filter(|at| waits[*at] == 0).map(|at| rank[at]).collect();
        let (mut places, mut count) = (vec![0; all], 0);
        while let Some(at) = ready.pop_first().map(|first| by_time[first]) {
            (places[at], count) = (count, count + 1);
            for to in &next[at] {
                waits[*to] -= 1;
                if waits[*to] == 0 {
                    ready.insert(rank[*to]);
                }
            }
        }
        (count == all).then_some(places)
    }

    pub(super) fn relate(
        &mut self,
        from: Option<usize>,
        to: Option<usize>,
        why: Why,
        key: &'a str,
    ) {
        let (Some(from), Some(to)) = (from, to) else { return };
        self.add(from, to, (why, Some(key), None));
    }

    /// Adds an edge that follows from a third transaction.
    pub(super) fn force(&mut self, from: usize, to: usize, why: Why, key: &'a str, through: usize) {
        self.add(from, to, (why, Some(key), Some(through)));
    }

    fn add(&mut self, from: usize, to: usize, step: Step<'a>) {
        if from == to {
            return;
        }
        let all = self.history.len();
        let mut add = |from: usize, to: usize| {
            self.graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), step);
        };
        match (self.model, step.0) {
            (Model::ReadCommitted, Why::Rw) => {}
            (Model::SnapshotIsolation, Why::Rw) => add(from, to + all),
            (Model::SnapshotIsolation, _) => {
                add(from, to);
                add(from + all, to);
            }
            _ => add(from, to),
        }
    }

    /// Relates two transactions that read the same value and both wrote: each precedes the other,
    /// because neither saw the other's write. Under snapshot isolation two successive rw are no
    /// contradiction, but one of the writes came first, and the other transaction should have seen
    /// it.
    pub(super) fn one_is_lost(&mut self, one: usize, other: usize, key: &'a str) {
        if self.model == Model::SnapshotIsolation && one < other {
            self.relate(Some(one), Some(other), Why::Ww, key);
        }
    }

    /// Adds an edge from each transaction that surely happened to those that were given its token,
    /// and from each one that asked for external consistency to those that began after its end.
    pub(crate) fn tokens(&mut self) {
        self.moments(|transaction| transaction.external);
        let happened = |at: &usize| self.history[*at].status == Status::Ok;
        let named: BTreeMap<(u64, u64), usize> = (0..self.history.len())
            .filter(happened)
            .map(|at| ((self.history[at].client, self.history[at].start), at))
            .collect();
        for at in 0..self.history.len() {
            let transaction = self.history[at];
            if transaction.status == Status::Fail {
                continue;
            }
            for before in transaction.follows.iter().filter_map(|name| named.get(name)) {
                // The token of a transaction that only read may be older than its beginning: what
                // had ended by then need not be in an older snapshot that follows.
                if transaction.snapshot_age_ns == 0 || self.history[*before].writes() {
                    self.add(*before, at, (Why::Token, None, None));
                }
            }
        }
    }

    /// Adds a moment for each end: a transaction that begins later comes after the last moment
    /// before.
    pub(crate) fn real_time(&mut self) {
        self.moments(|_| true);
    }

    fn moments(&mut self, ends: impl Fn(&Transaction) -> bool) {
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * self.history.len());
        for (at, transaction) in self.history.iter().enumerate() {
            if transaction.status != Status::Fail {
                // An older snapshot is one of a transaction that began earlier.
                let start = transaction.start.saturating_sub(transaction.snapshot_age_ns);
                events.push((start, false, at));
            }
            if transaction.status == Status::Ok && ends(transaction) {
                events.push((transaction.end, true, at));
            }
        }
        events.sort_unstable();
        let mut moment: Option<NodeIndex> = None;
        for (_, ends, at) in events {
            let node = NodeIndex::new(at);
            if ends {
                let next = self.graph.add_node(());
                let (_, after_rw) = self.copies(at);
                for from in BTreeSet::from([node, NodeIndex::new(after_rw)]) {
                    self.graph.add_edge(from, next, (Why::RealTime, None, None));
                }
                if let Some(moment) = moment.replace(next) {
                    self.graph.add_edge(moment, next, (Why::RealTime, None, None));
                }
            } else if let Some(moment) = moment {
                self.graph.add_edge(moment, node, (Why::RealTime, None, None));
            }
        }
    }

    /// Returns a short cycle, if there is a cycle.
    pub(crate) fn cycle(&self) -> Option<Vec<Edge>> {
        /// The number of transactions of a component from which the shortest cycle is searched.
        const TRIES: usize = 64;
        let tangles = petgraph::algo::kosaraju_scc(&self.graph);
        let tangle = tangles.into_iter().filter(|tangle| tangle.len() > 1).min_by_key(Vec::len)?;
        let within: BTreeSet<NodeIndex> = tangle.iter().copied().collect();
        let copies = if self.model == Model::SnapshotIsolation { 2 } else { 1 };
        let is_transaction = |node: &NodeIndex| node.index() < copies * self.history.len();
        let begins = within.iter().copied().filter(is_transaction).take(TRIES);
        let cycles = begins.filter_map(|start| self.shortest(start, &within));
        cycles.map(|cycle| self.told(&cycle)).min_by_key(Vec::len)
    }

    /// Returns the shortest path from a node back to itself, as edges with their sources.
    fn shortest(
        &self,
        start: NodeIndex,
        within: &BTreeSet<NodeIndex>,
    ) -> Option<Vec<petgraph::graph::EdgeIndex>> {
        let mut came: BTreeMap<NodeIndex, petgraph::graph::EdgeIndex> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for edge in self.graph.edges(node) {
                let to = edge.target();
                if to == start {
                    let (mut way, mut at) = (vec![edge.id()], node);
                    while at != start {
                        way.push(came[&at]);
                        at = self.graph.edge_endpoints(came[&at])?.0;
                    }
                    way.reverse();
                    return Some(way);
                }
                if within.contains(&to) && !came.contains_key(&to) {
                    came.insert(to, edge.id());
                    next.push_back(to);
                }
            }
        }
        None
    }

    /// Converts a path to edges between transactions: a path through moments is one edge.
    fn told(&self, way: &[petgraph::graph::EdgeIndex]) -> Vec<Edge> {
        let copies = if self.model == Model::SnapshotIsolation { 2 } else { 1 };
        let transaction = |node: NodeIndex| {
            (node.index() < copies * self.history.len())
                .then(|| self.history[node.index() % self.history.len()])
        };
        let (mut edges, mut from) = (Vec::new(), None);
        for edge in way {
            let Some((source, target)) = self.graph.edge_endpoints(*edge) else { continue };
            from = transaction(source).or(from);
            if let (Some(one), Some(to)) = (from, transaction(target)) {
                let (why, key, through) = self.graph[*edge];
                let through = through.map(|at| self.history[at].clone());
                edges.push(Edge {
                    from: one.clone(),
                    to: to.clone(),
                    why,
                    key: key.map(str::to_owned),
                    through,
                });
            }
        }
        edges
    }
}
