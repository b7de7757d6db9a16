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
        let Some(next) = next else {
            return Ok(());
        };
        if self.set_for.is_some_and(|moment| moment <= next) {
            return Ok(());
        }
        // A moment, not a time from now: it stays right however long it takes us to come here. One that is past rings at
        // once.
        let moment = next.since_the_beginning();
        sys::timerfd_settime(&self.timerfd, TFD_TIMER_ABSTIME, moment, ONCE)
            .context("timerfd_settime")?;
        self.set_for = Some(next);
        Ok(())
    }

    /// It has rung. Level-triggered, it is reported on every turn until it is read.
    pub(crate) fn silence(&mut self) -> Result<()> {
        let mut count = [0; size_of::<u64>()];
        match sys::read(&self.timerfd, &mut count) {
            Ok(_) => self.set_for = None,
            // It was set anew after it had rung: then it rings again.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("read of the timerfd"),
        }
        Ok(())
    }
}
