use super::*;
use crate::bind::Binder;
use crate::catalog::ColumnDef;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::index;
use std::sync::Arc;

fn table() -> Arc<Table> {
    let columns = [
        ("i", Type::Int4),
        ("s", Type::Int2),
        ("g", Type::Int8),
        ("n", Type::Numeric(Some((10, 2)))),
        ("r", Type::Float4),
        ("f", Type::Float8),
        ("b", Type::Bool),
        ("t", Type::Text),
        ("v", Type::Varchar(Some(10))),
        ("c", Type::Char(3)),
        ("d", Type::Date),
        ("ts", Type::Timestamp),
        ("ia", Type::Int4.array()),
        ("jb", Type::Jsonb),
    ];
    let columns = columns.map(|(name, ty)| ColumnDef::new(name, ty));
    Arc::new(Table::new(7, "t", columns.to_vec()))
}

fn rows() -> [Vec<Datum>; 2] {
    let value = |ty, text: &str| Datum::from_text(ty, text).expect("a value");
    let row = vec![
        Datum::Int4(3),
        Datum::Int2(-2),
        Datum::Int8(40),
        value(Type::Numeric(None), "2.50"),
        Datum::Float4(1.5),
        Datum::Float8(-0.25),
        Datum::Bool(true),
        Datum::text("abc"),
        Datum::text("b"),
        Datum::text("x"),
        value(Type::Date, "2020-02-03"),
        value(Type::Timestamp, "2020-02-03 04:05:06"),
        value(Type::Int4.array(), "{3,4}"),
        value(Type::Jsonb, "{\"a\": 1}"),
    ];
    let nulls = vec![Datum::Null; row.len()];
    [row, nulls]
}

fn show(text: &str, place: Place, style: Style) -> Option<String> {
    let table = table();
    let names = Names {
        ty: &|ty| match ty {
            Type::Char(0) => "bpchar".to_owned(),
            ty => ty.to_string(),
        },
        domain: &|domain| domain.shown().to_owned(),
        relation: &|id| Some(format!("s{id}")),
        zone: Zone::utc(),
    };
    let shown = super::shown(text, Columns::Of(&table), Vec::new(), place, style, &names);
    shown.map(|shown| shown.text)
}

fn condition(text: &str) -> Option<String> {
    show(text, Place::Condition, Style::Plain)
}

/// Returns the value of a condition for each row.
fn values(text: &str) -> Result<Vec<Result<Datum, String>>, SqlError> {
    let table = table();
    let mut binder = Binder::stored();
    binder.add(table.clone(), &table.name);
    binder.begin_clause("check constraints", false);
    let bound = binder.bind_bool(&parse::expression(text)?, "CHECK")?;
    let value = |row: &Vec<Datum>| index::eval(&bound, row).map_err(|error| error.message);
    Ok(rows().iter().map(value).collect())
}

/// Expressions, and what PostgreSQL 15 shows of them.
#[test]
fn conditions_are_shown_as_postgresql_shows_them() {
    for (text, plain, pretty) in [
        ("n > 0", "(n > (0)::numeric)", "n > 0::numeric"),
        ("n > -1", "(n > ('-1'::integer)::numeric)", "n > '-1'::integer::numeric"),
        (
            "i > 0 and s < 5 or not b",
            "(((i > 0) AND (s < 5)) OR (NOT b))",
            "i > 0 AND s < 5 OR NOT b",
        ),
        ("i between 1 and 5", "((i >= 1) AND (i <= 5))", "i >= 1 AND i <= 5"),
        (
            "t in ('a', 'b')",
            "(t = ANY (ARRAY['a'::text, 'b'::text]))",
            "t = ANY (ARRAY['a'::text, 'b'::text])",
        ),
        ("v not like 'a%'", "((v)::text !~~ 'a%'::text)", "v::text !~~ 'a%'::text"),
        ("c = 'x'", "(c = 'x'::bpchar)", "c = 'x'::bpchar"),
        ("b and (b and b)", "(b AND (b AND b))", "b AND b AND b"),
        ("(i + 1) * 2 > 3", "(((i + 1) * 2) > 3)", "((i + 1) * 2) > 3"),
        ("i + 1 > g * 2 - 3", "((i + 1) > ((g * 2) - 3))", "(i + 1) > (g * 2 - 3)"),
        (
            "case when b then i end > 1",
            "(\nCASE\n    WHEN b THEN i\n    ELSE NULL::integer\nEND > 1)",
            "\nCASE\n    WHEN b THEN i\n    ELSE NULL::integer\nEND > 1",
        ),
    ] {
        assert_eq!(condition(text).as_deref(), Some(plain));
        assert_eq!(show(text, Place::Condition, Style::Pretty).as_deref(), Some(pretty));
    }
    let value = |text, ty| show(text, Place::Value(ty), Style::Plain);
    let shown = value("nextval('12'::REGCLASS)", Type::Int8);
    assert_eq!(shown.as_deref(), Some("nextval('s12'::regclass)"));
    assert_eq!(value("0", Type::Numeric(Some((10, 2)))).as_deref(), Some("0"));
    let shown = value("'a'", Type::Varchar(Some(5)));
    assert_eq!(shown.as_deref(), Some("'a'::character varying"));
}

