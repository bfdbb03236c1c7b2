//! PostgreSQL's functions that describe tables, indexes and types: `format_type`, `pg_get_indexdef`
//! and others.

use super::dependencies::row_type_id;
use super::{DATABASES, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, domains, functions, type_written};
use crate::catalog::{Comments, Part, SearchPath, Table, UserType};
use crate::composite::{ROW_ARRAY, ROW_TYPE, table_of_row_type};
use crate::constraint::ForeignKey;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::extension::Installed;
use crate::index::Index;
use crate::names::{self, NamedTypes, Qualified};
use crate::sequence::Sequence;
use crate::temporary;
use crate::types::Type;
use crate::user_function::UserFunction;
use crate::view::{self, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of a database as one transaction sees them.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The tables, ordered by name.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The sequences, ordered by name.
    pub(crate) sequences: Vec<Arc<Sequence>>,
    /// The views, ordered by name.
    pub(crate) views: Vec<Arc<View>>,
    /// The types of the database, ordered by name.
    pub(crate) types: Vec<UserType>,
    /// The functions of the database, ordered by name.
    pub(crate) functions: Vec<Arc<UserFunction>>,
    /// The installed extensions, ordered by name.
    pub(crate) extensions: Vec<Arc<Installed>>,
    /// The comments on objects, by the objects' ids.
    pub(crate) comments: BTreeMap<u32, Comments>,
    /// The names of the users' schemas, by their ids.
    pub(crate) schemas: BTreeMap<u32, String>,
    /// The schemas in which the session looks for names that have none.
    pub(crate) path: Vec<u32>,
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

/// True if a word cannot be the name of a function.
pub(crate) fn is_key_word(word: &str) -> bool {
    KEY_WORDS.split(' ').any(|key| key.eq_ignore_ascii_case(word))
}

/// Quotes a name if SQL needs it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !KEY_WORDS.split(' ').any(|word| word == name);
    if plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A comment, as `pg_description` has it.
pub(crate) struct Description<'a> {
    pub(crate) id: u32,
    /// The column, counted from 1; 0 for the object itself.
    pub(crate) column: u32,
    /// The catalog that lists the object: its id and its name.
    pub(crate) class: (u32, &'static str),
    pub(crate) text: &'a str,
}

/// Iterates over the comments on the indexes and constraints of a table.
fn descriptions_of_parts<'a>(
    table: &'a Table,
    comments: &'a Comments,
) -> impl Iterator<Item = Description<'a>> {
    let index = (Part::Index, (1259, "pg_class"));
    let constraint = (Part::Constraint, (2606, "pg_constraint"));
    let keys = table.keys().map(move |key| (index, key.id, &key.name));
    let key_constraints = table.constraints().map(move |key| (constraint, key.id, &key.name));
    let checks = table.checks.iter().map(move |check| (constraint, check.id, &check.name));
    let foreign = table.foreign.iter().map(move |foreign| (constraint, foreign.id, &foreign.name));
    let all = keys.chain(key_constraints).chain(checks).chain(foreign);
    all.filter_map(|((part, class), id, name)| {
        let text = comments.get_part(part, name)?;
        Some(Description { id, column: 0, class, text })
    })
}

impl Catalog {
    /// Lets names without a schema be those of a search path.
    pub(super) fn look_in(&mut self, path: &SearchPath) {
        let id = |name: &str| {
            let mut all = self.schemas.iter();
            all.find(|(_, other)| *other == name).map(|(id, _)| *id)
        };
        let found = path.searched().filter_map(|name| match name {
            temporary::ALIAS => Some(temporary::SCHEMA),
            name => id(name),
        });
        self.path = found.collect();
    }

    /// Returns the name of a schema.
    pub(crate) fn schema_name(&self, id: u32) -> &str {
        match id {
            PG_CATALOG => "pg_catalog",
            INFORMATION_SCHEMA => "information_schema",
            id => self.schemas.get(&id).map_or("?", String::as_str),
        }
    }

    /// Returns the id of a schema. Fails with 3F000.
    pub(crate) fn schema_named(&self, name: &str) -> Result<u32, SqlError> {
        let found = self.all_schemas().find(|(_, other)| *other == name);
        found.map(|(id, _)| id).ok_or_else(|| {
            SqlError::new(state::NO_SCHEMA, format!("schema \"{name}\" does not exist"))
        })
    }

