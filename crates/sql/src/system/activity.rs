//! Sessions and lock waits: `pg_stat_activity` and `pg_locks`.
//!
//! Every session has an entry, to which it writes its activity; the engines of one process may
//! share the entries. Lock waits are known where the locks are held, and come through
//! [`ServerInfo`]. A waiting transaction is mapped to its session by its age: a transaction that
//! is retried after a conflict keeps its age and gets a new number, so that its lock then names no
//! session.

use super::{ClockFact, OWNER, Rows, ShardFact, SystemContext, Value, Writer};
use crate::error::SqlError;
use crate::parse::{ChosenProtocol, GroupMembers};
use crate::response::Status;
use meridian_txn::{Age, Future};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transaction: the node where it began, and its number there.
pub type TransactionName = (u32, u64);

/// A transaction that waits for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The database.
    pub database: String,
    /// The waiting transaction.
    pub waiter: TransactionName,
    /// The start of the key or range that it waits for.
    pub key: Vec<u8>,
    /// True if it waits for an exclusive lock.
    pub exclusive: bool,
    /// The transactions that hold the lock.
    pub blockers: Vec<TransactionName>,
}

/// The server information of a database: about other databases, shards, lock waits and clocks.
pub trait ServerInfo: Send + Sync {
    /// Returns the names of all databases.
    fn databases(&self) -> Vec<String>;
    /// Creates a database under a protocol, the default one if none is named.
    fn create_database<'a>(
        &'a self,
        name: &'a str,
        protocol: Option<&'a ChosenProtocol>,
    ) -> Future<'a, Result<(), SqlError>> {
        let _ = (name, protocol);
        Box::pin(std::future::ready(Err(SqlError::unsupported("CREATE DATABASE"))))
    }
    /// Drops a database.
    fn drop_database<'a>(&'a self, name: &'a str) -> Future<'a, Result<(), SqlError>> {
        let _ = name;
        Box::pin(std::future::ready(Err(SqlError::unsupported("DROP DATABASE"))))
    }
    /// Splits a database's shards at each of these keys.
    fn split<'a>(
        &'a self,
        database: &'a str,
        keys: Vec<Vec<u8>>,
    ) -> Future<'a, Result<(), SqlError>> {
        let _ = (database, keys);
        Box::pin(std::future::ready(Err(SqlError::unsupported("ALTER TABLE … SPLIT AT"))))
    }
    /// Changes the members of a database's groups, and waits until they have them.
    fn change_members<'a>(
        &'a self,
        database: &'a str,
        members: GroupMembers,
    ) -> Future<'a, Result<(), SqlError>> {
        let _ = (database, members);
        Box::pin(std::future::ready(Err(SqlError::unsupported("ALTER DATABASE … MEMBERS"))))
    }
    /// Sets a setting of a database, to a value or the default.
    fn set<'a>(
        &'a self,
        database: &'a str,
        name: &'a str,
        value: Option<&'a str>,
    ) -> Future<'a, Result<(), SqlError>> {
        let _ = (database, value);
        let what = format!("ALTER DATABASE … SET {name}");
        Box::pin(std::future::ready(Err(SqlError::unsupported(what))))
    }
    /// Returns the value of a database's setting. `None` if there is no setting of this name;
    /// `Some(None)` if the database's protocol does not have it.
    fn setting(&self, database: &str, name: &str) -> Option<Option<String>> {
        let _ = (database, name);
        None
    }
    /// Returns the settings that a database was given, by name.
    fn settings(&self, database: &str) -> BTreeMap<String, String> {
        let _ = database;
        BTreeMap::new()
    }
    /// Returns a database's shards, as far as this node knows.
    fn shards(&self, database: &str) -> Vec<ShardFact> {
        let _ = database;
        Vec::new()
    }
    /// Returns the lock waits, as far as this node knows.
    fn waits(&self) -> Vec<Waiting> {
        Vec::new()
    }
    /// Returns the earliest and the latest possible current time, in nanoseconds since 1970, if it
    /// is known.
    fn interval(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns this node's clock, and its knowledge of other nodes' clocks.
    fn clocks(&self) -> Vec<ClockFact> {
        Vec::new()
    }
}

/// The connection of a session, for the sessions that end its statements.
pub trait Backend: Send + Sync {
    /// Ends the running statement.
    fn cancel(&self);
    /// Ends the session.
    fn terminate(&self);
}

/// The activity of a session, as other sessions may see it.
#[derive(Clone)]
pub(super) struct Activity {
    backend: Option<Arc<dyn Backend>>,
    pid: i32,
    pub(super) database: Arc<str>,
    user: Arc<str>,
    application: Arc<str>,
    client: Option<(String, u16)>,
    began_us: Option<i64>,
    state: &'static str,
    query: Arc<str>,
    transaction: Option<TransactionName>,
}

/// The sessions of a process.
#[derive(Default)]
pub struct Sessions {
    next: AtomicU64,
    slots: Mutex<BTreeMap<u64, Arc<Mutex<Activity>>>>,
}

/// A session's entry; it is removed when this is dropped.
pub(crate) struct SessionSlot {
    sessions: Arc<Sessions>,
    number: u64,
    activity: Arc<Mutex<Activity>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    pub(crate) fn enter(self: &Arc<Self>, database: &str, user: &str) -> SessionSlot {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let activity = Arc::new(Mutex::new(Activity {
            backend: None,
            pid: (number + 1) as i32,
            database: database.into(),
            user: user.into(),
            application: "".into(),
            client: None,
            began_us: None,
            state: "idle",
            query: "".into(),
            transaction: None,
        }));
        locked(&self.slots).insert(number, activity.clone());
        SessionSlot { sessions: self.clone(), number, activity }
    }

