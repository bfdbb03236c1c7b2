//! Functions and operators of arrays.

use super::of::*;
use super::{Function, Out, Param, Rows, array_at, whole_at};
use crate::array::{Array, Dimension, MOST_DIMENSIONS, mismatch};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::limits;
use crate::memory;
use crate::record::similar::check_all;
use crate::types::Type;
use std::sync::Arc;

const ARRAY: Param = Param::Array;
const ELEMENT: Param = Param::Common;
const INTEGERS: Param = Param::Of(Type::Int4.array());
const OF_INTEGERS: Out = Out::Of(Type::Int4.array());
const OF_TEXTS: Out = Out::Of(Type::Text.array());

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("[]", &[ARRAY, INT8], Out::Common, get).variadic(),
    Function::new("[:]", &[ARRAY, INT8], Out::Array, slice).variadic(),
    Function::new("[]=", &[ARRAY, ELEMENT, INT8], Out::Array, set_element).variadic().lenient(),
    Function::new("[:]=", &[ARRAY, ARRAY, INT8], Out::Array, set_slice).variadic().lenient(),
    Function::new("||", &[ARRAY, ARRAY], Out::Array, cat).lenient(),
    Function::new("||", &[ARRAY, ELEMENT], Out::Array, append).lenient(),
    Function::new("||", &[ELEMENT, ARRAY], Out::Array, prepend).lenient(),
    Function::new("@>", &[ARRAY, ARRAY], A_BOOL, |args, _| contains(args, 0, 1)).compares(),
    Function::new("<@", &[ARRAY, ARRAY], A_BOOL, |args, _| contains(args, 1, 0)).compares(),
    Function::new("&&", &[ARRAY, ARRAY], A_BOOL, overlaps).compares(),
    Function::new("array_cat", &[ARRAY, ARRAY], Out::Array, cat).lenient(),
    Function::new("array_append", &[ARRAY, ELEMENT], Out::Array, append).lenient(),
    Function::new("array_prepend", &[ELEMENT, ARRAY], Out::Array, prepend).lenient(),
    Function::new("array_length", &[ARRAY, INT4], AN_INT4, length),
    Function::new("array_lower", &[ARRAY, INT4], AN_INT4, lower),
    Function::new("array_upper", &[ARRAY, INT4], AN_INT4, upper),
    Function::new("array_ndims", &[ARRAY], AN_INT4, count_dimensions),
    Function::new("array_dims", &[ARRAY], A_TEXT, show_dimensions),
    Function::new("cardinality", &[ARRAY], AN_INT4, cardinality),
    Function::new("array_position", &[ARRAY, ELEMENT], AN_INT4, position).lenient().compares(),
    Function::new("array_position", &[ARRAY, ELEMENT, INT4], AN_INT4, position)
        .lenient()
        .compares(),
    Function::new("array_positions", &[ARRAY, ELEMENT], OF_INTEGERS, positions)
        .lenient()
        .compares(),
    Function::new("array_remove", &[ARRAY, ELEMENT], Out::Array, remove).lenient().compares(),
    Function::new("array_replace", &[ARRAY, ELEMENT, ELEMENT], Out::Array, replace)
        .lenient()
        .compares(),
    Function::new("trim_array", &[ARRAY, INT4], Out::Array, trim),
    Function::new("array_fill", &[ELEMENT, INTEGERS], Out::Array, fill).lenient(),
    Function::new("array_fill", &[ELEMENT, INTEGERS, INTEGERS], Out::Array, fill).lenient(),
    Function::new("array_to_string", &[ARRAY, TEXT], A_TEXT, to_string).lenient().of_zone(),
    Function::new("array_to_string", &[ARRAY, TEXT, TEXT], A_TEXT, to_string).lenient().of_zone(),
    Function::new("string_to_array", &[TEXT, TEXT], OF_TEXTS, of_string).lenient(),
    Function::new("string_to_array", &[TEXT, TEXT, TEXT], OF_TEXTS, of_string).lenient(),
    Function::set("unnest", &[ARRAY], Out::Common, unnest),
    Function::set("generate_subscripts", &[ARRAY, INT4], AN_INT4, subscripts),
    Function::set("generate_subscripts", &[ARRAY, INT4, BOOL], AN_INT4, subscripts),
];

fn made(array: Array) -> Result<Datum, SqlError> {
    limits::check_value(array.values().len().saturating_mul(size_of::<Datum>()))?;
    Ok(Datum::Array(Arc::new(array)))
}

fn subscripts_of(args: &[Datum]) -> Result<Vec<i64>, SqlError> {
    (1..args.len()).map(|at| whole_at(args, at)).collect()
}

/// An element, by its subscripts.
fn get(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let found = array_at(args, 0)?.get(&subscripts_of(args)?).cloned();
    Ok(found.unwrap_or(Datum::Null))
}

