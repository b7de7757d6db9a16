//! The deadlines of a connection: what it waits for, how long, and what happens then.

use std::time::Duration;

use http::{Response, Stage};

use crate::clock::Instant;
use crate::connection::{Connection, Fate};
use crate::journal::{Cause, Happening, Phase};
use crate::reactor::Reactor;

/// How long a connection is read after its last reply, until the client closes its side. Long enough for the
/// reply to reach a client on a slow line before anything can go wrong, short enough for a client that
/// never closes.
const LINGER: Duration = Duration::from_secs(5);

// ANCHOR: guard
/// What a deadline is for. A new one begins a new deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The first byte of the request with this number.
    Idle(u32),
    /// The rest of its head.
    Head(u32),
    /// More of its body.
    Body(u32),
    /// Its reply, which is made by a timer or by somebody else.
    Reply(u32),
    /// That the client takes bytes.
    Write,
    /// The client's end of stream.
    Linger,
}
// ANCHOR_END: guard

impl Connection {
    /// A client that connects and says nothing is as slow with its head as one that says half of it.
    pub(crate) fn set_first_deadline(&mut self, reactor: &mut Reactor) {
        let limits = reactor.limits();
        let patience = limits.head_timeout.min(limits.idle_timeout);
        self.set_deadline(Some(reactor.now().after(patience)), reactor);
    }

    /// After a round in which bytes have moved, or not.
    pub(crate) fn renew_deadline(&mut self, moved: bool, reactor: &mut Reactor) {
        let guard = self.guard_now();
        let patience_is_renewed = moved && matches!(guard, Guard::Body(_) | Guard::Write);
        if guard != self.guard || patience_is_renewed {
            self.guard = guard;
            let limits = reactor.limits();
            let patience = match guard {
                Guard::Head(_) => limits.head_timeout,
                Guard::Idle(_) | Guard::Body(_) | Guard::Write => limits.idle_timeout,
                Guard::Linger => LINGER,
                Guard::Reply(_) => {
                    let due = self.exchange.awaited().and_then(|(_, due)| due);
                    self.set_deadline(due, reactor);
                    return;
                }
            };
            self.set_deadline(Some(reactor.now().after(patience)), reactor);
        }
    }

    fn guard_now(&self) -> Guard {
        let request = self.exchange.request();
        match (self.phase(), self.exchange.stage()) {
            (Phase::KeepAlive, _) => Guard::Idle(request),
            (Phase::Reading, Stage::Body) => Guard::Body(request),
            (Phase::Reading, _) => Guard::Head(request),
            (Phase::Processing, _) => Guard::Reply(request),
            (Phase::Writing, _) => Guard::Write,
            (Phase::Closing, _) => Guard::Linger,
        }
    }

    // ANCHOR: set_deadline
    /// Sets or clears the deadline.
    ///
    /// Each request moves the idle deadline, but nearly always to a later time. So the timer stays where it
    /// is, and looks again when it fires: one timer a connection, and no work on the heap for a usual
    /// request. Only an earlier deadline needs an earlier timer.
    fn set_deadline(&mut self, deadline: Option<Instant>, reactor: &mut Reactor) {
        self.deadline = deadline;
        let Some(deadline) = deadline else { return };
        match self.timer {
            Some((_, fires)) if fires <= deadline => return,
            Some((timer, _)) => reactor.cancel_timer(timer),
            None => {}
        }
        self.timer = Some((reactor.set_timer(self.me, deadline), deadline));
    }
    // ANCHOR_END: set_deadline

    /// The timer has fired. Nothing need come from the client for what follows: silence has no events.
    pub(crate) fn due(&mut self, reactor: &mut Reactor) -> Fate {
        self.timer = None;
        match self.deadline {
            // The reply came first, or the deadline has moved meanwhile.
            None => return Fate::Stay,
            Some(deadline) if deadline > reactor.now() => {
                self.set_deadline(Some(deadline), reactor);
                return Fate::Stay;
            }
            Some(deadline) => reactor.timer_ran(deadline),
        }
        self.deadline = None;
        reactor.tell(Happening::Deadline(self.fd(), self.phase()));
        match self.guard {
            Guard::Idle(_) => {
                // In this very moment a request may have arrived, whose event is still to come.
                let fate = self.serve(true, reactor);
                if self.deadline.is_some() || matches!(fate, Fate::Close(_)) {
                    return fate;
                }
                reactor.metrics.idle_timeouts += 1;
                Fate::Close(Cause::Timeout)
            }
            Guard::Head(_) | Guard::Body(_) => {
                reactor.metrics.request_timeouts += 1;
                let why = "the request did not arrive in time";
                self.exchange.refuse(why, &mut self.world(reactor));
                self.serve(false, reactor)
            }
            Guard::Reply(request) => {
                let fate = self.complete(request, Response::done, reactor);
                fate.unwrap_or(Fate::Stay)
            }
            Guard::Write => {
                reactor.metrics.write_timeouts += 1;
                Fate::Close(Cause::Timeout)
            }
            Guard::Linger => {
                reactor.metrics.linger_timeouts += 1;
                Fate::Close(Cause::Timeout)
            }
        }
    }
}
