//! Converts names of the syntax tree to names of the catalog, and places to positions in a
//! statement's text.

use crate::bits::LONGEST_TYPE;
use crate::catalog::UserType;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::extension;
use crate::interval::Fields;
use crate::system;
use crate::types::{NAME_LENGTH, Object, Type};
use sqlparser::ast::{self, DataType, Spanned};
use std::fmt::{self, Display};
use std::ops::ControlFlow;

/// Folds a name as PostgreSQL does: lower case unless quoted.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Returns a name for an object of others, `first_second_label`, of at most [`NAME_LENGTH`] bytes:
/// the longer of the two is cut, as PostgreSQL does it. `second` may be empty.
pub(crate) fn made(first: &str, second: &str, label: &str) -> String {
    let separators = 1 + usize::from(!second.is_empty());
    let room = NAME_LENGTH.saturating_sub(label.len() + separators);
    let (mut a, mut b) = (first.len(), second.len());
    while a + b > room {
        match a > b {
            true => a -= 1,
            false => b -= 1,
        }
    }
    let first = &first[..first.floor_char_boundary(a)];
    match &second[..second.floor_char_boundary(b)] {
        "" => format!("{first}_{label}"),
        second => format!("{first}_{second}_{label}"),
    }
}

/// Returns the place of a name, line and column as one number; [`settle_position`] converts it to
/// a character position.
pub(crate) fn position(ident: &ast::Ident) -> Option<usize> {
    place(ident.span.start)
}

pub(crate) fn expr_position(expr: &ast::Expr) -> Option<usize> {
    place(expr.span().start)
}

/// Returns the place of the name of a type, if the parser keeps it.
pub(crate) fn type_position(ty: &DataType) -> Option<usize> {
    match ty {
        DataType::Custom(name, _) => {
            name.0.first().and_then(|part| part.as_ident()).and_then(position)
        }
        _ => None,
    }
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

/// A name as a statement writes it, perhaps with a schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Qualified {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

impl Qualified {
    /// Returns a name without a schema.
    pub(crate) fn of(name: &str) -> Qualified {
        Qualified { schema: None, name: name.to_owned() }
    }

    /// Returns the id of the object, if it is a [`reference`].
    pub(crate) fn id(&self) -> Option<u32> {
        self.name.strip_prefix(BY_ID).filter(|_| self.schema.is_none())?.parse().ok()
    }

    /// Returns the id of the extension, if it is the name of a function [of one](of_extension).
    pub(crate) fn extension(&self) -> Option<u32> {
        self.schema.as_deref()?.strip_prefix(BY_ID)?.parse().ok()
    }

    /// Returns the name of a materialized view, if it is a [`filled`] one.
    pub(crate) fn of_filled(&self) -> Option<Qualified> {
        let name = self.name.strip_prefix(FILLED)?.to_owned();
        Some(Qualified { schema: self.schema.clone(), name })
    }
}

/// The beginning of a name that stands for the object of an id, in stored texts. No client can send
/// it.
const BY_ID: char = '\0';
/// The beginning of the name of a materialized view that is filled. No client can send it.
const FILLED: &str = "\0q";

/// Returns the name by which stored texts refer to an object.
pub(crate) fn reference(id: u32) -> ast::Ident {
    ast::Ident::with_quote('"', format!("{BY_ID}{id}"))
}

/// Returns the name by which stored texts refer to a function of an extension.
pub(crate) fn of_extension(id: u32, function: &str) -> ast::ObjectName {
    ast::ObjectName::from(vec![reference(id), ast::Ident::new(system::quoted(function))])
}

/// Returns the name by which a statement of the system's own fills a materialized view, and reads
/// its query instead of its rows. A replay finds the view that it has created itself.
pub(crate) fn filled(name: &Qualified) -> ast::ObjectName {
    let last = ast::Ident::with_quote('"', format!("{FILLED}{}", name.name));
    let schema = name.schema.iter().map(|schema| ast::Ident::with_quote('"', schema));
    ast::ObjectName::from(schema.chain([last]).collect::<Vec<_>>())
}

/// A part of a stored text: a reference, if the part begins with one, and what follows.
pub(crate) struct Part<'t> {
    pub(crate) id: Option<u32>,
    pub(crate) rest: &'t str,
}

