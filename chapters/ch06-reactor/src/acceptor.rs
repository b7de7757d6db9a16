//! The acceptor: the handler of the listener. It takes connections in, and knows when to stop.
//!
//! # When no descriptor is free
//!
//! `accept4` then fails with `EMFILE` (this process has as many as it may) or `ENFILE` (the whole machine
//! has), and the connection **stays in the queue**. So the listener is still readable, every `epoll_wait`
//! reports it at once, every `accept4` fails at once: 100 % CPU, in silence. (Edge-triggered it is silence
//! alone: freeing a descriptor is no edge, and nobody is ever accepted again.)
//!
//! ```text
//!              accept4: EMFILE, or --max-connections reached
//!   WATCHING ----------------------------------------------> PAUSED   interest: nothing
//!       ^                                                       |
//!       +------- a connection was closed, or a short while -----+
//! ```
//!
//! Here the listener is not watched for a while. The clients wait in the kernel's queue, where they
//! cost no descriptor, and are served in their turn.
//!
//! The other known cure keeps a spare descriptor, of `/dev/null`, say: close it, accept with the number
//! that is free now, close that connection, open the spare one again. The client learns at once that
//! it is not served, which may be what is wanted; here it would have been served a moment later. And it
//! has a trap: at the limit the kernel answers `EMFILE` before it looks into the queue, so a loop that
//! does this "until `EAGAIN`" never ends.
//!
//! Both are first aid. The real cure is a higher limit (`ulimit -n`), and fewer connections than that.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use kit::AcceptFailure;
use sys::{EPOLLIN, Errno, IPPROTO_TCP, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY, accept4};

use crate::journal::Happening;
use crate::reactor::Reactor;
use crate::slab::Token;
use crate::timers::TimerId;

/// Connections that are taken in one turn. A flood of them must not keep those waiting who are in already.
const ACCEPTS_A_TURN: usize = 64;

/// A paused listener is tried again after this time, even if no connection was closed: descriptors can
/// become free elsewhere, and somebody can raise the limit. Short enough for a client that waits, and two
/// failed calls a second cost nothing.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Acceptor {
    listener: OwnedFd,
    paused: bool,
    retry: Option<TimerId>,
}

impl Acceptor {
    pub(crate) fn new(listener: OwnedFd) -> Result<Acceptor> {
        // Connections inherit it. A reply may leave in several writes, and without it the second one
        // waits for the client to acknowledge the first, which the client may delay by 40 ms.
        sys::setsockopt(&listener, IPPROTO_TCP, TCP_NODELAY, 1)
            .context("setsockopt TCP_NODELAY")?;
        Ok(Acceptor {
            listener,
            paused: false,
            retry: None,
        })
    }

    pub(crate) fn listener(&self) -> impl AsFd + '_ {
        &self.listener
    }

    // ANCHOR: accept
    /// Accepts until nobody is left in the queue. Level-triggered, a listener that is left before is
    /// reported again.
    pub(crate) fn ready(&mut self, reactor: &mut Reactor, me: Token) -> Result<()> {
        for _ in 0..ACCEPTS_A_TURN {
            if reactor.has_max_connections() {
                reactor.metrics.connection_limits += 1;
                return self.pause(reactor, me);
            }
            let outcome = accept4(&self.listener, SOCK_NONBLOCK | SOCK_CLOEXEC);
            reactor.metrics.accept_calls += 1;
            match &outcome {
                Err(Errno::EAGAIN) => return Ok(()),
                Ok(fd) => reactor.tell(Happening::Accept(Ok(fd.as_raw_fd()))),
                Err(errno) => reactor.tell(Happening::Accept(Err(*errno))),
            }
            match outcome {
                Ok(fd) => reactor.adopt(fd),
                Err(errno) => match kit::accept_failure(errno) {
                    AcceptFailure::OnePeer => {}
                    AcceptFailure::NoRoom => {
                        reactor.metrics.descriptor_limits += 1;
                        let again = reactor.now().after(reactor.limits().accept_retry);
                        self.retry = Some(reactor.set_timer(me, again));
                        return self.pause(reactor, me);
                    }
                    // It cannot be used any more. To go on would be to spin in silence.
                    AcceptFailure::Listener => return Err(errno).context("accept4"),
                },
            }
        }
        reactor.metrics.budgets_used_up += 1;
        Ok(())
    }
    // ANCHOR_END: accept

    fn pause(&mut self, reactor: &mut Reactor, me: Token) -> Result<()> {
        self.paused = true;
        reactor.tell(Happening::ListenerPaused);
        self.watch(0, reactor, me)
    }

    /// There may be a place again.
    pub(crate) fn resume(&mut self, reactor: &mut Reactor, me: Token) -> Result<()> {
        if let Some(timer) = self.retry.take() {
            reactor.cancel_timer(timer);
        }
        if !self.paused {
            return Ok(());
        }
        self.paused = false;
        reactor.tell(Happening::ListenerResumed);
        self.watch(EPOLLIN, reactor, me)
    }

    fn watch(&self, interest: u32, reactor: &mut Reactor, me: Token) -> Result<()> {
        reactor.metrics.epoll_ctls += 1;
        let outcome = reactor.demultiplexer.modify(&self.listener, interest, me);
        outcome.context("epoll_ctl MOD of the listener")
    }

    /// The timer of a pause has fired.
    pub(crate) fn due(&mut self, reactor: &mut Reactor, me: Token) -> Result<()> {
        self.retry = None;
        self.resume(reactor, me)
    }

    /// Stops accepting. The listener is closed by the caller, and whoever is still in its queue is refused.
    pub(crate) fn end(self, reactor: &mut Reactor) -> OwnedFd {
        if let Some(timer) = self.retry {
            reactor.cancel_timer(timer);
        }
        self.listener
    }
}
