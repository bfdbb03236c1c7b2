//! Converts names of the syntax tree to names of the catalog, and places to positions in a
//! statement's text.

use crate::enumeration::Enum;
use crate::error::{SqlError, state};
use crate::system;
use crate::types::{Object, Type};
use sqlparser::ast::{self, DataType, Spanned};

/// Folds a name as PostgreSQL does: lower case unless quoted.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Returns the place of a name, line and column as one number; [`settle_position`] converts it to
/// a character position.
pub(crate) fn position(ident: &ast::Ident) -> Option<usize> {
    place(ident.span.start)
}

pub(crate) fn expr_position(expr: &ast::Expr) -> Option<usize> {
    place(expr.span().start)
}

/// Encodes a line and a column as one number, the line above bit 32.
pub(crate) fn place(at: sqlparser::tokenizer::Location) -> Option<usize> {
    (at.line > 0).then_some((at.line as usize) << 32 | at.column as usize)
}

/// Converts a place to a position in the text, in characters counted from 1.
pub(crate) fn settle_position(mut error: SqlError, sql: &str) -> SqlError {
    if let Some(place) = error.position.filter(|place| place >> 32 > 0) {
        let (line, column) = (place >> 32, place & 0xFFFF_FFFF);
        let before: usize =
            sql.split('\n').take(line - 1).map(|text| text.chars().count() + 1).sum();
        error.position = Some(before + column);
    }
    error
}

/// Returns the name of a relation, with its schema unless that is `public`, which holds users'
/// tables.
pub(crate) fn relation(name: &ast::ObjectName) -> Result<String, SqlError> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" => Ok(name.clone()),
        [_, schema, name] if schema == "public" => Ok(name.clone()),
        [schema, name] => Ok(format!("{schema}.{name}")),
        _ => Err(SqlError::new(state::SYNTAX, format!("improper relation name: {name}"))),
    }
}

/// Returns the name of a relation that a text writes as SQL would; `None` if it is no name.
pub(crate) fn written(text: &str) -> Option<String> {
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    let mut parser = sqlparser::parser::Parser::new(&dialect).try_with_sql(text).ok()?;
    let name = parser.parse_object_name(false).ok()?;
    let is_all = parser.peek_token().token == sqlparser::tokenizer::Token::EOF;
    is_all.then(|| relation(&name).ok()).flatten()
}

/// Returns a function's name, without its schema.
pub(crate) fn function_name(name: &ast::ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default()
}

/// Returns the arguments of a call, none of which may be a wildcard.
pub(crate) fn arguments(call: &ast::Function) -> Result<Vec<&ast::Expr>, SqlError> {
    match &call.args {
        ast::FunctionArguments::None => Ok(Vec::new()),
        ast::FunctionArguments::List(list) => unnamed(&list.args),
        ast::FunctionArguments::Subquery(_) => Err(SqlError::unsupported("a subquery as argument")),
    }
}

/// Returns arguments that have no names.
pub(crate) fn unnamed(args: &[ast::FunctionArg]) -> Result<Vec<&ast::Expr>, SqlError> {
    args.iter()
        .map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
            other => Err(SqlError::unsupported(format!("the argument {other}"))),
        })
        .collect()
}

/// True if a type of the database would be hidden by one of PostgreSQL's.
pub(crate) fn is_known_type(name: &str) -> bool {
    system::type_named(name).is_some()
        || Object::named(name).is_some()
        || matches!(name, "xid" | "cid")
}

/// Returns the name of a type that the database may have, as [`relation`] does; `None` for the
/// types that every database has.
pub(crate) fn enumeration(ty: &DataType) -> Option<String> {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            relation(name).ok().filter(|name| !name.contains('.') && !is_known_type(name))
        }
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => enumeration(element),
        _ => None,
    }
}

