//! The dispatcher: it waits for events, finds whose they are, and calls their handlers.
//!
//! A turn:
//!
//! ```text
//!   +-> wait     until an event, or the next deadline; not at all if somebody is posted
//!   |   events   of each: find its handler by token, call it; a stale one is dropped
//!   |   posted   connections that used up their last turn
//!   |   timers   those that are due by now: first all collected, then run
//!   +---+
//! ```
//!
//! All three kinds of work have a limit in each turn, so none can keep another waiting: the batch, what was
//! posted *before* this turn, and [`TIMERS_A_TURN`].

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Framing, Response};
use sys::EPOLLIN;

use crate::acceptor::Acceptor;
use crate::clock::{Instant, timeout};
use crate::connection::{Connection, Fate, READ_SIZE};
use crate::demultiplexer::Demultiplexer;
use crate::journal::{Cause, Happening, Observer, Phase};
use crate::metrics::Metrics;
use crate::routes::Offload;
use crate::slab::{Slab, Token};
use crate::timers::{TimerHeap, TimerId, Timers};

/// Timers that run in one turn. After a network failure ten thousand idle deadlines may come at once; to
/// close all of them in one turn would keep a live client waiting for tens of milliseconds.
const TIMERS_A_TURN: usize = 256;

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

/// Everything with a token. `None` in the slab: its handler is running, and holds it.
enum Source {
    Acceptor(Acceptor),
    Connection(Box<Connection>),
    Other(Box<dyn Handler>),
}

/// What one request of one connection waits for. Whoever makes its reply brings it back, and it finds this
/// request or none: not the next one of the connection, and not the next owner of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    connection: Token,
    request: u32,
}

impl Ticket {
    pub(crate) fn new(connection: Token, request: u32) -> Ticket {
        Ticket {
            connection,
            request,
        }
    }
}

/// What a server allows its clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request to the end of its head.
    pub head_timeout: Duration,
    /// Between two requests; between two pieces of a body, or of a reply.
    pub idle_timeout: Duration,
    /// Connections at a time.
    pub max_connections: Option<usize>,
}

impl From<&kit::ReactorOptions> for Limits {
    fn from(options: &kit::ReactorOptions) -> Limits {
        Limits {
            head_timeout: options.head_timeout_ms,
            idle_timeout: options.idle_timeout_ms,
            max_connections: options.max_connections,
        }
    }
}

/// What one turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Events that `epoll_wait` returned.
    pub events: usize,
    /// Connections that were served without one.
    pub posted: usize,
    /// Timers that ran.
    pub timers: usize,
}

/// One connection, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its descriptor.
    pub fd: RawFd,
    /// Its state.
    pub phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Serving,
    /// No new connection and no new request is taken; what was asked is answered.
    Draining,
    Stopped,
}

/// The event loop of one thread, with everything that it owns.
pub struct Reactor {
    pub(crate) demultiplexer: Demultiplexer,
    sources: Slab<Option<Source>>,
    timers: Box<dyn Timers>,
    due: Vec<TimerId>,
    /// Connections that go on without an event, in the order in which they asked for it.
    posted: VecDeque<Token>,
    acceptor: Option<Token>,
    connections: usize,
    /// A connection was closed in this turn.
    a_place_is_free: bool,
    limits: Limits,
    life: Life,
    started: Instant,
    /// Read once or twice a turn, not for every use: what happens in one turn happens at one time.
    now: Instant,
    pub(crate) metrics: Metrics,
    pub(crate) offload: Option<Box<dyn Offload>>,
    observer: Option<Observer>,
    /// Where every read goes first.
    pub(crate) read_buffer: Vec<u8>,
    /// The memory that output is made in, while no connection holds it back.
    pub(crate) spare_output: Vec<u8>,
}

impl Reactor {
    /// A loop that watches nothing yet, with a heap of timers.
    pub fn new(limits: Limits) -> Result<Reactor> {
        Reactor::with_timers(limits, Box::new(TimerHeap::new()))
    }

    /// The same with timers of another kind.
    pub fn with_timers(limits: Limits, timers: Box<dyn Timers>) -> Result<Reactor> {
        let now = Instant::now();
        Ok(Reactor {
            demultiplexer: Demultiplexer::new().context("epoll_create1")?,
            sources: Slab::new(),
            timers,
            due: Vec::new(),
            posted: VecDeque::new(),
            acceptor: None,
            connections: 0,
            a_place_is_free: false,
            limits,
            life: Life::Serving,
            started: now,
            now,
            metrics: Metrics::default(),
            offload: None,
            observer: None,
            read_buffer: vec![0; READ_SIZE],
            spare_output: Vec::new(),
        })
    }

