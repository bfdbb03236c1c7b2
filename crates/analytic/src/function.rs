//! Functions computed row by row over this crate's values, with the semantics of the SQL layer's
//! executor.

use crate::error::outward;
use crate::value::{self, array, base_type, datums};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use meridian_sql::system::{Catalog, SystemFunction};
use meridian_sql::{Datum, Facts, Scalar, SqlError, Type, check_value, state};
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The properties of the session that runs the query, for functions; set whenever the query starts.
#[derive(Clone, Default)]
pub(crate) struct Moment(Arc<RwLock<Known>>, Arc<AtomicBool>);

#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) facts: Facts,
    pub(crate) now_us: i64,
    /// Empty unless a function [reads the catalog](Moment::looks).
    pub(crate) catalog: Catalog,
    /// Set when the query was abandoned: functions check it at every row.
    pub(crate) stopped: Arc<AtomicBool>,
}

/// An argument of a function, for all rows of a batch.
enum Argument {
    One(Datum),
    Each(Vec<Datum>),
}

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Argument> {
        Ok(match value {
            ColumnarValue::Scalar(scalar) => Argument::One(
                datums(&scalar.to_array()?).map_err(outward)?.pop().unwrap_or(Datum::Null),
            ),
            ColumnarValue::Array(array) => Argument::Each(datums(array).map_err(outward)?),
        })
    }

    fn take(&mut self, row: usize) -> Datum {
        match self {
            Argument::One(datum) => datum.clone(),
            Argument::Each(all) => std::mem::replace(&mut all[row], Datum::Null),
        }
    }
}

