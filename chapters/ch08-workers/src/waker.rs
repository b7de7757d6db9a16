//! A thread wakes the loop: an `eventfd(2)`, and the two ends of it.
//!
//! A write adds to the counter, which makes the descriptor readable; a read returns the sum and sets it back to
//! zero. So wakes merge: after one wakeup the loop must look for everything that may have come.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::{EFD_CLOEXEC, EFD_NONBLOCK, Errno, Result};

/// Wakes a loop, from any thread. The eventfd is closed with the last of its owners: were it closed with the
/// loop, a thread that still wakes it could write into a client's connection, which has the number by then.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

/// The loop's end: the descriptor to watch.
#[derive(Debug)]
pub(crate) struct Wakeups(Arc<OwnedFd>);

impl Waker {
    /// A waker, and the end that belongs to the loop.
    pub(crate) fn new() -> Result<(Waker, Wakeups)> {
        let eventfd = Arc::new(sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)?);
        Ok((Waker(Arc::clone(&eventfd)), Wakeups(eventfd)))
    }

    /// Makes the loop look, now or as soon as it would sleep. It never blocks.
    pub(crate) fn wake(&self) -> Result<()> {
        loop {
            match sys::write(&self.0, &1u64.to_ne_bytes()) {
                // A full counter is readable, and no more is wanted of it.
                Ok(_) | Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Wakeups {
    /// Consumes the wakeup. Call it first, and look for messages afterwards. Returns the counter as it was.
    pub(crate) fn clear(&self) -> Result<u64> {
        let mut sum = [0; size_of::<u64>()];
        loop {
            match sys::read(&self.0, &mut sum) {
                Ok(_) => return Ok(u64::from_ne_bytes(sum)),
                Err(Errno::EAGAIN) => return Ok(0),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Wakeups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
