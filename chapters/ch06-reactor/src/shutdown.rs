//! How the loop ends: in peace, at once, and what becomes of its descriptors.

use anyhow::{Context, Result};
use http::Response;
use sys::EPOLLIN;

use crate::handler::Source;
use crate::journal::Cause;
use crate::reactor::{Life, Reactor};
use crate::slab::Token;

impl Reactor {
    /// Stops in peace: no new connection, no new request; what was asked is answered first. The turns until
    /// then are [`Reactor::run`]'s.
    pub fn drain(&mut self) -> Result<()> {
        self.life = Life::Draining;
        self.stop_listening()?;
        // Idle connections are closed, but a request that has just arrived was asked in time: each is
        // read once before.
        for token in self.tokens() {
            if let Some(Some(Source::Connection(_))) = self.sources.get(token) {
                self.dispatch(token, EPOLLIN)?;
            }
        }
        Ok(())
    }

    /// Whoever is still in the listener's queue is refused.
    fn stop_listening(&mut self) -> Result<()> {
        let Some(token) = self.acceptor.take() else {
            return Ok(());
        };
        if let Some(Source::Acceptor(acceptor)) = self.take_out(token) {
            let listener = acceptor.end(self);
            let outcome = self.demultiplexer.remove(&listener);
            outcome.context("epoll_ctl DEL of the listener")?;
            sys::close(listener).context("close of the listener")?;
        }
        self.sources.remove(token);
        Ok(())
    }

    fn tokens(&self) -> Vec<Token> {
        self.sources.iter().map(|(token, _)| token).collect()
    }

    /// Closes everything, whatever state it is in.
    pub fn end(mut self) -> Result<()> {
        self.stop_listening()?;
        for token in self.tokens() {
            if let Some(Source::Connection(connection)) = self.take_out(token) {
                self.close(token, *connection, Cause::Stopping);
            }
        }
        self.demultiplexer
            .close()
            .context("close of the epoll instance")
    }

    /// Stops at once.
    pub fn stop(&mut self) {
        self.life = Life::Stopped;
    }

    /// True after [`Reactor::drain`].
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.life != Life::Serving
    }

    /// A reply that is made while the server drains is the last one of its connection, and says so.
    pub(crate) fn last_if_draining(&self, mut response: Response) -> Response {
        if self.is_draining() {
            response.close();
        }
        response
    }
}
