//! The turn of a statement on its thread.
//!
//! A statement that only computes would keep its thread until it is done: other sessions, cancel
//! requests and timeouts would wait. So it lets other tasks run: every few milliseconds by the
//! session's clock, and every few thousand rows in a session without one, which runs the same way
//! each time.

use std::task::Poll;
use std::time::Duration;

/// Returns the time since some moment; it never goes back.
pub type Clock = fn() -> Duration;

/// The time after which other tasks of the thread run.
const LENGTH: Duration = Duration::from_millis(5);
/// The time for which the clock need not be read again.
const GRAIN: Duration = Duration::from_micros(200);
/// The most rows between two readings of the clock.
const MOST_ROWS: usize = 64;
/// The rows of a turn without a clock.
const ROWS_WITHOUT_CLOCK: usize = 4000;

/// The time since other tasks have run, read from the clock once for some rows: for each, if rows
/// take long.
#[derive(Debug)]
pub(crate) struct Turn {
    clock: Option<Clock>,
    began: Duration,
    read_at: Duration,
    /// The rows until the clock is read again, and their number from the start.
    left: usize,
    stride: usize,
}

impl Turn {
    /// Begins a turn.
    pub(crate) fn new(clock: Option<Clock>) -> Turn {
        let now = clock.map_or(Duration::ZERO, |clock| clock());
        let stride = if clock.is_some() { 1 } else { ROWS_WITHOUT_CLOCK };
        Turn { clock, began: now, read_at: now, left: stride, stride }
    }

    /// Counts rows. Returns true if other tasks should run now.
    pub(crate) fn is_over(&mut self, rows: usize) -> bool {
        self.left = self.left.saturating_sub(rows);
        if self.left > 0 {
            return false;
        }
        let Some(clock) = self.clock else {
            self.left = self.stride;
            return true;
        };
        let now = clock();
        self.stride = match now.saturating_sub(self.read_at) < GRAIN {
            true => (self.stride * 2).min(MOST_ROWS),
            false => self.stride.div_ceil(8),
        };
        (self.left, self.read_at) = (self.stride, now);
        now.saturating_sub(self.began) >= LENGTH
    }

    /// Lets other tasks run.
    pub(crate) async fn pass(&mut self) {
        let mut passed = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut passed, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.began = self.clock.map_or(Duration::ZERO, |clock| clock());
        self.read_at = self.began;
    }

    /// Counts rows, and lets other tasks run if it is time.
    pub(crate) async fn pause(&mut self, rows: usize) {
        if self.is_over(rows) {
            self.pass().await;
        }
    }
}

/// The number of items that are sorted at once.
const RUN_ITEMS: usize = 20_000;

/// Sorts, and lets other tasks run between parts of it. Equal items keep their order.
pub(crate) async fn sort<T>(
    items: &mut Vec<T>,
    turn: &mut Turn,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) {
    if items.len() <= RUN_ITEMS {
        items.sort_by(compare);
        return;
    }
    let mut runs: Vec<Vec<T>> = Vec::new();
    let mut rest = std::mem::take(items).into_iter();
    loop {
        let mut run: Vec<T> = rest.by_ref().take(RUN_ITEMS).collect();
        if run.is_empty() {
            break;
        }
        run.sort_by(&compare);
        runs.push(run);
        turn.pause(MOST_ROWS).await;
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            let Some(right) = pairs.next() else {
                merged.push(left);
                break;
            };
            let mut both = Vec::with_capacity(left.len() + right.len());
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            loop {
                let next = match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) if compare(a, b).is_gt() => right.next(),
                    (Some(_), _) => left.next(),
                    (None, _) => right.next(),
                };
                let Some(next) = next else { break };
                both.push(next);
                turn.pause(1).await;
            }
            merged.push(both);
        }
        runs = merged;
    }
    *items = runs.pop().unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::time::Instant;

    fn clock() -> Duration {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        ORIGIN.elapsed()
    }

    #[test]
    fn a_long_sort_is_right_stable_and_lets_others_run() {
        let mut items: Vec<(u32, u32)> =
            (0..100_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 22, n)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|(key, _)| *key);
        let mut turn = Turn::new(Some(clock));
        let sorting = sort(&mut items, &mut turn, |a, b| a.0.cmp(&b.0));
        futures::executor::block_on(sorting);
        assert_eq!(items, expected);
    }

    #[test]
    fn slow_rows_end_a_turn_soon_and_quick_ones_late() {
        let mut turn = Turn::new(Some(clock));
        assert!((0..20).all(|_| !turn.is_over(1)), "quick rows go on");
        let slow = (0..MOST_ROWS + 2).take_while(|_| {
            std::thread::sleep(Duration::from_millis(1));
            !turn.is_over(1)
        });
        assert!(slow.count() <= MOST_ROWS, "slow rows end the turn");
    }

    #[test]
    fn without_a_clock_a_turn_ends_after_the_same_rows_each_time() {
        let mut turn = Turn::new(None);
        let ends: Vec<usize> = (1..=10_000).filter(|_| turn.is_over(1)).collect();
        assert_eq!(ends, [4000, 8000]);
    }
}
