//! The calls of a statement whose effects outlast its transaction. A replay of the statement makes
//! none of them again: each returns its first value. One that comes to other calls fails, since
//! those that were made cannot be undone.

use crate::datum::Datum;
use crate::error::{SqlError, restart};
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

/// The reason of a restart after a run that came to other calls.
const OTHER_CALLS: &str = "a replay of a statement would have called other functions";

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
    /// True if this run has come to another call than the earlier one.
    is_other: bool,
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
        *self.state() = State { again, ..State::default() };
    }

    /// Returns the value that an earlier run has for the next call; `None` if it has not come so
    /// far. Fails with 40001 if it has made another call.
    pub(crate) fn again(&self, effect: Effect, args: &[Datum]) -> Result<Option<Datum>, SqlError> {
        let mut state = self.state();
        let Some(call) = state.again.pop_front() else { return Ok(None) };
        if call.effect == effect && call.args == args {
            return Ok(Some(call.value));
        }
        state.again.push_front(call);
        state.is_other = true;
        Err(restart(OTHER_CALLS))
    }

    /// Fails with 40001 if the statement, which has ended, has not come to all calls that an
    /// earlier run has made.
    pub(crate) fn check_all_made(&self) -> Result<(), SqlError> {
        let mut state = self.state();
        state.is_other |= !state.again.is_empty();
        if state.is_other { Err(restart(OTHER_CALLS)) } else { Ok(()) }
    }

    /// Takes whether the statement has failed since it came to other calls than an earlier run:
    /// another attempt would do so, too.
    pub(crate) fn take_is_other(&self) -> bool {
        std::mem::take(&mut self.state().is_other)
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
        let State { mut done, again, .. } = std::mem::take(&mut *self.state());
        done.extend(again);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleep::Sleep;

    const SLEEP: Effect = Effect::Sleep(Sleep::Seconds);

    fn made(args: &[i32]) -> Made {
        let made = Made::default();
        args.iter().for_each(|arg| made.note(SLEEP, &[Datum::Int4(*arg)], Datum::Int4(10 * arg)));
        made
    }

    fn again(made: &Made, arg: i32) -> Result<Option<Datum>, SqlError> {
        made.again(SLEEP, &[Datum::Int4(arg)])
    }

    #[test]
    fn a_call_has_its_first_value() {
        let made = made(&[1, 2, 3]);
        made.begin_statement(made.take_done());
        assert_eq!(again(&made, 1), Ok(Some(Datum::Int4(10))));
        made.note(SLEEP, &[Datum::Int4(1)], Datum::Int4(10));
        // It fails here: the next attempt returns all three.
        made.begin_statement(made.take_rest());
        for arg in 1..=3 {
            assert_eq!(again(&made, arg), Ok(Some(Datum::Int4(10 * arg))));
        }
        assert_eq!(again(&made, 4), Ok(None));
        assert_eq!(made.check_all_made(), Ok(()));
    }

    #[test]
    fn a_run_that_comes_to_other_calls_fails() {
        let made = made(&[1, 2]);
        made.begin_statement(made.take_done());
        assert_eq!(again(&made, 1), Ok(Some(Datum::Int4(10))));
        assert!(!made.take_is_other());
        assert_eq!(again(&made, 7), Err(restart(OTHER_CALLS)));
        assert!(made.take_is_other() && !made.take_is_other());
        made.begin_statement(made.take_rest());
        // Fewer are other ones, too.
        assert_eq!(made.check_all_made(), Err(restart(OTHER_CALLS)));
    }
}
