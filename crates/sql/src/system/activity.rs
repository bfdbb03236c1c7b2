//! Who is here and who waits for whom: `pg_stat_activity` and `pg_locks`. The rows come from whoever knows ([`Surroundings`]).

use super::{OWNER, Rows, Value, World, Writer};

/// A session, as another may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// What BackendKeyData told the client.
    pub pid: i32,
    /// Its database.
    pub database: String,
    /// Its user.
    pub user: String,
    /// What the client calls itself.
    pub application: String,
    /// Where the client is: address and port.
    pub client: Option<(String, u16)>,
    /// When it began, in microseconds since 2000-01-01 UTC.
    pub began_us: Option<i64>,
    /// `active`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: &'static str,
    /// The statement that runs, or ran last.
    pub query: String,
}

/// A transaction that holds or awaits a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Its database.
    pub database: String,
    /// The transaction, as the node that began it numbers it.
    pub transaction: String,
    /// What is locked, in a form that people can read.
    pub key: String,
    /// `exclusive` or `shared`
    pub exclusive: bool,
    /// Whether it holds the lock; otherwise it waits for it.
    pub granted: bool,
}

/// What a database's surroundings tell of themselves.
pub trait Surroundings: Send + Sync {
    /// The names of all databases.
    fn databases(&self) -> Vec<String>;
    /// The sessions.
    fn sessions(&self) -> Vec<Activity> {
        Vec::new()
    }
    /// The transactions that wait for a lock, and those that hold what they wait for.
    fn waits(&self) -> Vec<Waiting> {
        Vec::new()
    }
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_locks" => locks,
        "pg_stat_activity" => activity,
        _ => return None,
    })
}

/// A database's id: of its name, so that it is the same on every node.
pub(super) fn database_id(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    16384 + hash % (1 << 30)
}

fn activity(world: &World<'_>, out: &mut Writer<'_>) {
    for session in world.facts.surroundings().map_or_else(Vec::new, |around| around.sessions()) {
        let (address, port) = session.client.unzip();
        out.row(&[
            ("datid", database_id(&session.database).into()),
            ("datname", session.database.into()),
            ("pid", session.pid.into()),
            ("usesysid", OWNER.into()),
            ("usename", session.user.into()),
            ("application_name", session.application.into()),
            ("client_addr", address.into()),
            ("client_port", port.map(i32::from).into()),
            ("backend_start", session.began_us.map_or(Value::Null, Value::Time)),
            ("state", session.state.into()),
            ("query", session.query.into()),
            ("backend_type", "client backend".into()),
        ]);
    }
}

fn locks(world: &World<'_>, out: &mut Writer<'_>) {
    for wait in world.facts.surroundings().map_or_else(Vec::new, |around| around.waits()) {
        out.row(&[
            ("locktype", "tuple".into()),
            ("database", database_id(&wait.database).into()),
            ("virtualxid", wait.key.into()),
            ("virtualtransaction", wait.transaction.into()),
            ("mode", if wait.exclusive { "ExclusiveLock" } else { "ShareLock" }.into()),
            ("granted", wait.granted.into()),
        ]);
    }
}
