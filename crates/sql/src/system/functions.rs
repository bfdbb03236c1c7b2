//! The functions that every database has, as `pg_proc` and `pg_aggregate` list them: the rows of
//! the catalogs of functions, aggregates and window functions, and those that read and write types.

use super::types::type_name;
use super::{
    INFORMATION_SCHEMA, OWNER, PG_CATALOG, Rows, SystemContext, Value, Writer, format_type,
    input_functions, user_functions,
};
use crate::aggregate;
use crate::error::{SqlError, state};
use crate::function::{self, Form, Out, Param, Volatility};
use crate::types::{Object, Type};
use crate::window;
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// The ids that functions have in PostgreSQL: `name(types) id`, a line each.
const IDS: &str = include_str!("functions.txt");
/// The first id of functions that PostgreSQL does not have.
const FIRST_OWN_ID: u32 = 14_000;
/// The language of all of them.
const INTERNAL: u32 = 12;

const RECORD: u32 = 2249;
pub(super) const CSTRING: u32 = 2275;
pub(super) const ANY: u32 = 2276;
pub(super) const INTERNAL_TYPE: u32 = 2281;
const ANY_NON_ARRAY: u32 = 2776;
const ANY_COMPATIBLE: u32 = 5077;
const ANY_COMPATIBLE_ARRAY: u32 = 5078;

/// Types that only functions have: id, name and length.
pub(super) const PSEUDO_TYPES: [(u32, &str, i32); 7] = [
    (CSTRING, "cstring", -2),
    (ANY, "any", 4),
    (INTERNAL_TYPE, "internal", 8),
    (ANY_NON_ARRAY, "anynonarray", 4),
    (3500, "anyenum", 4),
    (ANY_COMPATIBLE, "anycompatible", 4),
    (ANY_COMPATIBLE_ARRAY, "anycompatiblearray", -1),
];

/// Names that are syntax of their own, or of casts, and not functions in PostgreSQL.
const SYNTAX: [&str; 21] = [
    "coalesce",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "greatest",
    "least",
    "localtime",
    "localtimestamp",
    "nullif",
    "regcollation",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
    "user",
    "regclass",
];

/// The aggregates whose values depend on the settings of the session.
const STABLE_AGGREGATES: [&str; 3] = ["json_agg", "jsonb_agg", "json_object_agg"];

/// The kind of a function, as `prokind` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// With the kind of aggregate of `pg_aggregate`, and its number of direct arguments.
    Aggregate(char, usize),
    Window,
}

/// A function of `pg_proc`.
#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    pub(crate) oid: u32,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: Kind,
    pub(crate) is_strict: bool,
    pub(crate) is_set: bool,
    pub(crate) volatility: Volatility,
    /// The types of its parameters, and the number of those that may be left out.
    pub(crate) params: Vec<u32>,
    pub(crate) optional: usize,
    pub(crate) is_variadic: bool,
    /// The columns of its rows, if they have names.
    pub(crate) columns: &'static [(&'static str, Type)],
    pub(crate) result: u32,
}

impl Procedure {
    pub(super) fn new(
        name: impl Into<Cow<'static, str>>,
        params: Vec<u32>,
        result: u32,
    ) -> Procedure {
        Procedure {
            oid: 0,
            name: name.into(),
            kind: Kind::Plain,
            is_strict: true,
            is_set: false,
            volatility: Volatility::Immutable,
            params,
            optional: 0,
            is_variadic: false,
            columns: &[],
            result,
        }
    }

    /// A form of a function of a catalog.
    fn of(name: &'static str, form: &impl Form, kind: Kind) -> Procedure {
        let params = form.params().iter().map(|param| param_id(*param)).collect();
        let is_variadic = form.is_variadic();
        let result = match form.result() {
            Out::Of(ty) => ty.oid(),
            Out::Common => ANY_COMPATIBLE,
            Out::Array => ANY_COMPATIBLE_ARRAY,
        };
        Procedure { kind, is_variadic, ..Procedure::new(name, params, result) }
    }

    /// Returns its arguments as SQL writes them; those before ORDER BY are an ordered-set
    /// aggregate's direct ones.
    pub(crate) fn arguments(&self) -> String {
        let last = self.params.len().saturating_sub(1);
        let ordered = match self.kind {
            Kind::Aggregate('o' | 'h', direct) => Some(direct),
            _ => None,
        };
        let mut shown = String::new();
        for (at, param) in self.params.iter().enumerate() {
            shown += match ordered {
                Some(0) if at == 0 => "ORDER BY ",
                Some(direct) if at == direct => " ORDER BY ",
                _ if at > 0 => ", ",
                _ => "",
            };
            if self.is_variadic && at == last {
                shown += "VARIADIC ";
            }
            shown += &shown_type(*param);
        }
        for (name, ty) in self.columns {
            let comma = if shown.is_empty() { "" } else { ", " };
            shown += &format!("{comma}OUT {name} {}", shown_type(ty.oid()));
        }
        shown
    }

