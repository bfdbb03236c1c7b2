//! The functions of the database: their rows in the catalogs, and the functions of PostgreSQL that
//! describe them. Those that every database has are in `functions`.

use super::definitions::is_literal;
use super::describe::quoted;
use super::{Catalog, OWNER, PG_CATALOG, Rows, SystemContext, Value, Writer, type_name};
use crate::catalog::UserType;
use crate::composite::Composite;
use crate::function::Volatility;
use crate::names::{self, NamedTypes, Qualified};
use crate::parse;
use crate::user_function::{self, Mode, Parameter, Typed, UserFunction};
use std::sync::Arc;

/// The id of the language `sql`.
const SQL: u32 = 14;
/// PostgreSQL's `pg_language`: id and name.
const LANGUAGES: [(u32, &str); 3] = [(12, "internal"), (13, "c"), (SQL, "sql")];
/// The estimates of a function that has none of its own.
const COST: f32 = 100.0;
const ROWS: f32 = 1000.0;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_language" => languages,
        "routines" => routines,
        "parameters" => parameters,
        _ => return None,
    })
}

fn languages(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name) in LANGUAGES {
        out.row(&[
            ("oid", oid.into()),
            ("lanname", name.into()),
            ("lanowner", OWNER.into()),
            ("lanpltrusted", (oid == SQL).into()),
        ]);
    }
}

/// Returns the letter of a volatility in `pg_proc`.
fn letter(volatility: Volatility) -> &'static str {
    match volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    }
}

