//! The waker: any thread wakes the loop, at any time, and never waits itself.
//!
//! A loop that sleeps in `epoll_wait` is woken by a descriptor, and by nothing else. An `eventfd(2)` is the smallest one: a
//! counter. A write adds to it, which makes it readable; a read returns the sum, and sets it to 0. So wakes that come before
//! the loop has looked are one wakeup.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use sys::{EFD_CLOEXEC, EFD_NONBLOCK, Errno};

pub(crate) struct Waker {
    pub(crate) eventfd: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> Result<Waker> {
        let eventfd = sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC).context("eventfd")?;
        Ok(Waker { eventfd })
    }

    /// Wakes the loop: now, or as soon as it would sleep. It never waits, not even in the loop's own thread.
    pub(crate) fn wake(&self) -> Result<()> {
        loop {
            match sys::write(&self.eventfd, &1_u64.to_ne_bytes()) {
                Ok(_) => return Ok(()),
                // The counter is full: nobody has read it, and so the loop is going to wake up anyway.
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("write to the eventfd"),
            }
        }
    }

    /// Consumes the wakeup: from here on a wake is a new one. Level-triggered, it is reported on every turn until this is
    /// done.
    pub(crate) fn clear(&self) -> Result<()> {
        let mut sum = [0; size_of::<u64>()];
        match sys::read(&self.eventfd, &mut sum) {
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno).context("read of the eventfd"),
        }
    }
}
