//! PostgreSQL's functions that describe tables, indexes and types: `format_type`, `pg_get_indexdef`
//! and others.

use crate::catalog::{ColumnDef, Index, Table};
use crate::consistency::{CAUSAL_TOKEN, token_to_text};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::types::Type;
use std::sync::Arc;

/// The tables of a database as one transaction sees them.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The tables, ordered by name.
    pub(crate) tables: Vec<Arc<Table>>,
}

/// The key words that PostgreSQL quotes as names.
const KEY_WORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint \
    binary bit boolean both case cast char character check coalesce collate collation \
    column concurrently constraint create cross current_catalog current_date current_role \
    current_schema current_time current_timestamp current_user dec decimal default \
    deferrable desc distinct do else end except exists extract false fetch float for \
    foreign freeze from full grant greatest group grouping having ilike in initially inner \
    inout int integer intersect interval into is isnull join lateral leading least left \
    like limit localtime localtimestamp national natural nchar none normalize not notnull \
    null nullif numeric offset on only or order out outer overlaps overlay placing \
    position precision primary real references returning right row select session_user \
    setof similar smallint some substring symmetric table tablesample then time timestamp \
    to trailing treat trim true union unique user using values varchar variadic verbose \
    when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// Quotes a name if SQL needs it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !KEY_WORDS.split(' ').any(|word| word == name);
    if plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Catalog {
    pub(crate) fn table(&self, id: i64) -> Option<&Arc<Table>> {
        self.tables.iter().find(|table| i64::from(table.id) == id)
    }

    /// Returns an index or primary key, and its table.
    pub(crate) fn index(&self, id: i64) -> Option<(&Arc<Table>, &Index)> {
        let all =
            self.tables.iter().flat_map(|table| table.keys().map(move |index| (table, index)));
        all.into_iter().find(|(_, index)| i64::from(index.id) == id)
    }

    /// Returns the name of a relation, by its id.
    pub(crate) fn relation_name(&self, id: i64) -> Option<String> {
        if let Some(table) = self.table(id) {
            return Some(quoted(&table.name));
        }
        if let Some((_, index)) = self.index(id) {
            return Some(quoted(&index.name));
        }
        super::TABLES.iter().find(|(_, table)| i64::from(table.id) == id).map(|(schema, table)| {
            match *schema {
                "pg_catalog" => table.name.clone(),
                schema => format!("{schema}.{}", table.name),
            }
        })
    }

    /// Returns the id of a relation, by its name as SQL writes it.
    pub(crate) fn relation_id(&self, written: &str) -> Option<u32> {
        let unquoted =
            |part: &str| match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
                Some(inner) => inner.replace("\"\"", "\""),
                None => part.to_lowercase(),
            };
        let written = written.trim();
        let (schema, name) = match written.split_once('.') {
            Some((schema, name)) if !written.starts_with('"') || schema.ends_with('"') => {
                (Some(unquoted(schema)), unquoted(name))
            }
            _ => (None, unquoted(written)),
        };
        if schema.as_deref().is_none_or(|schema| schema != "public") {
            let full = format!("{}.{name}", schema.as_deref().unwrap_or("pg_catalog"));
            if let Some(table) = super::find(&full) {
                return Some(table.id);
            }
            if schema.is_some() {
                return None;
            }
        }
        let all = self.tables.iter().flat_map(|table| {
            std::iter::once((&table.name, table.id))
                .chain(table.keys().map(|index| (&index.name, index.id)))
        });
        all.into_iter().find(|(other, _)| **other == name).map(|(_, id)| id)
    }

    /// Returns the table or index whose storage contains a key.
    pub(super) fn relation_of_key(&self, key: &[u8]) -> Option<u32> {
        let storage =
            key.strip_prefix(&[2])?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
        let table = self.tables.iter().find(|table| table.storage == storage).map(|table| table.id);
        table.or_else(|| self.index(storage.into()).map(|(_, index)| index.id))
    }

    /// Returns the definition of a constraint, by its id.
    pub(crate) fn constraint_definition(&self, id: i64) -> Option<String> {
        let (table, index) = self.index(id)?;
        let kind = if table.is_primary(index) { "PRIMARY KEY" } else { "UNIQUE" };
        Some(format!("{kind} ({})", parts(table, index, false)))
    }

    /// True if a relation is found by its name alone.
    pub(crate) fn is_visible(&self, id: i64) -> bool {
        let system = super::TABLES.iter().find(|(_, table)| i64::from(table.id) == id);
        let mine = || self.table(id).is_some() || self.index(id).is_some();
        system.map_or_else(mine, |(schema, _)| *schema == "pg_catalog")
    }

    /// Returns the definition of an index, or the column of its part, counted from 1.
    pub(crate) fn index_definition(&self, id: i64, column: i64) -> Option<String> {
        let (table, index) = self.index(id)?;
        if column > 0 {
            let part = index.columns.get(usize::try_from(column - 1).ok()?)?;
            return Some(quoted(&table.columns[part.column as usize].name));
        }
        Some(index_definition(table, index))
    }
}

