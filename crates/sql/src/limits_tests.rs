//! Tests with SQL texts that once ended, froze or exhausted the process, and with long texts of
//! clients that must work.

use crate::error::SqlError;
use crate::limits;
use crate::parse::{Parsed, statements};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sqlparser::ast::{Expr, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::time::{Duration, Instant};

/// The stack size of threads that run sessions.
const STACK_BYTES: usize = 2 << 20;
/// The time limit for parsing a statement, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Parses on a stack of a session's size, and drops the result there.
fn on_small_stack<T: Send + 'static>(
    sql: String,
    then: impl FnOnce(Result<Vec<Parsed>, SqlError>) -> T + Send + 'static,
) -> T {
    let run = move || {
        let began = Instant::now();
        let parsed = statements(&sql);
        assert!(began.elapsed() < PATIENCE, "{:.60} took {:?}", sql, began.elapsed());
        then(parsed)
    };
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no overflow")
}

/// Returns the error of a rejected statement; empty for one that is parsed.
fn refused(sql: String) -> String {
    on_small_stack(sql, |parsed| parsed.map_or_else(|error| error.to_string(), |_| String::new()))
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("select {}{inner}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn chains_of_any_length_are_refused_by_name_or_parsed() {
    for link in [
        " IS NULL",
        " LIKE 'a'",
        " IN (1)",
        "::int",
        " || 'a'",
        " + 1",
        " OPERATOR(pg_catalog.+) 1",
        " BETWEEN 1 AND 2",
        " AT TIME ZONE 'utc'",
    ] {
        let error = refused(format!("select x{} from t", link.repeat(20_000)));
        assert!(error.starts_with("54001: stack depth limit exceeded"), "{link}: {error}");
        assert!(error.contains("inside each other: the limit is 5000"), "{link}: {error}");
        let error = refused(format!("select x{} from t", link.repeat(110_000)));
        assert!(error.contains("Operators in one chain: the limit is 100000"), "{link}: {error}");
        let repeated = if link.contains("BETWEEN") { 10 } else { 4_900 };
        assert_eq!(refused(format!("select x{} from t", link.repeat(repeated))), "", "{link}");
    }
    let error = refused(format!("select x{} from t", "[1]".repeat(20_000)));
    assert!(error.starts_with("54001"), "{error}");
    for operator in [" AND true", " OR false"] {
        assert_eq!(refused(format!("select x{} from t", operator.repeat(50_000))), "");
    }
    let error = refused(nested("cast(", "1", " as int)", 20_000));
    assert!(error.contains("Parentheses inside each other: the limit is 5000"), "{error}");
    for ty in ["int[][]", "array<array<int"] {
        let ty = ty.replace("[]", &"[]".repeat(10_000)).replace("array<", &"array<".repeat(10_000));
        let error = refused(format!("create table t (a {ty})"));
        assert!(error.contains("Dimensions of an array: the limit is 100"), "{error}");
    }
    let error = refused(format!("{}select 1", "explain ".repeat(9_000)));
    assert!(error.starts_with("54001"), "{error}");
}

#[test]
fn a_long_left_side_is_neither_copied_nor_walked_without_stack() {
    for left in [
        format!("id {}", "+ 1 ".repeat(4_900)),
        format!("(true {})", "and true ".repeat(10_000)),
        format!("(select 1 {} limit 1)", "union select 1 ".repeat(900)),
        format!("{}1", "- ".repeat(2_000)),
        format!("{}1{}", "(select ".repeat(300), ")".repeat(300)),
    ] {
        for right in ["is distinct from 1", "is not distinct from 1", "in ((select 1), 2)"] {
            let sql = format!("select {left} {right} from t");
            assert_eq!(refused(sql), "", "{left:.20} … {right}");
        }
    }
    for link in [" is distinct from 1", " in ((select 1), 1)", " not in ((select 1), 1)"] {
        let error = refused(format!("select 1{}", link.repeat(2_000)));
        assert!(error.is_empty() || error.starts_with("54001"), "{link}: {error}");
    }
}

#[test]
fn joins_inside_joins_have_stack() {
    let tables = |times: usize| "a join ".repeat(times);
    for times in [26, 300, 900] {
        let without = format!("select 1 from {}a{}", tables(times), " on true".repeat(times));
        assert_eq!(refused(without), "", "{times}");
        let open = "a join (".repeat(times);
        let within = format!("select 1 from {open}a join a on true{}", ") on true".repeat(times));
        assert_eq!(refused(within), "", "{times}");
        let (open, close) = ("(".repeat(times), ")".repeat(times));
        assert_eq!(refused(format!("select 1 from {open}a join b on true{close}")), "", "{times}");
        let left = format!("{}a{}", "(".repeat(times), " join b on true)".repeat(times));
        assert_eq!(refused(format!("select 1 from {left}")), "", "{times}");
    }
    let deep = format!("select 1 from {}a{}", tables(2_000), " on true".repeat(2_000));
    assert!(refused(deep).starts_with("54001"));
}

#[test]
fn chains_of_set_operations_are_parsed_or_refused_by_name() {
    for operation in ["except", "intersect", "union", "union all"] {
        let chain = |times| format!("select 1{}", format!(" {operation} select 1").repeat(times));
        assert_eq!(refused(chain(4_900)), "", "{operation}");
        let error = refused(chain(20_000));
        assert!(
            operation.starts_with("union") || error.contains("Set operations in one chain"),
            "{operation}: {error}"
        );
    }
}

#[test]
fn stored_expressions_are_not_deep() {
    let error = refused(format!("create table t (a int default 1{})", " + 1".repeat(200)));
    assert!(error.contains("Expressions that are stored"), "{error}");
    assert_eq!(refused(format!("create table t (a int default 1{})", " + 1".repeat(50))), "");
}

#[test]
fn nested_calls_do_not_double_the_work() {
    for (open, inner, close) in [
        ("abs(", "1", ")"),
        ("lower(", "'A'", ")"),
        ("coalesce(", "1", ", 2)"),
        ("nullif(", "1", ", 2)"),
        ("(select ", "1", ")"),
        ("exists (select 1 where ", "true", ")"),
        ("1 in (select ", "1", ")"),
        ("1 in (", "1", ")"),
        ("case when ", "true", " then 1 end = 1"),
        ("not (", "true", ")"),
        ("(1 + ", "1", ")"),
        ("cast(", "1", " as int)"),
        ("(values (", "1", "))"),
    ] {
        assert_eq!(refused(nested(open, inner, close, 34)), "", "{open}");
        assert_eq!(refused(nested(open, inner, close, 1_000)), "", "{open}");
        // An error in the middle makes the parser try all alternatives.
        for times in [34, 1_000] {
            let error = refused(nested(open, "1 1 1 from from", close, times));
            assert!(error.starts_with("54001") || error.starts_with("42601"), "{open}: {error}");
        }
    }
    let from = format!("select * from {}t t t{}", "((select * from ".repeat(12), ") a)".repeat(12));
    assert!(refused(from).starts_with('4'));
    let error = refused(nested("1 + abs(1 + (2 * ", "1", "))", 2_000));
    assert!(error.contains("inside each other: the limit is 4000"), "{error}");
}

#[test]
fn operands_that_are_repeated_are_counted() {
    let between = "true BETWEEN false AND ".to_owned();
    let error = refused(format!("select {}true", between.repeat(30)));
    assert!(error.is_empty() || error.starts_with("54001"), "{error}");
    let error = refused(format!("select true{}", " BETWEEN false AND true".repeat(30)));
    assert!(error.starts_with("54001: the statement is too complex"), "{error}");
    assert!(error.contains("more than 50000 times"), "{error}");
    let error = refused(nested("case ", "1", " when 1 then 1 when 2 then 2 end", 30));
    assert!(error.starts_with("54001: the statement is too complex"), "{error}");
}

#[test]
fn queries_of_with_are_counted_where_they_are_named() {
    let doubling = |times: usize| {
        let steps: Vec<String> = (1..=times)
            .map(|n| format!("q{n} as (select 1 from q{} a, q{} b)", n - 1, n - 1))
            .collect();
        format!("with q0 as (select 1 from t), {} select * from q{times}", steps.join(", "))
    };
    assert!(
        refused(doubling(30)).starts_with("54001: the statement reads more than 1000 relations")
    );
    assert_eq!(refused(doubling(5)), "");
    let joined = (0..1_001).map(|n| format!("t t{n}")).collect::<Vec<_>>().join(", ");
    assert!(refused(format!("select 1 from {joined}")).starts_with("54001"));
}

#[test]
fn wide_queries_are_refused_as_in_postgresql() {
    let error = refused(format!("select {}", vec!["1"; 100_000].join(", ")));
    assert!(error.starts_with("54011: target lists can have at most 1664 entries"), "{error}");
    assert_eq!(refused(format!("select {}", vec!["1"; 1664].join(", "))), "");
    let error = refused(format!("values ({})", vec!["1"; 1665].join(", ")));
    assert!(error.starts_with("54011"), "{error}");
    let columns: Vec<String> = (1..=20).map(|n| format!("c{n}")).collect();
    let error = refused(format!("select 1 from t group by cube({})", columns.join(", ")));
    assert!(error.starts_with("54011: CUBE is limited to 12 elements"), "{error}");
    let error = refused(
        "select 1 from t group by cube(a, b, c, d, e, f, g), cube(h, i, j, k, l, m, n)".into(),
    );
    assert!(error.starts_with("54001: too many grouping sets present (maximum 4096)"), "{error}");
    assert_eq!(refused("select 1 from t group by cube(a, b, c, d), rollup(e, f)".into()), "");
}

#[test]
fn a_text_is_refused_before_its_tokens_fill_the_memory() {
    let error = refused(format!("select {}", "(".repeat(64 << 20)));
    assert!(error.contains("Parentheses inside each other: the limit is 5000"), "{error}");
    for filler in [" ", "+", "a ", ";", "'',"] {
        let error = refused(format!("select {}", filler.repeat(2_100_000)));
        assert!(
            error.starts_with("54000: the statement has more than 2000000 tokens"),
            "{filler}: {error}"
        );
    }
    // A single value may be as long as a message.
    assert_eq!(refused(format!("insert into t values ('{}')", "a b (".repeat(4 << 20))), "");
}

#[test]
fn what_clients_send_is_parsed() {
    let many = |count: usize, item: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(item).collect::<Vec<_>>().join(between)
    };
    let rows = many(2_000, &|n| format!("({n}, 'text', {n}.5, now(), NULL)"), ", ");
    let whens = many(500, &|n| format!("WHEN (\"t\".\"id\" = {n}) THEN {n}"), " ");
    for sql in [
        format!("SELECT * FROM t WHERE id IN ({})", many(5_000, &|n| n.to_string(), ", ")),
        format!(
            "SELECT * FROM t WHERE {}",
            many(1_000, &|n| format!("(a = {n} AND b = 'x')"), " OR ")
        ),
        format!(
            "SELECT * FROM t WHERE {}",
            many(500, &|n| format!("a = {n} AND b <> 'x' AND c IS NOT NULL"), " OR ")
        ),
        many(565, &|n| format!("SELECT {n} AS a, 'x' AS b"), " UNION ALL "),
        many(300, &|n| format!("(SELECT {n}, lower('X') FROM t WHERE a = 1)"), " UNION "),
        format!("INSERT INTO t (a, b, c, d, e) VALUES {rows}"),
        format!("UPDATE t SET x = CASE {whens} ELSE NULL END WHERE id IN (1, 2)"),
        nested("coalesce(lower(trim(", "a", ")), 'x')", 6),
        nested("round(abs((", "a", " + 1)))", 10),
        format!("select {}", many(1_000, &|n| format!("'{n}'"), " || ")),
        format!("select * from t where {}", many(10_000, &|n| format!("a = {n}"), " or ")),
        format!("select * from t where {}", many(10_000, &|n| format!("a <> {n}"), " and ")),
        format!("select case {whens} else 0 end"),
    ] {
        assert_eq!(refused(sql.clone()), "", "{sql:.60}");
    }
}

