//! Hands out values: what the functions `nextval`, `currval`, `lastval` and `setval` do. They wait
//! for others, so that the executor calls them ([`crate::effects`]).

use super::{Block, Sequence, Value};
use crate::catalog::{self, Object};
use crate::commit::unknown;
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, restart, state};
use crate::expr::Facts;
use crate::kv;
use crate::temporary::is_temporary;
use meridian_txn::{
    Age, Begin, Consistency, Failure, Lock, Mode, Outcome, ReadAt, SchemaVersion, Transaction,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The number of attempts to take a block.
const ATTEMPTS: usize = 50;
/// The most values that a session takes at once, if CACHE does not ask for more: each block of a
/// statement is twice as large as the one before.
const MOST_VALUES: u64 = 8192;

/// The use that a function makes of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// `nextval`
    Next,
    /// `currval`
    Current,
    /// `lastval`
    Last,
    /// `setval`
    Set,
}

/// The values that a statement has drawn, set and seen, by sequence: for its replay, which draws
/// and sees the same, and sets none again, since all of that has happened.
pub(crate) type Drawn = BTreeMap<(u32, Use), VecDeque<Run>>;

/// Values at equal distances, of one version of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    first: i64,
    step: i64,
    count: u64,
    version: u64,
}

/// The sequences that a transaction has created or changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    pub(crate) ids: Vec<u32>,
    /// Those whose change was rolled back to a savepoint.
    pub(crate) lost: Vec<u32>,
}

impl Changed {
    /// Rolls back to the number of sequences at a savepoint.
    pub(crate) fn roll_back(&mut self, to: usize) {
        let undone = self.ids.split_off(to.min(self.ids.len()));
        let kept = &self.ids;
        self.lost.extend(undone.into_iter().filter(|id| !kept.contains(id)));
    }
}

/// The sequences of a session.
#[derive(Default)]
pub(crate) struct Sequences {
    engine: Option<Arc<Engine>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<u32, Open>,
    /// The sequence of the newest value.
    last: Option<u32>,
    /// The sequences that the open transaction has created or changed.
    changed: Vec<u32>,
    /// Those whose change it has rolled back to a savepoint: it may still hold their locks.
    lost: Vec<u32>,
    /// The values that it has drawn from those that it has changed.
    own: BTreeMap<u32, Value>,
    lock_timeout: Option<Duration>,
    /// True if the open transaction may not write.
    reads_only: bool,
    drawn: Drawn,
    /// The values that the running statement drew before, if it is a replay.
    again: Drawn,
}

/// A sequence that the session has used.
#[derive(Default)]
struct Open {
    block: Block,
    /// The descriptor with which values were taken last.
    sequence: Option<Arc<Sequence>>,
    /// The newest value, for `currval`.
    current: Option<i64>,
    /// The blocks that the running statement has taken.
    blocks: u32,
}

/// Adds a value to those that were drawn.
fn note(drawn: &mut Drawn, what: (u32, Use), value: i64, version: u64) {
    let runs = drawn.entry(what).or_default();
    if let Some(run) = runs.back_mut().filter(|run| run.version == version) {
        if run.count == 1 {
            run.step = value.wrapping_sub(run.first);
        }
        if run.first.wrapping_add(run.step.wrapping_mul(run.count as i64)) == value {
            run.count += 1;
            return;
        }
    }
    runs.push_back(Run { first: value, step: 0, count: 1, version });
}

/// Takes the first of the values that were drawn; none of another version, which may be handed out
/// again since (RESTART).
fn again(drawn: &mut Drawn, what: (u32, Use), version: u64) -> Option<i64> {
    let runs = drawn.get_mut(&what)?;
    let run = runs.front_mut().filter(|run| run.version == version)?;
    let value = run.first;
    (run.first, run.count) = (run.first.wrapping_add(run.step), run.count - 1);
    if run.count == 0 {
        runs.pop_front();
    }
    Some(value)
}

impl Sequences {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Sequences { engine: Some(engine), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn engine(&self) -> Result<&Arc<Engine>, SqlError> {
        self.engine.as_ref().ok_or_else(|| SqlError::unsupported("a sequence here"))
    }

