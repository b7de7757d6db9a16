//! Threads that do what takes long, and how their results come back to the loop.
//!
//! ```text
//!   the loop                                                   a worker
//!   submit  ---- job ---->  waiting: [ job, job, ... ]  ---->  do it
//!                                                                |
//!   collect <-- results --  done: [ result, ... ]  <-- 1. push --+
//!      ^                                                         |
//!   epoll_wait <--- event -----  eventfd  <--------- 2. wake ----+
//! ```
//!
//! Workers know no connection. A job carries its owner's token, and the result carries it back. Only the loop looks at
//! connections, so nothing else needs a lock.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sys::{EFD_CLOEXEC, EFD_NONBLOCK};

use crate::slab::Token;

/// What a worker can do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Burn CPU for so long.
    Burn(Duration),
    /// Panic, on purpose, so that a test can see what that costs.
    Panic,
}

/// A task, and who asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) owner: Token,
    pub(crate) task: Task,
}

/// What became of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) owner: Token,
    /// False: it has panicked.
    pub(crate) succeeded: bool,
}

/// There is no room for another job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// The loop's side of the pool.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs that were submitted, and whose results were not collected. Only the loop counts, so this needs no lock.
    in_flight: usize,
    /// As many as there are workers, and as many again as may wait. Without a bound a crowd of clients would not make
    /// the server say no; each of them would wait longer, and memory would grow.
    limit: usize,
}

/// What both sides use.
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is a new job, and when the pool is closed.
    changed: Condvar,
    /// Results, until the loop collects them.
    done: Mutex<Vec<Done>>,
    /// Readable while there may be results (`eventfd(2)`).
    wake: OwnedFd,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    /// No more jobs will come.
    closed: bool,
}

impl Pool {
    /// Starts the workers. At most `queue` jobs wait while all of them are busy.
    pub(crate) fn start(workers: usize, queue: usize) -> Result<Pool> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            done: Mutex::default(),
            wake: sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC).context("eventfd")?,
        });
        let start = |number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || shared.work())
                .context("start a worker")
        };
        let threads = (1..=workers).map(start).collect::<Result<_>>()?;
        Ok(Pool {
            shared,
            threads,
            in_flight: 0,
            limit: workers.saturating_add(queue),
        })
    }

    /// The descriptor that is readable when there are results.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Hands a job to the workers. It never waits: where there is no room, it says so.
    pub(crate) fn submit(&mut self, job: Job) -> std::result::Result<(), Full> {
        if self.in_flight == self.limit {
            return Err(Full);
        }
        self.in_flight += 1;
        locked(&self.shared.queue).waiting.push_back(job);
        // For each job one worker, if one sleeps. One that is awake looks at the queue before it sleeps.
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Takes all results that are there.
    pub(crate) fn collect(&mut self) -> Vec<Done> {
        // First the wakeup, then the results. A result that comes in between is taken now, and its wakeup finds nothing
        // later, which does no harm. The other way round the wakeup would be taken, and the result would stay.
        let mut count = [0; size_of::<u64>()];
        // EAGAIN: nobody has woken the loop. Then there may be no results, and that is all.
        let _ = sys::read(&self.shared.wake, &mut count);
        let done = std::mem::take(&mut *locked(&self.shared.done));
        self.in_flight -= done.len();
        done
    }

    /// Lets the workers finish what they have, and waits for their ends.
    pub(crate) fn stop(self) {
        locked(&self.shared.queue).closed = true;
        // All of them: each has to learn it.
        self.shared.changed.notify_all();
        for thread in self.threads {
            // A worker cannot panic, and if it did there would be nothing left to do about it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of a worker.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            // A panic ends the job, and neither the worker nor the server. The task owns all that it touches, so it can
            // leave nothing half done behind.
            let outcome = catch_unwind(AssertUnwindSafe(|| job.task.run()));
            self.report(Done {
                owner: job.owner,
                succeeded: outcome.is_ok(),
            });
        }
    }

    /// The next job; sleeps until there is one. `None`: there will be no more.
    ///
    /// The lock is held only in here, and never while a job is done.
    fn next_job(&self) -> Option<Job> {
        let mut queue = locked(&self.queue);
        loop {
            // Looked at before every sleep: a notification that comes while nobody sleeps is not kept.
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives a result to the loop. First the result, then the wakeup: the loop may run in between.
    fn report(&self, done: Done) {
        locked(&self.done).push(done);
        // EAGAIN: the counter is full, so the loop is being woken anyway.
        let _ = sys::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Task {
    fn run(self) {
        match self {
            Task::Burn(time) => {
                let begin = Instant::now();
                while begin.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
            Task::Panic => panic!("a client has asked for it"),
        }
    }
}

/// No job runs under a lock, so no panic leaves a value behind that is half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
