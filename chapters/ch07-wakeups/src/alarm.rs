//! One alarm clock for all deadlines: a single `timerfd(2)`, armed for whichever comes next.
//!
//! A timer in the kernel for each connection would be a descriptor for each, and a system call each time
//! that one is moved. The program keeps its deadlines itself, in a heap or a wheel, and the kernel needs to
//! know only the nearest:
//!
//! ```text
//!   heap or wheel                       kernel
//!   [ 20 ms ]  the nearest  ----------> timerfd, armed for 20 ms  ---> readable: an event like any other
//!   [ 35 ms ] [ 60 ms ] [ 60 s ] ...
//! ```
//!
//! The reactor of chapter 6 does the same with `epoll_wait`'s timeout, which costs no call at all. A
//! timerfd is the better clock in two cases: where a millisecond is too coarse, and where somebody else does
//! the waiting (a library that is only a handler in a larger loop cannot choose the loop's timeout, but it
//! can give the loop a descriptor).
//!
//! # How it gets under the reactor
//!
//! [`AlarmTimers`] is a layer around other [`Timers`]. The reactor asks them for the next deadline once a
//! turn, just before it sleeps. The layer arms the timerfd for that moment and answers "none": so the reactor
//! sleeps without a timeout, and the event of the timerfd wakes it.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::timers::Due;
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerId, Timers, Token};
use sys::{
    CLOCK_MONOTONIC, EPOLLIN, Errno, TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME, timerfd_create,
    timerfd_settime,
};

/// A reactor whose sleep is ended by a timerfd, whatever structure keeps the deadlines.
pub fn reactor_with_alarm(limits: Limits, timers: Box<dyn Timers>) -> Result<Reactor> {
    let alarm = Rc::new(Alarm::new()?);
    let timers = AlarmTimers {
        timers,
        alarm: Rc::clone(&alarm),
    };
    let mut reactor = Reactor::with_timers(limits, Box::new(timers))?;
    reactor.register(Box::new(Ringing(alarm)), EPOLLIN)?;
    Ok(reactor)
}

/// A timerfd, and what it is armed for.
#[derive(Debug)]
struct Alarm {
    timerfd: OwnedFd,
    armed: Cell<Option<Instant>>,
}

impl Alarm {
    fn new() -> Result<Alarm> {
        // The clock that the deadlines are points of.
        let timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        Ok(Alarm {
            timerfd: timerfd.context("timerfd_create")?,
            armed: Cell::new(None),
        })
    }

    // ANCHOR: arm
    /// Makes sure that it rings at `next` at the latest.
    ///
    /// If it is armed for an earlier moment it is left alone: that deadline was cancelled or moved. It
    /// rings in vain once, and is armed anew then. A server that puts its idle deadlines off with every
    /// request would otherwise pay a call for each.
    fn arm(&self, next: Instant) -> sys::Result<()> {
        if self.armed.get().is_some_and(|armed| armed <= next) {
            return Ok(());
        }
        let once = Duration::ZERO;
        // An absolute time, and never zero, which would disarm it. A deadline that is past rings at once.
        let at = next.since(Instant::at(Duration::ZERO)).max(FIRST_MOMENT);
        timerfd_settime(&self.timerfd, TFD_TIMER_ABSTIME, at, once)?;
        self.armed.set(Some(next));
        Ok(())
    }
    // ANCHOR_END: arm
}

/// The clock's first moment that `timerfd_settime` takes for a time.
const FIRST_MOMENT: Duration = Duration::from_nanos(1);

/// [`Timers`] that never let the reactor choose a timeout, because a timerfd ends its sleep.
pub struct AlarmTimers {
    timers: Box<dyn Timers>,
    alarm: Rc<Alarm>,
}

impl Timers for AlarmTimers {
    // ANCHOR: next_deadline
    /// Arms the alarm, and leaves nothing to wait for. If it cannot be armed, the timeout keeps the
    /// deadline, as in chapter 6.
    fn next_deadline(&mut self) -> Option<Instant> {
        let next = self.timers.next_deadline()?;
        match self.alarm.arm(next) {
            Ok(()) => None,
            Err(_) => Some(next),
        }
    }
    // ANCHOR_END: next_deadline

    fn insert(&mut self, deadline: Instant, owner: Token) -> TimerId {
        self.timers.insert(deadline, owner)
    }

    fn cancel(&mut self, id: TimerId) -> bool {
        self.timers.cancel(id)
    }

    fn collect_due(&mut self, now: Instant, limit: usize, due: &mut Vec<TimerId>) {
        self.timers.collect_due(now, limit, due);
    }

    fn take(&mut self, id: TimerId) -> Option<Due> {
        self.timers.take(id)
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

/// The handler of the timerfd. It has nothing to do but to silence it: the reactor runs what is due in every
/// turn, whatever has woken it.
struct Ringing(Rc<Alarm>);

impl Handler for Ringing {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.timerfd.as_fd())
    }

    fn ready(&mut self, _reactor: &mut Reactor, _me: Token, _events: u32) -> Result<()> {
        let mut count = [0; size_of::<u64>()];
        match sys::read(&self.0.timerfd, &mut count) {
            // Unread, a level-triggered timerfd would wake the loop again and again.
            Ok(_) => self.0.armed.set(None),
            // Armed anew since the event: it rings later. Or a signal came first, and the event comes again.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("read of the timerfd"),
        }
        Ok(())
    }
}
