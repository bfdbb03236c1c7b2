//! Copies of whole shards between nodes, for replicas that the log does not reach.
//!
//! ```text
//!   sender                                receiver
//!   Offer(number, extent) ──────────────▶ starts a copy beside the one in use
//!         ◀────────────── Request(next 0) has all pages before 0: a window of pages may follow
//!   Page 0, 1, 2, 3 ────────────────────▶ adds them in order, however they arrive
//!         ◀────────────── Request(next 2)
//!   Page 4, 5 …           last ─────────▶ durable; its replica continues from it
//!         ◀────────────── Done            the log continues from there
//! ```
//!
//! [`Courier`] is a value: its caller passes the time, and takes the messages and actions from
//! [`Courier::drain`]. Host and simulator drive the same code.
//!
//! **Memory.** A receiver requests a window of pages, which all of its copies share, and holds at
//! most as many that arrive out of order. A sender holds one view of its store for each copy, and
//! the starts of the pages of a window.
//!
//! **Loss.** A network may reorder pages: one that arrives early waits for its turn. A receiver
//! that has waited for [`Pace::again_ns`] requests again from the first missing page; a sender
//! offers again until a request arrives. After [`Pace::timeout_ns`] without a message each side
//! gives up, and the sender's group starts another copy. A restart of either side ends the copy,
//! too.
//!
//! **A changed leader.** An offer carries its leader's term. A receiver follows the newest leader
//! and restarts the copy with it: the entries behind an older leader's copy may be gone from the
//! new one's log.
//!
//! Invariants:
//! 1. A page is added once, after all pages before it. A copy is durable before it is handed over.
//! 2. While a received copy waits for its replica, no other copy of the same shard is started.

use crate::shard_store::{Extent, ShardSnapshot, ShardStore};
use meridian_log::MachineKey;
use meridian_machine::{NodeId, sometimes};
use meridian_mvcc::{Cursor, SpaceId, StoreError, StoredVersion};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// Messages between the couriers of two nodes.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Parcel {
    /// A copy of a shard is ready.
    #[n(0)]
    Offer {
        /// The database.
        #[n(0)]
        database: u32,
        /// The shard.
        #[n(1)]
        shard: u32,
        /// The sender's number of the copy.
        #[n(2)]
        number: u64,
        /// The extent of the copy.
        #[n(3)]
        extent: Extent,
        /// The term of the leader that offers it.
        #[n(4)]
        term: u64,
    },
    /// Every page before `next` has arrived.
    #[n(1)]
    Request {
        /// The sender's number of the copy.
        #[n(0)]
        number: u64,
        /// The first page that has not arrived.
        #[n(1)]
        next: u64,
        /// Pages that may be in flight, from that one on.
        #[n(2)]
        window: u64,
        /// The pages sent from that one on are lost.
        #[n(3)]
        again: bool,
    },
    /// A part of a copy.
    #[n(2)]
    Page {
        /// The sender's number of the copy.
        #[n(0)]
        number: u64,
        /// The page's number, from 0.
        #[n(1)]
        page: u64,
        /// Versions, in key order and newest first within a key.
        #[n(2)]
        versions: Vec<StoredVersion>,
        /// True if this is the last page.
        #[n(3)]
        last: bool,
    },
    /// The receiver has the copy, or has as much by itself.
    #[n(3)]
    Done {
        /// The sender's number of the copy.
        #[n(0)]
        number: u64,
    },
}

/// Limits and waits of copies. Their values depend on links and disks, and are the node's: a
/// simulated one has smaller pages and shorter waits. What follows from them is decided here.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two checks of the waits while copies are under way, in nanoseconds.
    pub tick_ns: u64,
    /// Time without a response after which a message is repeated, in nanoseconds.
    pub again_ns: u64,
    /// Time without a message after which the other side is given up, in nanoseconds.
    pub timeout_ns: u64,
    /// Bytes of a page, approximately.
    pub page_bytes: usize,
    /// Pages in flight to one receiver, at most.
    pub window: u64,
    /// Bytes that are flushed at once before a copy is made.
    pub flush_bytes: usize,
}

/// An order of a leader to send a replica a copy.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The shard.
    pub key: MachineKey,
    /// The replica's node.
    pub to: NodeId,
    /// The last entry that the copy must cover.
    pub index: u64,
    /// The leader's term.
    pub term: u64,
    /// The replica is a witness, which keeps no versions.
    pub witness: bool,
}

