//! A scripted test: a transaction that has sent its writes waits in a statement, for longer than a
//! recorder keeps one that is silent.

use super::{S, World};
use crate::shard::{K2, Leaders};
use futures::channel::oneshot;
use meridian_mvcc::Value;
use meridian_systems::mvto::Mvto;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;

impl World<Leaders<Mvto>> {
    /// Returns how old the transaction's timestamp is once it has committed, in nanoseconds. It has
    /// waited for nearly all of that time; one that has moved is younger.
    pub fn age_after_a_wait() -> u64 {
        let mut world = Self::three(&K2, None);
        let database = |world: &Self, node: usize| {
            Arc::clone(&world.nodes[node].process.as_ref().expect("the node runs").txn_client)
        };
        // An earlier transaction writes what the other one reads, and does not go on.
        let (earlier, (held, until_released)) = (database(&world, 1), oneshot::channel::<()>());
        let idles = async move {
            let transaction = begun_with(&*earlier, "ra").await;
            let _ = until_released.await;
            drop(transaction);
        };
        world.send_out(1, Box::pin(idles));
        world.until(S / 2, |_| false);
        let (later, outcome) = (database(&world, 2), Arc::new(Mutex::new(None)));
        let tell = Arc::clone(&outcome);
        let waits = async move {
            let mut transaction = begun_with(&*later, "rb").await?;
            transaction.get(&"ra".into(), Lock::Shared).await?;
            Ok::<_, Failure>(transaction.commit().await)
        };
        world.send_out(2, Box::pin(async move { *tell.lock() = Some(waits.await) }));
        assert!(world.until(20 * S, |_| outcome.lock().is_some()), "it does not end");
        drop(held);
        match outcome.lock().take() {
            Some(Ok(Outcome::Committed { at })) => world.now() - at.nanos,
            other => panic!("it does not commit: {other:?}"),
        }
    }
}

/// Begins a transaction that has written a key, and sent that.
async fn begun_with(
    database: &dyn Database,
    key: &'static str,
) -> Result<Box<dyn Transaction>, Failure> {
    let mut transaction = database.begin(Begin::new(Mode::ReadWrite)).await?;
    transaction.put(key.into(), Some(Value::from("1")))?;
    transaction.send_writes().await;
    Ok(transaction)
}