/// Returns a list of texts as an array is written.
fn list<T: AsRef<str>>(items: impl Iterator<Item = T>) -> String {
    let quoted = items
        .map(|item| format!("\"{}\"", item.as_ref().replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

/// Writes the rows of `pg_proc`.
pub(super) fn procedures(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let types = context.catalog.function_types();
    for function in &context.catalog.functions {
        let oid_of = |param: &Parameter| {
            user_function::type_of(&param.ty, &types).map_or(0, Typed::oid).to_string()
        };
        let returns = user_function::type_of(&function.returns, &types).map_or(0, Typed::oid);
        let inputs: Vec<_> = function.inputs().map(oid_of).collect();
        let defaults = function.inputs().filter_map(|param| context.catalog.shown_default(param));
        let defaults: Vec<_> = defaults.collect();
        let promises = &function.promises;
        let rows = if function.returns_set { ROWS } else { 0.0 };
        let has_outputs = function.outputs().next().is_some();
        let has_names = function.params.iter().any(|param| !param.name.is_empty());
        let all = || function.params.iter();
        let parallel = promises.parallel.unwrap_or('u').to_string();
        out.row(&[
            ("oid", function.id.into()),
            ("proname", function.name.as_str().into()),
            ("pronamespace", function.schema.into()),
            ("proowner", OWNER.into()),
            ("prolang", SQL.into()),
            ("procost", number(promises.cost.unwrap_or(COST)).into()),
            ("prorows", number(promises.rows.unwrap_or(rows)).into()),
            ("prokind", "f".into()),
            ("proleakproof", promises.leakproof.into()),
            ("proisstrict", function.strict.into()),
            ("proretset", function.returns_set.into()),
            ("provolatile", letter(function.volatility()).into()),
            ("proparallel", parallel.into()),
            ("pronargs", (inputs.len() as i32).into()),
            ("pronargdefaults", (defaults.len() as i32).into()),
            ("prorettype", returns.into()),
            ("proargtypes", inputs.join(" ").into()),
            ("proallargtypes", has_outputs.then(|| list(all().map(oid_of))).into()),
            ("proargmodes", has_outputs.then(|| list(all().map(|it| it.mode.letter()))).into()),
            ("proargnames", has_names.then(|| list(all().map(|it| &it.name))).into()),
            ("proargdefaults", (!defaults.is_empty()).then(|| defaults.join(", ")).into()),
            ("prosrc", function.body.as_str().into()),
        ]);
    }
}

/// Returns a number as a text of a float.
fn number(value: f32) -> String {
    value.to_string()
}

/// Returns the name by which `information_schema` tells a function from others.
fn specific(function: &UserFunction) -> String {
    format!("{}_{}", function.name, function.id)
}

/// Returns the columns about a type: its name in SQL, and its schema and name in `pg_type`.
fn about<'a>(context: &'a SystemContext<'_>, of: Typed) -> [Value<'a>; 3] {
    let user = of.domain.map(UserType::Domain).or(of.ty.user_type());
    let data_type = match (of.ty, user) {
        (ty, _) if of.domain.is_none() && ty.element().is_some() => "ARRAY",
        (_, Some(_)) => "USER-DEFINED",
        (ty, None) => ty.name(),
    };
    let schema = user.map_or(PG_CATALOG, UserType::schema);
    let name =
        of.domain.map_or_else(|| type_name(of.ty), |domain| domain.descriptor().name.clone());
    [data_type.into(), context.catalog.schema_name(schema).into(), name.into()]
}

fn routines(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    let types = context.catalog.function_types();
    for function in &context.catalog.functions {
        let Ok(returns) = user_function::type_of(&function.returns, &types) else { continue };
        let schema = || context.catalog.schema_name(function.schema).into();
        let [data_type, type_schema, type_name] = about(context, returns);
        out.row(&[
            ("specific_catalog", database.into()),
            ("specific_schema", schema()),
            ("specific_name", specific(function).into()),
            ("routine_catalog", database.into()),
            ("routine_schema", schema()),
            ("routine_name", function.name.as_str().into()),
            ("routine_type", "FUNCTION".into()),
            ("data_type", data_type),
            ("type_udt_catalog", database.into()),
            ("type_udt_schema", type_schema),
            ("type_udt_name", type_name),
            ("dtd_identifier", "0".into()),
            ("routine_body", "SQL".into()),
            ("routine_definition", function.body.as_str().into()),
            ("external_language", "SQL".into()),
            ("parameter_style", "GENERAL".into()),
            ("is_deterministic", (function.volatility() == Volatility::Immutable).into()),
            ("sql_data_access", "MODIFIES".into()),
            ("is_null_call", function.strict.into()),
            ("schema_level_routine", true.into()),
            ("max_dynamic_result_sets", 0.into()),
            ("security_type", "INVOKER".into()),
            ("as_locator", false.into()),
            ("is_udt_dependent", false.into()),
        ]);
    }
}

fn parameters(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    let types = context.catalog.function_types();
    for function in &context.catalog.functions {
        for (at, param) in function.params.iter().enumerate() {
            let Ok(of) = user_function::type_of(&param.ty, &types) else { continue };
            let [data_type, type_schema, type_name] = about(context, of);
            let mode = match param.mode {
                Mode::In => "IN",
                Mode::InOut => "INOUT",
                Mode::Out | Mode::Table => "OUT",
            };
            let name = Some(param.name.as_str()).filter(|name| !name.is_empty());
            let default = context.catalog.shown_default(param);
            out.row(&[
                ("specific_catalog", database.into()),
                ("specific_schema", context.catalog.schema_name(function.schema).into()),
                ("specific_name", specific(function).into()),
                ("ordinal_position", (at as i32 + 1).into()),
                ("parameter_mode", mode.into()),
                ("is_result", false.into()),
                ("as_locator", false.into()),
                ("parameter_name", name.into()),
                ("data_type", data_type),
                ("udt_catalog", database.into()),
                ("udt_schema", type_schema),
                ("udt_name", type_name),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("parameter_default", default.into()),
            ]);
        }
    }
}

impl Catalog {
    /// Returns the types that functions may have, which they name by ids.
    fn function_types(&self) -> NamedTypes {
        let own = self.types.iter().copied();
        let rows = self.tables.iter().map(|table| UserType::Composite(Composite::of_table(table)));
        let named = |ty: UserType| (Qualified::of(&names::reference(ty.id()).value), ty);
        own.chain(rows).map(named).collect()
    }

    fn function(&self, id: i64) -> Option<&Arc<UserFunction>> {
        self.functions.iter().find(|function| i64::from(function.id) == id)
    }

    fn shown_type_of(&self, stored: &str) -> String {
        let of = user_function::type_of(stored, &self.function_types());
        of.map_or_else(|_| "???".to_owned(), |of| self.format_type(of.oid().into(), None))
    }

    /// Implements `pg_get_function_arguments`, and without defaults
    /// `pg_get_function_identity_arguments`.
    pub(crate) fn function_arguments(&self, id: i64, with_defaults: bool) -> Option<String> {
        let function = self.function(id)?;
        let params = function.params.iter().filter(|param| param.mode != Mode::Table);
        let shown = params.map(|param| {
            let mode = match param.mode {
                Mode::Out => "OUT ",
                Mode::InOut => "INOUT ",
                Mode::In | Mode::Table => "",
            };
            let mut shown = format!("{mode}{}", self.named_type(param));
            if let Some(default) = self.shown_default(param).filter(|_| with_defaults) {
                shown += &format!(" DEFAULT {default}");
            }
            shown
        });
        Some(shown.collect::<Vec<_>>().join(", "))
    }

    /// Returns the default of a parameter as PostgreSQL shows it: a string has its type appended.
    fn shown_default(&self, param: &Parameter) -> Option<String> {
        let default = param.default.as_deref()?;
        let shown = self.shown_text(default);
        Some(match is_literal(default) {
            true => format!("{shown}::{}", self.shown_type_of(&param.ty)),
            false => shown,
        })
    }

    fn named_type(&self, param: &Parameter) -> String {
        let ty = self.shown_type_of(&param.ty);
        match &*param.name {
            "" => ty,
            name => format!("{} {ty}", quoted(name)),
        }
    }

    /// Implements `pg_get_function_result`.
    pub(crate) fn function_result(&self, id: i64) -> Option<String> {
        let function = self.function(id)?;
        let mut columns = function.params.iter().filter(|param| param.mode == Mode::Table);
        if columns.clone().next().is_some() {
            let columns: Vec<_> = columns.by_ref().map(|param| self.named_type(param)).collect();
            return Some(format!("TABLE({})", columns.join(", ")));
        }
        let set = if function.returns_set { "SETOF " } else { "" };
        Some(format!("{set}{}", self.shown_type_of(&function.returns)))
    }

    /// Implements `pg_get_functiondef`.
    pub(crate) fn function_definition(&self, id: i64) -> Option<String> {
        let function = self.function(id)?;
        let (schema, name) = (quoted(self.schema_name(function.schema)), quoted(&function.name));
        let (args, result) = (self.function_arguments(id, true)?, self.function_result(id)?);
        let mut options = match function.volatility() {
            Volatility::Immutable => " IMMUTABLE".to_owned(),
            Volatility::Stable => " STABLE".to_owned(),
            Volatility::Volatile => String::new(),
        };
        let promises = &function.promises;
        options += match promises.parallel {
            Some('s') => " PARALLEL SAFE",
            Some(_) => " PARALLEL RESTRICTED",
            None => "",
        };
        options += if function.strict { " STRICT" } else { "" };
        options += if promises.leakproof { " LEAKPROOF" } else { "" };
        if let Some(cost) = promises.cost.filter(|cost| *cost != COST) {
            options += &format!(" COST {cost}");
        }
        if let Some(rows) = promises.rows.filter(|rows| *rows != ROWS) {
            options += &format!(" ROWS {rows}");
        }
        let options = if options.is_empty() { options } else { format!("\n{options}") };
        let mut quote = "$function".to_owned();
        while function.body.contains(&*quote) {
            quote.push('x');
        }
        let body = &function.body;
        Some(format!(
            "CREATE OR REPLACE FUNCTION {schema}.{name}({args})\n RETURNS {result}\n LANGUAGE sql\
             {options}\nAS {quote}${body}{quote}$\n"
        ))
    }

    /// Iterates over the functions that a name, as SQL writes it, finds: those of the first schema
    /// of the path first.
    fn functions_named(&self, name: &Qualified) -> Vec<&Arc<UserFunction>> {
        let place = |function: &UserFunction| match &name.schema {
            Some(schema) => (self.schema_name(function.schema) == schema).then_some(0),
            None => self.path.iter().position(|schema| *schema == function.schema),
        };
        let named = self.functions.iter().filter(|function| function.name == name.name);
        let mut found: Vec<_> = named.filter_map(|it| Some((place(it)?, it))).collect();
        found.sort_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, function)| function).collect()
    }

    /// Returns the ids of the functions of a name.
    pub(crate) fn function_ids(&self, written: &str) -> Vec<u32> {
        let name = names::written(written);
        let found = name.map_or_else(Vec::new, |name| self.functions_named(&name));
        found.into_iter().map(|function| function.id).collect()
    }

    /// True if a function is found by its name and its arguments alone.
    pub(crate) fn function_is_visible(&self, id: i64) -> bool {
        self.function(id).is_none_or(|function| {
            let named = self.functions_named(&Qualified::of(&function.name));
            let mut like_it = named.into_iter().filter(|it| it.signature() == function.signature());
            like_it.next().is_some_and(|first| first.id == function.id)
        })
    }

    /// Returns the name of a function as SQL writes it.
    pub(crate) fn function_name(&self, id: i64) -> Option<String> {
        let function = self.function(id)?;
        Some(match self.function_is_visible(id) {
            true => quoted(&function.name),
            false => {
                let schema = quoted(self.schema_name(function.schema));
                format!("{schema}.{}", quoted(&function.name))
            }
        })
    }

    /// Returns the name of a function with the types of its inputs.
    pub(crate) fn function_signature(&self, id: i64) -> Option<String> {
        let inputs = self.function(id)?.inputs().map(|param| self.shown_type_of(&param.ty));
        Some(format!("{}({})", self.function_name(id)?, inputs.collect::<Vec<_>>().join(",")))
    }

    /// Returns the id of the function of a signature as SQL writes it, `name(type, …)`; `None` if
    /// the text is none.
    pub(crate) fn function_of_signature(&self, written: &str) -> Option<Option<u32>> {
        let (name, types) = written.trim().strip_suffix(')')?.split_once('(')?;
        let name = names::written(name.trim())?;
        let types = types.split(',').map(str::trim).filter(|ty| !ty.is_empty());
        let oids: Vec<Option<u32>> = types.map(|ty| self.type_id(ty)).collect();
        let known = self.function_types();
        let has_types = |function: &&Arc<UserFunction>| {
            let own = function.inputs().map(|it| user_function::type_of(&it.ty, &known));
            own.map(|of| of.ok().map(Typed::oid)).eq(oids.iter().copied())
        };
        Some(self.functions_named(&name).into_iter().find(has_types).map(|it| it.id))
    }

    /// Returns the columns of a function's rows, for tools that list the types that it needs.
    pub(super) fn types_of_function(&self, function: &UserFunction) -> Vec<u32> {
        let types = self.function_types();
        let all = function.params.iter().map(|param| &param.ty).chain([&function.returns]);
        let mut ids: Vec<u32> = all
            .filter_map(|ty| parse::data_type(ty).and_then(|ty| names::enumeration(&ty)))
            .filter_map(|name| types.iter().find(|(other, _)| *other == name))
            .map(|(_, ty)| ty.id())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
