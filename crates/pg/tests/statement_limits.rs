//! Tests SQL texts that once ended, froze or exhausted the process, over the wire.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::time::timeout;

async fn start() -> common::Running {
    common::start_with_memory(Arc::default()).await
}

/// Returns the SQLSTATE of a failed statement; "ok" if it succeeds.
async fn answer(client: &tokio_postgres::Client, sql: &str) -> String {
    match timeout(common::PATIENCE * 2, client.simple_query(sql)).await {
        Err(_) => "no answer".into(),
        Ok(Ok(_)) => "ok".into(),
        Ok(Err(error)) => {
            error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
        }
    }
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("select {}{inner}{}", open.repeat(times), close.repeat(times))
}

/// Returns the peak memory of the process, in megabytes.
fn high_water_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) >> 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_ends_freezes_or_swells_the_server() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        )
        .await
        .expect("rows");
    let terms = |count: usize, term: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(term).collect::<Vec<_>>().join(between)
    };
    let cube = |count: usize| terms(count, &|n| format!("a + {n}"), ", ");
    let lines: Vec<(&str, String)> = vec![
        ("ok", terms(565, &|n| format!("SELECT {n}"), " UNION ALL ")),
        ("ok", terms(300, &|n| format!("SELECT a + {n} AS x, b FROM t WHERE a = 1"), " UNION ALL ")),
        (
            "ok",
            format!(
                "SELECT count(*) FROM t x JOIN t y USING (a) WHERE {}",
                terms(500, &|n| format!("x.a = {n}"), " OR ")
            ),
        ),
        ("54001", format!("SELECT count(*) FROM t x JOIN t y USING (a) WHERE x.a{}", " IS NULL".repeat(20_000))),
        ("54001", format!("SELECT count(*) FROM t x JOIN t y USING (a) WHERE x.b{}", " LIKE 'a'".repeat(20_000))),
        ("54001", format!("SELECT count(*) FROM t x JOIN t y USING (a) WHERE x.a{}", " IN (1)".repeat(20_000))),
        ("54001", format!("SELECT x.a{} FROM t x JOIN t y USING (a)", "::int".repeat(20_000))),
        ("ok", format!("{} FROM t x JOIN t y USING (a)", nested("abs(", "x.a", ")", 34))),
        ("ok", format!("{} FROM t x JOIN t y USING (a)", nested("coalesce(", "x.a", ", 2)", 34))),
        ("ok", format!("{} FROM t x JOIN t y USING (a)", nested("coalesce(", "x.a", ", 2)", 10))),
        ("ok", format!("SELECT a FROM t WHERE {}true{}", "EXISTS (SELECT 1 FROM t WHERE ".repeat(8), ")".repeat(8))),
        ("ok", nested("exists (select 1 where ", "true", ")", 34)),
        ("42883", nested("1 in (select ", "1", ")", 34)),
        ("54001", format!("SELECT count(*) FROM t x, t y WHERE true{}", " BETWEEN false AND true".repeat(30))),
        ("ok", format!("SELECT count(*) FROM t x, t y WHERE true{}", " BETWEEN false AND true".repeat(8))),
        ("54001", nested("case ", "1", " when 1 then 1 when 2 then 2 end", 30)),
        ("54011", format!("SELECT count(*) FROM t GROUP BY cube({})", cube(20))),
        ("ok", format!("SELECT count(*) FROM t GROUP BY cube({})", cube(8))),
        ("54000", "SELECT repeat('x', 2147483647)".into()),
        ("54000", "SELECT length(repeat(x.b, 2147483647)) FROM t x JOIN t y USING (a)".into()),
        ("54000", "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000000)))".into()),
        ("54000", "SELECT length(lpad(x.b, 2147483647)) FROM t x JOIN t y USING (a)".into()),
        ("54000", "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g'))".into()),
        (
            "ok",
            "SELECT regexp_replace('Thomas', '.[mN]a.', 'M'), regexp_replace('abab', '(a)(b)', '\\2\\1', 'g')".into(),
        ),
        ("ok", "SELECT count(length(repeat('x', 1000000) || i)) FROM generate_series(1, 2000) AS i".into()),
        ("54011", format!("SELECT {} FROM t x JOIN t y USING (a)", vec!["1"; 100_000].join(", "))),
        ("54011", format!("SELECT {} FROM t", vec!["t.*"; 1_000].join(", "))),
        ("54001", format!("SELECT {}", "(".repeat(63 << 20))),
    ];
    // Another session is served all the while.
    let watched = server.client().await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let watch = tokio::spawn(async move {
        let mut slowest = Duration::ZERO;
        while stopped.try_recv().is_err() {
            let began = Instant::now();
            watched.simple_query("SELECT a FROM t WHERE a = 1").await.expect("is answered");
            slowest = slowest.max(began.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        slowest
    });
    let mut wrong = Vec::new();
    for (expected, sql) in &lines {
        let began = Instant::now();
        let found = answer(&client, sql).await;
        let line = format!("{:.70}: {found} in {:?}, {} MB", sql, began.elapsed(), high_water_mb());
        println!("{line}");
        if found != *expected {
            wrong.push(line);
        }
    }
    let _ = stop.send(());
    let slowest = watch.await.expect("the other session lives");
    println!("the other session waited for {slowest:?} at most");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    assert!(high_water_mb() < 3_000, "{} MB", high_water_mb());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_computes_for_ever_ends_with_its_time_or_its_client() {
    let server = start().await;
    let client = server.client().await;
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000) AS x, generate_series(1, 1000000000) AS y";
    client.batch_execute("SET statement_timeout = '200ms'").await.expect("is set");
    assert_eq!(answer(&client, endless).await, "57014");
    assert_eq!(
        answer(&client, "SELECT length(repeat('x', 100)) FROM generate_series(1, 3) AS i").await,
        "ok"
    );
    let mut gone = server.session().await;
    let open = server.counters.connections_open.load(Relaxed);
    gone.send(common::query(endless)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(gone);
    let left = async {
        while server.counters.connections_open.load(Relaxed) >= open {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(common::PATIENCE, left).await.expect("the server notices");
    // The threads are free again.
    client.batch_execute("SET statement_timeout = 0").await.expect("is set");
    assert_eq!(answer(&client, "SELECT count(*) FROM generate_series(1, 3) AS i").await, "ok");
}