    /// Returns the names and the ids of all schemas, the system's first.
    pub(crate) fn all_schemas(&self) -> impl Iterator<Item = (u32, &str)> {
        let system = [PG_CATALOG, INFORMATION_SCHEMA].map(|id| (id, self.schema_name(id)));
        system.into_iter().chain(self.schemas.iter().map(|(id, name)| (*id, name.as_str())))
    }

    /// Returns the schema, the name and the id of each relation of the users.
    fn relations(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        let of_tables = self.tables.iter().flat_map(|table| {
            let keys = table.keys().map(|index| (table.schema, index.name.as_str(), index.id));
            std::iter::once((table.schema, table.name.as_str(), table.id)).chain(keys)
        });
        let sequences = self.sequences.iter().map(|it| (it.schema, it.name.as_str(), it.id));
        let views = self.views.iter().map(|view| (view.schema, view.name.as_str(), view.id));
        let composites = self.types.iter().filter_map(|ty| match ty {
            UserType::Composite(of) => Some((ty.schema(), ty.name(), of.relation_id())),
            UserType::Enum(_) | UserType::Domain(_) | UserType::Base(_) => None,
        });
        of_tables.chain(sequences).chain(views).chain(composites)
    }

    /// Returns the schema of the path in which one of some named objects is found first.
    fn first<'a>(
        &self,
        name: &str,
        all: impl Iterator<Item = (u32, &'a str, u32)>,
    ) -> Option<(u32, u32)> {
        let place = |(schema, other, id): (u32, &str, u32)| {
            let at = self.path.iter().position(|it| *it == schema)?;
            (other == name).then_some((at, schema, id))
        };
        all.filter_map(place).min().map(|(_, schema, id)| (schema, id))
    }

    /// Returns a name as SQL writes it: with its schema unless it is found without.
    pub(super) fn shown(&self, schema: u32, name: &str, is_found: bool) -> String {
        match is_found {
            true => quoted(name),
            false => format!("{}.{}", quoted(self.schema_name(schema)), quoted(name)),
        }
    }

    /// Returns the name of a relation of the users as SQL writes it.
    pub(crate) fn shown_relation(&self, schema: u32, name: &str) -> String {
        let found = self.first(name, self.relations());
        self.shown(schema, name, found.is_some_and(|(found, _)| found == schema))
    }

    fn named_types(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        self.types.iter().map(|ty| (ty.schema(), ty.name(), ty.id()))
    }

    /// Returns the name of a type as SQL writes it.
    pub(crate) fn shown_type(&self, ty: UserType) -> String {
        let (schema, name) = (ty.schema(), ty.name());
        let found = self.first(name, self.named_types());
        self.shown(schema, name, found.is_some_and(|(found, _)| found == schema))
    }