/// An action that a courier asks of its node.
#[derive(Debug)]
pub enum Said {
    /// Send a message to another node's courier.
    Post(NodeId, Parcel),
    /// A replica has started to receive a copy up to this entry: its leader keeps the log from
    /// there on.
    Began {
        /// The shard.
        key: MachineKey,
        /// The replica's node.
        to: NodeId,
        /// The entry.
        position: u64,
    },
    /// A replica has everything up to an entry, or the copy was given up: then the entry is 0.
    Ended {
        /// The shard.
        key: MachineKey,
        /// The replica's node.
        to: NodeId,
        /// The entry.
        position: u64,
    },
    /// A copy has arrived and is durable. Once its replica continues from it or does not want it,
    /// the node calls [`Courier::taken`].
    Received(Received),
    /// A store failed. The copy is retried, if its node goes on.
    Failed {
        /// The shard.
        key: MachineKey,
        /// The store's error.
        error: StoreError,
    },
}

/// A received copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The shard.
    pub key: MachineKey,
    /// The sender.
    pub from: NodeId,
    /// The sender's number of the copy.
    pub number: u64,
    /// Its space in the store.
    pub copy: SpaceId,
    /// Its extent.
    pub extent: Extent,
}

/// Returns the versions of this node's replica of a shard, if it has one.
pub type Find<'a> = &'a dyn Fn(MachineKey) -> Option<Arc<ShardStore>>;

struct Sending {
    order: Order,
    /// The pages, once the store reaches far enough.
    pages: Option<Pages>,
    /// True once a request has arrived.
    answered: bool,
    heard_ns: u64,
    offered_ns: Option<u64>,
}

/// The starts of the pages that a receiver may lack.
struct Pages {
    shard_snapshot: ShardSnapshot,
    /// From page `first` on. Empty if the copy ends before.
    starts: VecDeque<Cursor>,
    first: u64,
    /// The next page to send.
    next: u64,
}

struct Receiving {
    /// The replica's versions. A later replica of the same shard on this node has others.
    space: Weak<ShardStore>,
    from: NodeId,
    number: u64,
    term: u64,
    copy: SpaceId,
    extent: Extent,
    /// The first page that has not arrived.
    next: u64,
    /// Later pages that have arrived: their versions, and whether it is the last page.
    ahead: BTreeMap<u64, (Vec<StoredVersion>, bool)>,
    /// True if all pages have arrived and the replica is to continue from the copy.
    complete: bool,
    heard_ns: u64,
    asked_ns: u64,
}

/// One node's part in copies of shards.
pub struct Courier {
    pace: Pace,
    sending: BTreeMap<u64, Sending>,
    receiving: BTreeMap<MachineKey, Receiving>,
    next: u64,
    /// The time of the next check of the waits, if a copy is under way.
    ticks_at_ns: u64,
    said: Vec<Said>,
}

impl Courier {
    /// Returns the courier of a node in one incarnation. Its numbers are above `after`, and so
    /// differ from earlier incarnations': late responses to those are ignored.
    pub fn new(pace: Pace, after: u64) -> Courier {
        Courier {
            pace,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            next: after,
            ticks_at_ns: 0,
            said: Vec::new(),
        }
    }

