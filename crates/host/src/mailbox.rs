//! The mailbox of a state machine, which decides the thread that steps the machine.
//!
//! A thread that posts to an idle machine steps it until the mailbox is empty. A thread that posts
//! to a busy machine leaves its input for the thread that is stepping. A request to a local machine
//! therefore needs no wake and no other thread, and two threads never step a machine at once.
//!
//! ```text
//!   post(input) ──▶ is a thread stepping?  ── yes ──▶ left in the queue; done
//!                          │ no
//!                          ▼
//!                   take the queue, step each, take again … until it is empty
//! ```
//!
//! A thread that has stepped its share of inputs (see [`Step::over`]) hands the machine to a helper
//! thread, so that no session's thread serves others for ever.

use crate::sync::{AtomicBool, Mutex, Ordering, fence};
use std::collections::VecDeque;

/// The queue of inputs of one machine.
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
    /// Inputs that one thread takes before it may hand over.
    const SHARE: usize = 4096;

    /// True once the thread has taken its share.
    pub fn over(&self) -> bool {
        self.taken >= Self::SHARE
    }

    /// Restarts the count for the next thread.
    pub fn fresh(self) -> Self {
        Step { taken: 0 }
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox {
            state: Mutex::new(State { waiting: VecDeque::new(), stepping: false }),
            busy: AtomicBool::new(false),
        }
    }
}

impl<T> Mailbox<T> {
    /// Queues inputs. A caller that gets a [`Step`] back must step the machine.
    #[must_use]
    pub fn post(&self, inputs: impl IntoIterator<Item = T>) -> Option<Step> {
        let mut state = self.state.lock();
        state.waiting.extend(inputs);
        if state.stepping || state.waiting.is_empty() {
            return None;
        }
        state.stepping = true;
        // Visible to every thread before the stepping thread samples its clock.
        self.busy.swap(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Some(Step { taken: 0 })
    }

    /// Takes all queued inputs into the (empty) batch, or ends the stepping if there are none.
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

    /// True if no step is under way. Then all effects of earlier steps are done, and the clock
    /// reading of the next step is sampled after this call began.
    pub fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::SeqCst)
    }

    /// Returns the number of queued inputs.
    pub fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// True if no input is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
