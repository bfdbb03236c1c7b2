//! Threads that read for sessions of other nodes, so that a read of a large range delays no step of
//! a replica.

use crate::panics::PanicGuard;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    changed: Condvar,
}

/// The reader threads and their queue.
pub struct Readers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    const THREADS: usize = 2;

    /// Starts the threads.
    pub fn start(guard: &Arc<PanicGuard>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for _ in 0..Self::THREADS {
            let shared = Arc::clone(&shared);
            threads.push(guard.spawn("read", move || shared.run())?);
        }
        Ok(Readers { shared, threads: Mutex::new(threads) })
    }

    /// Runs a job on one of the threads.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut jobs = self.shared.jobs.lock();
        if !jobs.1 {
            jobs.0.push_back(Box::new(job));
        }
        drop(jobs);
        self.shared.changed.notify_one();
    }

    /// Ends the threads, and drops queued jobs.
    pub fn stop(&self) {
        {
            let mut jobs = self.shared.jobs.lock();
            jobs.1 = true;
            jobs.0.clear(); // Jobs hold references to the owner of this queue.
        }
        self.shared.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut jobs = self.jobs.lock();
            let job = loop {
                let (waiting, stopped) = &mut *jobs;
                if *stopped {
                    return;
                }
                if let Some(job) = waiting.pop_front() {
                    break job;
                }
                self.changed.wait(&mut jobs);
            };
            drop(jobs);
            job();
        }
    }
}
