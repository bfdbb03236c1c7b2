//! Functions that read the catalog, or describe what it has: those that clients call to list
//! tables, and the names of objects by their ids.

use super::of::*;
use super::{Function, Kernel, Out, Param, text_at, whole_at, wrong_type};
use crate::array::Array;
use crate::collation::of_languages;
use crate::consistency::{CAUSAL_TOKEN, token_to_text};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::system::{self, Catalog};
use crate::temporary;
use crate::types::{Object, Type};
use std::sync::Arc;

const ANY: Param = Param::Any;
const REGTYPE: Param = Param::Of(Type::Object(Object::Type));
/// `pg_typeof`: the binder adds the type, as a second argument.
pub(crate) const PG_TYPEOF: &str = "pg_typeof of";
const NAMES: Out = Out::Of(Type::Name.array());

const fn object(kind: Object, param: &'static [Param]) -> Function {
    let kernel = match kind {
        Object::Class => class,
        Object::Type => type_,
        Object::Namespace => namespace,
        Object::Role => role,
        Object::Procedure => procedure,
        Object::Collation => collation,
        Object::Signature => signature,
        Object::Operator | Object::OperatorSignature => operator,
    };
    reads(kind.name(), param, Out::Of(Type::Object(kind)), kernel)
}

type Reads = fn(&[Datum], &Scope<'_>, &Catalog) -> Result<Datum, SqlError>;

/// A function that reads the catalog.
const fn reads(
    name: &'static str,
    params: &'static [Param],
    result: Out,
    kernel: Reads,
) -> Function {
    let function = Function::new(name, params, result, super::no_value).stable();
    Function { kernel: Kernel::Catalog(kernel), ..function }
}

/// A function of objects that do not exist here.
const fn nothing(name: &'static str, result: Out) -> Function {
    Function::new(name, &[ANY], result, |_, _| Ok(Datum::Null)).variadic().stable()
}

/// A test that is true for all that a session can see, since there is one role.
const fn always(name: &'static str) -> Function {
    Function::new(name, &[ANY], A_BOOL, |_, _| Ok(Datum::Bool(true))).variadic().stable()
}

const fn never(name: &'static str) -> Function {
    Function::new(name, &[ANY], A_BOOL, |_, _| Ok(Datum::Bool(false))).variadic().stable()
}

/// A size or a number that is not measured.
const fn zero(name: &'static str) -> Function {
    Function::new(name, &[ANY], AN_INT8, |_, _| Ok(Datum::Int8(0))).variadic().stable()
}

pub(super) const FUNCTIONS: &[Function] = &[
    object(Object::Class, &[TEXT]),
    object(Object::Class, &[OID]),
    object(Object::Type, &[TEXT]),
    object(Object::Type, &[OID]),
    object(Object::Namespace, &[TEXT]),
    object(Object::Namespace, &[OID]),
    object(Object::Role, &[TEXT]),
    object(Object::Role, &[OID]),
    object(Object::Procedure, &[TEXT]),
    object(Object::Procedure, &[OID]),
    object(Object::Collation, &[TEXT]),
    object(Object::Collation, &[OID]),
    object(Object::Signature, &[TEXT]),
    object(Object::Signature, &[OID]),
    object(Object::Operator, &[TEXT]),
    object(Object::Operator, &[OID]),
    object(Object::OperatorSignature, &[TEXT]),
    object(Object::OperatorSignature, &[OID]),
    reads("to_regclass", &[TEXT], Out::Of(Type::Object(Object::Class)), to_class),
    reads("to_regtype", &[TEXT], Out::Of(Type::Object(Object::Type)), to_type),
    Function::new(PG_TYPEOF, &[ANY, REGTYPE], Out::Of(Type::Object(Object::Type)), |args, _| {
        Ok(args[1].clone())
    })
    .lenient()
    .stable(),
    reads("pg_get_constraintdef", &[OID], A_TEXT, constraint_definition),
    reads("pg_get_constraintdef", &[OID, BOOL], A_TEXT, constraint_definition),
    reads("pg_get_indexdef", &[OID], A_TEXT, index_definition),
    reads("pg_get_indexdef", &[OID, INT4, BOOL], A_TEXT, index_definition),
    reads("pg_get_serial_sequence", &[TEXT, TEXT], A_TEXT, serial_sequence),
    reads("pg_get_viewdef", &[OID], A_TEXT, view_definition),
    reads("pg_get_viewdef", &[OID, BOOL], A_TEXT, view_definition),
    reads("pg_get_viewdef", &[OID, INT4], A_TEXT, view_definition),
    reads("pg_get_viewdef", &[TEXT], A_TEXT, view_definition_of),
    reads("pg_get_viewdef", &[TEXT, BOOL], A_TEXT, view_definition_of),
    reads("col_description", &[OID, INT4], A_TEXT, column_comment),
    reads("obj_description", &[OID], A_TEXT, comment),
    reads("obj_description", &[OID, TEXT], A_TEXT, comment),
    reads("pg_table_is_visible", &[OID], A_BOOL, is_visible),
    reads("pg_type_is_visible", &[OID], A_BOOL, type_is_visible),
    reads("current_schema", &[], A_NAME, current_schema),
    reads("current_schemas", &[BOOL], NAMES, current_schemas),
    Function::new("current_setting", &[TEXT], A_TEXT, current_setting).stable(),
    Function::new("current_setting", &[TEXT, BOOL], A_TEXT, current_setting).stable(),
    reads("format_type", &[OID, INT4], A_TEXT, format_type).lenient(),
    Function::new("pg_blocking_pids", &[INT4], OF_INT4, blocking_pids).volatile(),
    Function::new("pg_encoding_to_char", &[INT4], A_NAME, encoding).stable(),
    Function::new("pg_char_to_encoding", &[TEXT], AN_INT4, encoding_id).stable(),
    Function::new("getdatabaseencoding", &[], A_NAME, |_, _| Ok(Datum::text("UTF8"))).stable(),
    Function::new("pg_client_encoding", &[], A_NAME, |_, _| Ok(Datum::text("UTF8"))).stable(),
    Function::new("pg_get_expr", &[TEXT, OID], A_TEXT, expression).stable(),
    reads("pg_get_expr", &[TEXT, OID, BOOL], A_TEXT, pretty_expression),
    Function::new("pg_get_userbyid", &[OID], A_NAME, user_by_id).stable(),
    Function::new("pg_is_in_recovery", &[], A_BOOL, |_, _| Ok(Datum::Bool(false))).stable(),
    reads("pg_my_temp_schema", &[], AN_OID, temporary_schema),
    Function::new("txid_current", &[], AN_INT8, |_, _| Ok(Datum::Int8(0))).stable(),
    Function::new("pg_size_pretty", &[INT8], A_TEXT, size_pretty),
    Function::new("inet_server_addr", &[], A_TEXT, |_, _| Ok(Datum::Null)).stable(),
    Function::new("inet_server_port", &[], AN_INT4, |_, _| Ok(Datum::Null)).stable(),
    zero("pg_relation_size"),
    zero("pg_table_size"),
    zero("pg_total_relation_size"),
    zero("pg_indexes_size"),
    zero("pg_database_size"),
    zero("pg_tablespace_size"),
    zero("pg_stat_get_numscans"),
    zero("pg_stat_get_tuples_returned"),
    zero("pg_stat_get_tuples_fetched"),
    zero("pg_stat_get_tuples_inserted"),
    zero("pg_stat_get_tuples_updated"),
    zero("pg_stat_get_tuples_deleted"),
    zero("pg_stat_get_live_tuples"),
    zero("pg_stat_get_dead_tuples"),
    zero("pg_stat_get_blocks_fetched"),
    zero("pg_stat_get_blocks_hit"),
    never("pg_is_other_temp_schema"),
    never("pg_relation_is_publishable"),
    nothing("acldefault", A_TEXT),
    reads("shobj_description", &[OID, TEXT], A_TEXT, shared_comment),
    reads("pg_get_function_arguments", &[OID], A_TEXT, function_arguments),
    reads("pg_get_function_identity_arguments", &[OID], A_TEXT, identity_arguments),
    reads("pg_get_function_result", &[OID], A_TEXT, function_result),
    reads("pg_get_functiondef", &[OID], A_TEXT, function_definition),
    nothing("pg_get_partkeydef", A_TEXT),
    nothing("pg_get_function_sqlbody", A_TEXT),
    nothing("pg_get_ruledef", A_TEXT),
    nothing("pg_get_statisticsobjdef_columns", A_TEXT),
    nothing("pg_get_triggerdef", A_TEXT),
    nothing("pg_tablespace_location", A_TEXT),
    always("has_any_column_privilege"),
    always("has_column_privilege"),
    always("has_database_privilege"),
    always("has_function_privilege"),
    always("has_schema_privilege"),
    always("has_sequence_privilege"),
    always("has_table_privilege"),
    always("has_tablespace_privilege"),
    always("has_type_privilege"),
    always("pg_has_role"),
    always("pg_collation_is_visible"),
    always("pg_conversion_is_visible"),
    reads("pg_function_is_visible", &[OID], A_BOOL, function_is_visible),
    always("pg_opclass_is_visible"),
    always("pg_operator_is_visible"),
    always("pg_opfamily_is_visible"),
    always("pg_statistics_obj_is_visible"),
    always("pg_ts_config_is_visible"),
    always("pg_ts_dict_is_visible"),
    always("pg_ts_parser_is_visible"),
    always("pg_ts_template_is_visible"),
];

const OF_INT4: Out = Out::Of(Type::Int4.array());

fn missing(what: &str, name: &str, sqlstate: &'static str) -> SqlError {
    SqlError::new(sqlstate, format!("{what} \"{name}\" does not exist"))
}

/// Returns an object: by its id, or by its name, which may be an id in digits.
fn found(
    args: &[Datum],
    by_name: impl FnOnce(&str) -> Result<u32, SqlError>,
    name_of: impl FnOnce(u32) -> Option<String>,
) -> Result<Datum, SqlError> {
    let oid = match args.first() {
        Some(Datum::Text(name)) if name.trim() == "-" => 0,
        Some(Datum::Text(name)) => match name.trim().parse() {
            Ok(oid) => oid,
            Err(_) => by_name(name)?,
        },
        Some(Datum::Oid(oid)) => *oid,
        _ => return Err(wrong_type()),
    };
    let unknown = || if oid == 0 { "-".to_owned() } else { oid.to_string() };
    Ok(Datum::Object(oid, name_of(oid).unwrap_or_else(unknown).into()))
}

fn class(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| {
        let missing = || missing("relation", name.trim(), state::UNDEFINED_TABLE);
        catalog.relation_id(name).ok_or_else(missing)
    };
    found(args, by_name, |oid| catalog.relation_name(oid.into()))
}

fn to_class(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let oid = catalog.relation_id(text_at(args, 0)?);
    let name = oid.and_then(|oid| catalog.relation_name(oid.into()));
    Ok(match (oid, name) {
        (Some(oid), Some(name)) => Datum::Object(oid, name.into()),
        _ => Datum::Null,
    })
}

fn type_(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| {
        let missing = || missing("type", name.trim(), state::UNDEFINED_OBJECT);
        catalog.type_id(name.trim()).ok_or_else(missing)
    };
    let name_of = |oid: u32| Some(catalog.format_type(oid.into(), None));
    found(args, by_name, |oid| name_of(oid).filter(|name| oid != 0 && name != "???"))
}

fn to_type(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let oid = catalog.type_id(text_at(args, 0)?.trim());
    Ok(oid.map_or(Datum::Null, |oid| {
        Datum::Object(oid, catalog.format_type(oid.into(), None).into())
    }))
}

fn namespace(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| {
        let found = catalog.all_schemas().find(|(_, other)| system::quoted(other) == name.trim());
        let found = found.map(|(oid, _)| oid);
        found.ok_or_else(|| missing("schema", name.trim(), state::NO_SCHEMA))
    };
    let name_of = |oid: u32| catalog.all_schemas().find(|(other, _)| *other == oid);
    found(args, by_name, |oid| name_of(oid).map(|(_, name)| system::quoted(name)))
}

fn role(args: &[Datum], scope: &Scope<'_>, _: &Catalog) -> Result<Datum, SqlError> {
    let user = &scope.session.user;
    let mut all = vec![(system::OWNER, user.as_str())];
    all.extend(system::ROLES);
    let by_name = |name: &str| {
        let found = all.iter().find(|(_, role)| *role == name.trim());
        let missing = || missing("role", name.trim(), state::UNDEFINED_OBJECT);
        found.map(|(oid, _)| *oid as u32).ok_or_else(missing)
    };
    let name_of = |oid: u32| all.iter().find(|(other, _)| *other as u32 == oid);
    found(args, by_name, |oid| name_of(oid).map(|(_, role)| (*role).to_owned()))
}

fn procedure(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| match *catalog.function_ids(name.trim()) {
        [] => system::procedure_named(name.trim()),
        [one] => Ok(one),
        _ => {
            let message = format!("more than one function named \"{}\"", name.trim());
            Err(SqlError::new(state::AMBIGUOUS_FUNCTION, message))
        }
    };
    found(args, by_name, |oid| {
        catalog.function_name(oid.into()).or_else(|| system::procedure_name(oid))
    })
}

fn function_arguments(args: &[Datum], _: &Scope<'_>, all: &Catalog) -> Result<Datum, SqlError> {
    arguments(whole_at(args, 0)?, all, true)
}

fn identity_arguments(args: &[Datum], _: &Scope<'_>, all: &Catalog) -> Result<Datum, SqlError> {
    arguments(whole_at(args, 0)?, all, false)
}

fn arguments(id: i64, all: &Catalog, with_defaults: bool) -> Result<Datum, SqlError> {
    let of_all = || u32::try_from(id).ok().and_then(system::arguments_of);
    some(all.function_arguments(id, with_defaults).or_else(of_all))
}

fn function_result(args: &[Datum], _: &Scope<'_>, all: &Catalog) -> Result<Datum, SqlError> {
    let id = whole_at(args, 0)?;
    let of_all = || u32::try_from(id).ok().and_then(system::result_of);
    some(all.function_result(id).or_else(of_all))
}

fn function_definition(args: &[Datum], _: &Scope<'_>, all: &Catalog) -> Result<Datum, SqlError> {
    some(all.function_definition(whole_at(args, 0)?))
}

fn function_is_visible(args: &[Datum], _: &Scope<'_>, all: &Catalog) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(all.function_is_visible(whole_at(args, 0)?)))
}

fn collation(args: &[Datum], _: &Scope<'_>, _: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| {
        let name = name.trim();
        let is_its = |other: &str| system::quoted(other) == name || name.to_lowercase() == other;
        let found = system::COLLATIONS.iter().find(|(_, other)| is_its(other));
        let of_bytes = found.map(|(oid, _)| *oid);
        let of_language = || {
            let found = of_languages().find(|(_, other, _)| system::quoted(other) == name);
            found.map(|(oid, ..)| oid)
        };
        of_bytes.or_else(of_language).ok_or_else(|| {
            let message = format!("collation {name} for encoding \"UTF8\" does not exist");
            SqlError::new(state::UNDEFINED_OBJECT, message)
        })
    };
    let name_of = |oid: u32| {
        let of_bytes = system::COLLATIONS.iter().find(|(other, _)| *other == oid);
        let of_language = || of_languages().find(|(other, ..)| *other == oid);
        let name = of_bytes.map(|(_, name)| system::quoted(name));
        name.or_else(|| of_language().map(|(_, name, _)| system::quoted(&name)))
    };
    found(args, by_name, name_of)
}