    /// Returns its result as SQL writes it.
    pub(crate) fn result(&self) -> String {
        let set = if self.is_set { "SETOF " } else { "" };
        format!("{set}{}", shown_type(self.result))
    }

    /// Returns the types of its parameters, as `pg_type` names them.
    fn signature(&self) -> String {
        let params: Vec<String> = self.params.iter().map(|oid| name_of(*oid)).collect();
        format!("{}({})", self.name, params.join(","))
    }
}

fn param_id(param: Param) -> u32 {
    match param {
        Param::Of(ty) => ty.oid(),
        Param::Common => ANY_COMPATIBLE,
        Param::Array => ANY_COMPATIBLE_ARRAY,
        Param::Any => ANY,
        Param::NonArray => ANY_NON_ARRAY,
    }
}

fn name_of(oid: u32) -> String {
    let pseudo = PSEUDO_TYPES.iter().find(|(other, ..)| *other == oid);
    match pseudo {
        Some((_, name, _)) => (*name).to_owned(),
        None => Type::from_oid(oid).map_or_else(|| oid.to_string(), type_name),
    }
}

fn collect() -> Vec<Procedure> {
    let is_name = |name: &str| name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    // Syntax of its own calls these, or the binder does.
    let is_syntax = |name: &str| SYNTAX.contains(&name) || name.contains(' ');
    let scalars =
        function::all().filter(|function| is_name(function.name) && !is_syntax(function.name));
    let scalars = scalars.map(|function| {
        let form = Procedure::of(function.name, function, Kind::Plain);
        Procedure {
            is_strict: function.strict,
            is_set: function.is_set(),
            volatility: function.volatility,
            columns: function.columns,
            result: match function.columns {
                [] => form.result,
                [(_, ty)] => ty.oid(),
                _ => RECORD,
            },
            ..form
        }
    });
    let aggregates = aggregate::all().map(|function| {
        let (kind, direct) = match &function.work {
            aggregate::Work::Rows(_) => ('n', 0),
            aggregate::Work::Ordered(direct, _) => ('o', *direct),
            aggregate::Work::Hypothetical(_) => ('h', 1),
        };
        let form = Procedure::of(function.name, function, Kind::Aggregate(kind, direct));
        let volatility = match STABLE_AGGREGATES.contains(&function.name) {
            true => Volatility::Stable,
            false => Volatility::Immutable,
        };
        Procedure { is_strict: false, volatility, ..form }
    });
    let windows = window::all().map(|function| {
        let form = Procedure::of(function.name, function, Kind::Window);
        Procedure { is_strict: !form.params.is_empty(), ..form }
    });
    // The binder adds its second argument.
    let typeof_ = Procedure {
        is_strict: false,
        volatility: Volatility::Stable,
        ..Procedure::new("pg_typeof", vec![ANY], Type::Object(Object::Type).oid())
    };
    with_ids(scalars.chain([typeof_]).chain(aggregates).chain(windows))
        .chain(input_functions::all())
        .collect()
}

/// Gives functions their ids. Those with one id are one function, whose last parameters may be left
/// out.
fn with_ids(functions: impl Iterator<Item = Procedure>) -> impl Iterator<Item = Procedure> {
    let known: HashMap<&str, u32> = IDS.lines().filter_map(row_of_ids).collect();
    let mut own = FIRST_OWN_ID..;
    let mut by_id: BTreeMap<u32, Procedure> = BTreeMap::new();
    for mut procedure in functions {
        let known = known.get(procedure.signature().as_str()).copied();
        procedure.oid = known.or_else(|| own.next()).unwrap_or_default();
        match by_id.entry(procedure.oid) {
            Entry::Vacant(place) => drop(place.insert(procedure)),
            Entry::Occupied(mut place) => {
                let other = place.get().params.len();
                let optional = other.abs_diff(procedure.params.len()) + place.get().optional;
                if procedure.params.len() > other {
                    place.insert(procedure);
                }
                place.get_mut().optional = optional;
            }
        }
    }
    by_id.into_values()
}

fn row_of_ids(line: &str) -> Option<(&str, u32)> {
    let (signature, oid) = line.rsplit_once(' ')?;
    Some((signature, oid.parse().ok()?))
}

