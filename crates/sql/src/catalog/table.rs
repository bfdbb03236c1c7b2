//! The descriptor of a table.

use super::generated::Generated;
use super::{Planned, UserType, schema_codec};
use crate::constraint::{Check, ForeignKey};
use crate::datum::Datum;
use crate::domain::Domain;
use crate::error::SqlError;
use crate::index::Index;
use crate::key;
use crate::kv;
use crate::materialized::Materialized;
use crate::row;
use crate::sequence;
use crate::statistics::Statistics;
use crate::system;
use crate::types::Type;
use meridian_mvcc::KeyRange;
use meridian_txn::{SchemaVersion, Transaction};
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// The descriptor of a table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Table {
    /// The id, which never changes.
    #[n(0)]
    pub id: u32,
    /// The version: 1 at first, and one more with each change of this descriptor.
    #[n(1)]
    pub version: u64,
    /// The name.
    #[n(2)]
    pub name: String,
    /// The storage of its rows.
    #[n(3)]
    pub storage: u32,
    /// The columns.
    #[n(4)]
    pub columns: Vec<ColumnDef>,
    /// The primary key; without one, rows have hidden ids as keys.
    #[n(5)]
    pub primary: Option<Index>,
    /// The secondary indexes.
    #[n(6)]
    pub indexes: Vec<Index>,
    /// The sequences of its columns, which are dropped with it.
    #[n(7)]
    #[cbor(default)]
    pub(crate) owns: Vec<u32>,
    /// The CHECK constraints, by name.
    #[n(8)]
    #[cbor(default)]
    pub(crate) checks: Vec<Check>,
    /// The FOREIGN KEY constraints, by name.
    #[n(9)]
    #[cbor(default)]
    pub(crate) foreign: Vec<ForeignKey>,
    /// The tables whose foreign keys refer to this one, by id.
    #[n(10)]
    #[cbor(default)]
    pub(crate) referenced_by: Vec<u32>,
    /// The schema that it is in, with its indexes.
    #[n(11)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// The query, of a materialized view.
    #[n(12)]
    pub(crate) query: Option<Materialized>,
    /// The generated columns, bound.
    #[cbor(skip)]
    pub(crate) generated: Vec<Generated>,
    /// True for a sequence that is read as a table: its row is made when it is read.
    #[cbor(skip)]
    pub(crate) is_sequence: bool,
    #[cbor(skip)]
    stored: Vec<usize>,
    /// The statistics, if it has been analyzed.
    #[cbor(skip)]
    pub(crate) statistics: Option<Arc<Statistics>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ColumnDef {
    /// The name.
    #[n(0)]
    pub name: String,
    /// The type.
    #[n(1)]
    #[cbor(with = "type_codec")]
    pub ty: Type,
    /// True if it rejects NULL.
    #[n(2)]
    pub not_null: bool,
    /// The text of its DEFAULT. A relation is named by its id.
    #[n(3)]
    pub default: Option<String>,
    /// Set if it is an identity column, whose default takes the values of its sequence.
    #[n(4)]
    pub identity: Option<Identity>,
    /// True if it was dropped. It keeps its number, and reads as NULL.
    #[n(5)]
    #[cbor(default)]
    pub dropped: bool,
    /// The value that it has in rows from before it, encoded; NULL if there is none.
    #[n(6)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) before: Option<Vec<u8>>,
    /// The text of the expression that its values are computed by, if it is a generated column.
    #[n(7)]
    pub(crate) generated: Option<String>,
    /// The domain that its values are of; `ty` is its base type.
    #[n(8)]
    pub(crate) domain: Option<Domain>,
    /// The collation of a language that it has; `None` for the order of bytes.
    #[n(9)]
    pub(crate) collation: Option<String>,
    /// `before`, decoded.
    #[cbor(skip)]
    pub(crate) filled: Option<Datum>,
}

/// Returns the name of a column or a field that was dropped, as in PostgreSQL.
pub(crate) fn dropped_name(number: usize) -> String {
    format!("........pg.dropped.{}........", number + 1)
}

