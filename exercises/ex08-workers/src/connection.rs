//! One client: its socket, level-triggered; what it waits for; and how long it may wait.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use http::Stage;
use sys::{
    EPOLL_CTL_MOD, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EpollEvent, Errno, Result, SHUT_WR,
};

use crate::Reactor;
use crate::exchange::{Answered, Exchange, Owner};
use crate::slab::Token;

/// Bytes of one read.
const READ_SIZE: usize = 16 * 1024;

/// How long a connection is read after its last reply, until the client closes its side.
const LINGER: Duration = Duration::from_secs(5);

/// What becomes of a connection after its turn.
pub(crate) enum Next {
    /// It waits: for an event, for its deadline, or for a worker's result.
    Stay,
    /// It is closed.
    Close,
}

/// What the connection waits for, and so what its deadline is for. Another one begins a new deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The first byte of the request with this number.
    Idle(u32),
    /// The rest of its head: all of it has one deadline.
    Head(u32),
    /// More of a body, or that the client takes bytes. Each step gives new time.
    Progress,
    /// No patience, but an order: the reply is to be made at this time.
    Reply(Instant),
    /// A worker's result. It takes as long as it takes: the client is not to blame, so there is no deadline.
    Work,
    /// After the last reply: that the client closes its side.
    Linger,
}

pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    me: Token,
    /// The mask on the interest list.
    interest: u32,
    exchange: Exchange,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
    /// A read has returned 0: no more requests will come. The client may still be waiting for replies.
    ended: bool,
    /// Our sending side is shut down.
    lingering: bool,
    guard: Guard,
    /// It is in the reactor's list, too.
    deadline: Option<Instant>,
}

impl Connection {
    /// What a new connection is registered for.
    pub(crate) const INTEREST: u32 = EPOLLIN;