    /// Begins a statement of a transaction that has changed some sequences; a replay draws `again`
    /// what it drew before.
    pub(crate) fn begin_statement(
        &self,
        changed: &Changed,
        reads_only: bool,
        lock_timeout: Option<Duration>,
        again: Drawn,
    ) {
        let mut state = self.state();
        let State { own, changed: known, lost, .. } = &mut *state;
        known.clone_from(&changed.ids);
        lost.clone_from(&changed.lost);
        own.retain(|id, _| changed.ids.contains(id));
        (state.reads_only, state.lock_timeout) = (reads_only, lock_timeout);
        state.drawn.clear();
        state.again = again;
        state.open.values_mut().for_each(|open| open.blocks = 0);
    }

    /// Returns what the statement that ran last has drawn.
    pub(crate) fn take_drawn(&self) -> Drawn {
        let mut state = self.state();
        state.again.clear();
        std::mem::take(&mut state.drawn)
    }

    /// Returns what the statement that failed has drawn, and what it was to draw again, for its
    /// next attempt.
    pub(crate) fn take_rest(&self) -> Drawn {
        let mut state = self.state();
        let (mut drawn, rest) =
            (std::mem::take(&mut state.drawn), std::mem::take(&mut state.again));
        for (what, runs) in rest {
            drawn.entry(what).or_default().extend(runs);
        }
        drawn
    }

    /// After a rollback to a savepoint, keeps the values that were drawn from sequences that the
    /// transaction has changed before the savepoint.
    pub(crate) fn rolled_back(
        &self,
        txn: &mut dyn Transaction,
        changed: &Changed,
    ) -> Result<(), SqlError> {
        let mut state = self.state();
        state.own.retain(|id, _| changed.ids.contains(id));
        for (id, value) in &state.own {
            let key = kv::to_key(kv::storage_prefix(*id));
            txn.put(key, Some(kv::to_value(value.encode())))?;
        }
        Ok(())
    }

    /// The open transaction has created or changed a sequence: values that were taken are not
    /// handed out any more.
    pub(crate) fn changes(&self, id: u32) {
        let mut state = self.state();
        state.changed.push(id);
        state.own.remove(&id);
        if let Some(open) = state.open.get_mut(&id) {
            open.block = Block::default();
        }
    }

    /// Forgets all values (DISCARD SEQUENCES).
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.last = None;
        for open in state.open.values_mut() {
            (open.block, open.current) = (Block::default(), None);
        }
    }

    /// Hands out a value that was taken.
    fn hand_out(&self, id: u32, value: i64, version: u64) -> Datum {
        let mut state = self.state();
        note(&mut state.drawn, (id, Use::Next), value, version);
        state.last = Some(id);
        let open = state.open.entry(id).or_default();
        let shown = open.sequence.as_ref().map_or(value, |sequence| sequence.shown(value));
        open.current = Some(shown);
        Datum::Int8(shown)
    }

    /// Takes the value of a call that the statement made before.
    fn again(&self, what: (u32, Use), version: u64) -> Option<i64> {
        again(&mut self.state().again, what, version)
    }

    /// True if the open transaction reads and writes the sequence itself.
    fn is_changed(&self, of: &Named<'_>) -> Result<bool, SqlError> {
        let state = self.state();
        if state.changed.contains(&of.id) {
            return Ok(true);
        }
        if state.lost.contains(&of.id) {
            let what = "a sequence whose change was rolled back to a savepoint";
            return Err(SqlError::unsupported(what)
                .hint("End the transaction first: it still holds the sequence's lock."));
        }
        Ok(false)
    }

