//! Who steps a machine.
//!
//! Whoever delivers to an idle machine steps it on his own thread until its mailbox is empty;
//! otherwise he leaves the input to whoever is stepping it. So a request to a local machine needs
//! no wake and no other thread, and a machine is never stepped by two threads at once.
//!
//! ```text
//!   post(input) ──▶ somebody is stepping?  ── yes ──▶ left in the queue; done
//!                          │ no
//!                          ▼
//!                   take the queue, step each, take again … until it is empty
//! ```
//!
//! A stepper who has done his share hands the machine to a helper (see [`Step::over`]) rather than
//! stepping for others for ever.

use crate::sync::{AtomicBool, Mutex, Ordering, fence};
use std::collections::VecDeque;

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
        Mailbox {
            state: Mutex::new(State { waiting: VecDeque::new(), stepping: false }),
            busy: AtomicBool::new(false),
        }
    }
}

impl<T> Mailbox<T> {
    /// Leaves inputs. A caller that gets a [`Step`] back must step the machine.
    #[must_use]
    pub fn post(&self, inputs: impl IntoIterator<Item = T>) -> Option<Step> {
        let mut state = self.state.lock();
        state.waiting.extend(inputs);
        if state.stepping || state.waiting.is_empty() {
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

    /// True if no step is under way: all effects of earlier steps are done, and the clock reading
    /// of the next step is sampled after this call began.
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
