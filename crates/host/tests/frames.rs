//! Messages between nodes and records of machines, byte for byte as version 6 writes them.
//!
//! `fixtures/frames-6.txt` has one line for each: its name, and its bytes in hexadecimal digits, as
//! the build at commit fad3b1c wrote them. This build reads each to the value below and writes it
//! to the same bytes, so that nodes of both builds read each other's frames and data folders.
//!
//! A new message or field gets a new number and is sent only on connections of a version that has
//! it; a test of that version lists it in a file of its own. `fixtures/frames-7.txt` has a field
//! that version 7 added, which a node of version 6 skips, and the messages of databases with a
//! timestamp authority, which only nodes of version 7 have.

use meridian_clock::{Timestamp, TimestampRange};
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Role, ShardId};
use meridian_mvcc::{Key, KeyRange, StoredVersion, Value, Version, Write};
use meridian_placement::DatabaseRow;
use meridian_replication::group::{
    self, Grant, Index, Membership, MembershipEpoch, Payload, Roster, Term,
};
use meridian_replication::inconsistent::{self, Changes, Op, OpId, Part, State, View};
use meridian_store::{Extent, courier::Parcel};
use meridian_systems::baselines::qwstore;
use meridian_systems::envelope::{Encoded, Kind, read, read_frame, write, write_frame};
use meridian_systems::locking::{Prepared, TransactionCommand};
use meridian_systems::shard::{Command, SplitOrigin};
use meridian_systems::tapir::{self, Page};
use meridian_txn::shards::{
    LockEpoch, MemberRoles, ReplicaId, Request, RequestBody, Response, Spent,
};
use meridian_txn::tapir::{
    ConsensusOp, ConsensusResult, End, Footprint, InconsistentOp, Past, Proposal, RangeRead,
    TxnStatus, Vote as Verdict,
};
use meridian_txn::two_phase::{Decision, OneShot, ParticipantMessage, Vote};
use meridian_txn::{
    Age, Conflict, Lock, SchemaChange, SchemaHistory, SchemaVersion, TransactionId,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

const SPANNER: Kind = meridian_systems::locking::KIND;
const TAPIR: Kind = tapir::KIND;
const QWSTORE: Kind = qwstore::KIND;
const TRANSFER: Kind = Kind::TRANSFER;

/// The lines of the fixture that no value has been compared with yet.
struct Fixture(BTreeMap<&'static str, &'static str>);

impl Fixture {
    fn open() -> Fixture {
        Fixture::of(include_str!("fixtures/frames-6.txt"))
    }

    fn of(lines: &'static str) -> Fixture {
        let lines = lines.lines();
        Fixture(lines.map(|line| line.rsplit_once(' ').expect("a name and bytes")).collect())
    }

    /// The bytes of the fixture's version, after a check that this build writes the same.
    fn same(&mut self, name: &str, written: &[u8]) -> Vec<u8> {
        let digits: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.0.remove(name), Some(&*digits), "{name}");
        written.to_vec()
    }

    fn message<M>(&mut self, kind: Kind, name: &str, message: &M)
    where
        M: Debug + PartialEq + minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
    {
        let from = Address::replica(NodeId(1), DatabaseId(300), ShardId(70_000));
        let (incarnation, role) = (Incarnation(4), Role::Coordinator(1 << 40));
        let to = Address { incarnation, role, node: NodeId(2), ..from };
        let bytes = self.same(name, &write_frame(kind, from, to, message));
        assert_eq!(Encoded::of(message).frame(kind, from, to), bytes);
        let read = read_frame::<M>(kind, &bytes).expect(name);
        assert_eq!((read.0, read.1, &read.2), (from, to, message), "{name}");
    }

    fn record<R>(&mut self, name: &str, record: &R)
    where
        R: Debug + PartialEq + minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
    {
        let bytes = self.same(name, &minicbor::to_vec(record).expect("written"));
        assert_eq!(&minicbor::decode::<R>(&bytes).expect(name), record, "{name}");
    }

    fn close(self) {
        assert!(self.0.is_empty(), "not compared: {:?}", self.0.keys());
    }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos: 1_800_000_000_000_000_000 + nanos, logical: 1, issuer: 2 }
}

fn key(name: &str) -> Key {
    Key::from(name.as_bytes().to_vec())
}

fn value(bytes: &[u8]) -> Value {
    Value::from(bytes.to_vec())
}

