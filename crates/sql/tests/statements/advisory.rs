//! Tests advisory locks of several processes, in replays, and of sessions that end.

use super::common::run;
use super::with_people;
use futures::executor::block_on;
use meridian_sql::system::Backend;
use meridian_sql::{Engine, QueryMemory, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
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

/// A replay that comes to other calls fails before it makes them, though its rows are the same.
#[test]
fn a_replay_makes_no_other_calls() {
    let other_rows = "delete from people where id = 1; insert into people values (50, 'eve', 1)";
    for change in [other_rows, "update people set age = -1 where id = 1"] {
        let (mut session, memory) = with_people();
        let mut other = Session::new(session.engine().clone(), "other");
        let s = &mut session;
        run(s, "create table t (x int)");
        let called = "select count(*) > 0 from people where age > 0 and pg_try_advisory_lock(id)";
        let begun = run(s, &format!("begin; insert into t values (1); {called}"));
        assert_eq!(begun, ["BEGIN", "INSERT 0 1", "t", "SELECT 1"]);
        run(&mut other, change);
        memory.abort_commits(1);
        let said = run(s, "commit");
        assert!(said[0].starts_with("40001") && said[0].contains("a replay of"), "{said:?}");
        assert_eq!(run(&mut other, "select pg_try_advisory_lock(50)"), ["t", "SELECT 1"]);
        assert_eq!(run(s, "select x from t"), ["SELECT 0"]);
    }
}

/// A replay neither sleeps again nor sends a signal again.
#[test]
fn a_replay_makes_no_call_again_whose_effect_stays() {
    #[derive(Default)]
    struct Signals(AtomicU32);
    impl Backend for Signals {
        fn cancel(&self) {
            self.0.fetch_add(1, Relaxed);
        }
        fn terminate(&self) {
            self.0.fetch_add(1000, Relaxed);
        }
    }
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let signals = Arc::new(Signals::default());
    other.introduce(4711, None, 0);
    other.set_backend(signals.clone());
    let s = &mut session;
    run(s, "create table t (x int)");
    run(s, "begin; insert into t values (1)");
    let called = "select pg_cancel_backend(4711), pg_terminate_backend(4711), pg_sleep(30) is null";
    assert_eq!(run(s, called), ["t|t|f", "SELECT 1"]);
    memory.abort_commits(2);
    let before = memory.now();
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert!(memory.now() - before < 30_000_000_000);
    assert_eq!(signals.0.load(Relaxed), 1001);
    assert_eq!(run(s, "select x from t"), ["1", "SELECT 1"]);
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

/// A replay rolls back to a savepoint as the first run did: the locks that were taken behind it are
/// given up, and no others.
#[test]
fn a_replay_gives_up_the_locks_behind_a_savepoint() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "begin; savepoint a; select pg_advisory_xact_lock(1); rollback to a");
    run(s, "select pg_advisory_xact_lock(2); savepoint b; select pg_advisory_xact_lock(3)");
    memory.abort_reads(1);
    assert_eq!(run(s, "select age from people where id = 1"), ["40", "SELECT 1"]);
    let free = "select pg_try_advisory_xact_lock(1), pg_try_advisory_xact_lock(2), \
                pg_try_advisory_xact_lock(3)";
    assert_eq!(run(&mut other, free), ["t|f|f", "SELECT 1"]);
    assert_eq!(run(s, "rollback to b"), ["ROLLBACK"]);
    assert_eq!(run(&mut other, free), ["t|f|t", "SELECT 1"]);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(&mut other, free), ["t|t|t", "SELECT 1"]);
}

/// The lease is renewed before locks of ended sessions are released, and a release that fails does
/// not hold others up.
#[test]
fn a_failed_release_stops_no_other() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    run(&mut session, "select pg_advisory_lock(9)");
    block_on(session.engine().keep_locks(Duration::from_secs(3))).unwrap();
    let mut dropped = Session::new(session.engine().clone(), "dropped");
    run(&mut dropped, "select pg_advisory_lock(1), pg_advisory_lock(2)");
    drop(dropped);
    // All attempts of the first release.
    memory.abort_commits(50);
    let kept = block_on(session.engine().keep_locks(Duration::from_secs(3)));
    assert_eq!(kept.unwrap_err().sqlstate, "40001");
    let sql = "select pg_try_advisory_lock(1)::int + pg_try_advisory_lock(2)::int";
    assert_eq!(run(&mut elsewhere, sql), ["1", "SELECT 1"]);
    assert!(session.engine().has_due_locks(Duration::from_secs(3)));
    block_on(session.engine().keep_locks(Duration::from_secs(3))).unwrap();
    assert!(!session.engine().has_due_locks(Duration::from_secs(3)));
    assert_eq!(run(&mut elsewhere, sql), ["2", "SELECT 1"]);
}

/// Rows that ended processes have left are neither shown nor kept.
#[test]
fn what_ended_processes_leave_is_removed() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    run(&mut elsewhere, "select pg_advisory_lock(1), pg_advisory_lock(2)");
    drop(elsewhere);
    let held = "select objid from pg_locks where locktype = 'advisory' order by 1";
    assert_eq!(run(&mut session, held), ["1", "2", "SELECT 2"]);
    run(&mut session, "select pg_sleep(13)");
    assert_eq!(run(&mut session, held), ["SELECT 0"]);
    run(&mut session, "select pg_advisory_lock(3)");
    let rows = || memory.rows(&[1, 13]);
    assert_eq!(rows(), 3);
    block_on(session.engine().keep_locks(Duration::from_secs(3))).unwrap();
    assert_eq!(rows(), 1);
    assert_eq!(run(&mut session, held), ["3", "SELECT 1"]);
}

/// A statement of many calls has a bound of warnings, and its calls take up memory of queries.
#[test]
fn calls_are_accounted_for() {
    let (mut session, _) = with_people();
    let calls = "select pg_advisory_unlock(1) from generate_series(1, 1500)";
    let said = run(&mut session, calls);
    assert_eq!(said.iter().filter(|line| line.contains("you don't own a lock")).count(), 1000);
    assert!(said.contains(&"NOTICE 500 more warnings are left out".to_owned()));
    let engine = Engine::new("meridian", Arc::new(super::common::Memory::default()));
    let engine = engine.with_memory(Arc::new(QueryMemory::of(1 << 20)));
    let mut small = Session::new(Arc::new(engine), "small");
    let many = "select from generate_series(1, 100000) where pg_advisory_unlock(1)";
    assert!(run(&mut small, many).contains(&"53200 out of memory".to_owned()));
    assert_eq!(small.engine().memory().held_bytes(), 0);
}
