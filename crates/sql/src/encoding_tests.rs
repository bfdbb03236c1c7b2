//! Tests that keys keep the order of values, that every encoding reads back, and that invalid bytes
//! are rejected without a panic.

use crate::array::{Array, Dimension};
use crate::catalog::{ColumnDef, Table};
use crate::composite::{self, Attribute, Composite};
use crate::datetime::ZonedTime;
use crate::datum::Datum;
use crate::enumeration::{Beside, Descriptor, Enum};
use crate::index::{Index, IndexPart};
use crate::interval::Interval;
use crate::network::Network;
use crate::record::{Record, Shape};
use crate::system;
use crate::types::Type;
use crate::{key, kv, parse, row};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// An enum type of more labels than one byte has places for, one of them between two others.
static ENUM: LazyLock<Enum> = LazyLock::new(|| {
    let labels = Vec::new();
    let (name, schema) = ("many".into(), system::PUBLIC);
    let mut new = Descriptor { id: 16384, array: 16385, name, version: 1, labels, schema };
    for number in 0..300 {
        new.add(&format!("label {number}"), Beside::End).expect("a new label");
    }
    new.add("between", Beside::Before("label 7")).expect("a new label");
    Enum::of(new).expect("in order")
});

/// A composite type with a field that was dropped, and one that is an array.
static PAIR: LazyLock<Composite> = LazyLock::new(|| {
    let attribute = |name: &str, ty| Attribute { name: name.into(), ty, dropped: name == "gone" };
    let attributes = vec![
        attribute("n", Type::Numeric(None)),
        attribute("gone", Type::Text),
        attribute("texts", Type::Text.array()),
        attribute("whole", Type::Int4),
    ];
    let name = "pair".to_owned();
    Composite::of(composite::Descriptor {
        id: 90,
        array: 91,
        name,
        version: 1,
        attributes,
        schema: 2200,
    })
});

static TYPES: LazyLock<[Type; 33]> = LazyLock::new(|| {
    [
        Type::Bool,
        Type::Int2,
        Type::Int4,
        Type::Int8,
        Type::Float4,
        Type::Float8,
        Type::Numeric(None),
        Type::Text,
        Type::Bytea,
        Type::Uuid,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Interval,
        Type::Int4.array(),
        Type::Text.array(),
        Type::Jsonb,
        Type::Hstore,
        Type::Inet,
        Type::Cidr,
        Type::TimeTz,
        Type::with_modifier(Type::TimeTz.oid(), 3).expect("rounded"),
        Type::with_modifier(Type::Timestamp.oid(), 0).expect("rounded"),
        Type::with_modifier(Type::Interval.oid(), 2).expect("rounded"),
        Type::Bit(None),
        Type::Varbit(None),
        Type::Oid,
        Type::Name,
        Type::Enum(*ENUM),
        Type::Enum(*ENUM).array(),
        Type::Composite(*PAIR),
        Type::Composite(*PAIR).array(),
    ]
});

