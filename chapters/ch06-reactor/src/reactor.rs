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
//! posted *before* this turn, and `TIMERS_A_TURN`.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::clock::{Instant, timeout};
use crate::connection::READ_SIZE;
use crate::demultiplexer::Demultiplexer;
use crate::handler::Source;
use crate::journal::{Happening, Observer};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::routes::Offload;
use crate::slab::{Slab, Token};
use crate::timers::{TimerHeap, TimerId, Timers};

/// Timers that run in one turn. After a network failure ten thousand idle deadlines may come at once; to
/// close all of them in one turn would keep a live client waiting for tens of milliseconds.
const TIMERS_A_TURN: usize = 256;

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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Serving,
    /// No new connection and no new request is taken; what was asked is answered.
    Draining,
    Stopped,
}

/// The event loop of one thread, with everything that it owns.
pub struct Reactor {
    pub(crate) demultiplexer: Demultiplexer,
    pub(crate) sources: Slab<Option<Source>>,
    timers: Box<dyn Timers>,
    due: Vec<TimerId>,
    /// Connections that go on without an event, in the order in which they asked for it.
    posted: VecDeque<Token>,
    pub(crate) acceptor: Option<Token>,
    pub(crate) connections: usize,
    /// A connection was closed in this turn.
    pub(crate) a_place_is_free: bool,
    limits: Limits,
    pub(crate) life: Life,
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

    // ANCHOR: turn
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
    // ANCHOR_END: turn

    // ANCHOR: dispatch
    /// Calls the handler of one event.
    pub(crate) fn dispatch(&mut self, token: Token, events: u32) -> Result<()> {
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
                self.return_handler(token, handler)?;
            }
        }
        Ok(())
    }
    // ANCHOR_END: dispatch

    fn serve_without_event(&mut self, token: Token) {
        self.metrics.budgets_used_up += 1;
        if let Some(Source::Connection(mut connection)) = self.take_out(token) {
            let fate = connection.its_turn(self);
            self.settle(token, connection, fate);
        }
    }

    // ANCHOR: run_timers
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
                    self.return_handler(timer.owner, handler)?;
                }
            }
        }
        self.due = due;
        Ok(count)
    }
    // ANCHOR_END: run_timers

    /// A running handler owns itself, and so may be given the whole reactor.
    pub(crate) fn take_out(&mut self, token: Token) -> Option<Source> {
        self.sources.get_mut(token)?.take()
    }

    pub(crate) fn put_back(&mut self, token: Token, source: Source) {
        if let Some(place) = self.sources.get_mut(token) {
            *place = Some(source);
        }
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

    /// The metrics as text, one line each, and what there is at this moment.
    #[must_use]
    pub fn report(&self) -> String {
        let uptime = self.now.since(self.started).as_secs_f64();
        format!(
            "metrics after {uptime:.1} s\n  {:<22}{}\n  {:<22}{}\n{}",
            "connections",
            self.connections,
            "timers",
            self.timers.len(),
            self.metrics
        )
    }
}
