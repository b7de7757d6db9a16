//! The first cure: whoever would block the loop is sent to the pool, and comes back as an event.
//!
//! ```text
//!   connection        the loop                     a worker
//!       |  GET /work/200  |                            |
//!       | --------------> |  ticket (slot, generation, |
//!       |                 |  request) and work ------> |  200 ms
//!       |   PROCESSING    |  others are served         |
//!       |                 |  <---- eventfd readable -- |  the ticket is among the done ones
//!       | <-------------- |  complete(ticket): to the connection that waits for it, or to nobody
//! ```
//!
//! The worker gets no descriptor, no buffer and no connection. It gets a [`Ticket`], which only names a
//! request. Only the loop writes to a connection, and only the loop closes it: *one owner*. While the job
//! runs, the client may leave, and another one get its descriptor and its slot. The ticket's generation is
//! the old one then, and the result goes to nobody.
//!
//! A connection has one request in work at a time. What the client sends behind it waits, so its replies leave in
//! the order of its requests, without sequence numbers. The price: one connection never occupies two workers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::{Handler, Offload, Reactor, Ticket, Token};
use http::{Framing, Response, Status};
use sys::EPOLLIN;

use crate::burn::burn;
use crate::pool::Pool;
use ch07_wakeups::{Waker, Wakeups};

/// Results that are delivered in one turn. Each one is a reply, with a `write`: as with every other kind of work,
/// the rest waits until everybody else was looked at.
const COMPLETIONS_A_TURN: usize = 64;

/// Requests that wait for a place in the queue, with [`WhenFull::Wait`]. Each holds a connection, with its
/// descriptor and its memory; more are refused.
const WAITING_MOST: usize = 10_000;

/// What happens to a request that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WhenFull {
    /// 503, at once. The client knows where it stands, and can try another server. For work that is of no use
    /// when it comes late.
    Refuse,
    /// It waits until there is a place, and nothing more is read from its connection. The kernel's buffer fills
    /// up, then the client's, and then the client has to wait as well: the pressure goes back to where it
    /// comes from. For clients that would only ask again.
    Wait,
}

/// How large the pool is, and what it does when that is not enough.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Threads.
    pub workers: usize,
    /// Jobs that may wait for one.
    pub queue: usize,
    /// What happens to those beyond.
    pub when_full: WhenFull,
}

/// The pool of a reactor: `GET /work/MS` is done there.
pub struct Workers {
    desk: Rc<Desk>,
}

/// What has become of the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed to the pool.
    pub submitted: u64,
    /// Refused: 503.
    pub refused: u64,
    /// Had to wait for a place in the queue.
    pub waited: u64,
    /// Left while they waited for a place. No worker has begun with them.
    pub given_up: u64,
    /// Delivered to the connection that asked.
    pub delivered: u64,
    /// Done, for a connection that was gone.
    pub for_nobody: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("jobs_submitted", self.submitted),
            ("jobs_refused", self.refused),
            ("jobs_waited", self.waited),
            ("jobs_given_up", self.given_up),
            ("jobs_delivered", self.delivered),
            ("jobs_for_nobody", self.for_nobody),
        ];
        write!(f, "workers")?;
        for (name, count) in counts {
            write!(f, "\n  {name:<22}{count}")?;
        }
        Ok(())
    }
}

/// All of it is used by the loop's thread alone; what the threads share is inside the pool.
struct Desk {
    pool: Pool<Ticket>,
    when_full: WhenFull,
    /// Who waits for a place, in the order in which they came.
    waiting: RefCell<VecDeque<(Ticket, Duration)>>,
    counts: Cell<Counts>,
}

impl Workers {
    /// Starts the threads, and makes them the reactor's.
    pub fn start(reactor: &mut Reactor, size: Size) -> Result<Workers> {
        let (waker, wakeups) = Waker::new().context("eventfd")?;
        let pool = Pool::start(size.workers, size.queue, waker);
        let desk = Rc::new(Desk {
            pool: pool.with_context(|| format!("start {} threads", size.workers))?,
            when_full: size.when_full,
            waiting: RefCell::default(),
            counts: Cell::default(),
        });
        let completions = Completions {
            wakeups,
            desk: Rc::clone(&desk),
        };
        reactor.register(Box::new(completions), EPOLLIN)?;
        reactor.set_offload(Box::new(Entrance(Rc::clone(&desk))));
        Ok(Workers { desk })
    }

    /// What has become of the jobs so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.desk.counts.get()
    }

    /// Ends the threads, and waits for them. No thread is left when it returns.
    pub fn end(self) {
        self.desk.pool.close();
    }
}

impl Desk {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// To the pool, if it has room.
    fn hand_over(&self, ticket: Ticket, work: Duration) -> bool {
        let taken = self.pool.submit(ticket, move |stop| burn(work, stop));
        self.count(|counts| counts.submitted += u64::from(taken.is_ok()));
        taken.is_ok()
    }

    /// Places may have become free.
    fn hand_over_who_waits(&self, reactor: &Reactor) {
        let mut waiting = self.waiting.borrow_mut();
        // Whoever has left makes room, wherever it stood in the line.
        let before = waiting.len();
        waiting.retain(|(ticket, _)| reactor.is_awaited(*ticket));
        self.count(|counts| counts.given_up += (before - waiting.len()) as u64);
        while let Some(&(ticket, work)) = waiting.front()
            && self.hand_over(ticket, work)
        {
            waiting.pop_front();
        }
    }
}

/// Where requests come in.
struct Entrance(Rc<Desk>);

impl Offload for Entrance {
    // ANCHOR: submit
    /// True: somebody will bring the reply. False: 503.
    fn submit(&mut self, ticket: Ticket, work: Duration) -> bool {
        let desk = &self.0;
        let mut waiting = desk.waiting.borrow_mut();
        // Nobody overtakes those who wait.
        if waiting.is_empty() && desk.hand_over(ticket, work) {
            return true;
        }
        let waits = desk.when_full == WhenFull::Wait && waiting.len() < WAITING_MOST;
        if waits {
            waiting.push_back((ticket, work));
            desk.count(|counts| counts.waited += 1);
        } else {
            desk.count(|counts| counts.refused += 1);
        }
        waits
    }
    // ANCHOR_END: submit
}

/// Where results come out: the handler of the eventfd.
struct Completions {
    wakeups: Wakeups,
    desk: Rc<Desk>,
}

impl Handler for Completions {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeups.as_fd())
    }

    // ANCHOR: ready
    fn ready(&mut self, reactor: &mut Reactor, _me: Token, _events: u32) -> Result<()> {
        // First the wakeup, then the results. A worker that is done in between rings again; the other way
        // round, its ring would be wiped away and its result stay behind.
        self.wakeups.clear().context("read of the eventfd")?;
        let (done, more) = self.desk.pool.take_done(COMPLETIONS_A_TURN);
        for job in done {
            let delivered = reactor.complete(job.key, |framing| reply(framing, job.well));
            self.desk.count(|counts| match delivered {
                true => counts.delivered += 1,
                false => counts.for_nobody += 1,
            });
        }
        if more {
            let wake = self.desk.pool.wake_again();
            wake.context("write to the eventfd")?;
        }
        self.desk.hand_over_who_waits(reactor);
        Ok(())
    }
    // ANCHOR_END: ready
}

fn reply(framing: Framing, well: bool) -> Response {
    if well {
        Response::done(framing)
    } else {
        Response::error(framing, Status::InternalServerError, "the job has failed")
    }
}