fn value(ty: Type) -> BoxedStrategy<Datum> {
    match ty.plain() {
        Type::Bool => any::<bool>().prop_map(Datum::Bool).boxed(),
        Type::Int2 => any::<i16>().prop_map(Datum::Int2).boxed(),
        Type::Int4 => any::<i32>().prop_map(Datum::Int4).boxed(),
        Type::Int8 => prop_oneof![any::<i64>(), -300i64..300].prop_map(Datum::Int8).boxed(),
        Type::Float8 => prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN)]
            .prop_map(Datum::Float8)
            .boxed(),
        Type::Float4 => prop_oneof![any::<f32>(), Just(0.0), Just(-0.0), Just(f32::NAN)]
            .prop_map(Datum::Float4)
            .boxed(),
        Type::Oid => any::<u32>().prop_map(Datum::Oid).boxed(),
        // Few times, so that some are equal in UTC.
        Type::TimeTz => (0i64..=24, -170i32..=170)
            .prop_map(|(hour, east)| ZonedTime::of(hour * 3_600_000_000, east * 3600))
            .prop_map(|time| Datum::TimeTz(time.expect("a time")))
            .boxed(),
        Type::Bit(_) | Type::Varbit(_) => "[01]{0,19}|0{0,17}"
            .prop_map(move |text| Datum::from_text(ty, &text).expect("bits"))
            .boxed(),
        Type::Numeric(_) => crate::numeric::tests::any_numeric().prop_map(Datum::Numeric).boxed(),
        Type::Bytea => {
            proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..9)
                .prop_map(|bytes| Datum::Bytes(bytes.into()))
                .boxed()
        }
        Type::Uuid => {
            any::<[u8; 16]>().prop_map(|id| Datum::Uuid(uuid::Uuid::from_bytes(id))).boxed()
        }
        Type::Date => (-700_000i32..2_000_000).prop_map(Datum::Date).boxed(),
        Type::Time => (0i64..=86_400_000_000).prop_map(Datum::Time).boxed(),
        Type::Timestamp => {
            (-60_000_000_000_000_000i64..200_000_000_000_000_000).prop_map(Datum::Timestamp).boxed()
        }
        Type::TimestampTz => (-60_000_000_000_000_000i64..200_000_000_000_000_000)
            .prop_map(Datum::TimestampTz)
            .boxed(),
        // Few lengths, so that some are equal.
        Type::Interval => (
            prop_oneof![any::<i32>(), -2i32..3],
            prop_oneof![any::<i32>(), (-2i32..3).prop_map(|months| months * 30)],
            prop_oneof![any::<i64>(), (-2i64..3).prop_map(|days| days * 86_400_000_000)],
        )
            .prop_map(|(months, days, micros)| Datum::Interval(Interval { months, days, micros }))
            .boxed(),
        Type::Jsonb => {
            let texts = ["null", "[]", "{}", "1", "1.0", "[1]", "[1.00, \"a\"]", "{\"a\": -1.5}"];
            proptest::sample::select(texts.to_vec())
                .prop_map(|text| Datum::from_text(Type::Jsonb, text).expect("JSON"))
                .boxed()
        }
        Type::Hstore => proptest::sample::select(vec!["", "a=>1", "a=>NULL", "a=>1, bb=>\"\""])
            .prop_map(|text| Datum::from_text(Type::Hstore, text).expect("pairs"))
            .boxed(),
        Type::Inet | Type::Cidr => {
            let address = prop_oneof![
                prop_oneof![any::<u32>(), 0x0A00_0000u32..0x0A00_0004]
                    .prop_map(|number| IpAddr::from(Ipv4Addr::from_bits(number))),
                prop_oneof![any::<u128>(), 0u128..1 << 34]
                    .prop_map(|number| IpAddr::from(Ipv6Addr::from_bits(number))),
            ];
            (address, prop_oneof![0u8..=32, 0u8..=128])
                .prop_map(move |(address, bits)| {
                    let longest = if address.is_ipv4() { 32 } else { 128 };
                    let inet = Network::new(address, bits.min(longest), false).expect("an address");
                    Datum::Network(if ty == Type::Cidr { inet.network() } else { inet })
                })
                .boxed()
        }
        Type::Enum(of) => {
            let some = of.values().step_by(7).chain(of.values().take(12));
            proptest::sample::select(some.map(Datum::Enum).collect::<Vec<_>>()).boxed()
        }
        Type::Composite(of) => {
            let fields = of.fields().iter();
            let nullable = fields
                .map(|field| prop_oneof![3 => value(field.ty), 1 => Just(Datum::Null)].boxed());
            nullable
                .collect::<Vec<_>>()
                .prop_map(move |values| {
                    let row = Record::new(Shape::Named(of), values).expect("a row");
                    Datum::Record(row.into())
                })
                .boxed()
        }
        Type::Array(element) => {
            let element = element.ty();
            let nullable = prop_oneof![4 => value(element), 1 => Just(Datum::Null)];
            (proptest::collection::vec(nullable, 0..5), -1i32..2, any::<bool>())
                .prop_map(move |(values, lower, nested)| {
                    let mut dimensions = vec![Dimension { lower, length: values.len() }];
                    if nested {
                        dimensions.insert(0, Dimension { lower: 1, length: 1 });
                    }
                    let array = Array::with(element, dimensions, values).expect("an array");
                    Datum::Array(array.into())
                })
                .boxed()
        }
        _ => "[a-c\u{0}\u{1}\u{ff}é]{0,6}".prop_map(Datum::text).boxed(),
    }
}