fn range() -> KeyRange {
    KeyRange { start: key("a"), end: Some(key("k")) }
}

fn writes() -> Vec<Write> {
    vec![
        Write { key: key("b"), value: Some(value(&[0, 255, 128])) },
        Write { key: key("c"), value: None },
    ]
}

fn transaction() -> TransactionId {
    TransactionId { node: 3, incarnation: 5, number: 1 << 33 }
}

fn age() -> Age {
    Age { began_ns: 1_800_000_000_000_000_000, node: 3, number: 77 }
}

fn op() -> OpId {
    OpId { node: 2, incarnation: 6, number: 1_000 }
}

fn wounded() -> Conflict {
    let application = Some("shop".to_owned());
    Conflict::Wounded { by: age(), key: key("b"), application }
}

fn schema() -> SchemaVersion {
    SchemaVersion { table: 104, version: 3 }
}

fn change() -> Option<SchemaChange> {
    Some(SchemaChange { from: at(1), tables: vec![(schema(), range())] })
}

fn membership() -> Membership {
    let mut roster = Roster::voters([1, 2, 3].map(NodeId));
    roster.learners.insert(NodeId(4));
    roster.witnesses.insert(NodeId(3));
    Membership::initial(roster)
}

fn entries() -> Vec<group::Entry> {
    let payload = Payload(vec![1, 2, 3].into());
    let entry = group::Entry { index: Index(8), term: Term(2), payload, members: None };
    let members = Some(Box::new(membership()));
    vec![entry.clone(), group::Entry { index: Index(9), members, ..entry }]
}

fn proposal() -> Proposal {
    let seen = RangeRead { range: range(), versions: vec![(key("b"), at(2))], through: at(3) };
    let participants = vec![ShardId(1), ShardId(70_000)];
    let footprint = Footprint { reads: vec![seen], writes: writes(), participants };
    let footprint = Arc::new(footprint);
    Proposal { transaction: transaction(), attempt: 2, at: at(4), footprint }
}

