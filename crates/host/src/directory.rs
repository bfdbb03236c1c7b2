//! The databases that this node knows of, and the way to each.
//!
//! A database exists because its row stands in `system`. Every node reads those rows where it sees everything anyway: as they are
//! installed into its own copy of `system`.
//!
//! ```text
//!   CREATE DATABASE ──▶ transaction in `system` ──▶ row agreed on ──▶ installed on every node ──▶ watch ──▶ member begins
//! ```
//!
//! Invariants:
//! 1. A node begins its members of a database when it has seen the row, and ends them when it has seen that it is dropped; until then
//!    messages for them are dropped like any lost message. In between, leaders say of which shards it is a member.
//! 2. A name that is not known here is looked up in `system` before it is called missing: the row may be under way.

use crate::desk::{Desk, Leaderless};
use crate::gateway::{Door, Gateway, Local};
use crate::identity::OpenError;
use crate::member::{self, Begun, MemberShard, Patience, Place};
use crate::peers::Peers;
use crate::plumbing::Plumbing;
use crate::qwstore::{self, QwStore};
use crate::resident::Input;
use crate::sessions::{Lifecycle, Sessions};
use crate::settle::Settles;
use crate::tapir::{self, Tapir};
use crate::transfer::Transfers;
use bytes::Bytes;
use meridian_log::MachineKey;
use meridian_machine::{DatabaseId, Incarnation, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use meridian_placement::{
    DatabaseRow, Databases, FIRST_FREE, FIRST_SHARD, SYSTEM, keys_untold, row_prefix, shards_key,
};
use meridian_replication::group::{Index, Membership, Roster, Stay};
use meridian_store::{Left, Space};
use meridian_systems::Recipe;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::spanner::{Damaged, MOST_SHARDS, Origin, Replica};
use meridian_systems::tapir::lifecycle::{self, Begins, Turn};
use meridian_systems::tapir::{Forgetting, have_taken_over, rows};
use meridian_txn::locking::Members;
use meridian_txn::tapir::Guarantee;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a database was not created or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// There is one of this name: SQLSTATE 42P04.
    Exists(String),
    /// There is none of this name: SQLSTATE 3D000.
    Missing(String),
    /// It exists from birth and stays: SQLSTATE 42501.
    Permanent(String),
    /// No such replicas can be: SQLSTATE 22023.
    Replicas(String),
    /// Databases of its protocol do not have that: SQLSTATE 42809.
    Protocol(String),
    /// The transaction in `system` failed.
    Failed(Failure),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseError::Exists(name) => write!(f, "database \"{name}\" already exists"),
            DatabaseError::Missing(name) => write!(f, "database \"{name}\" does not exist"),
            DatabaseError::Permanent(name) => write!(f, "database \"{name}\" cannot be dropped"),
            DatabaseError::Replicas(why) | DatabaseError::Protocol(why) => f.write_str(why),
            DatabaseError::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for DatabaseError {}

/// A node that has agreed on a split has its member of the new shard within so long, mostly.
const BORN_WITHIN_NS: u64 = 5_000_000_000;
/// Numbers of shards that a split of many keys takes at once: as many are lost if it fails, and a database has not for ever more.
const NUMBERS_AT_ONCE: usize = 32;

/// Replicas that take over have everything within so long, or whoever waits for that is told that they have not.
const TAKEN_OVER_WITHIN_NS: u64 = 120_000_000_000;

/// What cannot be done for want of room is tried again after this.
const AGAIN: Duration = Duration::from_millis(200);

/// What the directory's thread does, one after the other.
enum Task {
    /// A row of `system` was installed here.
    Learn(DatabaseRow),
    /// This node is a member of a shard since an entry.
    Invite(DatabaseId, ShardId, Stay),
    /// This node is no member of a shard any more since an entry.
    Leave(DatabaseId, ShardId, Index),
    Stop,
}

/// Where members of one database come from, and go.
struct OfDatabase {
    database: DatabaseId,
    directory: Weak<Directory>,
    tasks: mpsc::Sender<Task>,
}

impl Lifecycle for OfDatabase {
    fn bear(&self, parent: ShardId, (child, bounds): (ShardId, KeyRange), eager: bool) -> bool {
        let Some(directory) = self.directory.upgrade() else { return true };
        let Some(gateway) = directory.gateway(self.database) else { return true };
        let sessions = gateway.site().sessions();
        let _alone = directory.bearing.lock();
        let begun = directory.bear_child(sessions, parent, (child, bounds), eager);
        if let Err(error) = &begun {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node; trying again");
        }
        begun.is_ok()
    }

    // Asked for within a step of a machine: done after it.

    fn invite(&self, shard: ShardId, stay: Stay) {
        let _ = self.tasks.send(Task::Invite(self.database, shard, stay));
    }

    fn leave(&self, shard: ShardId, since: Index) {
        let _ = self.tasks.send(Task::Leave(self.database, shard, since));
    }
}

/// What the log has of each machine, not read yet.
pub type Records = BTreeMap<MachineKey, Vec<Bytes>>;

/// Where the members of this node find themselves.
pub struct Here {
    /// This node.
    pub me: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// All members of the cluster.
    pub members: Vec<NodeId>,
    /// How patient they are.
    pub patience: Patience,
    /// When replicas without a leader forget what is over.
    pub forgetting: Forgetting,
    /// The folder, for errors to name.
    pub folder: Option<PathBuf>,
    /// What its machines share.
    pub plumbing: Arc<Plumbing>,
    /// The links.
    pub peers: Arc<OnceLock<Arc<Peers>>>,
    /// Who copies whole shards.
    pub transfers: Arc<OnceLock<Arc<Transfers>>>,
}

/// The databases and the doors to them.
pub struct Directory {
    here: Here,
    databases: RwLock<Databases>,
    doors: RwLock<BTreeMap<DatabaseId, Door>>,
    /// What the log has of machines that have not begun in this life.
    records: Mutex<Records>,
    tasks: Mutex<mpsc::Sender<Task>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// One member after the other.
    bearing: Mutex<()>,
    this: Weak<Directory>,
}

fn rows_in(writes: &[Write]) -> impl Iterator<Item = DatabaseRow> + '_ {
    let of_database = |write: &&Write| write.key.starts_with(row_prefix());
    writes.iter().filter(of_database).filter_map(|write| DatabaseRow::read(write.value.as_ref()?))
}

