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
        todo!("8 bytes; also when there is no room for them")
    }

    /// Consumes the wakeup: from here on a wake is a new one. Level-triggered, it is reported on every turn until this is
    /// done.
    pub(crate) fn clear(&self) -> Result<()> {
        todo!("a read; also when there is nothing to read")
    }
}