    /// Returns the connection of a session of this process, by its process number.
    pub(crate) fn backend(&self, pid: i32) -> Option<Arc<dyn Backend>> {
        let mut sessions = self.list().into_iter();
        sessions.find(|session| session.pid == pid).and_then(|session| session.backend)
    }

    pub(super) fn list(&self) -> Vec<Activity> {
        let slots: Vec<_> = locked(&self.slots).values().cloned().collect();
        slots.iter().map(|slot| locked(slot).clone()).collect()
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        locked(&self.sessions.slots).remove(&self.number);
    }
}

impl SessionSlot {
    pub(crate) fn introduce(&self, pid: i32, client: Option<(String, u16)>, began_us: i64) {
        let mut activity = locked(&self.activity);
        (activity.pid, activity.client, activity.began_us) = (pid, client, Some(began_us));
    }

    pub(crate) fn set_backend(&self, backend: Arc<dyn Backend>) {
        locked(&self.activity).backend = Some(backend);
    }

    /// Returns its number in the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn pid(&self) -> i32 {
        locked(&self.activity).pid
    }

    pub(crate) fn calls_itself(&self, application: &str) {
        locked(&self.activity).application = application.into();
    }

    /// Records the start of a statement.
    pub(crate) fn runs(&self, query: Arc<str>) {
        let mut activity = locked(&self.activity);
        (activity.state, activity.query) = ("active", query);
    }

    /// Records the start of a transaction.
    pub(crate) fn begins(&self, age: Age) {
        locked(&self.activity).transaction = Some((age.node, age.number));
    }

    /// Records the end of a statement.
    pub(crate) fn rests(&self, status: Status) {
        let mut activity = locked(&self.activity);
        activity.state = match status {
            Status::Idle => "idle",
            Status::InTransaction => "idle in transaction",
            Status::Failed => "idle in transaction (aborted)",
        };
        if status == Status::Idle {
            activity.transaction = None;
        }
    }
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_locks" => locks,
        "pg_stat_activity" => activity,
        _ => return None,
    })
}

/// Returns a database's id: a hash of its name, so that it is the same on every node.
pub(crate) fn database_id(name: &str) -> u32 {
    let hash = name
        .bytes()
        .fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    16384 + hash % (1 << 30)
}

fn activity(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let waits =
        context.facts.server_info().map_or_else(Vec::new, |server_info| server_info.waits());
    for session in context.facts.sessions.list() {
        let waiting =
            session.transaction.is_some_and(|name| waits.iter().any(|wait| wait.waiter == name));
        let (address, port) = session.client.unzip();
        out.row(&[
            ("datid", database_id(&session.database).into()),
            ("datname", (&*session.database).into()),
            ("pid", session.pid.into()),
            ("usesysid", OWNER.into()),
            ("usename", (&*session.user).into()),
            ("application_name", (&*session.application).into()),
            ("client_addr", address.into()),
            ("client_port", port.map(i32::from).into()),
            ("backend_start", session.began_us.map_or(Value::Null, Value::Time)),
            ("wait_event_type", waiting.then_some("Lock").into()),
            ("wait_event", waiting.then_some("tuple").into()),
            ("state", session.state.into()),
            ("query", (&*session.query).into()),
            ("backend_type", "client backend".into()),
        ]);
    }
}

fn locks(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let sessions = context.facts.sessions.list();
    let pid = |name: TransactionName| {
        sessions.iter().find(|session| session.transaction == Some(name)).map(|session| session.pid)
    };
    for wait in context.facts.server_info().map_or_else(Vec::new, |server_info| server_info.waits())
    {
        let mine = wait.database == context.facts.database;
        let relation = mine.then(|| context.catalog.relation_of_key(&wait.key)).flatten();
        let line = std::iter::once((wait.waiter, false))
            .chain(wait.blockers.iter().map(|blocker| (*blocker, true)));
        for (name, granted) in line {
            // The locks of the holders may be shared, which the wait does not report.
            let mode = if wait.exclusive { "ExclusiveLock" } else { "ShareLock" };
            out.row(&[
                ("locktype", "tuple".into()),
                ("database", database_id(&wait.database).into()),
                ("relation", relation.into()),
                ("virtualtransaction", format!("{}/{}", name.0, name.1).into()),
                ("pid", pid(name).into()),
                ("mode", (!granted).then_some(mode).into()),
                ("granted", granted.into()),
            ]);
        }
    }
    for (name, entries) in &context.advisory {
        let (high, low, kind) = name.parts();
        for entry in entries {
            let mode = if entry.is_shared { "ShareLock" } else { "ExclusiveLock" };
            out.row(&[
                ("locktype", "advisory".into()),
                ("database", database_id(&context.facts.database).into()),
                ("classid", high.into()),
                ("objid", low.into()),
                ("objsubid", i32::from(kind).into()),
                ("pid", entry.pid.into()),
                ("mode", mode.into()),
                ("granted", (!entry.waits).into()),
            ]);
        }
    }
}

/// Implements `pg_blocking_pids`: the sessions that a session waits for.
pub(crate) fn blocking(facts: &crate::expr::Facts, pid: i64) -> Vec<i32> {
    let sessions = facts.sessions.list();
    let waiter = sessions
        .iter()
        .find(|session| i64::from(session.pid) == pid)
        .and_then(|session| session.transaction);
    let waits = facts.server_info().map_or_else(Vec::new, |server_info| server_info.waits());
    let blockers =
        waits.iter().filter(|wait| Some(wait.waiter) == waiter).flat_map(|wait| &wait.blockers);
    let mut pids: Vec<i32> = blockers
        .filter_map(|name| sessions.iter().find(|session| session.transaction == Some(*name)))
        .map(|session| session.pid)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