impl<'t> Part<'t> {
    /// Returns what follows the name that stands for the reference: without the point behind a
    /// schema that is left out.
    pub(crate) fn rest_behind(&self, name: &str) -> &'t str {
        let is_left_out = self.id.is_some() && name.is_empty();
        self.rest.strip_prefix('.').filter(|_| is_left_out).unwrap_or(self.rest)
    }
}

/// Divides a stored text before each reference.
pub(crate) fn references(text: &str) -> impl Iterator<Item = Part<'_>> {
    text.split("\"\0").enumerate().map(|(at, part)| {
        let (id, rest) = part.split_once('"').filter(|_| at > 0).unwrap_or(("", part));
        Part { id: id.parse().ok(), rest }
    })
}

/// Replaces the references of a stored text by the names of their objects, as SQL writes them. An
/// empty name is that of a schema that is left out.
pub(crate) fn dereference(text: &str, name_of: impl Fn(u32) -> String) -> String {
    let part = |part: Part<'_>| {
        let name = part.id.map_or_else(String::new, &name_of);
        let rest = part.rest_behind(&name);
        name + rest
    };
    references(text).map(part).collect()
}

impl fmt::Display for Qualified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

/// Returns the name of a relation or a type. That of a database before it is looked at by
/// [`check_database`].
pub(crate) fn relation(name: &ast::ObjectName) -> Result<Qualified, SqlError> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
    match parts.as_slice() {
        [name] => Ok(Qualified::of(name)),
        [schema, name] | [_, schema, name] => {
            Ok(Qualified { schema: Some(schema.clone()), name: name.clone() })
        }
        _ => Err(SqlError::new(state::SYNTAX, format!("improper relation name: {name}"))),
    }
}

/// Fails with 0A000 if a statement names a relation of another database than its own.
pub(crate) fn check_database(statement: &ast::Statement, own: &str) -> Result<(), SqlError> {
    let found = ast::visit_relations(statement, |name| {
        let database = name.0.first().and_then(|part| part.as_ident());
        match database.filter(|_| name.0.len() == 3).is_some_and(|other| fold(other) != own) {
            true => ControlFlow::Break(name.clone()),
            false => ControlFlow::Continue(()),
        }
    });
    let ControlFlow::Break(name) = found else { return Ok(()) };
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
    let name = parts.join(".");
    let message = format!("cross-database references are not implemented: \"{name}\"");
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

/// Fails with 42601 if a statement names a relation by a reserved word without quotes. The words
/// that are functions in FROM may stand there.
pub(crate) fn check_reserved(statement: &ast::Statement) -> Result<(), SqlError> {
    let found = ast::visit_relations(statement, |name| {
        let ident = match name.0.as_slice() {
            [part] => part.as_ident().filter(|ident| ident.quote_style.is_none()),
            _ => None,
        };
        match ident.filter(|ident| crate::function::is_reserved(&fold(ident))) {
            Some(ident) => ControlFlow::Break(ident.clone()),
            None => ControlFlow::Continue(()),
        }
    });
    let ControlFlow::Break(ident) = found else { return Ok(()) };
    let message = format!("syntax error at or near \"{}\"", ident.value);
    Err(SqlError::new(state::SYNTAX, message).at(position(&ident)))
}

/// Returns a name that has no schema: of a column, a constraint, a database, a schema.
pub(crate) fn simple(name: &ast::ObjectName) -> Result<String, SqlError> {
    match relation(name)? {
        Qualified { schema: None, name } => Ok(name),
        qualified => {
            Err(SqlError::new(state::SYNTAX, format!("improper qualified name: {qualified}")))
        }
    }
}

/// Returns the name of a relation that a text writes as SQL would; `None` if it is no name.
pub(crate) fn written(text: &str) -> Option<Qualified> {
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
    system::type_named(name).is_some() && extension::of_type_name(name).is_none()
}

/// Returns the name of a type that the database may have, as [`relation`] does; `None` for the
/// types that every database has.
pub(crate) fn enumeration(ty: &DataType) -> Option<Qualified> {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            relation(name).ok().filter(|name| match name.schema.as_deref() {
                Some(schema) => schema != "pg_catalog",
                None => !is_known_type(&name.name),
            })
        }
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => enumeration(element),
        _ => None,
    }
}

