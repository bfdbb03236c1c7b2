//! A database in memory, one writer at a time: what the wire's tests stand on.
//!
//! The first read or write of a read-write transaction takes the only lock and waits for it; read-only transactions see
//! the last commit. Serializable by construction, and good at making statements wait.

use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Age, Begin, Database, Failure, Future, Lock, Mode, Outcome, ReadAt, Rows, Savepoint, Transaction};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::OwnedMutexGuard;

type Map = BTreeMap<Key, Value>;

#[derive(Default)]
struct Shared {
    writer: Arc<tokio::sync::Mutex<()>>,
    /// Every committed state by its timestamp.
    states: Mutex<Vec<(Timestamp, Arc<Map>)>>,
    numbers: AtomicU64,
}

/// The database.
#[derive(Default)]
pub struct Memory(Arc<Shared>);

impl Shared {
    fn at(&self, at: Timestamp) -> Arc<Map> {
        let states = self.states.lock().expect("not poisoned");
        states.iter().rev().find(|(committed, _)| *committed <= at).map(|(_, map)| map.clone()).unwrap_or_default()
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Database for Memory {
    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let shared = self.0.clone();
        Box::pin(async move {
            let number = shared.numbers.fetch_add(1, Relaxed);
            let began_ns = now_ns();
            let read_at = match how.mode {
                Mode::ReadWrite => None,
                Mode::ReadOnly(ReadAt::Now) => Some(Timestamp::end_of(began_ns)),
                Mode::ReadOnly(ReadAt::Exact(at)) => Some(at),
            };
            let map = read_at.map(|at| shared.at(at));
            let age = how.age.unwrap_or(Age { began_ns, node: 1, number });
            Ok(Box::new(Running {
                shared,
                mode: how.mode,
                age,
                read_at,
                map,
                held: None,
                writes: BTreeMap::new(),
                undo: Vec::new(),
            }) as Box<dyn Transaction>)
        })
    }
}

struct Running {
    shared: Arc<Shared>,
    mode: Mode,
    age: Age,
    read_at: Option<Timestamp>,
    /// What it sees; a read-write transaction once it holds the lock.
    map: Option<Arc<Map>>,
    held: Option<OwnedMutexGuard<()>>,
    writes: BTreeMap<Key, Option<Value>>,
    /// What each write replaced among the own writes, for savepoints.
    undo: Vec<(Key, Option<Option<Value>>)>,
}

impl Running {
    async fn seen(&mut self) -> Arc<Map> {
        if let Some(map) = &self.map {
            return map.clone();
        }
        self.held = Some(self.shared.writer.clone().lock_owned().await);
        let map = self.shared.at(Timestamp::MAX);
        self.map = Some(map.clone());
        map
    }
}

impl Transaction for Running {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        Interval::around(self.age.began_ns, 0)
    }

    fn read_at(&self) -> Option<Timestamp> {
        self.read_at
    }

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            let map = self.seen().await;
            Ok(self.writes.get(key).cloned().unwrap_or_else(|| map.get(key).cloned()))
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        _: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let map = self.seen().await;
            if range.is_empty() {
                return Ok(Rows::default());
            }
            let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let bounds = (Bound::Included(&range.start), end);
            let mut stored: Vec<(&Key, &Value)> = Vec::new();
            let (old, own) = (map.range::<Key, _>(bounds), self.writes.range::<Key, _>(bounds));
            let (mut old, mut own): (Box<dyn Iterator<Item = _> + Send>, Box<dyn Iterator<Item = _> + Send>) =
                if reverse { (Box::new(old.rev()), Box::new(own.rev())) } else { (Box::new(old), Box::new(own)) };
            let (mut next_old, mut next_own) = (old.next(), own.next());
            // One row more than asked for tells whether there are more.
            while stored.len() <= limit_rows {
                let order = match (&next_old, &next_own) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some((a, _)), Some((b, _))) if reverse => b.cmp(a),
                    (Some((a, _)), Some((b, _))) => a.cmp(b),
                };
                if order != Ordering::Less {
                    if let Some((key, Some(value))) = next_own {
                        stored.push((key, value));
                    }
                    next_own = own.next();
                } else if let Some((key, value)) = next_old {
                    stored.push((key, value));
                }
                if order != Ordering::Greater {
                    next_old = old.next();
                }
            }
            let mut rows: Vec<(Key, Value)> =
                stored.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let more = rows.len() > limit_rows;
            rows.truncate(limit_rows);
            let rest = match rows.last() {
                Some((last, _)) if more && reverse => {
                    Some(KeyRange { start: range.start.clone(), end: Some(last.clone()) })
                }
                Some((last, _)) if more => Some(KeyRange { start: last.successor(), end: range.end.clone() }),
                _ => None,
            };
            Ok(Rows { rows, rest })
        })
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if matches!(self.mode, Mode::ReadOnly(_)) {
            return Err(Failure::ReadOnly);
        }
        let replaced = self.writes.insert(key.clone(), value);
        self.undo.push((key, replaced));
        Ok(())
    }

    fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        while self.undo.len() > savepoint.0
            && let Some((key, replaced)) = self.undo.pop()
        {
            match replaced {
                Some(value) => self.writes.insert(key, value),
                None => self.writes.remove(&key),
            };
        }
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async move {
            if let Some(at) = self.read_at {
                return Outcome::Committed { at };
            }
            let mut map = self.seen().await;
            let mut states = self.shared.states.lock().expect("not poisoned");
            let last = states.last().map_or(Timestamp::ZERO, |(at, _)| *at);
            let mut at = Timestamp { nanos: now_ns(), logical: 0, issuer: 1 };
            if at <= last {
                at = last.successor();
            }
            if !self.writes.is_empty() {
                let changed = Arc::make_mut(&mut map);
                for (key, value) in std::mem::take(&mut self.writes) {
                    match value {
                        Some(value) => changed.insert(key, value),
                        None => changed.remove(&key),
                    };
                }
                states.push((at, map));
            }
            Outcome::Committed { at }
        })
    }
}