    async fn next(&self, txn: &mut dyn Transaction, of: &Named<'_>) -> Result<Datum, SqlError> {
        if self.is_changed(of)? {
            let sequence = self.own(txn, of).await?;
            let (value, _) = sequence.take(sequence.read(txn).await?, 1)?;
            sequence.write(txn, value)?;
            let (mut state, version) = (self.state(), sequence.version);
            state.own.insert(of.id, value);
            state.open.entry(of.id).or_default().sequence = Some(sequence);
            drop(state);
            return Ok(self.hand_out(of.id, value.last, version));
        }
        if is_temporary(of.id) {
            let sequence = self.own(txn, of).await?;
            if let Some(value) = self.again((of.id, Use::Next), sequence.version) {
                return Ok(self.hand_out(of.id, value, sequence.version));
            }
            let (value, _) = sequence.take(sequence.read(txn).await?, 1)?;
            self.write_temporary(&sequence, value)?;
            let version = sequence.version;
            self.state().open.entry(of.id).or_default().sequence = Some(sequence);
            return Ok(self.hand_out(of.id, value.last, version));
        }
        // What was taken before a change is not handed out after it.
        let version = self.committed(of).await?.version;
        if let Some(value) = self.again((of.id, Use::Next), version) {
            return Ok(self.hand_out(of.id, value, version));
        }
        let taken = || {
            let mut state = self.state();
            let open = state.open.get_mut(&of.id)?;
            let is_current = open.sequence.as_ref().is_some_and(|it| it.version == version);
            if is_current { open.block.pop() } else { None }
        };
        if let Some(value) = taken() {
            return Ok(self.hand_out(of.id, value, version));
        }
        let version = self.refill(of, txn.age()).await?;
        let value = self.state().open.get_mut(&of.id).and_then(|open| open.block.pop());
        let value = value.ok_or_else(|| SqlError::corrupted("a block without values"))?;
        Ok(self.hand_out(of.id, value, version))
    }

    /// Writes the value of a temporary sequence, which no rollback undoes.
    fn write_temporary(&self, sequence: &Sequence, value: Value) -> Result<(), SqlError> {
        let value = kv::to_value(value.encode());
        Ok(self.engine()?.temporary().put(sequence.key(), Some(value), false)?)
    }

    /// Reads a sequence that the open transaction has created or changed, or a temporary one.
    async fn own(
        &self,
        txn: &mut dyn Transaction,
        of: &Named<'_>,
    ) -> Result<Arc<Sequence>, SqlError> {
        let cache = &self.engine()?.cache;
        match catalog::object_by_id(txn, cache, of.id, false, Lock::Shared).await? {
            Some(Object::Sequence(sequence)) => Ok(sequence),
            Some(other) => Err(catalog::not_a("sequence", other.name())),
            None => Err(of.missing()),
        }
    }

    /// Finds a sequence that is committed.
    async fn committed(&self, of: &Named<'_>) -> Result<Arc<Sequence>, SqlError> {
        let engine = self.engine()?;
        let object = match engine.cache.newest(of.id) {
            Some(object) => Some(object),
            None => {
                let mut txn = self.look().await?;
                txn.show_versions();
                catalog::object_by_id(txn.as_mut(), &engine.cache, of.id, true, Lock::Shared)
                    .await?
            }
        };
        match object {
            Some(Object::Sequence(sequence)) => Ok(sequence),
            Some(other) => Err(catalog::not_a("sequence", other.name())),
            None => Err(of.missing()),
        }
    }

    /// Takes a block of values in a transaction of its own. Returns the version of the sequence.
    async fn refill(&self, of: &Named<'_>, age: Age) -> Result<u64, SqlError> {
        let blocks = self.state().open.get(&of.id).map_or(0, |open| open.blocks);
        let (sequence, block) = self
            .change(of, age, true, |sequence, value| {
                let cache = sequence.cache as u64;
                let count = match cache {
                    1 => 1,
                    cache => cache.saturating_mul(1 << blocks.min(32)).min(MOST_VALUES.max(cache)),
                };
                sequence.take(value, count)
            })
            .await?;
        let (mut state, version) = (self.state(), sequence.version);
        let open = state.open.entry(of.id).or_default();
        (open.block, open.sequence, open.blocks) = (block, Some(sequence), blocks + 1);
        Ok(version)
    }