impl Directory {
    /// Brings back every database that the log and the store know of.
    pub fn open(here: Here, records: Records) -> Result<Arc<Self>, OpenError> {
        let (tasks, to_do) = mpsc::channel::<Task>();
        let directory = Arc::new_cyclic(|this| Directory {
            here,
            databases: RwLock::default(),
            doors: RwLock::default(),
            records: Mutex::new(records),
            tasks: Mutex::new(tasks.clone()),
            thread: Mutex::new(None),
            bearing: Mutex::new(()),
            this: this.clone(),
        });
        let watch =
            Box::new(move |writes: &[Write]| rows_in(writes).for_each(|row| drop(tasks.send(Task::Learn(row)))));
        directory.begin(&DatabaseRow::new(SYSTEM, "system"), Some(watch))?;
        directory.read_settled_rows().map_err(|error| directory.of_store(error))?;
        let rows: Vec<DatabaseRow> = directory.databases.read().iter().cloned().collect();
        for row in rows {
            match directory.door(row.id) {
                Some(begun) => begun.heed(&row),
                None => directory.begin(&row, None)?,
            }
        }
        let of_thread = Arc::downgrade(&directory);
        let thread = directory.here.plumbing.guard.spawn("databases", move || {
            // Rows that could not be learnt, for want of room.
            let mut unlearnt: BTreeMap<DatabaseId, DatabaseRow> = BTreeMap::new();
            loop {
                let wait = if unlearnt.is_empty() { Duration::MAX } else { AGAIN };
                let task = match to_do.recv_timeout(wait) {
                    Ok(task) => Some(task),
                    Err(mpsc::RecvTimeoutError::Timeout) => None,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                };
                let Some(directory) = of_thread.upgrade() else { return };
                let Some(task) = task else {
                    unlearnt.retain(|_, row| directory.learn(row.clone()).is_err());
                    continue;
                };
                match task {
                    Task::Learn(row) => match directory.learn(row.clone()) {
                        Ok(()) => drop(unlearnt.remove(&row.id)),
                        Err(error) => {
                            tracing::error!(%error, "a database cannot be begun or ended on this node; trying again");
                            unlearnt.insert(row.id, row);
                        }
                    },
                    Task::Invite(database, shard, stay) => {
                        if let Err(error) = directory.invite(database, shard, stay) {
                            tracing::error!(%error, "a member of a shard cannot be begun on this node; its leader asks again");
                        }
                    }
                    Task::Leave(database, shard, since) => directory.leave(database, shard, since),
                    Task::Stop => return,
                }
            }
        });
        let thread = thread.map_err(|error| OpenError::File { path: "a thread".into(), error })?;
        *directory.thread.lock() = Some(thread);
        Ok(directory)
    }

    fn of_store(&self, error: StoreError) -> OpenError {
        OpenError::Storage { path: self.here.folder.clone().unwrap_or_default(), what: error.to_string() }
    }

    /// Brings to life what this node has of a database.
    fn begin(&self, row: &DatabaseRow, watch: Option<member::Watch>) -> Result<(), OpenError> {
        match Recipe::named(&row.protocol) {
            Some(Recipe::Spanner) => self.begin_members(row.id, row.retention_ns, watch),
            Some(Recipe::Tapir(guarantee)) => self.begin_tapir(row, guarantee),
            Some(Recipe::QwStore) => self.begin_qwstore(row),
            None => {
                let DatabaseRow { name, protocol, .. } = row;
                tracing::error!(name, protocol, "a database runs by a protocol that this version does not know");
                Ok(())
            }
        }
    }