#[test]
fn messages_of_locking_shards() {
    use group::Message as Group;
    use meridian_systems::locking::Message;
    let mut fixture = Fixture::open();
    let (term, index) = (Term(3), Index(1_000_000));
    let membership_epoch = Some(MembershipEpoch { since: Index(7), witness: true });
    let since = Index(7);
    for (name, message) in [
        (
            "pre-vote",
            Group::PreVote {
                term,
                last_index: index,
                last_term: Term(2),
                membership_epoch,
                asked_at: 5,
            },
        ),
        ("pre-vote reply", Group::PreVoteReply { term, granted: true, since }),
        ("vote", Group::Vote { term, last_index: index, last_term: Term(2), asked_at: 5 }),
        ("vote reply", Group::VoteReply { term, granted: false, since }),
        (
            "append",
            Group::Append {
                term,
                prev_index: Index(7),
                prev_term: Term(2),
                entries: entries(),
                commit: Index(6),
                asked_at: 1 << 50,
                since,
                witness: true,
                lease_ns: 10_000_000_000,
            },
        ),
        ("appended", Group::Appended { term, matched: index, granted: Some(5), since }),
        ("append refused", Group::Refused { term, prev_index: index, hint: Index(4), since }),
        ("take over", Group::TakeOver { term, transfer_target: NodeId(2) }),
        (
            "removed",
            Group::Removed { index, pinned_entries: vec![(Index(1), Term(1))], term: None },
        ),
        ("quiesce", Group::Quiesce { term, last: index, since }),
        ("confirm", Group::Confirm),
    ] {
        fixture.message(SPANNER, name, &Message::Group(message));
    }
    fixture.message(SPANNER, "visible", &Message::LeaderVisible(at(9)));
    fixture.message(SPANNER, "leads", &Message::Leads(term));

    let lock_epoch = LockEpoch { term: 3, admission: 4 };
    let one_shot = Some(OneShot { term: 3, by: 4 });
    let application = Some("shop".to_owned());
    let coordinator = ReplicaId { shard: ShardId(5), node: NodeId(1) };
    let members = MemberRoles {
        voters: vec![NodeId(1), NodeId(2)],
        learners: vec![NodeId(3)],
        witnesses: vec![NodeId(2)],
    };
    for (name, ask) in [
        (
            "read",
            RequestBody::Read {
                range: range(),
                lock: Lock::Exclusive,
                reverse: true,
                limit_rows: 100,
                application,
                versions: true,
                nowait: true,
            },
        ),
        (
            "commit",
            RequestBody::Commit {
                writes: writes(),
                participants: vec![ShardId(1), ShardId(2)],
                schema: change(),
            },
        ),
        ("abort", RequestBody::Abort),
        (
            "snapshot",
            RequestBody::Snapshot {
                at: Some(at(3)),
                range: range(),
                reverse: false,
                limit_rows: 7,
                versions: false,
                single_shard_range: Some(KeyRange::all()),
            },
        ),
        ("keep alive", RequestBody::KeepAlive),
        ("withdraw", RequestBody::Withdraw),
        (
            "prepare",
            RequestBody::Prepare {
                writes: writes(),
                coordinator,
                schema: None,
                one_shot,
                decides: 6,
            },
        ),
        ("split", RequestBody::Split { at: key("g"), shard: ShardId(9) }),
        ("members", RequestBody::Members(members)),
        ("last timestamp", RequestBody::LastTs { range: range() }),
    ] {
        let plain = Request::plain(transaction(), age(), 11, ask);
        let planned = vec![schema()];
        let request = Request { lock_epoch: Some(lock_epoch), planned, one_shot, ..plain };
        fixture.message(SPANNER, &format!("request {name}"), &Message::Request(request));
    }

    let (id, why) = (11, "for a reason".to_owned());
    let spent = Spent { replication_ns: 1_000, commit_wait_ns: 2_000 };
    let rows = vec![(key("b"), value(b"row"))];
    let rest = Some(KeyRange { start: key("c"), end: None });
    let committed_at = vec![at(2)];
    for (name, reply) in [
        (
            "rows",
            Response::Rows { id, lock_epoch, at: at(5), rows, rest, committed_at, waited_ns: None },
        ),
        ("committed", Response::Committed { id, at: at(5), spent }),
        ("aborted", Response::Aborted { id, why: wounded() }),
        ("unknown", Response::Unknown { id }),
        ("not leader", Response::NotLeader { id, leader: Some(2) }),
        ("waiting", Response::Waiting { id }),
        ("below horizon", Response::BelowHorizon { id, oldest: at(1) }),
        ("broken", Response::Broken { id, what: why.clone() }),
        ("prepared", Response::Prepared { id }),
        ("wounded", Response::Wounded { why: Conflict::Late }),
        ("refused", Response::Refused { id, why }),
        ("last timestamp", Response::LastTs { id, at: at(5) }),
        ("too late", Response::TooLate { id }),
        ("locked", Response::Locked { id, lock_epoch }),
        ("moved", Response::Moved { id, to: Some((key("g"), ShardId(9))) }),
    ] {
        fixture.message(SPANNER, &format!("reply {name}"), &Message::Response(reply));
    }
    for (number, why) in [
        Conflict::LeaderChanged,
        Conflict::RolledBack,
        Conflict::Expired,
        Conflict::Moved,
        Conflict::SchemaChanged { table: 104 },
        Conflict::Overwritten,
        Conflict::Contended,
        Conflict::WrittenSince { key: key("b"), at: None },
    ]
    .into_iter()
    .enumerate()
    {
        let reply = Message::Response(Response::Aborted { id, why });
        fixture.message(SPANNER, &format!("conflict {number}"), &reply);
    }

    let (transaction, shard) = (transaction(), ShardId(5));
    for (name, between) in [
        (
            "voted prepared",
            ParticipantMessage::Vote {
                transaction,
                shard,
                vote: Vote::Prepared { at: at(3), below: at(8) },
                one_shot,
                decides: 6,
                voted_in: 3,
            },
        ),
        (
            "voted read",
            ParticipantMessage::Vote {
                transaction,
                shard,
                vote: Vote::Read { through: at(3), below: at(8) },
                one_shot: None,
                decides: 0,
                voted_in: 3,
            },
        ),
        (
            "voted no",
            ParticipantMessage::Vote {
                transaction,
                shard,
                vote: Vote::No { why: Conflict::Moved },
                one_shot: None,
                decides: 0,
                voted_in: 0,
            },
        ),
        ("decided", ParticipantMessage::Decided { transaction, at: Some(at(4)), voted_in: 3 }),
        ("ended", ParticipantMessage::Ended { transaction, shard }),
        ("wound", ParticipantMessage::Wound { transaction, why: wounded() }),
        ("undecided", ParticipantMessage::Undecided { transaction }),
    ] {
        fixture.message(SPANNER, name, &Message::Participant(between));
    }
    fixture.0.retain(|name, _| !name.starts_with(['/', '+', '=']));
    fixture.close();
}

