//! Exercise 5: an HTTP server on edge-triggered `epoll`.
//!
//! Three files: this one is the loop and the listener, `connection.rs` is one client's socket, and `exchange.rs`
//! is what is between the two directions of a socket: requests in, replies out.
#![forbid(unsafe_code)]

mod connection;
mod exchange;

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EpollEvent, Errno,
    IPPROTO_TCP, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY,
};

use connection::{Connection, Next};

/// The open connections by their token.
type Connections = HashMap<Token, Connection>;

/// What epoll hands back with an event, to tell whose it is. It is counted up and never given twice: the number
/// of a descriptor would be given to the next connection, and with it the events that are still on their way.
type Token = u64;

const LISTENER: Token = 0;

/// Asked for once, for the whole life of a connection. `EPOLLOUT` may stay, because edge-triggered only a
/// *change* is reported, and a socket that has room all the time does not change.
const EVERYTHING: u32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// Events handed over by one `epoll_wait`. More come with the next call.
const EVENTS_PER_TURN: usize = 256;

/// How long to wait, in milliseconds, before the next attempt to accept when there was no descriptor for it. Not
/// long for a client, and ten attempts a second cost nothing.
const NO_ROOM_PAUSE: i32 = 100;

/// Until something happens, in the timeout of `epoll_wait`.
const FOR_EVER: i32 = -1;

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ServeOptions) -> Result<()> {
    let listener = kit::listen(options.listen, SOCK_NONBLOCK)?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let event = EpollEvent::new(EPOLLIN | EPOLLET, LISTENER);
    sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &listener, Some(event)).context("epoll_ctl ADD")?;
    let mut server = Server {
        listener,
        epoll,
        arrivals: false,
        connections: HashMap::new(),
        last_token: LISTENER,
    };
    let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
    loop {
        server.turn(&mut events)?;
    }
}

struct Server {
    listener: OwnedFd,
    epoll: OwnedFd,
    /// Clients may be waiting in the listener's queue: an event has said so, and no `accept4` has said since that
    /// the queue is empty. While this is true, each turn calls `accept_all`.
    arrivals: bool,
    connections: Connections,
    last_token: Token,
}

impl Server {
    /// One turn of the loop: wait, serve those that are ready, accept those that are new.
    fn turn(&mut self, events: &mut [EpollEvent]) -> Result<()> {
        // Arrivals that could not be accepted get no second event. Look again after a while.
        let timeout = if self.arrivals {
            NO_ROOM_PAUSE
        } else {
            FOR_EVER
        };
        let count = match sys::epoll_wait(&self.epoll, events, timeout) {
            Ok(count) => count,
            // A signal came first, and no event was taken.
            Err(Errno::EINTR) => 0,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        for event in &events[..count] {
            match event.data() {
                LISTENER => self.arrivals = true,
                token => self.dispatch(token, *event),
            }
        }
        // After the others: the descriptors of those that have left are free again.
        if self.arrivals {
            self.accept_all()?;
        }
        Ok(())
    }

    fn dispatch(&mut self, token: Token, event: EpollEvent) {
        // Taken out while it is served, because a request can close another connection (`/kick`). If it is not
        // there, that has happened to it on this turn: the event is stale, and is dropped.
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        connection.notice(event);
        match connection.run(&mut self.connections) {
            Ok(Next::Wait) => {
                self.connections.insert(token, connection);
            }
            // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
            Ok(Next::Close) | Err(_) => connection.close(),
        }
    }

    /// Accepts until the queue is empty: one edge can stand for any number of clients. Only `EAGAIN` says that
    /// it is, and makes `arrivals` false.
    fn accept_all(&mut self) -> Result<()> {
        loop {
            match sys::accept4(&self.listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
                Ok(socket) => self.add(socket),
                Err(Errno::EAGAIN) => {
                    self.arrivals = false;
                    return Ok(());
                }
                Err(errno) => match kit::accept_failure(errno) {
                    AcceptFailure::OnePeer => {}
                    // They stay in the queue, and no event will come for them: `arrivals` stays true.
                    AcceptFailure::NoRoom => return Ok(()),
                    AcceptFailure::Listener => bail!("accept4: {errno}"),
                },
            }
        }
    }

    /// Registers a new connection. What it has sent already makes its first event.
    fn add(&mut self, socket: OwnedFd) {
        let token = self.last_token + 1;
        // A reply can leave in several writes. Without this option the last one may wait until the client has
        // acknowledged the others, which can take 40 ms (`tcp(7)`).
        let registered = sys::setsockopt(&socket, IPPROTO_TCP, TCP_NODELAY, 1).and_then(|()| {
            let event = EpollEvent::new(EVERYTHING, token);
            sys::epoll_ctl(&self.epoll, EPOLL_CTL_ADD, &socket, Some(event))
        });
        let connection = Connection::new(socket);
        match registered {
            Ok(()) => {
                self.last_token = token;
                self.connections.insert(token, connection);
            }
            Err(errno) => {
                kit::complain(format_args!("a connection was given up: {errno}"));
                connection.close();
            }
        }
    }
}
