//! A connection: the handler that moves an exchange's bytes and keeps its deadlines.
//!
//! One call of [`Connection::serve`] is one round: at most one read, then as much work as the budget
//! allows, then at most one write. Each of the three is bounded, so nobody owns the loop: neither a client
//! that never stops sending, nor one that takes everything, nor one with thousands of requests in
//! a single read. Who could go on is *posted*: the dispatcher serves it again in the next turn, after it
//! has looked at everybody else. No event would come for it, because all its input may be here already.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use http::{Action, Framing, Response};
use sys::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, Errno, SHUT_WR};

use crate::clock::Instant;
use crate::exchange::{Answer, Exchange, World};
use crate::handler::Ticket;
use crate::journal::{Cause, Happening, Phase};
use crate::patience::Guard;
use crate::reactor::Reactor;
use crate::slab::Token;
use crate::timers::TimerId;

/// Bytes of one read, and so of one connection's input in one turn. The loop has one buffer of this size
/// for all connections: who has nothing to say has no buffer. Larger saves reads for large bodies only.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// What the dispatcher does with a connection after a round.
pub(crate) enum Fate {
    Stay,
    Close(Cause),
}

pub(crate) struct Connection {
    fd: OwnedFd,
    pub(crate) me: Token,
    pub(crate) exchange: Exchange,
    /// What the kernel watches for us.
    interest: u32,
    /// The dispatcher has us on its list for the next turn.
    posted: bool,
    pub(crate) guard: Guard,
    /// When the guard's patience ends.
    pub(crate) deadline: Option<Instant>,
    /// Our timer, and when it fires: not later than `deadline`.
    pub(crate) timer: Option<(TimerId, Instant)>,
}

impl Connection {
    /// A connection that was just accepted, and is watched for input.
    pub(crate) fn new(fd: OwnedFd, me: Token, reactor: &mut Reactor) -> Connection {
        let mut connection = Connection {
            fd,
            me,
            exchange: Exchange::default(),
            interest: Self::INTEREST,
            posted: false,
            guard: Guard::Idle(0),
            deadline: None,
            timer: None,
        };
        connection.set_first_deadline(reactor);
        connection
    }