/// Returns a function by its name and the types of its arguments.
fn signature(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |name: &str| match catalog.function_of_signature(name) {
        Some(Some(id)) => Ok(id),
        _ => system::signature_named(name.trim(), |ty| catalog.type_id(ty)),
    };
    let shown = |oid: u32| catalog.function_signature(oid.into());
    found(args, by_name, |oid| shown(oid).or_else(|| system::signature_of(oid)))
}

/// Returns an operator, which no system table lists, by its id.
fn operator(args: &[Datum], _: &Scope<'_>, _: &Catalog) -> Result<Datum, SqlError> {
    let by_name = |_: &str| Err(SqlError::unsupported("the name of an operator"));
    found(args, by_name, |oid| Some(oid.to_string()))
}

fn some(text: Option<String>) -> Result<Datum, SqlError> {
    Ok(text.map_or(Datum::Null, Datum::text))
}

fn constraint_definition(
    args: &[Datum],
    scope: &Scope<'_>,
    catalog: &Catalog,
) -> Result<Datum, SqlError> {
    let is_pretty = args.get(1) == Some(&Datum::Bool(true));
    some(catalog.constraint_definition(whole_at(args, 0)?, is_pretty, scope.session.zone()))
}

/// Returns an expression over the columns of a relation, which is stored as it is shown.
fn pretty_expression(
    args: &[Datum],
    scope: &Scope<'_>,
    catalog: &Catalog,
) -> Result<Datum, SqlError> {
    let (text, relation) = (text_at(args, 0)?, whole_at(args, 1)?);
    Ok(match args.get(2) {
        Some(Datum::Bool(true)) => {
            Datum::text(catalog.pretty_expression(text, relation, scope.session.zone()))
        }
        _ => args[0].clone(),
    })
}

