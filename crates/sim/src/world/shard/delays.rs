//! Counts the sequential message delays of each kind of transaction, on a network where every
//! message takes the same time and nothing else takes any.

use super::super::one_by_one::ONE;
use super::{S, World};
use crate::protocols::SimulatedProtocol;
use crate::shard::{Leaders, SIMULATED};
use crate::workload::{Scope, Step};
use crate::world::Asked;
use meridian_clock::Timestamp;
use meridian_machine::{Machine, ShardId};
use meridian_sql::Session;
use meridian_systems::locking::Locking;
use meridian_systems::shard::{Message, Participant};
use meridian_txn::Node;
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{Request, RequestBody};
use meridian_txn::{Age, Lock, Mode, ReadAt};
use parking_lot::Mutex;
use std::sync::Arc;

const NOW: Mode = Mode::ReadOnly(ReadAt::Now);

impl World<Leaders<Locking>> {
    /// Returns the message delays of each kind of transaction.
    pub fn delays() -> Vec<(&'static str, u64)> {
        let mut found = Self::delays_of_keys(&SIMULATED);
        found.extend(Self::delays_of_sql());
        found
    }

    /// Counts delays of prepared statements. The table's rows and the catalog are in two groups,
    /// and the catalog's group takes no part in the statements.
    fn delays_of_sql() -> Vec<(&'static str, u64)> {
        let mut world = Self::three(&SIMULATED, None);
        let (leader, other) = (0, 1);
        world.asks(
            leader,
            vec![
                "CREATE TABLE t (k int PRIMARY KEY, v int, w int)",
                "INSERT INTO t VALUES (1, 0), (2, 0)",
            ],
        );
        world.split_at("\u{2}"); // The keys of rows start with this byte.
        let (change, insert) =
            ("UPDATE t SET v = v + 1 WHERE k = 1", "INSERT INTO t VALUES (3, 0)");
        let mut found = Vec::new();
        found.push((
            "SQL: UPDATE of a row, at the leader",
            world.asks(leader, vec![change, change]),
        ));
        found.push(("SQL: UPDATE of a row, elsewhere", world.asks(other, vec![change, change])));
        let transaction = vec![change, "BEGIN", change, "COMMIT"];
        found
            .push(("SQL: COMMIT of such a transaction, elsewhere", world.asks(other, transaction)));
        found.push(("SQL: INSERT, at the leader", world.asks(leader, vec![change, insert])));
        let read = "SELECT v FROM t WHERE k = 1";
        found.push(("SQL: SELECT of a row, at its leader", world.asks(leader, vec![read, read])));
        found.push(("SQL: SELECT of a row, elsewhere", world.asks(other, vec![read, read])));
        // The index is on another column, so that its entries are far from the rows that they name.
        let many =
            "INSERT INTO t VALUES (10, 3), (12, 3), (14, 3), (15, 4), (16, 3), (18, 3), (20, 3)";
        world.asks(leader, vec!["CREATE INDEX ON t (v)", many]);
        let listed = "SELECT v FROM t WHERE k IN (10, 12, 14, 16, 18, 20)";
        found.push((
            "SQL: SELECT of six rows by their keys, elsewhere",
            world.asks(other, vec![listed, listed]),
        ));
        let indexed = "SELECT w FROM t WHERE v = 3";
        found.push((
            "SQL: SELECT of six rows through an index, elsewhere",
            world.asks(other, vec![indexed, indexed]),
        ));
        let entries = "SELECT k FROM t WHERE v = 3";
        found.push((
            "SQL: SELECT of six entries of an index, elsewhere",
            world.asks(other, vec![entries, entries]),
        ));
        let schema = "ALTER TABLE t ADD COLUMN x int";
        found.push(("SQL: ALTER TABLE, at the leader of both", world.asks(leader, vec![schema])));
        found
    }

    /// Runs prepared statements in one session at a node, and returns the delays of the last one.
    fn asks(&mut self, node: usize, statements: Vec<&'static str>) -> u64 {
        let Some(process) = &self.nodes[node].process else { return u64::MAX };
        let (engine, router) = (Arc::clone(&process.engine), Arc::clone(&process.router));
        let took = Arc::new(Mutex::new(0));
        let there = Arc::clone(&took);
        self.clients[0].node = node;
        self.clients[0].start = self.now();
        self.clients[0].attempt = Some(Box::pin(async move {
            let mut session = Session::new(engine, "lab");
            for statement in statements {
                if session.describe_statement(statement).is_err() {
                    session.parse(statement, statement, &[]).await.expect("it is prepared");
                }
                let began = router.node().boot_ns();
                session.bind("", statement, Vec::new()).expect("no parameters");
                session.ends_next(true);
                session.execute("", 0).await.expect("it runs");
                session.sync().await.expect("it commits");
                *there.lock() = router.node().boot_ns() - began;
            }
        }));
        self.poll(0);
        let ended = self.until(20 * S, |world| world.clients[0].attempt.is_none());
        assert!(ended, "the session does not end: {:?} {:?}", self.violation, self.what_is_left());
        self.until(ONE / 2, |_| false); // Lets background work end.
        assert_eq!(self.violation, None);
        let took = *took.lock();
        (took + ONE / 4) / ONE
    }
}