/// The kind of an identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Identity {
    /// Rows give no value of their own, except with OVERRIDING SYSTEM VALUE.
    #[n(0)]
    Always,
    /// Rows may give a value.
    #[n(1)]
    ByDefault,
}

impl Table {
    /// Returns the collation of a language that one of its columns has, if one has.
    pub(crate) fn collation(&self) -> Option<&str> {
        self.present().find_map(|(_, column)| column.collation.as_deref())
    }
}

impl ColumnDef {
    /// Creates a column that takes NULL and has no default.
    pub(crate) fn new(name: &str, ty: Type) -> Self {
        ColumnDef {
            name: name.into(),
            ty,
            not_null: false,
            default: None,
            identity: None,
            dropped: false,
            before: None,
            generated: None,
            domain: None,
            collation: None,
            filled: None,
        }
    }

    /// Returns its type, if that is one of the database.
    pub(crate) fn user_type(&self) -> Option<UserType> {
        self.domain.map(UserType::Domain).or(self.ty.user_type())
    }

    /// Adds the types of the database that its values have, each once: the types of fields, too.
    pub(crate) fn each_user_type(&self, all: &mut Vec<UserType>) {
        match self.domain.map(UserType::Domain) {
            Some(domain) if all.contains(&domain) => {}
            Some(domain) => all.push(domain),
            None => self.ty.each_user_type(all),
        }
    }

    /// Takes a new version of a type, if it has the type.
    pub(crate) fn take_version(&mut self, new: UserType) {
        match new {
            UserType::Domain(new) if self.domain == Some(new) => self.domain = Some(new),
            UserType::Domain(_) => {}
            UserType::Enum(_) | UserType::Composite(_) | UserType::Base(_) => {
                self.ty = self.ty.with_version(new)
            }
        }
    }

    /// Returns the name of its type, without modifiers.
    pub(crate) fn type_name(&self) -> &'static str {
        self.domain.map_or(self.ty.name(), Domain::shown)
    }

    /// Returns its type as SQL writes it, with modifiers.
    pub(crate) fn shown_type(&self) -> String {
        self.domain.map_or_else(|| self.ty.to_string(), |domain| domain.shown().to_owned())
    }

    /// Returns the object id of its type.
    pub(crate) fn type_id(&self) -> u32 {
        self.domain.map_or(self.ty.oid(), Domain::id)
    }

    /// Sets the value that it has in rows from before it.
    pub(crate) fn fill(&mut self, value: Datum) {
        let value = Some(value).filter(|value| !value.is_null());
        self.before = value.as_ref().map(row::encode_value);
        self.filled = value;
    }

    /// Reads the value of rows from before it as one of its type, which is that of before, or one
    /// whose values are encoded alike.
    pub(crate) fn settle(&mut self) -> Result<(), SqlError> {
        let value = self.before.as_deref().map(|bytes| row::decode_value(self.ty, bytes));
        self.filled = value.transpose()?;
        Ok(())
    }

    /// Drops it: no name finds it, and rows have NULL in it.
    pub(crate) fn drop(&mut self, number: usize) {
        let name = dropped_name(number);
        *self = ColumnDef { dropped: true, ..ColumnDef::new(&name, self.ty) };
    }
}

pub(crate) mod type_codec {
    use crate::base_type::BaseType;
    use crate::catalog::UserType;
    use crate::composite::Composite;
    use crate::enumeration::Enum;
    use crate::types::Type;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    /// Marks a type whose descriptor follows.
    const COMPOSITE: u8 = 1;
    const BASE: u8 = 2;

