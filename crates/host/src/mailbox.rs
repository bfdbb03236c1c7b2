//! Who steps a machine.
//!
//! Whoever delivers to an idle machine steps it on his own thread until its mailbox is empty; otherwise he leaves the input to
//! whoever is stepping it. So a request to a local machine needs no wake and no other thread, and a machine is never stepped
//! by two threads at once.
//!
//! ```text
//!   post(input) ──▶ somebody is stepping?  ── yes ──▶ left in the queue; done
//!                          │ no
//!                          ▼
//!                   take the queue, step each, take again … until it is empty
//! ```
//!
//! A stepper who has done his share hands the machine to a helper (see [`Step::over`]) rather than stepping for others for ever.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The inputs that wait for one machine.
#[derive(Debug)]
pub struct Mailbox<T> {
    state: Mutex<State<T>>,
    /// A copy of `stepping` that is read without the lock.
    busy: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    stepping: bool,
}

/// The right to step a machine: at most one exists for each mailbox.
#[derive(Debug)]
pub struct Step {
    taken: usize,
}

impl Step {
    /// How many inputs one stepper takes before he may hand over.
    const SHARE: usize = 4096;

    /// True once the stepper has done his share.
    pub fn over(&self) -> bool {
        self.taken >= Self::SHARE
    }

    /// A new stepper begins.
    pub fn fresh(self) -> Self {
        Step { taken: 0 }
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { state: Mutex::new(State { waiting: VecDeque::new(), stepping: false }), busy: AtomicBool::new(false) }
    }
}

impl<T> Mailbox<T> {
    /// Leaves an input. Whoever gets a [`Step`] back must step the machine.
    #[must_use]
    pub fn post(&self, input: T) -> Option<Step> {
        let mut state = self.state.lock();
        state.waiting.push_back(input);
        if state.stepping {
            return None;
        }
        state.stepping = true;
        // Seen by everyone before the stepper samples its clock.
        self.busy.swap(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Some(Step { taken: 0 })
    }

    /// Takes everything that waits into the (empty) batch, or ends the stepping.
    pub fn take(&self, step: Step, batch: &mut VecDeque<T>) -> Option<Step> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.stepping = false;
            self.busy.store(false, Ordering::Release);
            return None;
        }
        std::mem::swap(&mut state.waiting, batch);
        Some(Step { taken: step.taken + batch.len() })
    }

    /// True if no step is under way: all effects of earlier steps are done, and the clock reading of the next step is
    /// sampled after this call began.
    pub fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::SeqCst)
    }

    /// How many inputs wait.
    pub fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[test]
    fn an_input_during_a_step_is_left_to_the_stepper() {
        let mailbox = Mailbox::default();
        let step = mailbox.post(1).expect("idle");
        assert!(mailbox.post(2).is_none());
        let mut batch = VecDeque::new();
        let step = mailbox.take(step, &mut batch).expect("two wait");
        assert_eq!(batch, [1, 2]);
        assert!(mailbox.post(3).is_none());
        batch.clear();
        let step = mailbox.take(step, &mut batch).expect("one waits");
        assert_eq!(batch, [3]);
        batch.clear();
        assert!(mailbox.take(step, &mut batch).is_none());
        assert!(mailbox.post(4).is_some());
    }

    #[test]
    fn every_input_is_stepped_once_in_its_senders_order_by_one_thread_at_a_time() {
        let mailbox = Mailbox::default();
        let busy = AtomicBool::new(false);
        let newest: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for sender in 0..4usize {
                let (mailbox, busy, newest) = (&mailbox, &busy, &newest);
                scope.spawn(move || {
                    for number in 1..=20_000u64 {
                        let Some(mut step) = mailbox.post((sender, number)) else { continue };
                        let mut batch = VecDeque::new();
                        while let Some(next) = mailbox.take(step, &mut batch) {
                            assert!(!busy.swap(true, Ordering::AcqRel));
                            for (sender, number) in batch.drain(..) {
                                assert_eq!(newest[sender].swap(number, Ordering::Relaxed), number - 1);
                            }
                            busy.store(false, Ordering::Release);
                            step = next;
                        }
                    }
                });
            }
        });
        assert!(newest.iter().all(|newest| newest.load(Ordering::Relaxed) == 20_000));
    }
}