    /// True if no copy is under way.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.receiving.is_empty()
    }

    /// Returns the time at which [`tick`](Self::tick) is due, in nanoseconds. `None` while no copy
    /// is under way.
    pub fn next_tick(&self) -> Option<u64> {
        (!self.is_idle()).then_some(self.ticks_at_ns)
    }

    /// Starts the wait for the first check if no copy is under way yet.
    fn start_ticks(&mut self, now_ns: u64) {
        if self.is_idle() {
            self.ticks_at_ns = now_ns + self.pace.tick_ns;
        }
    }

    /// Returns the messages and actions since the last call.
    pub fn drain(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    /// Starts to send a copy, in place of an earlier one of the same shard to the same node, and
    /// offers it at once if the store reaches far enough. Returns true if an earlier one was under
    /// way: it had become useless.
    pub fn send(&mut self, now_ns: u64, find: Find<'_>, order: Order) -> bool {
        self.start_ticks(now_ns);
        let before = self.sending.len();
        self.sending
            .retain(|_, sending| (sending.order.key, sending.order.to) != (order.key, order.to));
        let replaced = self.sending.len() < before;
        self.next += 1;
        let sending =
            Sending { order, pages: None, answered: false, heard_ns: now_ns, offered_ns: None };
        self.sending.insert(self.next, sending);
        self.check_waits(now_ns, find);
        replaced
    }

    /// Notes that a received copy is in use or not wanted, and tells the sender.
    pub fn taken(&mut self, received: &Received) {
        let Received { key, from, number, .. } = *received;
        self.receiving.retain(|of, receiving| {
            *of != key || (receiving.from, receiving.number) != (from, number)
        });
        self.said.push(Said::Post(from, Parcel::Done { number }));
    }

    /// Sends offers, repeats offers and requests, and gives copies up. Called at
    /// [`next_tick`](Self::next_tick).
    pub fn tick(&mut self, now_ns: u64, find: Find<'_>) {
        self.ticks_at_ns = now_ns + self.pace.tick_ns;
        self.check_waits(now_ns, find);
    }

    fn check_waits(&mut self, now_ns: u64, find: Find<'_>) {
        let Pace { again_ns, timeout_ns, flush_bytes, .. } = self.pace;
        let since = |then: u64| now_ns.saturating_sub(then);
        for (number, sending) in &mut self.sending {
            if sending.offered_ns.is_some_and(|at| since(at) < again_ns) {
                continue;
            }
            let (Order { key, to, index, term, witness }, number) = (sending.order, *number);
            let Some(space) = find(key) else { continue };
            if sending.pages.is_none() {
                match space.flush(flush_bytes).and_then(|_| space.shard_snapshot(index)) {
                    Ok(Some(shard_snapshot)) => {
                        sending.pages = Some(Pages::of(if witness {
                            shard_snapshot.bare()
                        } else {
                            shard_snapshot
                        }));
                    }
                    Ok(None) => continue,
                    Err(error) => {
                        sending.offered_ns = Some(now_ns);
                        self.said.push(Said::Failed { key, error });
                        continue;
                    }
                }
            }
            let Some(Pages { shard_snapshot: ShardSnapshot { extent, .. }, .. }) = sending.pages
            else {
                continue;
            };
            sending.offered_ns = Some(now_ns);
            let MachineKey { database, shard } = key;
            self.said.push(Said::Post(to, Parcel::Offer { database, shard, number, extent, term }));
        }
        let window = self.window();
        for receiving in self.receiving.values_mut().filter(|receiving| !receiving.complete) {
            if since(receiving.asked_ns) >= again_ns {
                sometimes!("pages of a copy are asked for again");
                receiving.asked_ns = now_ns;
                self.said.push(receiving.request(window, true));
            }
        }
        let lives = |key: &MachineKey, receiving: &Receiving| {
            find(*key).is_some_and(|space| receiving.is_for(&space))
                && (receiving.complete || since(receiving.heard_ns) < timeout_ns)
        };
        self.receiving.retain(|key, receiving| lives(key, receiving));
        let late = |sending: &Sending| since(sending.heard_ns) >= timeout_ns;
        let gone: Vec<u64> =
            self.sending.iter().filter(|(_, s)| late(s)).map(|(number, _)| *number).collect();
        gone.into_iter().for_each(|number| self.end(number, 0));
    }

    /// Handles a message of another node's courier.
    pub fn receive(&mut self, now_ns: u64, find: Find<'_>, from: NodeId, parcel: Parcel) {
        self.start_ticks(now_ns);
        match parcel {
            Parcel::Offer { database, shard, number, extent, term } => {
                let key = MachineKey { database, shard };
                if let Err(error) = self.on_offer(now_ns, find, from, (key, number, extent, term)) {
                    self.said.push(Said::Failed { key, error });
                }
            }
            Parcel::Request { number, next, window, again } => {
                let Some(sending) =
                    self.sending.get_mut(&number).filter(|sending| sending.order.to == from)
                else {
                    return;
                };
                let Some(pages) = &mut sending.pages else { return };
                if !std::mem::replace(&mut sending.answered, true) {
                    let (Order { key, to, .. }, position) =
                        (sending.order, pages.shard_snapshot.extent.position);
                    self.said.push(Said::Began { key, to, position });
                }
                (sending.heard_ns, sending.offered_ns) = (now_ns, Some(now_ns));
                if again && next < pages.first {
                    // The receiver has restarted and lost the earlier pages: the group starts
                    // another copy.
                    return self.end(number, 0);
                }
                let window = window.min(self.pace.window);
                let sent = pages.send(number, (next, window, again), self.pace.page_bytes);
                match sent {
                    Ok(sent) => {
                        self.said.extend(sent.into_iter().map(|page| Said::Post(from, page)))
                    }
                    Err(error) => self.said.push(Said::Failed { key: sending.order.key, error }),
                }
            }
            Parcel::Page { number, page, versions, last } => {
                self.on_page(now_ns, find, from, (number, page), (versions, last));
            }
            Parcel::Done { number } => {
                let sending = self.sending.get(&number).filter(|sending| sending.order.to == from);
                if let Some(pages) = sending.and_then(|sending| sending.pages.as_ref()) {
                    let position = pages.shard_snapshot.extent.position;
                    self.end(number, position);
                }
            }
        }
    }

    /// Returns how many pages each copy may have in flight.
    fn window(&self) -> u64 {
        (self.pace.window / (self.receiving.len() as u64).max(1)).max(1)
    }

    fn end(&mut self, number: u64, position: u64) {
        let Some(Sending { order: Order { key, to, .. }, .. }) = self.sending.remove(&number)
        else {
            return;
        };
        self.said.push(Said::Ended { key, to, position });
    }

    fn on_offer(
        &mut self,
        now_ns: u64,
        find: Find<'_>,
        from: NodeId,
        (key, number, extent, term): (MachineKey, u64, Extent, u64),
    ) -> Result<(), StoreError> {
        let Some(space) = find(key) else { return Ok(()) };
        if let Some(known) = self.receiving.get(&key).filter(|known| known.is_for(&space)) {
            let newer = if known.from == from { number > known.number } else { term > known.term };
            if known.complete || !newer {
                return Ok(()); // The copy is under way, and its requests are repeated.
            }
            sometimes!("a copy is offered anew while another is under way");
        }
        if space.extent()?.position >= extent.position {
            self.said.push(Said::Post(from, Parcel::Done { number }));
            return Ok(());
        }
        let copy = space.begin_copy()?;
        let (heard_ns, asked_ns, next, complete) = (now_ns, now_ns, 0, false);
        let space = Arc::downgrade(&space);
        let ahead = BTreeMap::new();
        let receiving = Receiving {
            space,
            from,
            number,
            term,
            copy,
            extent,
            next,
            ahead,
            complete,
            heard_ns,
            asked_ns,
        };
        self.receiving.insert(key, receiving);
        let request = self.receiving[&key].request(self.window(), false);
        self.said.push(request);
        Ok(())
    }

    fn on_page(
        &mut self,
        now_ns: u64,
        find: Find<'_>,
        from: NodeId,
        (number, page): (u64, u64),
        (versions, last): (Vec<StoredVersion>, bool),
    ) {
        let window = self.window();
        let of_copy = |receiving: &Receiving| (receiving.from, receiving.number) == (from, number);
        let Some((key, receiving)) =
            self.receiving.iter_mut().find(|(_, receiving)| of_copy(receiving))
        else {
            return;
        };
        let key = *key;
        receiving.heard_ns = now_ns;
        if receiving.complete || page < receiving.next || page - receiving.next >= self.pace.window
        {
            return; // A duplicate, or a page that was not requested.
        }
        receiving.ahead.insert(page, (versions, last));
        if page > receiving.next {
            sometimes!("a page of a copy arrives ahead of its turn");
            return;
        }
        let Some(space) = find(key).filter(|space| receiving.is_for(space)) else { return };
        let (copy, extent) = (receiving.copy, receiving.extent);
        receiving.asked_ns = now_ns;
        while let Some((versions, last)) = receiving.ahead.remove(&receiving.next) {
            let kept = space.extend_copy(copy, versions);
            if let Err(error) =
                kept.and_then(|()| if last { space.end_copy(copy, extent) } else { Ok(()) })
            {
                return self.said.push(Said::Failed { key, error }); // The page is requested again.
            }
            receiving.next += 1;
            receiving.complete = last;
        }
        self.said.push(if receiving.complete {
            Said::Received(Received { key, from, number, copy, extent })
        } else {
            receiving.request(window, false)
        });
    }
}