#[test]
fn balanced_chains_keep_their_order() {
    let terms: Vec<String> = (0..100).map(|n| format!("a = {n}")).collect();
    let sql = format!("SELECT 1 WHERE {}", terms.join(" OR "));
    assert_eq!(
        on_small_stack(sql.clone(), |parsed| parsed.expect("parses")[0].statement.to_string()),
        sql
    );
    let sql = (0..100).map(|n| format!("SELECT {n}")).collect::<Vec<_>>().join(" UNION ALL ");
    assert_eq!(
        on_small_stack(sql.clone(), |parsed| parsed.expect("parses")[0].statement.to_string()),
        sql
    );
    // Other operations in the chain are not moved.
    let sql = format!("{sql} EXCEPT SELECT 1 EXCEPT {}", sql.replace("SELECT 0", "SELECT 7"));
    assert_eq!(
        on_small_stack(sql.clone(), |parsed| parsed.expect("parses")[0].statement.to_string()),
        sql
    );
}

/// Returns the left depth of a statement's first output and of its set operations.
fn spine(statement: &Statement) -> usize {
    let Statement::Query(query) = statement else { return 0 };
    let (mut body, mut depth) = (&*query.body, 0);
    while let SetExpr::SetOperation { left, .. } = body {
        (body, depth) = (left, depth + 1);
    }
    let SetExpr::Select(select) = body else { return depth };
    depth
        + select
            .projection
            .iter()
            .map(|item| match item {
                sqlparser::ast::SelectItem::UnnamedExpr(expr) => height(expr),
                _ => 0,
            })
            .max()
            .unwrap_or(0)
}