/// A part, by a lower and an upper bound of each dimension.
fn slice(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let subscripts = subscripts_of(args)?;
    let bounds: Vec<_> = subscripts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    made(array_at(args, 0)?.slice(&bounds)?)
}

/// The subscripts of an assignment, behind an array and a value.
fn assigned_subscripts(args: &[Datum]) -> Result<Vec<i64>, SqlError> {
    if args[2..].iter().any(Datum::is_null) {
        let message = "array subscript in assignment must not be null";
        return Err(SqlError::new(state::NULL_NOT_ALLOWED, message));
    }
    (2..args.len()).map(|at| whole_at(args, at)).collect()
}

/// An array with another element.
fn set_element(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let subscripts = assigned_subscripts(args)?;
    made(array_at(args, 0)?.with_element(&subscripts, args[1].clone())?)
}

/// An array with other elements between bounds. Without elements to take, it stays.
fn set_slice(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let subscripts = assigned_subscripts(args)?;
    let bounds: Vec<_> = subscripts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let Datum::Array(source) = &args[1] else { return Ok(args[0].clone()) };
    made(array_at(args, 0)?.with_slice(&bounds, source)?)
}

/// An array, and another behind it: of as many dimensions, or one less.
fn cat(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (left, right) = match (&args[0], &args[1]) {
        (Datum::Null, other) | (other, Datum::Null) => return Ok(other.clone()),
        _ => (array_at(args, 0)?, array_at(args, 1)?),
    };
    if left.values().is_empty() || right.values().is_empty() {
        return Ok(args[usize::from(left.values().is_empty())].clone());
    }
    let (a, b) = (left.dimensions(), right.dimensions());
    let inner = |outer: &[Dimension]| outer[1..].iter().map(|dim| dim.length).collect::<Vec<_>>();
    let all = |whole: &[Dimension]| whole.iter().map(|dim| dim.length).collect::<Vec<_>>();
    let (mut dimensions, more, fits) = match a.len() as i64 - b.len() as i64 {
        0 => (a.to_vec(), b[0].length, inner(a) == inner(b)),
        1 => (a.to_vec(), 1, inner(a) == all(b)),
        -1 => (b.to_vec(), 1, inner(b) == all(a)),
        _ => (Vec::new(), 0, false),
    };
    if !fits {
        return Err(SqlError::new(
            state::ARRAY_SUBSCRIPT,
            "cannot concatenate incompatible arrays",
        ));
    }
    dimensions[0].length += more;
    let values = left.values().iter().chain(right.values()).cloned().collect();
    made(Array::with(left.element, dimensions, values)?)
}

/// Returns an array of at most one dimension.
fn flat(datum: &Datum, other: &Datum) -> Result<Arc<Array>, SqlError> {
    match datum {
        Datum::Array(array) if array.dimensions().len() < 2 => Ok(array.clone()),
        Datum::Array(_) => {
            Err(SqlError::new("22000", "argument must be empty or one-dimensional array"))
        }
        _ => Ok(Arc::new(Array::of(other.type_of().unwrap_or(Type::Text), Vec::new())?)),
    }
}

fn append(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let array = flat(&args[0], &args[1])?;
    let lower = array.dimensions().first().map_or(1, |dimension| dimension.lower);
    let values: Vec<_> = array.values().iter().chain([&args[1]]).cloned().collect();
    let dimension = Dimension { lower, length: values.len() };
    made(Array::with(array.element, vec![dimension], values)?)
}

fn prepend(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let array = flat(&args[1], &args[0])?;
    let lower = array.dimensions().first().map_or(1, |dimension| dimension.lower);
    let values: Vec<_> = std::iter::once(&args[0]).chain(array.values()).cloned().collect();
    let dimension = Dimension { lower, length: values.len() };
    made(Array::with(array.element, vec![dimension], values)?)
}

/// True if each element of one array is in the other. NULL is in none.
fn contains(args: &[Datum], outer: usize, inner: usize) -> Result<Datum, SqlError> {
    let (outer, inner) = (array_at(args, outer)?, array_at(args, inner)?);
    check_all(inner.values().iter().chain(outer.values()))?;
    let outer = sorted(outer);
    let has = |value: &Datum| !value.is_null() && finds(&outer, value);
    Ok(Datum::Bool(inner.values().iter().all(has)))
}

/// The elements of an array in order, without NULLs.
fn sorted(array: &Array) -> Vec<&Datum> {
    let mut all: Vec<&Datum> = array.values().iter().filter(|value| !value.is_null()).collect();
    all.sort_unstable_by(|a, b| a.order(b));
    all
}

fn finds(sorted: &[&Datum], value: &Datum) -> bool {
    sorted.binary_search_by(|other| other.order(value)).is_ok()
}