    /// What a new connection is watched for. Not `EPOLLOUT`: a socket with room is always writable.
    pub(crate) const INTEREST: u32 = EPOLLIN;

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.exchange.phase()
    }

    /// An event has come.
    pub(crate) fn ready(&mut self, events: u32, reactor: &mut Reactor) -> Fate {
        if self.exchange.wants_input() {
            // Also after an error or a hang-up: bytes may lie before it, and `read` says which it was.
            let readable = events & (EPOLLIN | EPOLLERR | EPOLLHUP) != 0;
            return self.serve(readable, reactor);
        }
        if events & (EPOLLERR | EPOLLHUP) != 0 {
            // We have not shut down our side, so this is no half-close: the connection is gone in both
            // directions, and the reply has nobody to go to. These two bits cannot be masked: to wait for
            // the reply first would be to spin until then.
            return Fate::Close(Cause::Failed(Errno::ECONNRESET));
        }
        if events & EPOLLIN != 0 {
            // The client sends ahead of its replies, or has ended its side. We look later; until then the
            // kernel must not report it on each turn.
            if let Err(errno) = self.watch(self.interest & !EPOLLIN, reactor) {
                return Fate::Close(Cause::Failed(errno));
            }
        }
        if self.posted || events & EPOLLOUT == 0 {
            return Fate::Stay;
        }
        self.serve(false, reactor)
    }

    /// Its turn has come, without an event.
    pub(crate) fn its_turn(&mut self, reactor: &mut Reactor) -> Fate {
        self.posted = false;
        self.serve(false, reactor)
    }

    /// Brings the reply to a request, if that is the one which still waits.
    pub(crate) fn complete(
        &mut self,
        request: u32,
        make: impl FnOnce(Framing) -> Response,
        reactor: &mut Reactor,
    ) -> Option<Fate> {
        let (framing, _) = self.exchange.awaited()?;
        if self.exchange.request() != request {
            return None;
        }
        let response = reactor.last_if_draining(make(framing));
        self.exchange.reply(response, &mut self.world(reactor));
        Some(self.serve(false, reactor))
    }

    /// One round, after which somebody else is served.
    pub(crate) fn serve(&mut self, readable: bool, reactor: &mut Reactor) -> Fate {
        match self.round(readable, reactor) {
            Err(errno) => Fate::Close(Cause::Failed(errno)),
            Ok(()) if self.exchange.is_over() => Fate::Close(Cause::Finished),
            Ok(()) if reactor.is_draining() && self.phase() == Phase::KeepAlive => {
                if readable {
                    Fate::Close(Cause::Stopping)
                } else {
                    // Another request may be here already. It was asked in time; and a `close` with
                    // unread input would destroy the reply before it.
                    self.serve(true, reactor)
                }
            }
            Ok(()) => Fate::Stay,
        }
    }

    fn round(&mut self, readable: bool, reactor: &mut Reactor) -> sys::Result<()> {
        let mut buffer = std::mem::take(&mut reactor.read_buffer);
        // A read into an empty buffer returns 0, which would be taken for the end of the stream.
        debug_assert!(!buffer.is_empty(), "one round at a time");
        let received = if readable {
            self.receive(&mut buffer, reactor)
        } else {
            Ok(0)
        };
        if let Ok(count) = received {
            self.exchange.borrow_memory(&mut reactor.spare_output);
            self.exchange
                .advance(&buffer[..count], &mut self.world(reactor));
        }
        reactor.read_buffer = buffer;
        let received = received?;
        let sent = self.send(reactor)?;
        self.exchange.give_memory_back(&mut reactor.spare_output);
        self.prepare_for_what_is_next(received + sent > 0, reactor)
    }

    /// One read.
    fn receive(&mut self, buffer: &mut [u8], reactor: &mut Reactor) -> sys::Result<usize> {
        let outcome = sys::read(&self.fd, buffer);
        reactor.metrics.reads += 1;
        reactor.tell(Happening::Read(self.fd(), outcome));
        match outcome {
            Ok(0) => {
                self.exchange.end_of_input();
                Ok(0)
            }
            // Not now. Another event will say when.
            Err(Errno::EAGAIN | Errno::EINTR) => {
                reactor.metrics.reads_eagain += 1;
                Ok(0)
            }
            Ok(count) => {
                reactor.metrics.bytes_read += count as u64;
                Ok(count)
            }
            Err(errno) => Err(errno),
        }
    }

    /// One write, of everything that is to be sent. It is made without waiting for an event first: a
    /// socket has room until a write has said otherwise.
    fn send(&mut self, reactor: &mut Reactor) -> sys::Result<usize> {
        let offered = self.exchange.output().len();
        if offered == 0 {
            return Ok(0);
        }
        let outcome = sys::write(&self.fd, self.exchange.output());
        let metrics = &mut reactor.metrics;
        metrics.writes += 1;
        metrics.output_high_water = metrics.output_high_water.max(offered);
        match outcome {
            Ok(taken) => {
                metrics.bytes_written += taken as u64;
                metrics.short_writes += u64::from(taken < offered);
            }
            Err(Errno::EAGAIN) => metrics.writes_eagain += 1,
            Err(_) => {}
        }
        reactor.tell(Happening::Write(self.fd(), offered, outcome));
        match outcome {
            Ok(taken) => {
                self.exchange.sent(taken, &mut self.world(reactor));
                Ok(taken)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno),
        }
    }

    // ANCHOR: prepare
    /// Interest, place on the list, and deadline follow from what the exchange needs now.
    fn prepare_for_what_is_next(&mut self, moved: bool, reactor: &mut Reactor) -> sys::Result<()> {
        if self.exchange.is_over() {
            return Ok(());
        }
        if self.phase() == Phase::Closing && self.guard != Guard::Linger {
            // Not `close`: with unread input it would reset the connection, and a reset destroys what
            // is still on its way to the client. So only our side ends; the client's is read to its end,
            // and what it says is thrown away.
            sys::shutdown(&self.fd, SHUT_WR)?;
        }

        let mut interest = self.interest & !EPOLLOUT;
        if self.exchange.wants_input() {
            interest |= EPOLLIN;
        }
        if !self.exchange.output().is_empty() {
            interest |= EPOLLOUT;
        }
        self.watch(interest, reactor)?;

        if self.exchange.wants_a_turn() && !self.posted {
            self.posted = true;
            reactor.post(self.me);
        }

        self.renew_deadline(moved, reactor);
        Ok(())
    }
    // ANCHOR_END: prepare

    /// Changes what the kernel watches, if it has to be changed: in the life of a usual request it has not.
    fn watch(&mut self, interest: u32, reactor: &mut Reactor) -> sys::Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        self.interest = interest;
        reactor.metrics.epoll_ctls += 1;
        reactor.demultiplexer.modify(&self.fd, interest, self.me)
    }

    /// Stops the timer and gives the socket away, to be closed.
    pub(crate) fn end(self, reactor: &mut Reactor) -> OwnedFd {
        if let Some((timer, _)) = self.timer {
            reactor.cancel_timer(timer);
        }
        self.fd
    }

    pub(crate) fn world<'a>(&self, reactor: &'a mut Reactor) -> Around<'a> {
        Around {
            fd: self.fd(),
            me: self.me,
            reactor,
        }
    }
}

/// The world around an exchange: the dispatcher, and who is asking.
pub(crate) struct Around<'a> {
    fd: RawFd,
    me: Token,
    reactor: &'a mut Reactor,
}

impl World for Around<'_> {
    fn answer(&mut self, request: u32, action: Action, framing: Framing) -> Answer {
        let ticket = Ticket::new(self.me, request);
        self.reactor.answer(ticket, self.fd, action, framing)
    }

    fn moved(&mut self, from: Phase, to: Phase) {
        self.reactor.tell(Happening::State(self.fd, from, to));
    }
}
