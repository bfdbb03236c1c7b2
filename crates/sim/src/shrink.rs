//! The search for a smaller run that fails, too: with fewer faults, in one window, and fewer
//! transactions.
//!
//! All draws stay the same, but faults outside of the window are not applied. After the first
//! difference a smaller run diverges, so that it need not fail in the same way: it is accepted only
//! if it fails.

use crate::{Options, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// True if a run fails: by its verdict, or by an assertion.
pub fn is_wrong(options: Options) -> bool {
    let options = Options { log: None, ..options };
    catch_unwind(AssertUnwindSafe(|| run(options).verdict.is_err())).unwrap_or(true)
}

/// Returns the smallest failing run that `runs` runs find; `options` if they find none. Failing
/// assertions print as usual: panic hooks are up to the caller.
pub fn shrink(options: Options, runs: usize) -> Options {
    let mut smallest = options;
    let mut left = runs;
    let mut wrong = |smaller: Options| {
        left = left.saturating_sub(1);
        left > 0 && is_wrong(smaller)
    };
    // Halves the end of the window, then its beginning, then the number of transactions, as long as
    // the run fails.
    let (from, to) = smallest.strikes.unwrap_or((0, MOST_STRIKES));
    let ends = halving(to, from, |to| wrong(Options { strikes: Some((from, to)), ..smallest }));
    if ends < to {
        smallest.strikes = Some((from, ends));
    }
    let last = smallest.strikes.map_or(MOST_STRIKES, |(_, to)| to);
    let begins = last
        - halving(last - from, 0, |length| {
            wrong(Options { strikes: Some((last - length, last)), ..smallest })
        });
    if begins > from {
        smallest.strikes = Some((begins, last));
    }
    let transactions = smallest.transactions as u64;
    let fewer = halving(transactions, 1, |count| {
        wrong(Options { transactions: count as usize, ..smallest })
    });
    smallest.transactions = fewer as usize;
    smallest
}

/// More than the faults of any run.
const MOST_STRIKES: u64 = 4_096;

/// Returns the smallest number found, between `least` and `does`, for which `does_it` is true.
fn halving(does: u64, least: u64, mut does_it: impl FnMut(u64) -> bool) -> u64 {
    let (mut does, mut does_not) = (does, least);
    while does - does_not > 1 {
        let middle = does_not + (does - does_not) / 2;
        if does_it(middle) {
            does = middle;
        } else {
            does_not = middle;
        }
    }
    does
}
