//! The waker: any thread wakes the loop, at any time, without ever waiting itself.
//!
//! A loop that sleeps in `epoll_wait` is woken by a descriptor and by nothing else. So the waker owns one: an
//! `eventfd(2)`. A write makes it readable, and that is an event like any other.
//!
//! # One write for many wakes
//!
//! While the loop has not looked yet, a second write tells it nothing new. So a flag remembers that one is
//! *pending*, and only the wake that raises it writes:
//!
//! ```text
//!     another thread                             the loop
//!
//!  1  puts its message into a queue           1  is woken: the eventfd is readable
//!  2  raises the flag                         2  reads the eventfd, which is not readable any more
//!     it was up:    done, somebody has rung   3  lowers the flag
//!     it was down:  writes to the eventfd     4  takes all that is in the queue
//! ```
//!
//! # Nothing is lost, and why
//!
//! Wakes merge, so the loop must not count them: it takes *all* messages, until the queue is empty. And
//! both sides must keep to their order.
//!
//! - The other thread publishes **before** it wakes. The loop that it wakes finds the message.
//! - The loop consumes the wakeup **before** it looks. A wake that comes after the look is a new one, and
//!   rings again. Looked first and consumed later, it would consume the wakeup of a message that it has
//!   not seen.
//! - The loop reads **before** it lowers the flag. In the other order a wake may come in between: it
//!   raises the flag and writes, and the read swallows that write. From then on the flag is up, so nobody
//!   rings, and nothing is in the eventfd, so the loop sleeps. That is for ever.
//!
//! Raising and lowering are both a *swap*, which reads and writes in one step. Lowered by a plain store,
//! the flag might become visible to others only after the loop has looked into the queue: a message put
//! there in between would find the flag still up and ring nobody. `tests/model.rs` lets `loom` try every
//! order in which two threads can meet here, and shows that it finds each of these mistakes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

use sys::{EFD_CLOEXEC, EFD_NONBLOCK, Errno, Result};

/// Wakes a loop. It can be cloned, sent to any thread, and used from there as often as one likes.
///
/// The loop's end is [`Wakeups`]. Both hold the eventfd, which is closed with the last of them: a thread that
/// wakes a loop that is gone writes into a counter that nobody reads. Were the descriptor closed with the
/// loop, its number could be a client's by then, and the client would get the eight bytes.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

/// The loop's end of a [`Waker`]: the descriptor to watch (`EPOLLIN`), and how to consume a wakeup.
#[derive(Debug)]
pub struct Wakeups {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    pending: Pending,
}

impl Waker {
    /// A waker, and the end that belongs to the loop.
    pub fn new() -> Result<(Waker, Wakeups)> {
        let shared = Arc::new(Shared {
            eventfd: sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)?,
            pending: Pending::default(),
        });
        let wakeups = Wakeups {
            shared: Arc::clone(&shared),
        };
        Ok((Waker { shared }, wakeups))
    }

    /// Makes the loop look, now or as soon as it would sleep. It never blocks, also in the loop's own
    /// thread.
    ///
    /// # Errors
    ///
    /// None in a program that leaves its descriptors alone. If there is one, the wake has not happened, and
    /// the next one tries again.
    pub fn wake(&self) -> Result<()> {
        self.shared.pending.raise(|| ring(&self.shared.eventfd))
    }
}

impl Wakeups {
    /// Consumes the wakeup. Call it first, and look for messages afterwards.
    ///
    /// Returns how many writes the wakeup consisted of: 1, or 0 if there was none.
    ///
    /// # Errors
    ///
    /// As [`Waker::wake`].
    pub fn clear(&self) -> Result<u64> {
        self.shared.pending.lower(|| silence(&self.shared.eventfd))
    }
}

impl AsFd for Wakeups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }
}

/// Adds one. A full counter (2^64 - 2 writes that nobody has read) says `EAGAIN`, and has done its work: it
/// is readable.
fn ring(eventfd: &OwnedFd) -> Result<()> {
    loop {
        match sys::write(eventfd, &1u64.to_ne_bytes()) {
            Ok(_) | Err(Errno::EAGAIN) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Sets the counter back to zero, and returns what it was.
fn silence(eventfd: &OwnedFd) -> Result<u64> {
    let mut sum = [0; size_of::<u64>()];
    loop {
        match sys::read(eventfd, &mut sum) {
            Ok(_) => return Ok(u64::from_ne_bytes(sum)),
            // The event was about a wakeup that is consumed already.
            Err(Errno::EAGAIN) => return Ok(0),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

// ANCHOR: pending
/// Whether a wakeup is on its way. The waker's only state, apart from what the kernel keeps.
#[derive(Debug, Default)]
pub struct Pending {
    flag: AtomicBool,
}

impl Pending {
    /// A wake: rings, unless somebody has and the loop has not answered yet.
    ///
    /// *Release*, so that what this thread has published is seen by the loop that lowers the flag. It is so
    /// even if this wake does not ring.
    pub fn raise(&self, ring: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.flag.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        ring().inspect_err(|_| {
            // Left up, it would keep everybody from trying.
            self.flag.swap(false, Ordering::AcqRel);
        })
    }

    /// The loop's answer: first the bell is silenced, then the flag is lowered.
    ///
    /// *Acquire*, so that the loop sees what was published by everybody whose wake has merged into this one.
    pub fn lower(&self, silence: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let silenced = silence();
        self.flag.swap(false, Ordering::AcqRel);
        silenced
    }
}
// ANCHOR_END: pending

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn many_wakes_are_one_write() {
        let (waker, wakeups) = Waker::new().expect("a waker");
        for _ in 0..3 {
            waker.clone().wake().expect("wake");
        }
        assert_eq!(wakeups.clear(), Ok(1));
        assert_eq!(wakeups.clear(), Ok(0), "it was consumed");
        waker.wake().expect("wake");
        assert_eq!(wakeups.clear(), Ok(1), "and a later one is a new one");
    }

    #[test]
    fn a_hundred_thousand_wakes_that_nobody_reads_do_not_block() {
        let (waker, wakeups) = Waker::new().expect("a waker");
        for _ in 0..100_000 {
            waker.wake().expect("wake");
        }
        assert_eq!(wakeups.clear(), Ok(1));
    }

    #[test]
    fn a_full_counter_is_no_error() {
        let (waker, wakeups) = Waker::new().expect("a waker");
        let full = u64::MAX - 1;
        sys::write(&wakeups, &full.to_ne_bytes()).expect("write");
        waker.wake().expect("wake");
        assert_eq!(wakeups.clear(), Ok(full));
        assert_eq!(wakeups.clear(), Ok(0));
    }

    #[test]
    fn a_wake_that_failed_is_not_pending() {
        let pending = Pending::default();
        let failed = pending.raise(|| Err(Errno::EBADF));
        assert_eq!(failed, Err(Errno::EBADF));
        let mut rung = false;
        let again = pending.raise(|| {
            rung = true;
            Ok(())
        });
        assert_eq!((again, rung), (Ok(()), true));
    }

    #[test]
    fn a_waker_may_outlive_its_loop() {
        let (waker, wakeups) = Waker::new().expect("a waker");
        drop(wakeups);
        waker.wake().expect("wake");
    }
}
