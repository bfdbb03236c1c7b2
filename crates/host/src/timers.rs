//! The thread that wakes state machines when their timers are due.
//!
//! Each machine keeps its own timers ([`Alarms`](meridian_machine::Alarms)); this thread knows only
//! when each machine's earliest timer is due. Moving or cancelling a timer therefore takes no lock
//! that machines share: a wake that comes too early finds nothing due, and the machine schedules
//! another. The thread sets its kernel timer slack to the minimum, which makes a wake late by 10–60
//! µs instead of 50–110 µs.

use crate::clock::boot_ns;
use crate::panics::PanicGuard;
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Receives a wake-up. Called on the timer thread.
pub trait Wake: Send + Sync {
    /// The scheduled time has come.
    fn wake(self: Arc<Self>);
}

struct Entry {
    at: u64,
    who: Weak<dyn Wake>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[derive(Default)]
struct State {
    queue: BinaryHeap<Reverse<Entry>>,
    stopped: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The timer thread.
pub struct Timers {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Timers {
    /// Starts the thread.
    pub fn start(guard: &Arc<PanicGuard>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = guard.spawn("timers", move || run(&of_thread))?;
        Ok(Timers { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Wakes `who` when the boot clock reaches `at`, in nanoseconds.
    pub fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        let mut state = self.shared.state.lock();
        let earliest = state.queue.peek().is_none_or(|Reverse(first)| at < first.at);
        state.queue.push(Reverse(Entry { at, who }));
        drop(state);
        if earliest {
            self.shared.changed.notify_one();
        }
    }

    /// Ends the thread. Scheduled wakes are dropped.
    pub fn stop(&self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared) {
    // Best effort: without it, a wake is late by 50 µs more.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut state = shared.state.lock();
    while !state.stopped {
        let now = boot_ns();
        match state.queue.peek() {
            None => shared.changed.wait(&mut state),
            Some(Reverse(first)) if first.at > now => {
                let wait = Duration::from_nanos(first.at - now);
                shared.changed.wait_for(&mut state, wait);
            }
            Some(_) => {
                let Some(Reverse(due)) = state.queue.pop() else { continue };
                parking_lot::MutexGuard::unlocked(&mut state, || {
                    if let Some(who) = due.who.upgrade() {
                        who.wake();
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Bell(Mutex<mpsc::Sender<u64>>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().send(boot_ns());
        }
    }

    #[test]
    fn wakes_come_in_order_and_not_early() {
        let timers = Timers::start(&PanicGuard::of_test()).unwrap();
        let (sender, rings) = mpsc::channel();
        let bell: Arc<dyn Wake> = Arc::new(Bell(Mutex::new(sender)));
        let now = boot_ns();
        for after_ms in [30, 10, 20] {
            timers.wake_at(now + after_ms * 1_000_000, Arc::downgrade(&bell));
        }
        for after_ms in [10, 20, 30] {
            assert!(
                rings.recv_timeout(Duration::from_secs(10)).unwrap() >= now + after_ms * 1_000_000
            );
        }
    }
}
