//! Expressions whose functions have effects: they change something, and may have to wait.
//!
//! The evaluation of an expression cannot wait. So it is evaluated several times: each time up to a
//! call whose value is not known yet; the executor makes the call, notes its value, and evaluates
//! again. Their order is that of PostgreSQL, and a branch of CASE that is not taken calls nothing.
//! Where rows flow through such expressions, they do so one by one.

use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{self, Expr, Facts, Scope};
use crate::function::Effect;
use crate::sequence;
use crate::signal;
use crate::sleep;
use meridian_txn::Transaction;
use std::sync::{Mutex, MutexGuard};

/// The values that an expression has, and keeps while it is evaluated again: those of its calls,
/// and of volatile functions, so that each evaluation comes to the same calls.
#[derive(Default)]
pub(crate) struct Effects {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// The values that are known, in order.
    known: Vec<Datum>,
    /// The number of those that this evaluation has come to.
    at: usize,
    /// The call whose value is not known.
    wanted: Option<(Effect, Vec<Datum>)>,
}

impl Effects {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the next value, if it is known.
    fn next(&self) -> Option<Datum> {
        let mut calls = self.calls();
        let value = calls.known.get(calls.at).cloned()?;
        calls.at += 1;
        Some(value)
    }

    /// Returns the value of a call; an error, if it has to be made first.
    pub(crate) fn value(&self, effect: Effect, args: &[Datum]) -> Result<Datum, SqlError> {
        self.next().ok_or_else(|| {
            self.calls().wanted = Some((effect, args.to_vec()));
            SqlError::corrupted("a call that was not made")
        })
    }

    /// Returns the value of a volatile function, which is computed once.
    pub(crate) fn once(
        &self,
        compute: impl FnOnce() -> Result<Datum, SqlError>,
    ) -> Result<Datum, SqlError> {
        if let Some(value) = self.next() {
            return Ok(value);
        }
        let value = compute()?;
        let mut calls = self.calls();
        calls.known.push(value.clone());
        calls.at += 1;
        Ok(value)
    }
}

/// True if an expression calls a function that has an effect.
pub(crate) fn has_effects(expr: &Expr) -> bool {
    let mut has = false;
    expr.walk(&mut |part| {
        has |= matches!(part, Expr::Call(function, _) if function.effect().is_some())
    });
    has
}

/// Returns the value of an expression whose functions may have effects.
async fn value(
    expr: &Expr,
    row: &[Datum],
    scope: &Scope<'_>,
    txn: &mut dyn Transaction,
) -> Result<Datum, SqlError> {
    let effects = Effects::default();
    loop {
        let evaluated = expr.eval(row, &Scope { effects: Some(&effects), ..*scope });
        let wanted = {
            let mut calls = effects.calls();
            calls.at = 0;
            calls.wanted.take()
        };
        let Some((effect, args)) = wanted else { return evaluated };
        let value = call(effect, &args, txn, scope.session).await?;
        effects.calls().known.push(value);
    }
}

/// Makes a call of a function that has an effect.
pub(crate) async fn call(
    effect: Effect,
    args: &[Datum],
    txn: &mut dyn Transaction,
    facts: &Facts,
) -> Result<Datum, SqlError> {
    if let Effect::Sequence(how) = effect {
        return sequence::call(how, args, txn, facts).await;
    }
    let again = facts.made.again(effect, args)?;
    if again.is_none() {
        facts.made.account(facts)?;
    }
    let value = match (again, effect) {
        (Some(value), _) => value,
        (None, Effect::Signal(signal)) => signal::call(signal, args, facts)?,
        (None, Effect::Sleep(how)) => sleep::call(how, args, facts).await?,
        (None, Effect::Advisory(call)) => facts.advisory.call(call, args, facts).await?,
        (None, Effect::Sequence(_)) => return Err(SqlError::corrupted("a call of a sequence")),
    };
    facts.made.note(effect, args, value.clone());
    Ok(value)
}

/// Returns the values of expressions for a row; their functions may have effects.
pub(crate) async fn evaluate(
    exprs: &[Expr],
    row: &[Datum],
    scope: &Scope<'_>,
    txn: &mut dyn Transaction,
) -> Result<Vec<Datum>, SqlError> {
    if !exprs.iter().any(has_effects) {
        return expr::evaluate(exprs, row, scope);
    }
    let mut values = Vec::with_capacity(exprs.len());
    for expr in exprs {
        values.push(value(expr, row, scope, txn).await?);
    }
    Ok(values)
}

/// True if a condition, whose functions may have effects, is true for a row.
pub(crate) async fn holds(
    condition: &Expr,
    row: &[Datum],
    scope: &Scope<'_>,
    txn: &mut dyn Transaction,
) -> Result<bool, SqlError> {
    Ok(value(condition, row, scope, txn).await? == Datum::Bool(true))
}
