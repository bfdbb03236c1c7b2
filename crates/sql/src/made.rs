//! The calls of a statement whose effects outlast its transaction. A replay of the statement makes
//! none of them again: each returns its first value.

use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::function::Effect;
use crate::memory;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call with its arguments and its value.
#[derive(Clone)]
pub(crate) struct Call {
    effect: Effect,
    args: Vec<Datum>,
    value: Datum,
}

/// Calls in the order in which they were made.
pub(crate) type Calls = VecDeque<Call>;

/// The number of calls of a transaction whose memory is reserved at once; the first of them are
/// few, and need none.
const ACCOUNTED: usize = 1024;

/// The calls that the session's running statement has made.
#[derive(Default)]
pub(crate) struct Made {
    state: Mutex<State>,
    memory: Mutex<Memory>,
}

/// The memory that the calls of the open transaction take up, for its replay.
#[derive(Default)]
struct Memory {
    calls: usize,
    held: Option<memory::Held>,
}

#[derive(Default)]
struct State {
    done: Calls,
    /// The calls that an earlier run has made, and this one has not come to.
    again: Calls,
}

impl Made {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a statement, an earlier run of which has made some calls.
    pub(crate) fn begin_statement(&self, again: Calls) {
        *self.state() = State { done: Calls::new(), again };
    }

    /// Returns the value that an earlier run has for the next call, unless this run has taken
    /// another way.
    pub(crate) fn again(&self, effect: Effect, args: &[Datum]) -> Option<Datum> {
        let mut state = self.state();
        if !state.again.front().is_some_and(|call| call.effect == effect && call.args == args) {
            state.again.clear();
        }
        state.again.pop_front().map(|call| call.value)
    }

    /// Reserves memory for another call of the transaction. Fails with 53200 if queries have none.
    pub(crate) fn account(&self, facts: &Facts) -> Result<(), SqlError> {
        let mut memory = self.memory();
        memory.calls += 1;
        if memory.calls.is_multiple_of(ACCOUNTED) {
            let bytes = ACCOUNTED * size_of::<Call>();
            memory.held.get_or_insert_with(|| facts.held()).add(bytes)?;
        }
        Ok(())
    }

    /// Forgets the memory of the calls of a transaction that has ended.
    pub(crate) fn end_transaction(&self) {
        *self.memory() = Memory::default();
    }

    /// Notes a call.
    pub(crate) fn note(&self, effect: Effect, args: &[Datum], value: Datum) {
        self.state().done.push_back(Call { effect, args: args.to_vec(), value });
    }

    /// Returns the calls of the statement that ran last.
    pub(crate) fn take_done(&self) -> Calls {
        std::mem::take(&mut *self.state()).done
    }

    /// Returns the calls of the statement that failed, and those that it had not come to, for its
    /// next attempt.
    pub(crate) fn take_rest(&self) -> Calls {
        let State { mut done, again } = std::mem::take(&mut *self.state());
        done.extend(again);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleep::Sleep;

    const SLEEP: Effect = Effect::Sleep(Sleep::Seconds);

    #[test]
    fn a_call_has_its_first_value_until_a_run_takes_another_way() {
        let made = Made::default();
        for (arg, value) in [(1, 10), (2, 20), (3, 30)] {
            made.note(SLEEP, &[Datum::Int4(arg)], Datum::Int4(value));
        }
        made.begin_statement(made.take_done());
        assert_eq!(made.again(SLEEP, &[Datum::Int4(1)]), Some(Datum::Int4(10)));
        made.note(SLEEP, &[Datum::Int4(1)], Datum::Int4(10));
        // It fails here: the next attempt returns all three.
        made.begin_statement(made.take_rest());
        assert_eq!(made.again(SLEEP, &[Datum::Int4(1)]), Some(Datum::Int4(10)));
        assert_eq!(made.again(SLEEP, &[Datum::Int4(2)]), Some(Datum::Int4(20)));
        assert_eq!(made.again(SLEEP, &[Datum::Int4(7)]), None);
        assert_eq!(made.again(SLEEP, &[Datum::Int4(3)]), None);
    }
}
