//! Scalar functions.

use crate::consistency;
use crate::datetime::timestamp_from_text;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::limits;
use crate::number;
use crate::system;
use crate::types::Type;
use md5::Digest;
use rust_decimal::RoundingStrategy;

/// A function of this crate's executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Sqrt,
    Power,
    Mod,
    Negate,
    Length,
    OctetLength,
    Lower,
    Upper,
    Trim,
    LeftTrim,
    RightTrim,
    Substring,
    Replace,
    Concat,
    ConcatWith,
    Join,
    Repeat,
    LeftPad,
    RightPad,
    Left,
    Right,
    Position,
    Md5,
    RandomUuid,
    NullIf,
    Greatest,
    Least,
    Version,
    CurrentDatabase,
    CurrentSchema,
    CurrentUser,
    PgBackendPid,
    CausalToken,
    TtNow,
    TtAfter,
    TtBefore,
}

/// Finds a function by its name and the types of its arguments, with the type of its result.
pub(crate) fn find(name: &str, args: &[Option<Type>]) -> Option<(Function, Type)> {
    use Function::*;
    let first = args.first().copied().flatten();
    let moment = first.is_none_or(|ty| ty == Type::TimestampTz || ty == Type::Text);
    let number = first.filter(|ty| ty.is_number()).unwrap_or(Type::Float8).base();
    let exact = if number == Type::Float8 { Type::Float8 } else { Type::Numeric(None) };
    Some(match (name, args.len()) {
        ("abs", 1) => (Abs, number),
        ("ceil" | "ceiling", 1) => (Ceil, exact),
        ("floor", 1) => (Floor, exact),
        ("round", 1) => (Round, exact),
        ("round", 2) => (Round, Type::Numeric(None)),
        ("sqrt", 1) => (Sqrt, Type::Float8),
        ("power" | "pow", 2) => (Power, Type::Float8),
        ("mod", 2) => (Mod, number),
        ("length" | "char_length" | "character_length", 1) => (Length, Type::Int4),
        ("octet_length", 1) => (OctetLength, Type::Int4),
        ("lower", 1) => (Lower, Type::Text),
        ("upper", 1) => (Upper, Type::Text),
        ("trim" | "btrim", 1 | 2) => (Trim, Type::Text),
        ("ltrim", 1 | 2) => (LeftTrim, Type::Text),
        ("rtrim", 1 | 2) => (RightTrim, Type::Text),
        ("substring" | "substr", 2 | 3) => (Substring, Type::Text),
        ("replace", 3) => (Replace, Type::Text),
        ("concat", _) => (Concat, Type::Text),
        ("concat_ws", 1..) => (ConcatWith, Type::Text),
        ("repeat", 2) => (Repeat, Type::Text),
        ("lpad", 2 | 3) => (LeftPad, Type::Text),
        ("rpad", 2 | 3) => (RightPad, Type::Text),
        ("left", 2) => (Left, Type::Text),
        ("right", 2) => (Right, Type::Text),
        ("strpos", 2) => (Position, Type::Int4),
        ("md5", 1) => (Md5, Type::Text),
        ("gen_random_uuid", 0) => (RandomUuid, Type::Uuid),
        ("nullif", 2) => (NullIf, first.unwrap_or(Type::Text)),
        ("greatest", 1..) => (Greatest, first.unwrap_or(Type::Text)),
        ("least", 1..) => (Least, first.unwrap_or(Type::Text)),
        ("version", 0) => (Version, Type::Text),
        ("current_database" | "current_catalog", 0) => (CurrentDatabase, Type::Text),
        ("current_schema", 0) => (CurrentSchema, Type::Text),
        ("current_user" | "session_user" | "user" | "current_role", 0) => (CurrentUser, Type::Text),
        ("pg_backend_pid", 0) => (PgBackendPid, Type::Int4),
        ("causal_token", 0) => (CausalToken, Type::Text),
        ("tt_now", 0) => (TtNow, Type::Text),
        ("tt_after", 1) if moment => (TtAfter, Type::Bool),
        ("tt_before", 1) if moment => (TtBefore, Type::Bool),
        _ => return None,
    })
}

/// The result of `version()`.
pub(crate) const VERSION: &str =
    concat!("PostgreSQL 16.0 (Meridian ", env!("CARGO_PKG_VERSION"), ")");

fn text_of(datum: &Datum) -> Result<&str, SqlError> {
    match datum {
        Datum::Text(text) => Ok(text),
        _ => Err(SqlError::new(state::UNDEFINED_FUNCTION, "the function takes text")),
    }
}

