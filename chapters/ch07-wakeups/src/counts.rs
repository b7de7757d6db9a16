//! `counts`: what an eventfd and a timerfd count, call by call. The book's player shows these calls.
//!
//! One thread does everything, so that what happens first is decided here. Nobody waits for a clock either: one that
//! is to be late is set as if it had come long ago.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::Instant;
use sys::{
    CLOCK_MONOTONIC, EFD_CLOEXEC, EFD_NONBLOCK, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLET, EPOLLIN,
    EpollEvent, Errno, TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME,
};

pub fn counts(_: ()) -> Result<()> {
    writes_add_up()?;
    kit::say!("");
    nobody_reads_the_clock("level-triggered", EPOLLIN)?;
    kit::say!("");
    nobody_reads_the_clock("edge-triggered", EPOLLIN | EPOLLET)?;
    kit::say!("");
    armed_again_in_the_batch()
}

// ANCHOR: writes
fn writes_add_up() -> Result<()> {
    kit::say!("three writes to an eventfd");
    let counter = sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC).context("eventfd")?;
    let watched = Watched::new(counter, EPOLLIN)?;
    for _ in 0..3 {
        let one = 1u64.to_ne_bytes();
        kit::say!("   write: {} bytes", sys::write(&watched.fd, &one)?);
    }
    watched.wait(UNTIL_IT_COMES)?;
    watched.read()?;
    watched.wait(AT_ONCE)?;
    watched.read()?;
    watched.close()
}
// ANCHOR_END: writes

/// So long that a busy machine does not miss a period between two calls, and so short that this machine has been up
/// for ten of them.
const PERIOD: Duration = Duration::from_secs(2);

// ANCHOR: late
/// The clock's time came nine periods ago, and has come again after each.
fn nobody_reads_the_clock(name: &str, mode: u32) -> Result<()> {
    kit::say!("a timerfd is not read for nine periods, {name}");
    let watched = Watched::new(timerfd()?, mode)?;
    watched.arm(TFD_TIMER_ABSTIME, now().saturating_sub(9 * PERIOD), PERIOD)?;
    watched.wait(UNTIL_IT_COMES)?;
    watched.wait(AT_ONCE)?;
    watched.wait(AT_ONCE)?;
    watched.read()?;
    watched.wait(AT_ONCE)?;
    watched.close()
}
// ANCHOR_END: late

/// A time that does not come while the demonstration runs.
const AN_HOUR: Duration = Duration::from_secs(3_600);

// ANCHOR: rearmed
/// A batch holds the clock's event, and before it that of somebody whose handler sets the clock anew.
fn armed_again_in_the_batch() -> Result<()> {
    kit::say!("a timerfd is set anew between its event and the read");
    let watched = Watched::new(timerfd()?, EPOLLIN)?;
    watched.arm(TFD_TIMER_ABSTIME, now(), Duration::ZERO)?;
    watched.wait(UNTIL_IT_COMES)?;
    watched.arm(0, AN_HOUR, Duration::ZERO)?;
    watched.read()?;
    watched.close()
}
// ANCHOR_END: rearmed

fn timerfd() -> Result<OwnedFd> {
    sys::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC).context("timerfd_create")
}

/// The time of the clock that a timerfd goes by.
fn now() -> Duration {
    Instant::now().since(Instant::at(Duration::ZERO))
}

/// The timeout of a wait for what is there, or will be in a moment, in milliseconds.
const UNTIL_IT_COMES: i32 = 10_000;

/// The timeout of a wait for what is not there: look, do not wait.
const AT_ONCE: i32 = 0;

/// A descriptor that an epoll instance of its own watches.
struct Watched {
    epoll: OwnedFd,
    fd: OwnedFd,
}

impl Watched {
    fn new(fd: OwnedFd, mode: u32) -> Result<Watched> {
        let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
        let event = EpollEvent::new(mode, 0);
        sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &fd, Some(event)).context("epoll_ctl ADD")?;
        Ok(Watched { epoll, fd })
    }

    fn arm(&self, flags: i32, value: Duration, interval: Duration) -> Result<()> {
        sys::timerfd_settime(&self.fd, flags, value, interval).context("timerfd_settime")?;
        kit::say!("   timerfd_settime");
        Ok(())
    }

    fn wait(&self, timeout: i32) -> Result<()> {
        loop {
            match sys::epoll_wait(&self.epoll, &mut [EpollEvent::EMPTY; 8], timeout) {
                // Somebody has stopped this process and let it go on: wait again.
                Err(Errno::EINTR) => {}
                outcome => {
                    kit::say!("   epoll_wait: {} event(s)", outcome.context("epoll_wait")?);
                    return Ok(());
                }
            }
        }
    }

    fn read(&self) -> Result<()> {
        let mut count = [0; size_of::<u64>()];
        match sys::read(&self.fd, &mut count) {
            Ok(_) => kit::say!("   read: the number {}", u64::from_ne_bytes(count)),
            Err(errno) => kit::say!("   read: {}", errno.name()),
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        for fd in [self.epoll, self.fd] {
            sys::close(fd).context("close")?;
        }
        Ok(())
    }
}