fn overlaps(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (left, right) = (array_at(args, 0)?, array_at(args, 1)?);
    check_all(left.values().iter().chain(right.values()))?;
    let right = sorted(right);
    let has = |value: &Datum| !value.is_null() && finds(&right, value);
    Ok(Datum::Bool(left.values().iter().any(has)))
}

/// Returns a dimension, counted from 1.
fn dimension(args: &[Datum]) -> Result<Option<Dimension>, SqlError> {
    let at = usize::try_from(whole_at(args, 1)? - 1).ok();
    Ok(at.and_then(|at| array_at(args, 0).ok()?.dimensions().get(at).copied()))
}

fn length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(dimension(args)?.map_or(Datum::Null, |dim| Datum::Int4(dim.length as i32)))
}

fn lower(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(dimension(args)?.map_or(Datum::Null, |dim| Datum::Int4(dim.lower)))
}

fn upper(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(dimension(args)?.map_or(Datum::Null, |dim| Datum::Int4(dim.upper())))
}

fn count_dimensions(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let count = array_at(args, 0)?.dimensions().len() as i32;
    Ok(if count == 0 { Datum::Null } else { Datum::Int4(count) })
}

fn show_dimensions(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let dimensions = array_at(args, 0)?.dimensions();
    let shown = dimensions.iter().map(|dim| format!("[{}:{}]", dim.lower, dim.upper()));
    Ok(if dimensions.is_empty() { Datum::Null } else { Datum::text(shown.collect::<String>()) })
}

fn cardinality(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(array_at(args, 0)?.values().len() as i32))
}

/// Returns the subscripts of the elements that are not distinct from a value, from one on.
fn found(args: &[Datum], from: i64) -> Result<Option<Vec<Datum>>, SqlError> {
    let Datum::Array(array) = &args[0] else { return Ok(None) };
    if array.dimensions().len() > 1 {
        let what = "searching for elements in multidimensional arrays is not supported";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, what));
    }
    check_all([&args[1]].into_iter().chain(array.values()))?;
    let lower = array.dimensions().first().map_or(1, |dimension| i64::from(dimension.lower));
    let subscripts = (lower..).zip(array.values());
    let equal = subscripts.filter(|(at, value)| *at >= from && value.order(&args[1]).is_eq());
    Ok(Some(equal.map(|(at, _)| Datum::Int4(at as i32)).collect()))
}

fn position(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let from = match args.get(2) {
        Some(Datum::Null) => {
            return Err(SqlError::new("22004", "initial position must not be null"));
        }
        Some(_) => whole_at(args, 2)?,
        None => i64::MIN,
    };
    let found = found(args, from)?;
    Ok(found.and_then(|found| found.into_iter().next()).unwrap_or(Datum::Null))
}

fn positions(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match found(args, i64::MIN)? {
        Some(found) => made(Array::of(Type::Int4, found)?),
        None => Ok(Datum::Null),
    }
}

fn remove(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let Datum::Array(array) = &args[0] else { return Ok(Datum::Null) };
    if array.dimensions().len() > 1 {
        let what = "removing elements from multidimensional arrays is not supported";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, what));
    }
    check_all(array.values().iter().chain([&args[1]]))?;
    let stays = |value: &&Datum| value.order(&args[1]).is_ne();
    let values: Vec<_> = array.values().iter().filter(stays).cloned().collect();
    let lower = array.dimensions().first().map_or(1, |dimension| dimension.lower);
    let dimension = Dimension { lower, length: values.len() };
    made(Array::with(array.element, vec![dimension], values)?)
}

fn replace(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let Datum::Array(array) = &args[0] else { return Ok(Datum::Null) };
    check_all(array.values().iter().chain([&args[1]]))?;
    let other = |value: &Datum| {
        Ok(if value.order(&args[1]).is_eq() { args[2].clone() } else { value.clone() })
    };
    made(array.map(array.element, other)?)
}

fn trim(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (array, count) = (array_at(args, 0)?, whole_at(args, 1)?);
    let first = array.dimensions().first();
    let length = first.map_or(0, |dimension| dimension.length as i64);
    if !(0..=length).contains(&count) {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(SqlError::new(state::ARRAY_SUBSCRIPT, message));
    }
    let Some(first) = first else { return Ok(args[0].clone()) };
    made(array.slice(&[(i64::from(first.lower), i64::from(first.upper()) - count)])?)
}

