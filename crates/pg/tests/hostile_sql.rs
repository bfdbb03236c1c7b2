//! Statements that once ended, froze or swelled the process, against a live server. After each, the
//! same process answers; beside each, a second session is answered.

mod common;

use common::{PATIENCE, Running, start, start_by};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// The time within which a second session is answered, on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// The time within which a cancel request or a timeout ends a statement, on a busy machine.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);
/// The most memory that the process of the tests, server and clients, may take.
const MOST_MEMORY_MB: usize = 2_000;

/// The expected outcome of a statement.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// This value in the first column of the first row.
    Value(&'static str),
    /// Any rows.
    Rows,
    /// An error of this SQLSTATE.
    Fails(&'static str),
}

use Outcome::{Fails, Rows, Value};

const TOO_DEEP: Outcome = Fails("54001");
const TOO_LARGE: Outcome = Fails("54000");
const TOO_MANY: Outcome = Fails("54011");

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
}

fn list(count: usize, item: impl Fn(usize) -> String, between: &str) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(between)
}

/// Returns chains of operators.
fn chains() -> Vec<(String, Outcome)> {
    let mut all = Vec::new();
    for operation in ["UNION ALL", "EXCEPT", "INTERSECT"] {
        all.push((format!("SELECT 1{}", format!(" {operation} SELECT 1").repeat(565)), Rows));
    }
    for (first, link) in [
        ("true", " IS NULL"),
        ("1", "::int"),
        ("1", " + 0"),
        ("'a'", " || 'a'"),
        ("1", " OPERATOR(pg_catalog.+) 0"),
    ] {
        let chain = |times| format!("SELECT {first}{}", link.repeat(times));
        all.extend([(chain(121), Rows), (chain(1_000), Rows), (chain(20_000), TOO_DEEP)]);
    }
    for (first, link) in [("'a'", " LIKE 'a'"), ("1", " IN (1)")] {
        all.push((format!("SELECT {first}{}", link.repeat(20_000)), TOO_DEEP));
    }
    all.push((format!("SELECT true{}", " AND true".repeat(20_000)), Value("t")));
    for between in [" OR ", " AND "] {
        let terms = list(10_000, |n| format!("a <> {n}"), between);
        all.push((format!("SELECT count(*) FROM t WHERE {terms}"), Rows));
    }
    let whens = list(1_000, |n| format!("WHEN a = {n} THEN {n}"), " ");
    all.push((format!("SELECT CASE {whens} END FROM t"), Rows));
    all.push((format!("SELECT true{}", " BETWEEN false AND true".repeat(30)), TOO_DEEP));
    for (columns, outcome) in [(1_000, Value("12")), (1_664, Value("12")), (10_000, TOO_MANY)] {
        let row = |name: &str| list(columns, |_| name.to_owned(), ", ");
        let (a, b) = (row("a"), row("b"));
        all.push((
            format!("SELECT count(*) FROM t WHERE ({a}) <= ({b}) OR ({b}) < ({a})"),
            outcome,
        ));
    }
    all
}

/// Returns calls and subqueries inside each other.
fn nests() -> Vec<(String, Outcome)> {
    let mut all = Vec::new();
    for (open, inner, close, value) in [
        ("abs(", "1", ")", "1"),
        ("lower(", "'A'", ")", "a"),
        ("coalesce(", "1", ", 2)", "1"),
        ("(", "1", ")", "1"),
        ("(0 + ", "1", ")", "1"),
        ("(SELECT ", "1", ")", "1"),
        ("EXISTS (SELECT 1 WHERE ", "true", ")", "t"),
        ("1 IN (SELECT ", "1", ")", ""),
        ("CASE WHEN ", "true", " THEN true END", "t"),
        ("CAST(", "1", " AS int)", "1"),
    ] {
        for times in [34, 1_000] {
            let text = nested(open, inner, close, times);
            // An integer is not a truth value: the levels above the innermost differ in type.
            let outcome = if value.is_empty() { Fails("42883") } else { Value(value) };
            all.push((text, outcome));
        }
        all.push((nested(open, inner, close, 20_000), TOO_DEEP));
    }
    for times in [18, 500] {
        let (open, close) = ("(SELECT * FROM ".repeat(times), ") x".repeat(times));
        all.push((format!("SELECT count(*) FROM {open}t{close}"), Value("12")));
    }
    let joins = list(12, |n| format!("JOIN t t{n} ON t{n}.a = t.a"), " ");
    all.push((format!("SELECT count(*) FROM t {joins}"), Value("12")));
    let (joins, conditions) =
        (list(200, |n| format!("JOIN (SELECT 1) x{n}"), " "), " ON true".repeat(200));
    all.push((format!("SELECT count(*) FROM t {joins}{conditions}"), Value("12")));
    all.push((format!("SELECT true{}", " IS DISTINCT FROM false".repeat(1_000)), Rows));
    all.push((format!("{}SELECT 1", "EXPLAIN ".repeat(5_000)), TOO_DEEP));
    all.push((format!("CREATE TABLE d (a int{})", "[]".repeat(5_000)), TOO_DEEP));
    all.push((nested("CONVERT(", "1", ", 2)", 200), Fails("42601")));
    all
}

