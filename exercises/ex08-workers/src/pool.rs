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
        todo!("a place for the job, or Full; and a worker that is woken")
    }

    /// Takes all results that are there.
    pub(crate) fn collect(&mut self) -> Vec<Done> {
        todo!("the wakeup and all results taken, in the right order")
    }

    /// Lets the workers finish what they have, and waits for their ends.
    pub(crate) fn stop(self) {
        todo!("the workers told, woken, and joined")
    }
}

impl Shared {
    /// The life of a worker.
    fn work(&self) {
        todo!("job after job, also when one of them panics")
    }

    /// The next job; sleeps until there is one. `None`: there will be no more.
    ///
    /// The lock is held only in here, and never while a job is done.
    fn next_job(&self) -> Option<Job> {
        todo!("the job that waits longest; or the end; or a sleep until something changes")
    }

    /// Gives a result to the loop. First the result, then the wakeup: the loop may run in between.
    fn report(&self, done: Done) {
        todo!("the result put down and the loop woken, in the right order")
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