/// Returns the `CREATE INDEX …` of an index.
pub(super) fn index_definition(table: &Table, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let parts = parts(table, index, true);
    format!(
        "CREATE {unique}INDEX {} ON public.{} USING btree ({parts})",
        quoted(&index.name),
        quoted(&table.name)
    )
}

fn parts(table: &Table, index: &Index, ordered: bool) -> String {
    let part = |part: &crate::catalog::IndexPart| {
        let name = quoted(&table.columns[part.column as usize].name);
        if ordered && part.descending { format!("{name} DESC") } else { name }
    };
    index.columns.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Returns a column's DEFAULT as PostgreSQL shows it: a string has its type appended.
pub(super) fn default_of(column: &ColumnDef) -> Option<String> {
    let default = column.default.as_deref()?.trim();
    let literal = default.starts_with('\'') && default.ends_with('\'');
    Some(if literal { format!("{default}::{}", column.ty.base_name()) } else { default.to_owned() })
}

impl Type {
    fn base_name(self) -> &'static str {
        match self {
            Type::Char(_) => "bpchar",
            other => other.name(),
        }
    }
}

/// Implements `format_type`.
pub(crate) fn format_type(oid: i64, modifier: Option<i64>) -> String {
    let name = match oid {
        0 => return "-".into(),
        18 => "\"char\"",
        19 => "name",
        26 => "oid",
        700 => "real",
        705 => "unknown",
        2205 => "regclass",
        2206 => "regtype",
        oid => {
            let ty = u32::try_from(oid).ok().and_then(|oid| {
                Type::with_modifier(oid, modifier.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1))
            });
            return ty.map_or_else(|| "???".into(), |ty| ty.to_string());
        }
    };
    name.into()
}

/// A function that reads the catalog or the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemFunction {
    name: &'static str,
    /// The type of its result.
    pub ty: Type,
    /// True if it reads the catalog.
    pub looks: bool,
}

