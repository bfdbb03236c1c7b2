//! A smaller world that is wrong, too: fewer faults, in one window, and fewer transactions.
//!
//! Everything is drawn as before; faults outside of the window do not strike. What a smaller world
//! does after the first difference is another story, so that it need not be wrong in the same way:
//! it is believed only if it is wrong.

use crate::{Options, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether a world is wrong: by a verdict, or by an assertion on the way.
pub fn is_wrong(options: Options) -> bool {
    let options = Options { tell: None, ..options };
    catch_unwind(AssertUnwindSafe(|| run(options).verdict.is_err())).unwrap_or(true)
}

/// The smallest world that `runs` runs find; the one that was given if they find none. Assertions
/// print what they print: hooks are the caller's.
pub fn shrink(options: Options, runs: usize) -> Options {
    let mut smallest = options;
    let mut left = runs;
    let mut wrong = |smaller: Options| {
        left = left.saturating_sub(1);
        left > 0 && is_wrong(smaller)
    };
    // The end of the window, then its beginning, then how many transactions: each by halves, as
    // long as it stays wrong.
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

/// More than any run draws.
const MOST_STRIKES: u64 = 4_096;

/// The smallest number above `least` that is found to do, between it and one that does.
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
