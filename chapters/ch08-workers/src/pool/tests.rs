//! The pool without a loop: the test waits for the eventfd itself.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use sys::{POLLIN, PollFd};

use super::*;
use ch07_wakeups::Wakeups;

/// A longer wait than this means that something was forgotten.
const DEADLINE: Duration = Duration::from_secs(10);

fn pool(workers: usize, queue: usize) -> (Pool<usize>, Wakeups) {
    let (waker, wakeups) = Waker::new().expect("eventfd");
    let pool = Pool::start(workers, queue, waker).expect("threads");
    (pool, wakeups)
}

/// Sleeps until the eventfd is readable, as a loop would, and reads it.
fn wait(wakeups: &Wakeups) {
    let mut fds = [PollFd::new(wakeups, POLLIN)];
    let ready = sys::poll(&mut fds, DEADLINE.as_millis() as i32).expect("poll");
    assert_eq!(ready, 1, "nobody has woken the loop");
    wakeups.clear().expect("read");
}

/// Waits until so many jobs are done.
fn done(count: usize, pool: &Pool<usize>, wakeups: &Wakeups) -> Vec<Done<usize>> {
    let mut done = Vec::new();
    while done.len() < count {
        wait(wakeups);
        done.extend(pool.take_done(count).0);
    }
    done
}

/// A place that so many must reach before any of them goes on.
struct Meeting {
    expected: usize,
    here: Mutex<usize>,
    news: Condvar,
}

impl Meeting {
    fn of(expected: usize) -> Arc<Meeting> {
        Arc::new(Meeting {
            expected,
            here: Mutex::new(0),
            news: Condvar::new(),
        })
    }

    fn attend(&self) {
        let mut here = self.here.lock().expect("nobody panics with it");
        *here += 1;
        self.news.notify_all();
        let end = Instant::now() + DEADLINE;
        while *here < self.expected {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{here} of {} have come", self.expected);
            let woken = self.news.wait_timeout(here, left);
            here = woken.expect("nobody panics with it").0;
        }
    }
}

/// No job ends before all have begun. So it takes as many threads as there are jobs: neither a lock that is held
/// while a job runs, nor a worker that nobody has called, gets through.
#[test]
fn all_workers_work_at_once() {
    let (pool, wakeups) = pool(4, 0);
    for _ in 0..50 {
        let meeting = Meeting::of(4);
        for job in 0..4 {
            let meeting = Arc::clone(&meeting);
            let taken = pool.submit(job, move |_| meeting.attend());
            taken.expect("there is a place");
        }
        let done = done(4, &pool, &wakeups);
        assert!(done.iter().all(|job| job.well), "{done:?}");
    }
}

/// A job that waits until it is told.
fn held() -> (Sender<()>, impl FnOnce(&Stop) + Send + 'static) {
    let (open, gate): (Sender<()>, Receiver<()>) = channel();
    (open, move |_: &Stop| {
        // It is told, or its test has ended.
        let _ = gate.recv();
    })
}

/// How many places there are does not depend on how fast the workers are.
#[test]
fn there_is_a_place_for_each_worker_and_for_the_queue() {
    let (pool, wakeups) = pool(2, 3);
    for round in 0..3 {
        let mut gates = Vec::new();
        for job in 0..5 {
            let (gate, task) = held();
            gates.push(gate);
            assert!(pool.has_room(), "round {round}, job {job}");
            assert_eq!(pool.submit(job, task), Ok(()));
        }
        assert!(!pool.has_room());
        assert_eq!(pool.submit(5, |_| {}), Err(Full));
        for (count, gate) in gates.into_iter().enumerate() {
            drop(gate);
            done(1, &pool, &wakeups);
            // As soon as the loop hears of it, the place is free.
            assert!(pool.has_room(), "after {} jobs", count + 1);
        }
    }
}

#[test]
fn jobs_are_begun_in_their_order() {
    let (pool, wakeups) = pool(1, 100);
    for job in 0..100 {
        pool.submit(job, |_| {}).expect("there is a place");
    }
    let order: Vec<usize> = done(100, &pool, &wakeups)
        .iter()
        .map(|job| job.key)
        .collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_job_that_panics_is_told_of_and_the_worker_lives() {
    let (pool, wakeups) = pool(1, 0);
    for _ in 0..3 {
        // As `panic!`, without its words on standard error.
        let panics = |_: &Stop| std::panic::resume_unwind(Box::new("on purpose"));
        pool.submit(1, panics).expect("there is a place");
        assert_eq!(
            done(1, &pool, &wakeups),
            [Done {
                key: 1,
                well: false
            }]
        );
        pool.submit(2, |_| {}).expect("there is a place");
        assert_eq!(done(1, &pool, &wakeups), [Done { key: 2, well: true }]);
    }
}

#[test]
fn results_are_taken_in_portions() {
    let (pool, wakeups) = pool(1, 4);
    for job in 0..5 {
        pool.submit(job, |_| {}).expect("there is a place");
    }
    let mut taken = done(1, &pool, &wakeups);
    while taken.len() < 5 {
        let (portion, _) = pool.take_done(2);
        assert!(portion.len() <= 2);
        taken.extend(portion);
        std::thread::yield_now();
    }
    assert_eq!(pool.take_done(2), (vec![], false));
}

/// Whoever is woken finds the result: a worker publishes before it rings.
#[test]
fn a_wakeup_is_never_early() {
    let (pool, wakeups) = pool(1, 0);
    for job in 0..5_000 {
        pool.submit(job, |_| {}).expect("there is a place");
        wait(&wakeups);
        assert_eq!(
            pool.take_done(1).0,
            [Done {
                key: job,
                well: true
            }]
        );
    }
}

/// One job runs until it is asked to stop, one has not begun.
#[test]
fn closing_leaves_nothing() {
    let (pool, _wakeups) = pool(1, 1);
    let meeting = Meeting::of(2);
    let owned = Arc::new(());
    let (running, waiting) = (Arc::clone(&owned), Arc::clone(&owned));
    let begun = Arc::clone(&meeting);
    let endless = move |stop: &Stop| {
        begun.attend();
        while !stop.is_asked() {
            std::thread::yield_now();
        }
        drop(running);
    };
    pool.submit(0, endless).expect("there is a place");
    let never = move |_: &Stop| unreachable!("{waiting:?} has not begun");
    pool.submit(1, never).expect("there is a place");
    meeting.attend();

    pool.close();
    assert_eq!(Arc::strong_count(&owned), 1, "a job is still there");
    assert_eq!(
        Arc::strong_count(&pool.shared),
        1,
        "a worker is still there"
    );
    // Twice is once.
    pool.close();
}

#[test]
fn a_pool_that_is_dropped_is_closed() {
    let (pool, _wakeups) = pool(3, 10);
    let owned = Arc::new(());
    for job in 0..10 {
        let owned = Arc::clone(&owned);
        let taken = pool.submit(job, move |_| drop(owned));
        taken.expect("there is a place");
    }
    drop(pool);
    assert_eq!(Arc::strong_count(&owned), 1);
}
