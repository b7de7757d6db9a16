//! Exercise 8: a loop that is never blocked. What takes long is done by workers, and their results come back as events.
//!
//! Five files: this one is the loop and the listener; `pool.rs` is the workers, their queue, and the way back;
//! `exchange.rs` is what is between the two directions of a socket: requests in, replies out; `connection.rs` is one client;
//! `slab.rs` makes tokens that tell a connection from the one before it.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused)]

mod connection;
mod exchange;
mod pool;
mod slab;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ReactorOptions, WorkerOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EpollEvent, Errno, IPPROTO_TCP,
    SFD_CLOEXEC, SFD_NONBLOCK, SIGTERM, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY,
};

use connection::{Connection, Next};
use pool::Pool;
use slab::{Slab, Token};

/// Events handed over by one `epoll_wait`. More come with the next call.
const EVENTS_PER_TURN: usize = 256;

/// Connections accepted in one turn. A flood of new clients must not keep those waiting who are in already.
const ACCEPTS_A_TURN: usize = 64;

/// How long to wait before the next attempt to accept when there was no descriptor for it. One can become free
/// elsewhere in the machine, and nothing would say so.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a signal that is read from a signalfd (`signalfd(2)`).
const SIGNAL_SIZE: usize = 128;

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: WorkerOptions) -> Result<()> {
    // Before the first thread is started: each inherits what is blocked, and an unblocked SIGTERM would end the process
    // in whichever thread it finds.
    sys::sigprocmask_block(&[SIGTERM]).context("sigprocmask")?;
    let signals = sys::signalfd(&[SIGTERM], SFD_NONBLOCK | SFD_CLOEXEC).context("signalfd")?;
    let listener = kit::listen(options.reactor.serve.listen, SOCK_NONBLOCK)?;
    // Connections inherit it. A reply can leave in several writes, and without this option the last one may wait until
    // the client has acknowledged the others, which can take 40 ms (`tcp(7)`).
    sys::setsockopt(&listener, IPPROTO_TCP, TCP_NODELAY, 1).context("setsockopt TCP_NODELAY")?;
    let pool = Pool::start(options.workers, options.queue)?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let watched = [
        (listener.as_fd(), Token::LISTENER),
        (pool.wake(), Token::WAKE),
        (signals.as_fd(), Token::SIGNALS),
    ];
    for (fd, token) in watched {
        let event = EpollEvent::new(EPOLLIN, token.to_bits());
        sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, fd, Some(event)).context("epoll_ctl ADD")?;
    }
    let mut reactor = Reactor {
        listener: Some(listener),
        signals,
        epoll,
        pool,
        connections: Slab::new(),
        deadlines: BTreeSet::new(),
        limits: options.reactor,
        accepting: true,
        a_place_is_free: false,
        stopping: false,
    };
    let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
    while !reactor.stopping || reactor.connections.len() > 0 {
        reactor.turn(&mut events)?;
    }
    reactor.pool.stop();
    Ok(())
}

struct Reactor {
    /// `None`: the server stops.
    listener: Option<OwnedFd>,
    /// SIGTERM as an event.
    signals: OwnedFd,
    epoll: OwnedFd,
    pool: Pool,
    connections: Slab<Connection>,
    /// Deadlines and whose they are, the earliest first. A connection has at most one. The listener's is the time of its
    /// next attempt when there was no descriptor.
    deadlines: BTreeSet<(Instant, Token)>,
    limits: ReactorOptions,
    /// The listener is watched.
    accepting: bool,
    /// A connection was closed in this turn, or the listener's deadline is over: it is worth a try to accept again.
    a_place_is_free: bool,
    /// SIGTERM has come.
    stopping: bool,
}

