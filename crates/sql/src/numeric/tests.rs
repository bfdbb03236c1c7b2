//! Tests of what no other database tells: forms, keys, bytes of rows, and large numbers.

use super::*;
use crate::datum::Datum;
use crate::types::Type;
use crate::{key, row};
use proptest::prelude::*;

fn numeric(text: &str) -> Numeric {
    Numeric::from_text(text).expect("a numeric")
}

/// Numbers around the limits of each form, and others between them.
pub(crate) fn any_numeric() -> BoxedStrategy<Numeric> {
    let digits = "-?[0-9]{0,3}[09]{0,40}[0-9]{0,3}";
    let plain = (digits, 0usize..45).prop_map(|(digits, scale)| {
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", digits.as_str()),
        };
        let padded = format!("{}{digits}1", "0".repeat(scale));
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        numeric(&format!("{sign}{whole}.{fraction}"))
    });
    let around = (0usize..4, -2i128..3, 0u16..45).prop_map(|(power, more, scale)| {
        let power = [1 << 96, 1 << 100, i128::MAX - 2, i128::MIN + 2][power];
        Numeric::of(power + more, scale)
    });
    let near = (-3i64..4, 26u16..32, -3i128..4).prop_map(|(whole, scale, rest)| {
        Numeric::from(whole).plus(&Numeric::of(rest, scale)).expect("a number")
    });
    let others = ["NaN", "Infinity", "-Infinity", "1e40", "-1e40", "1e500", "1e-500", "0.00"];
    let other = proptest::sample::select(others.to_vec()).prop_map(numeric);
    prop_oneof![4 => plain, 2 => around, 4 => near, 1 => other].boxed()
}

fn key_of(value: &Numeric, descending: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::write(&Datum::Numeric(value.clone()), descending, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn keys_order_numbers_of_all_forms(a in any_numeric(), b in any_numeric(), descending: bool) {
        let order = if descending { b.order(&a) } else { a.order(&b) };
        let (x, y) = (key_of(&a, descending), key_of(&b, descending));
        prop_assert_eq!(x.cmp(&y), order);
        // Whatever stands behind the first value, the second one included.
        for next in [Datum::Null, Datum::Bool(false), Datum::Numeric(a.clone())] {
            for next_descends in [true, false] {
                let mut longer = x.clone();
                key::write(&next, next_descends, &mut longer);
                if order.is_ne() {
                    prop_assert_eq!(longer.cmp(&y), order);
                }
                // It is among the keys that begin with the first value, and with no other.
                let mut end = y.clone();
                key::end(&mut end);
                prop_assert_eq!(y <= longer && longer < end, order.is_eq());
            }
        }
    }

    #[test]
    fn numbers_read_back_from_text_rows_and_the_wire(n in any_numeric()) {
        let (value, ty) = (Datum::Numeric(n.clone()), Type::Numeric(None));
        prop_assert_eq!(numeric(&n.to_string()), n.clone());
        prop_assert_eq!(&row::decode_value(ty, &row::encode_value(&value)).unwrap(), &value);
        prop_assert_eq!(&Datum::from_binary(ty, &value.to_binary(ty).unwrap()).unwrap(), &value);
        prop_assert_eq!(n.negated().negated(), n);
    }

    #[test]
    fn arithmetic_agrees_with_itself(a in any_numeric(), b in any_numeric()) {
        let (Ok(sum), Ok(product)) = (a.plus(&b), a.times(&b)) else { return Ok(()) };
        if let (Some(_), Some(_)) = (a.finite(), b.finite()) {
            let back = sum.minus(&b).unwrap();
            prop_assert!(back.order(&a).is_eq(), "{} {}", back, a);
            if !b.is_zero() && product.finite().unwrap().scale() < MOST_SCALE {
                prop_assert!(product.whole_quotient(&b).unwrap().order(&a.truncated(0)).is_eq());
                let whole = a.whole_quotient(&b).unwrap();
                let sum = whole.times(&b).unwrap().plus(&a.rest(&b).unwrap()).unwrap();
                prop_assert!(sum.order(&a).is_eq());
            }
        }
    }
}

#[test]
fn values_are_not_larger_than_before() {
    assert_eq!((size_of::<Numeric>(), size_of::<Datum>()), (24, 40));
}

#[test]
fn numbers_of_28_digits_have_the_bytes_of_earlier_releases() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (text, row, key) in [
        ("1.50", "02ac02", "34000000100000000000000000000000011027e72f1f12813088000000"),
        ("-0.1", "0101", ""),
        ("79228162514264337593543950335", "00feffffffffffffffffffffffff3f", ""),
    ] {
        let value = numeric(text);
        assert_eq!(hex(&row::encode_value(&Datum::Numeric(value.clone()))), row, "{text}");
        if !key.is_empty() {
            assert_eq!(hex(&key_of(&value, false)), key, "{text}");
        }
    }
    // The key is the whole part and 28 digits in binary.
    let key = key_of(&numeric("-2.75"), false);
    assert_eq!(key[0], 0x34);
    assert_eq!(u128::from_be_bytes(key[1..17].try_into().expect("16 bytes")), (1 << 100) - 3);
    let fraction = [&[0; 4], &key[17..]].concat();
    let fraction = u128::from_be_bytes(fraction.try_into().expect("12 bytes"));
    assert_eq!(fraction, 25 * 10u128.pow(26));
}

#[test]
fn numbers_of_too_many_digits_are_refused_before_they_are_made() {
    for text in ["1e131072", "1e-16384", "1e1073741822", "-1e999999999999999999999", "0e-16384"] {
        let error = Numeric::from_text(text).expect_err(text);
        assert_eq!(error.sqlstate, crate::error::state::OUT_OF_RANGE, "{text}");
    }
    assert_eq!(numeric("0e999999"), numeric("0"));
    let largest = numeric("1e131071");
    assert_eq!(largest.to_string().len(), 131_072);
    assert!(largest.times(&largest).is_err());
    assert!(largest.plus(&largest.times(&9i64.into()).expect("one more")).is_err());
    assert!(Numeric::from(10).power(&131_072i64.into()).is_err());
    assert_eq!(numeric("1e-16383").times(&numeric("0.1")).expect("0").to_string().len(), 16_385);
}