/// Returns statements whose plans are deep, or whose expressions double from level to level.
fn plans() -> Vec<(String, Outcome)> {
    let mut all = Vec::new();
    // What is not deep has no stack of its own: the depths around that limit come first.
    for times in [20, 24, 28, 32, 36, 40, 48, 64, 300, 900] {
        let over = |outputs: &str| {
            format!("{}t{}", format!("(SELECT {outputs} FROM ").repeat(times), ") q".repeat(times))
        };
        let doubled = over("(a + a) / 2 AS a");
        all.push((format!("SELECT count(*) FROM {doubled} WHERE a > 6"), Value("5")));
        all.push((
            format!("SELECT count(*) FROM t WHERE EXISTS (SELECT FROM {doubled} WHERE q.a = t.b)"),
            Value("12"),
        ));
        all.push((format!("SELECT count(*) FROM {}", over("DISTINCT a")), Value("12")));
        let counted = over("a, row_number() OVER (ORDER BY a)");
        all.push((format!("SELECT count(*) FROM {counted}"), Value("12")));
        let maxima = ("(SELECT max(a) * 0 + ".repeat(times), " FROM t)".repeat(times));
        all.push((format!("SELECT {}1{}", maxima.0, maxima.1), Value("1")));
        let sums = list(times, |n| format!("sum(a) OVER (ORDER BY b + {n})"), ", ");
        all.push((format!("SELECT {sums} FROM t"), Rows));
        all.push((format!("EXPLAIN SELECT {sums} FROM t"), Rows));
    }
    for times in [24, 36, 64] {
        // Each level is read for each row of the one around it.
        let exists = list(times, |n| format!("EXISTS (SELECT FROM t t{n} WHERE "), "");
        let close = ")".repeat(times);
        all.push((format!("SELECT count(*) FROM t WHERE {exists}t.a = t0.a{close}"), Value("12")));
    }
    for times in [24, 36, 300] {
        let laterals =
            list(times, |n| format!("LATERAL (SELECT * FROM t WHERE a = t{n}.b) t{}", n + 1), ", ");
        all.push((format!("SELECT count(*) FROM t t0, {laterals}"), Value("12")));
        let joins = list(times, |n| format!("LEFT JOIN t t{n} USING (a)"), " ");
        all.push((format!("SELECT count(*) FROM t {joins}"), Value("12")));
    }
    all
}

/// Returns statements that ask for memory.
fn large() -> Vec<(String, Outcome)> {
    let big = "repeat('x', 60000000)";
    vec![
        (format!("SELECT count(*) FROM t GROUP BY CUBE ({})", "a, ".repeat(19) + "a"), TOO_MANY),
        ("SELECT repeat('x', 2147483647)".into(), TOO_LARGE),
        ("SELECT lpad('x', 2000000000)".into(), TOO_LARGE),
        (format!("SELECT length({big})"), Value("60000000")),
        (format!("SELECT length({})", list(20, |_| big.into(), " || ")), TOO_LARGE),
        (format!("SELECT length(concat({}))", list(20, |_| big.into(), ", ")), Fails("53200")),
        (format!("SELECT {}", list(50, |_| big.into(), ", ")), Fails("53200")),
        (
            "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000000)))".into(),
            TOO_LARGE,
        ),
        (
            "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g'))"
                .into(),
            TOO_LARGE,
        ),
        (format!("SELECT {}", list(100_000, |_| "1".into(), ", ")), TOO_MANY),
        (format!("CREATE TABLE w ({})", list(20_000, |n| format!("c{n} int"), ", ")), TOO_MANY),
        (format!("SELECT {}", "(".repeat(60 << 20)), TOO_DEEP),
        (format!("SELECT {}", "+".repeat(10 << 20)), TOO_LARGE),
        ("SELECT sum(length(repeat('x', 1000000))) FROM t, t u, t v".into(), Value("1728000000")),
    ]
}