/// The types of the database that a statement may name, by their names in it.
pub(crate) type NamedTypes = Vec<(Qualified, UserType)>;

/// True if a type name means a type of the database, in an expression that its table stores.
pub(crate) fn is_user_type(ty: &DataType, of: UserType) -> bool {
    enumeration(ty).is_some_and(|name| match name.id() {
        Some(id) => id == of.id(),
        None => name.name == of.name(),
    })
}

/// Returns a type of times with some digits of the seconds' fraction: six at most.
fn with_digits(ty: Type, digits: Option<u64>) -> Type {
    let modifier = digits.map_or(-1, |digits| digits.min(6) as i32);
    Type::with_modifier(ty.oid(), modifier).unwrap_or(ty)
}

/// Returns the type of the database that a type name means, if it means one.
pub(crate) fn user_type(ty: &DataType, types: &[(Qualified, UserType)]) -> Option<UserType> {
    let name = match ty {
        DataType::Custom(..) => enumeration(ty)?,
        _ => return None,
    };
    let is_it = |(other, ty): &&(Qualified, UserType)| {
        *other == name || name.id().is_some_and(|id| id == ty.id())
    };
    types.iter().find(is_it).map(|(_, ty)| *ty)
}

/// Returns the type of a type name, and the domain if it means one, whose base type that is.
pub(crate) fn declared_type(
    ty: &DataType,
    types: &[(Qualified, UserType)],
) -> Result<(Type, Option<Domain>), SqlError> {
    match user_type(ty, types) {
        Some(UserType::Domain(domain)) => Ok((domain.base(), Some(domain))),
        _ => Ok((data_type(ty, types)?, None)),
    }
}

