//! Exercise 6: a reactor. One loop, which knows how to wait and whose turn it is.
//!
//! Five files: this one is the loop and the listener; `slab.rs` makes tokens that tell a connection from the one before it;
//! `timers.rs` keeps deadlines in order; `connection.rs` is one client; `exchange.rs` is what is between the two
//! directions of its socket: requests in, replies out.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused)]

mod connection;
mod exchange;
mod slab;
mod timers;

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ReactorOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EpollEvent, Errno, IPPROTO_TCP,
    SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY,
};

use connection::{Connection, Next};
use slab::{Slab, Token};
use timers::{TimerId, Timers, timeout};

/// Events handed over by one `epoll_wait`. More come with the next call.
const EVENTS_PER_TURN: usize = 256;

/// Connections accepted in one turn. A flood of new clients must not keep those waiting who are in already.
const ACCEPTS_A_TURN: usize = 64;

/// How long to wait before the next attempt to accept when there was no descriptor for it. One can become free
/// elsewhere in the machine, and nothing would say so.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ReactorOptions) -> Result<()> {
    let listener = kit::listen(options.serve.listen, SOCK_NONBLOCK)?;
    // Connections inherit it. A reply can leave in several writes, and without this option the last one may wait until
    // the client has acknowledged the others, which can take 40 ms (`tcp(7)`).
    sys::setsockopt(&listener, IPPROTO_TCP, TCP_NODELAY, 1).context("setsockopt TCP_NODELAY")?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let event = EpollEvent::new(EPOLLIN, Token::LISTENER.to_bits());
    sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &listener, Some(event)).context("epoll_ctl ADD")?;
    let mut reactor = Reactor {
        listener,
        epoll,
        connections: Slab::new(),
        timers: Timers::new(),
        line: VecDeque::new(),
        limits: options,
        accepting: true,
        retry: None,
        a_place_is_free: false,
    };
    let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
    loop {
        reactor.turn(&mut events)?;
    }
}

struct Reactor {
    listener: OwnedFd,
    epoll: OwnedFd,
    connections: Slab<Connection>,
    timers: Timers,
    /// Connections that go on without an event, in the order in which they asked for it.
    line: VecDeque<Token>,
    limits: ReactorOptions,
    /// The listener is watched.
    accepting: bool,
    /// The timer of a listener that is not watched because there was no descriptor.
    retry: Option<TimerId>,
    /// A connection was closed in this turn, or `retry` has gone off: it is worth a try to accept again.
    a_place_is_free: bool,
}

impl Reactor {
    /// One turn:
    ///
    /// ```text
    ///   +-> wait     until an event, or the nearest deadline; not at all if somebody is in the line
    ///   |   events   of each: find its connection by token; a stale one is dropped
    ///   |   line     those who were in it when the turn began
    ///   |   timers   those that are due by now: first all collected, then run
    ///   +---+
    /// ```
    fn turn(&mut self, events: &mut [EpollEvent]) -> Result<()> {
        // Who joins the line from now on waits for the next turn.
        let in_line = self.line.len();
        let timeout = match in_line {
            0 => timeout(Instant::now(), self.timers.next_deadline()),
            _ => 0,
        };
        let count = match sys::epoll_wait(&self.epoll, events, timeout) {
            Ok(count) => count,
            // A signal came first. The time until the deadline has become shorter, and is computed anew.
            Err(Errno::EINTR) => 0,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        for event in &events[..count] {
            match Token::from_bits(event.data()) {
                Token::LISTENER => self.accept()?,
                token => self.serve(token, |connection, reactor| {
                    connection.ready(*event, reactor)
                }),
            }
        }
        for _ in 0..in_line {
            if let Some(token) = self.line.pop_front() {
                self.serve(token, |connection, reactor| {
                    connection.in_line = false;
                    connection.go_on(false, reactor)
                });
            }
        }
        self.run_timers();
        if self.a_place_is_free {
            self.a_place_is_free = false;
            self.watch_listener(true)?;
        }
        Ok(())
    }

    /// Lets the connection do something, and closes it if that was the end. A stale token finds nobody.
    fn serve(
        &mut self,
        token: Token,
        act: impl FnOnce(&mut Connection, &mut Reactor) -> sys::Result<Next>,
    ) {
        // Taken out while it is served, because a request can close another connection (`/kick`).
        let Some(mut connection) = self.connections.take_out(token) else {
            return;
        };
        match act(&mut connection, self) {
            Ok(Next::Stay) => self.connections.put_back(token, connection),
            // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
            Ok(Next::Close) | Err(_) => self.close(token, connection),
        }
    }

    /// Runs the timers that are due by now.
    fn run_timers(&mut self) {
        todo!("collect those that are due, look each up again, run it")
    }

    /// Accepts while there is room. Level-triggered, a listener that is left with clients in its queue is reported again,
    /// on every turn: where none can be accepted it must not be watched.
    fn accept(&mut self) -> Result<()> {
        todo!("until EAGAIN, or the budget, or a limit: what is done at a limit?")
    }

    /// Watches the listener, or does not.
    fn watch_listener(&mut self, accepting: bool) -> Result<()> {
        if self.accepting == accepting {
            return Ok(());
        }
        self.accepting = accepting;
        let interest = if accepting { EPOLLIN } else { 0 };
        let event = EpollEvent::new(interest, Token::LISTENER.to_bits());
        sys::epoll_ctl(&self.epoll, EPOLL_CTL_MOD, &self.listener, Some(event))
            .context("epoll_ctl MOD of the listener")
    }

    /// Takes in a new connection.
    fn add(&mut self, socket: OwnedFd) {
        let token = self.connections.insert(Connection::new(socket));
        self.serve(token, |connection, reactor| {
            let event = EpollEvent::new(Connection::INTEREST, token.to_bits());
            sys::epoll_ctl(
                &reactor.epoll,
                EPOLL_CTL_ADD,
                &connection.socket,
                Some(event),
            )?;
            connection.begin(token, reactor);
            Ok(Next::Stay)
        });
    }

    /// Closes a connection that is taken out. From here on its token is stale.
    fn close(&mut self, token: Token, connection: Connection) {
        self.connections.remove(token);
        connection.close(self);
        self.a_place_is_free = true;
    }

    /// Closes another connection, found by its descriptor. False: there is none.
    fn kick(&mut self, fd: RawFd) -> bool {
        let is_it = |(token, connection): (Token, &Connection)| {
            (connection.socket.as_raw_fd() == fd).then_some(token)
        };
        let Some(token) = self.connections.iter().find_map(is_it) else {
            return false;
        };
        if let Some(connection) = self.connections.take_out(token) {
            self.close(token, connection);
        }
        true
    }
}