    /// Brings to life its replica of a database whose replicas validate.
    fn begin_tapir(&self, row: &DatabaseRow, guarantee: Guarantee) -> Result<(), OpenError> {
        let desk = self.new_desk(row, Tapir::default());
        let gateway = Arc::new(tapir::Gateway::new(Arc::clone(&desk), guarantee));
        self.begin_replica(row, guarantee, &desk)?;
        self.doors.write().insert(row.id, Door::Tapir(gateway));
        desk.set_prepare_wait(row.prepare_wait_ns);
        Ok(())
    }

    /// Its replica, if the row gives it one, with what the store and the log have of its stay.
    fn begin_replica(&self, row: &DatabaseRow, guarantee: Guarantee, desk: &Arc<tapir::Desk>) -> Result<(), OpenError> {
        let (key, here) = (MachineKey { database: row.id.0, shard: FIRST_SHARD.0 }, &self.here);
        let kept = self.records.lock().get(&key).cloned().unwrap_or_default();
        let mut records: Vec<tapir::Kept> = self.read(Kind::Tapir, &kept)?;
        let failed = |error| self.of_store(error);
        let mut space = Space::open(key.database, key.shard, Arc::clone(&here.plumbing.store)).map_err(failed)?;
        let as_of = space.as_of().map_err(failed)?;
        let begins = lifecycle::begins(row, &here.members, here.me, as_of, &mut records);
        let (with, let_go) = match begins {
            Begins::Waits => (None, None),
            Begins::Without { let_go } => (None, let_go),
            Begins::With { stay, let_go } => (Some(stay), let_go),
        };
        if let Some(as_of) = let_go {
            space = space.let_go(as_of).map_err(failed)?;
            here.plumbing.journal.forget(key);
        }
        if let Some(stay) = with {
            if stay > 0 && let_go.is_some() {
                tracing::info!(database = row.id.0, epoch = row.epoch, "takes over as a replica of a database");
            }
            let (forgetting, takes_over) = (here.forgetting, stay > 0);
            let place = tapir::Place { space, guarantee, forgetting, takes_over, desk: Arc::clone(desk) };
            tapir::begin(place, records).map_err(failed)?.into_iter().for_each(|replica| desk.add(replica));
        }
        if begins != Begins::Waits {
            self.records.lock().remove(&key);
        }
        desk.lifecycle().begun(rows::members(row, &here.members), begins);
        Ok(())
    }

    /// Other nodes' replicas take over, or this one's does, or this node has none any more.
    fn take_over(&self, row: &DatabaseRow, guarantee: Guarantee, desk: &Arc<tapir::Desk>) -> Result<(), OpenError> {
        let (me, all) = (self.here.me, &self.here.members);
        desk.reconfigure(rows::members(row, all));
        let turn = desk.lifecycle().turn(row, all, me);
        match turn {
            Turn::Nothing => Ok(()),
            Turn::Reconfigure(members) => {
                desk.lifecycle().reconfigured(members.clone());
                if let Some(replica) = desk.replica() {
                    replica.post(Input::Call(Box::new(move |replica: &mut tapir::Replica, now, out| {
                        replica.reconfigure(now, members, out);
                    })));
                }
                Ok(())
            }
            Turn::Anew => {
                if let Some(replica) = desk.remove() {
                    replica.world().space().close();
                    desk.lifecycle().stopped();
                }
                self.begin_replica(row, guarantee, desk)
            }
        }
    }

    /// The same where nobody agrees on anything.
    fn begin_qwstore(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        let desk = self.new_desk(row, QwStore);
        let (key, records) = self.take_records(row, Kind::QwStore)?;
        let replica = qwstore::begin(key, Arc::clone(&desk), records).map_err(|error| self.of_store(error))?;
        self.doors.write().insert(row.id, Door::QwStore(Arc::new(qwstore::Gateway::new(Arc::clone(&desk)))));
        replica.into_iter().for_each(|replica| desk.add(replica));
        Ok(())
    }

    /// Where sessions of a database without leaders meet.
    fn new_desk<R: Leaderless>(&self, row: &DatabaseRow, recipe: R) -> Arc<Desk<R>> {
        let here = &self.here;
        let members = rows::members(row, &here.members);
        let me = (here.me, here.incarnation);
        let desk = Desk::new(row.id, me, members, Arc::clone(&here.plumbing), Arc::clone(&here.peers), recipe);
        desk.retain(row.retention_ns);
        desk
    }

    /// What the log has of the replica of a database without leaders.
    fn take_records<R: for<'b> minicbor::Decode<'b, ()>>(
        &self,
        row: &DatabaseRow,
        kind: Kind,
    ) -> Result<(MachineKey, Vec<R>), OpenError> {
        let key = MachineKey { database: row.id.0, shard: FIRST_SHARD.0 };
        let kept = self.records.lock().remove(&key).unwrap_or_default();
        Ok((key, self.read(kind, &kept)?))
    }

