//! Garbage: a file that is not a history is refused with its line and the reason; a readable one is
//! judged without a panic.

use meridian_history::cycles::Model;
use meridian_history::search::Limit;
use meridian_history::{FormatError, Transaction, judge, read_lines};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Reads a file as `check` does, and judges what can be read.
fn check(text: &[u8]) -> Result<Vec<Transaction>, FormatError> {
    let (_, history): (Vec<usize>, Vec<Transaction>) = read_lines(text)?.into_iter().unzip();
    for model in [
        Model::ReadCommitted,
        Model::SnapshotIsolation,
        Model::Serializable,
        Model::StrictSerializable,
    ] {
        drop(judge(&history, model, Limit(100)));
    }
    Ok(history)
}

/// Checks that a refusal names a line of the file and gives a reason.
fn refused(text: &[u8], error: &FormatError) -> Result<(), TestCaseError> {
    let FormatError::Line { line, why } = error else {
        return Err(TestCaseError::fail(format!("{error}: memory cannot fail")));
    };
    let lines = text.split(|byte| *byte == b'\n').count();
    prop_assert!((1..=lines).contains(line), "line {} of {}", line, lines);
    prop_assert!(why.len() > 3 && why.len() < 500, "{}", why);
    let told = error.to_string();
    prop_assert!(
        told.starts_with(&format!("line {line}: ")) && !told.contains("at line"),
        "{}",
        told
    );
    Ok(())
}

/// JSON of any shape.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1.5".to_owned()),
        Just("18446744073709551616".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        (0..4i64).prop_map(|number| number.to_string()),
        "\"[a-c]?\"",
        r#""(ok|fail|info|r|w|append|scan|\\u0000|\\ud800)""#,
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let name = prop_oneof![Just("client"), Just("ops"), Just("at"), Just("x")];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|parts| format!("[{}]", parts.join(","))),
            prop::collection::vec((name, inner), 0..3).prop_map(|parts| {
                let parts: Vec<String> =
                    parts.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", parts.join(","))
            }),
        ]
    })
}

/// An operation that may be one.
fn op() -> impl Strategy<Value = String> {
    let key = prop_oneof![4 => "\"[a-c]\"", 1 => "[0-9]", 1 => json()];
    let value =
        prop_oneof![Just("null".to_owned()), "[0-4]", r"\[[0-4](,[0-4])?\]", r"\[\]", json()];
    let rows = prop::collection::vec((key.clone(), value.clone()), 0..3).prop_map(|rows| {
        let rows: Vec<String> =
            rows.iter().map(|(key, value)| format!("[{key},{value}]")).collect();
        format!("[{}]", rows.join(","))
    });
    prop_oneof![
        4 => ("r|w", key.clone(), value).prop_map(|(op, key, value)| format!("[\"{op}\",{key},{value}]")),
        2 => (key.clone(), "[0-4]").prop_map(|(key, element)| format!("[\"append\",{key},{element}]")),
        2 => (key.clone(), key, rows).prop_map(|(low, high, rows)| format!("[\"scan\",{low},{high},{rows}]")),
        1 => json(),
    ]
}

/// A line that may be a transaction.
fn line() -> impl Strategy<Value = String> {
    let ops = prop::collection::vec(op(), 0..4).prop_map(|ops| format!("[{}]", ops.join(",")));
    let status = prop_oneof![3 => Just("\"ok\"".to_owned()), 1 => "\"(fail|info)\"", 1 => json()];
    let time = prop_oneof![8 => "[0-9]", 1 => Just("18446744073709551615".to_owned()), 1 => json()];
    let at = prop_oneof![
        Just(String::new()),
        r#""at":\[[0-3],0,1\],"#,
        json().prop_map(|at| format!("\"at\":{at},"))
    ];
    (time.clone(), time, status, at, ops).prop_map(|(start, end, status, at, ops)| {
        format!(
            "{{\"client\":1,\"start\":{start},\"end\":{end},\"status\":{status},{at}\"ops\":{ops}}}"
        )
    })
}