#[test]
fn other_expressions_are_not_shown() {
    for text in ["t = 'a' collate \"C\"", "i = (select 1)", "f(i) > 0"] {
        assert_eq!(condition(text), None, "{text}");
    }
    assert_eq!(show("'now'", Place::Value(Type::Date), Style::Plain), None);
    // Each BETWEEN has its operand twice.
    let mut text = "i".to_owned();
    for _ in 0..40 {
        text = format!("(case when {text} between 1 and 2 then 1 else 2 end)");
    }
    assert_eq!(condition(&format!("{text} = 1")), None);
    let many = vec!["i = 1"; 3000].join(" or ");
    assert!(condition(&many).is_some_and(|shown| shown.starts_with("((i = 1) OR (i = 1) OR")));
}

/// Draws numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_of(&mut self, all: &[&str]) -> String {
        all[self.below(all.len())].to_owned()
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(3) == 0 {
            return self.one_of(&["i", "s", "g", "n", "r", "f", "1", "-2", "2.5", "3000000000"]);
        }
        let (a, b) = (self.number(depth - 1), self.number(depth - 1));
        let text = self.text(depth - 1);
        match self.below(9) {
            0 => format!("({a} + {b})"),
            1 => format!("{a} - ({b})"),
            2 => format!("({a}) * {b}"),
            3 => format!("coalesce({a}, {b})"),
            4 => format!("length({text})"),
            5 => format!("-({a})"),
            6 => format!("({a})::numeric(20,3)"),
            7 => format!("greatest({a}, {b})"),
            _ => {
                let test = self.test(depth - 1);
                format!("case when {test} then {a} else {b} end")
            }
        }
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(3) == 0 {
            return self.one_of(&["t", "v", "c", "'a'", "'it''s'", "'b'::varchar(3)"]);
        }
        let (a, b) = (self.text(depth - 1), self.text(depth - 1));
        match self.below(6) {
            0 => format!("({a})::text || {b}"),
            1 => format!("lower({a})"),
            2 => format!("trim(both from {a})"),
            3 => format!("substring({a} from 1 for 2)"),
            4 => format!("coalesce(({a})::text, {b})"),
            _ => format!("nullif(({a})::text, {b})"),
        }
    }

    fn test(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one_of(&[
                "b",
                "true",
                "i > 1",
                "v = 'b'",
                "d < '2021-01-01'",
                "i = any(ia)",
            ]);
        }
        let (a, b) = (self.test(depth - 1), self.test(depth - 1));
        let (one, other) = (self.number(depth - 1), self.number(depth - 1));
        let (text, pattern) = (self.text(depth - 1), self.text(depth - 1));
        match self.below(14) {
            0 => format!("({a} and {b})"),
            1 => format!("({a} or {b})"),
            2 => format!("not ({a})"),
            3 => format!("{one} > {other}"),
            4 => format!("{one} between {other} and 5"),
            5 => format!("{one} not between symmetric 1 and {other}"),
            6 => format!("{one} in (1, 2, {other})"),
            7 => format!("({text})::text not in ('a', 'b')"),
            8 => format!("({text})::text like {pattern}"),
            9 => format!("({a}) is not true"),
            10 => format!("{one} is null"),
            11 => format!("{one} is not distinct from {other}"),
            12 => format!("(i, {one}) < (2, {other})"),
            _ => format!("({text})::text = {pattern}"),
        }
    }
}

/// The text that is shown is bound again, has the same values, and is shown as the same text.
#[test]
fn what_is_shown_means_what_is_stored() {
    let mut draws = Draws(7);
    let mut shown_count = 0;
    for _ in 0..600 {
        let text = draws.test(3);
        let Ok(expected) = values(&text) else { continue };
        let Some(shown) = condition(&text) else { continue };
        shown_count += 1;
        let found = values(&shown).unwrap_or_else(|error| panic!("{text}: {shown}: {error:?}"));
        assert_eq!(found, expected, "{text}: {shown}");
        // As in PostgreSQL, a cast around ARRAY[…] becomes one of its elements, and BETWEEN beside
        // AND a part of that, where the text is read for the first time.
        let again = condition(&shown).unwrap_or_else(|| panic!("{text}: {shown}"));
        assert_eq!(values(&again).ok().as_ref(), Some(&expected), "{text}: {again}");
        assert_eq!(condition(&again), Some(again));
        let pretty = show(&text, Place::Condition, Style::Pretty).expect("shown");
        assert_eq!(values(&pretty).ok(), Some(expected), "{text}: {pretty}");
    }
    assert!(shown_count > 300, "{shown_count}");
}