/// Asks a second session again and again; returns the longest time of an answer.
fn bystander(client: Client, over: Arc<AtomicBool>) -> tokio::task::JoinHandle<Duration> {
    tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        while !over.load(Relaxed) {
            let began = Instant::now();
            client.simple_query("SELECT 1").await.expect("the second session is answered");
            longest = longest.max(began.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        longest
    })
}

/// Returns the largest amount of memory that this process has had, where the system tells.
fn peak_mb() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? >> 10)
}

async fn check(client: &Client, text: &str, outcome: Outcome) {
    let answer = timeout(PATIENCE, client.simple_query(text)).await;
    let answer = answer.unwrap_or_else(|_| panic!("{text:.80} takes more than {PATIENCE:?}"));
    let first = |messages: &[tokio_postgres::SimpleQueryMessage]| {
        messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    };
    let code = |error: &tokio_postgres::Error| error.code().map(|code| code.code().to_owned());
    match (&answer, outcome) {
        (Ok(messages), Value(value)) => {
            assert_eq!(first(messages).as_deref(), Some(value), "{text:.80}");
        }
        (Ok(_), Rows) => {}
        (Err(error), Fails(state)) => {
            assert_eq!(code(error).as_deref(), Some(state), "{text:.80}: {error:?}");
        }
        (answer, _) => {
            let error = answer.as_ref().map_err(|error| error.to_string()).map(|_| "rows");
            panic!("{text:.80}: {outcome:?} is expected, not {error:?}");
        }
    }
}