const FUNCTIONS: &[(&str, Type, bool)] = &[
    ("array_contains", Type::Bool, false),
    ("array_length", Type::Int4, false),
    ("array_position", Type::Int4, false),
    ("array_to_string", Type::Text, false),
    ("array_upper", Type::Int4, false),
    ("cardinality", Type::Int4, false),
    ("col_description", Type::Text, false),
    ("current_schemas", Type::Text, false),
    ("current_setting", Type::Text, false),
    ("format_type", Type::Text, false),
    ("has_any_column_privilege", Type::Bool, false),
    ("has_column_privilege", Type::Bool, false),
    ("has_database_privilege", Type::Bool, false),
    ("has_function_privilege", Type::Bool, false),
    ("has_schema_privilege", Type::Bool, false),
    ("has_sequence_privilege", Type::Bool, false),
    ("has_table_privilege", Type::Bool, false),
    ("inet_server_addr", Type::Text, false),
    ("inet_server_port", Type::Int4, false),
    ("obj_description", Type::Text, false),
    ("pg_blocking_pids", Type::Text, false),
    ("pg_collation_is_visible", Type::Bool, false),
    ("pg_encoding_to_char", Type::Text, false),
    ("pg_function_is_visible", Type::Bool, false),
    ("pg_get_constraintdef", Type::Text, true),
    ("pg_get_expr", Type::Text, false),
    ("pg_get_function_arguments", Type::Text, false),
    ("pg_get_function_identity_arguments", Type::Text, false),
    ("pg_get_function_result", Type::Text, false),
    ("pg_get_indexdef", Type::Text, true),
    ("pg_get_partkeydef", Type::Text, false),
    ("pg_get_ruledef", Type::Text, false),
    ("pg_get_serial_sequence", Type::Text, false),
    ("pg_get_statisticsobjdef_columns", Type::Text, false),
    ("pg_get_triggerdef", Type::Text, false),
    ("pg_get_userbyid", Type::Text, false),
    ("pg_get_viewdef", Type::Text, false),
    ("pg_has_role", Type::Bool, false),
    ("pg_is_in_recovery", Type::Bool, false),
    ("pg_is_other_temp_schema", Type::Bool, false),
    ("pg_my_temp_schema", Type::Int4, false),
    ("pg_opclass_is_visible", Type::Bool, false),
    ("pg_operator_is_visible", Type::Bool, false),
    ("pg_relation_is_publishable", Type::Bool, false),
    ("pg_relation_size", Type::Int8, false),
    ("pg_size_pretty", Type::Text, false),
    ("pg_table_is_visible", Type::Bool, true),
    ("pg_table_size", Type::Int8, false),
    ("pg_tablespace_location", Type::Text, false),
    ("pg_total_relation_size", Type::Int8, false),
    ("pg_type_is_visible", Type::Bool, false),
    ("quote_ident", Type::Text, false),
    ("quote_literal", Type::Text, false),
    ("regclass of name", Type::Int4, true),
    ("regclass of oid", Type::Text, true),
    ("regnamespace", Type::Text, false),
    ("regproc", Type::Text, false),
    ("regrole", Type::Text, false),
    ("regtype of name", Type::Int4, false),
    ("regtype of oid", Type::Text, false),
    ("shobj_description", Type::Text, false),
    ("to_regclass", Type::Int4, true),
    ("txid_current", Type::Int8, false),
];

impl SystemFunction {
    /// Finds a function by its name.
    pub fn find(name: &str) -> Option<SystemFunction> {
        let at = FUNCTIONS.binary_search_by(|(other, ..)| (*other).cmp(name)).ok()?;
        let (name, ty, looks) = FUNCTIONS[at];
        Some(SystemFunction { name, ty, looks })
    }

