//! Schemas: the spaces of names, and the order in which a session looks through them.
//!
//! `public` is there without a descriptor. If it is dropped, its descriptor says so.

use super::{Cache, Object, Planned, Relation, UserType, object_by_id, relation_in};
use crate::composite::{Composite, ROW_TYPE, table_of_row_type};
use crate::error::{SqlError, state};
use crate::extension::{self, Installed};
use crate::kv;
use crate::names::{NamedTypes, Qualified};
use crate::system;
use crate::temporary;
use crate::user_function::UserFunction;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Lock, Transaction};
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// The descriptor of a schema.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Schema {
    #[n(0)]
    pub(crate) id: u32,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) version: u64,
    /// True for `public` once it was dropped.
    #[n(3)]
    pub(crate) is_gone: bool,
}

impl Schema {
    pub(crate) fn planned(&self) -> Planned {
        Planned { id: self.id, version: self.version, statistics: 0 }
    }
}

/// True if a schema is part of every database, and holds nothing of its users.
pub(crate) fn is_system_schema(name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema")
}

/// Returns the id of a schema of the users.
pub(crate) async fn schema_id(
    txn: &mut dyn Transaction,
    name: &str,
    lock: Lock,
) -> Result<Option<u32>, SqlError> {
    id_of(name, txn.get(&kv::schema_name_key(name), lock).await?)
}

/// Returns the id of a schema of the users by the value of its name.
fn id_of(name: &str, value: Option<Value>) -> Result<Option<u32>, SqlError> {
    let id = value.map(|value| super::read_u32(&value)).transpose()?;
    let implied = (name == "public").then_some(system::PUBLIC);
    Ok(id.or(implied).filter(|id| *id != 0))
}

/// Returns the id of a schema whose id is the same in every database. Whether it exists shows by
/// what is there.
fn fixed_id(name: &str) -> Option<u32> {
    match name {
        "public" => Some(system::PUBLIC),
        temporary::ALIAS => Some(temporary::SCHEMA),
        _ => None,
    }
}

/// Keeps a schema until the transaction has committed, under every protocol.
fn keep(txn: &mut dyn Transaction, name: &str) {
    txn.keep_range(KeyRange::point(kv::schema_name_key(name)));
}

/// Writes the name of a schema.
pub(crate) fn put_schema_name(
    txn: &mut dyn Transaction,
    name: &str,
    id: Option<u32>,
) -> Result<(), SqlError> {
    let value = match (name, id) {
        ("public", Some(system::PUBLIC)) => None,
        ("public", None) => Some(0),
        (_, id) => id,
    };
    let value = value.map(|id| kv::to_value(id.to_be_bytes().to_vec()));
    Ok(txn.put(kv::schema_name_key(name), value)?)
}

/// The schemas in which a session looks for names that have none, in order.
#[derive(Clone, Debug)]
pub(crate) struct SearchPath {
    /// The setting.
    setting: String,
    names: Vec<String>,
    /// The number of changes of the session's temporary catalog before; `None` if names are not
    /// those of temporary objects.
    generation: Option<u64>,
}

impl SearchPath {
    /// Reads the setting `search_path`, in which `"$user"` stands for the schema of the user's
    /// name, and beside it the session's temporary objects.
    pub(crate) fn of(setting: &str, user: &str, generation: u64) -> SearchPath {
        let name = |name: String| if name == "$user" { user.to_owned() } else { name };
        let mut names: Vec<String> = Vec::new();
        for found in list(setting).map(name).filter(|name| !name.is_empty()) {
            if !names.contains(&found) {
                names.push(found);
            }
        }
        SearchPath { setting: setting.to_owned(), names, generation: Some(generation) }
    }

    /// Returns the path beside the temporary objects of another generation.
    pub(crate) fn at(&self, generation: u64) -> SearchPath {
        SearchPath { generation: self.generation.map(|_| generation), ..self.clone() }
    }