    /// What the log has of a machine.
    fn read<R: for<'b> minicbor::Decode<'b, ()>>(&self, kind: Kind, kept: &[Bytes]) -> Result<Vec<R>, OpenError> {
        let path = || self.here.folder.clone().unwrap_or_default().join("log");
        let records: Result<Vec<Vec<R>>, String> = kept.iter().map(|bytes| envelope::read(kind, bytes)).collect();
        Ok(records.map_err(|what| OpenError::Damaged { path: path(), what })?.into_iter().flatten().collect())
    }

    /// Brings to life its members of a database's groups.
    fn begin_members(
        &self,
        id: DatabaseId,
        retention_ns: Option<u64>,
        watch: Option<member::Watch>,
    ) -> Result<(), OpenError> {
        let here = &self.here;
        let tasks = self.tasks.lock().clone();
        let lifecycle = Box::new(OfDatabase { database: id, directory: self.this.clone(), tasks });
        let (me, nodes) = ((here.me, here.incarnation), here.members.clone());
        let sessions = Sessions::new(id, me, nodes, Arc::clone(&here.plumbing), Arc::clone(&here.peers), lifecycle);
        sessions.retain(retention_ns);
        let gateway = Arc::new(Gateway::new(Local::new(Arc::clone(&sessions))));
        self.doors.write().insert(id, Door::Spanner(gateway));
        let _alone = self.bearing.lock();
        self.bear(&sessions, (FIRST_SHARD, KeyRange::all()), Origin::Placed(Box::new(self.all_nodes())), false, watch)?;
        // Those whose parents have no member here.
        let remembered: Vec<u32> =
            self.records.lock().keys().filter(|key| key.database == id.0).map(|key| key.shard).collect();
        let mut remembered = remembered.into_iter().map(ShardId);
        remembered
            .try_for_each(|shard| self.bear(&sessions, (shard, keys_untold(shard)), Origin::Remembered, false, None))
    }

    fn all_nodes(&self) -> Membership {
        Membership::at_birth(Roster::voters(self.here.members.iter().copied()))
    }

    /// A leader has made this node a member of a shard, by an entry: if it was one and was removed later, it is none.
    fn invite(&self, id: DatabaseId, shard: ShardId, stay: Stay) -> Result<(), OpenError> {
        let since = stay.since;
        let Some(gateway) = self.gateway(id) else { return Ok(()) };
        if gateway.site().sessions().member(shard).is_some() {
            return Ok(()); // It was asked for twice.
        }
        let removed =
            Space::removed(id.0, shard.0, &*self.here.plumbing.store).map_err(|error| self.of_store(error))?;
        if removed.is_some_and(|removed| removed >= since.0) {
            return Ok(());
        }
        if since == Index(0) && expects(gateway.site().sessions(), shard) {
            return Ok(()); // With it come the rows that it began with.
        }
        let _alone = self.bearing.lock();
        let key = MachineKey { database: id.0, shard: shard.0 };
        if self.records.lock().contains_key(&key) {
            if since == Index(0) {
                return Ok(()); // It has been one since the shard's birth, of which it will read in its parent's log.
            }
            // What the log has is of an earlier stay, which has ended.
            self.records.lock().remove(&key);
            self.here.plumbing.journal.forget(key);
        }
        tracing::info!(database = id.0, shard = shard.0, %since, "becomes a member of a shard");
        self.bear(gateway.site().sessions(), (shard, keys_untold(shard)), Origin::Invited(stay), false, None)
    }

    /// This node is no member of a shard any more: what it has of it goes.
    fn leave(&self, id: DatabaseId, shard: ShardId, since: Index) {
        let Some(gateway) = self.gateway(id) else { return };
        let sessions = gateway.site().sessions();
        let Some(member) = sessions.remove(shard) else { return };
        tracing::info!(database = id.0, shard = shard.0, %since, "is no member of a shard any more");
        let _alone = self.bearing.lock();
        let (world, space) = (member.world(), member.world().space());
        while let Err(error) =
            space.leave(since.0, |child| Origin::keep(world.members_at_birth(ShardId(child)).as_ref()))
        {
            tracing::error!(%error, "what this node has of a shard cannot be removed; trying again");
            member.world().heed(&error);
            if sessions.is_closed() {
                return; // The next life hears of it again.
            }
            std::thread::sleep(AGAIN);
        }
        let left = space.left().map_err(|error| self.of_store(error));
        if let Err(error) = left.and_then(|left| self.bear_left(sessions, left)) {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node before its next start");
        }
        self.here.plumbing.journal.forget(MachineKey { database: id.0, shard: shard.0 });
    }