    pub(crate) fn encode<C, W: Write>(
        ty: &Type,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        // The whole type, and whether it is an array of it.
        let is_array = ty.element().is_some();
        match ty.user_type() {
            Some(UserType::Enum(of)) => {
                e.array(3)?.u32(ty.oid())?.bool(is_array)?.encode(of.descriptor())?.ok()
            }
            // Releases that would not round refuse the longer form.
            None if ty.is_rounded() => {
                e.array(4)?.u32(ty.oid())?.i32(ty.modifier())?.null()?.null()?.ok()
            }
            // Earlier releases refuse the fourth part.
            Some(UserType::Composite(of)) => {
                e.array(4)?.u32(ty.oid())?.bool(is_array)?;
                e.encode(of.descriptor())?.u8(COMPOSITE)?.ok()
            }
            // Those refuse the third part.
            Some(UserType::Base(of)) => {
                e.array(5)?.u32(ty.oid())?.bool(is_array)?.null()?;
                e.u8(BASE)?.encode(of.descriptor())?.ok()
            }
            Some(UserType::Domain(_)) => Err(EncodeError::message("a type is no domain")),
            None => e.array(2)?.u32(ty.oid())?.i32(ty.modifier())?.ok(),
        }
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Type, DecodeError> {
        let length = d.array()?;
        let oid = d.u32()?;
        // A modifier, or what is told by a descriptor.
        if d.datatype()? == minicbor::data::Type::Bool {
            let is_array = d.bool()?;
            let of = match length {
                Some(5) => {
                    d.null()?;
                    if d.u8()? != BASE {
                        return Err(DecodeError::message("a type of a later release"));
                    }
                    Type::Base(BaseType::of(d.decode()?))
                }
                Some(3) => Type::Enum(Enum::of(d.decode()?).map_err(DecodeError::message)?),
                _ => {
                    let of = Type::Composite(Composite::of(d.decode()?));
                    if d.u8()? != COMPOSITE {
                        return Err(DecodeError::message("a type of a later release"));
                    }
                    of
                }
            };
            return Ok(if is_array { of.array() } else { of });
        }
        let ty = Type::with_modifier(oid, d.i32()?);
        for _ in 2..length.unwrap_or(2) {
            d.skip()?;
        }
        ty.ok_or_else(|| DecodeError::message("unknown type"))
    }
}

impl Table {
    /// Derives the other fields. Must be called after every change of columns or primary key.
    pub(crate) fn settle(&mut self) {
        let in_key = |column: usize| {
            key::is_exact(self.columns[column].ty)
                && self
                    .primary
                    .as_ref()
                    .is_some_and(|p| p.columns.iter().any(|part| part.column as usize == column))
        };
        self.stored = (0..self.columns.len()).filter(|column| !in_key(*column)).collect();
    }

    pub(crate) fn new(id: u32, name: &str, columns: Vec<ColumnDef>) -> Self {
        let mut table = Table {
            id,
            version: 1,
            name: name.into(),
            storage: id,
            columns,
            primary: None,
            indexes: Vec::new(),
            owns: Vec::new(),
            checks: Vec::new(),
            foreign: Vec::new(),
            referenced_by: Vec::new(),
            schema: system::PUBLIC,
            query: None,
            generated: Vec::new(),
            is_sequence: false,
            stored: Vec::new(),
            statistics: None,
        };
        table.settle();
        table
    }

    /// Returns what a plan for this table depends on.
    pub(crate) fn planned(&self) -> Planned {
        let statistics = self.statistics.as_ref().map_or(0, |statistics| statistics.number);
        Planned { id: self.id, version: self.version, statistics }
    }

    /// Returns the columns that the stored value holds.
    pub(crate) fn stored(&self) -> &[usize] {
        &self.stored
    }

    /// True if its rows are not stored: they are made when they are read.
    pub(crate) fn is_made(&self) -> bool {
        self.is_sequence || system::is_system(self.id)
    }

    /// Returns the columns whose default names a relation.
    pub(crate) fn defaults_with(&self, relation: u32) -> impl Iterator<Item = usize> {
        let reference = sequence::reference(relation);
        let names = move |column: &&ColumnDef| {
            column.default.as_ref().is_some_and(|text| text.contains(&reference))
        };
        let columns = self.columns.iter().enumerate();
        columns.filter(move |(_, column)| names(column)).map(|(at, _)| at)
    }