    /// Returns its value.
    pub fn call(self, args: &[Datum], facts: &Facts, catalog: &Catalog) -> Result<Datum, SqlError> {
        let text = |at: usize| match args.get(at) {
            Some(Datum::Text(text)) => Some(&**text),
            _ => None,
        };
        // An object id may be a quoted literal.
        let whole = |at: usize| {
            args.get(at).and_then(Datum::as_i64).or_else(|| text(at)?.trim().parse().ok())
        };
        let some = |text: Option<String>| text.map_or(Datum::Null, Datum::text);
        let null = Ok(Datum::Null);
        if self.name != "array_to_string"
            && self.name != "format_type"
            && args.first().is_some_and(Datum::is_null)
        {
            return null;
        }
        Ok(match self.name {
            "array_contains" => {
                let (Some(list), Some(one)) = (text(0), args.get(1)) else { return null };
                return is_member(list, one);
            }
            "array_position" => {
                let (Some(list), Some(one)) = (text(0), text(1)) else { return null };
                let at = elements(list).iter().position(|element| element.as_deref() == Some(one));
                at.map_or(Datum::Null, |at| Datum::Int4(at as i32 + 1))
            }
            "array_length" | "array_upper" | "cardinality" => {
                match elements(text(0).unwrap_or("")).len() {
                    0 => Datum::Null,
                    length => Datum::Int4(length as i32),
                }
            }
            "array_to_string" => {
                let (Some(list), Some(between)) = (text(0), text(1)) else { return null };
                let elements: Vec<String> = elements(list).into_iter().flatten().collect();
                Datum::text(elements.join(between))
            }
            "current_schemas" => {
                let implied = args.first() == Some(&Datum::Bool(true));
                Datum::text(if implied { "{pg_catalog,public}" } else { "{public}" })
            }
            "current_setting" => {
                let name = text(0).unwrap_or("");
                match facts.settings.get(name) {
                    Some(value) => Datum::text(value),
                    None if name.eq_ignore_ascii_case(CAUSAL_TOKEN) => {
                        Datum::text(token_to_text(&facts.database, facts.token))
                    }
                    None if args.get(1) == Some(&Datum::Bool(true)) => Datum::Null,
                    None => {
                        let message = format!("unrecognized configuration parameter \"{name}\"");
                        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                    }
                }
            }
            "format_type" => {
                whole(0).map_or(Datum::Null, |oid| Datum::text(format_type(oid, whole(1))))
            }
            "pg_blocking_pids" => Datum::text("{}"),
            "pg_encoding_to_char" => Datum::text(if whole(0) == Some(6) { "UTF8" } else { "" }),
            "pg_get_constraintdef" => {
                let found = whole(0).and_then(|id| catalog.index(id));
                some(found.map(|(table, index)| {
                    let kind = if table.is_primary(index) { "PRIMARY KEY" } else { "UNIQUE" };
                    format!("{kind} ({})", parts(table, index, false))
                }))
            }
            // Expressions are stored as text.
            "pg_get_expr" => args.first().cloned().unwrap_or(Datum::Null),
            "pg_get_indexdef" => {
                some(whole(0).and_then(|id| catalog.index_definition(id, whole(1).unwrap_or(0))))
            }
            "pg_get_userbyid" | "regrole" => Datum::text(match whole(0) {
                Some(id) if id == i64::from(super::OWNER) => facts.user.clone(),
                id => format!("unknown (OID={})", id.unwrap_or(0)),
            }),
            "pg_is_in_recovery" | "pg_is_other_temp_schema" | "pg_relation_is_publishable" => {
                Datum::Bool(false)
            }
            "pg_my_temp_schema" => Datum::Int4(0),
            "pg_relation_size" | "pg_table_size" | "pg_total_relation_size" | "txid_current" => {
                Datum::Int8(0)
            }
            "pg_size_pretty" => Datum::text(match whole(0).unwrap_or(0) {
                n if n.abs() < 10 << 10 => format!("{n} bytes"),
                n if n.abs() < 10 << 20 => format!("{} kB", (n + (1 << 9)) >> 10),
                n if n.abs() < 10 << 30 => format!("{} MB", (n + (1 << 19)) >> 20),
                n => format!("{} GB", n.saturating_add(1 << 29) >> 30),
            }),
            "pg_table_is_visible" => {
                let id = whole(0).unwrap_or(0);
                let system = super::TABLES.iter().find(|(_, table)| i64::from(table.id) == id);
                let mine = || catalog.table(id).is_some() || catalog.index(id).is_some();
                Datum::Bool(system.map_or_else(mine, |(schema, _)| *schema == "pg_catalog"))
            }
            "quote_ident" => some(text(0).map(quoted)),
            "quote_literal" => some(text(0).map(|text| format!("'{}'", text.replace('\'', "''")))),
            "regclass of name" | "to_regclass" => {
                let name = text(0).unwrap_or("");
                match (catalog.relation_id(name), name.trim().parse::<i32>()) {
                    (Some(id), _) => Datum::Int4(id as i32),
                    (None, Ok(id)) => Datum::Int4(id),
                    (None, _) if self.name == "to_regclass" => Datum::Null,
                    (None, _) => {
                        let message = format!("relation \"{name}\" does not exist");
                        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                    }
                }
            }
            "regclass of oid" => {
                let id = whole(0).unwrap_or(0);
                let name = catalog.relation_name(id);
                Datum::text(
                    name.unwrap_or_else(|| if id == 0 { "-".into() } else { id.to_string() }),
                )
            }
            "regnamespace" => Datum::text(match whole(0) {
                Some(11) => "pg_catalog".into(),
                Some(2200) => "public".into(),
                Some(13184) => "information_schema".into(),
                id => id.unwrap_or(0).to_string(),
            }),
            "regtype of oid" => Datum::text(format_type(whole(0).unwrap_or(0), None)),
            "regtype of name" => {
                let name = text(0).unwrap_or("").trim();
                match (super::catalog_tables::type_named(name), name.parse::<i32>()) {
                    (Some(oid), _) => Datum::Int4(oid as i32),
                    (None, Ok(id)) => Datum::Int4(id),
                    (None, _) => {
                        return Err(SqlError::new(
                            state::UNDEFINED_OBJECT,
                            format!("type \"{name}\" does not exist"),
                        ));
                    }
                }
            }
            "regproc" => Datum::text(whole(0).map_or_else(|| "-".into(), |id| id.to_string())),
            name if name.starts_with("has_")
                || name.ends_with("_visible")
                || name == "pg_has_role" =>
            {
                Datum::Bool(true)
            }
            // Descriptions, sources of functions and the like: no object has one.
            _ => Datum::Null,
        })
    }
}

