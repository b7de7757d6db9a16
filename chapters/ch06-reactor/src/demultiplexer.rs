//! The demultiplexer: one `epoll(7)` instance, and the batch of events that it reported last.
//!
//! It turns "something is ready" into "this token is ready for that". Who has the token, and what is to be
//! done, is the dispatcher's business.
//!
//! # Level-triggered, and why
//!
//! Every registration here is level-triggered: an event comes again as long as its condition holds. For a
//! server that keeps a connection for many short requests this is the cheaper and the safer choice:
//!
//! | | level-triggered | edge-triggered |
//! |---|---|---|
//! | a short request | `epoll_wait`, `read`, `write` | the same, and one more `read`, which says `EAGAIN` |
//! | a read that returns less than was there | reported again | lost, unless the loop reads until `EAGAIN` |
//! | a budget that ends before the input does | reported again | must be remembered |
//! | no more room to send | ask for `EPOLLOUT`, and later take it back | nothing |
//! | input that is not wanted now | must be masked, or the loop spins | nothing |
//!
//! Many edge-triggered programs save the extra `read` when the one before did not fill its buffer. That
//! is right until a read is short for another reason (a signal, urgent data, an end of stream behind the
//! bytes), and then the connection hangs. The last two rows are level-triggered's price: an `epoll_ctl`
//! when a client takes its replies too slowly, or sends ahead of them. They are rare, and an error in
//! them shows at once, as a loop that spins; an error in the others shows as a client that waits for ever.
//!
//! Only `EPOLLIN` and `EPOLLOUT` are asked for. `EPOLLRDHUP` would say that an end of stream is coming:
//! `read` says so too, after the bytes that lie before it. `EPOLLERR` and `EPOLLHUP` come unasked.

use std::os::fd::{AsFd, OwnedFd};

use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EpollEvent, Errno, Result,
    epoll_create1, epoll_ctl, epoll_wait,
};

use crate::slab::Token;

/// The most events of one batch: 256 of 12 bytes. What is ready beyond them comes with the next wait, which
/// hands the others over first, so nobody is forgotten. A larger batch saves a few waits under load, and
/// makes timers wait for longer.
const EVENTS_A_TURN: usize = 256;

/// An `epoll` instance with the batch that it reported last.
pub struct Demultiplexer {
    epoll: OwnedFd,
    batch: Vec<EpollEvent>,
}

impl Demultiplexer {
    /// A new instance that watches nothing.
    pub fn new() -> Result<Demultiplexer> {
        Ok(Demultiplexer {
            epoll: epoll_create1(EPOLL_CLOEXEC)?,
            batch: vec![EpollEvent::EMPTY; EVENTS_A_TURN],
        })
    }

    /// Begins to watch `fd`. Its events will carry `token`.
    pub fn add(&self, fd: impl AsFd, interest: u32, token: Token) -> Result<()> {
        self.control(EPOLL_CTL_ADD, fd, interest, token)
    }

    /// Watches `fd` for something else from now on. If that is the case already, it is reported.
    pub fn modify(&self, fd: impl AsFd, interest: u32, token: Token) -> Result<()> {
        self.control(EPOLL_CTL_MOD, fd, interest, token)
    }

    fn control(&self, operation: i32, fd: impl AsFd, interest: u32, token: Token) -> Result<()> {
        let event = EpollEvent::new(interest, token.to_bits());
        epoll_ctl(&self.epoll, operation, fd, Some(event))
    }

    /// No longer watches `fd`. Events of it that are in the batch already stay there.
    ///
    /// `close` alone would do the same here. But a registration belongs to the open file description, not
    /// to the number: were there a duplicate, in a child process perhaps, it would outlive the `close` and
    /// report a descriptor that can be removed no more. One call a connection buys the certainty.
    pub fn remove(&self, fd: impl AsFd) -> Result<()> {
        epoll_ctl(&self.epoll, EPOLL_CTL_DEL, fd, None)
    }

    /// Sleeps until something is ready, or for `timeout` milliseconds (-1: for ever, 0: not at all). Returns
    /// how many events the batch has now.
    ///
    /// A signal, a debugger or `SIGCONT` can end the sleep early. The batch is empty then, and the caller
    /// finds out from the clock what time is left: to wait for the whole timeout again would let signals
    /// put a timer off for ever.
    pub fn wait(&mut self, timeout: i32) -> Result<usize> {
        match epoll_wait(&self.epoll, &mut self.batch, timeout) {
            Err(Errno::EINTR) => Ok(0),
            other => other,
        }
    }

    /// One event of the batch: whose it is, and what has happened.
    #[must_use]
    pub fn event(&self, index: usize) -> (Token, u32) {
        let event = self.batch[index];
        (Token::from_bits(event.data()), event.events())
    }

    /// Gives the instance back.
    pub fn close(self) -> Result<()> {
        sys::close(self.epoll)
    }
}