#[test]
fn records_of_locking_shards() {
    let mut fixture = Fixture::open();
    let grant = Some(Grant { to: NodeId(2), until: 1 << 50, lease_ns: 10_000_000_000 });
    for (name, record) in [
        ("standing", group::Record::HardState { term: Term(3), voted_for: Some(NodeId(1)), grant }),
        ("append", group::Record::Append { entries: entries() }),
        ("base", group::Record::Base { index: Index(5), term: Term(2) }),
        ("stay", group::Record::MembershipEpoch { since: Index(5), witness: true }),
    ] {
        fixture.record(&format!("/{name}"), &record);
    }
    let prepared = Prepared {
        at: at(3),
        age: age(),
        coordinator: ShardId(5),
        writes: writes(),
        locks: vec![(range(), Lock::Shared), (KeyRange::point(key("b")), Lock::Exclusive)],
        below: Some(at(8)),
        changes: Some((at(2), vec![schema()])),
        one_shot: Some(OneShot { term: 3, by: 4 }),
        decides: 6,
    };
    let (transaction, members) = (transaction(), Some(membership()));
    let participants = vec![ShardId(1), ShardId(5)];
    for (name, agreed) in [
        (
            "commit",
            TransactionCommand::Commit {
                at: at(4),
                transaction,
                writes: writes(),
                participants: participants.clone(),
                schemas: vec![schema()],
                voted_in: vec![3, 4],
            },
        ),
        ("ceiling", TransactionCommand::Ceiling { at: at(4), through: Some(at(5)) }),
        ("prepare", TransactionCommand::Prepare { transaction, prepared: prepared.clone() }),
        ("outcome", TransactionCommand::Outcome { transaction, at: Some(at(4)) }),
        ("forget", TransactionCommand::Forget { at: at(4), transactions: vec![transaction] }),
        (
            "split",
            TransactionCommand::Split { at: at(4), key: key("g"), shard: ShardId(9), members },
        ),
        ("members", TransactionCommand::Members { at: at(4) }),
    ] {
        let payload = agreed.to_payload();
        let bytes = fixture.same(&format!("/command {name}"), &payload.0);
        assert_eq!(
            TransactionCommand::from_payload(&Payload(bytes.into())),
            Ok(Some(agreed)),
            "{name}"
        );
    }
    fixture.record("/row prepared", &prepared);
    let decision = Decision { at: at(4), participants, voted_in: vec![3] };
    fixture.record("/row decision", &decision);
    let split_origin = SplitOrigin { members: membership(), index: Index(4), term: Term(2) };
    fixture.record("/row birth", &split_origin);
    let mut history = SchemaHistory::default();
    history.begin(at(1), 2);
    fixture.record("/row schema", &history);

    let (number, extent) = (7, Extent { position: 9, term: 2, at: at(4), horizon: at(1) });
    let version = Version { at: at(1), value: Some(value(b"row")) };
    let gone = Version { at: at(2), value: None };
    let versions = [version, gone].map(|version| StoredVersion { key: key("b"), version });
    for (name, parcel) in [
        ("offer", Parcel::Offer { database: 300, shard: 9, number, extent, term: 3 }),
        ("request", Parcel::Request { number, next: 4, window: 8, again: true }),
        ("page", Parcel::Page { number, page: 4, versions: versions.into(), last: true }),
        ("done", Parcel::Done { number }),
    ] {
        let bytes = fixture.same(&format!("/copy {name}"), &write(TRANSFER, &parcel));
        assert_eq!(read::<Parcel>(TRANSFER, &bytes), Ok(parcel), "{name}");
    }
    fixture.0.retain(|name, _| name.starts_with('/'));
    fixture.close();
}

