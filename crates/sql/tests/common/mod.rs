//! A database in memory for statement tests: versions under one lock, without conflicts other than
//! injected ones.
#![allow(dead_code)]

use futures::executor::block_on;
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_sql::{Datum, Engine, Response, Session};
use meridian_txn::{
    Age, Begin, Conflict, Database, Failure, Future, IsolationLevel, Lock, Mode, Outcome, ReadAt,
    Rows, Savepoint, SchemaHistory, SchemaVersion, Transaction,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Versions = BTreeMap<Key, Vec<(u64, Option<Value>)>>;

#[derive(Default)]
struct State {
    versions: Versions,
    schemas: BTreeMap<u32, SchemaHistory>,
    now: u64,
    aborts_at_commit: usize,
    aborts_at_read: usize,
    failing_reads: usize,
    hidden_reads: usize,
    unknown: bool,
    stuck: bool,
    begun: u64,
    committed: u64,
    requests: u64,
    /// The oldest snapshot that may be read.
    horizon: u64,
    isolation: IsolationLevel,
}

/// The database; clones share it.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    /// Aborts the next commits.
    pub fn abort_commits(&self, count: usize) {
        self.0.lock().unwrap().aborts_at_commit = count;
    }

    /// Aborts the next reads of writing transactions.
    pub fn abort_reads(&self, count: usize) {
        self.0.lock().unwrap().aborts_at_read = count;
    }

    /// Fails the next reads: no leader answers.
    pub fn fail_reads(&self, count: usize) {
        self.0.lock().unwrap().failing_reads = count;
    }

    /// Hides what the next reads of keys by writing transactions would find, as a replica does that
    /// has not learned of a commit. The transactions do not validate.
    pub fn hide_reads(&self, count: usize) {
        self.0.lock().unwrap().hidden_reads = count;
    }

    /// Makes the outcome of the next commit unknown.
    pub fn lose_outcome(&self) {
        self.0.lock().unwrap().unknown = true;
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.0.lock().unwrap().now += time.as_nanos() as u64;
    }

    /// Ends all snapshots before now.
    pub fn forget_history(&self) {
        let mut state = self.0.lock().unwrap();
        state.horizon = state.now;
    }

    /// Makes the next commit wait forever.
    pub fn hold_commit(&self) {
        self.0.lock().unwrap().stuck = true;
    }

    /// Sets the isolation level that sessions see.
    pub fn gives(self, isolation: IsolationLevel) -> Memory {
        self.0.lock().unwrap().isolation = isolation;
        self
    }

    pub fn now(&self) -> u64 {
        self.0.lock().unwrap().now
    }

    /// The number of reads so far; several keys that are read at once are one.
    pub fn requests(&self) -> u64 {
        self.0.lock().unwrap().requests
    }

    /// The number of rows whose keys begin so.
    pub fn rows(&self, prefix: &[u8]) -> usize {
        let state = self.0.lock().unwrap();
        let is_there = |versions: &[(u64, Option<Value>)]| {
            versions.last().is_some_and(|(_, value)| value.is_some())
        };
        let found = state.versions.iter().filter(|(key, _)| key.0.starts_with(prefix));
        found.filter(|(_, versions)| is_there(versions)).count()
    }

    /// The number of versions of keys.
    pub fn versions(&self) -> usize {
        self.0.lock().unwrap().versions.values().map(Vec::len).sum()
    }

    pub fn commits(&self) -> u64 {
        self.0.lock().unwrap().committed
    }
}

/// The refusal of a transaction that has misread.
const OVERWRITTEN: Conflict = Conflict::Overwritten;

const START: u64 = 1_700_000_000_000_000_000;

struct Open {
    memory: Memory,
    mode: Mode,
    age: Age,
    began: u64,
    read_at: u64,
    writes: BTreeMap<Key, Option<Value>>,
    planned: BTreeMap<u32, u64>,
    schemas: Vec<SchemaVersion>,
    saved: Vec<(BTreeMap<Key, Option<Value>>, Vec<SchemaVersion>)>,
    /// True if a read did not find what is there.
    misread: bool,
    /// True if scans tell when rows were committed.
    shows_versions: bool,
}