    /// Returns the sequences that its defaults name.
    pub(crate) fn sequences(&self) -> Vec<u32> {
        let defaults = self.columns.iter().filter_map(|column| column.default.as_deref());
        let mut found: Vec<u32> = defaults.flat_map(sequence::referenced).collect();
        found.dedup();
        found
    }

    /// Returns an index whose keys have values of a type.
    pub(crate) fn key_with(&self, ty: UserType) -> Option<&Index> {
        self.keys().find(|index| {
            let mut types = Vec::new();
            let parts = index.columns.iter();
            parts.for_each(|part| index.type_of(self, *part).each_user_type(&mut types));
            types.contains(&ty)
        })
    }

    /// Returns the keys that have exactly these columns.
    pub(crate) fn keys_of(&self, columns: &[u32]) -> impl Iterator<Item = &Index> {
        self.primary.iter().chain(&self.indexes).filter(|index| index.is_key_of(columns))
    }

    /// True if it has constraints or columns that earlier releases do not know.
    pub(super) fn is_newer(&self) -> bool {
        let is_newer = |column: &ColumnDef| {
            column.dropped || column.before.is_some() || column.ty.user_type().is_some()
        };
        self.columns.iter().any(is_newer) || !self.checks.is_empty() || self.has_references()
    }

    /// True if it has generated columns, bound or not.
    pub(super) fn has_generated(&self) -> bool {
        self.columns.iter().any(|column| column.generated.is_some())
    }

    /// True if it has columns of domains, whose values releases that do not know them would not
    /// check.
    pub(super) fn has_domains(&self) -> bool {
        self.columns.iter().any(|column| column.domain.is_some())
    }

    /// True if it has columns with the collation of a language.
    pub(super) fn has_collations(&self) -> bool {
        self.columns.iter().any(|column| column.collation.is_some())
    }

    /// True if a constraint of its rows is checked when their statement ends, or their transaction.
    pub(crate) fn has_late_checks(&self) -> bool {
        self.has_references() || self.indexes.iter().any(|index| index.deferrable.is_some())
    }

    /// Returns its constraints of a name: the id of each that is DEFERRABLE, `None` for others.
    pub(crate) fn deferrable_named(&self, name: &str) -> Vec<Option<u32>> {
        let foreign = self.foreign.iter().filter(|foreign| foreign.name == name);
        let foreign = foreign.map(|foreign| foreign.is_deferrable.then_some(foreign.id));
        let keys = self.constraints().filter(|index| index.name == name);
        let keys = keys.map(|index| index.deferrable.map(|_| index.id));
        let checks = self.checks.iter().filter(|check| check.name == name).map(|_| None);
        foreign.chain(keys).chain(checks).collect()
    }

    /// True if a foreign key concerns it.
    pub(crate) fn has_references(&self) -> bool {
        !self.foreign.is_empty() || !self.referenced_by.is_empty()
    }

    /// Returns the columns that were not dropped, with their numbers.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }

    /// Returns the types of the database that its columns have, those of their fields included,
    /// each once.
    pub(crate) fn user_types(&self) -> Vec<UserType> {
        let mut all = Vec::new();
        self.present().for_each(|(_, column)| column.each_user_type(&mut all));
        all
    }

    /// Returns the number of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.present().find(|(_, column)| column.name == name).map(|(at, _)| at)
    }

    /// Returns the key ranges of its rows and of its indexes' entries, except in storages that only
    /// this transaction sees.
    pub(crate) fn ranges(&self, own: &[u32]) -> Vec<KeyRange> {
        let storages = [self.storage].into_iter().chain(self.indexes.iter().map(|index| index.id));
        let known = storages.filter(|storage| !own.contains(storage));
        known.map(|storage| kv::prefix_range(&kv::storage_prefix(storage))).collect()
    }

    /// From the commit on, rejects transactions that planned for this version or an older one.
    pub(crate) fn outdate(
        &self,
        txn: &mut dyn Transaction,
        to: u64,
        own: &[u32],
    ) -> Result<(), SqlError> {
        let ranges = self.ranges(own);
        if !ranges.is_empty() {
            txn.change_schema(SchemaVersion { table: self.id, version: to }, ranges)?;
        }
        Ok(())
    }

