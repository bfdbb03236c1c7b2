//! CREATE, ALTER and DROP SEQUENCE, and the sequences of columns.

use super::{Ddl, change, check_row_type, depended_on, duplicate, free_name, open, views};
use crate::bind;
use crate::catalog::{self, Identity, Object, Table};
use crate::error::{SqlError, state};
use crate::kv;
use crate::names::{self, Qualified};
use crate::sequence::{Change, IdentityChange, Options, Owner, Sequence, SequenceStatement, Value};
use crate::system;
use crate::temporary::is_temporary;
use crate::types::Type;
use meridian_txn::{Lock, SchemaVersion};
use sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

/// Runs a statement about a sequence. Returns its tag.
pub(super) async fn run(
    cx: &mut Ddl<'_>,
    statement: &SequenceStatement,
) -> Result<String, SqlError> {
    Ok(match statement {
        SequenceStatement::Create { name, is_temporary, if_not_exists, options } => {
            let name = names::relation(name)?;
            let schema = cx.place_relation(&name, *is_temporary).await?;
            let name = (schema, &*name.name);
            if catalog::relation_in(cx.txn, schema, name.1).await?.is_none() {
                check_row_type(cx, schema, name.1).await?;
                let sequence = create(cx, name, Type::Int8, options, None).await?;
                own(cx, sequence, options).await?;
            } else if *if_not_exists {
                cx.skip_existing(name.1);
            } else {
                return Err(duplicate(name.1));
            }
            "CREATE SEQUENCE"
        }
        SequenceStatement::Alter { name, if_exists, change } => {
            let name = names::relation(name)?;
            match named(cx, &name).await? {
                Some(sequence) => alter(cx, sequence, change).await?,
                None if *if_exists => cx.skip("relation", &name.name),
                None => return Err(missing("relation", &name)),
            }
            "ALTER SEQUENCE"
        }
        SequenceStatement::Identity { table, if_exists, column, change } => {
            let folded = names::relation(table)?;
            if *if_exists && cx.relation(&folded).await?.is_none() {
                cx.skip("relation", &folded.name);
                return Ok("ALTER TABLE".into());
            }
            alter_identity(cx, table, column, change).await?;
            "ALTER TABLE"
        }
    }
    .into())
}

fn missing(kind: &str, name: &Qualified) -> SqlError {
    SqlError::new(state::UNDEFINED_TABLE, format!("{kind} \"{name}\" does not exist"))
}

