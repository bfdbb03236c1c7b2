//! Tests the statements of pgbench, from `-i` to TPC-B.

mod common;

use common::{prepared, run, session};
use futures::executor::block_on;
use meridian_sql::{Response, Session, Status};

fn init(session: &mut Session) {
    assert_eq!(
        run(
            session,
            "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"
        ),
        [
            "NOTICE table \"pgbench_accounts\" does not exist, skipping",
            "NOTICE table \"pgbench_branches\" does not exist, skipping",
            "NOTICE table \"pgbench_history\" does not exist, skipping",
            "NOTICE table \"pgbench_tellers\" does not exist, skipping",
            "DROP TABLE"
        ]
    );
    for sql in [
        "create table pgbench_history(tid int,bid int,aid int,delta int,mtime timestamp,filler char(22))",
        "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)",
        "create table pgbench_accounts(aid int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)",
        "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)",
    ] {
        assert_eq!(run(session, sql), ["CREATE TABLE"]);
    }
    assert_eq!(run(session, "begin"), ["BEGIN"]);
    assert_eq!(
        run(
            session,
            "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"
        ),
        ["TRUNCATE TABLE"]
    );
    assert_eq!(
        run(session, "insert into pgbench_branches(bid,bbalance) values(1,0)"),
        ["INSERT 0 1"]
    );
    for teller in 1..=10 {
        let sql = format!("insert into pgbench_tellers(tid,bid,tbalance) values ({teller},1,0)");
        assert_eq!(run(session, &sql), ["INSERT 0 1"]);
    }
    assert_eq!(run(session, "copy pgbench_accounts from stdin with (freeze on)"), ["COPY IN 4"]);
    let text: String = (1..=50).map(|aid| format!("{aid}\t1\t0\t\n")).collect();
    for piece in text.as_bytes().chunks(17) {
        block_on(session.copy_data(piece)).expect("data");
    }
    assert_eq!(block_on(session.copy_done()).expect("done"), Response::Complete("COPY 50".into()));
    assert_eq!(run(session, "commit"), ["COMMIT"]);
    for sql in [
        "vacuum analyze pgbench_branches",
        "vacuum analyze pgbench_accounts",
        "vacuum analyze pgbench_history",
    ] {
        assert_eq!(run(session, sql), ["VACUUM"]);
    }
    for sql in [
        "alter table pgbench_branches add primary key (bid)",
        "alter table pgbench_tellers add primary key (tid)",
        "alter table pgbench_accounts add primary key (aid)",
    ] {
        assert_eq!(run(session, sql), ["ALTER TABLE"]);
    }
}

#[test]
fn a_whole_run() {
    let (mut session, _) = session();
    let s = &mut session;
    init(s);
    assert_eq!(run(s, "select count(*) from pgbench_branches"), ["1", "SELECT 1"]);
    assert_eq!(
        run(s, "select count(*), min(aid), max(aid) from pgbench_accounts"),
        ["50|1|50", "SELECT 1"]
    );
    let partitions = run(
        s,
        "select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc limit 1",
    );
    assert_eq!(partitions, ["2|NULL|0", "SELECT 1"]);
    assert_eq!(
        run(s, "vacuum pgbench_branches; vacuum pgbench_tellers; truncate pgbench_history").len(),
        3
    );

    for (aid, tid, delta) in [("7", "3", "100"), ("7", "4", "-30"), ("9", "3", "5")] {
        assert_eq!(prepared(s, "BEGIN;", &[]), ["BEGIN"]);
        let update = "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;";
        assert_eq!(prepared(s, update, &[delta, aid]), ["UPDATE 1"]);
        assert_eq!(
            prepared(s, "SELECT abalance FROM pgbench_accounts WHERE aid = $1;", &[aid]).len(),
            2
        );
        let update = "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;";
        assert_eq!(prepared(s, update, &[delta, tid]), ["UPDATE 1"]);
        let update = "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;";
        assert_eq!(prepared(s, update, &[delta, "1"]), ["UPDATE 1"]);
        let insert = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);";
        assert_eq!(prepared(s, insert, &[tid, "1", aid, delta]), ["INSERT 0 1"]);
        assert_eq!(s.status(), Status::InTransaction);
        assert_eq!(prepared(s, "END;", &[]), ["COMMIT"]);
        assert_eq!(s.status(), Status::Idle);
    }
    assert_eq!(run(s, "select sum(abalance) from pgbench_accounts"), ["75", "SELECT 1"]);
    assert_eq!(run(s, "select sum(tbalance) from pgbench_tellers"), ["75", "SELECT 1"]);
    assert_eq!(
        run(s, "select bbalance, filler from pgbench_branches where bid = 1"),
        ["75|NULL", "SELECT 1"]
    );
    assert_eq!(run(s, "select count(*), sum(delta) from pgbench_history"), ["3|75", "SELECT 1"]);
    assert_eq!(
        run(s, "explain (costs off) SELECT abalance FROM pgbench_accounts WHERE aid = 1"),
        [
            "Index Scan using pgbench_accounts_pkey on pgbench_accounts",
            "  Index Cond: (aid = 1)",
            "EXPLAIN"
        ]
    );
}

#[test]
fn the_types_of_parameters_are_inferred() {
    let (mut session, _) = session();
    init(&mut session);
    block_on(session.parse(
        "a",
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
        &[],
    ))
    .unwrap();
    let description = session.describe_statement("a").unwrap();
    let names: Vec<_> = description.params.iter().map(|ty| ty.name()).collect();
    assert_eq!(names, ["integer", "integer"]);
    assert_eq!(description.columns, None);
    block_on(session.parse("b", "SELECT abalance FROM pgbench_accounts WHERE aid = $1", &[0]))
        .unwrap();
    assert_eq!(session.describe_statement("b").unwrap().columns.unwrap()[0].name, "abalance");
}

#[test]
fn futures_of_a_session_can_move_between_threads() {
    fn send<T: Send>(_: &T) {}
    let (mut session, _) = session();
    send(&session);
    send(&session.simple("select 1"));
    send(&session.execute("", 0));
    send(&session.copy_data(b""));
}
