//! The folder, the log and the listener of a node that opens.

use super::Options;
use crate::context::Records;
use crate::identity::{Identity, OpenError};
use crate::journal::Journal;
use crate::panics::PanicGuard;
use meridian_log::{Log, LogError, OsDisk};
use meridian_mvcc::{Store, StoreError};
use meridian_placement::ClusterMembers;
use meridian_store::{MemoryStore, RedbStore};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

/// A recovered folder: the identity, the panic guard, the store engine, the log, and the log's
/// records.
pub(super) type Restored = (Arc<Identity>, Arc<PanicGuard>, Arc<dyn Store>, Journal, Records);

pub(super) fn restore(options: &Options, members: &ClusterMembers) -> Result<Restored, OpenError> {
    let guard = |identity: &Identity| {
        PanicGuard::new(options.node, identity.incarnation, options.data.clone(), options.on_panic)
    };
    let Some(folder) = &options.data else {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let identity = Identity::in_memory(options.node, members)
            .map_err(|error| OpenError::Options(error.to_string()))?;
        let guard = guard(&identity);
        return Ok((Arc::new(identity), guard, store, Journal::in_memory(), BTreeMap::new()));
    };
    let identity = Identity::open(folder, options.node, members)?;
    let guard = guard(&identity);
    let path = folder.join("store");
    let store = RedbStore::open(&disk(&path)?, options.cache_bytes)
        .map_err(|error| of_store(&path, error))?;
    let path = folder.join("log");
    let log_options = meridian_log::Options {
        segment_bytes: options.log_segment_bytes,
        existed: identity.admitted(),
    };
    let (log, recovered) =
        Log::open(Arc::new(disk(&path)?), log_options).map_err(|error| of_log(&path, error))?;
    identity.begin().map_err(|why| OpenError::Options(why.to_string()))?;
    let mut records: Records = BTreeMap::new();
    for (key, _, bytes) in recovered.records {
        records.entry(key).or_default().push(bytes);
    }
    let journal = Journal::start(log, &guard)
        .map_err(|error| OpenError::File { path: "a thread".into(), error })?;
    Ok((Arc::new(identity), guard, Arc::new(store), journal, records))
}

/// Listens for other nodes. Returns `None` on a single-node cluster.
pub(super) fn listen(
    options: &mut Options,
    members: &ClusterMembers,
) -> Result<Option<TcpListener>, OpenError> {
    if members.len() == 1 {
        return Ok(None);
    }
    let own = || members.get(options.node).map(|member| member.address.clone()).unwrap_or_default();
    let address = options.listen.clone().unwrap_or_else(own);
    let listener = match options.listener.take() {
        Some(open) => open.try_clone(),
        None => TcpListener::bind(&address),
    };
    listener.map(Some).map_err(|error| OpenError::Listen { address, error })
}

fn disk(path: &Path) -> Result<OsDisk, OpenError> {
    OsDisk::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::ResourceBusy => OpenError::InUse { path: path.into() },
        _ => OpenError::File { path: path.into(), error },
    })
}

fn of_store(path: &Path, error: StoreError) -> OpenError {
    OpenError::Storage { path: path.into(), what: error.to_string() }
}

fn of_log(path: &Path, error: LogError) -> OpenError {
    OpenError::Storage { path: path.into(), what: error.to_string() }
}