impl<P: Participant> World<Leaders<P>> {
    /// Returns the message delays of transactions on keys.
    pub fn delays_of_keys(protocol: &'static SimulatedProtocol) -> Vec<(&'static str, u64)> {
        let mut world = Self::three(protocol, None);
        let write = |name: &str| Step::Write(name.to_owned(), Some(1));
        let read = |name: &str| Step::Read(name.to_owned(), Lock::Shared);
        let change = |name: &str| Step::Append(name.to_owned(), 1);
        let mut found = Vec::new();
        let (leader, other) = (0, 1);
        found.push((
            "one group: write, at the leader",
            world.takes(leader, Mode::ReadWrite, vec![write("ra")]),
        ));
        found.push((
            "one group: write, elsewhere",
            world.takes(other, Mode::ReadWrite, vec![write("ra")]),
        ));
        found.push((
            "one group: read and write, elsewhere",
            world.takes(other, Mode::ReadWrite, vec![change("lb")]),
        ));
        found.push((
            "one group: read-only, at the leader",
            world.takes(leader, NOW, vec![read("ra"), read("lb")]),
        ));
        found.push(("one group: read-only, elsewhere", world.takes(other, NOW, vec![read("ra")])));
        world.until(S, |_| false);
        let past = Mode::ReadOnly(ReadAt::AtLeast(Timestamp::end_of(world.now() - 8 * S)));
        found.push((
            "one group: some time ago, elsewhere",
            world.takes(other, past, vec![read("ra"), read("lb")]),
        ));
        world.split_at("m");
        let both = || vec![write("lb"), write("ra")];
        found.push((
            "two groups led here: write both",
            world.takes(leader, Mode::ReadWrite, both()),
        ));
        // Waits until the participant has logged the outcome, since appends wait for one another.
        world.until(4 * ONE, |_| false);
        found.push((
            "two groups led elsewhere: write both",
            world.takes(other, Mode::ReadWrite, both()),
        ));
        world.until(2 * S, |_| false);
        found.push((
            "two groups led here: read-only",
            world.takes(leader, NOW, vec![read("lb"), read("ra")]),
        ));
        found.push((
            "two groups led here: read-only, again",
            world.takes(leader, NOW, vec![read("lb"), read("ra")]),
        ));
        world.until(2 * S, |_| false);
        let two = || vec![read("lb"), read("ra")];
        found.push(("two groups led elsewhere: read-only", world.takes(other, NOW, two())));
        world.until(2 * S, |_| false);
        let negotiated = world.takes_with(other, NOW, two(), Scope::Negotiated);
        found.push(("two groups led elsewhere: the same, negotiated", negotiated));
        let mixed = || vec![read("lb"), write("ra")];
        found.push((
            "two groups led here: read one, write one",
            world.takes(leader, Mode::ReadWrite, mixed()),
        ));
        found.push((
            "two groups led here: the same again",
            world.takes(leader, Mode::ReadWrite, mixed()),
        ));
        let second = ShardId(1);
        world.step(leader, second, |replica, now, out| replica.transfer_leadership(now, out));
        world.until(3 * S, |_| false);
        found.push((
            "two groups, one led here: write both",
            world.takes(leader, Mode::ReadWrite, both()),
        ));
        found
    }

    /// As [`Self::delays_of_keys`], and besides that the delays from COMMIT on where writes were
    /// sent before.
    pub fn delays_of_write_streams(
        protocol: &'static SimulatedProtocol,
    ) -> Vec<(&'static str, u64)> {
        const THINKS: u64 = 20;
        let mut found = Self::delays_of_keys(protocol);
        let mut world = Self::three(protocol, None);
        world.split_at("m");
        let mut commit = |node: usize, keys: &[&str]| {
            let writes = keys.iter().map(|key| Step::Write((*key).to_owned(), Some(1)));
            let steps = writes.chain([Step::Think(THINKS * ONE)]).collect();
            let asked = Asked { pipelined: true, ..Asked::default() };
            let took = world.takes_in_order(node, Mode::ReadWrite, steps, Scope::Open, asked);
            world.until(S, |_| false);
            took - THINKS
        };
        let (leader, other) = (0, 1);
        found.push(("one group led here: COMMIT after writes", commit(leader, &["ra"])));
        found.push(("one group led elsewhere: COMMIT after writes", commit(other, &["ra"])));
        let twice = commit(other, &["ra", "rb"]);
        found.push(("one group led elsewhere: COMMIT after two statements", twice));
        found.push(("two groups led here: COMMIT after writes", commit(leader, &["lb", "ra"])));
        found.push(("two groups led elsewhere: COMMIT after writes", commit(other, &["lb", "ra"])));
        found
    }

    /// Splits the first shard at a key, through its leader.
    pub(super) fn split_at(&mut self, key: &str) {
        let (shard, node) = (ShardId(0), 0);
        let number = 1 << 40;
        let transaction = TransactionId { node: 1, incarnation: 1, number };
        let body = RequestBody::Split { at: key.into(), shard: ShardId(1) };
        let request = Request::plain(transaction, Age { began_ns: 0, node: 1, number }, 1, body);
        let from = crate::node_process::address(self.members[node], shard);
        self.step(node, shard, |replica, now, out| {
            replica.on_message(now, from, Message::Request(request), out)
        });
        self.until(3 * S, |_| false);
    }
}