    /// Brings a shard's member to life, if this node has one, and those that were split off from it.
    fn bear(
        &self,
        sessions: &Arc<Sessions>,
        (shard, bounds): (ShardId, KeyRange),
        origin: Origin,
        eager: bool,
        watch: Option<member::Watch>,
    ) -> Result<(), OpenError> {
        if sessions.member(shard).is_some() || sessions.is_closed() {
            return Ok(());
        }
        let here = &self.here;
        let key = MachineKey { database: sessions.database().0, shard: shard.0 };
        let kept = self.records.lock().get(&key).cloned().unwrap_or_default();
        let records = self.read(Kind::Spanner, &kept)?;
        let place = Place {
            key,
            bounds,
            origin,
            eager,
            nodes: here.members.clone(),
            patience: here.patience,
            peers: Arc::clone(&here.peers),
            transfers: Arc::clone(&here.transfers),
            sessions: Arc::clone(sessions),
            watch,
        };
        let Begun { member, removed, left } =
            member::begin(place, &here.plumbing, records).map_err(|error| self.of_store(error))?;
        // Of one that is not known to be a member nothing is forgotten that it voted and promised: its parent's copy may yet say that it was born here.
        if member.is_some() || removed {
            self.records.lock().remove(&key);
        }
        self.bear_left(sessions, left)?;
        let Some(member) = member else {
            if removed && !kept.is_empty() {
                here.plumbing.journal.forget(key);
            }
            return Ok(());
        };
        let children = member.world().space().children().map_err(|error| self.of_store(error))?;
        sessions.add(member);
        let mut children = children.into_iter();
        children.try_for_each(|(child, bounds)| self.bear_child(sessions, shard, (ShardId(child), bounds), false))
    }

    /// The same for one that was split off from a shard of which this node has a member.
    fn bear_child(
        &self,
        sessions: &Arc<Sessions>,
        parent: ShardId,
        (child, bounds): (ShardId, KeyRange),
        eager: bool,
    ) -> Result<(), OpenError> {
        sessions.learn_route(&bounds.start, bounds.start.clone(), child);
        let Some(parent) = sessions.member(parent) else { return Ok(()) }; // Who leaves the parent is told of what it leaves.
        let members = parent.world().members_at_birth(child);
        let origin = Origin::Born(Box::new(members.unwrap_or_else(|| self.all_nodes())));
        self.bear(sessions, (child, bounds), origin, eager, None)
    }

    /// The same for those that were split off before this node was removed from a shard.
    fn bear_left(&self, sessions: &Arc<Sessions>, left: Vec<Left>) -> Result<(), OpenError> {
        left.into_iter().try_for_each(|Left { child, bounds, birth }| {
            let damaged = |Damaged(what)| self.of_store(StoreError::Damaged { file: "the store".to_owned(), what });
            let origin = Origin::kept(&birth).map_err(damaged)?;
            self.bear(sessions, (ShardId(child), bounds), origin, false, None)
        })
    }

    /// Ends a database's member and removes everything it kept, also what a crash left of it.
    fn end(&self, id: DatabaseId) -> Result<(), StoreError> {
        let door = self.doors.write().remove(&id);
        let mut left: Vec<MachineKey> = Vec::new();
        self.records.lock().retain(|key, _| {
            left.extend(Some(*key).filter(|key| key.database == id.0));
            key.database != id.0
        });
        left.iter().for_each(|key| self.here.plumbing.journal.forget(*key));
        let ended = door.map(|door| door.close()).unwrap_or_default();
        // Behind the settler, which may hold them for another round.
        ended.iter().for_each(|shard| shard.space().close());
        let mut shards: Vec<u32> = ended.iter().map(|shard| shard.space().id().shard).collect();
        for shard in &shards {
            self.here.plumbing.journal.forget(MachineKey { database: id.0, shard: *shard });
        }
        let mut next = 0;
        shards.extend([FIRST_SHARD.0].into_iter().chain(left.iter().map(|key| key.shard)));
        while let Some(shard) = shards.get(next).copied() {
            let space = Space::open(id.0, shard, Arc::clone(&self.here.plumbing.store))?;
            let left = space.left()?.into_iter().map(|left| left.child);
            let of_it = space.children()?.into_iter().map(|(child, _)| child).chain(left);
            let new: Vec<u32> = of_it.filter(|child| !shards.contains(child)).collect();
            shards.extend(new);
            next += 1;
        }
        shards.into_iter().try_for_each(|shard| {
            Space::open(id.0, shard, Arc::clone(&self.here.plumbing.store)).and_then(|space| space.forget())
        })
    }