    pub(crate) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            // Nobody looks at it before `begin`.
            me: Token::LISTENER,
            interest: Connection::INTEREST,
            exchange: Exchange::default(),
            output: Vec::new(),
            sent: 0,
            ended: false,
            lingering: false,
            guard: Guard::Idle(0),
            deadline: None,
        }
    }

    /// It has a token now, and begins to wait for its first request.
    pub(crate) fn begin(&mut self, me: Token, reactor: &mut Reactor) {
        self.me = me;
        self.renew_deadline(Guard::Idle(0), false, reactor);
    }

    /// An event has come.
    pub(crate) fn ready(&mut self, event: EpollEvent, reactor: &mut Reactor) -> Result<Next> {
        if event.has(EPOLLERR) {
            // The client has broken off: no reply can reach it any more.
            return Ok(Next::Close);
        }
        let readable = event.has(EPOLLIN | EPOLLHUP) && self.interest & EPOLLIN != 0;
        let moved = readable && self.receive()?;
        if self.lingering {
            // What comes after the last request is thrown away.
            self.exchange.input.clear();
            return Ok(if self.ended { Next::Close } else { Next::Stay });
        }
        self.go_on(moved, reactor)
    }

    /// The deadline has come. Nothing need come from the client for what follows: silence has no events.
    pub(crate) fn due(&mut self, reactor: &mut Reactor) -> Result<Next> {
        self.deadline = None;
        match self.guard {
            Guard::Reply(_) => self.exchange.reply_is_due(),
            Guard::Head(_) => self.exchange.refuse(),
            Guard::Idle(_) | Guard::Progress | Guard::Work | Guard::Linger => {
                return Ok(Next::Close);
            }
        }
        self.go_on(false, reactor)
    }

    /// A worker's result has come.
    pub(crate) fn work_is_done(&mut self, succeeded: bool, reactor: &mut Reactor) -> Result<Next> {
        self.exchange.work_is_done(succeeded);
        self.go_on(false, reactor)
    }

    /// The server stops: what has come is answered, and nothing more is read.
    pub(crate) fn stop(&mut self, reactor: &mut Reactor) -> Result<Next> {
        match self.lingering {
            true => Ok(Next::Stay),
            false => self.go_on(false, reactor),
        }
    }

    /// One turn: answers some requests and makes one write. Whatever is left after that waits for the next turn, so that
    /// no client keeps the loop to itself. `moved`: bytes have come in already.
    fn go_on(&mut self, moved: bool, reactor: &mut Reactor) -> Result<Next> {
        let answered = self.answer(reactor);
        let moved = self.send()? || moved;
        if answered == Answered::Last && self.output.is_empty() {
            return self.linger(reactor);
        }
        self.watch(self.wants(answered), reactor)?;
        self.renew_deadline(self.guard_for(answered), moved, reactor);
        Ok(Next::Stay)
    }

    /// Which events must come before it can go on. For [`Answered::Later`] and [`Answered::Working`] it is none: the
    /// deadline or the worker's result brings it back.
    ///
    /// Level-triggered, what is asked for is reported on every turn while it is there. So ask for input only where a read
    /// would follow, and for room only where a write would.
    fn wants(&self, answered: Answered) -> u32 {
        todo!("the events that it waits for now: input, room, both, or neither")
    }

    /// What it waits for now.
    fn guard_for(&self, answered: Answered) -> Guard {
        let request = self.exchange.requests;
        match answered {
            Answered::Later(due) => Guard::Reply(due),
            Answered::Working if self.output.is_empty() => Guard::Work,
            Answered::Hungry(Stage::Head) => Guard::Head(request),
            Answered::Hungry(Stage::Idle) if self.output.is_empty() => Guard::Idle(request),
            _ => Guard::Progress,
        }
    }

    /// Starts a new deadline where there is a reason for one: the connection waits for something else than before, or it
    /// waits for progress and has made some.
    fn renew_deadline(&mut self, guard: Guard, moved: bool, reactor: &mut Reactor) {
        let is_progress = moved && guard == Guard::Progress;
        if self.deadline.is_some() && guard == self.guard && !is_progress {
            return;
        }
        self.guard = guard;
        let limits = &reactor.limits;
        let deadline = match guard {
            Guard::Reply(due) => Some(due),
            Guard::Head(_) => Some(Instant::now() + limits.head_timeout_ms),
            Guard::Idle(_) | Guard::Progress => Some(Instant::now() + limits.idle_timeout_ms),
            Guard::Work => None,
            Guard::Linger => Some(Instant::now() + LINGER),
        };
        self.set_deadline(deadline, reactor);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>, reactor: &mut Reactor) {
        if let Some(old) = self.deadline.take() {
            reactor.deadlines.remove(&(old, self.me));
        }
        if let Some(new) = deadline {
            reactor.deadlines.insert((new, self.me));
        }
        self.deadline = deadline;
    }

    /// From the input to the output buffer. `exchange.rs` does it.
    fn answer(&mut self, reactor: &mut Reactor) -> Answered {
        self.output.drain(..self.sent);
        self.sent = 0;
        let owner = Owner {
            token: self.me,
            fd: self.socket.as_raw_fd(),
        };
        let ended = self.ended || reactor.stopping;
        self.exchange
            .answer(&mut self.output, ended, owner, reactor)
    }

    /// One write, of all that is to be sent. Returns whether any byte went.
    fn send(&mut self) -> Result<bool> {
        if self.output.is_empty() {
            return Ok(false);
        }
        let moved = match sys::write(&self.socket, &self.output[self.sent..]) {
            Ok(taken) => {
                self.sent += taken;
                true
            }
            Err(Errno::EAGAIN | Errno::EINTR) => false,
            Err(errno) => return Err(errno),
        };
        if self.sent == self.output.len() {
            self.output = Vec::new();
            self.sent = 0;
        }
        Ok(moved)
    }

    /// One read. Returns whether it brought anything new: bytes, or the end. Level-triggered, what is left is reported
    /// again.
    fn receive(&mut self) -> Result<bool> {
        let mut buffer = [0; READ_SIZE];
        match sys::read(&self.socket, &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(len) => self.exchange.input.extend_from_slice(&buffer[..len]),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// After the last reply: ends our side, and waits for the end of the client's. (`close` with unread input would
    /// reset the connection, and destroy the replies that are still on their way.)
    fn linger(&mut self, reactor: &mut Reactor) -> Result<Next> {
        if self.ended {
            return Ok(Next::Close);
        }
        sys::shutdown(&self.socket, SHUT_WR)?;
        self.lingering = true;
        self.exchange.input.clear();
        self.watch(EPOLLIN, reactor)?;
        self.renew_deadline(Guard::Linger, false, reactor);
        Ok(Next::Stay)
    }

    /// Changes what the kernel watches, where that differs.
    fn watch(&mut self, interest: u32, reactor: &Reactor) -> Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        self.interest = interest;
        let event = EpollEvent::new(interest, self.me.to_bits());
        sys::epoll_ctl(&reactor.epoll, EPOLL_CTL_MOD, &self.socket, Some(event))
    }

    /// Gives up its deadline, and closes the socket, which also takes it off the interest list. A worker may still work
    /// for it: the result finds a stale token.
    pub(crate) fn close(mut self, reactor: &mut Reactor) {
        self.set_deadline(None, reactor);
        // Whatever it returns, the number is free afterwards, and there is nobody to tell.
        let _ = sys::close(self.socket);
    }
}
