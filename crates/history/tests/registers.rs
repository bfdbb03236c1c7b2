//! The promise of a store without transactions, checked on histories that keep it and histories
//! that do not.

use meridian_history::{Op, Stamp, Status, Transaction, Value, registers};

fn at(nanos: u64) -> Option<Stamp> {
    Some((nanos, 0, 1))
}

fn transaction(
    start: u64,
    end: u64,
    status: Status,
    at: Option<Stamp>,
    ops: Vec<Op>,
) -> Transaction {
    Transaction { at, ..Transaction::new(start, (start, end), status, ops) }
}

fn write(start: u64, end: u64, nanos: u64, number: i64) -> Transaction {
    transaction(
        start,
        end,
        Status::Ok,
        at(nanos),
        vec![Op::Write("x".into(), Value::Number(number))],
    )
}

fn read(start: u64, found: Value) -> Transaction {
    transaction(start, start + 1, Status::Ok, None, vec![Op::Read("x".into(), found)])
}

#[test]
fn an_acknowledged_write_is_seen_by_whatever_begins_later() {
    let history = [write(1, 5, 3, 7), read(6, Value::Number(7))];
    assert_eq!(registers::judge(&history), Ok(()));
    let history = [write(1, 5, 3, 7), read(6, Value::Nothing)];
    assert!(
        registers::judge(&history)
            .unwrap_err()
            .to_string()
            .contains("had been acknowledged before")
    );
    let scan = |start| {
        transaction(start, start, Status::Ok, None, vec![Op::Scan("a".into(), "z".into(), vec![])])
    };
    assert!(registers::judge(&[write(1, 5, 3, 7), scan(6)]).is_err());
    assert_eq!(
        registers::judge(&[write(1, 5, 3, 7), scan(5)]),
        Ok(()),
        "begun before the acknowledgement"
    );
}

#[test]
fn the_highest_timestamp_stands_and_not_the_latest_acknowledgement() {
    let both = |found| [write(1, 5, 90, 7), write(6, 8, 30, 8), read(9, found)];
    assert_eq!(registers::judge(&both(Value::Number(7))), Ok(()));
    assert!(registers::judge(&both(Value::Number(8))).is_err());
}

#[test]
fn what_was_not_acknowledged_may_be_seen_here_and_not_there() {
    let unknown =
        transaction(1, 5, Status::Info, at(3), vec![Op::Write("x".into(), Value::Number(7))]);
    for found in [Value::Number(7), Value::Nothing] {
        assert_eq!(registers::judge(&[unknown.clone(), read(6, found)]), Ok(()));
    }
    let failed = Transaction { status: Status::Fail, ..unknown };
    assert!(registers::judge(&[failed, read(6, Value::Number(7))]).is_err());
}

#[test]
fn a_value_that_nothing_wrote_is_no_version() {
    assert!(registers::judge(&[read(1, Value::Number(1))]).is_err());
    let ops = vec![Op::Read("l".into(), Value::List(vec![1])), Op::Append("l".into(), 2)];
    let history = [
        transaction(1, 2, Status::Ok, at(1), vec![Op::Append("l".into(), 1)]),
        transaction(3, 4, Status::Ok, at(3), ops),
        transaction(5, 6, Status::Ok, None, vec![Op::Read("l".into(), Value::List(vec![2]))]),
    ];
    assert!(registers::judge(&history).is_err(), "half of what was written");
}

#[test]
fn a_deletion_is_a_version_and_own_writes_are_read() {
    let delete = transaction(6, 8, Status::Ok, at(7), vec![Op::Write("x".into(), Value::Nothing)]);
    let history = [write(1, 5, 3, 7), delete, read(9, Value::Nothing)];
    assert_eq!(registers::judge(&history), Ok(()));
    let ops = vec![Op::Write("x".into(), Value::Number(9)), Op::Read("x".into(), Value::Number(9))];
    let own = transaction(10, 11, Status::Info, None, ops);
    assert_eq!(registers::judge(&[write(1, 5, 3, 7), own]), Ok(()));
}
