//! A member continues from a received copy of its shard, in order, or not at all.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{DatabaseId, NodeId, Outbox, ShardId};
use meridian_mvcc::KeyRange;
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::{
    Config, Index, Membership, MembershipEpoch, Restored, Roster, Term,
};
use meridian_systems::locking::{Recovered, Replica, Rows, TransactionRows};
use meridian_systems::shard::Origin;
use meridian_systems::shard::{CopyDecision, CopyError, ReceivedCopy};

const ME: NodeId = NodeId(1);
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

fn now() -> Reading {
    Reading::at(1_000_000_000, Interval::around(1_000_000_000, 1_000_000))
}

/// Returns a member that has applied the entries through `applied`, with the effects of its
/// creation.
fn member(origin: Origin, applied: u64) -> (Replica, Outbox<Replica>) {
    let mut config = Config::new(ME, NODES.to_vec(), DatabaseId(1), FIRST_SHARD);
    origin.apply_to(&mut config);
    let mut out = Outbox::new();
    let restored =
        Restored { applied: Index(applied), applied_term: Term(1), ..Restored::default() };
    let recovered = Recovered { bounds: KeyRange::all(), ..Recovered::default() };
    (Replica::new(config, 7, restored, recovered, now(), &mut out), out)
}

fn placed(applied: u64) -> (Replica, Outbox<Replica>) {
    let members = Membership::initial(Roster::voters(NODES.iter().copied()));
    member(Origin::Placed(Box::new(members)), applied)
}

/// A copy through an entry, which notes each step, and one of whose steps may fail.
struct Copy {
    through: u64,
    failing: Option<&'static str>,
    steps: std::cell::RefCell<Vec<&'static str>>,
}

impl Copy {
    fn new(through: u64, failing: Option<&'static str>) -> Copy {
        Copy { through, failing, steps: Default::default() }
    }

    fn step(&self, step: &'static str) -> Result<(), &'static str> {
        self.steps.borrow_mut().push(step);
        if self.failing == Some(step) { Err(step) } else { Ok(()) }
    }
}

impl ReceivedCopy for Copy {
    type Rows = TransactionRows;
    type Error = &'static str;

    fn through(&self) -> (Index, Term) {
        (Index(self.through), Term(2))
    }

    fn rows(&self) -> Result<Rows, &'static str> {
        self.step("rows").map(|()| Rows::default())
    }

    fn replace(&mut self) -> Result<(), &'static str> {
        self.step("replace")
    }

    fn recovered(&self) -> Result<Recovered, &'static str> {
        self.step("recovered")?;
        let agreed = Timestamp { nanos: 77, logical: 0, issuer: 1 };
        let children = vec![("m".into(), ShardId(5))];
        let (bounds, _) = KeyRange::all().cut(&"m".into());
        Ok(Recovered { bounds, children, rows: Rows::default(), agreed })
    }

    fn publish(&mut self, recovered: &Recovered) {
        assert!(recovered.bounds.end.is_some());
        self.steps.borrow_mut().push("publish");
    }

    fn report_children(&mut self) -> Result<(), &'static str> {
        self.step("report children")
    }
}

const STEPS: [&str; 5] = ["rows", "replace", "recovered", "publish", "report children"];

#[test]
fn a_member_continues_from_a_copy_that_it_lacks() {
    let ((mut member, mut out), mut copy) = (placed(3), Copy::new(8, None));
    assert_eq!(member.take_over(now(), &mut copy, &mut out), Ok(CopyDecision::Taken));
    assert_eq!(copy.steps.into_inner(), STEPS);
    assert_eq!(member.group().commit_index(), Index(8));
    assert_eq!(member.bounds().end, Some("m".into()), "the copy's keys");
}

#[test]
fn a_copy_is_unwanted_if_the_log_was_faster_or_the_membership_is_not_durable() {
    let epoch = MembershipEpoch { since: Index(4), witness: false };
    let cases = [(placed(8), 8), (placed(9), 8), (member(Origin::Invited(epoch), 0), 8)];
    for ((mut member, mut out), through) in cases {
        let (before, mut copy) = (member.group().commit_index(), Copy::new(through, None));
        assert_eq!(member.take_over(now(), &mut copy, &mut out), Ok(CopyDecision::Unwanted));
        assert!(copy.steps.into_inner().is_empty());
        assert_eq!(member.group().commit_index(), before);
    }
}

#[test]
fn a_member_does_not_continue_from_a_copy_of_which_a_step_fails() {
    for (at, step) in STEPS.into_iter().enumerate().filter(|(_, step)| *step != "publish") {
        let ((mut member, mut out), mut copy) = (placed(3), Copy::new(8, Some(step)));
        let error =
            if step == "rows" { CopyError::Unreadable(step) } else { CopyError::NotReplaced(step) };
        assert_eq!(member.take_over(now(), &mut copy, &mut out), Err(error));
        assert_eq!(copy.steps.into_inner(), STEPS[..=at]);
        assert_eq!(member.group().commit_index(), Index(3), "{step}");
    }
}