    /// Iterates over the domains.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Domain> {
        self.types.iter().filter_map(|ty| match ty {
            UserType::Domain(domain) => Some(*domain),
            UserType::Enum(_) | UserType::Composite(_) | UserType::Base(_) => None,
        })
    }

    /// True if a type is found by its name alone.
    pub(crate) fn type_is_visible(&self, id: i64) -> bool {
        let is_it = |ty: &&UserType| i64::from(ty.id()) == id || i64::from(ty.array_id()) == id;
        self.types.iter().find(is_it).is_none_or(|ty| {
            let found = self.first(ty.name(), self.named_types());
            found.is_some_and(|(schema, _)| schema == ty.schema())
        })
    }

    /// Returns a stored text with the names of the types and relations in it.
    pub(crate) fn shown_text(&self, text: &str) -> String {
        names::dereference(text, |id| self.shown_object(id))
    }

    /// Returns the name of a type, a relation or a function as SQL writes it: of a row type, that
    /// of its relation.
    fn shown_object(&self, id: u32) -> String {
        let ty = self.types.iter().find(|ty| ty.id() == id);
        // A function of an extension is behind it.
        if let Some(extension) = self.extensions.iter().find(|it| it.id == id) {
            return match self.path.contains(&extension.schema) {
                true => String::new(),
                false => quoted(self.schema_name(extension.schema)),
            };
        }
        let function = || self.function_name(id.into());
        let relation =
            || self.relation_name(table_of_row_type(id).unwrap_or(id).into()).or_else(function);
        let relation = || relation().unwrap_or_else(|| id.to_string());
        ty.map_or_else(relation, |ty| self.shown_type(*ty))
    }

    pub(crate) fn sequence(&self, id: i64) -> Option<&Arc<Sequence>> {
        self.sequences.iter().find(|sequence| i64::from(sequence.id) == id)
    }

    pub(crate) fn view(&self, id: i64) -> Option<&Arc<View>> {
        self.views.iter().find(|view| i64::from(view.id) == id)
    }

    /// Returns the comment on an object, or on a column, counted from 1. `class` is the catalog
    /// that lists the object, if it is given.
    pub(crate) fn comment(&self, id: i64, column: i64, class: Option<&str>) -> Option<&str> {
        let (id, column) = (u32::try_from(id).ok()?, u32::try_from(column).ok()?);
        let mut all = self.descriptions();
        let found = all.find(|it| {
            it.id == id && it.column == column && class.is_none_or(|class| class == it.class.1)
        });
        found.map(|description| description.text)
    }

    /// Returns the comment on the database itself.
    pub(crate) fn comment_of_database(&self) -> Option<&str> {
        self.comments.get(&DATABASES)?.get(0)
    }

    /// Iterates over the comments, except that on the database.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = Description<'_>> {
        let class = (2615, "pg_namespace");
        let of_system =
            Description { id: PG_CATALOG, column: 0, class, text: "system catalog schema" };
        let by_default =
            Description { id: PUBLIC, column: 0, class, text: "standard public schema" };
        let has_own = self.comments.contains_key(&PUBLIC);
        let fixed = [Some(of_system), (!has_own).then_some(by_default)];
        let objects = self.comments.iter().filter(|(id, _)| **id != DATABASES);
        let of_objects = objects.flat_map(|(id, comments)| {
            let own = comments.iter().filter(|(_, text)| !text.is_empty());
            own.map(|(column, text)| Description {
                id: *id,
                column,
                class: self.catalog_of(*id),
                text,
            })
        });
        let parts = self.tables.iter().flat_map(|table| {
            let comments = self.comments.get(&table.id);
            comments.into_iter().flat_map(|comments| descriptions_of_parts(table, comments))
        });
        let of_domains = self.domains().flat_map(|domain| {
            let comments = self.comments.get(&domain.id());
            comments.into_iter().flat_map(move |comments| domains::descriptions(domain, comments))
        });
        fixed.into_iter().flatten().chain(of_objects).chain(parts).chain(of_domains)
    }

    /// Returns the catalog that lists an object with comments: its id and its name.
    fn catalog_of(&self, id: u32) -> (u32, &'static str) {
        match id {
            id if self.schemas.contains_key(&id) => (2615, "pg_namespace"),
            id if self.types.iter().any(|ty| ty.id() == id) => (1247, "pg_type"),
            id if self.functions.iter().any(|it| it.id == id) => (1255, "pg_proc"),
            id if self.extensions.iter().any(|it| it.id == id) => (3079, "pg_extension"),
            _ => (1259, "pg_class"),
        }
    }

    /// Iterates over the ids and names of the relations whose rows have a type.
    pub(super) fn with_rows(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        let tables = self.tables.iter().map(|it| (it.schema, it.name.as_str(), it.id));
        tables.chain(self.views.iter().map(|it| (it.schema, it.name.as_str(), it.id)))
    }

    /// Returns the name of a type, as `format_type` does.
    pub(crate) fn format_type(&self, oid: i64, modifier: Option<i64>) -> String {
        let mut with_rows = self.with_rows();
        if let Some((schema, name, _)) =
            with_rows.find(|(_, _, id)| i64::from(row_type_id(*id)) == oid)
        {
            return self.shown_relation(schema, name);
        }
        for ty in &self.types {
            if i64::from(ty.id()) == oid {
                return self.shown_type(*ty);
            }
            if i64::from(ty.array_id()) == oid {
                return format!("{}[]", self.shown_type(*ty));
            }
        }
        for (schema, name, relation) in self.with_rows() {
            let row_type = i64::from(relation ^ ROW_TYPE);
            if row_type == oid || row_type ^ i64::from(ROW_ARRAY) == oid {
                let array = if row_type == oid { "" } else { "[]" };
                return format!("{}{array}", self.shown_relation(schema, name));
            }
        }
        format_type(oid, modifier)
    }

    /// Returns the names by which SQL finds the types of the database.
    pub(super) fn type_names(&self) -> NamedTypes {
        let mut names = Vec::with_capacity(self.types.len());
        for ty in &self.types {
            let (schema, name) = (ty.schema(), ty.name());
            if self.type_is_visible(ty.id().into()) {
                names.push((Qualified::of(ty.name()), *ty));
            }
            let schema = Some(self.schema_name(schema).to_owned());
            names.push((Qualified { schema, name: name.to_owned() }, *ty));
        }
        names
    }

    /// Returns the id of a type, by its name as SQL writes it.
    pub(crate) fn type_id(&self, written: &str) -> Option<u32> {
        let of_rows = || {
            let row = written.strip_suffix("[]").unwrap_or(written);
            let array = if row == written { 0 } else { ROW_ARRAY };
            let is_it = |(schema, name): (u32, &str)| row == self.shown_relation(schema, name);
            let mut relations = self.with_rows();
            let named = relations.find(|(schema, name, _)| is_it((*schema, *name)));
            named.map(|(.., relation)| relation ^ ROW_TYPE ^ array)
        };
        type_written(written, &self.type_names()).or_else(of_rows)
    }

    /// Iterates over the tables that are no materialized views.
    pub(super) fn base_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().filter(|table| table.query.is_none())
    }

    /// Iterates over the id, the text and the objects read of the queries of all views.
    pub(super) fn queries(&self) -> impl Iterator<Item = (u32, &str, &[u32])> {
        let of_views = self.views.iter().map(|view| (view.id, &*view.text, &*view.reads));
        let of_tables = self.tables.iter().filter_map(|table| {
            let query = table.query.as_ref()?;
            Some((table.id, &*query.text, &*query.reads))
        });
        of_views.chain(of_tables)
    }

    /// Returns the query of a view, as `pg_get_viewdef` does.
    pub(crate) fn view_definition(&self, id: i64) -> Option<String> {
        let (_, text, _) = self.queries().find(|(of, ..)| i64::from(*of) == id)?;
        let name_of = |id: u32| {
            let whole = self.shown_object(id);
            let of_relation = self.relations().find(|(_, _, other)| *other == id);
            (whole, of_relation.map_or_else(String::new, |(_, name, _)| quoted(name)))
        };
        Some(format!(" {};", view::show(text, name_of)))
    }

    pub(crate) fn table(&self, id: i64) -> Option<&Arc<Table>> {
        self.tables.iter().find(|table| i64::from(table.id) == id)
    }

    /// Returns the id of the key that a foreign key refers to; 0 if there is none.
    pub(crate) fn key_of(&self, foreign: &ForeignKey) -> u32 {
        let parent = self.table(foreign.parent.into());
        let key = parent.and_then(|parent| parent.keys_of(&foreign.key).next());
        key.map_or(0, |index| index.id)
    }

    /// Returns an index or primary key, and its table.
    pub(crate) fn index(&self, id: i64) -> Option<(&Arc<Table>, &Index)> {
        let all =
            self.tables.iter().flat_map(|table| table.keys().map(move |index| (table, index)));
        all.into_iter().find(|(_, index)| i64::from(index.id) == id)
    }

    /// Returns the name of a relation, by its id.
    pub(crate) fn relation_name(&self, id: i64) -> Option<String> {
        let own = self.relations().find(|(_, _, other)| i64::from(*other) == id);
        if let Some((schema, name, _)) = own {
            return Some(self.shown_relation(schema, name));
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
        let name = names::written(written)?;
        if let Some(table) = super::find(&name) {
            return Some(table.id);
        }
        match &name.schema {
            None => self.first(&name.name, self.relations()).map(|(_, id)| id),
            Some(schema) => {
                let is_in_it = |of: u32| match schema.as_str() {
                    temporary::ALIAS => temporary::is_temporary(of),
                    schema => self.schema_name(of) == schema,
                };
                let is_it =
                    |(of, other, _): &(u32, &str, u32)| *other == name.name && is_in_it(*of);
                self.relations().find(is_it).map(|(_, _, id)| id)
            }
        }
    }

    /// Returns the table or index whose storage contains a key.
    pub(super) fn relation_of_key(&self, key: &[u8]) -> Option<u32> {
        let storage =
            key.strip_prefix(&[2])?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
        let table = self.tables.iter().find(|table| table.storage == storage).map(|table| table.id);
        table
            .or_else(|| self.index(storage.into()).map(|(_, index)| index.id))
            .or_else(|| self.sequence(storage.into()).map(|sequence| sequence.id))
    }

    /// Returns the name of the sequence of a column. Fails with 42703 if there is no such column.
    pub(crate) fn serial_sequence(
        &self,
        table: &str,
        column: &str,
    ) -> Result<Option<String>, SqlError> {
        let missing = || {
            let message = format!("relation \"{table}\" does not exist");
            SqlError::new(state::UNDEFINED_TABLE, message)
        };
        let id = self.relation_id(table).ok_or_else(missing)?;
        let table = self.table(id.into()).ok_or_else(missing)?;
        let Some(at) = table.column(column) else {
            let message =
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        };
        let is_its = |sequence: &&Arc<Sequence>| {
            sequence.owner.is_some_and(|it| it.table == id && it.column as usize == at)
        };
        let sequence = self.sequences.iter().find(is_its);
        Ok(sequence.map(|sequence| match temporary::is_temporary(sequence.schema) {
            true => format!("{}.{}", temporary::ALIAS, quoted(&sequence.name)),
            false => self.shown(sequence.schema, &sequence.name, false),
        }))
    }

    /// True if a relation is found by its name alone.
    pub(crate) fn is_visible(&self, id: i64) -> bool {
        let system = super::TABLES.iter().find(|(_, table)| i64::from(table.id) == id);
        let mine = || {
            let own = self.relations().find(|(_, _, other)| i64::from(*other) == id);
            own.is_some_and(|(schema, name, _)| {
                self.first(name, self.relations()).is_some_and(|(found, _)| found == schema)
            })
        };
        system.map_or_else(mine, |(schema, _)| *schema == "pg_catalog")
    }
}

