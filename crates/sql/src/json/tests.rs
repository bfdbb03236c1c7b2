//! JSON that is read, built, looked into, compared and written again.

use super::*;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::numeric::Numeric;
use proptest::prelude::*;

fn jsonb(text: &str) -> Jsonb {
    Jsonb::from_text(text).expect("JSON")
}

fn shown(value: &Jsonb) -> String {
    let mut out = String::new();
    write_text(value.root().events(), &mut out);
    out
}

/// The values that PostgreSQL 15 shows for these texts.
#[test]
fn a_value_is_shown_as_postgresql_shows_it() {
    for (text, expected) in [
        (" null ", "null"),
        ("[ ]", "[]"),
        ("{}", "{}"),
        (r#"{"bb":1,"a":[true,false,null],"a":{"x":"y"}}"#, r#"{"a": {"x": "y"}, "bb": 1}"#),
        (r#"{"b":1,"aa":2,"a":3}"#, r#"{"a": 3, "b": 1, "aa": 2}"#),
        (r#""\u00e9\/\n\u0001\ud83d\ude00""#, "\"é/\\n\\u0001😀\""),
        ("1.50", "1.50"),
        ("-1.50e1", "-15.0"),
        ("1.5e3", "1500"),
        ("1e-5", "0.00001"),
        ("12.5e-3", "0.0125"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("0e5", "0"),
        ("0.00e1", "0.0"),
        ("100e-2", "1.00"),
        ("0.001e2", "0.1"),
        ("0.001e5", "100"),
        ("123456789012345678901234567890123456789.5", "123456789012345678901234567890123456789.5"),
        ("[[[]], [{}], [[1, 2], 3]]", "[[[]], [{}], [[1, 2], 3]]"),
    ] {
        assert_eq!(shown(&jsonb(text)), expected, "{text}");
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for (text, sqlstate) in [
        ("", "22P02"),
        ("[1,]", "22P02"),
        ("{\"a\"}", "22P02"),
        ("{a: 1}", "22P02"),
        ("'a'", "22P02"),
        ("01", "22P02"),
        ("1 2", "22P02"),
        ("\"a", "22P02"),
        ("\"\t\"", "22P02"),
        ("\u{FEFF}1", "22P02"),
        (r#""\ud800""#, "22P02"),
        (r#""\u0000""#, "22P05"),
        ("1e131073", "22003"),
        ("1e-16384", "22003"),
        ("1e99999999999", "22003"),
        ("1e-99999999999", "22003"),
    ] {
        let error = Jsonb::from_text(text).expect_err(text);
        assert_eq!(error.sqlstate, sqlstate, "{text}");
    }
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert_eq!(shown(&jsonb(&deep(6_000))), deep(6_000));
    assert_eq!(Jsonb::from_text(&deep(6_001)).expect_err("too deep").sqlstate, "54001");
    assert_eq!(Jsonb::from_text(&deep(6_001)[..5_000]).expect_err("open").sqlstate, "22P02");
}

#[test]
fn values_are_in_the_order_of_postgresql() {
    let ascending = [
        "[]",
        "null",
        r#""""#,
        r#""a""#,
        r#""ab""#,
        r#""b""#,
        "-1e30",
        "-1.55",
        "-1.5",
        "-0.01",
        "-0.001",
        "0",
        "0.001",
        "0.01",
        "1",
        "1.5",
        "1.55",
        "9",
        "10",
        "1e30",
        "false",
        "true",
        "[null]",
        "[[]]",
        "[null, null]",
        "{}",
        r#"{"aa": 1}"#,
        r#"{"b": 1}"#,
        r#"{"b": 2}"#,
        r#"{"a": 1, "b": 1}"#,
    ];
    let values: Vec<Jsonb> = ascending.iter().map(|text| jsonb(text)).collect();
    for pair in values.windows(2) {
        assert!(pair[0].order(&pair[1]).is_lt(), "{} < {}", shown(&pair[0]), shown(&pair[1]));
    }
    for (a, b) in [("1", "1.00"), ("0", "-0.0"), ("[1.10]", "[1.1]"), ("1e2", "100.0")] {
        assert!(jsonb(a).order(&jsonb(b)).is_eq(), "{a} = {b}");
    }
}

#[test]
fn parts_of_a_text_keep_their_spaces() {
    let text = r#" { "a" : [1,  2] , "b":{"c": {} }, "a" :"x" } "#;
    let mut reader = Reader::default();
    assert_eq!(reader.first(text).expect("JSON"), Event::StartObject);
    let parts = std::iter::from_fn(|| reader.part(text));
    let parts: Vec<_> = parts.map(|part| part.expect("a part")).collect();
    let shown: Vec<_> =
        parts.iter().map(|part| (part.key.as_deref().unwrap_or(""), part.text)).collect();
    assert_eq!(shown, [("a", "[1,  2]"), ("b", r#"{"c": {} }"#), ("a", r#""x""#)]);
}

/// Any JSON text.
fn any_json() -> impl Strategy<Value = String> {
    let string = || {
        "[ -~é\u{1}\"\\\\]{0,6}".prop_map(|text| {
            let mut out = String::new();
            write_string(&text, &mut out);
            out
        })
    };
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        (any::<i16>(), 0u16..4, -5i32..6).prop_map(|(n, scale, exponent)| format!(
            "{}e{exponent}",
            Numeric::of(n.into(), scale)
        )),
        string(),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((string(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("{key} :{value}")).collect();
                format!("{{{}}}", members.join(" , "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_reads_back_from_its_text(text in any_json()) {
        let value = jsonb(&text);
        let again = jsonb(&shown(&value));
        prop_assert_eq!(&again, &jsonb(&pretty(value.root().events()).expect("small")));
        let mut compact = String::new();
        let mut writer = Writer::compact(&mut compact);
        value.root().events().for_each(|event| writer.add(&event));
        prop_assert_eq!(&again, &jsonb(&compact));
        prop_assert!(value.order(&again).is_eq());
        prop_assert_eq!(shown(&value), shown(&again));
        let mut copied = Builder::default();
        let json = Datum::Json(text.as_str().into());
        copied.add_datum(&json, &Zone::default()).expect("JSON");
        prop_assert_eq!(copied.finish().expect("small"), value);
    }

    #[test]
    fn damaged_bytes_are_read_without_a_panic(
        text in any_json(),
        at in any::<prop::sample::Index>(),
        byte: u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = jsonb(&text).as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        let damaged = Jsonb::from_bytes(&bytes);
        _ = shown(&damaged).len();
        _ = damaged.root().key().len();
    }

    #[test]
    fn order_is_total(a in any_json(), b in any_json(), c in any_json()) {
        let mut all = [jsonb(&a), jsonb(&b), jsonb(&c)];
        all.sort_by(|a, b| a.order(b));
        prop_assert!(!all[0].order(&all[2]).is_gt());
        prop_assert_eq!(all[0].order(&all[1]), all[1].order(&all[0]).reverse());
    }
}
