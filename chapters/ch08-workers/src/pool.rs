//! The pool: a fixed number of threads, a queue with an end, and results that wake the loop.
//!
//! ```text
//!    the loop's thread                  the desk                     the workers
//!                                   (behind a mutex)
//!    submit(key, task) --------->  [ job | job | job ]  ----------->  next_job()
//!       Err(Full) when             at most `queue` wait               runs it, without the lock
//!       no place is left                                                  |
//!                                                                         v
//!    take_done()  <--------------  [ done | done ]  <---------------  puts the result down,
//!       when the eventfd                                              and wakes the loop
//!       is readable
//! ```
//!
//! # Both ends are bounded
//!
//! Threads without a limit would fight for the cores, and each costs a stack. A queue without a limit only
//! moves the pressure: it grows as long as jobs come faster than they are done, the memory with it, and every
//! client in it waits longer than the one before. So there is a place for one job a worker, and for `queue`
//! more. Whoever finds no place is told at once, and can do something about it.
//!
//! # A guard that lives too long
//!
//! The worker's loop is often written like this:
//!
//! ```ignore
//! while let Some(job) = desk.lock().unwrap().jobs.pop_front() {
//!     job();      // the desk is still locked!
//! }
//! ```
//!
//! It compiles, it is correct, and **one job runs at a time**, however many threads there are. A `while let`
//! keeps the temporary values of its condition until the end of its body, and one of them is the guard of the
//! mutex. `if let` and `match` do the same (in the 2024 edition, `if let` only up to its `else`). In a
//! `let` statement the temporaries end at the semicolon. Here the guard is in a function of its own, `next_job`:
//! it is gone when that returns.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::{fmt, io};

use ch07_wakeups::Waker;

/// What a worker runs. It gets a [`Stop`], to look at now and then.
type Task = Box<dyn FnOnce(&Stop) + Send>;

/// A fixed number of threads and a bounded queue. It belongs to the loop's thread.
///
/// Each job has a key, by which the loop knows the result again.
pub struct Pool<K> {
    shared: Arc<Shared<K>>,
    /// Jobs that may be waiting or running at a time.
    places: usize,
    threads: RefCell<Vec<JoinHandle<()>>>,
}

/// What the loop and the workers share.
struct Shared<K> {
    desk: Mutex<Desk<K>>,
    /// There is a job on the desk, or no more will come.
    news: Condvar,
    done: Mutex<VecDeque<Done<K>>>,
    stop: Stop,
    waker: Waker,
}

struct Desk<K> {
    waiting: VecDeque<(K, Task)>,
    /// Jobs that a worker has in hand.
    running: usize,
    open: bool,
}

/// A job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<K> {
    /// Whose it was.
    pub key: K,
    /// False if the task has panicked. The worker lives on: a pool that loses a thread with every panic is
    /// empty one day, and nobody is told.
    pub well: bool,
}

/// No place is left. The job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full")
    }
}

impl std::error::Error for Full {}

/// Whether the pool is being closed. A thread cannot be stopped from outside, in Rust as elsewhere: it may hold a
/// lock or half a file. So a long task asks from time to time, and returns by itself.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// True when the result is not wanted any more.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<K: Send + 'static> Pool<K> {
    /// Starts `workers` threads, for which `queue` more jobs may wait. Each finished job rings `waker`.
    ///
    /// Signals that the loop takes out of a `signalfd` must be blocked before: threads inherit the mask.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started. Those that were are ended again.
    pub(crate) fn start(workers: usize, queue: usize, waker: Waker) -> io::Result<Pool<K>> {
        let shared = Shared {
            desk: Mutex::new(Desk {
                waiting: VecDeque::new(),
                running: 0,
                open: true,
            }),
            news: Condvar::new(),
            done: Mutex::default(),
            stop: Stop::default(),
            waker,
        };
        let pool = Pool {
            shared: Arc::new(shared),
            places: workers + queue,
            threads: RefCell::default(),
        };
        for number in 1..=workers {
            let shared = Arc::clone(&pool.shared);
            let thread = Builder::new().name(format!("worker-{number}"));
            let thread = thread.spawn(move || shared.work())?;
            pool.threads.borrow_mut().push(thread);
        }
        Ok(pool)
    }

    // ANCHOR: submit
    /// Puts a job on the desk, if there is a place.
    pub fn submit(&self, key: K, task: impl FnOnce(&Stop) + Send + 'static) -> Result<(), Full> {
        let mut desk = lock(&self.shared.desk);
        if desk.waiting.len() + desk.running >= self.places {
            return Err(Full);
        }
        desk.waiting.push_back((key, Box::new(task)));
        drop(desk);
        // For each job, also when others wait already. "They have been called" is true of one worker only:
        // the others would sleep on while jobs wait.
        self.shared.news.notify_one();
        Ok(())
    }
    // ANCHOR_END: submit

    /// True if [`Pool::submit`] would take a job. It stays true until then: only the loop submits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let desk = lock(&self.shared.desk);
        desk.waiting.len() + desk.running < self.places
    }

    /// Up to `most` jobs that are over, in the order in which they were finished, and whether there are more.
    pub fn take_done(&self, most: usize) -> (Vec<Done<K>>, bool) {
        let mut done = lock(&self.shared.done);
        let count = done.len().min(most);
        let taken = done.drain(..count).collect();
        (taken, !done.is_empty())
    }

    /// Wakes the loop, as a worker does.
    pub(crate) fn wake_again(&self) -> sys::Result<()> {
        self.shared.waker.wake()
    }
}

impl<K> Pool<K> {
    /// Ends all threads and waits for them. Jobs that nobody has begun are thrown away; those that are running
    /// are asked to stop.
    pub fn close(&self) {
        self.shared.stop.0.store(true, Ordering::Relaxed);
        let mut desk = lock(&self.shared.desk);
        desk.open = false;
        let unbegun = std::mem::take(&mut desk.waiting);
        drop(desk);
        // Whatever they hold is dropped without the lock.
        drop(unbegun);
        self.shared.news.notify_all();
        for thread in self.threads.take() {
            // It cannot have panicked: tasks are caught, and the rest is in this file.
            let _ = thread.join();
        }
    }
}

/// Forgotten or not, no thread outlives its pool.
impl<K> Drop for Pool<K> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<K> Shared<K> {
    // ANCHOR: work
    /// The life of a worker.
    fn work(&self) {
        while let Some((key, task)) = self.next_job() {
            let well = catch_unwind(AssertUnwindSafe(|| task(&self.stop))).is_ok();
            // The place is free before the loop hears of it, and can be given away again at once.
            lock(&self.desk).running -= 1;
            lock(&self.done).push_back(Done { key, well });
            // Published first, woken then. It fails only if the program has closed a descriptor that is not
            // its own; and there is nobody here who could be told.
            let _ = self.waker.wake();
        }
    }

    /// Waits for a job. Nothing when the pool is closed.
    fn next_job(&self) -> Option<(K, Task)> {
        let mut desk = lock(&self.desk);
        loop {
            if let Some(job) = desk.waiting.pop_front() {
                desk.running += 1;
                return Some(job); // here the guard goes, before the job begins
            }
            if !desk.open {
                return None;
            }
            // It unlocks the desk, sleeps, and locks it again. It may also wake up for nothing, and another
            // worker may have been faster: hence the loop.
            desk = self.news.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
    // ANCHOR_END: work
}

/// A mutex is *poisoned* if somebody has panicked with it. Nobody can here: tasks run without any lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