impl Receiving {
    fn is_for(&self, space: &Arc<ShardStore>) -> bool {
        std::ptr::eq(self.space.as_ptr(), Arc::as_ptr(space))
    }

    fn request(&self, window: u64, again: bool) -> Said {
        Said::Post(
            self.from,
            Parcel::Request { number: self.number, next: self.next, window, again },
        )
    }
}

impl Pages {
    fn of(shard_snapshot: ShardSnapshot) -> Pages {
        Pages { shard_snapshot, starts: [Cursor::default()].into(), first: 0, next: 0 }
    }

    /// Returns the pages within the window from `wanted` on that are not in flight. With `again`,
    /// those in flight are lost and are returned, too.
    fn send(
        &mut self,
        number: u64,
        (wanted, window, again): (u64, u64, bool),
        page_bytes: usize,
    ) -> Result<Vec<Parcel>, StoreError> {
        let Some(passed) =
            wanted.checked_sub(self.first).and_then(|passed| usize::try_from(passed).ok())
        else {
            return Ok(Vec::new()); // An older request that arrived late.
        };
        if passed >= self.starts.len() {
            return Ok(Vec::new()); // A page whose start is not known.
        }
        self.starts.drain(..passed);
        self.first = wanted;
        self.next = if again { wanted } else { self.next.max(wanted) };
        let mut sent = Vec::new();
        while self.next < wanted.saturating_add(window) {
            let place = (self.next - self.first) as usize;
            let Some(from) = self.starts.get(place) else { break };
            let (versions, rest) = self.shard_snapshot.page(from, page_bytes)?;
            let last = rest.is_none();
            if let Some(rest) = rest.filter(|_| place + 1 == self.starts.len()) {
                self.starts.push_back(rest);
            }
            sent.push(Parcel::Page { number, page: self.next, versions, last });
            self.next += 1;
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use meridian_clock::Timestamp;
    use meridian_mvcc::{Key, Store, Value, Write};

    const KEY: MachineKey = MachineKey { database: 1, shard: 0 };
    const PACE: Pace = Pace {
        tick_ns: 5,
        again_ns: 10,
        timeout_ns: 100,
        page_bytes: 64,
        window: 4,
        flush_bytes: 1 << 20,
    };
    const KEYS: u64 = 40;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn put(space: &ShardStore, number: u64) {
        let key = Key::from(format!("k{:03}", number % KEYS).as_str());
        space.install(
            at(number),
            &[Write { key, value: Some(Value::from("a value of some bytes")) }],
            number,
            1,
        );
    }

    struct Node {
        courier: Courier,
        space: Arc<ShardStore>,
        log: Vec<String>,
        received: u64,
    }

    impl Node {
        fn new(entries: u64) -> Node {
            let store = Arc::new(MemoryStore::new()) as Arc<dyn Store>;
            let space = Arc::new(ShardStore::open(KEY.database, KEY.shard, store).unwrap());
            (1..=entries).for_each(|number| put(&space, number));
            space.flush(usize::MAX).unwrap();
            Node { courier: Courier::new(PACE, 0), space, log: Vec::new(), received: 0 }
        }

        /// Orders a copy. Its offer is taken with the next messages.
        fn send(&mut self, now_ns: u64, order: Order) {
            let space = Arc::clone(&self.space);
            self.courier.send(now_ns, &|key| (key == KEY).then(|| Arc::clone(&space)), order);
        }

        fn with(&mut self, act: impl FnOnce(&mut Courier, Find<'_>)) -> Vec<(NodeId, Parcel)> {
            let space = Arc::clone(&self.space);
            act(&mut self.courier, &|key| (key == KEY).then(|| Arc::clone(&space)));
            let mut posts = Vec::new();
            loop {
                let said = self.courier.drain();
                if said.is_empty() {
                    return posts;
                }
                for said in said {
                    match said {
                        Said::Post(to, parcel) => posts.push((to, parcel)),
                        Said::Began { position, .. } => self.log.push(format!("began {position}")),
                        Said::Ended { position, .. } => self.log.push(format!("ended {position}")),
                        Said::Failed { error, .. } => self.log.push(error.to_string()),
                        Said::Received(received) => {
                            self.received += 1;
                            self.space.use_copy(received.copy, received.extent).unwrap();
                            self.courier.taken(&received);
                        }
                    }
                }
            }
        }
    }

    const SENDER: NodeId = NodeId(1);
    const RECEIVER: NodeId = NodeId(2);

    fn order(term: u64) -> Order {
        Order { key: KEY, to: RECEIVER, index: 1, term, witness: false }
    }

    /// Carries messages between the two nodes until none is in flight. `keeps` decides which
    /// arrive.
    fn carry(
        nodes: &mut [Node; 2],
        now_ns: u64,
        mut wire: VecDeque<(NodeId, Parcel)>,
        mut keeps: impl FnMut(&Parcel) -> bool,
    ) {
        while let Some((to, parcel)) = wire.pop_front() {
            if keeps(&parcel) {
                let (place, from) = if to == SENDER { (0, RECEIVER) } else { (1, SENDER) };
                wire.extend(
                    nodes[place].with(|courier, find| courier.receive(now_ns, find, from, parcel)),
                );
            }
        }
    }

    fn tick(nodes: &mut [Node; 2], now_ns: u64) -> VecDeque<(NodeId, Parcel)> {
        nodes
            .iter_mut()
            .flat_map(|node| node.with(|courier, find| courier.tick(now_ns, find)))
            .collect()
    }

    fn same(a: &ShardStore, b: &ShardStore) {
        for number in 0..KEYS {
            let key = Key::from(format!("k{number:03}").as_str());
            for moment in [50, 90, 120, 200] {
                assert_eq!(a.get(&key, at(moment)), b.get(&key, at(moment)), "{key:?} at {moment}");
            }
        }
    }

    #[test]
    fn a_copy_arrives_complete_despite_lost_and_repeated_messages() {
        for lost in 0..7 {
            let mut nodes = [Node::new(120), Node::new(3)];
            nodes[0].send(0, order(1));
            let (mut now, mut count) = (0, 0u64);
            while nodes[0].log.last().is_none_or(|line| line != "ended 120") {
                now += 5;
                assert!(now < 5_000, "{lost}: {:?}", nodes[0].log);
                let mut wire = tick(&mut nodes, now);
                // Each page arrives twice, the second time in reverse order.
                wire.extend(wire.clone().into_iter().rev());
                carry(&mut nodes, now, wire, |_| {
                    count = count.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(lost + 1);
                    (count >> 33) % 10 >= lost
                });
            }
            assert_eq!(
                (nodes[0].log.join(", "), nodes[1].received),
                ("began 120, ended 120".to_owned(), 1)
            );
            assert!(nodes.iter().all(|node| node.courier.is_idle()));
            same(&nodes[0].space, &nodes[1].space);
        }
    }

    #[test]
    fn a_copy_is_offered_at_once_and_its_waits_are_checked_while_it_is_under_way() {
        let mut nodes = [Node::new(120), Node::new(0)];
        assert_eq!(nodes[0].courier.next_tick(), None);
        nodes[0].send(7, order(1));
        let offers = nodes[0].with(|_, _| ());
        assert!(matches!(offers[..], [(RECEIVER, Parcel::Offer { .. })]), "{offers:?}");
        assert_eq!(nodes[0].courier.next_tick(), Some(12));
        nodes[0].send(9, order(2));
        assert_eq!(nodes[0].courier.next_tick(), Some(12), "an order does not delay the check");
        let wire = nodes[0].with(|courier, find| courier.tick(12, find)).into();
        assert_eq!(nodes[0].courier.next_tick(), Some(17));
        carry(&mut nodes, 14, wire, |parcel| !matches!(parcel, Parcel::Page { .. }));
        assert_eq!(nodes[1].courier.next_tick(), Some(19), "the receiver checks its own waits");
        let wire = nodes[1].with(|courier, find| courier.tick(24, find)).into();
        carry(&mut nodes, 24, wire, |_| true);
        assert!(nodes.iter().all(|node| node.courier.next_tick().is_none()));
    }

    #[test]
    fn no_more_pages_are_on_their_way_than_a_window() {
        let mut nodes = [Node::new(120), Node::new(0)];
        nodes[0].send(0, order(1));
        let (mut wire, mut most) = (tick(&mut nodes, 1), 0);
        while let Some((to, parcel)) = wire.pop_front() {
            let (place, from) = if to == SENDER { (0, RECEIVER) } else { (1, SENDER) };
            wire.extend(nodes[place].with(|courier, find| courier.receive(1, find, from, parcel)));
            most = most.max(
                wire.iter().filter(|(_, parcel)| matches!(parcel, Parcel::Page { .. })).count(),
            );
        }
        assert_eq!((most, nodes[1].received), (4, 1));
    }

    #[test]
    fn a_newer_leader_takes_over_and_an_older_one_does_not() {
        let mut nodes = [Node::new(120), Node::new(0)];
        let offer = |number, term, position| Parcel::Offer {
            database: KEY.database,
            shard: KEY.shard,
            number,
            extent: Extent { position, ..Extent::default() },
            term,
        };
        let mut hears =
            |from, parcel| nodes[1].with(|courier, find| courier.receive(1, find, from, parcel));
        let asks = |of: u32, number| {
            vec![(NodeId(of), Parcel::Request { number, next: 0, window: 4, again: false })]
        };
        assert_eq!(hears(NodeId(1), offer(7, 2, 50)), asks(1, 7));
        assert_eq!(hears(NodeId(1), offer(7, 2, 50)), [], "the copy is under way");
        assert_eq!(hears(NodeId(3), offer(9, 1, 60)), [], "an offer of an older leader");
        assert_eq!(hears(NodeId(3), offer(9, 3, 60)), asks(3, 9));
        assert_eq!(hears(NodeId(1), offer(8, 2, 90)), []);
        assert_eq!(hears(NodeId(3), offer(10, 3, 70)), asks(3, 10), "its leader offers a new copy");
        let page = Parcel::Page { number: 7, page: 0, versions: Vec::new(), last: true };
        assert_eq!(hears(NodeId(1), page), [], "a page of a copy that was replaced");
    }

    #[test]
    fn a_receiver_without_messages_gives_up() {
        let mut nodes = [Node::new(120), Node::new(0)];
        nodes[0].send(0, order(1));
        let wire = tick(&mut nodes, 1);
        carry(&mut nodes, 1, wire, |parcel| !matches!(parcel, Parcel::Page { page: 3.., .. }));
        assert_eq!(nodes[1].received, 0);
        for now in [50, 101, 102] {
            tick(&mut nodes, now);
        }
        assert!(nodes.iter().all(|node| node.courier.is_idle()));
        assert_eq!(nodes[0].log.join(", "), "began 120, ended 0");
        // The next attempt is another copy, which arrives.
        nodes[0].send(200, order(1));
        let wire = tick(&mut nodes, 200);
        carry(&mut nodes, 200, wire, |_| true);
        assert_eq!(nodes[1].received, 1);
        same(&nodes[0].space, &nodes[1].space);
    }

    #[test]
    fn pages_that_pass_one_another_are_not_asked_for_again() {
        let mut nodes = [Node::new(120), Node::new(0)];
        nodes[0].send(0, order(1));
        let mut wire = tick(&mut nodes, 1);
        // The newest message in flight arrives first; no time passes, so no request is repeated.
        while let Some((to, parcel)) = wire.pop_back() {
            let (place, from) = if to == SENDER { (0, RECEIVER) } else { (1, SENDER) };
            wire.extend(nodes[place].with(|courier, find| courier.receive(1, find, from, parcel)));
            assert!(nodes[1].courier.receiving.values().all(|receiving| receiving.ahead.len() < 4));
        }
        assert_eq!(
            (nodes[0].log.join(", "), nodes[1].received),
            ("began 120, ended 120".to_owned(), 1)
        );
        same(&nodes[0].space, &nodes[1].space);
    }

    #[test]
    fn what_is_not_asked_for_is_not_sent() {
        let shard_snapshot = Node::new(120).space.shard_snapshot(1).unwrap().unwrap();
        let mut pages = Pages::of(shard_snapshot);
        let mut numbers = |wanted, window, again| -> Vec<u64> {
            let sent = pages.send(1, (wanted, window, again), 64).unwrap();
            sent.iter()
                .map(|page| if let Parcel::Page { page, .. } = page { *page } else { u64::MAX })
                .collect()
        };
        assert_eq!(numbers(0, 3, false), [0, 1, 2]);
        assert_eq!(numbers(0, 3, false), [0; 0], "the pages are in flight");
        assert_eq!(numbers(1, 3, false), [3]);
        assert_eq!(numbers(1, 3, true), [1, 2, 3], "the pages are lost");
        assert_eq!(numbers(0, 3, true), [0; 0], "an older request");
        assert_eq!(numbers(9, 3, false), [0; 0], "a page whose start is not known");
        assert_eq!(numbers(4, 0, false), [0; 0]);
        assert_eq!(numbers(4, u64::MAX, false).first(), Some(&4));
    }
}