    /// Changes the value of a committed sequence in a transaction of its own, which has the age of
    /// the one that waits for it, so that it wins where that one would. If its outcome is unknown,
    /// it is done again if it `repeats`.
    async fn change<T>(
        &self,
        of: &Named<'_>,
        age: Age,
        repeats: bool,
        how: impl Fn(&Sequence, Value) -> Result<(Value, T), SqlError>,
    ) -> Result<(Arc<Sequence>, T), SqlError> {
        let engine = self.engine()?;
        for _ in 0..ATTEMPTS {
            let sequence = self.committed(of).await?;
            let begin = Begin { consistency: Consistency::Hybrid, ..Begin::new(Mode::ReadWrite) };
            let mut txn = engine.database().begin(begin.aged(Some(age))).await?;
            txn.planned_for(SchemaVersion { table: sequence.id, version: sequence.version });
            txn.set_lock_timeout(self.state().lock_timeout);
            let changed = async {
                let (value, made) = how(&sequence, sequence.read(txn.as_mut()).await?)?;
                sequence.write(txn.as_mut(), value)?;
                Ok::<_, SqlError>(made)
            };
            let outcome = match changed.await {
                Ok(made) => match txn.before_commit().await {
                    Ok(()) => (txn.commit().await, made),
                    Err(Failure::Aborted(why)) => (Outcome::Aborted { why }, made),
                    Err(other) => return Err(other.into()),
                },
                Err(error) if error.is_restart() => {
                    engine.cache.forget(of.id);
                    continue;
                }
                Err(error) => {
                    // What it read must have been true.
                    match txn.validate().await {
                        Ok(()) => return Err(error),
                        Err(Failure::Aborted(_)) => continue,
                        Err(other) => return Err(other.into()),
                    }
                }
            };
            match outcome {
                (Outcome::Committed { .. }, made) => return Ok((sequence, made)),
                (Outcome::Unknown, _) if !repeats => return Err(unknown()),
                // Whether they were taken or not, these values are not used.
                (Outcome::Unknown | Outcome::Aborted { .. }, _) => engine.cache.forget(of.id),
            }
        }
        Err(restart(&format!("too many sessions take values of sequence \"{}\"", of.name)))
    }

    async fn set(
        &self,
        txn: &mut dyn Transaction,
        of: &Named<'_>,
        last: i64,
        is_called: bool,
    ) -> Result<Datum, SqlError> {
        let to = |sequence: &Sequence| {
            if (sequence.min..=sequence.max).contains(&last) {
                return Ok(Value { last, is_called });
            }
            let Sequence { name, min, max, .. } = sequence;
            let message = format!(
                "setval: value {last} is out of bounds for sequence \"{name}\" ({min}..{max})"
            );
            Err(SqlError::new(state::OUT_OF_RANGE, message))
        };
        if self.is_changed(of)? {
            let sequence = self.own(txn, of).await?;
            let value = to(&sequence)?;
            sequence.write(txn, value)?;
            self.state().own.insert(of.id, value);
        } else if self.again((of.id, Use::Set), 0) == Some(last) {
        } else if is_temporary(of.id) {
            let sequence = self.own(txn, of).await?;
            self.write_temporary(&sequence, to(&sequence)?)?;
        } else {
            self.change(of, txn.age(), false, |sequence, _| Ok((to(sequence)?, ()))).await?;
        }
        let mut state = self.state();
        note(&mut state.drawn, (of.id, Use::Set), last, 0);
        let open = state.open.entry(of.id).or_default();
        (open.block, open.blocks) = (Block::default(), 0);
        if is_called {
            open.current = Some(last);
        }
        Ok(Datum::Int8(last))
    }

    async fn current(&self, txn: &mut dyn Transaction, of: &Named<'_>) -> Result<Datum, SqlError> {
        let own = self.state().changed.contains(&of.id) || is_temporary(of.id);
        let sequence = if own { self.own(txn, of).await? } else { self.committed(of).await? };
        let before = self.again((of.id, Use::Current), 0);
        let mut state = self.state();
        let value = before.or_else(|| state.open.get(&of.id).and_then(|open| open.current));
        if let Some(value) = value {
            note(&mut state.drawn, (of.id, Use::Current), value, 0);
            return Ok(Datum::Int8(value));
        }
        let message =
            format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
        Err(SqlError::new(state::NOT_IN_STATE, message))
    }