async fn survives(server: Running) {
    let client = server.client().await;
    let rows = list(12, |n| format!("({n}, {n})"), ", ");
    let make = format!("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES {rows}");
    client.batch_execute(&make).await.expect("is made");
    for (text, outcome) in [chains(), nests(), plans(), large()].concat() {
        let over = Arc::new(AtomicBool::new(false));
        let second = bystander(server.client().await, over.clone());
        check(&client, &text, outcome).await;
        over.store(true, Relaxed);
        let longest = second.await.expect("the second session lives");
        assert!(longest < ANSWERED_WITHIN, "{text:.80}: a second session waited {longest:?}");
    }
    assert_eq!(server.counters.panics_total.load(Relaxed), 0);
    if let Some(peak) = peak_mb() {
        assert!(peak < MOST_MEMORY_MB, "the process took {peak} MB");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hostile_corpus_harms_no_other_session() {
    survives(start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hostile_corpus_harms_no_other_session_under_tapir() {
    survives(start_by(meridian_systems::Protocol::named("tapir").expect("there is one")).await)
        .await;
}

/// Statements that only compute, for a long time.
const ENDLESS: [&str; 4] = [
    "SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h \
     WHERE a.a + b.a + c.a + d.a + e.a + f.a + g.a + h.a < 0",
    "SELECT a.a FROM t a, t b, t c, t d, t e, t f ORDER BY a.b + b.b, c.b DESC, d.b + e.b * f.b",
    "SELECT sum(length(repeat('x', 1000000 + a.a))) FROM t a, t b, t c, t d, t e",
    "SELECT DISTINCT a.a + b.a * 12 + c.a * 144 + d.a FROM t a, t b, t c, t d, t e, t f, t g",
];

/// Returns statements that take seconds to plan, in a build for tests.
fn long_to_plan() -> Vec<String> {
    let over = |level: &str, inner: &str, times| {
        format!("SELECT {}{inner}{}", level.repeat(times), " FROM t)".repeat(times))
    };
    let laterals =
        list(400, |n| format!("LATERAL (SELECT a + t{n}.a AS a FROM t) t{}", n + 1), ", ");
    let joins = list(900, |n| format!(" JOIN t t{} ON t{}.a = t{n}.a)", n + 1, n + 1), "");
    vec![
        over("(SELECT max(a) + ", "1", 900),
        format!("EXPLAIN SELECT count(*) FROM t t0, {laterals}"),
        format!("EXPLAIN SELECT count(*) FROM {}t t0{joins}", "(".repeat(900)),
    ]
}

async fn with_table(server: &Running) -> Client {
    let client = server.client().await;
    let rows = list(12, |n| format!("({n}, {n})"), ", ");
    let make = format!("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES {rows}");
    client.batch_execute(&make).await.expect("is made");
    client
}

/// Checks that a timeout and a cancel request stop a statement, and prints when.
async fn stops(client: &Client, text: &str) {
    client.batch_execute("SET statement_timeout = '200ms'").await.expect("is set");
    let began = Instant::now();
    let error = client.batch_execute(text).await.expect_err("is stopped");
    let limit = Duration::from_millis(200);
    let behind_limit = began.elapsed().saturating_sub(limit);
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{text:.80}: {error:?}");
    assert!(behind_limit < STOPPED_WITHIN, "{text:.80}: {behind_limit:?}");

    client.batch_execute("SET statement_timeout = 0").await.expect("is set");
    let token = client.cancel_token();
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        token.cancel_query(NoTls).await.expect("is sent");
        Instant::now()
    };
    let (answer, sent) = tokio::join!(client.batch_execute(text), cancel);
    let error = answer.expect_err("is cancelled");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{text:.80}: {error:?}");
    let behind_request = sent.elapsed();
    assert!(behind_request < STOPPED_WITHIN, "{text:.80}: {behind_request:?}");
    println!("{behind_limit:>9.1?} {behind_request:>9.1?} behind limit and request: {text:.50}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_and_a_cancel_request_stop_what_only_computes() {
    let server = start().await;
    let client = with_table(&server).await;
    for text in ENDLESS {
        stops(&client, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_and_a_cancel_request_stop_planning() {
    let server = start().await;
    let client = with_table(&server).await;
    for text in long_to_plan() {
        stops(&client, &text).await;
    }
    assert_eq!(server.counters.panics_total.load(Relaxed), 0);
}

/// Statements of one row, of which one function computes for seconds.
const LONG_FUNCTIONS: [&str; 7] = [
    "SELECT repeat('a', 60000000) ILIKE '%' || repeat('a_', 20000) || 'b%'",
    "SELECT count(*) FROM t WHERE repeat('a', 1500000 + a) LIKE '%' || repeat('a_', 2000) || 'b%'",
    "SELECT length(to_char(now(), repeat('YYYY', 10000000)))",
    "SELECT to_date(repeat('2020 ', 3000000), repeat('YYYY ', 3000000))",
    "SELECT length(to_char(1, repeat('9', 10000000)))",
    "SELECT length(regexp_replace(repeat('a', 60000000), 'a', 'b', 'g'))",
    "CREATE INDEX ON t ((repeat('a', 1500000 + a) LIKE '%' || repeat('a_', 2000) || 'b%'))",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_and_a_cancel_request_stop_functions() {
    let server = start().await;
    let client = with_table(&server).await;
    for text in LONG_FUNCTIONS {
        let over = Arc::new(AtomicBool::new(false));
        let second = bystander(server.client().await, over.clone());
        stops(&client, text).await;
        over.store(true, Relaxed);
        let longest = second.await.expect("the second session lives");
        assert!(longest < ANSWERED_WITHIN, "{text:.80}: a second session waited {longest:?}");
    }
    assert_eq!(server.counters.panics_total.load(Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statement_of_a_vanished_client_ends() {
    let server = start().await;
    let watcher = with_table(&server).await;
    for text in ENDLESS.iter().chain(&LONG_FUNCTIONS[..2]) {
        let mut client = server.session().await;
        // What follows is not read while the statement runs.
        client.send([common::query(text), common::query("SELECT 1")].concat()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(client);
        let began = Instant::now();
        while server.counters.connections_open.load(Relaxed) > 1 {
            assert!(began.elapsed() < PATIENCE, "{text}: the session still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    watcher.batch_execute("SELECT 1").await.expect("is answered");
}
