//! The alarm: one `timerfd(2)` for all deadlines, set for the nearest of them.
//!
//! ```text
//!   timers.rs                           kernel
//!   [ 20 ms ]  the nearest  ----------> timerfd, set for 20 ms  ---> readable: an event like any other
//!   [ 35 ms ] [ 60 ms ] [ 60 s ] ...
//! ```

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use sys::{CLOCK_MONOTONIC, Errno, TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME};

use crate::deadline::Moment;

/// It rings once. (With an interval it would ring again and again, whether somebody wants it or not.)
const ONCE: Duration = Duration::ZERO;

pub(crate) struct Alarm {
    pub(crate) timerfd: OwnedFd,
    /// When it will ring. `None`: it will not.
    set_for: Option<Moment>,
}

impl Alarm {
    pub(crate) fn new() -> Result<Alarm> {
        let timerfd = sys::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        Ok(Alarm {
            timerfd: timerfd.context("timerfd_create")?,
            set_for: None,
        })
    }

    /// Makes sure that it rings at `next`, or before.
    ///
    /// If it is set for an earlier moment it is left alone: that deadline was cancelled, as nearly all are. It rings in
    /// vain once, and is set anew then. So a request that moves its connection's idle deadline costs no system call.
    pub(crate) fn set(&mut self, next: Option<Moment>) -> Result<()> {
        todo!("the timerfd set for `next`, unless it rings before anyway")
    }

    /// It has rung. Level-triggered, it is reported on every turn until it is read.
    pub(crate) fn silence(&mut self) -> Result<()> {
        todo!("a read, and then it is not set any more")
    }
}
