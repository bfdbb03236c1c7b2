//! Tests advisory locks of several processes, in replays, and of sessions that end.

use super::common::run;
use super::with_people;
use futures::executor::block_on;
use meridian_sql::{Engine, Session};
use std::sync::Arc;
use std::time::Duration;

/// The locks of a process that gives no sign of life are taken over, and its sessions commit
/// nothing until they have given them up.
#[test]
fn the_locks_of_a_silent_process_end() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    let (s, other) = (&mut session, &mut elsewhere);
    run(s, "create table t (x int)");
    assert_eq!(run(s, "select pg_advisory_lock(1)"), ["", "SELECT 1"]);
    assert_eq!(run(s, "insert into t values (1)"), ["INSERT 0 1"]);
    assert_eq!(run(other, "select pg_try_advisory_lock(1)"), ["f", "SELECT 1"]);
    assert_eq!(run(other, "select pg_try_advisory_lock_shared(1)"), ["f", "SELECT 1"]);
    // Time goes on while a session waits.
    let before = memory.now();
    block_on(s.engine().keep_locks(Duration::from_secs(3))).unwrap();
    assert_eq!(run(other, "select pg_advisory_lock(1)"), ["", "SELECT 1"]);
    let waited = memory.now() - before;
    assert!((10_000_000_000..20_000_000_000).contains(&waited), "{waited}");
    let lost = "55P03 the session has lost advisory lock 1";
    assert_eq!(run(s, "insert into t values (2)"), [lost]);
    assert_eq!(run(s, "select pg_try_advisory_lock(1)"), ["t", "SELECT 1"], "it has it, it thinks");
    assert_eq!(run(s, "select pg_advisory_unlock_all()"), ["", "SELECT 1"]);
    assert_eq!(run(s, "insert into t values (3)"), ["INSERT 0 1"]);
    assert_eq!(run(s, "select pg_try_advisory_lock(1)"), ["f", "SELECT 1"]);
    assert_eq!(run(s, "select x from t order by 1"), ["1", "3", "SELECT 2"]);
}

/// A lock is kept as long as its process renews its lease.
#[test]
fn a_lock_is_kept() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    run(&mut session, "select pg_advisory_lock(1)");
    for second in 1..30 {
        run(&mut elsewhere, "select pg_sleep(1)");
        if session.engine().has_due_locks(Duration::from_secs(second)) {
            block_on(session.engine().keep_locks(Duration::from_secs(second))).unwrap();
        }
    }
    assert_eq!(run(&mut elsewhere, "select pg_try_advisory_lock(1)"), ["f", "SELECT 1"]);
}

/// A replay takes and releases nothing, since all of that has happened.
#[test]
fn a_replay_takes_no_lock_again() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create table t (x int)");
    run(s, "begin; insert into t values (1); savepoint a; select pg_advisory_xact_lock(3)");
    run(s, "rollback to a; select pg_advisory_lock(1), pg_try_advisory_lock(2)");
    memory.abort_commits(2);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    let sql = "select pg_advisory_unlock(1), pg_advisory_unlock(2), pg_advisory_unlock(3)";
    let not = "NOTICE you don't own a lock of type ExclusiveLock";
    let said = run(s, sql);
    assert!(said.contains(&"t|t|f".to_owned()) && said.contains(&not.to_owned()), "{said:?}");
    let said = run(s, "select pg_advisory_unlock(1)");
    assert!(said.contains(&"f".to_owned()), "{said:?}");
}

/// The locks of a session that is dropped are free in its process at once, and elsewhere soon.
#[test]
fn the_locks_of_a_dropped_session_end() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    let mut dropped = Session::new(session.engine().clone(), "dropped");
    run(&mut dropped, "select pg_advisory_lock(1), pg_advisory_lock(2)");
    run(&mut dropped, "begin; select pg_advisory_xact_lock(3)");
    drop(dropped);
    assert_eq!(run(&mut session, "select pg_try_advisory_lock(1)"), ["t", "SELECT 1"]);
    assert_eq!(run(&mut elsewhere, "select pg_try_advisory_lock(2)"), ["f", "SELECT 1"]);
    assert!(session.engine().has_due_locks(Duration::ZERO));
    block_on(session.engine().keep_locks(Duration::ZERO)).unwrap();
    let sql = "select pg_try_advisory_lock(1), pg_try_advisory_lock(2), pg_try_advisory_lock(3)";
    assert_eq!(run(&mut elsewhere, sql), ["f|t|t", "SELECT 1"]);
}

/// An attempt whose outcome is unknown is done again, and takes the lock once.
#[test]
fn an_unknown_outcome_is_settled() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    memory.lose_outcome();
    assert_eq!(run(&mut session, "select pg_advisory_lock(1)"), ["", "SELECT 1"]);
    memory.lose_outcome();
    assert_eq!(run(&mut session, "select pg_advisory_unlock(1)"), ["t", "SELECT 1"]);
    assert_eq!(run(&mut other, "select pg_try_advisory_lock(1)"), ["t", "SELECT 1"]);
}
