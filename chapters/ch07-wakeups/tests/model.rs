//! Every order in which two or three threads can meet at the waker's flag, tried by `loom`:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p ch07-wakeups --test model
//! ```
//!
//! The flag and its two functions are the waker's own. The eventfd is a number here, and the queue is one
//! flag a message. Both are *relaxed*: they promise no order, so the order that is needed must come from the
//! waker.
#![cfg(loom)]

use ch07_wakeups::waker::Pending;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;

/// A loop, as far as a waker has to do with it.
struct World {
    pending: Pending,
    /// A flag of the wrong wakers.
    flag: AtomicBool,
    eventfd: AtomicU64,
    queue: [AtomicBool; MESSAGES],
}

/// One for each other thread.
const MESSAGES: usize = 2;

impl World {
    fn new() -> World {
        World {
            pending: Pending::default(),
            flag: AtomicBool::new(false),
            eventfd: AtomicU64::new(0),
            queue: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    fn publish(&self, message: usize) {
        self.queue[message].store(true, Relaxed);
    }

    fn take_all(&self) {
        for message in &self.queue {
            // A load and a store, for a swap would see more than a look does.
            if message.load(Relaxed) {
                message.store(false, Relaxed);
            }
        }
    }

    fn ring(&self) {
        self.eventfd.fetch_add(1, Relaxed);
    }

    fn silence(&self) -> u64 {
        self.eventfd.swap(0, Relaxed)
    }
}

type Part = fn(&World);

/// Other threads publish and wake. Meanwhile the loop takes turns, as many as it likes: it sleeps while
/// nothing is in the eventfd. At the end, whatever the order was:
///
/// - if a message is still there, so is a wakeup: the loop will look again;
/// - if no wakeup is there, the next wake makes one.
fn no_wakeup_is_lost(threads: usize, wake: Part, clear_and_look: Part) {
    loom::model(move || {
        let world = Arc::new(World::new());
        let others: Vec<_> = (0..threads)
            .map(|message| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.publish(message);
                    wake(&world);
                })
            })
            .collect();
        for _turn in 0..2 {
            if world.eventfd.load(Relaxed) > 0 {
                clear_and_look(&world);
            }
        }
        for other in others {
            other.join().expect("it does not panic");
        }
        let unread = world.queue.iter().any(|message| message.load(Relaxed));
        assert!(
            !unread || world.eventfd.load(Relaxed) > 0,
            "a message waits, and the loop sleeps"
        );
        if world.eventfd.load(Relaxed) == 0 {
            wake(&world);
            assert!(world.eventfd.load(Relaxed) > 0, "no wake rings any more");
        }
    });
}

/// The waker's wake.
fn wake(world: &World) {
    let rung = world.pending.raise(|| {
        world.ring();
        Ok(())
    });
    rung.expect("it rings");
}

/// The waker's clear.
fn clear(world: &World) {
    let silenced = world.pending.lower(|| Ok(world.silence()));
    silenced.expect("it is silent");
}

#[test]
fn one_other_thread() {
    no_wakeup_is_lost(1, wake, |world| {
        clear(world);
        world.take_all();
    });
}

#[test]
fn two_other_threads() {
    no_wakeup_is_lost(2, wake, |world| {
        clear(world);
        world.take_all();
    });
}

/// The wake of the wrong wakers. They are wrong on the other side.
fn wake_by_flag(world: &World) {
    if !world.flag.swap(true, AcqRel) {
        world.ring();
    }
}

/// A wake in between has raised the flag, and its ring is swallowed.
#[test]
#[should_panic = "a message waits, and the loop sleeps"]
fn lowered_before_it_is_read() {
    no_wakeup_is_lost(2, wake_by_flag, |world| {
        world.flag.swap(false, AcqRel);
        world.silence();
        world.take_all();
    });
}

#[test]
#[should_panic = "a message waits, and the loop sleeps"]
fn looked_before_it_is_consumed() {
    no_wakeup_is_lost(1, wake_by_flag, |world| {
        world.take_all();
        world.silence();
        world.flag.swap(false, AcqRel);
    });
}

#[test]
#[should_panic = "a message waits, and the loop sleeps"]
fn lowered_by_a_plain_store() {
    no_wakeup_is_lost(2, wake_by_flag, |world| {
        world.silence();
        world.flag.store(false, Release);
        world.take_all();
    });
}

#[test]
#[should_panic = "a message waits, and the loop sleeps"]
fn woken_before_it_is_published() {
    loom::model(|| {
        let world = Arc::new(World::new());
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                wake(&world);
                world.publish(0);
            }
        });
        if world.eventfd.load(Relaxed) > 0 {
            clear(&world);
            world.take_all();
        }
        other.join().expect("it does not panic");
        let unread = world.queue.iter().any(|message| message.load(Relaxed));
        assert!(
            !unread || world.eventfd.load(Relaxed) > 0,
            "a message waits, and the loop sleeps"
        );
    });
}
