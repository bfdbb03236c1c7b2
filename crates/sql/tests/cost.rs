//! Measures the cost of a prepared point statement above the transaction's: prints it, and checks a
//! generous limit.

mod common;

use common::{run, session};
use futures::executor::block_on;
use meridian_sql::Datum;
use std::time::{Duration, Instant};

#[test]
fn a_prepared_point_select_is_cheap() {
    let (mut session, _) = session();
    let s = &mut session;
    run(
        s,
        "create table t (id int primary key, n int); insert into t values (1, 1), (2, 2), (3, 3)",
    );
    block_on(s.parse("q", "select n from t where id = $1", &[])).unwrap();
    let rounds = 2_000;
    let start = Instant::now();
    block_on(async {
        for round in 0..rounds {
            s.bind("", "q", vec![Datum::Int4(round % 3 + 1)]).unwrap();
            s.execute("", 0).await.unwrap();
            s.sync().await.unwrap();
        }
    });
    let each = start.elapsed() / rounds as u32;
    println!("prepared point select: {each:?}");
    assert!(each < Duration::from_millis(1), "{each:?}");
}
