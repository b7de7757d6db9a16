//! The edge-triggered HTTP server: its loop.
//!
//! A server like this one stands in many articles about epoll, and as commonly written it loses bytes. It
//! sends with a function that was made for blocking sockets, closes on `EPOLLRDHUP` although a request is
//! still unread, answers one request a read, or forgets the rest of a write that took only a part. This
//! one registers each connection once, for everything. From then on it does three things until `EAGAIN`,
//! and never stops earlier without remembering it: read, write, accept.
//!
//! ```text
//!             an edge comes in                         the episode ends
//!   read      EPOLLIN: `readable` becomes true         EAGAIN: `readable` becomes false
//!   write     EPOLLOUT: `writable` becomes true        EAGAIN: `writable` becomes false
//!   accept    EPOLLIN: `arrivals` becomes true         EAGAIN: `arrivals` becomes false
//! ```
//!
//! The kernel reports an edge once, so these flags are the program's memory of it. They matter wherever an
//! episode is interrupted before its `EAGAIN`: when a connection stops reading because its client takes no
//! replies, and when the descriptors run out in the middle of accepting. Those bytes and those clients are
//! no news to the kernel. Whoever goes on with them must know of them.
//!
//! What is missing is the subject of chapter 6. There is no *budget*: a client that is fast enough, or a
//! crowd of new ones, has the loop to itself until a call says `EAGAIN`. There is no *deadline*: a client
//! that connects and is silent keeps its descriptor for ever.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EpollEvent, Errno,
    IPPROTO_TCP, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY,
};

use crate::connection::{Connection, Next, READ_SIZE};

/// The open connections by their token.
pub(crate) type Connections = HashMap<Token, Connection>;

/// What epoll hands back with each event, to tell whose it is. It is counted up and never given twice.
///
/// A descriptor would not do: its number is given to the next connection as soon as it is closed, and
/// an event that was meant for the old one would hit the new one. 64 bits last: at a million
/// connections a second, for half a million years.
type Token = u64;

const LISTENER: Token = 0;

// ANCHOR: everything
/// Asked for once, for the whole life of a connection. Edge-triggered, `EPOLLOUT` may stay: a socket with
/// room is no change, and is not reported again. (Level-triggered it would be, on every turn.)
const EVERYTHING: u32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
// ANCHOR_END: everything

/// Events handed over by one `epoll_wait`. More come with the next call.
const EVENTS_PER_TURN: usize = 256;

/// How long to wait, in milliseconds, before the next attempt to accept when there was no descriptor or no
/// memory for it. A descriptor of our own comes back with an event, which ends the wait. This is for those
/// of other processes (`ENFILE`), of which no event tells.
const NO_ROOM_PAUSE: i32 = 1000;

/// Until something happens, in the timeout of `epoll_wait`.
const FOR_EVER: i32 = -1;

pub(crate) fn serve(options: ServeOptions) -> Result<()> {
    let listener = kit::listen(options.listen, SOCK_NONBLOCK)?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let event = EpollEvent::new(EPOLLIN | EPOLLET, LISTENER);
    sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &listener, Some(event)).context("epoll_ctl ADD")?;
    let server = Server {
        listener,
        epoll,
        arrivals: false,
        connections: HashMap::new(),
        last_token: LISTENER,
        buffer: vec![0; READ_SIZE],
    };
    server.run()
}

struct Server {
    listener: OwnedFd,
    epoll: OwnedFd,
    /// An event has reported arrivals, and no `accept4` has said since that the queue is empty.
    arrivals: bool,
    connections: Connections,
    last_token: Token,
    /// Where reads go first. All connections share it, so that an idle one needs no memory for it.
    buffer: Vec<u8>,
}

impl Server {
    fn run(mut self) -> Result<()> {
        let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
        loop {
            // Arrivals that have to wait for a descriptor are not reported again: look without being told.
            let timeout = if self.arrivals {
                NO_ROOM_PAUSE
            } else {
                FOR_EVER
            };
            let count = match sys::epoll_wait(&self.epoll, &mut events, timeout) {
                Ok(count) => count,
                // A signal came, and no event was taken from the ready list.
                Err(Errno::EINTR) => 0,
                Err(errno) => bail!("epoll_wait: {errno}"),
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.arrivals = true,
                    token => self.dispatch(token, *event),
                }
            }
            // After the others: the descriptors that this turn has closed are free again.
            if self.arrivals {
                self.accept_all()?;
            }
        }
    }

    fn dispatch(&mut self, token: Token, event: EpollEvent) {
        // Taken out while it is served, so that a handler can close any other one (`/kick`). If it is not
        // there, it was closed on this turn, by such a handler: the event is stale, and is dropped.
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        connection.notice(event);
        match connection.run(&mut self.buffer, &mut self.connections) {
            Ok(Next::Wait) => {
                self.connections.insert(token, connection);
            }
            // An error (ECONNRESET, EPIPE) is this one client's, and it ends as the good ones end.
            Ok(Next::Close) | Err(_) => connection.close(),
        }
    }

    // ANCHOR: accept_all
    /// Accepts until `EAGAIN`: one event can stand for any number of arrivals.
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
                    // They stay in the queue, and `arrivals` stays true.
                    AcceptFailure::NoRoom => return Ok(()),
                    AcceptFailure::Listener => bail!("accept4: {errno}"),
                },
            }
        }
    }
    // ANCHOR_END: accept_all

    /// Registers a new connection. What it has sent already makes its first event.
    fn add(&mut self, socket: OwnedFd) {
        // The last piece of a long reply is small, and without this option it would be held back until the
        // client has acknowledged the pieces before it, which can take 40 ms (`tcp(7)`).
        let registered = sys::setsockopt(&socket, IPPROTO_TCP, TCP_NODELAY, 1).and_then(|()| {
            let event = EpollEvent::new(EVERYTHING, self.last_token + 1);
            sys::epoll_ctl(&self.epoll, EPOLL_CTL_ADD, &socket, Some(event))
        });
        let connection = Connection::new(socket);
        match registered {
            Ok(()) => {
                self.last_token += 1;
                self.connections.insert(self.last_token, connection);
            }
            Err(errno) => {
                kit::complain(format_args!("a connection was given up: {errno}"));
                connection.close();
            }
        }
    }
}