/// Finds a sequence, and locks its version until the transaction ends.
async fn named(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Option<Arc<Sequence>>, SqlError> {
    match cx.object(name).await? {
        Some(Object::Sequence(sequence)) => Ok(Some(sequence)),
        Some(_) => Err(catalog::not_a("sequence", &name.name)),
        None => Ok(None),
    }
}

/// Finds a sequence of a table.
async fn of_id(cx: &mut Ddl<'_>, id: u32) -> Result<Arc<Sequence>, SqlError> {
    let cache = &cx.engine.cache;
    let object = catalog::object_by_id(cx.txn, cache, id, cx.clean, Lock::Exclusive).await?;
    let sequence = object.as_ref().and_then(Object::sequence).cloned();
    sequence.ok_or_else(|| SqlError::corrupted(format!("the sequence {id} is not there")))
}

/// Finds a table by its id, and locks its version until the transaction ends.
async fn table_of(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Arc<Table>>, SqlError> {
    catalog::table_by_id(cx.txn, &cx.engine.cache, id, cx.clean, Lock::Exclusive).await
}

/// Creates a sequence of an unused name in a schema.
pub(super) async fn create(
    cx: &mut Ddl<'_>,
    name: (u32, &str),
    ty: Type,
    options: &Options,
    owner: Option<Owner>,
) -> Result<Sequence, SqlError> {
    let mut sequence = Sequence::new(0, name, ty, options)?;
    (sequence.id, sequence.owner) = (cx.next_id_in(name.0).await?, owner);
    catalog::put_name(cx.txn, name.0, name.1, sequence.id, sequence.id)?;
    catalog::put(cx.txn, &Object::Sequence(Arc::new(sequence.clone())))?;
    sequence.write(cx.txn, sequence.beginning())?;
    changes(cx, sequence.id);
    Ok(sequence)
}

/// From now on, the transaction itself reads and writes the sequence.
fn changes(cx: &mut Ddl<'_>, id: u32) {
    cx.sequences.ids.push(id);
    cx.facts.sequences.changes(id);
}

/// Writes a changed descriptor under a new version.
async fn put(cx: &mut Ddl<'_>, mut sequence: Sequence) -> Result<(), SqlError> {
    sequence.version += 1;
    outdate(cx, &sequence, sequence.version).await?;
    changes(cx, sequence.id);
    catalog::put(cx.txn, &Object::Sequence(Arc::new(sequence)))
}

/// From the commit on, rejects transactions that know an older version: those that take values, and
/// those that write into tables whose defaults hand some out.
async fn outdate(cx: &mut Ddl<'_>, sequence: &Sequence, to: u64) -> Result<(), SqlError> {
    if cx.ids.own.contains(&sequence.id) || is_temporary(sequence.id) {
        return Ok(());
    }
    let mut ranges = vec![sequence.range()];
    for (table, _) in users(cx, sequence.id).await? {
        ranges.extend(table.ranges(cx.ids.own));
    }
    let to = SchemaVersion { table: sequence.id, version: to };
    Ok(cx.txn.change_schema(to, ranges)?)
}

/// Changes the owner of a sequence, if the options give one, and the table's list.
async fn own(cx: &mut Ddl<'_>, sequence: Sequence, options: &Options) -> Result<(), SqlError> {
    let Some(owned_by) = &options.owned_by else { return Ok(()) };
    if sequence.owner.is_some_and(|owner| owner.is_identity) {
        let message = "cannot change ownership of identity sequence";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
            .detail(format!("Sequence \"{}\" is linked to a table.", sequence.name)));
    }
    disown(cx, &sequence).await?;
    let mut sequence = sequence;
    sequence.owner = None;
    if let Some(path) = owned_by {
        let (table, column) = path.0.split_at(path.0.len() - 1);
        let column = column.first().and_then(|part| part.as_ident());
        let Some(column) = column.filter(|_| !table.is_empty()) else {
            return Err(SqlError::new(state::SYNTAX, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        };
        let old = open(cx, &ObjectName(table.to_vec())).await?;
        if old.schema != sequence.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(state::NOT_IN_STATE, message));
        }
        let column = bind::target_columns(&old, std::slice::from_ref(column))?[0] as u32;
        let mut table = (*old).clone();
        table.owns.push(sequence.id);
        change(cx, &old, table)?;
        sequence.owner = Some(Owner { table: old.id, column, is_identity: false });
    }
    put(cx, sequence).await
}

/// Removes a sequence from the list of its owner.
async fn disown(cx: &mut Ddl<'_>, sequence: &Sequence) -> Result<(), SqlError> {
    let Some(owner) = sequence.owner else { return Ok(()) };
    let Some(old) = table_of(cx, owner.table).await? else { return Ok(()) };
    let mut table = (*old).clone();
    table.owns.retain(|id| *id != sequence.id);
    change(cx, &old, table)
}

async fn alter(cx: &mut Ddl<'_>, old: Arc<Sequence>, change: &Change) -> Result<(), SqlError> {
    match change {
        Change::Rename(name) => {
            let name = names::fold(name);
            cx.check_free(old.schema, &name).await?;
            views::refuse_renamed(cx, old.id, &old.name).await?;
            cx.txn.put(kv::name_key(old.schema, &old.name), None)?;
            catalog::put_name(cx.txn, old.schema, &name, old.id, old.id)?;
            put(cx, Sequence { name, ..(*old).clone() }).await
        }
        Change::Options(options) => {
            let sequence = set_options(cx, &old, options).await?;
            own(cx, sequence, options).await
        }
    }
}

/// Moves a sequence, whose name is moved, to another schema.
pub(super) async fn set_schema(
    cx: &mut Ddl<'_>,
    old: &Sequence,
    schema: u32,
) -> Result<(), SqlError> {
    put(cx, Sequence { schema, ..old.clone() }).await
}

/// Changes the options of a sequence, and its value with RESTART. Returns the new descriptor.
async fn set_options(
    cx: &mut Ddl<'_>,
    old: &Sequence,
    options: &Options,
) -> Result<Sequence, SqlError> {
    let mut sequence = old.clone();
    sequence.alter(options)?;
    let found = cx.txn.get(&old.key(), Lock::Exclusive).await?;
    let found = found.ok_or_else(|| SqlError::corrupted("a sequence without a value"))?;
    let value = match options.restart {
        Some(to) => Value { last: to.unwrap_or(sequence.start), is_called: false },
        None => Value::decode(&found.0)?,
    };
    sequence.check_within("RESTART", value.last)?;
    sequence.write(cx.txn, value)?;
    put(cx, sequence.clone()).await?;
    sequence.version += 1;
    Ok(sequence)
}

/// Gives the sequence of an identity column its new type.
pub(super) async fn set_type(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
    ty: Type,
) -> Result<(), SqlError> {
    for id in &table.owns {
        let sequence = of_id(cx, *id).await?;
        let is_its = |owner: Owner| owner.is_identity && owner.column as usize == column;
        if sequence.owner.is_some_and(is_its) {
            let options = Options { ty: Some(ty), ..Options::default() };
            set_options(cx, &sequence, &options).await?;
        }
    }
    Ok(())
}

/// Restarts the sequences of a table's columns (TRUNCATE … RESTART IDENTITY).
pub(super) async fn restart_owned(cx: &mut Ddl<'_>, table: &Table) -> Result<(), SqlError> {
    for id in &table.owns {
        let sequence = of_id(cx, *id).await?;
        set_options(cx, &sequence, &Options { restart: Some(None), ..Options::default() }).await?;
    }
    Ok(())
}

/// The columns whose default takes the values of a sequence, by table.
async fn users(cx: &mut Ddl<'_>, id: u32) -> Result<Vec<(Arc<Table>, Vec<usize>)>, SqlError> {
    let tables = match is_temporary(id) {
        true => system::load_temporary(cx.txn).await?.tables,
        false => system::load(cx.txn).await?.tables,
    };
    let with = |table: Arc<Table>| {
        let columns: Vec<usize> = table.defaults_with(id).collect();
        (!columns.is_empty()).then_some((table, columns))
    };
    Ok(tables.into_iter().filter_map(with).collect())
}

/// Drops a sequence.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    name: &Qualified,
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let Some(sequence) = named(cx, name).await? else {
        if !if_exists {
            return Err(missing("sequence", name));
        }
        cx.skip("sequence", &name.name);
        return Ok(());
    };
    if let Some(owner) = sequence.owner.filter(|owner| owner.is_identity)
        && let Some(table) = table_of(cx, owner.table).await?
    {
        let column = format!("column {} of table {}", of(&table, owner.column), table.name);
        let message = format!("cannot drop sequence {name} because {column} requires it");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS, message)
            .hint(format!("You can drop {column} instead.")));
    }
    drop_one(cx, &sequence, cascade).await
}