static ALL: LazyLock<Vec<Procedure>> = LazyLock::new(collect);

fn by_id(oid: u32) -> Option<&'static Procedure> {
    static PLACES: LazyLock<HashMap<u32, usize>> =
        LazyLock::new(|| ALL.iter().enumerate().map(|(at, one)| (one.oid, at)).collect());
    PLACES.get(&oid).map(|at| &ALL[*at])
}

fn by_name(name: &str) -> &'static [usize] {
    static PLACES: LazyLock<HashMap<&'static str, Vec<usize>>> = LazyLock::new(|| {
        let mut places: HashMap<_, Vec<_>> = HashMap::new();
        for (at, one) in ALL.iter().enumerate() {
            places.entry(&*one.name).or_default().push(at);
        }
        places
    });
    PLACES.get(name).map_or(&[], Vec::as_slice)
}

/// Returns a name without the schema of the functions that every database has.
fn unqualified(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or(name)
}

/// Returns the id of a function by its name. Fails with 42883 if there is none, with 42725 if
/// several have the name.
pub(crate) fn procedure_named(name: &str) -> Result<u32, SqlError> {
    match by_name(unqualified(name)) {
        [] => {
            let message = format!("function \"{name}\" does not exist");
            Err(SqlError::new(state::UNDEFINED_FUNCTION, message))
        }
        [at] => Ok(ALL[*at].oid),
        _ => Err(SqlError::new("42725", format!("more than one function named \"{name}\""))),
    }
}

/// Returns the name of a function by its id, with its schema if others have the name.
pub(crate) fn procedure_name(oid: u32) -> Option<String> {
    let found = by_id(oid)?;
    Some(match by_name(&found.name) {
        [_] => found.name.to_string(),
        _ => format!("pg_catalog.{}", found.name),
    })
}

/// Returns the id of a function by its name and its types: `abs(integer)`. `type_id` finds a type.
/// Fails with 42883 if there is none, with 42704 for an unknown type, with 22P02 for other texts.
pub(crate) fn signature_named(
    text: &str,
    type_id: impl Fn(&str) -> Option<u32>,
) -> Result<u32, SqlError> {
    let wrong = |what: &str| SqlError::new(state::BAD_TEXT, what);
    let (name, rest) = text.split_once('(').ok_or_else(|| wrong("expected a left parenthesis"))?;
    let params = rest.trim_end().strip_suffix(')');
    let params = params.ok_or_else(|| wrong("expected a right parenthesis"))?;
    let mut ids = Vec::new();
    // No type's name has a comma, apart from one in a modifier, which a signature does not have.
    for param in params.split(',').map(str::trim).filter(|_| !params.trim().is_empty()) {
        let pseudo = PSEUDO_TYPES.iter().find(|(_, name, _)| *name == param.trim_matches('"'));
        let id = pseudo.map(|(oid, ..)| *oid).or_else(|| type_id(param));
        let missing =
            || SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{param}\" does not exist"));
        ids.push(id.ok_or_else(missing)?);
    }
    let found = by_name(unqualified(name.trim())).iter().map(|at| &ALL[*at]);
    let found = found.into_iter().find(|one| one.params == ids).map(|one| one.oid);
    found.ok_or_else(|| {
        let message = format!("function \"{text}\" does not exist");
        SqlError::new(state::UNDEFINED_FUNCTION, message)
    })
}

/// Returns the name and the types of a function by its id.
pub(crate) fn signature_of(oid: u32) -> Option<String> {
    let found = by_id(oid)?;
    let params: Vec<_> = found.params.iter().map(|oid| shown_type(*oid)).collect();
    Some(format!("{}({})", found.name, params.join(",")))
}

/// Returns a type as SQL writes it.
fn shown_type(oid: u32) -> String {
    format_type(oid.into(), None)
}

/// Returns the arguments of a function, as `pg_get_function_arguments` does.
pub(crate) fn arguments_of(oid: u32) -> Option<String> {
    by_id(oid).map(Procedure::arguments)
}

/// Returns the result of a function, as `pg_get_function_result` does.
pub(crate) fn result_of(oid: u32) -> Option<String> {
    by_id(oid).map(Procedure::result)
}

/// Returns the functions that SQL can call.
#[cfg(test)]
pub(crate) fn callable() -> Vec<&'static Procedure> {
    let takes = |one: &Procedure, ty: u32| one.params.contains(&ty) || one.result == ty;
    let is_internal = |one: &Procedure| takes(one, CSTRING) || takes(one, INTERNAL_TYPE);
    let sends = |one: &Procedure| one.result == Type::Bytea.oid() && one.name.ends_with("send");
    ALL.iter().filter(|one| !is_internal(one) && !sends(one)).collect()
}