fn serial_sequence(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    some(catalog.serial_sequence(text_at(args, 0)?, text_at(args, 1)?)?)
}

fn index_definition(
    args: &[Datum],
    scope: &Scope<'_>,
    catalog: &Catalog,
) -> Result<Datum, SqlError> {
    let column = if args.len() > 1 { whole_at(args, 1)? } else { 0 };
    let is_pretty = args.get(2) == Some(&Datum::Bool(true));
    let zone = scope.session.zone();
    some(catalog.index_definition(whole_at(args, 0)?, column, is_pretty, zone))
}

fn view_definition(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    some(catalog.view_definition(whole_at(args, 0)?))
}

fn view_definition_of(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let name = text_at(args, 0)?;
    let Some(id) = catalog.relation_id(name) else {
        let message = format!("relation \"{name}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
    };
    some(catalog.view_definition(id.into()))
}

fn comment(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let class = args.get(1).map(|_| text_at(args, 1)).transpose()?;
    some(catalog.comment(whole_at(args, 0)?, 0, class).map(str::to_owned))
}

fn shared_comment(args: &[Datum], scope: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let own = i64::from(system::database_id(&scope.session.database));
    let is_own = text_at(args, 1)? == "pg_database" && whole_at(args, 0)? == own;
    some(catalog.comment_of_database().filter(|_| is_own).map(str::to_owned))
}

fn column_comment(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let column = whole_at(args, 1)?;
    let of_column = catalog.comment(whole_at(args, 0)?, column, None).filter(|_| column > 0);
    some(of_column.map(str::to_owned))
}

fn is_visible(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(catalog.is_visible(whole_at(args, 0)?)))
}