/// Returns the heap bytes of a value.
fn bytes_of(datum: &Datum) -> usize {
    match datum {
        Datum::Text(text) => text.len(),
        Datum::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

impl Moment {
    pub(crate) fn set(&self, known: Known) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// True if some function of the query reads the catalog.
    pub(crate) fn looks(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> Known {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Returns = Arc<dyn Fn(&ReturnFieldArgs<'_>) -> Result<Field, SqlError> + Send + Sync>;
type Body = Arc<dyn Fn(&Known, &[Datum]) -> Result<Datum, SqlError> + Send + Sync>;

/// A function of a row's values.
pub(crate) struct ByRow {
    name: String,
    signature: Signature,
    returns: Returns,
    body: Body,
    moment: Moment,
}

impl ByRow {
    /// Creates a function whose result's field depends on its arguments'.
    pub(crate) fn with(
        name: impl Into<String>,
        moment: &Moment,
        returns: impl Fn(&ReturnFieldArgs<'_>) -> Result<Field, SqlError> + Send + Sync + 'static,
        body: impl Fn(&Known, &[Datum]) -> Result<Datum, SqlError> + Send + Sync + 'static,
    ) -> Arc<ScalarUDF> {
        let name = name.into();
        // Stable: it may read the session, which does not change while a query runs.
        let volatility =
            if name == "gen_random_uuid" { Volatility::Volatile } else { Volatility::Stable };
        let signature =
            Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], volatility);
        Arc::new(ScalarUDF::new_from_impl(ByRow {
            name,
            signature,
            returns: Arc::new(returns),
            body: Arc::new(body),
            moment: moment.clone(),
        }))
    }

    /// Creates a function with one result type.
    pub(crate) fn of(
        name: impl Into<String>,
        ty: Type,
        moment: &Moment,
        body: impl Fn(&Known, &[Datum]) -> Result<Datum, SqlError> + Send + Sync + 'static,
    ) -> Arc<ScalarUDF> {
        Self::with(name, moment, move |_| Ok(value::field("", ty, true)), body)
    }
}

impl Debug for ByRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

// Within a plan a name identifies a function.
impl PartialEq for ByRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ByRow {}

impl Hash for ByRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ByRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> =
            types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        let none = vec![None; fields.len()];
        let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &none };
        Ok(self.return_field_from_args(args)?.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = (self.returns)(&args).map_err(outward)?;
        Ok(Arc::new(field.with_name(&self.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let known = self.moment.get();
        let stable = self.signature.volatility != Volatility::Volatile;
        let scalars = stable && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalars { 1 } else { args.number_rows };
        let mut arguments = args.args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        let mut held = known.facts.held();
        let mut out = Vec::with_capacity(rows);
        let mut row = Vec::with_capacity(arguments.len());
        for at in 0..rows {
            if known.stopped.load(Ordering::Relaxed) {
                return Err(outward(SqlError::new(state::CANCELED, "the query was stopped")));
            }
            row.clear();
            row.extend(arguments.iter_mut().map(|argument| argument.take(at)));
            let value = (self.body)(&known, &row).map_err(outward)?;
            held.add(bytes_of(&value)).map_err(outward)?;
            out.push(value);
        }
        let result = array(out.iter(), args.return_field.data_type()).map_err(outward)?;
        if scalars {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn type_of_arg(field: &FieldRef) -> Option<Type> {
    (!field.data_type().is_null()).then(|| base_type(field.data_type()))
}

fn undefined(name: &str, args: &[Option<Type>]) -> SqlError {
    let shown: Vec<_> = args.iter().map(|ty| ty.map_or("unknown", Type::name)).collect();
    SqlError::new(state::UNDEFINED_FUNCTION, format!("function {name}({}) does not exist", shown.join(", ")))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// Returns a function of the SQL layer's executor.
fn own(name: &str, moment: &Moment) -> Option<Arc<ScalarUDF>> {
    // These have a common type of their arguments, which DataFusion finds.
    if matches!(name, "nullif" | "greatest" | "least" | "mod") || !Scalar::is_known(name) {
        return None;
    }
    let owned = name.to_owned();
    let returns = move |args: &ReturnFieldArgs<'_>| {
        let types: Vec<_> = args.arg_fields.iter().map(type_of_arg).collect();
        let found = Scalar::find(&owned, &types).ok_or_else(|| undefined(&owned, &types))?;
        // The requested digits are the digits shown.
        if owned == "round"
            && let Some(Some(digits)) = args.scalar_arguments.get(1)
            && matches!(
                args.arg_fields[0].data_type(),
                DataType::Decimal128(..) | DataType::Decimal256(..)
            )
            && let Ok(digits @ 0..=28) = i64::try_from((*digits).clone())
        {
            return Ok(Field::new("", DataType::Decimal128(38, digits as i8), true));
        }
        Ok(value::field("", found.ty, true))
    };
    let owned = name.to_owned();
    Some(ByRow::with(name, moment, returns, move |known, args| {
        let types: Vec<_> = args.iter().map(Datum::type_of).collect();
        match Scalar::find(&owned, &types) {
            Some(found) => found.call(args, &known.facts, known.now_us),
            // The type of a NULL is not known here, and may be what decides between the forms.
            None if args.iter().any(Datum::is_null) => Ok(Datum::Null),
            None => Err(undefined(&owned, &types)),
        }
    }))
}

/// Functions of DataFusion that have PostgreSQL's semantics.
const SHARED: &[&str] = &[
    "acos",
    "acosh",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bit_length",
    "cbrt",
    "chr",
    "coalesce",
    "cos",
    "cosh",
    "cot",
    "date_part",
    "date_trunc",
    "degrees",
    "exp",
    "factorial",
    "gcd",
    "greatest",
    "initcap",
    "lcm",
    "least",
    "ln",
    "log",
    "make_date",
    "nullif",
    "overlay",
    "pi",
    "radians",
    "random",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "reverse",
    "sin",
    "sinh",
    "split_part",
    "starts_with",
    "tan",
    "tanh",
    "to_hex",
    "translate",
];

pub(crate) fn is_shared(name: &str) -> bool {
    SHARED.contains(&name)
}

/// Returns the name of a cast in a rewritten query, which contains the type.
pub(crate) fn cast_name(ty: Type) -> String {
    format!("cast to {} {}", ty.oid(), ty.modifier())
}

fn cast(name: &str, moment: &Moment) -> Option<Arc<ScalarUDF>> {
    let (oid, modifier) = name.strip_prefix("cast to ")?.split_once(' ')?;
    let ty = Type::with_modifier(oid.parse().ok()?, modifier.parse().ok()?)?;
    Some(ByRow::of(name, ty, moment, move |_, args| match args {
        [Datum::Text(text)] if !ty.is_text() => {
            meridian_sql::convert(Datum::from_text(ty, text)?, ty, true)
        }
        [datum] => meridian_sql::convert(datum.clone(), ty, true),
        _ => Err(SqlError::new(state::SYNTAX, "a cast takes one value")),
    }))
}

fn system(name: &str, moment: &Moment) -> Option<Arc<ScalarUDF>> {
    let function = SystemFunction::find(name)?;
    moment.1.fetch_or(function.looks, Ordering::Relaxed);
    Some(ByRow::of(name, function.ty, moment, move |known, args| {
        function.call(args, &known.facts, &known.catalog)
    }))
}

/// Finds a function of a query by its name, unless DataFusion's own is used.
pub(crate) fn find(name: &str, moment: &Moment) -> Option<Arc<ScalarUDF>> {
    match name {
        "now"
        | "current_timestamp"
        | "transaction_timestamp"
        | "statement_timestamp"
        | "clock_timestamp" => Some(ByRow::of(name, Type::TimestampTz, moment, |known, _| {
            Ok(Datum::TimestampTz(known.now_us))
        })),
        "localtimestamp" => Some(ByRow::of(name, Type::Timestamp, moment, |known, _| {
            Ok(Datum::Timestamp(known.now_us))
        })),
        "current_date" => Some(ByRow::of(name, Type::Date, moment, |known, _| {
            meridian_sql::convert(Datum::TimestampTz(known.now_us), Type::Date, true)
        })),
        "sign" => Some(ByRow::with(
            name,
            moment,
            |args| {
                let float = args
                    .arg_fields
                    .first()
                    .is_none_or(|field| base_type(field.data_type()) == Type::Float8);
                Ok(value::field("", if float { Type::Float8 } else { Type::Numeric(None) }, true))
            },
            |_, args| {
                Ok(match args {
                    [Datum::Float8(x)] => Datum::Float8(if *x == 0.0 { 0.0 } else { x.signum() }),
                    [Datum::Null] => Datum::Null,
                    [number] => {
                        let order = number.order(&Datum::Int4(0)) as i64;
                        Datum::Numeric(order.into())
                    }
                    _ => return Err(undefined("sign", &[])),
                })
            },
        )),
        "trunc" => Some(ByRow::with(
            name,
            moment,
            |args| {
                let float = args
                    .arg_fields
                    .first()
                    .is_none_or(|field| base_type(field.data_type()) == Type::Float8);
                let digits = args.scalar_arguments.get(1).copied().flatten();
                Ok(match digits.and_then(|digits| i64::try_from(digits.clone()).ok()) {
                    _ if float => value::field("", Type::Float8, true),
                    Some(digits @ 0..=28) => {
                        Field::new("", DataType::Decimal128(38, digits as i8), true)
                    }
                    _ if args.arg_fields.len() == 1 => {
                        Field::new("", DataType::Decimal128(38, 0), true)
                    }
                    _ => value::field("", Type::Numeric(None), true),
                })
            },
            |_, args| {
                Ok(match args {
                    [Datum::Float8(x)] => Datum::Float8(x.trunc()),
                    [Datum::Null, ..] | [_, Datum::Null] => Datum::Null,
                    [number, rest @ ..] => {
                        let digits =
                            rest.first().and_then(Datum::as_i64).unwrap_or(0).clamp(0, 28) as u32;
                        let Datum::Numeric(exact) =
                            meridian_sql::convert(number.clone(), Type::Numeric(None), true)?
                        else {
                            return Ok(Datum::Null);
                        };
                        Datum::Numeric(exact.trunc_with_scale(digits))
                    }
                    [] => return Err(undefined("trunc", &[])),
                })
            },
        )),
        "at time zone" => Some(ByRow::with(
            name,
            moment,
            |args| {
                let zoned = args
                    .arg_fields
                    .first()
                    .is_some_and(|field| base_type(field.data_type()) == Type::TimestampTz);
                Ok(value::field("", if zoned { Type::Timestamp } else { Type::TimestampTz }, true))
            },
            |_, args| match args {
                [at, Datum::Text(zone)] => {
                    // Times are kept in UTC, and no other zone is supported.
                    let utc = ["utc", "gmt", "z", "etc/utc", "etc/gmt", "zulu"];
                    if !utc.contains(&zone.to_lowercase().as_str()) {
                        return Err(SqlError::unsupported(format!("the time zone \"{zone}\"")));
                    }
                    match at {
                        Datum::TimestampTz(us) => Ok(Datum::Timestamp(*us)),
                        Datum::Null => Ok(Datum::Null),
                        other => meridian_sql::convert(other.clone(), Type::TimestampTz, true),
                    }
                }
                _ => Ok(Datum::Null),
            },
        )),
        "similar to" => Some(ByRow::of(name, Type::Bool, moment, |_, args| match args {
            [Datum::Text(text), Datum::Text(pattern), rest @ ..] => {
                let escape = match rest {
                    [Datum::Text(escape)] => escape.chars().next(),
                    _ => Some('\\'),
                };
                let pattern = similar(pattern, escape);
                let found = regex::Regex::new(&pattern).map_err(|_| {
                    SqlError::new("2201B", "invalid regular expression in SIMILAR TO")
                })?;
                Ok(Datum::Bool(found.is_match(text)))
            }
            _ => Ok(Datum::Null),
        })),
        "regexp_replace" => {
            let last = Arc::new(Mutex::new(None));
            Some(ByRow::of(name, Type::Text, moment, move |_, args| regex_replace(args, &last)))
        }
        // The direction of this cast depends on its operand: an id has a name, a name has an id.
        "regclass" | "regtype" => {
            let of = |field: &FieldRef| {
                if base_type(field.data_type()).is_text() { "name" } else { "oid" }
            };
            let by = [format!("{name} of name"), format!("{name} of oid")]
                .map(|name| SystemFunction::find(&name));
            let [Some(by_name), Some(by_oid)] = by else { return None };
            moment.1.fetch_or(by_name.looks, Ordering::Relaxed);
            let returns = move |args: &ReturnFieldArgs<'_>| {
                let named = args.arg_fields.first().is_some_and(|field| of(field) == "name");
                Ok(value::field("", if named { by_name.ty } else { by_oid.ty }, true))
            };
            Some(ByRow::with(name, moment, returns, move |known, args| {
                let named = matches!(args.first(), Some(Datum::Text(_)));
                if named { by_name } else { by_oid }.call(args, &known.facts, &known.catalog)
            }))
        }
        _ => cast(name, moment).or_else(|| own(name, moment)).or_else(|| system(name, moment)),
    }
}

/// The regular expression that was used last, with its source.
type LastRegex = Mutex<Option<(String, regex::Regex)>>;

/// Implements `regexp_replace(text, pattern, replacement [, flags])`.
fn regex_replace(args: &[Datum], last: &LastRegex) -> Result<Datum, SqlError> {
    if args.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let (text, pattern, replacement, flags) = match args {
        [Datum::Text(text), Datum::Text(pattern), Datum::Text(replacement)] => {
            (text, pattern, replacement, "")
        }
        [Datum::Text(text), Datum::Text(pattern), Datum::Text(replacement), Datum::Text(flags)] => {
            (text, pattern, replacement, &**flags)
        }
        args => {
            return Err(undefined(
                "regexp_replace",
                &args.iter().map(Datum::type_of).collect::<Vec<_>>(),
            ));
        }
    };
    let all = flags.contains('g');
    // A dot matches a newline in PostgreSQL, unless a flag changes that.
    let mut mode = String::from("s");
    for flag in flags.chars() {
        match flag {
            'g' => {}
            'c' => mode.retain(|mode| mode != 'i'),
            'i' | 'x' => mode.push(flag),
            's' if !mode.contains('s') => mode.push('s'),
            's' => {}
            'n' | 'm' => mode = mode.replace('s', "") + "m",
            flag => {
                let message = format!("invalid regular expression option: \"{flag}\"");
                return Err(SqlError::new(state::INVALID_PARAMETER, message));
            }
        }
    }
    let source = if mode.is_empty() { pattern.to_string() } else { format!("(?{mode}){pattern}") };
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = match last.take() {
        Some((of, regex)) if of == source => regex,
        _ => regex::Regex::new(&source).map_err(|error| {
            let detail = error.to_string().lines().last().unwrap_or_default().to_owned();
            SqlError::new("2201B", "invalid regular expression").detail(detail)
        })?,
    };
    let mut out = String::new();
    let mut behind = 0;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { break };
        out.push_str(&text[behind..whole.start()]);
        expand(replacement, &captures, &mut out);
        check_value(out.len())?;
        behind = whole.end();
        if !all {
            break;
        }
    }
    out.push_str(&text[behind..]);
    check_value(out.len())?;
    *last = Some((source, regex));
    Ok(Datum::text(out))
}

/// Expands `\1` to `\9` and `\&` in a replacement.
fn expand(replacement: &str, captures: &regex::Captures<'_>, out: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('&') => out.push_str(&captures[0]),
                Some(digit @ '1'..='9') => {
                    let group = digit as usize - '0' as usize;
                    out.push_str(captures.get(group).map_or("", |found| found.as_str()));
                }
                Some('\\') | None => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
            },
            c => out.push(c),
        }
    }
}

/// Converts a pattern of SIMILAR TO to a regular expression.
fn similar(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^(?:");
    let (mut chars, mut in_set) = (pattern.chars(), false);
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(next) = chars.next() {
                    out.push_str(&regex::escape(&next.to_string()));
                }
            }
            '%' if !in_set => out.push_str(".*"),
            '_' if !in_set => out.push('.'),
            '.' | '^' | '$' | '\\' if !in_set => out.push_str(&regex::escape(&c.to_string())),
            c => {
                in_set = c == '[' || in_set && c != ']';
                out.push(c);
            }
        }
    }
    out + ")$"
}

/// Returns a literal.
pub(crate) fn literal(datum: &Datum, ty: Type) -> Result<ScalarValue, SqlError> {
    value::scalar(datum, ty)
}