fn fill(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if args[1].is_null() || args.get(2).is_some_and(Datum::is_null) {
        let message = "dimension array or low bound array cannot be null";
        return Err(SqlError::new("22004", message));
    }
    let integers = |at: usize, which: &str| {
        let array = array_at(args, at)?;
        if array.dimensions().len() > 1 {
            return Err(SqlError::new(state::ARRAY_SUBSCRIPT, "wrong number of array subscripts")
                .detail(format!("{which} array must be one dimensional.")));
        }
        let values = array.values().iter();
        let number = |value: &Datum| {
            let null = || SqlError::new("22004", "dimension values cannot be null");
            value.as_i64().ok_or_else(null)
        };
        values.map(number).collect::<Result<Vec<i64>, SqlError>>()
    };
    let lengths = integers(1, "Dimension")?;
    let lowers = if args.len() > 2 { integers(2, "Low bound")? } else { vec![1; lengths.len()] };
    if lowers.len() != lengths.len() {
        return Err(SqlError::new(state::ARRAY_SUBSCRIPT, "wrong number of array subscripts")
            .detail("Low bound array has different size than dimensions array."));
    }
    if lengths.len() > MOST_DIMENSIONS {
        return Err(mismatch());
    }
    if let Datum::Array(_) = args[0] {
        return Err(SqlError::new(state::UNDEFINED_OBJECT, "an array's element is no array"));
    }
    let wrong = || SqlError::new(state::TOO_LARGE, "array size exceeds the maximum allowed");
    let mut count = 1usize;
    let mut dimensions = Vec::with_capacity(lengths.len());
    for (length, lower) in lengths.iter().zip(&lowers) {
        let length = usize::try_from(*length).map_err(|_| wrong())?;
        count = count.checked_mul(length).ok_or_else(wrong)?;
        dimensions.push(Dimension { lower: *lower as i32, length });
    }
    let count = if dimensions.is_empty() { 0 } else { count };
    let one = size_of::<Datum>() + memory::behind(&args[0]);
    limits::check_value(count.saturating_mul(one))?;
    let element = args[0].type_of().unwrap_or(Type::Text);
    made(Array::with(element, dimensions, vec![args[0].clone(); count])?)
}

/// The elements as text between delimiters; NULLs as a third argument, or left out.
fn to_string(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (Datum::Array(array), Datum::Text(delimiter)) = (&args[0], &args[1]) else {
        return Ok(Datum::Null);
    };
    let null = match args.get(2) {
        Some(Datum::Text(null)) => Some(&**null),
        _ => None,
    };
    let mut out = String::new();
    let mut any = false;
    for value in array.values() {
        let shown = value.to_text_in(array.element, scope.session.zone());
        let Some(shown) = shown.as_deref().or(null) else { continue };
        if any {
            out.push_str(delimiter);
        }
        any = true;
        out.push_str(shown);
        limits::check_value(out.len())?;
    }
    Ok(Datum::text(out))
}

/// The parts of a text between delimiters; its characters for a NULL delimiter. A part that is
/// equal to the third argument is NULL.
pub(super) fn parts(args: &[Datum]) -> Result<Option<Vec<Datum>>, SqlError> {
    let Datum::Text(text) = &args[0] else { return Ok(None) };
    let count = match &args[1] {
        Datum::Text(delimiter) if !delimiter.is_empty() => text.matches(&**delimiter).count(),
        Datum::Text(_) => 1,
        _ => text.len(),
    };
    limits::check_value(count.saturating_mul(PART_BYTES))?;
    let parts: Vec<&str> = match &args[1] {
        _ if text.is_empty() => Vec::new(),
        Datum::Text(delimiter) if delimiter.is_empty() => vec![text],
        Datum::Text(delimiter) => text.split(&**delimiter).collect(),
        _ => text.split("").filter(|part| !part.is_empty()).collect(),
    };
    let null = args.get(2).filter(|null| !null.is_null());
    let part = |part: &str| match Datum::text(part) {
        part if null == Some(&part) => Datum::Null,
        part => part,
    };
    Ok(Some(parts.into_iter().map(part).collect()))
}

/// The memory of a part of a text, besides its characters.
pub(super) const PART_BYTES: usize = 2 * size_of::<Datum>() + 48;

fn of_string(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match parts(args)? {
        Some(parts) => made(Array::of(Type::Text, parts)?),
        None => Ok(Datum::Null),
    }
}

fn unnest(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let array = array_at(args, 0)?.clone();
    let value = move |at: usize| Ok(vec![array.values()[at].clone()]);
    Ok(Box::new((0..array_at(args, 0)?.values().len()).map(value)))
}

/// The subscripts of a dimension, in order or in reverse.
fn subscripts(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let Some(dimension) = dimension(args)? else { return Ok(Box::new(std::iter::empty())) };
    let all = (dimension.lower..=dimension.upper()).map(|at| Ok(vec![Datum::Int4(at)]));
    Ok(match args.get(2) {
        Some(Datum::Bool(true)) => Box::new(all.rev()),
        _ => Box::new(all),
    })
}