/// A line that is a transaction.
fn proper() -> impl Strategy<Value = String> {
    let key = "\"[a-c]\"";
    let value = prop_oneof![Just("null".to_owned()), "[0-4]", r"\[[0-4](,[0-4])?\]", r"\[\]"];
    let row = (key, value.clone()).prop_map(|(key, value)| format!("[[{key},{value}]]"));
    let op = prop_oneof![
        ("r|w", key, value).prop_map(|(op, key, value)| format!("[\"{op}\",{key},{value}]")),
        (key, "[0-4]").prop_map(|(key, element)| format!("[\"append\",{key},{element}]")),
        (key, key, row).prop_map(|(low, high, row)| format!("[\"scan\",{low},{high},{row}]")),
    ];
    let ops = prop::collection::vec(op, 0..4).prop_map(|ops| ops.join(","));
    let at = prop_oneof![Just(String::new()), r#""at":\[[0-3],0,1\],"#];
    (0..9u64, 0..9u64, "ok|ok|fail|info", at, ops).prop_map(|(start, lasts, status, at, ops)| {
        let end = start + lasts;
        format!("{{\"client\":1,\"start\":{start},\"end\":{end},\"status\":\"{status}\",{at}\"ops\":[{ops}]}}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_no_history(text in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = check(&text) {
            refused(&text, &error)?;
        }
    }

    #[test]
    fn what_is_nearly_a_history_is_refused_or_judged(lines in prop::collection::vec(line(), 0..6)) {
        let text = lines.join("\n");
        if let Err(error) = check(text.as_bytes()) {
            refused(text.as_bytes(), &error)?;
        }
    }

    #[test]
    fn whatever_a_history_says_is_judged(lines in prop::collection::vec(proper(), 0..9)) {
        let text = lines.join("\n");
        let history = check(text.as_bytes());
        prop_assert!(history.is_ok_and(|history| history.len() == lines.len()), "{}", text);
    }

    #[test]
    fn a_spoilt_byte_is_found_in_its_line(
        lines in prop::collection::vec(proper(), 1..6),
        place: prop::sample::Index,
        how in 0..3u8,
        byte: u8,
    ) {
        let mut text = lines.join("\n").into_bytes();
        let at = place.index(text.len());
        match how {
            0 => text[at] = byte,
            1 => text.insert(at, byte),
            _ => text.truncate(at),
        }
        let before = text[..at].iter().filter(|byte| **byte == b'\n').count();
        if let Err(error) = check(&text) {
            refused(&text, &error)?;
            // If a line is broken in two, either half may be the one that is refused.
            let FormatError::Line { line, .. } = error else { unreachable!("it was a line") };
            prop_assert!((before..=before + 2).contains(&line), "byte {} of line {}: {}", at, before + 1, line);
        }
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("\"{}\"", "é".repeat(100_000));
    let transaction =
        |ops: &str| format!(r#"{{"client":1,"start":1,"end":2,"status":"ok","ops":[{ops}]}}"#);
    let cases = [
        ("{".to_owned(), "EOF while parsing an object, at column 1"),
        (r#"{"client":1,"start":1,"end":2,"status":"ok"}"#.to_owned(), "missing field `ops`"),
        (
            r#"{"client":1,"start":3,"end":2,"status":"ok","ops":[]}"#.to_owned(),
            "the transaction ends before it starts",
        ),
        (transaction(r#"["r","x",1.5]"#), "1.5 is no value"),
        (transaction(r#"["append","x",null]"#), "null is no number"),
        (transaction(r#"["scan",1,15,[]]"#), "1 is no bound of a scan"),
        (transaction(r#"["scan","a","z",[["x"]]]"#), "is no list of pairs of key and value"),
        (transaction(&format!("[{long}]")), "an operation is"),
        (transaction(&deep), "recursion limit exceeded"),
        ("\u{feff}{}".to_owned(), "expected value"),
    ];
    for (text, why) in cases {
        let file = format!("\n{}\n{text}\n", transaction(""));
        let error = check(file.as_bytes()).expect_err(why);
        assert!(
            error.to_string().starts_with("line 3: ") && error.to_string().contains(why),
            "{why}: {error}"
        );
        assert!(error.to_string().len() < 500);
    }
}
