use super::json::Values;
use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;

fn read(text: &str) -> Hstore {
    Hstore::from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn shown(value: &Hstore) -> String {
    let mut out = String::new();
    value.write_text(&mut out);
    out
}

/// The texts are those of PostgreSQL.
#[test]
fn texts_are_read_as_by_postgresql() {
    for (text, expected) in [
        ("", ""),
        (" \t\n", ""),
        ("a=>1", r#""a"=>"1""#),
        ("bb=>1, a => 2,b=>3", r#""a"=>"2", "b"=>"3", "bb"=>"1""#),
        ("a=>1,", r#""a"=>"1""#),
        ("a=>1,a=>2", r#""a"=>"1""#),
        ("a=>,b=>1", r#""a"=>",b=>1""#),
        (",=>1", r#"","=>"1""#),
        (
            r#"a=>nu\ll, b=>"null",c=>NuLL,null=>x"#,
            r#""a"=>NULL, "b"=>"null", "c"=>NULL, "null"=>"x""#,
        ),
        (r#""a\"\\"=>"",\ b=>\,"#, r#"" b"=>",", "a\"\\"=>"""#),
        (r#"a"=>b"c"#, r#""a\""=>"b\"c""#),
    ] {
        assert_eq!(shown(&read(text)), expected, "{text}");
    }
}

#[test]
fn errors_are_those_of_postgresql() {
    for (text, message) in [
        ("a", "Unexpected end of string"),
        ("a=", "Unexpected end of string"),
        ("a=>", "Unexpected end of string"),
        ("a=>\"b", "Unexpected end of string"),
        ("a\\", "Unexpected end of string"),
        ("a=>1 b", "Syntax error near \"b\" at position 5"),
        ("a=é", "Syntax error near \"é\" at position 2"),
        ("é =1", "Syntax error near \"1\" at position 4"),
        ("=>1", "Syntax error near \"=\" at position 0"),
        ("\"a\"b=>1", "Syntax error near \"b\" at position 3"),
    ] {
        let error = Hstore::from_text(text).expect_err(text);
        assert_eq!((error.sqlstate, error.message.as_str()), ("XX000", message), "{text}");
    }
}

#[test]
fn values_have_the_order_of_postgresql() {
    let all = [
        "",
        "\"\"=>\"\"",
        "\"\"=>NULL",
        "\"\"=>a",
        "a=>\"\"",
        "a=>NULL",
        "a=>1",
        "a=>1, b=>2",
        "\"\"=>ab",
        "a=>b",
        "ab=>\"\"",
        "\"\"=>\"\", a=>b",
        "\"\"=>NULL, a=>b",
        "ab=>1",
        "b=>1",
    ];
    let all = all.map(read);
    for (at, a) in all.iter().enumerate() {
        for (other, b) in all.iter().enumerate() {
            assert_eq!(a.order(b), at.cmp(&other), "{a:?} {b:?}");
            assert_eq!(a.key().cmp(&b.key()), at.cmp(&other), "{a:?} {b:?}");
        }
    }
}

#[test]
fn pairs_are_found_joined_and_removed() {
    let value = read("a=>1, bb=>NULL, c=>3");
    assert_eq!(
        (value.get("a"), value.get("bb"), value.get("x")),
        (Some(Some("1")), Some(None), None)
    );
    assert!(value.contains(&read("bb=>NULL,c=>3")) && value.contains(&read("")));
    assert!(!value.contains(&read("bb=>1")) && !value.contains(&read("x=>NULL")));
    let with = value.with(&read("c=>4,d=>5")).expect("pairs");
    assert_eq!(with, read("a=>1,bb=>NULL,c=>4,d=>5"));
    assert_eq!(with.without(&value).expect("pairs"), read("c=>4,d=>5"));
    let keys = Keys::of(["bb", "x", "a", "a"]);
    assert_eq!(with.without_keys(&keys).expect("pairs"), read("c=>4,d=>5"));
    assert_eq!(with.slice(&keys).expect("pairs"), read("a=>1,bb=>NULL"));
}

#[test]
fn json_is_an_object() {
    let value = read("a=>1,b=>t,c=>0x1,d=>1e5,e=>-0,f=>true,h=>NULL,i=>\" 1\",j=>\"\\\"\"");
    let json = |values| {
        let mut out = String::new();
        value.write_json(values, &mut out);
        out
    };
    assert_eq!(
        json(Values::Loose),
        r#"{"a": 1, "b": true, "c": "0x1", "d": 1e5, "e": -0, "f": "true", "h": null, "i": " 1", "j": "\""}"#
    );
    assert!(json(Values::Strict).starts_with(r#"{"a": "1", "b": "t","#));
}

#[test]
fn bytes_that_are_no_value_are_refused() {
    for (bytes, sqlstate) in [
        (&b""[..], "08P01"),
        (b"\0\0\0\x01", "08P01"),
        (b"\xff\xff\xff\xff", "54000"),
        (b"\x7f\xff\xff\xff", "54000"),
        (b"\0\0\0\x01\xff\xff\xff\xff", "22004"),
        (b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02b", "08P01"),
        (b"\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff\xff", "22021"),
        (b"\0\0\0\0x", "22P03"),
    ] {
        let error = Hstore::from_binary(bytes).expect_err("no value");
        assert_eq!(error.sqlstate, sqlstate, "{bytes:?}");
    }
}

fn any() -> impl Strategy<Value = Hstore> {
    let value = prop::option::of("[ab\"\\\\ ,=>é]{0,3}");
    prop::collection::vec(("[ab\"\\\\ ,=>é]{0,3}", value), 0..5).prop_map(|pairs| {
        let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
        Hstore::of(pairs.collect()).expect("pairs")
    })
}

proptest! {
    #[test]
    fn formats_keep_values(value in any()) {
        prop_assert_eq!(&read(&shown(&value)), &value);
        let mut bytes = Vec::new();
        value.write_binary(&mut bytes);
        prop_assert_eq!(&Hstore::from_binary(&bytes).expect("pairs"), &value);
    }

    #[test]
    fn keys_compare_as_values(a in any(), b in any()) {
        prop_assert_eq!(a.key().cmp(&b.key()), a.order(&b));
        prop_assert_eq!(a.order(&b) == Ordering::Equal, a == b);
    }
}