/// Implements `format_type` of the types that every database has.
pub(crate) fn format_type(oid: i64, modifier: Option<i64>) -> String {
    let name = match oid {
        0 => return "-".into(),
        18 => "\"char\"",
        19 => "name",
        22 => "int2vector",
        24 => "regproc",
        26 => "oid",
        700 => "real",
        705 => "unknown",
        2205 => "regclass",
        2206 => "regtype",
        2278 => "void",
        oid => {
            let ty = u32::try_from(oid).ok().and_then(|oid| {
                Type::with_modifier(oid, modifier.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1))
            });
            let pseudo =
                functions::PSEUDO_TYPES.iter().find(|(other, ..)| i64::from(*other) == oid);
            return match (ty, pseudo) {
                (Some(ty), _) => {
                    let unlimited = modifier.and_then(|_| name_without_length(ty));
                    unlimited.unwrap_or_else(|| ty.to_string())
                }
                (None, Some((_, name, _))) => quoted(name),
                (None, None) => "???".into(),
            };
        }
    };
    name.into()
}

/// Returns the name of a column's type that has no length, where PostgreSQL's usual name means a
/// length of 1.
fn name_without_length(ty: Type) -> Option<String> {
    match ty {
        Type::Bit(None) => Some("\"bit\"".into()),
        Type::Char(0) => Some("bpchar".into()),
        Type::Array(element) => name_without_length(element.ty()).map(|name| name + "[]"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shown_with_their_modifiers() {
        for (oid, modifier, shown) in [
            (1043, 34, "character varying(30)"),
            (1700, (10 << 16) + 2 + 4, "numeric(10,2)"),
            (23, -1, "integer"),
            (1042, 7, "character(3)"),
            (1007, -1, "integer[]"),
            (19, -1, "name"),
            (1560, -1, "\"bit\""),
            (1560, 5, "bit(5)"),
            (1561, -1, "\"bit\"[]"),
            (1042, -1, "bpchar"),
            (1014, -1, "bpchar[]"),
            (1014, 9, "character(5)[]"),
        ] {
            assert_eq!(format_type(oid, Some(modifier)), shown);
        }
        for (oid, shown) in [(1560, "bit"), (1561, "bit[]"), (1042, "character")] {
            assert_eq!(format_type(oid, None), shown);
        }
    }
}