/// Drops a sequence that is not that of an identity column; with CASCADE what uses it, too.
pub(super) async fn drop_one(
    cx: &mut Ddl<'_>,
    sequence: &Sequence,
    cascade: bool,
) -> Result<(), SqlError> {
    let what = format!("sequence {}", sequence.name);
    views::drop_readers(cx, sequence.id, &what, &[], cascade).await?;
    let users = users(cx, sequence.id).await?;
    if !cascade && !users.is_empty() {
        return Err(depends(&what, sequence, &users));
    }
    forget_defaults(cx, &users).await?;
    disown(cx, sequence).await?;
    remove(cx, sequence).await
}

fn of(table: &Table, column: u32) -> &str {
    table.columns.get(column as usize).map_or("?", |column| &column.name)
}

/// Returns 2BP01: columns take the values of a sequence that is to be dropped.
fn depends(what: &str, sequence: &Sequence, users: &[(Arc<Table>, Vec<usize>)]) -> SqlError {
    let mut details = Vec::new();
    for (table, columns) in users {
        for column in columns {
            details.push(format!(
                "default value for column {} of table {} depends on sequence {}",
                table.columns[*column].name, table.name, sequence.name
            ));
        }
    }
    depended_on(what, &details)
}

/// Removes the defaults of columns.
async fn forget_defaults(
    cx: &mut Ddl<'_>,
    users: &[(Arc<Table>, Vec<usize>)],
) -> Result<(), SqlError> {
    for (table, columns) in users {
        let Some(old) = table_of(cx, table.id).await? else { continue };
        let mut table = (*old).clone();
        for column in columns {
            let name = &table.columns[*column].name;
            cx.cascaded.push(format!("default value for column {name} of table {}", table.name));
            table.columns[*column].default = None;
        }
        change(cx, &old, table)?;
    }
    Ok(())
}

async fn remove(cx: &mut Ddl<'_>, sequence: &Sequence) -> Result<(), SqlError> {
    outdate(cx, sequence, SchemaVersion::GONE).await?;
    catalog::drop_storage(cx.txn, sequence.id)?;
    changes(cx, sequence.id);
    catalog::remove(cx.txn, &Object::Sequence(Arc::new(sequence.clone())))
}

/// Drops the sequences of a column that is being dropped.
pub(super) async fn drop_of_column(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    column: usize,
    what: &str,
    cascade: bool,
) -> Result<(), SqlError> {
    for id in table.owns.clone() {
        let sequence = of_id(cx, id).await?;
        if sequence.owner.is_none_or(|owner| owner.column as usize != column) {
            continue;
        }
        let mut others = users(cx, id).await?;
        others.retain(|(user, columns)| user.id != table.id || columns.as_slice() != [column]);
        if !cascade && !others.is_empty() {
            return Err(depends(what, &sequence, &others));
        }
        others.retain(|(user, _)| user.id != table.id);
        forget_defaults(cx, &others).await?;
        let with_it: Vec<usize> = table.defaults_with(id).collect();
        with_it.into_iter().for_each(|column| table.columns[column].default = None);
        table.owns.retain(|owned| *owned != id);
        remove(cx, &sequence).await?;
    }
    Ok(())
}