    /// Returns the value of a sequence, without a lock that this or another transaction would wait
    /// for; `None` if it was dropped since the transaction's snapshot.
    pub(crate) async fn peek(
        &self,
        txn: &mut dyn Transaction,
        id: u32,
    ) -> Result<Option<Value>, SqlError> {
        let key = kv::to_key(kv::storage_prefix(id));
        let value = match self.state().changed.contains(&id)
            || is_temporary(id)
            || txn.mode() != Mode::ReadWrite
        {
            true => txn.get(&key, Lock::Shared),
            false => {
                let mut look = self.look().await?;
                let value = look.get(&key, Lock::Shared).await?;
                Box::pin(std::future::ready(Ok(value)))
            }
        };
        value.await?.map(|value| Value::decode(&value.0)).transpose()
    }

    /// Begins a read of the present.
    async fn look(&self) -> Result<Box<dyn Transaction>, SqlError> {
        let how = Begin::new(Mode::ReadOnly(ReadAt::Now));
        let how = Begin { consistency: Consistency::Hybrid, ..how };
        Ok(self.engine()?.database().begin(how).await?)
    }

    async fn last(&self, txn: &mut dyn Transaction) -> Result<Datum, SqlError> {
        let undefined =
            || SqlError::new(state::NOT_IN_STATE, "lastval is not yet defined in this session");
        let before = self.again((0, Use::Last), 0).and_then(|id| u32::try_from(id).ok());
        let id = before.or_else(|| self.state().last).ok_or_else(undefined)?;
        note(&mut self.state().drawn, (0, Use::Last), id.into(), 0);
        // It may have been dropped.
        match self.current(txn, &Named { id, name: "" }).await {
            Err(error) if error.sqlstate == state::UNDEFINED_TABLE => Err(undefined()),
            other => other,
        }
    }
}

impl Sequence {
    async fn read(&self, txn: &mut dyn Transaction) -> Result<Value, SqlError> {
        match txn.get(&self.key(), Lock::Exclusive).await? {
            Some(value) => Value::decode(&value.0),
            None => Err(restart("the sequence is being changed")),
        }
    }

    /// Writes its value.
    pub(crate) fn write(&self, txn: &mut dyn Transaction, value: Value) -> Result<(), SqlError> {
        Ok(txn.put(self.key(), Some(kv::to_value(value.encode())))?)
    }
}

/// A sequence that a call names.
struct Named<'a> {
    id: u32,
    name: &'a str,
}

impl Named<'_> {
    fn of(args: &[Datum]) -> Result<Named<'_>, SqlError> {
        match args.first() {
            Some(Datum::Object(id, name)) => Ok(Named { id: *id, name }),
            _ => Err(SqlError::corrupted("the argument of a function of sequences")),
        }
    }

    fn missing(&self) -> SqlError {
        let message = match self.name.bytes().all(|byte| byte.is_ascii_digit()) {
            true => format!("could not open relation with OID {}", self.name),
            false => format!("relation \"{}\" does not exist", self.name),
        };
        SqlError::new(state::UNDEFINED_TABLE, message)
    }
}

/// Makes a call of a function of sequences.
pub(crate) async fn call(
    how: Use,
    args: &[Datum],
    txn: &mut dyn Transaction,
    facts: &Facts,
) -> Result<Datum, SqlError> {
    let sequences = &facts.sequences;
    let is_shared = !matches!(args.first(), Some(Datum::Object(id, _)) if is_temporary(*id));
    if matches!(how, Use::Next | Use::Set) && is_shared && sequences.state().reads_only {
        let name = if how == Use::Next { "nextval" } else { "setval" };
        let message = format!("cannot execute {name}() in a read-only transaction");
        return Err(SqlError::new(state::READ_ONLY, message));
    }
    match how {
        Use::Next => sequences.next(txn, &Named::of(args)?).await,
        Use::Current => sequences.current(txn, &Named::of(args)?).await,
        Use::Last => sequences.last(txn).await,
        Use::Set => {
            let last = args.get(1).and_then(Datum::as_i64);
            let last = last.ok_or_else(|| SqlError::corrupted("setval without a value"))?;
            let is_called = args.get(2) != Some(&Datum::Bool(false));
            sequences.set(txn, &Named::of(args)?, last, is_called).await
        }
    }
}