fn height(expr: &Expr) -> usize {
    struct Deepest(usize, usize);
    impl sqlparser::ast::Visitor for Deepest {
        type Break = ();
        fn pre_visit_expr(&mut self, _: &Expr) -> std::ops::ControlFlow<()> {
            self.0 += 1;
            self.1 = self.1.max(self.0);
            std::ops::ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, _: &Expr) -> std::ops::ControlFlow<()> {
            self.0 -= 1;
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut deepest = Deepest(0, 0);
    let _ = sqlparser::ast::Visit::visit(expr, &mut deepest);
    deepest.1
}

/// No repeated word builds a deeper tree than the operators that were counted.
#[test]
fn whatever_deepens_the_tree_is_counted() {
    const WORDS: &[&str] = &[
        "a",
        "1",
        "'x'",
        "$1",
        ",",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ":",
        "::",
        "int",
        "+",
        "-",
        "*",
        "=",
        "<",
        "||",
        "!",
        "@",
        "~",
        "#",
        "->",
        "and",
        "or",
        "xor",
        "not",
        "is",
        "null",
        "true",
        "distinct",
        "from",
        "in",
        "between",
        "like",
        "ilike",
        "rlike",
        "regexp",
        "match",
        "similar",
        "to",
        "member",
        "of",
        "div",
        "at",
        "time",
        "zone",
        "collate",
        "escape",
        "any",
        "all",
        "array",
        "case",
        "when",
        "then",
        "else",
        "end",
        "union",
        "except",
        "intersect",
        "minus",
        "select",
        "as",
        "over",
        "filter",
        "where",
        "interval",
        "notnull",
        "overlaps",
        "operator(+)",
        "[1,2]",
        "(1)",
        "(1,2)",
        "is null",
        "at time zone",
        "similar to",
        "is distinct from",
        "not in",
        "union all select 1,2",
        "[1:2]",
        "in (1,2)",
        "any(1)",
        "within group (order by 1)",
        "over (partition by 1,2)",
        "e'x'",
        "normalized",
        "isnull",
    ];
    const REPEATS: usize = 40;
    let check = |cycle: &[&str]| {
        let text = format!("select x {}", format!("{} ", cycle.join(" ")).repeat(REPEATS));
        let Ok(mut tokens) = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize_with_location()
        else {
            return;
        };
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let dialect = crate::dialect::Bounded::of(&tokens);
        let parser = sqlparser::parser::Parser::new(&dialect).with_recursion_limit(REPEATS);
        let mut parser = parser.with_tokens_with_locations(tokens.clone());
        if let Ok(statement) = parser.parse_statement() {
            let (spine, counted) = (spine(&statement), limits::longest_chain(&tokens));
            // The parser's own recursion adds what its limit allows.
            assert!(spine <= counted + REPEATS / 2, "{text}: {spine} levels, {counted} counted");
        }
    };
    // On a large stack, since trees that fail here may be deep.
    let all = move || {
        for first in WORDS {
            check(&[first]);
            for second in WORDS {
                check(&[first, second]);
            }
        }
        let common = ["a", "and", "1,2"];
        for first in WORDS {
            for second in WORDS {
                for third in common {
                    check(&[first, second, third]);
                }
            }
        }
    };
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(all)
        .expect("a thread")
        .join()
        .expect("all counted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// The scan never counts fewer tokens than the tokenizer makes.
    #[test]
    fn a_scan_counts_at_least_the_tokens(parts in prop::collection::vec(prop::sample::select(vec![
        "a", "E", "e'", "'", "''", "\\", "\\'", "\"", "$", "$$", "$a$", "a$", "1", "1.5", "1e5", "1e", ".", "..", "--", "\n", "/*", "*/",
        "(", ")", ";", ",", " ", "\t", "x'", "u&'", "U&\"", "n'", "b'", "é", "::", "->>", "@", "0x1f", "1_000", "_", "#", "?", "q'", "r'",
        "0", "x", "+", "*", "=", "\r", "<",
    ]), 0..40)) {
        let text = parts.concat();
        if let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize() {
            prop_assert!(limits::tokens_at_most(&text) >= tokens.len(), "{text:?} has {}", tokens.len());
        }
    }
}
