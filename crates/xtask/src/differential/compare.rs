//! The comparison of two answers.
//!
//! | accepted | reason |
//! |---|---|
//! | `0A000` | a refusal: it is counted by its message |
//! | both fail in classes 21, 22 and 23, or one does in 21 and 22 | PostgreSQL defines no order of evaluation: such a difference is soft |
//! | `23505` of one UPDATE | PostgreSQL checks keys row by row: soft as well |
//! | rows whose columns have equal values, under two windows | the order of equal rows is undefined in each: soft |
//! | PostgreSQL's `42P18` and `42P08` | a parameter without a type, or with two: Meridian gives it text, or the first |
//! | digits of a numeric behind the 27th, and a number that is too large for it | Meridian's numeric has 28 |
//! | the last digits of `double precision` | the order of a sum's rows is undefined |
//! | `1.0` and `1.00` of a numeric, if rows are equal for DISTINCT, groups, sets or an order | any one of equal values represents them |

use super::answer::{Answer, Done, Outcome};
use super::case::has_several_windows;
use std::cmp::Ordering;
use std::time::Duration;
use tokio_postgres::types::Type;

/// A difference between two answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Meridian lost the connection, or reported an internal error.
    Broken,
    /// One side failed, or both in different ways: the two states.
    State(String, String),
    /// The rows.
    Rows,
    /// The number of digits after the point of equal numerics.
    Scale,
    /// The order of the rows.
    Order,
    /// The number of affected rows.
    Affected,
    /// The names of the columns: the first pair that differs.
    Names(String, String),
    /// The types of the columns: the first pair that differs.
    Types(String, String),
    /// The types of the parameters: the first pair that differs.
    Parameters(String, String),
    /// The contents of a table after a change.
    Contents,
    /// The duration.
    Slow,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answers are equal.
    Equal,
    /// PostgreSQL refuses the statement, or runs it too long.
    Undecided,
    /// The answers differ where PostgreSQL defines no order of evaluation.
    Soft(Difference),
    /// The answers differ.
    Different(Difference),
}

/// The order in which rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// Any order.
    Any,
    /// The order of the answers.
    Total,
}

/// The duration at PostgreSQL below which a statement counts as fast, and at Meridian above which
/// it counts as slow.
const FAST: Duration = Duration::from_millis(200);
const SLOW: Duration = Duration::from_secs(5);

/// Returns the message with which a server refuses a statement that it does not support.
pub fn refusal(answer: &Answer) -> Option<&str> {
    match &answer.outcome {
        Outcome::Failed(state, message) if state == "0A000" => Some(message),
        _ => None,
    }
}

/// Compares the answers of PostgreSQL and Meridian to a statement. `source` is the statement that
/// made the rows: the statement itself, or the change of a table that it shows.
pub fn compare(
    sql: &str,
    source: &str,
    order: RowOrder,
    postgres: &Answer,
    meridian: &Answer,
) -> Verdict {
    use Outcome::{Done, Failed, Lost};
    let state = |left: &str, right: &str| Difference::State(left.into(), right.into());
    match (&postgres.outcome, &meridian.outcome) {
        (_, Lost(_)) => Verdict::Different(Difference::Broken),
        (_, Failed(right, _)) if right == "XX000" => Verdict::Different(Difference::Broken),
        (Lost(_), _) => Verdict::Undecided,
        (Failed(left, _), _) if ["57014", "42P18", "42P08"].contains(&&**left) => {
            Verdict::Undecided
        }
        _ if refusal(postgres).is_some() => Verdict::Undecided,
        (Failed(left, _), Failed(right, _)) if left == right => Verdict::Equal,
        (Failed(left, _), Failed(right, message))
            if right == "22003" && message.ends_with("is out of range for type numeric") =>
        {
            Verdict::Soft(state(left, right))
        }
        (Failed(left, _), Failed(right, _)) => {
            let depends = |state: &str| depends_on_data(state) || state.starts_with("23");
            soft(depends(left) && depends(right), state(left, right))
        }
        (Failed(left, _), Done(_)) => {
            let rows = left == "23505" && sql.starts_with("UPDATE");
            soft(depends_on_data(left) || rows, state(left, "ok"))
        }
        (Done(_), Failed(right, _)) if right == "57014" => {
            let fast = postgres.took < FAST;
            if fast { Verdict::Different(Difference::Slow) } else { Verdict::Undecided }
        }
        (Done(_), Failed(right, _)) => {
            let rows = right == "23505" && sql.starts_with("UPDATE");
            soft(depends_on_data(right) || rows, state("ok", right))
        }
        (Done(left), Done(right)) => match differ(left, right, order, false) {
            Some(difference @ Difference::Rows) => {
                soft(has_several_windows(source) && differ_in_pairs_alone(left, right), difference)
            }
            Some(difference) => Verdict::Different(difference),
            None if is_exact(sql) && differ(left, right, order, true).is_some() => {
                Verdict::Different(Difference::Scale)
            }
            None if postgres.took < FAST && meridian.took > SLOW => {
                Verdict::Different(Difference::Slow)
            }
            None => Verdict::Equal,
        },
    }
}