/// Returns the type of a type name: one of PostgreSQL's, or one of those that the database has.
/// Fails with 0A000 for a domain: its constraints would not be checked.
pub(crate) fn data_type(ty: &DataType, types: &[(Qualified, UserType)]) -> Result<Type, SqlError> {
    use ast::{CharacterLength, ExactNumberInfo, TimezoneInfo};
    let invalid = |message: &str| SqlError::new(state::INVALID_PARAMETER, message);
    // A bit string of no length is one of one bit.
    let bits = |kind: &str, length: &Option<u64>| match length {
        Some(0) => Err(invalid(&format!("length for type {kind} must be at least 1"))),
        Some(n) if *n > LONGEST_TYPE.into() => {
            Err(invalid(&format!("length for type {kind} cannot exceed {LONGEST_TYPE}")))
        }
        length => Ok(length.map(|n| n as u32)),
    };
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
        | DataType::Float(ExactNumberInfo::None) => Type::Float8,
        DataType::Real | DataType::Float4 => Type::Float4,
        DataType::Float(ExactNumberInfo::Precision(bits)) => match bits {
            0 => return Err(invalid("precision for type float must be at least 1 bit")),
            1..=24 => Type::Float4,
            25..=53 => Type::Float8,
            _ => return Err(invalid("precision for type float must be less than 54 bits")),
        },
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            let (precision, scale) = match info {
                ExactNumberInfo::None => return Ok(Type::Numeric(None)),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            let out_of_bounds = |what: &str, value: &dyn Display, bounds: &str| {
                let message = format!("NUMERIC {what} {value} must be between {bounds}");
                Err(SqlError::new(state::INVALID_PARAMETER, message))
            };
            match (precision, scale) {
                (1..=1000, -1000..=1000) => Type::Numeric(Some((precision as u16, scale as i16))),
                (1..=1000, _) => return out_of_bounds("scale", &scale, "-1000 and 1000"),
                _ => return out_of_bounds("precision", &precision, "1 and 1000"),
            }
        }
        DataType::Text => Type::Text,
        DataType::Varchar(n) | DataType::CharacterVarying(n) | DataType::CharVarying(n) => {
            Type::Varchar(length(n)?)
        }
        DataType::Char(n) | DataType::Character(n) => Type::Char(length(n)?.unwrap_or(1)),
        DataType::Bit(n) => Type::Bit(Some(bits("bit", n)?.unwrap_or(1))),
        DataType::BitVarying(n) | DataType::VarBit(n) => Type::Varbit(bits("varbit", n)?),
        DataType::Bytea => Type::Bytea,
        DataType::Uuid => Type::Uuid,
        DataType::Date => Type::Date,
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            with_digits(Type::Timestamp, *digits)
        }
        DataType::Timestamp(digits, _) | DataType::TimestampNtz(digits) => {
            with_digits(Type::TimestampTz, *digits)
        }
        DataType::Custom(name, _) if function_name(name) == "timestamptz" => Type::TimestampTz,
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            with_digits(Type::Time, *digits)
        }
        DataType::Time(digits, _) => with_digits(Type::TimeTz, *digits),
        DataType::JSON => Type::Json,
        DataType::JSONB => Type::Jsonb,
        DataType::Interval { fields: None, precision: None } => Type::Interval,
        DataType::Interval { fields, precision } => {
            let modifier = Fields::modifier(fields.as_ref(), *precision);
            Type::with_modifier(Type::Interval.oid(), modifier).unwrap_or(Type::Interval)
        }
        DataType::Custom(name, _) if function_name(name) == "bpchar" => Type::Char(0),
        DataType::Custom(name, _) if function_name(name) == "void" => Type::Void,
        DataType::Regclass => Type::Object(Object::Class),
        DataType::Custom(name, _) if Object::named(&function_name(name)).is_some() => {
            Type::Object(Object::named(&function_name(name)).unwrap_or(Object::Class))
        }
        // A length and further dimensions are no part of the type.
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
            if let Some(UserType::Domain(domain)) = user_type(element, types) {
                let what = format!("an array of the domain {}", domain.shown());
                return Err(SqlError::unsupported(what));
            }
            match data_type(element, types)? {
                // Each element would be as long as the type allows when it is shown.
                ty @ Type::Char(2..) => {
                    return Err(SqlError::unsupported(format!("an array of {ty}")));
                }
                ty => ty.array(),
            }
        }
        // By the name of `pg_type`, perhaps with its schema.
        DataType::Custom(name, modifiers)
            if modifiers.is_empty()
                && let Some(known) =
                    system::type_named(&function_name(name)).and_then(Type::from_oid)
                // A type of the database may have the name of one of an extension.
                && (extension::of_type(known).is_none() || user_type(ty, types).is_none()) =>
        {
            known
        }
        DataType::Custom(..) if let Some(found) = user_type(ty, types) => match found {
            UserType::Domain(domain) => {
                return Err(SqlError::unsupported(format!("the domain {} here", domain.shown())));
            }
            found => found.ty(),
        },
        other => {
            let name = enumeration(other).map(|name| name.to_string());
            let name = name.unwrap_or_else(|| other.to_string().to_lowercase());
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message).hint(
                "Types: boolean, smallint, integer, bigint, real, double precision, numeric, text, \
                 varchar, char, bytea, uuid, date, timestamp, timestamptz, time, timetz, interval, \
                 bit, varbit, inet, cidr, json, jsonb, jsonpath.",
            ));
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
