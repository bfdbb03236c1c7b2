//! Requests of a node's coordinators that have no response yet.
//!
//! Invariant: a coordinator that waits is woken once, with a response or with none; none waits for
//! ever, because each entry has an end.

use super::{RequestOutcome, Response};
use crate::locking::rules;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use std::collections::BTreeMap;

/// The number of an attempt, and of its request. Pauses have numbers of their own.
pub type RequestKey = (u64, u64);

/// Wakes a coordinator with the result of its request; `None` if no response came.
pub type Woken<W> = (W, Option<RequestOutcome>);

/// Requests without a response. A `W` wakes the coordinator of one.
#[derive(Debug)]
pub struct PendingRequests<W> {
    waiting: BTreeMap<RequestKey, Waiting<W>>,
}

#[derive(Debug)]
struct Waiting<W> {
    waker: W,
    node: NodeId,
    /// By the boot clock, in nanoseconds.
    until_ns: u64,
    /// True if the node answered that it has the request.
    is_there: bool,
}

impl<W> Default for PendingRequests<W> {
    fn default() -> Self {
        PendingRequests { waiting: BTreeMap::new() }
    }
}

impl<W> PendingRequests<W> {
    /// Adds a request to a node, which has until the boot clock reaches `until_ns`.
    pub fn insert(&mut self, key: RequestKey, node: NodeId, until_ns: u64, waker: W) {
        self.waiting.insert(key, Waiting { waker, node, until_ns, is_there: false });
    }

    /// Removes a request. Its coordinator is woken without a response.
    pub fn remove(&mut self, key: RequestKey) -> Option<Woken<W>> {
        self.waiting.remove(&key).map(|waiting| (waiting.waker, None))
    }

    /// Handles a response for an attempt. A wounded attempt is notified at once, whatever it waits
    /// for, if it `holds` locks and is not committing: a commit is not resent, because its outcome
    /// may be forgotten by then.
    pub fn respond(&mut self, number: u64, reply: Response, holds: bool) -> Vec<Woken<W>> {
        match reply {
            Response::Wounded { .. } if !holds && !broken(rules::WOUNDS_COMMITS) => Vec::new(),
            Response::Wounded { why } => {
                let range = self.waiting.range((number, 0)..=(number, u64::MAX));
                let keys: Vec<RequestKey> = range.map(|(key, _)| *key).collect();
                let woken = keys.iter().filter_map(|key| self.waiting.remove(key));
                woken
                    .map(|waiting| (waiting.waker, Some(RequestOutcome::Wounded(why.clone()))))
                    .collect()
            }
            Response::Waiting { id } => {
                if let Some(waiting) = self.waiting.get_mut(&(number, id)) {
                    waiting.is_there = true;
                }
                Vec::new()
            }
            reply => {
                let key = (number, reply.id());
                self.wake(key, RequestOutcome::Response(reply)).into_iter().collect()
            }
        }
    }

    /// Answers a request.
    pub fn wake(&mut self, key: RequestKey, heard: RequestOutcome) -> Option<Woken<W>> {
        self.waiting.remove(&key).map(|waiting| (waiting.waker, Some(heard)))
    }

    /// Ends a request whose time is over. Its coordinator learns whether the node has the request.
    pub fn expire(&mut self, key: RequestKey) -> Option<Woken<W>> {
        let waiting = self.waiting.remove(&key)?;
        Some((waiting.waker, waiting.is_there.then_some(RequestOutcome::Waits)))
    }

    /// Ends requests whose time is over, and removes requests to nodes that cannot be reached.
    pub fn sweep(&mut self, now_ns: u64, reaches: impl Fn(NodeId) -> bool) -> Vec<Woken<W>> {
        let is_late = |waiting: &Waiting<W>| waiting.until_ns <= now_ns;
        let gone = self.waiting.iter().filter(|(_, one)| is_late(one) || !reaches(one.node));
        let keys: Vec<(RequestKey, bool)> = gone.map(|(key, one)| (*key, is_late(one))).collect();
        let woken = keys.into_iter().filter_map(|(key, late)| match late {
            true => self.expire(key),
            false => self.remove(key),
        });
        woken.collect()
    }

    /// Removes all requests to nodes that cannot be reached.
    pub fn keep(&mut self, reaches: impl Fn(NodeId) -> bool) -> Vec<Woken<W>> {
        self.sweep(0, reaches)
    }

    /// Removes everything.
    pub fn clear(&mut self) -> Vec<Woken<W>> {
        let all = std::mem::take(&mut self.waiting);
        all.into_values().map(|waiting| (waiting.waker, None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conflict;

    const HERE: NodeId = NodeId(1);
    const THERE: NodeId = NodeId(2);

    fn three() -> PendingRequests<&'static str> {
        let mut requests = PendingRequests::default();
        requests.insert((7, 1), THERE, 100, "first");
        requests.insert((7, 2), HERE, 200, "second");
        requests.insert((8, 1), THERE, 100, "another");
        requests
    }

    #[test]
    fn a_response_wakes_its_coordinator_once() {
        let mut requests = three();
        let reply = || Response::Prepared { id: 1 };
        let heard = Some(RequestOutcome::Response(reply()));
        assert_eq!(requests.respond(7, reply(), true), [("first", heard)]);
        assert!(requests.respond(7, reply(), true).is_empty());
        assert!(requests.respond(9, reply(), true).is_empty());
    }

    #[test]
    fn a_wound_wakes_an_attempt_unless_it_commits() {
        let why = Conflict::RolledBack;
        let mut requests = three();
        assert!(requests.respond(7, Response::Wounded { why: why.clone() }, false).is_empty());
        let wounded = Some(RequestOutcome::Wounded(why.clone()));
        let woken = requests.respond(7, Response::Wounded { why }, true);
        assert_eq!(woken, [("first", wounded.clone()), ("second", wounded)]);
    }

    #[test]
    fn no_coordinator_waits_for_ever() {
        let mut requests = three();
        assert!(requests.respond(7, Response::Waiting { id: 1 }, true).is_empty());
        assert!(requests.sweep(99, |_| true).is_empty());
        let waits = ("first", Some(RequestOutcome::Waits));
        assert_eq!(requests.sweep(100, |_| true), [waits, ("another", None)]);
        assert_eq!(requests.keep(|node| node == THERE), [("second", None)]);
        assert!(requests.clear().is_empty());
        assert_eq!(three().clear().len(), 3);
        assert_eq!(three().expire((8, 1)), Some(("another", None)));
    }
}