impl Database for Memory {
    fn isolation(&self) -> IsolationLevel {
        self.0.lock().unwrap().isolation
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        self.0.lock().unwrap().now += time.as_nanos() as u64;
        Box::pin(std::future::ready(()))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let mut state = self.0.lock().unwrap();
        state.begun += 1;
        state.now = state.now.max(START) + 1_000;
        let age = how.age.unwrap_or(Age { began_ns: state.now, node: 1, number: state.begun });
        let read_at = match how.mode {
            // The oldest allowed timestamp.
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at)) => at.nanos,
            _ => state.now,
        };
        let began = state.now;
        let memory = self.clone();
        drop(state);
        let (writes, planned) = (BTreeMap::new(), BTreeMap::new());
        let (schemas, saved) = (Vec::new(), Vec::new());
        let mode = how.mode;
        let (misread, shows_versions) = (false, false);
        let open = Open {
            memory,
            mode,
            age,
            began,
            read_at,
            writes,
            planned,
            schemas,
            saved,
            misread,
            shows_versions,
        };
        Box::pin(async move { Ok(Box::new(open) as Box<dyn Transaction>) })
    }
}

impl Open {
    fn check(&self) -> Result<(), Failure> {
        let mut state = self.memory.0.lock().unwrap();
        if self.mode == Mode::ReadWrite && state.aborts_at_read > 0 {
            state.aborts_at_read -= 1;
            return Err(Failure::Aborted(Conflict::LeaderChanged));
        }
        if state.failing_reads > 0 {
            state.failing_reads -= 1;
            return Err(Failure::Unavailable("no leader answers".into()));
        }
        if self.mode != Mode::ReadWrite && self.read_at < state.horizon {
            return Err(Failure::BelowHorizon { oldest: Timestamp::end_of(state.horizon) });
        }
        self.outdated(&state).map_or(Ok(()), |why| Err(Failure::Aborted(why)))
    }

    /// Returns when the value of a key that it sees was committed.
    fn committed_at(&self, state: &State, key: &Key) -> Option<Timestamp> {
        let mut versions = state.versions.get(key)?.iter().rev();
        versions.find(|(at, _)| *at <= self.read_at).map(|(at, _)| Timestamp::end_of(*at))
    }

    fn outdated(&self, state: &State) -> Option<Conflict> {
        let at = self.read_at().unwrap_or(Timestamp::MAX);
        let outdated = |(table, version): &(&u32, &u64)| {
            state.schemas.get(table).is_some_and(|history| history.outdates(**version, at))
        };
        self.planned
            .iter()
            .find(outdated)
            .map(|(table, _)| Conflict::SchemaChanged { table: *table })
    }

    fn see(&self, versions: &[(u64, Option<Value>)]) -> Option<Value> {
        let until = if self.mode == Mode::ReadWrite { u64::MAX } else { self.read_at };
        versions.iter().rev().find(|(at, _)| *at <= until).and_then(|(_, value)| value.clone())
    }
}