/// Returns the type of a type name: one of PostgreSQL's, or one of the enum types that the database
/// has.
pub(crate) fn data_type(ty: &DataType, types: &[Enum]) -> Result<Type, SqlError> {
    use ast::{CharacterLength, ExactNumberInfo, TimezoneInfo};
    let length = |length: &Option<CharacterLength>| match length {
        Some(CharacterLength::IntegerLength { length, .. })
            if (1..=10_485_760).contains(length) =>
        {
            Ok(Some(*length as u32))
        }
        Some(_) => Err(SqlError::new(
            state::INVALID_PARAMETER,
            "length of a character type must be between 1 and 10485760",
        )),
        None => Ok(None),
    };
    Ok(match ty {
        DataType::Bool | DataType::Boolean => Type::Bool,
        DataType::SmallInt(_) | DataType::Int2(_) => Type::Int2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Type::Int4,
        DataType::BigInt(_) | DataType::Int8(_) => Type::Int8,
        DataType::Float8
        | DataType::DoublePrecision
        | DataType::Double(_)
        | DataType::Real
        | DataType::Float4
        | DataType::Float(_) => Type::Float8,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            let (precision, scale) = match info {
                ExactNumberInfo::None => return Ok(Type::Numeric(None)),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            if !(1..=28).contains(&precision) || !(0..=precision as i64).contains(&scale) {
                let message = format!(
                    "NUMERIC precision {precision}, scale {scale} must be between 1 and 28"
                );
                return Err(SqlError::new(state::INVALID_PARAMETER, message)
                    .detail("At most 28 digits are kept."));
            }
            Type::Numeric(Some((precision as u16, scale as u16)))
        }
        DataType::Text => Type::Text,
        DataType::Varchar(n) | DataType::CharacterVarying(n) | DataType::CharVarying(n) => {
            Type::Varchar(length(n)?)
        }
        DataType::Char(n) | DataType::Character(n) => Type::Char(length(n)?.unwrap_or(1)),
        DataType::Bytea => Type::Bytea,
        DataType::Uuid => Type::Uuid,
        DataType::Date => Type::Date,
        DataType::Timestamp(Some(0..6), _) => {
            return Err(SqlError::unsupported("a timestamp with a precision"));
        }
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Type::Timestamp
        }
        DataType::Timestamp(..) | DataType::TimestampNtz(_) => Type::TimestampTz,
        DataType::Custom(name, _) if function_name(name) == "timestamptz" => Type::TimestampTz,
        DataType::Time(Some(0..6), _) => {
            return Err(SqlError::unsupported("a time with a precision"));
        }
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Type::Time,
        DataType::Time(..) => return Err(SqlError::unsupported("the type time with time zone")),
        DataType::JSON => Type::Json,
        DataType::JSONB => Type::Jsonb,
        DataType::Interval { fields: None, precision: None } => Type::Interval,
        DataType::Interval { .. } => {
            return Err(SqlError::unsupported("a type interval with fields or a precision"));
        }
        DataType::Custom(name, _) if function_name(name) == "bpchar" => Type::Char(0),
        DataType::Regclass => Type::Object(Object::Class),
        DataType::Custom(name, _) if Object::named(&function_name(name)).is_some() => {
            Type::Object(Object::named(&function_name(name)).unwrap_or(Object::Class))
        }
        // Ids of objects are integers here, and names are text.
        DataType::Custom(name, _)
            if matches!(function_name(name).as_str(), "oid" | "xid" | "cid") =>
        {
            Type::Int4
        }
        DataType::Custom(name, _) if matches!(function_name(name).as_str(), "name" | "char") => {
            Type::Text
        }
        // A length and further dimensions are no part of the type.
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
            match data_type(element, types)? {
                // Each element would be as long as the type allows when it is shown.
                ty @ (Type::Object(_) | Type::Char(2..)) => {
                    return Err(SqlError::unsupported(format!("an array of {ty}")));
                }
                ty => ty.array(),
            }
        }
        // By the name of `pg_type`, perhaps with its schema.
        DataType::Custom(name, modifiers)
            if modifiers.is_empty()
                && let Some(ty) =
                    system::type_named(&function_name(name)).and_then(Type::from_oid) =>
        {
            ty
        }
        DataType::Custom(..)
            if let Some(name) = enumeration(ty)
                && let Some(found) = types.iter().find(|it| it.descriptor().name == name) =>
        {
            Type::Enum(*found)
        }
        other => {
            let name = enumeration(other).unwrap_or_else(|| other.to_string().to_lowercase());
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message)
                .hint("Types: boolean, smallint, integer, bigint, double precision, numeric, text, varchar, char, bytea, uuid, date, timestamp, timestamptz, time, interval, inet, cidr, json, jsonb."));
        }
    })
}

/// Returns the most similar name, if one is similar enough to be meant.
pub(crate) fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = |other: &str| {
        let (a, b): (Vec<char>, Vec<char>) =
            (name.chars().take(64).collect(), other.chars().take(64).collect());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let change = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    };
    let limit = (name.chars().count() / 3).clamp(1, 3);
    all.map(|other| (near(other), other))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, other)| other)
}