/// Drops the sequences of a table that is being dropped.
pub(super) async fn drop_owned(
    cx: &mut Ddl<'_>,
    table: &Table,
    cascade: bool,
) -> Result<(), SqlError> {
    for id in &table.owns {
        let sequence = of_id(cx, *id).await?;
        let mut users = users(cx, *id).await?;
        users.retain(|(user, _)| user.id != table.id);
        if !cascade && !users.is_empty() {
            return Err(depends(&format!("table {}", table.name), &sequence, &users));
        }
        forget_defaults(cx, &users).await?;
        remove(cx, &sequence).await?;
    }
    Ok(())
}

/// Fails with 22023 if a column of a type takes no values of a sequence.
fn check_type(ty: Type) -> Result<(), SqlError> {
    if ty.is_integer() {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(state::INVALID_PARAMETER, message))
}

/// Creates the sequence of a column, `serial` or an identity, and makes it its default.
pub(super) async fn give(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    column: usize,
    identity: Option<Identity>,
    options: &Options,
) -> Result<(), SqlError> {
    let def = &table.columns[column];
    check_type(def.ty)?;
    let ty = def.ty;
    let name = match &options.name {
        Some(name) => {
            let name = names::relation(name)?;
            let schema = match name.schema {
                Some(_) => cx.place(&name).await?,
                None => table.schema,
            };
            cx.check_free(schema, &name.name).await?;
            check_row_type(cx, schema, &name.name).await?;
            (schema, name.name)
        }
        None => (table.schema, free_name(cx, table.schema, (&table.name, &def.name), "seq").await?),
    };
    let is_identity = identity.is_some();
    let owner = Owner { table: table.id, column: column as u32, is_identity };
    let sequence = create(cx, (name.0, &name.1), ty, options, Some(owner)).await?;
    table.owns.push(sequence.id);
    let def = &mut table.columns[column];
    (def.default, def.identity, def.not_null) = (Some(sequence.default()), identity, true);
    Ok(())
}

/// Returns 55000 about a column.
fn not_in_state(table: &Table, column: usize, what: &str) -> SqlError {
    let (name, relation) = (&table.columns[column].name, &table.name);
    let message = format!("column \"{name}\" of relation \"{relation}\" {what}");
    SqlError::new(state::NOT_IN_STATE, message)
}

/// Returns the sequence of an identity column.
pub(super) async fn identity_of(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
) -> Result<Arc<Sequence>, SqlError> {
    for id in &table.owns {
        let sequence = of_id(cx, *id).await?;
        let is_its = |owner: Owner| owner.is_identity && owner.column as usize == column;
        if sequence.owner.is_some_and(is_its) {
            return Ok(sequence);
        }
    }
    Err(not_in_state(table, column, "is not an identity column"))
}

async fn alter_identity(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
    column: &Ident,
    altered: &IdentityChange,
) -> Result<(), SqlError> {
    let old = open(cx, name).await?;
    let column = bind::target_columns(&old, std::slice::from_ref(column))?[0];
    let mut table = (*old).clone();
    let def = &table.columns[column];
    match altered {
        IdentityChange::Add { always, options } => {
            check_type(def.ty)?;
            if !def.not_null {
                let what = "must be declared NOT NULL before identity can be added";
                return Err(not_in_state(&table, column, what));
            }
            if def.identity.is_some() {
                return Err(not_in_state(&table, column, "is already an identity column"));
            }
            if def.default.is_some() || def.generated.is_some() {
                return Err(not_in_state(&table, column, "already has a default value"));
            }
            give(cx, &mut table, column, Some(kind(*always)), options).await?;
        }
        IdentityChange::Set { always, options } => {
            let sequence = identity_of(cx, &table, column).await?;
            if *options != Options::default() {
                set_options(cx, &sequence, options).await?;
            }
            if let Some(always) = always {
                table.columns[column].identity = Some(kind(*always));
            }
        }
        IdentityChange::Drop { if_exists } => {
            if *if_exists && def.identity.is_none() {
                return Ok(());
            }
            let sequence = identity_of(cx, &table, column).await?;
            table.owns.retain(|id| *id != sequence.id);
            let def = &mut table.columns[column];
            (def.identity, def.default) = (None, None);
            remove(cx, &sequence).await?;
        }
    }
    change(cx, &old, table)
}

/// Returns the kind of an identity column.
pub(super) fn kind(always: bool) -> Identity {
    if always { Identity::Always } else { Identity::ByDefault }
}