impl Transaction for Open {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        Interval { earliest: self.began, latest: self.began }
    }

    fn read_at(&self) -> Option<Timestamp> {
        Some(Timestamp::end_of(self.read_at)).filter(|_| self.mode != Mode::ReadWrite)
    }

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            self.check()?;
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            let mut state = self.memory.0.lock().unwrap();
            state.requests += 1;
            if self.mode == Mode::ReadWrite && state.hidden_reads > 0 {
                state.hidden_reads -= 1;
                self.misread = true;
                return Ok(None);
            }
            Ok(state.versions.get(key).and_then(|versions| self.see(versions)))
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.push(self.get(key, lock).await?);
            }
            let mut state = self.memory.0.lock().unwrap();
            state.requests -= (keys.len() as u64).saturating_sub(1);
            Ok(found)
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
            self.check()?;
            let mut state = self.memory.0.lock().unwrap();
            state.requests += 1;
            let mut all: BTreeMap<Key, Value> = BTreeMap::new();
            for (key, versions) in state.versions.range(range.start.clone()..) {
                if !range.contains(key) {
                    break;
                }
                if let Some(value) = self.see(versions) {
                    all.insert(key.clone(), value);
                }
            }
            for (key, value) in self.writes.range(range.start.clone()..) {
                if range.contains(key) {
                    match value {
                        Some(value) => _ = all.insert(key.clone(), value.clone()),
                        None => _ = all.remove(key),
                    }
                }
            }
            let mut rows: Vec<(Key, Value)> = all.into_iter().collect();
            if reverse {
                rows.reverse();
            }
            // Small chunks, so that every scan continues at least once.
            let limit = limit_rows.min(3);
            let mut rest = None;
            if rows.len() > limit {
                rows.truncate(limit);
                let last = rows[limit - 1].0.clone();
                rest = Some(if reverse {
                    KeyRange { start: range.start.clone(), end: Some(last) }
                } else {
                    KeyRange { start: last.successor(), end: range.end.clone() }
                });
            }
            let at = match self.shows_versions {
                true => rows.iter().map(|(key, _)| self.committed_at(&state, key)).collect(),
                false => Vec::new(),
            };
            Ok(Rows { rows, at, rest })
        })
    }

    fn show_versions(&mut self) {
        self.shows_versions = true;
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        self.writes.insert(key, value);
        Ok(())
    }

    fn planned_for(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.planned.entry(table).or_insert(version);
        *known = version.min(*known);
    }

    fn change_schema(&mut self, to: SchemaVersion, _: Vec<KeyRange>) -> Result<(), Failure> {
        self.schemas.push(to);
        Ok(())
    }

    fn savepoint(&mut self) -> Savepoint {
        self.saved.push((self.writes.clone(), self.schemas.clone()));
        Savepoint(self.saved.len() - 1)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        (self.writes, self.schemas) = self.saved[savepoint.0].clone();
    }

    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        let valid = if self.misread { Err(Failure::Aborted(OVERWRITTEN)) } else { Ok(()) };
        Box::pin(async move { valid })
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async move {
            if self.misread {
                return Outcome::Aborted { why: OVERWRITTEN };
            }
            let stuck = std::mem::take(&mut self.memory.0.lock().unwrap().stuck);
            if stuck {
                std::future::pending::<()>().await;
            }
            let mut state = self.memory.0.lock().unwrap();
            if std::mem::take(&mut state.unknown) {
                return Outcome::Unknown;
            }
            if state.aborts_at_commit > 0 {
                state.aborts_at_commit -= 1;
                return Outcome::Aborted { why: Conflict::LeaderChanged };
            }
            if let Some(why) = self.outdated(&state) {
                return Outcome::Aborted { why };
            }
            state.now += 1_000;
            state.committed += 1;
            let at = state.now;
            for SchemaVersion { table, version } in self.schemas {
                state.schemas.entry(table).or_default().begin(Timestamp::end_of(at), version);
            }
            for (key, value) in self.writes {
                state.versions.entry(key).or_default().push((at, value));
            }
            Outcome::Committed { at: Timestamp::end_of(at) }
        })
    }
}

/// Opens a session on a new database.
pub fn session() -> (Session, Memory) {
    let memory = Memory::default();
    (session_of(Engine::new("postgres", Arc::new(memory.clone()))), memory)
}

pub fn session_of(engine: Engine) -> Session {
    Session::new(Arc::new(engine), "root")
}

/// Runs a simple query and renders its responses, a line per message: rows joined by `|`, tags, or
/// errors.
pub fn run(session: &mut Session, sql: &str) -> Vec<String> {
    block_on(session.simple(sql)).iter().flat_map(show).collect()
}

pub fn show(response: &Response) -> Vec<String> {
    match response {
        Response::Rows { columns, rows, done } => {
            let mut lines: Vec<String> = rows
                .iter()
                .map(|row| {
                    let texts = row.iter().zip(columns.iter());
                    let texts = texts.map(|(datum, column)| {
                        datum.to_text(column.ty).unwrap_or_else(|| "NULL".into())
                    });
                    texts.collect::<Vec<_>>().join("|")
                })
                .collect();
            lines.extend(done.clone());
            lines
        }
        Response::Complete(tag) => vec![tag.clone()],
        Response::CopyIn { columns, .. } => vec![format!("COPY IN {columns}")],
        Response::CopyOut { records, done, .. } => records
            .iter()
            .map(|record| String::from_utf8_lossy(record).into_owned())
            .chain(done.clone())
            .collect(),
        Response::Empty => vec!["EMPTY".into()],
        Response::Notice(notice) => vec![format!("NOTICE {}", notice.message)],
        Response::Failed(error) => vec![format!("{} {}", error.sqlstate, error.message)],
    }
}

/// Runs one prepared statement with parameters given as text, and syncs.
pub fn prepared(session: &mut Session, sql: &str, params: &[&str]) -> Vec<String> {
    let result = block_on(async {
        session.parse("", sql, &[]).await?;
        let types = session.describe_statement("")?.params;
        let params = types
            .iter()
            .zip(params)
            .map(|(ty, text)| Datum::from_text(*ty, text))
            .collect::<Result<Vec<_>, _>>()?;
        session.bind("", "", params)?;
        let response = session.execute("", 0).await?;
        let response = session.finish(response).await?;
        session.sync().await?;
        Ok::<_, meridian_sql::SqlError>(show(&response))
    });
    match result {
        Ok(lines) => lines,
        Err(error) => {
            let _ = block_on(session.sync());
            vec![format!("{} {}", error.sqlstate, error.message)]
        }
    }
}