fn soft(is_soft: bool, difference: Difference) -> Verdict {
    if is_soft { Verdict::Soft(difference) } else { Verdict::Different(difference) }
}

/// True if an error depends on the rows that an expression is evaluated for.
fn depends_on_data(state: &str) -> bool {
    state.starts_with("22") || state == "21000"
}

/// True if no equal values are merged or chosen from.
fn is_exact(sql: &str) -> bool {
    let merging = [
        "DISTINCT",
        "GROUP BY",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "max(",
        "min(",
        "OVER (",
        "ORDER BY",
        "GREATEST",
        "LEAST",
    ];
    !merging.iter().any(|word| sql.contains(word))
}

/// Returns the first difference of two results.
pub fn differ(left: &Done, right: &Done, order: RowOrder, exact: bool) -> Option<Difference> {
    if left.rows.len() != right.rows.len() || left.columns.len() != right.columns.len() {
        return Some(Difference::Rows);
    }
    let types: Vec<&Type> = left.columns.iter().map(|(_, of)| of).collect();
    let same = |left: &Vec<Option<String>>, right: &Vec<Option<String>>| {
        let cells = left.iter().zip(right).zip(&types);
        left.len() == right.len() && { cells }.all(|((l, r), of)| equal(of, exact, l, r))
    };
    let in_order = left.rows.iter().zip(&right.rows).all(|(l, r)| same(l, r));
    if !in_order {
        let (l, r) = (sorted(&left.rows, &types), sorted(&right.rows, &types));
        if !l.iter().zip(&r).all(|(l, r)| same(l, r)) {
            return Some(Difference::Rows);
        }
        if order == RowOrder::Total {
            return Some(Difference::Order);
        }
    }
    if left.affected != right.affected {
        return Some(Difference::Affected);
    }
    let pair = |left: &Type, right: &Type| (left.to_string(), right.to_string());
    for ((_, left), (_, right)) in left.columns.iter().zip(&right.columns) {
        if left != right && *right != Type::UNKNOWN {
            let (left, right) = pair(left, right);
            return Some(Difference::Types(left, right));
        }
    }
    for ((left, _), (right, _)) in left.columns.iter().zip(&right.columns) {
        if left != right {
            return Some(Difference::Names(left.clone(), right.clone()));
        }
    }
    for (left, right) in left.parameters.iter().zip(&right.parameters) {
        if left != right {
            let (left, right) = pair(left, right);
            return Some(Difference::Parameters(left, right));
        }
    }
    None
}

/// True if each column has equal values, in other pairs.
fn differ_in_pairs_alone(left: &Done, right: &Done) -> bool {
    let column = |done: &Done, at: usize| Done {
        columns: vec![done.columns[at].clone()],
        parameters: Vec::new(),
        rows: done.rows.iter().map(|row| vec![row[at].clone()]).collect(),
        affected: done.affected,
    };
    left.columns.len() == right.columns.len()
        && (0..left.columns.len()).all(|at| {
            let (left, right) = (column(left, at), column(right, at));
            differ(&left, &right, RowOrder::Any, false) != Some(Difference::Rows)
        })
}