fn pair() -> impl Strategy<Value = (Type, Datum, Datum)> {
    (0..TYPES.len()).prop_flat_map(|at| {
        let ty = TYPES[at];
        let nullable = || prop_oneof![9 => value(ty), 1 => Just(Datum::Null)];
        (Just(ty), nullable(), nullable())
    })
}

fn table(columns: Vec<Type>, keyed: usize) -> Table {
    let column = |(at, ty): (usize, Type)| ColumnDef::new(&format!("c{at}"), ty);
    let mut table = Table::new(7, "t", columns.into_iter().enumerate().map(column).collect());
    if keyed > 0 {
        let columns = (0..keyed as u32)
            .map(|column| IndexPart { descending: column % 2 == 1, ..IndexPart::ascending(column) })
            .collect();
        table.primary = Some(Index::new(8, "t_pkey".into(), columns, true));
    }
    table.settle();
    table
}

fn rows() -> impl Strategy<Value = (Vec<Type>, Vec<Datum>)> {
    proptest::collection::vec(0..TYPES.len(), 1..7).prop_flat_map(|types| {
        let types: Vec<Type> = types.into_iter().map(|at| TYPES[at]).collect();
        let values: Vec<_> = types
            .iter()
            .map(|ty| prop_oneof![4 => value(*ty), 1 => Just(Datum::Null)].boxed())
            .collect();
        (Just(types), values)
    })
}

/// True if two values are equal and have one scale, so that PostgreSQL prints them alike.
fn same(a: &Datum, b: &Datum) -> bool {
    a.order(b).is_eq()
        && a.type_of() == b.type_of()
        && a.to_text(Type::Text) == b.to_text(Type::Text)
}