    /// Accepts connections from this listener, which is non-blocking, and serves them.
    pub fn listen(&mut self, listener: OwnedFd) -> Result<()> {
        let acceptor = Acceptor::new(listener)?;
        let token = self.sources.insert(None);
        let outcome = self.demultiplexer.add(acceptor.listener(), EPOLLIN, token);
        outcome.context("epoll_ctl ADD of the listener")?;
        self.put_back(token, Source::Acceptor(acceptor));
        self.acceptor = Some(token);
        Ok(())
    }

    /// Registers a handler, whose descriptor is watched for `interest`.
    pub fn register(&mut self, handler: Box<dyn Handler>, interest: u32) -> Result<Token> {
        let token = self.sources.insert(None);
        if let Some(fd) = handler.descriptor() {
            let outcome = self.demultiplexer.add(fd, interest, token);
            outcome.context("epoll_ctl ADD of a handler's descriptor")?;
        }
        self.put_back(token, Source::Other(handler));
        Ok(token)
    }

    /// Takes a handler out again, unless it is gone or just running. Its timers find nobody.
    pub fn deregister(&mut self, token: Token) -> Result<Option<Box<dyn Handler>>> {
        match self.sources.get(token) {
            Some(Some(Source::Other(_))) => {}
            _ => return Ok(None),
        }
        let Some(Some(Source::Other(handler))) = self.sources.remove(token) else {
            return Ok(None);
        };
        if let Some(fd) = handler.descriptor() {
            let outcome = self.demultiplexer.remove(fd);
            outcome.context("epoll_ctl DEL of a handler's descriptor")?;
        }
        Ok(Some(handler))
    }

    /// Where `/work` is done.
    pub fn set_offload(&mut self, offload: Box<dyn Offload>) {
        self.offload = Some(offload);
    }

