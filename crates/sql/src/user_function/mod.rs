//! Functions of a database, in LANGUAGE sql: queries with parameters, bound where a statement calls
//! them.
//!
//! A function keeps the text of its body. As in PostgreSQL, the text's names are those that the
//! search path of the caller finds, and what it names may be dropped.

mod parse;

pub(crate) use parse::{
    Argument, FunctionChange, FunctionOptions, FunctionStatement, Kind, Language, NewFunction,
    Returns, Signature, cut,
};

use crate::aggregate;
use crate::catalog::{Planned, is_system_schema, schema_codec};
use crate::error::{SqlError, state};
use crate::function::{self, Volatility};
use crate::names::{self, NamedTypes, Qualified};
use crate::parse as statements;
use crate::parse::Parsed;
use crate::system;
use crate::types::Type;
use crate::view;
use crate::window;
use minicbor::{Decode, Encode};
use sqlparser::ast::{DataType, Statement};
use std::sync::{Arc, OnceLock};

/// The descriptor of a function.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct UserFunction {
    #[n(0)]
    pub(crate) id: u32,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) version: u64,
    /// The schema that it is in.
    #[n(3)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// Its parameters, those of its results among them.
    #[n(4)]
    pub(crate) params: Vec<Parameter>,
    /// The name of the type that it returns, or of each row's; `record` if its parameters are the
    /// columns.
    #[n(5)]
    pub(crate) returns: String,
    #[n(6)]
    pub(crate) returns_set: bool,
    #[n(7)]
    pub(crate) body: String,
    #[n(8)]
    volatility: Stability,
    /// True if its value is NULL where an argument is NULL.
    #[n(9)]
    pub(crate) strict: bool,
    #[n(10)]
    pub(crate) promises: Promises,
    #[cbor(skip)]
    parsed: ParsedOnce,
}

/// Clauses of CREATE FUNCTION for a planner or an executor that works otherwise: they are shown,
/// and change nothing here.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(crate) struct Promises {
    #[n(0)]
    pub(crate) leakproof: bool,
    /// The letter of PARALLEL in `pg_proc`; none for UNSAFE.
    #[n(1)]
    pub(crate) parallel: Option<char>,
    #[n(2)]
    pub(crate) cost: Option<f32>,
    #[n(3)]
    pub(crate) rows: Option<f32>,
}

/// A volatility in its stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
enum Stability {
    #[n(0)]
    Volatile,
    #[n(1)]
    Stable,
    #[n(2)]
    Immutable,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Parameter {
    /// Its name; empty without one.
    #[n(0)]
    pub(crate) name: String,
    #[n(1)]
    pub(crate) mode: Mode,
    /// The name of its type: one of the database by its id.
    #[n(2)]
    pub(crate) ty: String,
    /// The expression of its value where a call has none.
    #[n(3)]
    pub(crate) default: Option<String>,
}

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Mode {
    #[n(0)]
    In,
    #[n(1)]
    Out,
    #[n(2)]
    InOut,
    /// A column of RETURNS TABLE.
    #[n(3)]
    Table,
}

impl Mode {
    /// True if a call gives its value.
    pub(crate) fn is_input(self) -> bool {
        matches!(self, Mode::In | Mode::InOut)
    }

    /// True if the result has its value.
    pub(crate) fn is_output(self) -> bool {
        self != Mode::In
    }

    /// Returns the letter of `pg_proc`.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Mode::In => "i",
            Mode::Out => "o",
            Mode::InOut => "b",
            Mode::Table => "t",
        }
    }
}

/// The parsed body, once it is asked for.
#[derive(Clone, Debug, Default)]
struct ParsedOnce(OnceLock<Arc<Parsed>>);

impl PartialEq for ParsedOnce {
    /// It follows from the text.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The properties of a function besides its names and its parameters.
pub(crate) struct Properties {
    pub(crate) returns: String,
    pub(crate) returns_set: bool,
    pub(crate) body: String,
    pub(crate) volatility: Volatility,
    pub(crate) strict: bool,
    pub(crate) promises: Promises,
}

impl UserFunction {
    pub(crate) fn new(
        (id, version): (u32, u64),
        (schema, name): (u32, String),
        params: Vec<Parameter>,
        properties: Properties,
    ) -> UserFunction {
        let Properties { returns, returns_set, body, volatility, strict, promises } = properties;
        let volatility = match volatility {
            Volatility::Volatile => Stability::Volatile,
            Volatility::Stable => Stability::Stable,
            Volatility::Immutable => Stability::Immutable,
        };
        let parsed = ParsedOnce::default();
        UserFunction {
            id,
            name,
            version,
            schema,
            params,
            returns,
            returns_set,
            body,
            volatility,
            strict,
            promises,
            parsed,
        }
    }

    pub(crate) fn planned(&self) -> Planned {
        Planned { id: self.id, version: self.version, statistics: 0 }
    }

    pub(crate) fn volatility(&self) -> Volatility {
        match self.volatility {
            Stability::Volatile => Volatility::Volatile,
            Stability::Stable => Volatility::Stable,
            Stability::Immutable => Volatility::Immutable,
        }
    }

    /// Returns the parameters whose values a call gives.
    pub(crate) fn inputs(&self) -> impl DoubleEndedIterator<Item = &Parameter> + Clone {
        self.params.iter().filter(|param| param.mode.is_input())
    }

    /// Returns the parameters whose values the result has.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Parameter> + Clone {
        self.params.iter().filter(|param| param.mode.is_output())
    }