proptest! {
    #[test]
    fn keys_keep_the_order((_, a, b) in pair(), descending: bool) {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        key::write(&a, descending, &mut x);
        key::write(&b, descending, &mut y);
        let order = if descending { b.order(&a) } else { a.order(&b) };
        prop_assert_eq!(x.cmp(&y), order);
    }

    #[test]
    fn keys_read_back_and_tell_where_they_end((ty, a, b) in pair(), descending: bool) {
        let mut bytes = Vec::new();
        key::write(&a, descending, &mut bytes);
        key::write(&b, !descending, &mut bytes);
        let mut skipper = key::Reader::new(&bytes);
        skipper.skip(descending).unwrap();
        skipper.skip(!descending).unwrap();
        prop_assert!(skipper.skip(false).is_err());
        if key::is_exact(ty) {
            let mut reader = key::Reader::new(&bytes);
            prop_assert_eq!(reader.read(ty, descending).unwrap(), a);
            prop_assert_eq!(reader.read(ty, !descending).unwrap(), b);
        }
    }

    /// Rows stay as they are while their table has another column, one less, and wider integers.
    #[test]
    fn rows_read_back_after_changes_of_columns((types, values) in rows(), keyed in 0usize..3) {
        let keyed = keyed.min(types.len() - 1);
        let old = table(types.clone(), keyed);
        let key = old.row_key(&values).unwrap_or_else(|| vec![0; kv::PREFIX]);
        let bytes = row::encode(&old, &values);
        let mut new = old.clone();
        let mut expected = values;
        let dropped = types.len() - 1;
        new.columns[dropped].drop(dropped);
        expected[dropped] = Datum::Null;
        for (column, value) in new.columns.iter_mut().zip(&mut expected).take(dropped) {
            if let Datum::Int2(n) = value {
                (column.ty, *value) = (Type::Int8, Datum::Int8((*n).into()));
            }
        }
        let mut added = ColumnDef::new("added", Type::Int4);
        added.fill(Datum::Int4(7));
        new.columns.push(added);
        expected.push(Datum::Int4(7));
        new.settle();
        let wanted = vec![true; new.columns.len()];
        let read = row::decode(&new, &key[kv::PREFIX..], &bytes, &wanted).unwrap();
        prop_assert_eq!(read.len(), expected.len());
        for (at, (a, b)) in read.iter().zip(&expected).enumerate() {
            prop_assert!(a.order(b).is_eq(), "{at}: {a:?} {b:?}");
        }
        let found = Table::decode(&minicbor::to_vec(&new).unwrap()).unwrap();
        prop_assert_eq!(&found.columns[dropped + 1], &new.columns[dropped + 1]);
    }

    #[test]
    fn rows_read_back((types, values) in rows(), keyed in 0usize..3) {
        let table = table(types.clone(), keyed.min(types.len()));
        let stored = row::encode(&table, &values);
        let key = table.row_key(&values).unwrap_or_else(|| vec![0; kv::PREFIX]);
        let back = row::decode(&table, &key[kv::PREFIX..], &stored, &vec![true; types.len()]).unwrap();
        for (a, b) in values.iter().zip(&back) {
            prop_assert!(same(a, b), "{a:?} {b:?}");
        }
        // A column decodes alone as it does among the others.
        for at in 0..types.len() {
            let mut wanted = vec![false; types.len()];
            wanted[at] = true;
            let one = row::decode(&table, &key[kv::PREFIX..], &stored, &wanted).unwrap();
            prop_assert!(same(&one[at], &values[at]));
        }
    }

    #[test]
    fn both_formats_read_back((ty, a, _) in pair()) {
        if let (Some(text), Some(binary)) = (a.to_text(ty), a.to_binary(ty)) {
            // No text of a client may hold a NUL.
            if text.contains('\0') {
                prop_assert!(Datum::from_binary(ty, &binary).is_err());
                return Ok(());
            }
            // Arithmetic comes to offsets that no client may write, as in PostgreSQL. A text of one
            // is an error, or that of another time.
            if matches!(a, Datum::TimeTz(time) if !time.is_writable()) {
                prop_assert!(Datum::from_binary(ty, &binary).is_err());
                return Ok(());
            }
            let from_text = Datum::from_text(ty, &text).unwrap();
            prop_assert!(same(&from_text, &a), "{text} {from_text:?} {a:?}");
            let from_binary = Datum::from_binary(ty, &binary).unwrap();
            prop_assert!(same(&from_binary, &a), "{from_binary:?} {a:?}");
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in ".{0,40}", at in 0..TYPES.len()) {
        let ty = TYPES[at];
        let _ = Datum::from_binary(ty, &bytes);
        let _ = Datum::from_text(ty, &text);
        let _ = parse::statements(&text);
        let table = table(vec![ty, Type::Text, Type::Numeric(None)], 1);
        let _ = row::decode(&table, &bytes, &bytes, &[true, true, true]);
        let mut versioned = vec![1, 2, 0];
        versioned.extend(&bytes);
        let _ = row::decode(&table, &bytes, &versioned, &[false, true, true]);
        let mut reader = key::Reader::new(&bytes);
        while reader.read(ty, at % 2 == 0).is_ok() {}
        let mut skipper = key::Reader::new(&bytes);
        while skipper.skip(at % 2 == 0).is_ok() {}
        let _ = Table::decode(&bytes);
    }
}
