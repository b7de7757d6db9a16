//! Who is registered: handlers, the listener, connections. How they come, how they go, how they are found.

use std::os::fd::{OwnedFd, RawFd};

use anyhow::{Context, Result};
use http::{Framing, Response};
use sys::EPOLLIN;

use crate::acceptor::Acceptor;
use crate::connection::{Connection, Fate};
use crate::handler::{Handler, Source, Ticket};
use crate::journal::{Cause, Happening, Phase};
use crate::reactor::Reactor;
use crate::slab::Token;

/// One connection, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its descriptor.
    pub fd: RawFd,
    /// Its state.
    pub phase: Phase,
}

/// What was tried, for an error's words.
const REMOVE: &str = "epoll_ctl DEL of a handler's descriptor";

impl Reactor {
    /// Accepts connections from this listener, which is non-blocking, and serves them.
    pub fn listen(&mut self, listener: OwnedFd) -> Result<()> {
        let acceptor = Acceptor::new(listener)?;
        let token = self.sources.insert(None);
        let listener = acceptor.listener();
        if let Err(errno) = self.demultiplexer.add(listener, EPOLLIN, token) {
            self.sources.remove(token);
            return Err(errno).context("epoll_ctl ADD of the listener");
        }
        self.put_back(token, Source::Acceptor(acceptor));
        self.acceptor = Some(token);
        Ok(())
    }

    /// Registers a handler, whose descriptor is watched for `interest`.
    pub fn register(&mut self, handler: Box<dyn Handler>, interest: u32) -> Result<Token> {
        let token = self.sources.insert(None);
        if let Some(fd) = handler.descriptor()
            && let Err(errno) = self.demultiplexer.add(fd, interest, token)
        {
            self.sources.remove(token);
            return Err(errno).context("epoll_ctl ADD of a handler's descriptor");
        }
        self.put_back(token, Source::Other(handler));
        Ok(token)
    }

    /// Takes a handler out again, and returns it. A handler that does this to itself gets nothing back: it
    /// is dropped when it returns. Timers of a handler that is gone find nobody.
    pub fn deregister(&mut self, token: Token) -> Result<Option<Box<dyn Handler>>> {
        match self.sources.get(token) {
            Some(None) => {
                self.sources.remove(token);
                Ok(None)
            }
            Some(Some(Source::Other(handler))) => {
                if let Some(fd) = handler.descriptor() {
                    self.demultiplexer.remove(fd).context(REMOVE)?;
                }
                match self.sources.remove(token) {
                    Some(Some(Source::Other(handler))) => Ok(Some(handler)),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// A handler comes back from its work: to its place, or nowhere if it has left it.
    pub(crate) fn return_handler(&mut self, token: Token, handler: Box<dyn Handler>) -> Result<()> {
        match (self.sources.get_mut(token), handler.descriptor()) {
            (Some(place), _) => *place = Some(Source::Other(handler)),
            (None, Some(fd)) => self.demultiplexer.remove(fd).context(REMOVE)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// Takes in a connection that was just accepted.
    pub(crate) fn adopt(&mut self, fd: OwnedFd) {
        let token = self.sources.insert(None);
        self.metrics.accepts += 1;
        self.connections += 1;
        let registered = self.demultiplexer.add(&fd, Connection::INTEREST, token);
        self.metrics.epoll_ctls += 1;
        let connection = Box::new(Connection::new(fd, token, self));
        match registered {
            Ok(()) => self.put_back(token, Source::Connection(connection)),
            // The machine watches as many descriptors as it will (`epoll(7)`, max_user_watches). That
            // concerns this one client only.
            Err(errno) => self.close(token, *connection, Cause::Failed(errno)),
        }
    }

    /// After a handler: keep the connection, or close it.
    pub(crate) fn settle(&mut self, token: Token, connection: Box<Connection>, fate: Fate) {
        match fate {
            Fate::Stay => self.put_back(token, Source::Connection(connection)),
            Fate::Close(cause) => self.close(token, *connection, cause),
        }
    }

    /// Closes a connection. From here on its token is stale. Only this thread does it, and only here.
    pub(crate) fn close(&mut self, token: Token, connection: Connection, cause: Cause) {
        self.tell(Happening::Close(connection.fd(), cause));
        self.sources.remove(token);
        let fd = connection.end(self);
        // The number is free after `close`, whatever that says, and there is nobody to tell.
        let _ = self.demultiplexer.remove(&fd);
        let _ = sys::close(fd);
        self.metrics.epoll_ctls += 1;
        self.metrics.closes += 1;
        self.connections -= 1;
        self.a_place_is_free = true;
    }

    /// There is a free descriptor, and a free place, which a paused listener may be waiting for.
    pub(crate) fn resume_accepting(&mut self) -> Result<()> {
        self.a_place_is_free = false;
        let Some(token) = self.acceptor else {
            return Ok(());
        };
        if let Some(Source::Acceptor(mut acceptor)) = self.take_out(token) {
            acceptor.resume(self, token)?;
            self.put_back(token, Source::Acceptor(acceptor));
        }
        Ok(())
    }

    /// Closes the connection with this descriptor, if it is another one than that which asks. It looks at
    /// all of them: nobody but a test needs to find a connection by its descriptor.
    pub(crate) fn kick(&mut self, fd: RawFd) -> bool {
        let found = self
            .sources
            .iter()
            .find_map(|(token, source)| match source {
                Some(Source::Connection(connection)) if connection.fd() == fd => Some(token),
                _ => None,
            });
        match found.and_then(|token| Some((token, self.take_out(token)?))) {
            Some((token, Source::Connection(connection))) => {
                self.close(token, *connection, Cause::Kicked);
                true
            }
            _ => false,
        }
    }

    /// Brings the reply to a request that was [submitted](crate::Offload::submit). False if nobody waits for it any
    /// more: the connection is gone, and its descriptor may be somebody else's.
    pub fn complete(&mut self, ticket: Ticket, make: impl FnOnce(Framing) -> Response) -> bool {
        let token = ticket.connection;
        let Some(Source::Connection(mut connection)) = self.take_out(token) else {
            return false;
        };
        let fate = connection.complete(ticket.request, make, self);
        let known = fate.is_some();
        self.settle(token, connection, fate.unwrap_or(Fate::Stay));
        known
    }

    /// True if somebody still waits for the reply to this request: work for anybody else can be left undone.
    #[must_use]
    pub fn is_awaited(&self, ticket: Ticket) -> bool {
        match self.sources.get(ticket.connection) {
            Some(Some(Source::Connection(connection))) => {
                let exchange = &connection.exchange;
                exchange.awaited().is_some() && exchange.request() == ticket.request
            }
            _ => false,
        }
    }

    /// All connections, in the order of their slots.
    pub fn connections(&self) -> impl Iterator<Item = View> {
        self.sources.iter().filter_map(|(_, source)| match source {
            Some(Source::Connection(connection)) => Some(View {
                fd: connection.fd(),
                phase: connection.phase(),
            }),
            _ => None,
        })
    }
}
