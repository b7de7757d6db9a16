//! Exercise 7: wakeups. The loop of exercise 6, which now sleeps without a time-out: a clock, another thread and a signal wake
//! it, each by a descriptor.
//!
//! This file is the loop. `alarm.rs` is the clock, `waker.rs` and `mailbox.rs` are how the other thread wakes it, and
//! `second.rs` is that thread; `deadline.rs` says what a deadline is. The other files are those of exercise 6.
#![forbid(unsafe_code)]

mod alarm;
mod connection;
mod deadline;
mod exchange;
mod mailbox;
mod second;
mod slab;
mod timers;
mod waker;

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ReactorOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EpollEvent, Errno, IPPROTO_TCP,
    SFD_CLOEXEC, SFD_NONBLOCK, SIGTERM, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_NODELAY,
};

use alarm::Alarm;
use connection::{Connection, Next};
use deadline::Moment;
use mailbox::{Mailbox, Message};
use second::Order;
use slab::{Slab, Token};
use timers::{TimerId, Timers};

/// Events handed over by one `epoll_wait`. More come with the next call.
const EVENTS_PER_TURN: usize = 256;

/// Connections accepted in one turn. A flood of new clients must not keep those waiting who are in already.
const ACCEPTS_A_TURN: usize = 64;

/// How long to wait before the next attempt to accept when there was no descriptor for it. One can become free
/// elsewhere in the machine, and nothing would say so.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// The time-out of a wait that an event ends, and nothing else.
const UNTIL_AN_EVENT: i32 = -1;

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ReactorOptions) -> Result<()> {
    let signals = signals()?;
    let mailbox = Arc::new(Mailbox::new()?);
    let orders = second::start(Arc::clone(&mailbox))?;
    let listener = kit::listen(options.serve.listen, SOCK_NONBLOCK)?;
    // Connections inherit it. A reply can leave in several writes, and without this option the last one may wait until
    // the client has acknowledged the others, which can take 40 ms (`tcp(7)`).
    sys::setsockopt(&listener, IPPROTO_TCP, TCP_NODELAY, 1).context("setsockopt TCP_NODELAY")?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let alarm = Alarm::new()?;
    for (fd, token) in [
        (&listener, Token::LISTENER),
        (&alarm.timerfd, Token::ALARM),
        (&mailbox.waker.eventfd, Token::WAKER),
        (&signals, Token::SIGNALS),
    ] {
        let event = EpollEvent::new(EPOLLIN, token.to_bits());
        sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, fd, Some(event)).context("epoll_ctl ADD")?;
    }
    let mut reactor = Reactor {
        listener,
        epoll,
        alarm,
        mailbox,
        orders,
        connections: Slab::new(),
        timers: Timers::new(),
        line: VecDeque::new(),
        limits: options,
        accepting: true,
        retry: None,
        a_place_is_free: false,
        is_over: false,
    };
    let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
    while !reactor.is_over {
        reactor.turn(&mut events)?;
    }
    Ok(())
}

/// `SIGTERM` as a descriptor. It must be blocked in every thread, or it takes its usual way and kills the process. A new thread
/// inherits what is blocked: so this comes before any other is started.
fn signals() -> Result<OwnedFd> {
    sys::sigprocmask_block(&[SIGTERM]).context("sigprocmask")?;
    sys::signalfd(&[SIGTERM], SFD_NONBLOCK | SFD_CLOEXEC).context("signalfd")
}

struct Reactor {
    listener: OwnedFd,
    epoll: OwnedFd,
    alarm: Alarm,
    mailbox: Arc<Mailbox>,
    /// To the second thread.
    orders: Sender<Order>,
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
    /// `SIGTERM` has come: this turn is the last one.
    is_over: bool,
}

impl Reactor {
    /// One turn:
    ///
    /// ```text
    ///   +-> alarm    is set for the nearest deadline
    ///   |   wait     until an event; not at all if somebody is in the line
    ///   |   events   a new client, the alarm, messages, a signal; or a connection, found by its token
    ///   |   line     those who were in it when the turn began
    ///   |   timers   those that are due by now: first all collected, then run
    ///   +---+
    /// ```
    fn turn(&mut self, events: &mut [EpollEvent]) -> Result<()> {
        // Who joins the line from now on waits for the next turn.
        let in_line = self.line.len();
        let count = self.wait(events, in_line > 0)?;
        for event in &events[..count] {
            self.react(*event)?;
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

    /// Sleeps until something happens, and returns how many events there are. Not if somebody is `in_line`: then it only looks.
    ///
    /// The sleep has no time-out. So the alarm must be set for the nearest deadline, whatever has moved it since the last
    /// sleep: a request, a message, or that the alarm has rung.
    fn wait(&mut self, events: &mut [EpollEvent], in_line: bool) -> Result<usize> {
        self.alarm.set(self.timers.next_deadline())?;
        let timeout = if in_line { 0 } else { UNTIL_AN_EVENT };
        match sys::epoll_wait(&self.epoll, events, timeout) {
            Ok(count) => Ok(count),
            // It was stopped and goes on, or a signal came that is not blocked.
            Err(Errno::EINTR) => Ok(0),
            Err(errno) => bail!("epoll_wait: {errno}"),
        }
    }

    /// Does what an event asks for. What is due need not be run here: each turn does that, whatever has woken it.
    fn react(&mut self, event: EpollEvent) -> Result<()> {
        match Token::from_bits(event.data()) {
            Token::LISTENER => self.accept()?,
            Token::ALARM => self.alarm.silence()?,
            Token::WAKER => self.hear()?,
            Token::SIGNALS => self.is_over = true,
            token => self.serve(token, |connection, reactor| {
                connection.ready(event, reactor)
            }),
        }
        Ok(())
    }

    /// Hands out the messages of the second thread. One whose connection is gone meanwhile finds nobody.
    fn hear(&mut self) -> Result<()> {
        for message in self.mailbox.take()? {
            let (Message::Pong(owner) | Message::Deadline(owner, _)) = message;
            self.serve(owner, |connection, reactor| {
                connection.told(message, reactor)
            });
        }
        Ok(())
    }

    /// Gives the second thread something to do.
    fn order(&self, order: Order) {
        // It ends only when `orders` is gone, and so after us.
        let _ = self.orders.send(order);
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
        for id in self.timers.collect_due(Moment::now()) {
            // One that ran before may have cancelled it.
            match self.timers.take(id) {
                Some(Token::LISTENER) => {
                    self.retry = None;
                    self.a_place_is_free = true;
                }
                Some(owner) => self.serve(owner, Connection::due),
                None => {}
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
            match sys::accept4(&self.listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
                Ok(socket) => self.add(socket),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => match kit::accept_failure(errno) {
                    AcceptFailure::OnePeer => {}
                    AcceptFailure::NoRoom => {
                        if self.retry.is_none() {
                            let later = Moment::now().after(NO_ROOM_PAUSE);
                            self.retry = Some(self.timers.insert(later, Token::LISTENER));
                        }
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