fn type_is_visible(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(catalog.type_is_visible(whole_at(args, 0)?)))
}

/// Returns the schemas of the search path that exist.
fn found_schemas(scope: &Scope<'_>, catalog: &Catalog) -> Vec<String> {
    let path = scope.session.search_path();
    path.names().filter_map(|name| found_schema(name, scope, catalog)).collect()
}

/// Returns the name of a schema, if it exists.
fn found_schema(name: &str, scope: &Scope<'_>, catalog: &Catalog) -> Option<String> {
    let name = if name == temporary::ALIAS { scope.session.temporary.schema() } else { name };
    catalog.all_schemas().any(|(_, other)| other == name).then(|| name.to_owned())
}

/// Returns the id of the schema of the session's temporary objects; zero before it has any.
fn temporary_schema(_: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let mut all = catalog.all_schemas();
    let id = all.find(|(id, _)| *id == temporary::SCHEMA).map_or(0, |(id, _)| id);
    Ok(Datum::Oid(id))
}

fn current_schema(_: &[Datum], scope: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    some(found_schemas(scope, catalog).into_iter().next())
}

fn current_schemas(
    args: &[Datum],
    scope: &Scope<'_>,
    catalog: &Catalog,
) -> Result<Datum, SqlError> {
    let mut all = found_schemas(scope, catalog);
    if args[0] == Datum::Bool(true) && !all.iter().any(|name| name == "pg_catalog") {
        all.insert(0, "pg_catalog".to_owned());
    }
    if args[0] == Datum::Bool(true)
        && let Some(own) = found_schema(temporary::ALIAS, scope, catalog)
        && !all.contains(&own)
    {
        all.insert(0, own);
    }
    let all = all.into_iter().map(Datum::text).collect();
    Ok(Datum::Array(Arc::new(Array::of(Type::Name, all)?)))
}