pub(crate) fn call(
    function: Function,
    args: &[Datum],
    scope: &Scope<'_>,
) -> Result<Datum, SqlError> {
    use Function::*;
    match function {
        Concat => {
            let mut out = String::new();
            for arg in args {
                arg.write_text(Type::Text, &mut out);
                limits::check_value(out.len())?;
            }
            return Ok(Datum::text(out));
        }
        ConcatWith => {
            let Datum::Text(between) = &args[0] else { return Ok(Datum::Null) };
            let mut out = String::new();
            for (at, arg) in args[1..].iter().filter(|arg| !arg.is_null()).enumerate() {
                if at > 0 {
                    out.push_str(between);
                }
                arg.write_text(Type::Text, &mut out);
                limits::check_value(out.len())?;
            }
            return Ok(Datum::text(out));
        }
        NullIf => {
            return Ok(if args[0].order(&args[1]).is_eq() { Datum::Null } else { args[0].clone() });
        }
        Greatest => {
            return Ok(args
                .iter()
                .filter(|a| !a.is_null())
                .max_by(|a, b| a.order(b))
                .cloned()
                .unwrap_or(Datum::Null));
        }
        Least => {
            return Ok(args
                .iter()
                .filter(|a| !a.is_null())
                .min_by(|a, b| a.order(b))
                .cloned()
                .unwrap_or(Datum::Null));
        }
        Version => return Ok(Datum::text(VERSION)),
        CurrentDatabase => return Ok(Datum::text(&scope.session.database)),
        CurrentSchema => return Ok(Datum::text("public")),
        CurrentUser => return Ok(Datum::text(&scope.session.user)),
        RandomUuid => return Ok(Datum::Uuid(uuid::Uuid::new_v4())),
        PgBackendPid => return Ok(Datum::Int4(scope.session.pid)),
        CausalToken => {
            let facts = scope.session;
            let text = consistency::token_to_text(&facts.database, facts.token);
            return Ok(Datum::text(text));
        }
        TtNow => return Ok(Datum::text(&system::tt_now(scope.session)?)),
        TtAfter | TtBefore => {
            let at = match args {
                [Datum::TimestampTz(at)] => *at,
                [Datum::Text(text)] => timestamp_from_text(text, true)?,
                _ => return Ok(Datum::Null),
            };
            let (earliest, latest) = system::interval_now(scope.session)?;
            return Ok(Datum::Bool(if function == TtAfter { at < earliest } else { at > latest }));
        }
        _ => {}
    }
    if args.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let text = |at: usize| text_of(args.get(at).unwrap_or(&Datum::Null));
    let whole = |at: usize| args.get(at).and_then(Datum::as_i64).unwrap_or(0);
    let cut = |at: usize| {
        args.get(at).map_or(Ok(" "), |_| text(at)).map(|set| set.chars().collect::<Vec<_>>())
    };
    Ok(match function {
        Abs | Negate => match &args[0] {
            Datum::Float8(x) => Datum::Float8(if function == Abs { x.abs() } else { -x }),
            // There is no negative zero.
            Datum::Numeric(n) if function == Abs || n.is_zero() => Datum::Numeric(n.abs()),
            Datum::Numeric(n) => Datum::Numeric(-*n),
            n => {
                let value = i128::from(n.as_i64().unwrap_or(0));
                number::integer(
                    n.type_of().unwrap_or(Type::Int8),
                    if function == Abs { value.abs() } else { -value },
                )?
            }
        },
        Ceil | Floor | Round => match &args[0] {
            Datum::Float8(x) if args.len() == 1 => Datum::Float8(match function {
                Ceil => x.ceil(),
                Floor => x.floor(),
                _ => x.round_ties_even(),
            }),
            n => {
                let n = number::to_decimal(n)?;
                if whole(1) < 0 {
                    // Tens, hundreds and so on.
                    let unit = rust_decimal::Decimal::from(
                        10i64.pow(whole(1).unsigned_abs().min(18) as u32),
                    );
                    let units = (n / unit)
                        .round_dp_with_strategy(0, RoundingStrategy::MidpointAwayFromZero);
                    let whole = units
                        .checked_mul(unit)
                        .ok_or_else(|| number::overflow(Type::Numeric(None)))?;
                    return Ok(Datum::Numeric(whole));
                }
                let scale = whole(1).clamp(0, 28) as u32;
                Datum::Numeric(match function {
                    Ceil => n.ceil(),
                    Floor => n.floor(),
                    _ => {
                        let mut rounded =
                            n.round_dp_with_strategy(scale, RoundingStrategy::MidpointAwayFromZero);
                        if args.len() == 2 {
                            rounded.rescale(scale);
                        }
                        rounded
                    }
                })
            }
        },
        Sqrt => {
            let x = args[0].as_f64().unwrap_or(0.0);
            if x < 0.0 {
                return Err(SqlError::new(
                    state::INVALID_ARGUMENT,
                    "cannot take square root of a negative number",
                ));
            }
            Datum::Float8(x.sqrt())
        }
        Power => {
            Datum::Float8(args[0].as_f64().unwrap_or(0.0).powf(args[1].as_f64().unwrap_or(0.0)))
        }
        Mod => {
            let ty = args[0].type_of().unwrap_or(Type::Int8);
            number::arith(crate::expr::Arith::Mod, ty, &args[0], &args[1])?
        }
        Length => match &args[0] {
            Datum::Bytes(bytes) => Datum::Int4(bytes.len() as i32),
            _ => Datum::Int4(text(0)?.chars().count() as i32),
        },
        OctetLength => match &args[0] {
            Datum::Bytes(bytes) => Datum::Int4(bytes.len() as i32),
            _ => Datum::Int4(text(0)?.len() as i32),
        },
        Lower => Datum::text(text(0)?.to_lowercase()),
        Upper => Datum::text(text(0)?.to_uppercase()),
        Trim => Datum::text(text(0)?.trim_matches(&cut(1)?[..])),
        LeftTrim => Datum::text(text(0)?.trim_start_matches(&cut(1)?[..])),
        RightTrim => Datum::text(text(0)?.trim_end_matches(&cut(1)?[..])),
        Substring => {
            let from = whole(1);
            let end = if args.len() == 3 {
                if whole(2) < 0 {
                    return Err(SqlError::new("22011", "negative substring length not allowed"));
                }
                from.saturating_add(whole(2))
            } else {
                i64::MAX
            };
            let skip = (from.max(1) - 1) as usize;
            let take = end.saturating_sub(from.max(1)).max(0) as usize;
            Datum::text(text(0)?.chars().skip(skip).take(take).collect::<String>())
        }
        Replace if text(1)?.is_empty() => args[0].clone(),
        Replace => {
            let (text, from, to) = (text(0)?, text(1)?, text(2)?);
            if to.len() > from.len() {
                let found = text.matches(from).count();
                limits::check_value(
                    text.len().saturating_add(found.saturating_mul(to.len() - from.len())),
                )?;
            }
            Datum::text(text.replace(from, to))
        }
        Repeat => {
            let (text, times) = (text(0)?, usize::try_from(whole(1)).unwrap_or(0));
            limits::check_value(text.len().saturating_mul(times))?;
            Datum::text(text.repeat(times))
        }
        LeftPad | RightPad => {
            let (text, length) = (text(0)?, usize::try_from(whole(1)).unwrap_or(0));
            let fill = if args.len() == 3 { text_of(&args[2])? } else { " " };
            limits::check_value(length)?;
            let missing =
                if fill.is_empty() { 0 } else { length.saturating_sub(text.chars().count()) };
            let kept = text.chars().take(length);
            let padding = fill.chars().cycle().take(missing);
            let padded: String = if function == LeftPad {
                padding.chain(kept).collect()
            } else {
                kept.chain(padding).collect()
            };
            limits::check_value(padded.len())?;
            Datum::text(padded)
        }
        Join => {
            let mut out = String::new();
            args[0].write_text(Type::Text, &mut out);
            args[1].write_text(Type::Text, &mut out);
            limits::check_value(out.len())?;
            Datum::text(out)
        }
        Left | Right => {
            let (count, n) = (text(0)?.chars().count() as i64, whole(1));
            let kept = if n < 0 { count.saturating_add(n).max(0) } else { n.min(count) } as usize;
            let skip = if function == Left { 0 } else { count as usize - kept };
            Datum::text(text(0)?.chars().skip(skip).take(kept).collect::<String>())
        }
        Position => {
            let (hay, needle) = (text(0)?, text(1)?);
            Datum::Int4(hay.find(needle).map_or(0, |at| hay[..at].chars().count() as i32 + 1))
        }
        Md5 => {
            let digest = match &args[0] {
                Datum::Bytes(bytes) => md5::Md5::digest(bytes),
                _ => md5::Md5::digest(text(0)?),
            };
            Datum::text(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        _ => return Err(SqlError::unsupported("this function")),
    })
}

/// Matches LIKE: `%` is any text, `_` any character. Backtracks to the last `%` only, so it takes
/// at most text times pattern steps.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    #[derive(PartialEq)]
    enum Piece {
        Any,
        One,
        Exactly(char),
    }
    let escape = escape.unwrap_or('\\');
    let (mut pieces, mut chars) = (Vec::new(), pattern.chars());
    while let Some(c) = chars.next() {
        pieces.push(match c {
            c if c == escape => Piece::Exactly(chars.next().unwrap_or(escape)),
            '%' => Piece::Any,
            '_' => Piece::One,
            c => Piece::Exactly(c),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut piece, mut back) = (0, 0, None);
    while at < text.len() {
        match pieces.get(piece) {
            Some(Piece::Any) => {
                back = Some((piece, at));
                piece += 1;
            }
            Some(Piece::One) => (at, piece) = (at + 1, piece + 1),
            Some(Piece::Exactly(c)) if *c == text[at] => (at, piece) = (at + 1, piece + 1),
            _ => {
                let Some((any, from)) = back else { return false };
                back = Some((any, from + 1));
                (at, piece) = (from + 1, any + 1);
            }
        }
    }
    pieces[piece..].iter().all(|piece| *piece == Piece::Any)
}