    /// Returns the number of changes of the session's temporary catalog before it was read.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.unwrap_or_default()
    }

    /// True if it is what a session has set.
    pub(crate) fn is_of(&self, setting: &str) -> bool {
        self.setting == setting
    }

    /// The path that consists of `public`.
    pub(crate) fn public() -> SearchPath {
        let (setting, names) = ("public".to_owned(), vec!["public".to_owned()]);
        SearchPath { setting, names, generation: None }
    }

    /// Returns the names of the schemas, some of which may not exist.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the names of the schemas in which relations are found: that of temporary objects is
    /// the first, unless it is listed.
    pub(crate) fn searched(&self) -> impl Iterator<Item = &str> {
        let is_implied = self.generation.is_some() && self.names().all(|it| it != temporary::ALIAS);
        is_implied.then_some(temporary::ALIAS).into_iter().chain(self.names())
    }
}

/// Returns the names of a list: folded unless they are quoted.
fn list(text: &str) -> impl Iterator<Item = String> {
    let (mut in_quotes, mut parts) = (false, vec![String::new()]);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let part = parts.last_mut().expect("invariant: there is a part");
        match c {
            '"' if in_quotes && chars.peek() == Some(&'"') => {
                chars.next();
                part.push('"');
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => parts.push(String::new()),
            c if in_quotes => part.push(c),
            c if c.is_whitespace() => {}
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.into_iter()
}

/// Returns the key of a name in a schema.
type KeyOf = fn(u32, &str) -> Key;

/// Returns the first value that is there, and its number.
fn first(mut values: impl Iterator<Item = Option<Value>>) -> Option<(usize, Value)> {
    values.by_ref().enumerate().find_map(|(at, value)| Some((at, value?)))
}

/// Finds objects by their names in a search path.
pub(crate) struct Resolver<'p> {
    path: &'p SearchPath,
    /// The ids of its schemas, once they are looked up.
    ids: Option<Vec<u32>>,
}

impl<'p> Resolver<'p> {
    pub(crate) fn new(path: &'p SearchPath) -> Resolver<'p> {
        Resolver { path, ids: None }
    }

    /// Returns the value that a name has under the first of some keys, in the first schema in which
    /// it has one, and the number of that key.
    async fn find(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
        keys: &[KeyOf],
    ) -> Result<Option<(usize, Value)>, SqlError> {
        let of = |schema| keys.iter().map(move |key| key(schema, &name.name));
        let Some(schema) = &name.schema else { return self.find_in_path(txn, &of).await };
        let mut beside = vec![kv::schema_name_key(schema)];
        let is_public = schema == "public";
        if is_public {
            beside.extend(of(system::PUBLIC));
        }
        let mut found = txn.get_many(&beside, Lock::Shared).await?.into_iter();
        let Some(id) = id_of(schema, found.next().flatten())? else { return Ok(None) };
        Ok(first(match is_public {
            true => found,
            false => txn.get_many(&of(id).collect::<Vec<_>>(), Lock::Shared).await?.into_iter(),
        }))
    }

    /// Does so for the schemas of the path. The first time, these are looked up beside what
    /// `public` has, so that a path without another schema costs one round trip.
    async fn find_in_path<K: Iterator<Item = Key>>(
        &mut self,
        txn: &mut dyn Transaction,
        of: &impl Fn(u32) -> K,
    ) -> Result<Option<(usize, Value)>, SqlError> {
        // The session's memory answers without a round trip.
        if self.path.searched().next() == Some(temporary::ALIAS) {
            let keys: Vec<Key> = of(temporary::SCHEMA).collect();
            if let Some(found) = first(txn.get_many(&keys, Lock::Shared).await?.into_iter()) {
                return Ok(Some(found));
            }
        }
        let mut beside: Vec<(u32, Vec<Option<Value>>)> = Vec::new();
        if self.ids.is_none() {
            let names = self.path.searched().filter(|name| !is_system_schema(name));
            let names: Vec<&str> = names.collect();
            let keys = names.iter().map(|name| match fixed_id(name) {
                Some(id) => of(id).collect(),
                None => vec![kv::schema_name_key(name)],
            });
            let keys: Vec<Vec<Key>> = keys.collect();
            let found = txn.get_many(&keys.concat(), Lock::Shared).await?;
            let mut found = found.into_iter();
            let mut ids = Vec::with_capacity(names.len());
            for (name, keys) in names.into_iter().zip(keys) {
                let mut values = found.by_ref().take(keys.len());
                if let Some(id) = fixed_id(name) {
                    ids.push(id);
                    beside.push((id, values.collect()));
                } else {
                    ids.extend(id_of(name, values.next().flatten())?);
                }
            }
            self.ids = Some(ids);
        }
        let ids = self.ids.as_deref().unwrap_or_default();
        let is_new = |id: &&u32| beside.iter().all(|(known, _)| known != *id);
        let keys: Vec<Vec<Key>> = ids.iter().filter(is_new).map(|id| of(*id).collect()).collect();
        let mut found = match keys.as_slice() {
            [] => Vec::new().into_iter(),
            keys => txn.get_many(&keys.concat(), Lock::Shared).await?.into_iter(),
        };
        let mut keys = keys.iter();
        for id in ids {
            let values = match beside.iter_mut().find(|(known, _)| known == id) {
                Some((_, values)) => std::mem::take(values),
                None => found.by_ref().take(keys.next().map_or(0, Vec::len)).collect(),
            };
            if let Some(value) = first(values.into_iter()) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Returns the relation of a name, if there is one.
    pub(crate) async fn relation(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
    ) -> Result<Option<Relation>, SqlError> {
        if let Some(id) = name.id() {
            return Ok(Some(Relation { id, table: id }));
        }
        let found = self.find(txn, name, &[kv::name_key]).await?;
        found.map(|(_, value)| Relation::decode(&value)).transpose()
    }

    /// Returns the object of a name. Fails with 42809 if it is an index.
    pub(crate) async fn object(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        name: &Qualified,
        clean: bool,
        lock: Lock,
    ) -> Result<Option<Object>, SqlError> {
        match self.relation(txn, name).await? {
            Some(relation) if relation.id == relation.table => {
                object_by_id(txn, cache, relation.id, clean, lock).await
            }
            Some(_) => Err(super::not_a("table", &name.name)),
            None => Ok(None),
        }
    }

    /// Returns the type of a name: one of the database, or the row type of a table. No type of
    /// the database has the name of a table in its schema.
    pub(crate) async fn user_type(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        name: &Qualified,
        clean: bool,
        lock: Lock,
    ) -> Result<Option<UserType>, SqlError> {
        if let Some(id) = name.id() {
            return type_of_id(txn, cache, id, clean, lock).await;
        }
        let id = match self.find(txn, name, &[kv::type_name_key, kv::name_key]).await? {
            Some((0, id)) => super::read_u32(&id)?,
            Some((_, relation)) => Relation::decode(&relation)?.id ^ ROW_TYPE,
            None => return Ok(None),
        };
        match type_of_id(txn, cache, id, clean, lock).await? {
            None if id & ROW_TYPE == 0 => {
                Err(SqlError::corrupted(format!("the type {id} is not there")))
            }
            found => Ok(found),
        }
    }

    /// Returns the types of some names, as far as there are such.
    pub(crate) async fn user_types(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        names: impl IntoIterator<Item = Qualified>,
        clean: bool,
    ) -> Result<NamedTypes, SqlError> {
        let mut found = Vec::new();
        for name in names {
            let ty = self.user_type(txn, cache, &name, clean, Lock::Shared).await?;
            match ty {
                Some(ty) => found.push((name, ty)),
                None => self.check_type(txn, cache, &name, clean).await?,
            }
        }
        Ok(found)
    }

    /// Returns the functions of a name: those of the first schema of the path first, each of which
    /// hides those with the same types of arguments behind it.
    pub(crate) async fn functions(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        name: &Qualified,
        clean: bool,
        lock: Lock,
    ) -> Result<Vec<Arc<UserFunction>>, SqlError> {
        if let Some(id) = name.id() {
            let found = object_by_id(txn, cache, id, clean, lock).await?;
            return Ok(match found {
                Some(Object::Function(function)) => vec![function],
                _ => Vec::new(),
            });
        }
        let schemas = match &name.schema {
            Some(schema) => Vec::from_iter(schema_id(txn, schema, Lock::Shared).await?),
            None => self.schemas(txn).await?,
        };
        let mut functions: Vec<Arc<UserFunction>> = Vec::new();
        for schema in schemas {
            for id in functions_in(txn, kv::functions_prefix(schema, &name.name)).await? {
                let found = object_by_id(txn, cache, id, clean, lock).await?;
                let Some(Object::Function(function)) = found else {
                    return Err(SqlError::corrupted(format!("the function {id} is not there")));
                };
                let signature = function.signature();
                if functions.iter().all(|other| other.signature() != signature) {
                    functions.push(function);
                }
            }
        }
        Ok(functions)
    }

    /// Fails with 42704 if a name is that of a type of an extension that is not installed, or not
    /// in the schema of the name. Stored texts have no schema before it, so that a name without
    /// one is found whatever the path.
    async fn check_type(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        name: &Qualified,
        clean: bool,
    ) -> Result<(), SqlError> {
        let Some(extension) = extension::of_type_name(&name.name) else { return Ok(()) };
        let found = self::extension(txn, cache, extension.name, clean, Lock::Shared).await?;
        if let Some(found) = found
            && (name.schema.is_none() || self.is_visible(txn, name, &found).await?)
        {
            return Ok(());
        }
        Err(SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")))
    }

    /// True if the objects of an extension are found by a name: in its schema, or in the path.
    async fn is_visible(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
        found: &Installed,
    ) -> Result<bool, SqlError> {
        Ok(match &name.schema {
            Some(schema) => schema_id(txn, schema, Lock::Shared).await? == Some(found.schema),
            None => self.schemas(txn).await?.contains(&found.schema),
        })
    }

    /// Returns the installed extensions that declare a function or an operator of a name, and whose
    /// schema is that of the name, or in the path.
    pub(crate) async fn extensions(
        &mut self,
        txn: &mut dyn Transaction,
        cache: &Cache,
        name: &Qualified,
        clean: bool,
    ) -> Result<Vec<Arc<Installed>>, SqlError> {
        if let Some(id) = name.extension() {
            let found = object_by_id(txn, cache, id, clean, Lock::Shared).await?;
            return Ok(match found {
                Some(Object::Extension(found)) => vec![found],
                _ => Vec::new(),
            });
        }
        let mut installed = Vec::new();
        for declaring in extension::declaring(&name.name) {
            let found = self::extension(txn, cache, declaring.name, clean, Lock::Shared).await?;
            let Some(found) = found else { continue };
            let is_visible = self.is_visible(txn, name, &found).await?;
            installed.extend(is_visible.then_some(found));
        }
        Ok(installed)
    }

    /// Returns the schemas of the path that exist.
    async fn schemas(&mut self, txn: &mut dyn Transaction) -> Result<Vec<u32>, SqlError> {
        if self.ids.is_none() {
            // A search of a name that nothing has looks the schemas' ids up.
            let key = |schema| std::iter::once(kv::to_key(kv::functions_prefix(schema, "")));
            self.find_in_path(txn, &key).await?;
        }
        Ok(self.ids.clone().unwrap_or_default())
    }

    /// True if a temporary relation hides one of the system's, whose name has no schema.
    pub(crate) async fn is_hidden(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
    ) -> Result<bool, SqlError> {
        let is_first = self.path.searched().next() == Some(temporary::ALIAS);
        if name.schema.is_some() || !is_first {
            return Ok(false);
        }
        Ok(relation_in(txn, temporary::SCHEMA, &name.name).await?.is_some())
    }

    /// Returns the schema in which a new relation of a name is created, as [`Resolver::place`]
    /// does, or that of temporary objects, which may have no descriptor yet. Fails with 42P16 if it
    /// is to be a temporary one, and has the name of another schema.
    pub(crate) async fn place_relation(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
        is_temporary: bool,
    ) -> Result<u32, SqlError> {
        let is_in_it = match name.schema.as_deref() {
            Some(temporary::ALIAS) => true,
            Some(schema) if schema.starts_with(temporary::ALIAS) => {
                schema_id(txn, schema, Lock::Shared).await?.is_some()
            }
            _ => false,
        };
        if is_in_it || is_temporary && name.schema.is_none() {
            return Ok(temporary::SCHEMA);
        }
        if is_temporary {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(state::INVALID_TABLE, message));
        }
        self.place(txn, name).await
    }

    /// Returns the schema in which a new object of a name is created, which is there until the
    /// transaction has committed. Fails with 3F000 if there is none, and with 42501 if it is one of
    /// the system's.
    pub(crate) async fn place(
        &mut self,
        txn: &mut dyn Transaction,
        name: &Qualified,
    ) -> Result<u32, SqlError> {
        let missing = |message: String| SqlError::new(state::NO_SCHEMA, message);
        if let Some(schema) = &name.schema {
            if is_system_schema(schema) {
                let message = format!("permission denied for schema {schema}");
                return Err(SqlError::new(state::NO_PRIVILEGE, message));
            }
            let id = schema_id(txn, schema, Lock::Shared).await?;
            keep(txn, schema);
            return id.ok_or_else(|| missing(format!("schema \"{schema}\" does not exist")));
        }
        let (id, name) = self.first(txn).await?;
        keep(txn, name);
        Ok(id)
    }

    /// Returns the schema in which new objects are created whose names have none. Fails as
    /// [`Resolver::place`] does.
    pub(crate) async fn first(
        &self,
        txn: &mut dyn Transaction,
    ) -> Result<(u32, &'p str), SqlError> {
        for name in self.path.names() {
            if is_system_schema(name) {
                let message = format!("permission denied for schema {name}");
                return Err(SqlError::new(state::NO_PRIVILEGE, message));
            }
            if name == temporary::ALIAS {
                return Ok((temporary::SCHEMA, name));
            }
            if let Some(id) = schema_id(txn, name, Lock::Shared).await? {
                return Ok((id, name));
            }
        }
        let message = "no schema has been selected to create in";
        Err(SqlError::new(state::NO_SCHEMA, message))
    }
}

/// Returns the installed extension of a name, if it is there.
pub(crate) async fn extension(
    txn: &mut dyn Transaction,
    cache: &Cache,
    name: &str,
    clean: bool,
    lock: Lock,
) -> Result<Option<Arc<Installed>>, SqlError> {
    let Some(id) = txn.get(&kv::extension_key(name), lock).await? else { return Ok(None) };
    let id = super::read_u32(&id)?;
    match object_by_id(txn, cache, id, clean, lock).await? {
        Some(Object::Extension(found)) => Ok(Some(found)),
        _ => Err(SqlError::corrupted(format!("the extension {id} is not there"))),
    }
}

/// Returns the ids of the functions whose keys have a prefix.
pub(crate) async fn functions_in(
    txn: &mut dyn Transaction,
    prefix: Vec<u8>,
) -> Result<Vec<u32>, SqlError> {
    let (mut ids, mut rest) = (Vec::new(), Some(kv::prefix_range(&prefix)));
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (_, id) in &chunk.rows {
            ids.push(super::read_u32(id)?);
        }
        rest = chunk.rest;
    }
    Ok(ids)
}

/// Returns the type of an id: of a descriptor, or the row type of a table.
pub(crate) async fn type_of_id(
    txn: &mut dyn Transaction,
    cache: &Cache,
    id: u32,
    clean: bool,
    lock: Lock,
) -> Result<Option<UserType>, SqlError> {
    let table = table_of_row_type(id);
    Ok(match object_by_id(txn, cache, table.unwrap_or(id), clean, lock).await? {
        Some(Object::Table(it)) if table.is_some() => {
            Some(UserType::Composite(Composite::of_table(&it)))
        }
        Some(object) if table.is_none() => UserType::of(&object),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_as_a_list_of_names() {
        for (setting, names) in [
            ("\"$user\", public", &["ann", "public"][..]),
            ("Public, \"My, Schema\" ,x, x", &["public", "My, Schema", "x"]),
            ("\"a\"\"b\"", &["a\"b"]),
            ("", &[]),
            ("\"\"", &[]),
        ] {
            let path = SearchPath::of(setting, "ann", 0);
            assert_eq!(path.names().collect::<Vec<_>>(), names, "{setting}");
        }
    }
}