fn current_setting(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (name, facts) = (text_at(args, 0)?, scope.session);
    if let Some(value) = facts.settings.get(name) {
        return Ok(Datum::text(value));
    }
    if name.eq_ignore_ascii_case(CAUSAL_TOKEN) {
        return Ok(Datum::text(token_to_text(&facts.database, facts.token)));
    }
    if args.get(1) == Some(&Datum::Bool(true)) {
        return Ok(Datum::Null);
    }
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Err(SqlError::new(state::UNDEFINED_OBJECT, message))
}

fn format_type(args: &[Datum], _: &Scope<'_>, catalog: &Catalog) -> Result<Datum, SqlError> {
    let Some(oid) = args[0].as_i64() else { return Ok(Datum::Null) };
    Ok(Datum::text(catalog.format_type(oid, args[1].as_i64())))
}

fn blocking_pids(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let pids = system::blocking(scope.session, whole_at(args, 0)?);
    let pids = pids.into_iter().map(Datum::Int4).collect();
    Ok(Datum::Array(Arc::new(Array::of(Type::Int4, pids)?)))
}

fn encoding(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(if whole_at(args, 0)? == 6 { "UTF8" } else { "" }))
}

fn encoding_id(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let is_utf8 = ["utf8", "utf-8", "unicode"].contains(&&*text_at(args, 0)?.to_lowercase());
    Ok(Datum::Int4(if is_utf8 { 6 } else { -1 }))
}

/// Expressions are stored as text.
fn expression(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(args[0].clone())
}

fn user_by_id(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(match whole_at(args, 0)? {
        id if id == i64::from(system::OWNER) => scope.session.user.clone(),
        id => match system::ROLES.iter().find(|(role, _)| i64::from(*role) == id) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("unknown (OID={id})"),
        },
    }))
}

fn size_pretty(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(match whole_at(args, 0)? {
        n if n.unsigned_abs() < 10 << 10 => format!("{n} bytes"),
        n if n.unsigned_abs() < 10 << 20 => format!("{} kB", (n + (1 << 9)) >> 10),
        n if n.unsigned_abs() < 10 << 30 => format!("{} MB", (n + (1 << 19)) >> 20),
        n => format!("{} GB", n.saturating_add(1 << 29) >> 30),
    }))
}
