//! The directory: the databases that this node knows of, with the handle of each.
//!
//! A database exists because its row is in `system`. Every node reads those rows as they are
//! installed into its own replica of `system`.
//!
//! ```text
//!   CREATE DATABASE ─▶ transaction in `system` ─▶ row committed ─▶ installed on every node
//!                                                                    └▶ watch ─▶ database opened
//! ```
//!
//! Invariants:
//! 1. A node opens a database when it has seen the row, and closes it when it has seen that the
//!    database was dropped. Outside of that time, messages for the database are dropped like lost
//!    messages.
//! 2. An unknown name is looked up in `system` before the database is reported missing: the row may
//!    be on its way.
//! 3. The code that opens a database by its protocol is named in `protocols.rs` alone.

use crate::context::{BackgroundTask, NodeContext};
use crate::database::{Change, DatabaseCatalog, DatabaseError, DatabaseHandle, Watch};
use crate::flusher::Flushable;
use crate::identity::OpenError;
use crate::transfer::Copied;
use meridian_clock::Timestamp;
use meridian_log::MachineKey;
use meridian_machine::{DatabaseId, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use meridian_placement::{
    DatabaseRow, Databases, FIRST_FREE, FIRST_SHARD, SYSTEM, row_prefix, shards_key,
};
use meridian_store::ShardStore;
use meridian_systems::Protocol;
use meridian_systems::setting::{Nodes, Refused, Setting};
use meridian_systems::shard::MOST_SHARDS;
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Begin, Failure, Future, Lock, Mode, Outcome, ReadAt, Transaction};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause before the retry of a row that could not be applied because the disk is full.
const AGAIN: Duration = Duration::from_millis(200);

/// The databases and their handles.
pub struct Directory {
    context: Arc<NodeContext>,
    databases: RwLock<Databases>,
    handles: RwLock<BTreeMap<DatabaseId, Arc<dyn DatabaseHandle>>>,
    /// The commit timestamp of each applied row. Rows come from this node's own commits, from reads
    /// and from the member of `system`, each of which may be behind another.
    applied: Mutex<BTreeMap<DatabaseId, Timestamp>>,
    /// Rows that could not be applied because the disk is full.
    unlearnt: Mutex<BTreeMap<DatabaseId, (DatabaseRow, Timestamp)>>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn rows_in(writes: &[Write]) -> impl Iterator<Item = DatabaseRow> + '_ {
    let of_database = |write: &&Write| write.key.starts_with(row_prefix());
    writes.iter().filter(of_database).filter_map(|write| DatabaseRow::read(write.value.as_ref()?))
}

