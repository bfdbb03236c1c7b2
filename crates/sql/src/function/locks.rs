//! Functions that wait: those of advisory locks and of time. The executor calls them.

use super::of::*;
use super::{Effect, Function, Param};
use crate::advisory::{Action, Call};
use crate::sleep::Sleep;

const KEY: &[Param] = &[INT8];
const PAIR: &[Param] = &[INT4, INT4];

const fn advisory(
    name: &'static str,
    params: &'static [Param],
    action: Action,
    is_shared: bool,
    of_transaction: bool,
) -> Function {
    let result = match action {
        Action::Lock | Action::UnlockAll => A_VOID,
        Action::Try | Action::Unlock => A_BOOL,
    };
    let call = Call { action, is_shared, of_transaction };
    Function::effect_of(name, params, result, Effect::Advisory(call))
}

const fn session(name: &'static str, params: &'static [Param], action: Action) -> Function {
    advisory(name, params, action, false, false)
}

const fn shared(name: &'static str, params: &'static [Param], action: Action) -> Function {
    advisory(name, params, action, true, false)
}

const fn sleeps(name: &'static str, params: &'static [Param], how: Sleep) -> Function {
    Function::effect_of(name, params, A_VOID, Effect::Sleep(how))
}

pub(super) const FUNCTIONS: &[Function] = &[
    session("pg_advisory_lock", KEY, Action::Lock),
    session("pg_advisory_lock", PAIR, Action::Lock),
    shared("pg_advisory_lock_shared", KEY, Action::Lock),
    shared("pg_advisory_lock_shared", PAIR, Action::Lock),
    session("pg_advisory_unlock", KEY, Action::Unlock),
    session("pg_advisory_unlock", PAIR, Action::Unlock),
    session("pg_advisory_unlock_all", &[], Action::UnlockAll),
    shared("pg_advisory_unlock_shared", KEY, Action::Unlock),
    shared("pg_advisory_unlock_shared", PAIR, Action::Unlock),
    advisory("pg_advisory_xact_lock", KEY, Action::Lock, false, true),
    advisory("pg_advisory_xact_lock", PAIR, Action::Lock, false, true),
    advisory("pg_advisory_xact_lock_shared", KEY, Action::Lock, true, true),
    advisory("pg_advisory_xact_lock_shared", PAIR, Action::Lock, true, true),
    session("pg_try_advisory_lock", KEY, Action::Try),
    session("pg_try_advisory_lock", PAIR, Action::Try),
    shared("pg_try_advisory_lock_shared", KEY, Action::Try),
    shared("pg_try_advisory_lock_shared", PAIR, Action::Try),
    advisory("pg_try_advisory_xact_lock", KEY, Action::Try, false, true),
    advisory("pg_try_advisory_xact_lock", PAIR, Action::Try, false, true),
    advisory("pg_try_advisory_xact_lock_shared", KEY, Action::Try, true, true),
    advisory("pg_try_advisory_xact_lock_shared", PAIR, Action::Try, true, true),
    sleeps("pg_sleep", &[FLOAT8], Sleep::Seconds),
    sleeps("pg_sleep_for", &[INTERVAL], Sleep::Interval),
    sleeps("pg_sleep_until", &[TIMESTAMPTZ], Sleep::Until),
];