/// Sorts rows so that equal ones are at equal places.
fn sorted(rows: &[Vec<Option<String>>], types: &[&Type]) -> Vec<Vec<Option<String>>> {
    let mut rows = rows.to_vec();
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<f64>().ok());
    rows.sort_by(|left, right| {
        let cells = left.iter().zip(right).zip(types);
        let compared =
            { cells }.map(|((left, right), of)| match (number(left), number(right)) {
                (Some(l), Some(r)) if **of == Type::FLOAT8 || **of == Type::NUMERIC => {
                    if near(l, r) { Ordering::Equal } else { l.total_cmp(&r) }
                }
                _ => left.cmp(right),
            });
        { compared }.find(|order| *order != Ordering::Equal).unwrap_or_else(|| left.cmp(right))
    });
    rows
}

fn near(left: f64, right: f64) -> bool {
    left == right || (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

/// True if two values of this type count as equal.
fn equal(of: &Type, exact: bool, left: &Option<String>, right: &Option<String>) -> bool {
    let (Some(l), Some(r)) = (left, right) else { return left == right };
    if l == r {
        return true;
    }
    let number = |text: &String| text.parse::<f64>().ok();
    match (number(l), number(r)) {
        (Some(l), Some(r)) if *of == Type::FLOAT8 => {
            (l.to_bits() != r.to_bits() && near(l, r)) || (l.is_nan() && r.is_nan())
        }
        (Some(_), Some(_)) if *of == Type::NUMERIC => {
            (!exact && value(l) == value(r)) || longest(l).is_some_and(|l| Some(l) == longest(r))
        }
        _ => false,
    }
}

/// Returns a numeric without zeros at its end.
fn value(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns the digits of a long numeric that both servers have, and its magnitude.
fn longest(text: &str) -> Option<(&str, usize)> {
    let mut digits = 0;
    let end = text.char_indices().find(|(_, c)| {
        digits += usize::from(c.is_ascii_digit());
        digits > 27
    })?;
    Some((&text[..end.0], text.find('.').unwrap_or(text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(of: Type, rows: &[&str]) -> Answer {
        let rows: Vec<_> = rows.iter().map(|text| vec![Some((*text).to_owned())]).collect();
        let affected = rows.len() as u64;
        let columns = vec![("c".to_owned(), of)];
        let done = Done { columns, parameters: Vec::new(), rows, affected };
        Answer { outcome: Outcome::Done(done), took: Duration::ZERO }
    }

    fn failed(state: &str) -> Answer {
        let outcome = Outcome::Failed(state.into(), "message".into());
        Answer { outcome, took: Duration::ZERO }
    }

    fn verdict(sql: &str, left: &Answer, right: &Answer) -> Verdict {
        compare(sql, sql, RowOrder::Any, left, right)
    }

    #[test]
    fn windows_may_pair_values_otherwise_also_in_what_a_change_leaves() {
        let table = |rows: [[&str; 2]; 2]| {
            let columns = ["a", "b"].map(|name| (name.to_owned(), Type::TEXT)).to_vec();
            let rows: Vec<_> =
                rows.iter().map(|row| row.map(|text| Some(text.to_owned())).to_vec()).collect();
            let done = Done { columns, parameters: Vec::new(), rows, affected: 2 };
            Answer { outcome: Outcome::Done(done), took: Duration::ZERO }
        };
        let (left, right) = (table([["1", "x"], ["2", "y"]]), table([["1", "y"], ["2", "x"]]));
        let of = |source| compare("SELECT * FROM t", source, RowOrder::Any, &left, &right);
        let two = "INSERT INTO t SELECT lag(a) OVER (), lead(b) OVER (ORDER BY b) FROM t";
        assert_eq!(of(two), Verdict::Soft(Difference::Rows));
        assert_eq!(of("INSERT INTO t SELECT 1"), Verdict::Different(Difference::Rows));
    }

    #[test]
    fn rows_are_compared_as_a_multiset_or_in_order() {
        let (ab, ba) = (answer(Type::TEXT, &["a", "b"]), answer(Type::TEXT, &["b", "a"]));
        assert_eq!(compare("", "", RowOrder::Any, &ab, &ba), Verdict::Equal);
        let order = Verdict::Different(Difference::Order);
        assert_eq!(compare("", "", RowOrder::Total, &ab, &ba), order);
        let aa = answer(Type::TEXT, &["a", "a"]);
        assert_eq!(verdict("", &ab, &aa), Verdict::Different(Difference::Rows));
    }

    #[test]
    fn numbers_are_equal_up_to_what_is_undefined() {
        let of = |of: &Type, text| answer(of.clone(), &[text]);
        let rows = Verdict::Different(Difference::Rows);
        let (one, longer) = (of(&Type::NUMERIC, "1.0"), of(&Type::NUMERIC, "1.00"));
        let scale = Verdict::Different(Difference::Scale);
        assert_eq!(verdict("SELECT n FROM t", &one, &longer), scale);
        assert_eq!(verdict("SELECT DISTINCT n FROM t", &one, &longer), Verdict::Equal);
        let long = of(&Type::NUMERIC, "2147483648.6666666666666666667");
        let longer = of(&Type::NUMERIC, "2147483648.66666666666666666667");
        assert_eq!(verdict("SELECT n FROM t", &long, &longer), Verdict::Equal);
        let (tens, hundreds) = ("1".repeat(30), "1".repeat(31));
        let (tens, hundreds) = (of(&Type::NUMERIC, &tens), of(&Type::NUMERIC, &hundreds));
        assert_eq!(verdict("SELECT n FROM t", &tens, &hundreds), rows);
        let (third, other) =
            (of(&Type::FLOAT8, "0.3333333333333333"), of(&Type::FLOAT8, "0.33333333333333337"));
        assert_eq!(verdict("", &third, &other), Verdict::Equal);
        let (plain, power) = (of(&Type::FLOAT8, "100"), of(&Type::FLOAT8, "1e+02"));
        assert_eq!(verdict("", &plain, &power), rows);
    }

    #[test]
    fn equal_rows_under_two_windows_may_pair_otherwise() {
        let answer = |rows: [[&str; 2]; 2]| {
            let rows = rows.map(|row| row.map(|text| Some(text.to_owned())).to_vec()).to_vec();
            let columns = ["a", "b"].map(|name| (name.to_owned(), Type::INT4)).to_vec();
            let done = Done { columns, parameters: Vec::new(), rows, affected: 2 };
            Answer { outcome: Outcome::Done(done), took: Duration::ZERO }
        };
        let (straight, crossed) =
            (answer([["1", "1"], ["2", "2"]]), answer([["1", "2"], ["2", "1"]]));
        let (one, two) = ("lag(a) OVER (ORDER BY b)", "lag(a) OVER (), lead(a) OVER ()");
        let soft = Verdict::Soft(Difference::Rows);
        assert_eq!(verdict(two, &straight, &crossed), soft);
        assert_eq!(verdict(one, &straight, &crossed), Verdict::Different(Difference::Rows));
        let other = answer([["1", "1"], ["2", "3"]]);
        assert_eq!(verdict(two, &straight, &other), Verdict::Different(Difference::Rows));
    }

    #[test]
    fn errors_are_equal_soft_or_different() {
        let (done, zero) = (answer(Type::INT4, &["1"]), failed("22012"));
        assert_eq!(verdict("", &zero, &zero), Verdict::Equal);
        assert!(matches!(verdict("", &zero, &done), Verdict::Soft(_)));
        assert!(matches!(verdict("", &done, &zero), Verdict::Soft(_)));
        assert!(matches!(verdict("", &failed("23505"), &failed("23502")), Verdict::Soft(_)));
        assert!(matches!(verdict("INSERT", &failed("23505"), &done), Verdict::Different(_)));
        assert!(matches!(verdict("UPDATE", &failed("23505"), &done), Verdict::Soft(_)));
        assert_eq!(refusal(&failed("0A000")), Some("message"));
        assert_eq!(refusal(&zero), None);
        assert!(matches!(verdict("", &failed("42804"), &failed("42883")), Verdict::Different(_)));
        let broken = Verdict::Different(Difference::Broken);
        assert_eq!(verdict("", &zero, &failed("XX000")), broken);
        assert_eq!(verdict("", &failed("0A000"), &done), Verdict::Undecided);
    }

    #[test]
    fn types_names_and_durations_are_compared() {
        let (whole, long) = (answer(Type::INT4, &["1"]), answer(Type::INT8, &["1"]));
        let types = Difference::Types("int4".into(), "int8".into());
        assert_eq!(verdict("", &whole, &long), Verdict::Different(types));
        let mut slow = whole.clone();
        slow.took = Duration::from_secs(6);
        assert_eq!(verdict("", &whole, &slow), Verdict::Different(Difference::Slow));
    }
}