#[test]
fn messages_and_records_of_shards_without_leaders() {
    use inconsistent::Message as Operation;
    let mut fixture = Fixture::open();
    let (id, view) = (op(), View { epoch: 2, number: 5 });
    let (transaction, upon) = (transaction(), Some(View { epoch: 2, number: 4 }));
    let ended = InconsistentOp::Ended(End::Commit(proposal()));
    let consensus = |question| Op::<InconsistentOp, ConsensusOp>::Consensus(question);
    let prepare = consensus(ConsensusOp::Prepare(proposal()));
    let resolve = consensus(ConsensusOp::Resolve { transaction, through: at(9) });
    let vote = |vote| Some(ConsensusResult::Vote(vote));
    let entry = |op: &Op<InconsistentOp, ConsensusOp>, state| inconsistent::Entry {
        op: op.clone(),
        state,
        merged: upon,
    };
    let mut changes: Changes<InconsistentOp, ConsensusOp, ConsensusResult> = BTreeMap::new();
    changes.insert(id, Some(entry(&prepare, State::Tentative(vote(Verdict::Ok)))));
    let told = Op::Inconsistent(InconsistentOp::Over(Past { closed: at(1), settled: at(2) }));
    let next = OpId { number: 1_001, ..id };
    changes.insert(next, Some(entry(&told, State::Finalized(None))));
    changes.insert(OpId { number: 1_002, ..id }, None);
    let part = Part { upon, from: Some(id), changes: changes.clone(), rest: Some(next) };
    let aborted = InconsistentOp::Ended(End::Abort { transaction, at: at(4) });
    let mut operations = vec![
        ("propose", Operation::Propose { id, op: prepare.clone(), newest: view }),
        ("propose resolve", Operation::Propose { id, op: resolve, newest: view }),
        (
            "propose end",
            Operation::Propose { id, op: Op::Inconsistent(ended.clone()), newest: view },
        ),
        (
            "finalize",
            Operation::Finalize { id, result: vote(Verdict::Ok), newest: view, decided: view },
        ),
        ("confirm", Operation::Confirm { id, view }),
        ("missing", Operation::Missing { id, view }),
        ("leave view", Operation::LeaveView { view }),
        ("change", Operation::Change { view, last: view, part: part.clone(), stored: view }),
        ("start view", Operation::StartView { view, part }),
        ("started", Operation::Started { view }),
        ("tell", Operation::Tell { id, op: aborted }),
        ("tell served", Operation::Tell { id, op: InconsistentOp::Served(at(3)) }),
        ("more", Operation::More { view, upon, from: Some(id) }),
        ("renew", Operation::Renew { view }),
    ];
    let stands = |status| Some(ConsensusResult::Stands(status));
    for (name, result) in [
        ("reply ok", vote(Verdict::Ok)),
        ("reply abstain", vote(Verdict::Abstain)),
        ("reply retry", vote(Verdict::Retry(at(6)))),
        ("reply abort", vote(Verdict::Abort)),
        ("reply late", vote(Verdict::Late)),
        ("reply open", stands(TxnStatus::Open)),
        ("reply committed", stands(TxnStatus::Committed(proposal()))),
        ("reply aborted", stands(TxnStatus::Aborted)),
        ("reply prepared", stands(TxnStatus::Prepared(proposal()))),
        ("reply never", stands(TxnStatus::Never)),
    ] {
        operations.push((name, Operation::Reply { id, view, state: State::Tentative(result) }));
    }
    for (name, operation) in operations {
        fixture.message(TAPIR, &format!("+{name}"), &tapir::Message::Operation(operation));
    }
    let (request, waits) = (OpId { number: 5, ..id }, true);
    let versions = writes().into_iter().map(|write| (at(2), write)).collect();
    let page = Page { versions, rest: Some(range()) };
    let (reverse, limit_rows, holds_ns) = (true, 100, 20_000_000);
    for (name, message) in [
        (
            "look",
            tapir::Message::Look { id, at: at(3), range: range(), reverse, limit_rows, epoch: 2 },
        ),
        ("looked", tapir::Message::Looked { id, page: Some(page.clone()), settled: true, view }),
        ("read", tapir::Message::Read { id, range: range(), reverse, limit_rows }),
        ("found", tapir::Message::Found { id, page, through: at(3) }),
        ("copy", tapir::Message::Copy { id, at: at(3), range: range(), limit_rows }),
        ("too old", tapir::Message::TooOld { id, oldest: at(1) }),
        (
            "take turn",
            tapir::Message::TakeTurn {
                id,
                request,
                key: key("b"),
                holds_ns,
                waits,
                ranges: Vec::new(),
            },
        ),
        ("queued", tapir::Message::Queued { id }),
        ("has turn", tapir::Message::HasTurn { id }),
        ("leave", tapir::Message::Leave { request, key: key("b") }),
        ("keep turn", tapir::Message::KeepTurn { request, key: key("b"), holds_ns }),
    ] {
        fixture.message(TAPIR, &format!("+{name}"), &message);
    }
    for (name, kept) in [
        ("proposed", tapir::LogRecord::Proposed { id, op: prepare, result: vote(Verdict::Ok) }),
        ("finalized", tapir::LogRecord::Finalized { id, result: None }),
        ("left", tapir::LogRecord::Left { view }),
        (
            "began",
            tapir::LogRecord::Began {
                view,
                upon,
                changes,
                decided: vec![(id, vote(Verdict::Abort))],
            },
        ),
        ("stored", tapir::LogRecord::Stored { view, position: 12 }),
        ("told", tapir::LogRecord::Told { id, op: ended }),
    ] {
        fixture.record(&format!("+record {name}"), &kept);
    }
    fixture.0.retain(|name, _| name.starts_with('+'));
    fixture.close();
}