    /// Reads which databases there are from the rows of `system` in the store; later ones are installed in front of the watch.
    fn read_settled_rows(&self) -> Result<(), StoreError> {
        let Some(system) = self.gateway(SYSTEM) else { return Ok(()) };
        let Some(member) = system.site().sessions().member(FIRST_SHARD) else { return Ok(()) };
        let space = member.world().space();
        let at = space.extent()?.at;
        let mut range = Some(KeyRange::prefix(row_prefix()));
        while let Some(part) = range {
            let chunk = space.scan(&part, at, false, 1000, 1 << 20)?;
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

    /// Takes in a row: begins or ends a member.
    fn learn(&self, row: DatabaseRow) -> Result<(), OpenError> {
        // Held throughout: whoever learns the same at the same time finds the member begun.
        let mut databases = self.databases.write();
        let id = row.id;
        databases.learn(row);
        let lives = databases.iter().find(|known| known.id == id);
        match (self.door(id), lives) {
            (Some(door), Some(row)) => {
                if let (Door::Tapir(gateway), Some(Recipe::Tapir(guarantee))) = (&door, Recipe::named(&row.protocol)) {
                    self.take_over(row, guarantee, gateway.site())?;
                }
                door.heed(row); // A replica that has just begun, too.
            }
            (None, Some(row)) => self.begin(row, None)?,
            (_, None) => {}
        }
        let lives = lives.is_some();
        drop(databases);
        if lives { Ok(()) } else { self.end(id).map_err(|error| self.of_store(error)) }
    }

    /// Looks up every database there is.
    pub async fn look(&self) -> Result<(), Failure> {
        let mut transaction = self.begin_in_system(Mode::ReadOnly(ReadAt::Now)).await?;
        for row in read_rows(&mut *transaction, Lock::Shared).await? {
            self.learn(row).map_err(|error| Failure::Storage(error.to_string()))?;
        }
        Ok(())
    }

    /// The door to a database by its number.
    pub fn door(&self, id: DatabaseId) -> Option<Door> {
        self.doors.read().get(&id).cloned()
    }

    /// The same, of one that the spanner recipe runs.
    pub fn gateway(&self, id: DatabaseId) -> Option<Arc<Gateway>> {
        if let Some(Door::Spanner(gateway)) = self.door(id) { Some(gateway) } else { None }
    }

    /// Where sessions of one that the tapir recipe runs meet.
    pub fn tapir(&self, id: DatabaseId) -> Option<Arc<tapir::Desk>> {
        if let Some(Door::Tapir(gateway)) = self.door(id) { Some(Arc::clone(gateway.site())) } else { None }
    }

    /// Where sessions of one that the qwstore recipe runs meet.
    pub fn qwstore(&self, id: DatabaseId) -> Option<Arc<qwstore::Desk>> {
        if let Some(Door::QwStore(gateway)) = self.door(id) { Some(Arc::clone(gateway.site())) } else { None }
    }

    /// This node's member of a shard.
    pub fn member(&self, id: DatabaseId, shard: ShardId) -> Option<Arc<MemberShard>> {
        self.gateway(id)?.site().sessions().member(shard)
    }

    /// All members of this node.
    pub fn members(&self) -> Vec<Arc<MemberShard>> {
        let members = |door: Door| match door {
            Door::Spanner(gateway) => gateway.site().sessions().members(),
            Door::Tapir(_) | Door::QwStore(_) => Vec::new(),
        };
        self.doors().into_iter().flat_map(members).collect()
    }

    /// What this node has of all shards, for whoever moves versions to the store.
    pub fn settles(&self) -> Vec<Arc<dyn Settles>> {
        self.doors().iter().flat_map(Door::settles).collect()
    }

    /// All doors.
    pub fn doors(&self) -> Vec<Door> {
        self.doors.read().values().cloned().collect()
    }

    /// The living databases and the doors to them, by number.
    pub fn list(&self) -> Vec<(DatabaseRow, Door)> {
        let databases = self.databases.read();
        let doors = self.doors.read();
        databases.iter().filter_map(|row| Some((row.clone(), doors.get(&row.id)?.clone()))).collect()
    }

    /// A database by name, as far as this node has seen.
    pub fn known(&self, name: &str) -> Option<Door> {
        let id = self.databases.read().named(name)?.id;
        self.door(id)
    }

    /// A database by name; one that this node has not seen yet is looked up.
    pub async fn find(&self, name: &str) -> Result<Option<Door>, Failure> {
        if let Some(door) = self.known(name) {
            return Ok(Some(door));
        }
        self.look().await?;
        Ok(self.known(name))
    }

    /// A database of which somebody wants what there is only where groups have leaders.
    async fn with_groups(&self, name: &str, what: &str) -> Result<Arc<Gateway>, DatabaseError> {
        let failed = DatabaseError::Failed;
        let protocol = match self.find(name).await.map_err(failed)? {
            None => return Err(DatabaseError::Missing(name.into())),
            Some(Door::Spanner(gateway)) => return Ok(gateway),
            Some(Door::Tapir(_)) => "tapir",
            Some(Door::QwStore(_)) => "qwstore",
        };
        let why = format!("{what} of a database whose protocol is {protocol} is not in this version");
        Err(failed(Failure::Refused(why)))
    }

    async fn begin_in_system(&self, mode: Mode) -> Result<Box<dyn Transaction>, Failure> {
        let system = self.gateway(SYSTEM).expect("invariant: system exists from birth");
        system.begin(Begin { mode, age: None }).await
    }

    /// Creates a database: its row in `system` is what makes it exist. It has replicas on these nodes, or on all.
    pub async fn create_database(&self, name: &str, recipe: Recipe, members: Vec<NodeId>) -> Result<(), DatabaseError> {
        let replicas = match recipe {
            Recipe::Spanner if members.is_empty() => Vec::new(),
            Recipe::Spanner => {
                let why = "a database whose protocol is spanner begins on all nodes: ALTER DATABASE … MEMBERS then changes that";
                return Err(DatabaseError::Replicas(why.into()));
            }
            Recipe::Tapir(_) => odd(self.replicas(members)?)?,
            Recipe::QwStore => self.replicas(members)?, // None of them decides: any number will do.
        };
        self.write(|databases| match databases.named(name) {
            Some(_) => Err(DatabaseError::Exists(name.into())),
            None => {
                let row = DatabaseRow::new(databases.next_id(), name);
                Ok(DatabaseRow { protocol: recipe.name().into(), replicas: replicas.clone(), ..row })
            }
        })
        .await
    }

    /// Replicas without a leader, on these nodes or on all: nodes that there are.
    fn replicas(&self, mut members: Vec<NodeId>) -> Result<Vec<NodeId>, DatabaseError> {
        let all = &self.here.members;
        if let Some(unknown) = members.iter().find(|node| !all.contains(node)) {
            return Err(DatabaseError::Replicas(format!("there is no node {}, only 1 to {}", unknown.0, all.len())));
        }
        if members.is_empty() {
            members.clone_from(all);
        }
        members.sort_unstable();
        members.dedup();
        Ok(members)
    }

    /// Drops a database and everything in it.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        self.write(|databases| match databases.named(name) {
            None => Err(DatabaseError::Missing(name.into())),
            Some(row) if row.id < FIRST_FREE => Err(DatabaseError::Permanent(name.into())),
            Some(row) => Ok(DatabaseRow { dropped: true, ..row.clone() }),
        })
        .await
    }

    /// For how long a database keeps superseded versions, from now on on all nodes; none: as long as the nodes say.
    pub async fn retain(&self, name: &str, retention: Option<Duration>) -> Result<(), DatabaseError> {
        let retention_ns = retention.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.write(|databases| match databases.named(name) {
            None => Err(DatabaseError::Missing(name.into())),
            Some(row) => Ok(DatabaseRow { retention_ns, ..row.clone() }),
        })
        .await
    }

    /// So long replicas of TAPIR wait with what is to be prepared, from now on on all nodes; none: nothing waits.
    pub async fn set_prepare_wait(&self, name: &str, wait: Option<Duration>) -> Result<(), DatabaseError> {
        let prepare_wait_ns = wait.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.write(|databases| match databases.named(name) {
            None => Err(DatabaseError::Missing(name.into())),
            Some(row) if !matches!(Recipe::named(&row.protocol), Some(Recipe::Tapir(_))) => {
                let DatabaseRow { name, protocol, .. } = row;
                let why = format!(
                    "only databases of protocol tapir have prepare_wait: the protocol of \"{name}\" is {protocol}"
                );
                Err(DatabaseError::Protocol(why))
            }
            Some(row) => Ok(DatabaseRow { prepare_wait_ns, ..row.clone() }),
        })
        .await
    }

    /// From each of these on, a database's keys are another shard's.
    pub async fn split(&self, name: &str, mut keys: Vec<Key>) -> Result<(), DatabaseError> {
        let failed = DatabaseError::Failed;
        let gateway = self.with_groups(name, "splitting tables").await?;
        let sessions = gateway.site().sessions();
        let routes = sessions.routes();
        keys.retain(|key| routes.of(key).1.start != *key); // It is so already.
        // From the end: all are split off from the same shard, which is led already.
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.dedup();
        let mut shards = Vec::with_capacity(keys.len());
        for keys in keys.chunks(NUMBERS_AT_ONCE) {
            let numbers = self.new_shards(sessions.database(), keys.len()).await.map_err(failed)?;
            for (key, shard) in keys.iter().zip(numbers.map(ShardId)) {
                gateway.split(key.clone(), shard).await.map_err(failed)?;
                shards.push(shard);
            }
        }
        // This node's members come to life in a moment: who splits wants to see them.
        let until = crate::clock::boot_ns() + BORN_WITHIN_NS;
        for shard in shards {
            while sessions.member(shard).is_none() && !sessions.is_closed() && crate::clock::boot_ns() < until {
                sessions.pause(crate::clock::boot_ns() + BORN_WITHIN_NS / 1000).await;
            }
        }
        Ok(())
    }

    /// Gives all groups of a database these members.
    pub async fn change_members(&self, name: &str, members: Members) -> Result<(), DatabaseError> {
        let failed = DatabaseError::Failed;
        if let Some(Door::Tapir(gateway)) = self.find(name).await.map_err(failed)? {
            return self.give_to(name, gateway.site(), members).await;
        }
        let gateway = self.with_groups(name, "changing the members").await?;
        if gateway.site().sessions().database() == SYSTEM {
            let why = "every node has a member of \"system\": by its rows it knows which databases there are";
            return Err(failed(Failure::Refused(why.into())));
        }
        gateway.change_members(members).await.map_err(failed)
    }

    /// These nodes have the replicas of a database without leaders, as soon as this returns well. Otherwise whoever says the same again goes on.
    async fn give_to(&self, name: &str, desk: &Arc<tapir::Desk>, members: Members) -> Result<(), DatabaseError> {
        if !members.learners.is_empty() || !members.witnesses.is_empty() {
            let why =
                "a database without leaders has neither learners nor witnesses: ALTER DATABASE … MEMBERS (1, 2, 3)";
            return Err(DatabaseError::Replicas(why.into()));
        }
        let replicas = odd(self.replicas(members.voters)?)?;
        let of_name =
            |databases: &Databases| databases.named(name).cloned().ok_or_else(|| DatabaseError::Missing(name.into()));
        self.write(|databases| {
            let row = of_name(databases)?;
            rows::next(&row, &self.here.members, &replicas).map_err(DatabaseError::Replicas)
        })
        .await?;
        let until = crate::clock::boot_ns() + TAKEN_OVER_WITHIN_NS;
        let epoch = desk.members().epoch;
        let shards = [(FIRST_SHARD, Key::default())];
        have_taken_over(&**desk, &shards, epoch, until).await.map_err(|why| {
            let why = format!("{why}: the change goes on when it does, and ends when it is asked for again");
            DatabaseError::Failed(Failure::Unavailable(why))
        })?;
        self.write(|databases| Ok(rows::ended(&of_name(databases)?, epoch))).await
    }

    /// Numbers for new shards of a database; whatever becomes of the shards, nobody else gets them.
    async fn new_shards(&self, id: DatabaseId, many: usize) -> Result<Range<u32>, Failure> {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        if many == 0 {
            return Ok(0..0);
        }
        let key = Key::from(shards_key(id));
        loop {
            let taken = async {
                let mut transaction = self.begin_in_system(Mode::ReadWrite).await?;
                let last = transaction.get(&key, Lock::Exclusive).await?;
                let last = last.and_then(|value| <[u8; 4]>::try_from(&value[..]).ok()).map_or(0, u32::from_be_bytes);
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
                        "a database has at most {MOST_SHARDS} shards in its life: this one had {had}, and {many} more are wanted"
                    );
                    return Err(Failure::Unavailable(why));
                }
                Ok((shards, Outcome::Committed { .. })) => return Ok(shards),
                // Others, then: of one whose fate is not known nobody makes anything.
                Ok(_) | Err(Failure::Aborted(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Writes the row that `decide` makes of what stands in `system`, and takes it in here.
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
                let mut databases = Databases::at_birth();
                for row in rows {
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
                Ok(Ok((row, Outcome::Committed { .. }))) => {
                    let begun = self.learn(row);
                    return begun.map_err(|error| failed(Failure::Storage(error.to_string())));
                }
                Ok(Ok((_, Outcome::Unknown))) => {
                    let what =
                        "it is not known whether the database was created or dropped: look at the list of databases";
                    return Err(failed(Failure::Unavailable(what.into())));
                }
                Ok(Err(error)) => return Err(error),
                Ok(Ok((_, Outcome::Aborted { why }))) | Err(Failure::Aborted(why)) if attempt == ATTEMPTS => {
                    return Err(failed(Failure::Aborted(why)));
                }
                Ok(Ok((_, Outcome::Aborted { .. }))) | Err(Failure::Aborted(_)) => {}
                Err(failure) => return Err(failed(failure)),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Ends the thread and every member; nobody waits any more.
    pub fn close(&self) {
        let _ = self.tasks.lock().send(Task::Stop);
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        self.doors().iter().for_each(|door| drop(door.close()));
    }
}

/// So many replicas as have a majority that survives one of them.
fn odd(replicas: Vec<NodeId>) -> Result<Vec<NodeId>, DatabaseError> {
    if replicas.len().is_multiple_of(2) {
        return Err(DatabaseError::Replicas(format!(
            "a database without leaders has an odd number of replicas, and not {}: say on which nodes, PROTOCOL = tapir MEMBERS (1, 2, 3)",
            replicas.len()
        )));
    }
    Ok(replicas)
}

/// Whether a shard is to be born on this node, as the log of a member says or its space. Not within a step, nor while a member is being begun: it waits for steps.
fn expects(sessions: &Sessions, child: ShardId) -> bool {
    let (say, heard) = mpsc::channel::<()>();
    let members = sessions.members();
    for member in &members {
        let say = say.clone();
        member.post(Input::Call(Box::new(move |replica: &mut Replica, _, _| {
            if replica.expects(child) {
                let _ = say.send(());
            }
        })));
    }
    drop(say);
    // What is in no log any more is on its way to the store.
    heard.recv().is_ok() || members.iter().any(|member| member.world().space().expects_child(child.0))
}

async fn read_rows(transaction: &mut dyn Transaction, lock: Lock) -> Result<Vec<DatabaseRow>, Failure> {
    let mut rows = Vec::new();
    let mut range = Some(KeyRange::prefix(row_prefix()));
    while let Some(part) = range {
        let chunk = transaction.scan(&part, lock, false, 1000).await?;
        rows.extend(chunk.rows.iter().filter_map(|(_, value)| DatabaseRow::read(value)));
        range = chunk.rest;
    }
    Ok(rows)
}