impl Reactor {
    /// One turn:
    ///
    /// ```text
    ///   +-> wait       until an event, or the nearest deadline
    ///   |   events     of each: the listener, a signal, results, or a connection, found by token; a stale one is dropped
    ///   |   deadlines  those that are over by now
    ///   +---+
    /// ```
    fn turn(&mut self, events: &mut [EpollEvent]) -> Result<()> {
        let nearest = self.deadlines.first().map(|(deadline, _)| *deadline);
        let count = match sys::epoll_wait(&self.epoll, events, timeout(Instant::now(), nearest)) {
            Ok(count) => count,
            // A signal came first. The time until the deadline has become shorter, and is computed anew.
            Err(Errno::EINTR) => 0,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        for event in &events[..count] {
            match Token::from_bits(event.data()) {
                Token::LISTENER => self.accept()?,
                Token::WAKE => self.deliver(),
                Token::SIGNALS => self.stop(),
                token => self.serve(token, |connection, reactor| {
                    connection.ready(*event, reactor)
                }),
            }
        }
        self.run_deadlines();
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

    /// Brings the workers' results to those who wait for them. Who has left meanwhile is not found.
    fn deliver(&mut self) {
        todo!("each result, brought to who waits for it")
    }

    /// SIGTERM has come. From now on nobody is accepted, and nothing is read. What was asked for is answered, and when
    /// the last connection is closed the loop ends.
    fn stop(&mut self) {
        self.stopping = true;
        // Taken, or it would be an event on every turn. Which signal it was is known: there is only one.
        let _ = sys::read(&self.signals, &mut [0; SIGNAL_SIZE]);
        if let Some(listener) = self.listener.take() {
            // It leaves the interest list with this; and there is nobody to tell of an error.
            let _ = sys::close(listener);
        }
        let all: Vec<Token> = self.connections.iter().map(|(token, _)| token).collect();
        for token in all {
            self.serve(token, Connection::stop);
        }
    }

    /// Lets those do something whose deadline is over.
    fn run_deadlines(&mut self) {
        let now = (Instant::now(), Token::LAST);
        // First all that are over now. A deadline that one of them begins, even for now, belongs to the next turn.
        let due: Vec<_> = self.deadlines.range(..=now).copied().collect();
        for entry in due {
            // One before it in the list may have taken it back.
            if self.deadlines.remove(&entry) {
                match entry.1 {
                    Token::LISTENER => self.a_place_is_free = true,
                    owner => self.serve(owner, Connection::due),
                }
            }
        }
    }

    /// Accepts while there is room. Level-triggered, a listener that is left with clients in its queue is reported again,
    /// on every turn: where none can be accepted it must not be watched.
    fn accept(&mut self) -> Result<()> {
        for _ in 0..ACCEPTS_A_TURN {
            let most = self.limits.max_connections.unwrap_or(usize::MAX);
            if self.connections.len() >= most {
                // `close` says when there is a place again.
                return self.watch_listener(false);
            }
            let Some(listener) = &self.listener else {
                return Ok(());
            };
            match sys::accept4(listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
                Ok(socket) => self.add(socket),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => match kit::accept_failure(errno) {
                    AcceptFailure::OnePeer => {}
                    AcceptFailure::NoRoom => {
                        let later = Instant::now() + NO_ROOM_PAUSE;
                        self.deadlines.insert((later, Token::LISTENER));
                        return self.watch_listener(false);
                    }
                    AcceptFailure::Listener => bail!("accept4: {errno}"),
                },
            }
        }
        Ok(())
    }

    /// Watches the listener, or does not.
    fn watch_listener(&mut self, accepting: bool) -> Result<()> {
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        if self.accepting == accepting {
            return Ok(());
        }
        self.accepting = accepting;
        let interest = if accepting { EPOLLIN } else { 0 };
        let event = EpollEvent::new(interest, Token::LISTENER.to_bits());
        sys::epoll_ctl(&self.epoll, EPOLL_CTL_MOD, listener, Some(event))
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

/// The timeout of an `epoll_wait` that must end at `deadline`, in milliseconds, rounded up; -1 waits until something
/// happens.
fn timeout(now: Instant, deadline: Option<Instant>) -> i32 {
    const MILLISECOND: u128 = 1_000_000;
    let Some(deadline) = deadline else {
        return -1;
    };
    let left = deadline.saturating_duration_since(now).as_nanos();
    i32::try_from(left.div_ceil(MILLISECOND)).unwrap_or(i32::MAX)
}
