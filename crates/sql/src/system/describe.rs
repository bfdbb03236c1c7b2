//! PostgreSQL's functions that describe tables, indexes and types: `format_type`, `pg_get_indexdef`
//! and others.

use super::{PUBLIC, type_written};
use crate::catalog::{ColumnDef, Comments, Table};
use crate::constraint::ForeignKey;
use crate::enumeration::Enum;
use crate::error::{SqlError, state};
use crate::index::{Index, IndexPart};
use crate::sequence::{self, Sequence};
use crate::types::Type;
use crate::view::View;
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
    /// The enum types, ordered by name.
    pub(crate) types: Vec<Enum>,
    /// The comments on objects, by the objects' ids.
    pub(crate) comments: BTreeMap<u32, Comments>,
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

impl Catalog {
    pub(crate) fn sequence(&self, id: i64) -> Option<&Arc<Sequence>> {
        self.sequences.iter().find(|sequence| i64::from(sequence.id) == id)
    }

    pub(crate) fn view(&self, id: i64) -> Option<&Arc<View>> {
        self.views.iter().find(|view| i64::from(view.id) == id)
    }

    /// Returns the comment on an object, or on a column, counted from 1. `class` is the catalog
    /// that lists the object, if it is given.
    pub(crate) fn comment(&self, id: i64, column: i64, class: Option<&str>) -> Option<&str> {
        let id = u32::try_from(id).ok()?;
        let comments = self.comments.get(&id)?;
        if class.is_some_and(|class| class != self.catalog_of(id).1) {
            return None;
        }
        comments.get(u32::try_from(column).ok()?)
    }

    /// Returns the catalog that lists an object with comments: its id and its name.
    pub(super) fn catalog_of(&self, id: u32) -> (u32, &'static str) {
        match id {
            PUBLIC => (2615, "pg_namespace"),
            id if self.types.iter().any(|ty| ty.id() == id) => (1247, "pg_type"),
            _ => (1259, "pg_class"),
        }
    }

    /// Returns the name of a type, as `format_type` does.
    pub(crate) fn format_type(&self, oid: i64, modifier: Option<i64>) -> String {
        for ty in &self.types {
            if i64::from(ty.id()) == oid {
                return ty.shown().to_owned();
            }
            if i64::from(ty.array_id()) == oid {
                return ty.shown_array().to_owned();
            }
        }
        format_type(oid, modifier)
    }

    /// Returns the id of a type, by its name as SQL writes it.
    pub(crate) fn type_id(&self, written: &str) -> Option<u32> {
        type_written(written, &self.types)
    }

    /// Returns the query of a view, as `pg_get_viewdef` does.
    pub(crate) fn view_definition(&self, id: i64) -> Option<String> {
        self.view(id).map(|view| format!(" {};", view.text))
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
        if let Some(table) = self.table(id) {
            return Some(quoted(&table.name));
        }
        if let Some(sequence) = self.sequence(id) {
            return Some(quoted(&sequence.name));
        }
        if let Some(view) = self.view(id) {
            return Some(quoted(&view.name));
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
        let sequences = self.sequences.iter().map(|sequence| (&sequence.name, sequence.id));
        let views = self.views.iter().map(|view| (&view.name, view.id));
        all.chain(sequences).chain(views).find(|(other, _)| **other == name).map(|(_, id)| id)
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
        Ok(sequence.map(|sequence| format!("public.{}", quoted(&sequence.name))))
    }

    /// Returns the definition of a constraint, by its id.
    pub(crate) fn constraint_definition(&self, id: i64) -> Option<String> {
        let of_tables = self.tables.iter();
        let mut foreign =
            of_tables.flat_map(|table| table.foreign.iter().map(move |foreign| (table, foreign)));
        if let Some((table, foreign)) = foreign.find(|(_, it)| i64::from(it.id) == id) {
            let parent = self.table(foreign.parent.into())?;
            return Some(foreign.definition(table, parent));
        }
        let checks = self.tables.iter().flat_map(|table| &table.checks);
        if let Some(check) = checks.into_iter().find(|check| i64::from(check.id) == id) {
            return Some(check.definition());
        }
        let (table, index) = self.index(id)?;
        let kind = if table.is_primary(index) { "PRIMARY KEY" } else { "UNIQUE" };
        Some(format!("{kind} ({})", parts(table, index, false)))
    }

    /// True if a relation is found by its name alone.
    pub(crate) fn is_visible(&self, id: i64) -> bool {
        let system = super::TABLES.iter().find(|(_, table)| i64::from(table.id) == id);
        let mine = || {
            self.table(id).is_some()
                || self.index(id).is_some()
                || self.sequence(id).is_some()
                || self.view(id).is_some()
        };
        system.map_or_else(mine, |(schema, _)| *schema == "pg_catalog")
    }

    /// Returns the definition of an index, or the column of its part, counted from 1.
    pub(crate) fn index_definition(&self, id: i64, column: i64) -> Option<String> {
        let (table, index) = self.index(id)?;
        if column > 0 {
            let part = index.columns.get(usize::try_from(column - 1).ok()?)?;
            return Some(part_of(table, index, *part));
        }
        Some(index_definition(table, index))
    }
}

/// Returns the `CREATE INDEX …` of an index.
pub(super) fn index_definition(table: &Table, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let parts = parts(table, index, true);
    let mut out = format!(
        "CREATE {unique}INDEX {} ON public.{} USING btree ({parts})",
        quoted(&index.name),
        quoted(&table.name)
    );
    if !index.included.is_empty() {
        let name = |column: &u32| quoted(&table.columns[*column as usize].name);
        let names: Vec<String> = index.included.iter().map(name).collect();
        out += &format!(" INCLUDE ({})", names.join(", "));
    }
    if let Some(predicate) = &index.predicate {
        out += &format!(" WHERE ({predicate})");
    }
    out
}

/// Shows a column of an index, or an expression: in parentheses, unless it is a call.
fn part_of(table: &Table, index: &Index, part: IndexPart) -> String {
    let text = index.text_of(table, part);
    match (part.column(), index.call_of(table, part)) {
        (Some(_), _) => quoted(text),
        (None, Some(_)) => text.to_owned(),
        (None, None) => format!("({text})"),
    }
}

fn parts(table: &Table, index: &Index, ordered: bool) -> String {
    let part = |part: &IndexPart| {
        let name = part_of(table, index, *part);
        if ordered && part.descending { format!("{name} DESC") } else { name }
    };
    index.columns.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Returns a column's DEFAULT as PostgreSQL shows it: a string has its type appended, and a
/// sequence is named. An identity column has none.
pub(super) fn default_of(catalog: &Catalog, column: &ColumnDef) -> Option<String> {
    let default = column.default.as_deref().filter(|_| column.identity.is_none())?.trim();
    if default.contains("::REGCLASS") {
        let mut shown = default.to_owned();
        for sequence in &catalog.sequences {
            let name = format!("'{}'::regclass", quoted(&sequence.name).replace('\'', "''"));
            shown = shown.replace(&sequence::reference(sequence.id), &name);
        }
        return Some(shown);
    }
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

/// Implements `format_type` of the types that every database has.
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
        ] {
            assert_eq!(format_type(oid, Some(modifier)), shown);
        }
    }
}
