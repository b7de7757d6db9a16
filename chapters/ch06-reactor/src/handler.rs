//! Handlers: what is registered with the dispatcher, and what it calls.

use std::os::fd::BorrowedFd;

use anyhow::Result;

use crate::acceptor::Acceptor;
use crate::connection::Connection;
use crate::reactor::Reactor;
use crate::slab::Token;
use crate::timers::TimerId;

// ANCHOR: handler
/// What is registered with the dispatcher: a descriptor, and what to do when it is ready.
///
/// Connections and the listener have handlers of their own. This trait is for everything else that a
/// program wants in its loop: a clock, signals, a wakeup from another thread.
pub trait Handler {
    /// The descriptor to watch. Nothing for a handler that lives by timers alone.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The descriptor is ready for `events`, perhaps: whoever reads it must be prepared for `EAGAIN`.
    ///
    /// # Errors
    ///
    /// Whatever it returns ends the loop.
    fn ready(&mut self, reactor: &mut Reactor, me: Token, events: u32) -> Result<()>;

    /// A timer has fired that was started with [`Reactor::set_timer`] for `me`.
    ///
    /// # Errors
    ///
    /// As [`Handler::ready`].
    fn due(&mut self, reactor: &mut Reactor, me: Token, timer: TimerId) -> Result<()> {
        let _ = (reactor, me, timer);
        Ok(())
    }
}
// ANCHOR_END: handler

/// Everything with a token. `None` in the slab: its handler is running, and holds it.
pub(crate) enum Source {
    Acceptor(Acceptor),
    Connection(Box<Connection>),
    Other(Box<dyn Handler>),
}

/// What one request of one connection waits for. Whoever makes its reply brings it back, and it finds this
/// request or none: not the next one of the connection, and not the next owner of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) connection: Token,
    pub(crate) request: u32,
}

impl Ticket {
    pub(crate) fn new(connection: Token, request: u32) -> Ticket {
        Ticket {
            connection,
            request,
        }
    }
}
