//! Tests notifications of sessions whose process falls behind, fails to erase, or serves others.

use super::common::{Memory, run, session};
use futures::executor::block_on;
use meridian_sql::{Delivery, Engine, QueryMemory, Session};
use std::sync::Arc;
use std::time::Duration;

/// The prefix of the rows of notifications.
const ROWS: [u8; 2] = [1, 15];
/// A time after which rows are erased, and a snapshot is far behind.
const LONG: Duration = Duration::from_secs(100);

/// Opens a session of an engine that listens on a channel.
fn listener(engine: &Arc<Engine>) -> Session {
    let mut session = Session::new(engine.clone(), "listener");
    session.receive_notifications();
    assert_eq!(run(&mut session, "listen a"), ["LISTEN"]);
    session
}

fn payloads(session: &Session) -> Vec<String> {
    session.take_notifications().iter().map(|it| it.payload.clone()).collect()
}

/// A session that begins to listen while the history of the others is gone gets what commits from
/// then on, and the others get an error: some are lost for them.
#[test]
fn a_process_that_fell_behind_begins_at_the_present() {
    let (mut sender, memory) = session();
    let engine = Arc::new(Engine::new("postgres", Arc::new(memory.clone())));
    let behind = listener(&engine);
    assert!(behind.listens() && !sender.listens());
    run(&mut sender, "notify a, 'gone'");
    memory.pass(LONG);
    memory.forget_history();
    let fresh = listener(&engine);
    assert!(behind.has_lost_notifications() && !fresh.has_lost_notifications());
    run(&mut sender, "notify a, 'new'");
    let delivery = Delivery::begin(&engine).expect("sessions listen");
    block_on(delivery.read()).expect("reads");
    assert_eq!(payloads(&fresh), ["new"]);
    assert!(payloads(&behind).is_empty());
}

/// Rows are erased after all if the first attempt fails.
#[test]
fn what_could_not_be_erased_is_erased_later() {
    let (mut session, memory) = session();
    let engine = session.engine().clone();
    run(&mut session, "notify a; notify b");
    assert_eq!(memory.rows(&ROWS), 2);
    let mut now = LONG;
    let mut erase = || {
        assert!(engine.has_due_notifications(now));
        let erased = block_on(engine.erase_notifications(now));
        now += LONG;
        (erased.is_ok(), memory.rows(&ROWS))
    };
    assert_eq!(erase(), (true, 2), "they are young");
    memory.pass(LONG);
    memory.fail_reads(1);
    assert_eq!(erase(), (false, 2));
    memory.abort_commits(1);
    assert_eq!(erase(), (true, 2));
    assert_eq!(erase(), (true, 0));
    assert!(!engine.has_due_notifications(now), "nothing is left");
}

/// A session's temporary tables end with it, also if it was the first that listened.
#[test]
fn a_delivery_keeps_no_temporary_tables() {
    let held = Arc::new(QueryMemory::of(16 << 20));
    let database = Arc::new(Memory::default());
    let engine = Arc::new(Engine::new("postgres", database).with_memory(held.clone()));
    let mut first = listener(&engine);
    run(&mut first, "create temp table t as select repeat('x', 1000000) x");
    let delivery = Delivery::begin(first.engine()).expect("it listens");
    let _other = listener(&engine);
    assert!(held.held_bytes() > 1_000_000);
    drop(first);
    assert_eq!(held.held_bytes(), 0);
    block_on(delivery.read()).expect("reads");
}