/// Version 7 added the ranges of a turn, in a field that comes last, so that a node of version 6
/// reads the rest of the message; and timestamp authorities.
#[test]
fn what_version_7_added() {
    use meridian_systems::locking::Message;
    let mut fixture = Fixture::of(include_str!("fixtures/frames-7.txt"));
    let (id, key) = (op(), key("b"));
    let request = OpId { number: 5, ..id };
    let (holds_ns, waits, ranges) = (20_000_000, true, vec![range()]);
    let take = tapir::Message::TakeTurn { id, request, key, holds_ns, waits, ranges };
    fixture.message(TAPIR, "+take turn", &take);
    let (id, term) = (11, Term(3));
    let ask = Message::AskTimestamps { count: 5, term, above: at(5) };
    fixture.message(SPANNER, "ask timestamps", &ask);
    let range = TimestampRange { first: at(5), count: 2 };
    fixture.message(SPANNER, "timestamps", &Message::Timestamps { range, term });
    let plain = Request::plain(transaction(), age(), id, RequestBody::SnapshotTimestamp);
    let (lock_epoch, planned) = (Some(LockEpoch { term: 3, admission: 4 }), vec![schema()]);
    let one_shot = Some(OneShot { term: 3, by: 4 });
    let request = Request { lock_epoch, planned, one_shot, ..plain };
    fixture.message(SPANNER, "request snapshot timestamp", &Message::Request(request));
    let response = Response::SnapshotTimestamp { id, at: at(5) };
    fixture.message(SPANNER, "reply snapshot timestamp", &Message::Response(response));
    fixture.close();
}

#[test]
fn messages_and_records_of_quorum_writes_and_rows_of_databases() {
    let mut fixture = Fixture::open();
    let id = op();
    let (rows, rest) = (vec![(key("b"), value(b"row"))], Some(range()));
    for (name, message) in [
        ("put", qwstore::Message::Put { id, at: at(2), writes: writes() }),
        ("stored", qwstore::Message::Stored { id }),
        ("read", qwstore::Message::Read { id, range: range(), reverse: true, limit_rows: 7 }),
        ("found", qwstore::Message::Found { id, rows, rest }),
    ] {
        fixture.message(QWSTORE, &format!("={name}"), &message);
    }
    let put = qwstore::Put { place: 7, at: at(2), writes: writes() };
    fixture.record("=record put", &qwstore::LogRecord::Put(put));
    fixture.record("=record stored", &qwstore::LogRecord::Stored(7));

    // A row of version 6 has two settings, in fields of their own; a later one has a map as well,
    // which version 6 skips.
    let digits = fixture.0.remove("=row of a database").expect("it is there");
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(pair).collect();
    let settings = [("prepare_wait", "5ms"), ("version_retention_period", "1h")];
    let row = DatabaseRow {
        protocol: "tapir".into(),
        shards: vec![ShardId(0), ShardId(70_000)],
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        replicas: [1, 2, 3].map(NodeId).into(),
        epoch: 4,
        former: vec![NodeId(5)],
        since: vec![(NodeId(3), 2)],
        ..DatabaseRow::new(DatabaseId(300), "lab")
    };
    assert_eq!(DatabaseRow::read(&bytes), Some(row.clone()));
    let written = row.value();
    // Both are arrays; all that version 6 has comes first.
    assert_eq!((bytes[0], written[0]), (0x80 | 11, 0x80 | 12));
    assert_eq!(written[1..bytes.len()], bytes[1..]);
    fixture.0.retain(|name, _| name.starts_with('='));
    fixture.close();
}