impl Directory {
    /// Restores every database that the log and the store know of. `context` makes their shared
    /// context, given the queue of the directory's thread and the directory itself.
    pub fn open(
        context: impl FnOnce(mpsc::Sender<BackgroundTask>, Weak<dyn DatabaseCatalog>) -> NodeContext,
    ) -> Result<Arc<Self>, OpenError> {
        let (background, to_do) = mpsc::channel::<BackgroundTask>();
        let directory = Arc::new_cyclic(|this: &Weak<Directory>| Directory {
            context: Arc::new(context(background, this.clone())),
            databases: RwLock::default(),
            handles: RwLock::default(),
            applied: Mutex::default(),
            unlearnt: Mutex::default(),
            closed: AtomicBool::new(false),
            thread: Mutex::new(None),
        });
        let (background, of_watch) =
            (directory.context.background.clone(), Arc::downgrade(&directory));
        let watch = move |writes: &[Write], at: Timestamp| {
            for row in rows_in(writes) {
                let directory = of_watch.clone();
                let learn = move || {
                    if let Some(directory) = directory.upgrade() {
                        directory.take_in(row, at);
                    }
                };
                let _ = background.send(Box::new(learn));
            }
        };
        directory.begin(&DatabaseRow::new(SYSTEM, "system"), Some(Box::new(watch)))?;
        directory.read_settled_rows().map_err(|error| directory.context.of_store(error))?;
        let rows: Vec<DatabaseRow> = directory.databases.read().iter().cloned().collect();
        for row in rows {
            match directory.handle(row.id) {
                Some(begun) => begun.apply(&row)?,
                None => directory.begin(&row, None)?,
            }
        }
        let of_thread = Arc::downgrade(&directory);
        let thread = directory.context.resources.guard.spawn("databases", move || {
            let mut wait = Duration::MAX;
            loop {
                let task = to_do.recv_timeout(wait);
                let Some(directory) =
                    of_thread.upgrade().filter(|directory| !directory.is_closed())
                else {
                    return;
                };
                match task {
                    Ok(task) => task(),
                    Err(mpsc::RecvTimeoutError::Timeout) => directory.learn_again(),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
                wait = if directory.unlearnt.lock().is_empty() { Duration::MAX } else { AGAIN };
            }
        });
        let thread = thread.map_err(|error| OpenError::File { path: "a thread".into(), error })?;
        *directory.thread.lock() = Some(thread);
        Ok(directory)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Opens a database and starts this node's replicas of it.
    fn begin(&self, row: &DatabaseRow, watch: Option<Watch>) -> Result<(), OpenError> {
        let Some(hosted) = self.context.protocol(&row.protocol) else {
            let DatabaseRow { name, protocol, .. } = row;
            tracing::error!(
                name,
                protocol,
                "a database has a protocol that this version does not know: use a newer version"
            );
            return Ok(());
        };
        let handle = (hosted.open)(row, &self.context)?;
        self.handles.write().insert(row.id, Arc::clone(&handle));
        handle.begin(watch).inspect_err(|error| {
            let name = &row.name;
            tracing::error!(name, %error, "a part of a database is not served here yet");
        })
    }

    /// Closes a database and deletes everything that this node kept of it, including what a crash
    /// left. The row that says that it was dropped is durable.
    fn end(&self, id: DatabaseId) -> Result<(), StoreError> {
        let handle = self.handles.write().remove(&id);
        let left = self.context.records.machines(id);
        for key in &left {
            self.context.records.take(*key);
            self.context.resources.journal.forget(*key);
        }
        let ended = handle.map(|handle| handle.close()).unwrap_or_default();
        // The settler may hold these for another round: it writes nothing more through them.
        ended.iter().for_each(|shard| shard.shard_store().close());
        let mut shards: Vec<u32> =
            ended.iter().map(|shard| shard.shard_store().id().shard).collect();
        for shard in &shards {
            self.context.resources.journal.forget(MachineKey { database: id.0, shard: *shard });
        }
        let mut next = 0;
        shards.extend([FIRST_SHARD.0].into_iter().chain(left.iter().map(|key| key.shard)));
        while let Some(shard) = shards.get(next).copied() {
            let shard_store =
                ShardStore::open(id.0, shard, Arc::clone(&self.context.resources.store))?;
            let left = shard_store.left()?.into_iter().map(|left| left.child);
            let of_it = shard_store.children()?.into_iter().map(|(child, _)| child).chain(left);
            let new: Vec<u32> = of_it.filter(|child| !shards.contains(child)).collect();
            shards.extend(new);
            next += 1;
        }
        shards.into_iter().try_for_each(|shard| {
            ShardStore::open(id.0, shard, Arc::clone(&self.context.resources.store))?.forget()
        })
    }

    /// Returns this node's replica of the shard with the database rows.
    fn catalog(&self) -> Option<Arc<dyn Flushable>> {
        let shards = self.handle(SYSTEM).map(|system| system.shards()).unwrap_or_default();
        shards.into_iter().find(|shard| shard.shard_store().id().shard == FIRST_SHARD.0)
    }

    /// Reads the database rows of `system` from the store. Later rows reach the directory by the
    /// watch.
    fn read_settled_rows(&self) -> Result<(), StoreError> {
        let Some(first) = self.catalog() else { return Ok(()) };
        let shard_store = first.shard_store();
        let at = shard_store.extent()?.at;
        let mut range = Some(KeyRange::prefix(row_prefix()));
        while let Some(part) = range {
            let chunk = shard_store.scan(&part, at, false, 1000, 1 << 20)?;
            for row in chunk.rows.iter().filter_map(|(_, value)| DatabaseRow::read(value)) {
                if row.dropped {
                    self.end(row.id)?;
                }
                self.databases.write().learn(row);
            }
            range = chunk.rest;
        }
        Ok(())
    }

    /// Applies a row that was committed at a timestamp: opens, changes or closes a database. A row
    /// that is older than the applied one changes nothing.
    fn learn(&self, row: DatabaseRow, at: Timestamp) -> Result<(), OpenError> {
        // Held throughout, so that a concurrent call for the same row finds the replica started.
        let mut databases = self.databases.write();
        let id = row.id;
        let is_newest = {
            let mut applied = self.applied.lock();
            let newest = applied.entry(id).or_insert(at);
            *newest = at.max(*newest);
            *newest == at
        };
        if is_newest {
            databases.learn(row);
        }
        let lives = databases.iter().find(|known| known.id == id);
        match (self.handle(id), lives) {
            (Some(handle), Some(row)) => handle.apply(row)?,
            (None, Some(row)) => self.begin(row, None)?,
            (_, None) => {}
        }
        let lives = lives.is_some();
        drop(databases);
        if lives {
            return Ok(());
        }
        // Once for each database: `look` meets the rows of all that were ever dropped.
        let has_log = self.handle(id).is_some() || !self.context.records.machines(id).is_empty();
        let catalog = self.catalog().filter(|_| has_log);
        let settled = catalog.map_or(Ok(()), |catalog| catalog.shard_store().settle());
        settled.and_then(|()| self.end(id)).map_err(|error| self.context.of_store(error))
    }

    /// Applies a row on the directory's thread, which retries on errors.
    fn take_in(&self, row: DatabaseRow, at: Timestamp) {
        let id = row.id;
        match self.learn(row.clone(), at) {
            Ok(()) => drop(self.unlearnt.lock().remove(&id)),
            Err(error) => {
                tracing::error!(%error, "cannot open or close a database on this node; trying again");
                self.unlearnt.lock().insert(id, (row, at));
            }
        }
    }

    fn learn_again(&self) {
        let rows = std::mem::take(&mut *self.unlearnt.lock());
        let fails = |(row, at): &(DatabaseRow, Timestamp)| self.learn(row.clone(), *at).is_err();
        let failed: Vec<_> = rows.into_iter().filter(|(_, known)| fails(known)).collect();
        self.unlearnt.lock().extend(failed);
    }

    /// Reads all rows of `system` and applies them.
    pub async fn look(&self) -> Result<(), Failure> {
        let mut transaction = self.begin_in_system(Mode::ReadOnly(ReadAt::Now)).await?;
        transaction.show_versions();
        for (row, at) in read_rows(&mut *transaction, Lock::Shared).await? {
            self.learn(row, at).map_err(|error| Failure::Storage(error.to_string()))?;
        }
        Ok(())
    }

    /// Waits until every row that was installed before this call is applied.
    /// Returns false after `at_most`.
    pub fn catch_up(&self, at_most: Duration) -> bool {
        let (done, heard) = mpsc::channel();
        self.context.run_in_background(move || {
            let _ = done.send(()); // The caller may have given up.
        });
        heard.recv_timeout(at_most).is_ok()
    }

    /// Returns a database by id.
    pub fn handle(&self, id: DatabaseId) -> Option<Arc<dyn DatabaseHandle>> {
        self.handles.read().get(&id).cloned()
    }

    /// Returns this node's replica of a shard, for copies of whole shards.
    pub fn copied(&self, key: MachineKey) -> Option<Arc<dyn Copied>> {
        self.handle(DatabaseId(key.database))?.copied(ShardId(key.shard))
    }

    /// Returns this node's replicas of all shards, for the settler.
    pub fn shards(&self) -> Vec<Arc<dyn Flushable>> {
        self.handles().iter().flat_map(|handle| handle.shards()).collect()
    }

    /// Returns all databases.
    pub fn handles(&self) -> Vec<Arc<dyn DatabaseHandle>> {
        self.handles.read().values().cloned().collect()
    }

    /// Returns the databases that exist, ordered by id.
    pub fn list(&self) -> Vec<(DatabaseRow, Arc<dyn DatabaseHandle>)> {
        let databases = self.databases.read();
        let handles = self.handles.read();
        databases
            .iter()
            .filter_map(|row| Some((row.clone(), Arc::clone(handles.get(&row.id)?))))
            .collect()
    }

    /// Returns a database by name, if this node has seen it.
    pub fn known(&self, name: &str) -> Option<Arc<dyn DatabaseHandle>> {
        let id = self.databases.read().named(name)?.id;
        self.handle(id)
    }

    /// Returns a database by name. Looks up `system` for one that this node has not seen yet.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<dyn DatabaseHandle>>, Failure> {
        if let Some(handle) = self.known(name) {
            return Ok(Some(handle));
        }
        self.look().await?;
        Ok(self.known(name))
    }

    /// Returns a database that is to be changed. Fails if none has this name.
    async fn existing(&self, name: &str) -> Result<Arc<dyn DatabaseHandle>, DatabaseError> {
        let found = self.find(name).await.map_err(DatabaseError::Failed)?;
        found.ok_or_else(|| DatabaseError::Missing(name.into()))
    }

    async fn begin_in_system(&self, mode: Mode) -> Result<Box<dyn Transaction>, Failure> {
        let system = self.handle(SYSTEM).expect("invariant: system exists from birth");
        system.database().begin(Begin::new(mode)).await
    }

    /// Creates a database with replicas on these nodes, or on all if none are named. Its row in
    /// `system` is what makes it exist.
    pub async fn create_database(
        &self,
        name: &str,
        protocol: &Protocol,
        members: Vec<NodeId>,
    ) -> Result<(), DatabaseError> {
        let Some(hosted) = self.context.protocol(protocol.name) else {
            let why = format!("protocol \"{}\" does not run in this version", protocol.name);
            return Err(DatabaseError::Protocol(why));
        };
        let replicas = (hosted.choose_replicas)(members, &self.context.members)?;
        self.write(|databases| match databases.named(name) {
            Some(_) => Err(DatabaseError::Exists(name.into())),
            None => {
                let row = DatabaseRow::new(databases.next_id(), name);
                Ok(DatabaseRow {
                    protocol: protocol.name.into(),
                    replicas: replicas.clone(),
                    ..row
                })
            }
        })
        .await
    }

    /// Drops a database with all its data.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        self.write(|databases| match databases.named(name) {
            None => Err(DatabaseError::Missing(name.into())),
            Some(row) if row.id < FIRST_FREE => Err(DatabaseError::Permanent(name.into())),
            Some(row) => Ok(DatabaseRow { dropped: true, ..row.clone() }),
        })
        .await
    }

    /// Sets a setting of a database on all nodes; `None` restores the default.
    pub async fn set(
        &self,
        database: &str,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), DatabaseError> {
        self.write(|databases| {
            let row =
                databases.named(database).ok_or_else(|| DatabaseError::Missing(database.into()))?;
            let (protocol, setting) = self.setting_of(row, name)?;
            let mut settings = row.settings.clone();
            settings.remove(setting.name);
            if let Some(value) = value {
                let refused = |refused| match refused {
                    Refused::Value(why) => {
                        DatabaseError::Setting { why, hint: setting.hint.into() }
                    }
                    Refused::Protocol(why) => DatabaseError::Protocol(why),
                };
                let value = setting.validate(protocol, value).map_err(refused)?;
                settings.insert(setting.name.into(), value);
            }
            let row = DatabaseRow { settings, ..row.clone() };
            self.check_nodes(setting, &row)?;
            Ok(row)
        })
        .await
    }

    /// Refuses a setting that names a node that is no member of the cluster.
    fn check_nodes(&self, setting: &Setting, row: &DatabaseRow) -> Result<(), DatabaseError> {
        let Nodes::Listed(nodes) = setting.nodes(row) else { return Ok(()) };
        let members = &self.context.members;
        let Some(stranger) = nodes.iter().find(|node| !members.contains(node)) else {
            return Ok(());
        };
        let numbers: Vec<String> = members.iter().map(|node| node.0.to_string()).collect();
        let (why, hint) = (
            format!("{}: node {} is no member of this cluster", setting.name, stranger.0),
            format!("Its members are {}.", numbers.join(", ")),
        );
        Err(DatabaseError::Setting { why, hint })
    }

    /// Returns the database's protocol, and its setting of this name. The error names the databases
    /// that have it, or the settings there are.
    fn setting_of(
        &self,
        row: &DatabaseRow,
        name: &str,
    ) -> Result<(&'static Protocol, &'static Setting), DatabaseError> {
        let of_row = self.context.protocol(&row.protocol).map(|hosted| hosted.protocol);
        let found = of_row.and_then(|protocol| Some((protocol, protocol.setting(name)?)));
        if let Some(found) = found {
            return Ok(found);
        }
        let others = self.context.protocols.iter().map(|hosted| hosted.protocol);
        let having: Vec<&str> =
            others.filter(|other| other.setting(name).is_some()).map(|other| other.name).collect();
        if having.is_empty() {
            let known = of_row
                .map(|protocol| protocol.settings())
                .into_iter()
                .flatten()
                .map(|setting| setting.name);
            let known: Vec<&str> = known.collect();
            let why = format!("a database has no setting \"{name}\"");
            return Err(DatabaseError::NoSetting {
                why,
                hint: format!("There are {}.", known.join(", ")),
            });
        }
        let (having, DatabaseRow { name: database, protocol, .. }) = (having.join(" or "), row);
        let why = format!(
            "only databases of protocol {having} have {name}: the protocol of \"{database}\" is {protocol}"
        );
        Err(DatabaseError::Protocol(why))
    }

    /// Returns a setting of a database with its value as text, from the row or by default, as far
    /// as this node has seen the row. The value is `None` if the node decides.
    pub fn setting(
        &self,
        database: &str,
        name: &str,
    ) -> Option<(&'static Setting, Option<String>)> {
        let databases = self.databases.read();
        let row = databases.named(database)?;
        let (protocol, setting) = self.setting_of(row, name).ok()?;
        Some((setting, setting.text(protocol, row)))
    }

    /// Returns the settings that a database has in its row, by name, as far as this node has seen
    /// the row.
    pub fn settings(&self, database: &str) -> BTreeMap<String, String> {
        let databases = self.databases.read();
        databases.named(database).map(|row| row.settings.clone()).unwrap_or_default()
    }

    /// Splits a database at each of these keys.
    pub async fn split(&self, name: &str, keys: Vec<Key>) -> Result<(), DatabaseError> {
        self.existing(name).await?.split(keys).await
    }

    /// Gives all shards of a database these members.
    pub async fn change_members(
        &self,
        name: &str,
        members: MemberRoles,
    ) -> Result<(), DatabaseError> {
        let handle = self.existing(name).await?;
        if self.databases.read().named(name).is_some_and(|row| row.id == SYSTEM) {
            let why = "every node has a member of \"system\", by which it knows the databases: choose another database";
            return Err(DatabaseError::Failed(Failure::Refused(why.into())));
        }
        let changed = handle.change_members(members).await;
        changed.map_err(|error| match error {
            DatabaseError::Missing(_) => DatabaseError::Missing(name.into()), // Dropped meanwhile.
            error => error,
        })
    }

    /// Takes ids for new shards of a database. No id is given out twice, even if its shard is never
    /// created.
    async fn take_shards(&self, id: DatabaseId, many: usize) -> Result<Range<u32>, Failure> {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        if many == 0 {
            return Ok(0..0);
        }
        let key = Key::from(shards_key(id));
        loop {
            let taken = async {
                let mut transaction = self.begin_in_system(Mode::ReadWrite).await?;
                let last = transaction.get(&key, Lock::Exclusive).await?;
                let last = last
                    .and_then(|value| <[u8; 4]>::try_from(&value[..]).ok())
                    .map_or(0, u32::from_be_bytes);
                let end = last.saturating_add(many).min(MOST_SHARDS);
                if end < MOST_SHARDS {
                    transaction.put(key.clone(), Some(Value::from(end.to_be_bytes().to_vec())))?;
                }
                Ok((last + 1..end + 1, transaction.commit().await))
            };
            match taken.await {
                Ok((shards, _)) if shards.end > MOST_SHARDS => {
                    let had = shards.start - 1;
                    let why = format!(
                        "a database has at most {MOST_SHARDS} shards in its life: this one had {had}, and {many} more are needed"
                    );
                    return Err(Failure::Unavailable(why));
                }
                Ok((shards, Outcome::Committed { .. })) => return Ok(shards),
                // Unknown or aborted: takes other ids, because those of an unknown outcome may be
                // in use.
                Ok(_) | Err(Failure::Aborted(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Writes the row that `decide` returns for the present rows of `system`, and applies it here.
    async fn write(
        &self,
        decide: impl Fn(&Databases) -> Result<DatabaseRow, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        const ATTEMPTS: usize = 10;
        let failed = DatabaseError::Failed;
        for attempt in 1.. {
            let outcome = async {
                let mut transaction = self.begin_in_system(Mode::ReadWrite).await?;
                let rows = read_rows(&mut *transaction, Lock::Exclusive).await?;
                let mut databases = Databases::initial();
                for (row, _) in rows {
                    databases.learn(row);
                }
                let row = match decide(&databases) {
                    Ok(row) => row,
                    Err(error) => return Ok(Err(error)),
                };
                transaction.put(Key::from(row.key()), Some(Value::from(row.value())))?;
                Ok(Ok((row, transaction.commit().await)))
            };
            match outcome.await {
                Ok(Ok((row, Outcome::Committed { at }))) => {
                    let begun = self.learn(row, at);
                    return begun.map_err(|error| failed(Failure::Storage(error.to_string())));
                }
                Ok(Ok((_, Outcome::Unknown))) => {
                    let what = "it is not known whether the change of the database happened: look \
                                at the database before you ask for it again";
                    return Err(failed(Failure::Unavailable(what.into())));
                }
                Ok(Err(error)) => return Err(error),
                Ok(Ok((_, Outcome::Aborted { why }))) | Err(Failure::Aborted(why))
                    if attempt == ATTEMPTS =>
                {
                    return Err(failed(Failure::Aborted(why)));
                }
                Ok(Ok((_, Outcome::Aborted { .. }))) | Err(Failure::Aborted(_)) => {}
                Err(failure) => return Err(failed(failure)),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Ends the thread and closes every database. Queued tasks are dropped: the next start finds
    /// their reasons again.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.context.run_in_background(|| {}); // Wakes the thread.
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        self.handles().iter().for_each(|handle| drop(handle.close()));
    }
}

impl DatabaseCatalog for Directory {
    fn new_shards(&self, id: DatabaseId, many: usize) -> Future<'_, Result<Range<u32>, Failure>> {
        Box::pin(self.take_shards(id, many))
    }

    fn change_row(&self, id: DatabaseId, change: Change) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(async move {
            let missing = || DatabaseError::Missing(format!("number {}", id.0));
            let decide = |databases: &Databases| {
                change(databases.iter().find(|row| row.id == id).ok_or_else(missing)?)
            };
            self.write(decide).await
        })
    }
}

/// Reads all database rows, with their commit timestamps if the transaction shows versions.
async fn read_rows(
    transaction: &mut dyn Transaction,
    lock: Lock,
) -> Result<Vec<(DatabaseRow, Timestamp)>, Failure> {
    let mut rows = Vec::new();
    let mut range = Some(KeyRange::prefix(row_prefix()));
    while let Some(part) = range {
        let chunk = transaction.scan(&part, lock, false, 1000).await?;
        let mut committed = chunk.at.into_iter();
        for (_, value) in &chunk.rows {
            let at = committed.next().flatten().unwrap_or(Timestamp::ZERO);
            rows.extend(DatabaseRow::read(value).map(|row| (row, at)));
        }
        range = chunk.rest;
    }
    Ok(rows)
}
