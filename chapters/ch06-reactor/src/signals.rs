//! Signals as events: `signalfd(2)` makes them one more readable descriptor.
//!
//! A signal handler runs in the middle of anything, and may do next to nothing there. Blocked, and taken
//! out of a descriptor, a signal waits for its turn in the loop like everybody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sys::{EPOLLIN, Errno, SFD_CLOEXEC, SFD_NONBLOCK, SIGINT, SIGTERM, SIGUSR1};

use crate::handler::Handler;
use crate::reactor::Reactor;
use crate::slab::Token;
use crate::timers::TimerId;

/// How long requests in flight may take after `SIGTERM`. What started this server waits for as long before
/// it takes stronger means: container runtimes commonly 10 s.
const DRAIN: Duration = Duration::from_secs(5);

/// Bytes that describe one signal; the first four are its number.
const SIGNAL_SIZE: usize = 128;

/// Signals of one read. Those that are alike merge while they wait, so there are never more than kinds.
const SIGNALS_A_READ: usize = 4;

/// The handler of `SIGUSR1` (report the metrics), `SIGTERM` and `SIGINT` (stop).
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals and registers their descriptor. To be called before any other thread is
    /// started: a signal that one thread does not block takes its usual way through that thread.
    pub fn register(reactor: &mut Reactor) -> Result<Token> {
        let signals = [SIGUSR1, SIGTERM, SIGINT];
        sys::sigprocmask_block(&signals).context("sigprocmask")?;
        let fd = sys::signalfd(&signals, SFD_NONBLOCK | SFD_CLOEXEC).context("signalfd")?;
        reactor.register(Box::new(Signals { fd }), EPOLLIN)
    }
}

impl Handler for Signals {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn ready(&mut self, reactor: &mut Reactor, me: Token, _events: u32) -> Result<()> {
        let mut buffer = [0; SIGNAL_SIZE * SIGNALS_A_READ];
        let count = match sys::read(&self.fd, &mut buffer) {
            Ok(count) => count,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(errno) => return Err(errno).context("read of the signalfd"),
        };
        for signal in buffer[..count].chunks_exact(SIGNAL_SIZE) {
            let [a, b, c, d, ..] = *signal else { continue };
            match i32::from_ne_bytes([a, b, c, d]) {
                // The one call of this loop that may wait: for whoever reads standard error. The
                // operator asked for it.
                SIGUSR1 => kit::complain(format_args!("{}", reactor.report())),
                // Asked twice, it does not wait for anybody.
                SIGTERM | SIGINT if reactor.is_draining() => reactor.stop(),
                SIGTERM | SIGINT => {
                    reactor.drain()?;
                    reactor.set_timer(me, reactor.now().after(DRAIN));
                }
                other => bail!("the signalfd reports signal {other}, which it was not asked for"),
            }
        }
        Ok(())
    }

    /// Requests in flight have had their time.
    fn due(&mut self, reactor: &mut Reactor, _me: Token, _timer: TimerId) -> Result<()> {
        reactor.stop();
        Ok(())
    }
}