    /// Returns the key of a row under the primary key, with the storage's prefix. Without a primary
    /// key the caller allocates an id.
    pub(crate) fn row_key(&self, row: &[Datum]) -> Option<Vec<u8>> {
        let primary = self.primary.as_ref()?;
        let mut out = kv::storage_prefix(self.storage);
        for part in &primary.columns {
            key::write(&row[part.column as usize], part.descending, &mut out);
        }
        Some(out)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut table = self.clone();
        table.indexes.iter_mut().for_each(Index::mark);
        minicbor::to_vec(table).expect("invariant: writing to memory does not fail")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Table, SqlError> {
        let wrong = |why: &dyn std::fmt::Display| {
            SqlError::corrupted(format!("a table's descriptor: {why}"))
        };
        let mut table: Table = minicbor::decode(bytes).map_err(|e| wrong(&e))?;
        table.indexes.iter_mut().for_each(Index::unmark);
        let parts = table.primary.iter().chain(&table.indexes).flat_map(|index| &index.columns);
        let is_missing = |column: usize| column >= table.columns.len();
        let missing = parts.into_iter().filter_map(|part| part.column()).any(is_missing);
        let included = table.indexes.iter().flat_map(|index| &index.included);
        if missing || included.into_iter().any(|column| is_missing(*column as usize)) {
            return Err(wrong(&"an index of a column that is not there"));
        }
        let referring = table.foreign.iter().flat_map(|foreign| &foreign.columns);
        if referring.into_iter().any(|column| is_missing(*column as usize)) {
            return Err(wrong(&"a foreign key of a column that is not there"));
        }
        table.columns.iter_mut().try_for_each(ColumnDef::settle)?;
        table.settle();
        table.bind_stored()?;
        Ok(table)
    }

    /// Binds the expressions and conditions of its generated columns, indexes and constraints. Must
    /// be called after every change of these or of its columns.
    pub(crate) fn bind_stored(&mut self) -> Result<(), SqlError> {
        self.primary.iter().chain(&self.indexes).try_for_each(|index| index.check_keys(self))?;
        let has_text = |index: &Index| !index.expressions.is_empty() || index.predicate.is_some();
        if self.checks.is_empty() && !self.has_generated() && !self.indexes.iter().any(has_text) {
            self.generated.clear();
            return Ok(());
        }
        let rows = self.columns_alone();
        self.bind_generated(&rows)?;
        self.checks.iter_mut().try_for_each(|check| check.bind(&rows))?;
        self.indexes
            .iter_mut()
            .filter(|index| has_text(index))
            .try_for_each(|index| index.bind(&rows))
    }

    /// Returns a table of its columns, which stored expressions are bound to.
    pub(crate) fn columns_alone(&self) -> Arc<Table> {
        Arc::new(Table::new(self.id, &self.name, self.columns.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexPart;

    #[test]
    fn a_release_that_does_not_know_an_index_refuses_its_table() {
        let column = |name: &str| ColumnDef::new(name, Type::Int4);
        let mut table = Table::new(7, "t", vec![column("a"), column("b")]);
        let part = IndexPart { descending: true, ..IndexPart::ascending(1) };
        let plain = Index::new(8, "plain".into(), vec![part], false);
        table.indexes = vec![plain.clone(), plain.clone(), plain];
        table.indexes[1].predicate = Some("a > 3".into());
        table.indexes[2].included = vec![0];
        table.bind_stored().expect("bound");
        let bytes = table.encode();
        assert_eq!(Table::decode(&bytes).expect("known"), table);
        // Earlier releases refuse the number of a column that is not there.
        let raw: Table = minicbor::decode(&bytes).expect("CBOR");
        let refused = |index: &Index| index.columns.iter().any(|part| part.column >= 2);
        assert_eq!(raw.indexes.iter().map(refused).collect::<Vec<_>>(), [false, true, true]);
    }
}