/// Returns the type of a parameter, as SQL writes it.
#[cfg(test)]
pub(crate) fn shown_param(param: Param) -> String {
    shown_type(param_id(param))
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_aggregate" => aggregates,
        "pg_proc" => procedures,
        _ => return None,
    })
}

fn aggregates(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for one in ALL.iter() {
        let Kind::Aggregate(kind, direct) = one.kind else { continue };
        out.row(&[
            ("aggfnoid", Value::Procedure(one.oid, procedure_name(one.oid).unwrap_or_default())),
            ("aggkind", kind.to_string().into()),
            ("aggnumdirectargs", (direct as i32).into()),
            ("aggfinalmodify", "r".into()),
            ("aggmfinalmodify", "r".into()),
        ]);
    }
}

fn procedures(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    user_functions::procedures(context, out);
    let joined =
        |items: &mut dyn Iterator<Item = String>, by: &str| items.collect::<Vec<_>>().join(by);
    for one in ALL.iter() {
        let kind = match one.kind {
            Kind::Plain => "f",
            Kind::Aggregate(..) => "a",
            Kind::Window => "w",
        };
        let volatility = match one.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        };
        let schema = if &*one.name == "_pg_expandarray" { INFORMATION_SCHEMA } else { PG_CATALOG };
        let variadic = one.params.last().filter(|_| one.is_variadic).copied();
        let params = one.params.iter().map(|oid| oid.to_string());
        let columns = one.columns.iter().map(|(_, ty)| ty.oid().to_string());
        let modes =
            one.params.iter().enumerate().map(|(at, _)| {
                if one.is_variadic && at + 1 == one.params.len() { "v" } else { "i" }
            });
        let names = one.columns.iter().map(|(name, _)| (*name).to_owned());
        let mut row = vec![
            ("oid", one.oid.into()),
            ("proname", (&*one.name).into()),
            ("pronamespace", schema.into()),
            ("proowner", OWNER.into()),
            ("prolang", INTERNAL.into()),
            ("procost", 1.into()),
            ("prorows", if one.is_set { 1000 } else { 0 }.into()),
            ("provariadic", variadic.unwrap_or(0).into()),
            ("prokind", kind.into()),
            ("proisstrict", one.is_strict.into()),
            ("proretset", one.is_set.into()),
            ("provolatile", volatility.into()),
            ("proparallel", "s".into()),
            ("pronargs", (one.params.len() as i32).into()),
            ("pronargdefaults", (one.optional as i32).into()),
            ("prorettype", one.result.into()),
            ("proargtypes", joined(&mut params.clone(), " ").into()),
            ("prosrc", (&*one.name).into()),
        ];
        if !one.columns.is_empty() {
            let modes = modes.chain(one.columns.iter().map(|_| "o")).map(str::to_owned);
            let unnamed = one.params.iter().map(|_| "\"\"".to_owned());
            let list =
                |items: &mut dyn Iterator<Item = String>| format!("{{{}}}", joined(items, ","));
            row.push(("proallargtypes", list(&mut params.chain(columns)).into()));
            row.push(("proargmodes", list(&mut { modes }).into()));
            row.push(("proargnames", list(&mut unnamed.chain(names)).into()));
        }
        out.row(&row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn functions_have_ids_of_their_own() {
        let all = &*ALL;
        assert!(all.len() > 600, "only {} functions", all.len());
        let ids: HashSet<u32> = all.iter().map(|one| one.oid).collect();
        assert_eq!(ids.len(), all.len(), "an id names two functions");
        let signatures: HashSet<String> = all.iter().map(Procedure::signature).collect();
        assert_eq!(signatures.len(), all.len(), "a signature names two functions");
        assert!(all.iter().all(|one| one.oid < super::super::FIRST_USER_ID));
        // A row of the table that names no function is an error of the row.
        let unused: Vec<&str> = IDS
            .lines()
            .filter(|line| row_of_ids(line).is_none_or(|(_, oid)| !ids.contains(&oid)))
            .collect();
        assert!(unused.is_empty(), "{unused:?}");
    }

    #[test]
    fn functions_are_found_by_what_is_shown_of_them() {
        for one in ALL.iter() {
            let shown = signature_of(one.oid).expect("it is listed");
            let found = signature_named(&shown, |name| super::super::type_written(name, &[]));
            assert_eq!(found.ok(), Some(one.oid), "{shown}");
        }
    }
}