/// Returns the elements of a list as PostgreSQL prints it: `{a,b}`, or `1 2` for a vector.
fn elements(list: &str) -> Vec<Option<String>> {
    let Some(inner) = list.trim().strip_prefix('{').and_then(|list| list.strip_suffix('}')) else {
        return list.split_whitespace().map(|part| Some(part.to_owned())).collect();
    };
    if inner.trim().is_empty() {
        return Vec::new();
    }
    let (mut out, mut part, mut quoted, mut literal) = (Vec::new(), String::new(), false, false);
    let mut end = |part: &mut String, literal: &mut bool| {
        let text = std::mem::take(part);
        out.push(match std::mem::take(literal) {
            true => Some(text),
            false if text.trim().eq_ignore_ascii_case("null") => None,
            false => Some(text.trim().to_owned()),
        });
    };
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                part.extend(chars.next());
                literal = true;
            }
            '"' if !quoted && !literal => {
                // Spaces before an opening quote are not part of the element.
                part.clear();
                (quoted, literal) = (true, true);
            }
            '"' => quoted = !quoted,
            ',' if !quoted => end(&mut part, &mut literal),
            c if c.is_whitespace() && literal && !quoted => {}
            c => part.push(c),
        }
    }
    end(&mut part, &mut literal);
    out
}

/// Computes `one = ANY (list)` in three-valued logic: a NULL in the list makes a miss unknown.
/// Elements are parsed as the type of `one`, whole numbers as the widest.
fn is_member(list: &str, one: &Datum) -> Result<Datum, SqlError> {
    let elements = elements(list);
    let Some(ty) = one.type_of() else {
        return Ok(if elements.is_empty() { Datum::Bool(false) } else { Datum::Null });
    };
    let ty = if ty.is_integer() { Type::Int8 } else { ty };
    let mut unknown = false;
    for element in elements {
        match element {
            None => unknown = true,
            Some(text) if Datum::from_text(ty, &text)?.order(one).is_eq() => {
                return Ok(Datum::Bool(true));
            }
            Some(_) => {}
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_halving() {
        assert!(FUNCTIONS.is_sorted_by_key(|(name, ..)| *name));
        assert!(SystemFunction::find("pg_get_indexdef").is_some_and(|function| function.looks));
        assert!(SystemFunction::find("sin").is_none());
    }

    #[test]
    fn lists_are_read_as_they_are_printed() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{a,\"b,\\\"c\",d}"), [some("a"), some("b,\"c"), some("d")]);
        assert_eq!(
            elements("{1, null, \"null\", \"\"}"),
            [some("1"), None, some("null"), some("")]
        );
        assert_eq!(elements("1 2"), [some("1"), some("2")]);
        assert!(elements("{}").is_empty() && elements("").is_empty());
    }

    #[test]
    fn a_null_in_a_list_makes_a_miss_unknown() {
        let member =
            |list: &str, one: Datum| is_member(list, &one).expect("it is a list of such values");
        assert_eq!(member("{1,null}", Datum::Int4(33)), Datum::Null);
        assert_eq!(member("{1,null}", Datum::Int4(1)), Datum::Bool(true));
        assert_eq!(member("{1,033}", Datum::Int4(33)), Datum::Bool(true));
        assert_eq!(member("{1,2}", Datum::Int2(3)), Datum::Bool(false));
        assert_eq!(member("{\"null\"}", Datum::text("a")), Datum::Bool(false));
        assert_eq!(member("{}", Datum::Null), Datum::Bool(false));
        assert_eq!(member("{1}", Datum::Null), Datum::Null);
        assert!(is_member("{a}", &Datum::Int4(1)).is_err());
    }

    #[test]
    fn types_are_shown_with_their_modifiers() {
        for (oid, modifier, shown) in [
            (1043, 34, "character varying(30)"),
            (1700, (10 << 16) + 2 + 4, "numeric(10,2)"),
            (23, -1, "integer"),
            (1042, 7, "character(3)"),
            (1007, -1, "integer[]"),
            (19, -1, "name"),
        ] {
            assert_eq!(format_type(oid, Some(modifier)), shown);
        }
    }
}