    /// True if a call may have this number of arguments.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let required = self.inputs().filter(|param| param.default.is_none()).count();
        (required..=self.inputs().count()).contains(&count)
    }

    /// Returns what tells it from other functions of its name: the types of its inputs.
    pub(crate) fn signature(&self) -> String {
        signature_of(self.inputs().map(|param| param.ty.as_str()))
    }

    /// Returns the names of types of the database that its descriptor has.
    pub(crate) fn types(&self) -> impl Iterator<Item = Qualified> {
        let all = self.params.iter().map(|param| &param.ty).chain([&self.returns]);
        let of_params = all.filter_map(|ty| names::enumeration(&statements::data_type(ty)?));
        let defaults = self.params.iter().filter_map(|param| param.default.as_deref());
        let of_defaults = defaults.flat_map(|text| {
            let parsed = statements::expression(text);
            parsed.map_or_else(
                |_| Vec::new(),
                |expr| crate::type_names::in_expressions(&expr).into_iter().collect(),
            )
        });
        of_params.chain(of_defaults)
    }

    /// Returns its body, which is one query. Fails with 0A000 for another one.
    pub(crate) fn parsed(&self) -> Result<Arc<Parsed>, SqlError> {
        if let Some(parsed) = self.parsed.0.get() {
            return Ok(parsed.clone());
        }
        let parsed = parse_body(&self.body)?;
        Ok(self.parsed.0.get_or_init(|| Arc::new(parsed)).clone())
    }
}

/// The functions that a statement may call, by their names in it, those of the first schema of the
/// path first.
pub(crate) type NamedFunctions = Vec<(Qualified, Arc<UserFunction>)>;

/// Returns what tells a function from others of its name, by the names of its inputs' types.
pub(crate) fn signature_of<'a>(types: impl Iterator<Item = &'a str>) -> String {
    types.collect::<Vec<_>>().join(",")
}

/// Returns the type of a stored name of a type.
pub(crate) fn type_of(name: &str, types: &NamedTypes) -> Result<Typed, SqlError> {
    let corrupted = || SqlError::corrupted(format!("the type {name} of a function"));
    let parsed = statements::data_type(name).ok_or_else(corrupted)?;
    let (ty, domain) = names::declared_type(&parsed, types)?;
    Ok(Typed { ty, domain })
}

/// The type of a parameter or a result; the base type if it is a domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Typed {
    pub(crate) ty: Type,
    pub(crate) domain: Option<crate::domain::Domain>,
}

impl Typed {
    /// Returns the name of the type.
    pub(crate) fn name(self) -> &'static str {
        self.domain.map_or_else(|| self.ty.name(), |domain| domain.shown())
    }

    /// Returns the id of the type.
    pub(crate) fn oid(self) -> u32 {
        self.domain.map_or_else(|| self.ty.oid(), |domain| domain.id())
    }
}

/// Returns the name of a type as descriptors have it: a type of the database by its id.
pub(crate) fn stored_type(of: Typed) -> Option<String> {
    let named = match of.domain {
        Some(domain) => {
            let name = sqlparser::ast::ObjectName::from(vec![names::reference(domain.id())]);
            DataType::Custom(name, Vec::new())
        }
        None => statements::name_of_type(of.ty)?,
    };
    Some(named.to_string())
}

/// Parses a body. Fails with 0A000 if it is not one query.
fn parse_body(text: &str) -> Result<Parsed, SqlError> {
    let mut all = statements::statements(text)?;
    if all.len() > 1 {
        return Err(SqlError::unsupported("a function of several statements"));
    }
    let Some(one) = all.pop() else {
        return Err(SqlError::unsupported("a function without a statement"));
    };
    if one.as_of.is_some() {
        return Err(SqlError::unsupported("AS OF SYSTEM TIME in a function"));
    }
    match &one.statement {
        Statement::Query(query) if query.with.as_ref().is_some_and(crate::parts::is_modifying) => {
            Err(SqlError::unsupported("WITH that changes rows in a function"))
        }
        Statement::Query(_) if one.copy_to.is_none() && one.sequence.is_none() => Ok(one),
        other => {
            let words = other.to_string();
            let word = words.split_whitespace().next().unwrap_or_default().to_uppercase();
            Err(SqlError::unsupported(format!("{word} in a function")))
        }
    }
}

/// Returns the query of a parsed body.
pub(crate) fn query_of(parsed: &Parsed) -> Result<&sqlparser::ast::Query, SqlError> {
    view::query_of(parsed).ok_or_else(|| SqlError::new(state::SYNTAX, "a function needs a query"))
}

/// Functions that are expressions of their own, and names that the parser gives to others.
const SPECIAL: [&str; 8] = [
    "array",
    "coalesce",
    "grouping",
    "make_interval",
    "pg_typeof",
    "row",
    "enum_first",
    "enum_last",
];

/// True if every database has a function of a name.
pub(crate) fn is_known(name: &str) -> bool {
    SPECIAL.contains(&name)
        || !function::named(name).is_empty()
        || !aggregate::named(name).is_empty()
        || window::exists(name)
}

/// True if the functions of a schema are those of users.
pub(crate) fn is_schema_of_users(schema: &str) -> bool {
    !is_system_schema(schema) && schema != "meridian"
}

/// True if a name in a call may be that of a function of the database.
pub(crate) fn may_be(name: &Qualified) -> bool {
    match name.schema.as_deref() {
        Some(schema) => is_schema_of_users(schema) && name.extension().is_none(),
        None => name.id().is_some() || !is_known(&name.name),
    }
}

/// Fails if a function in a schema cannot get this name.
pub(crate) fn check_name(name: &str) -> Result<(), SqlError> {
    match is_known(name) || system::is_key_word(name) {
        true => {
            let what = format!("a function with the name of one of PostgreSQL's, \"{name}\",");
            Err(SqlError::unsupported(what))
        }
        false => Ok(()),
    }
}
