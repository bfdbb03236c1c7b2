use super::{Evaluation, MOST_STEPS, Path};
use crate::json::Jsonb;

fn path(text: &str) -> Path {
    Path::from_text(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn shown(text: &str) -> String {
    path(text).to_string()
}

fn state_of(text: &str) -> &'static str {
    match Path::from_text(text) {
        Ok(path) => panic!("{text} is {path}"),
        Err(error) => error.sqlstate,
    }
}

fn json(text: &str) -> Jsonb {
    Jsonb::from_text(text).unwrap()
}

/// Returns the items that a path finds, or the SQLSTATE.
fn found_with(document: &str, text: &str, vars: &str, is_silent: bool) -> Vec<String> {
    let (path, document, vars) = (path(text), json(document), json(vars));
    let evaluation = Evaluation::new(&path, &document, Some(&vars), is_silent);
    let items = match evaluation.and_then(Evaluation::items) {
        Ok(items) => items,
        Err(error) => return vec![error.sqlstate.to_owned()],
    };
    let shown = |value: Jsonb| {
        let mut out = String::new();
        crate::json::write_text(value.root().events(), &mut out);
        out
    };
    items.iter().map(|item| shown(item.to_jsonb().unwrap())).collect()
}

fn found(document: &str, text: &str) -> Vec<String> {
    found_with(document, text, "{}", false)
}

fn exists(document: &str, text: &str) -> Option<bool> {
    let (path, document) = (path(text), json(document));
    Evaluation::new(&path, &document, None, true).unwrap().exists().unwrap()
}

#[test]
fn the_normal_form_has_the_brackets_that_operators_need() {
    for (text, normal) in [
        ("$ . a", "$.\"a\""),
        ("strict $[ * ] ? (@.x>1)", "strict $[*]?(@.\"x\" > 1)"),
        ("LAX $.Type.TYPE()", "$.\"Type\".type()"),
        ("1-(2-3)-4", "((1 - (2 - 3)) - 4)"),
        ("1*2+3*4", "(1 * 2 + 3 * 4)"),
        ("-(1).type()", "(-(1).type())"),
        ("- - 1.50", "1.50"),
        ("($.a+1).b", "($.\"a\" + 1).\"b\""),
        ("($.a).b", "$.\"a\".\"b\""),
        ("!($==1)", "!($ == 1)"),
        ("$<>1", "($ != 1)"),
        ("$[1,2 to last]", "$[1,2 to last]"),
        ("$.**{2 to last}.**{1}.**.**{last}", "$.**{2 to last}.**{1}.**.**{last}"),
        ("$?(@ like_regex \"a\" flag \"mi\")", "$?(@ like_regex \"a\" flag \"im\")"),
        ("$?((@ starts with $x) is unknown)", "$?((@ starts with $\"x\") is unknown)"),
        ("$.a\\u0062c /* d */ .\"\\x41\"", "$.\"abc\".\"A\""),
        ("1e3", "1000"),
    ] {
        assert_eq!(shown(text), normal, "{text}");
        assert_eq!(shown(normal), normal, "{text}");
    }
}

#[test]
fn what_is_no_path_has_postgresql_s_state() {
    for text in ["$.", "@", "last", "$ && $", "!$", "1a", "01", "\"a", "$[", "/*", "$.f()", "a b"] {
        assert_eq!(state_of(text), "42601", "{text}");
    }
    assert_eq!(state_of(" "), "22P02");
    assert_eq!(state_of("\"\\ud800\""), "22P02");
    assert_eq!(state_of("\"\\u0000\""), "22P05");
    assert_eq!(state_of("$.**{9999999999}"), "22003");
    assert_eq!(state_of("$ ? (@ like_regex \"(\")"), "2201B");
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = format!("{}1{}", "(".repeat(7_000), ")".repeat(7_000));
    assert_eq!(state_of(&deep), "54001");
    let nested = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(shown(&nested), "1");
    assert_eq!(state_of(&format!("${}", ".a".repeat(MOST_STEPS))), "54001");
    let chain = format!("${}", ".a".repeat(20_000));
    assert_eq!(found("{}", &chain), Vec::<String>::new());
    let sum = format!("1{}", " + 1".repeat(10_000));
    assert_eq!(found("1", &sum), ["10001"]);
    // Walks over a deep value inside each other.
    let document = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let walk = |inside: &str| format!("$.**{{last}} ? (@ == 1 && {inside})");
    let walks = (0..12).fold("1 == 1".to_owned(), |inside, _| format!("exists({})", walk(&inside)));
    assert_eq!(found(&document, &walks), ["54001"]);
    assert_eq!(found(&document, "$.**{last}"), ["1"]);
}

#[test]
fn lax_mode_unwraps_and_strict_mode_fails() {
    assert_eq!(found("[{\"a\": 1}, [{\"a\": 2}], 3]", "$[*].a"), ["1", "2"]);
    assert_eq!(found("{\"a\": 1}", "$[0][last].a"), ["1"]);
    assert_eq!(found("[1]", "strict $.a"), ["2203A"]);
    assert_eq!(found("{}", "strict $.a"), ["2203A"]);
    assert_eq!(found("1", "strict $.*"), ["2203C"]);
    assert_eq!(found("1", "strict $[0]"), ["22039"]);
    assert_eq!(found("[1]", "strict $[1]"), ["22033"]);
    assert_eq!(found("[1]", "$[\"a\"]"), ["22033"]);
    assert_eq!(found("[1, 2]", "$ + 1"), ["22038"]);
    assert_eq!(found("\"a\"", "-$"), ["2203B"]);
    assert_eq!(found("\"a\"", "$.abs()"), ["22036"]);
    assert_eq!(found("0", "1 / $"), ["22012"]);
    assert_eq!(found("1", "$x"), ["42704"]);
    // Items before an error stay found.
    assert_eq!(found_with("[1, \"a\", 2]", "-$[*]", "{}", true), ["-1"]);
}

#[test]
fn conditions_have_three_values() {
    assert_eq!(found("1", "$ == \"1\""), ["null"]);
    assert_eq!(found("1", "($ == \"1\") is unknown"), ["true"]);
    assert_eq!(found("1", "!($ == \"1\")"), ["null"]);
    assert_eq!(found("1", "$ == 1 || $ == \"1\""), ["true"]);
    assert_eq!(found("1", "$ == 2 && $ == \"1\""), ["false"]);
    assert_eq!(found("1", "$ == 1 && $ == \"1\""), ["null"]);
    assert_eq!(found("[1, \"x\"]", "$ > 0"), ["true"]);
    assert_eq!(found("[1, \"x\"]", "strict $[*] > 0"), ["null"]);
    assert_eq!(found("null", "$ != 1"), ["true"]);
    assert_eq!(exists("[1, \"x\"]", "strict -$[*]"), None);
    assert_eq!(exists("[1, \"x\"]", "-$[*]"), Some(true));
}

#[test]
fn numbers_are_exact() {
    assert_eq!(found("0.1", "$ + 0.2 == 0.3"), ["true"]);
    assert_eq!(found("12345678901234567890123", "$ + 1"), ["12345678901234567890124"]);
    assert_eq!(found("1.50", "$"), ["1.50"]);
}

#[test]
fn ids_of_objects_are_postgresql_s() {
    let ids = |document: &str, text: &str| found(document, &format!("{text}.keyvalue().id"));
    assert_eq!(ids("{\"a\": 1, \"b\": 2}", "$"), ["0", "0"]);
    assert_eq!(ids("[{\"a\": 1}, {\"b\": 2}]", "$[*]"), ["12", "36"]);
    // Also those before the one that was met last.
    assert_eq!(ids("[{\"a\": 1}, {\"b\": 2}]", "$[1, 0, 1]"), ["36", "12", "36"]);
}

#[test]
fn dates_and_times_compare_by_their_types() {
    assert_eq!(
        found("\"2020-1-1T1:2:3.5+3\"", "$.datetime()"),
        ["\"2020-01-01T01:02:03.5+03:00\""]
    );
    assert_eq!(
        found("\"2020-01-01\"", "$.datetime() < \"2020-01-01 00:00:01\".datetime()"),
        ["true"]
    );
    assert_eq!(found("\"2020-01-01\"", "$.datetime() < \"10:00:00\".datetime()"), ["null"]);
    assert_eq!(found("\"10:00:00\"", "$.datetime() < \"10:00:00+1\".datetime()"), ["0A000"]);
    assert_eq!(found("\"10:00:60\"", "$.datetime()"), ["22031"]);
    assert_eq!(found("\"10:00\"", "$.datetime(\"HH24:MI\")"), ["0A000"]);
}