    /// Who is told what happens.
    pub fn set_observer(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Turns until it is stopped, or is drained and empty.
    pub fn run(&mut self) -> Result<()> {
        while self.is_running() {
            self.go_round(None)?;
        }
        Ok(())
    }

    fn is_running(&self) -> bool {
        match self.life {
            Life::Serving => true,
            Life::Draining => self.connections > 0,
            Life::Stopped => false,
        }
    }

    /// One turn. It sleeps until there is something to do.
    pub fn turn(&mut self) -> Result<Turn> {
        self.look_at_the_clock();
        self.go_round(None)
    }

    /// One turn that sleeps for `longest` at most.
    pub fn turn_within(&mut self, longest: Duration) -> Result<Turn> {
        self.look_at_the_clock();
        self.go_round(Some(longest))
    }

    fn go_round(&mut self, longest: Option<Duration>) -> Result<Turn> {
        // Who is posted from now on waits for the next turn.
        let posted = self.posted.len();
        let wake = if posted > 0 {
            Some(self.now)
        } else {
            let latest = longest.map(|longest| self.now.after(longest));
            self.timers.next_deadline().into_iter().chain(latest).min()
        };
        let wait = timeout(self.now, wake);
        let events = self.demultiplexer.wait(wait).context("epoll_wait")?;
        self.look_at_the_clock();
        let begin = self.now;

        for index in 0..events {
            let (token, events) = self.demultiplexer.event(index);
            self.dispatch(token, events)?;
        }
        for _ in 0..posted {
            if let Some(token) = self.posted.pop_front() {
                self.serve_without_event(token);
            }
        }
        // Handlers take time, and more may be due by now.
        self.look_at_the_clock();
        let timers = self.run_timers()?;
        if timers > 0 {
            self.look_at_the_clock();
        }
        if self.a_place_is_free {
            self.resume_accepting()?;
        }
        let turn = Turn {
            events,
            posted,
            timers,
        };
        self.metrics.count_turn(turn, self.now.since(begin));
        Ok(turn)
    }

    /// Calls the handler of one event.
    fn dispatch(&mut self, token: Token, events: u32) -> Result<()> {
        match self.take_out(token) {
            // Closed by an earlier event of the same batch. Its slot, and its descriptor's number, may
            // have a new owner already, which this event is not about.
            None => self.metrics.stale_events += 1,
            Some(Source::Connection(mut connection)) => {
                let fate = connection.ready(events, self);
                self.settle(token, connection, fate);
            }
            Some(Source::Acceptor(mut acceptor)) => {
                acceptor.ready(self, token)?;
                self.put_back(token, Source::Acceptor(acceptor));
            }
            Some(Source::Other(mut handler)) => {
                handler.ready(self, token, events)?;
                self.put_back(token, Source::Other(handler));
            }
        }
        Ok(())
    }

    fn serve_without_event(&mut self, token: Token) {
        self.metrics.budgets_used_up += 1;
        if let Some(Source::Connection(mut connection)) = self.take_out(token) {
            let fate = connection.its_turn(self);
            self.settle(token, connection, fate);
        }
    }

    /// Runs what is due. Each is looked up again before it runs: one before it may have cancelled it.
    fn run_timers(&mut self) -> Result<usize> {
        let mut due = std::mem::take(&mut self.due);
        self.timers.collect_due(self.now, TIMERS_A_TURN, &mut due);
        let mut count = 0;
        for id in due.drain(..) {
            let Some(timer) = self.timers.take(id) else {
                continue;
            };
            count += 1;
            match self.take_out(timer.owner) {
                None => {}
                Some(Source::Connection(mut connection)) => {
                    let fate = connection.due(self);
                    self.settle(timer.owner, connection, fate);
                }
                Some(Source::Acceptor(mut acceptor)) => {
                    acceptor.due(self, timer.owner)?;
                    self.put_back(timer.owner, Source::Acceptor(acceptor));
                }
                Some(Source::Other(mut handler)) => {
                    self.timer_ran(timer.deadline);
                    handler.due(self, timer.owner, id)?;
                    self.put_back(timer.owner, Source::Other(handler));
                }
            }
        }
        self.due = due;
        Ok(count)
    }

    /// A running handler owns itself, and so may be given the whole reactor.
    fn take_out(&mut self, token: Token) -> Option<Source> {
        self.sources.get_mut(token)?.take()
    }

    fn put_back(&mut self, token: Token, source: Source) {
        if let Some(place) = self.sources.get_mut(token) {
            *place = Some(source);
        }
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
    fn settle(&mut self, token: Token, connection: Box<Connection>, fate: Fate) {
        match fate {
            Fate::Stay => self.put_back(token, Source::Connection(connection)),
            Fate::Close(cause) => self.close(token, *connection, cause),
        }
    }

    /// Closes a connection. From here on its token is stale. Only this thread does it, and only here.
    fn close(&mut self, token: Token, connection: Connection, cause: Cause) {
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
    fn resume_accepting(&mut self) -> Result<()> {
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

    /// Closes the connection with this descriptor, if it is another one than that which asks.
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

    /// Brings the reply to a request that was [submitted](Offload::submit). False if nobody waits for it any
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

    /// Stops in peace: no new connection, no new request; what was asked is answered first. The turns until
    /// then are [`Reactor::run`]'s.
    pub fn drain(&mut self) -> Result<()> {
        self.life = Life::Draining;
        if let Some(token) = self.acceptor.take()
            && let Some(Source::Acceptor(acceptor)) = self.take_out(token)
        {
            self.sources.remove(token);
            let listener = acceptor.end(self);
            let outcome = self.demultiplexer.remove(&listener);
            outcome.context("epoll_ctl DEL of the listener")?;
            sys::close(listener).context("close of the listener")?;
        }
        // Idle connections are closed, but a request that has just arrived was asked in time: each is
        // read once before.
        let all: Vec<Token> = self.sources.iter().map(|(token, _)| token).collect();
        for token in all {
            if let Some(Some(Source::Connection(_))) = self.sources.get(token) {
                self.dispatch(token, EPOLLIN)?;
            }
        }
        Ok(())
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

    /// The time of this turn.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn look_at_the_clock(&mut self) {
        self.now = Instant::now();
    }

    /// Starts a timer for a handler.
    pub fn set_timer(&mut self, owner: Token, deadline: Instant) -> TimerId {
        self.timers.insert(deadline, owner)
    }

    /// Stops a timer, unless it is over.
    pub fn cancel_timer(&mut self, timer: TimerId) {
        self.metrics.timers_cancelled += u64::from(self.timers.cancel(timer));
    }

    /// A deadline has come, and is being kept now.
    pub(crate) fn timer_ran(&mut self, deadline: Instant) {
        self.metrics.loop_lag.record(self.now.since(deadline));
    }

    pub(crate) fn post(&mut self, connection: Token) {
        self.posted.push_back(connection);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn has_max_connections(&self) -> bool {
        self.limits
            .max_connections
            .is_some_and(|most| self.connections >= most)
    }

    pub(crate) fn tell(&mut self, happening: Happening) {
        if let Some(observer) = &mut self.observer {
            observer(happening);
        }
    }

    /// What has been counted so far.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The metrics as text, one line each.
    #[must_use]
    pub fn report(&self) -> String {
        self.metrics
            .report(self.now.since(self.started), self.connections)
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
