//! The second cure: work that stays on the loop, cut into pieces.
//!
//! A piece is so short that nobody minds. After each one the handler returns, and the loop looks at everybody
//! else before the next. No thread, no lock, no queue between two threads; but the work must be *cuttable*: a
//! loop over a million rows is, a call into somebody else's library is not. And it is done no sooner: the loop
//! has one core, and the pieces share it with everything else.
//!
//! What brings the handler back? An eventfd that is readable and is **not read**. It is registered
//! level-triggered, so `epoll_wait` reports it in every turn, and does not sleep. What spins a server when it
//! is forgotten is a tool when it is meant: the loop turns as long as work is left, and sees every other
//! event in between. When the last piece is done, the eventfd is read, and the loop sleeps again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::{Handler, Offload, Reactor, Ticket, Token};
use http::Response;
use sys::EPOLLIN;

use crate::burn::burn;
use crate::pool::Stop;
use ch07_wakeups::{Waker, Wakeups};

/// How long everybody else waits at most for a piece. Longer pieces make the loop late, shorter ones spend more
/// on the turns between them: a turn costs a few microseconds.
pub const PIECE: Duration = Duration::from_millis(1);

/// Jobs in work at a time. More are refused.
const JOBS_MOST: usize = 64;

/// Makes the loop itself do `GET /work/MS`, a piece a turn.
pub fn cut_into_pieces(reactor: &mut Reactor) -> Result<()> {
    let (waker, wakeups) = Waker::new().context("eventfd")?;
    let jobs = Rc::new(RefCell::new(VecDeque::new()));
    let entrance = Entrance {
        jobs: Rc::clone(&jobs),
        waker,
    };
    let never = Stop::default();
    reactor.register(
        Box::new(Pieces {
            jobs,
            wakeups,
            never,
        }),
        EPOLLIN,
    )?;
    reactor.set_offload(Box::new(entrance));
    Ok(())
}

/// Who asked, and how much is left to do.
type Jobs = Rc<RefCell<VecDeque<(Ticket, Duration)>>>;

struct Entrance {
    jobs: Jobs,
    waker: Waker,
}

impl Offload for Entrance {
    fn submit(&mut self, ticket: Ticket, work: Duration) -> bool {
        let mut jobs = self.jobs.borrow_mut();
        if jobs.len() >= JOBS_MOST || self.waker.wake().is_err() {
            return false;
        }
        jobs.push_back((ticket, work));
        true
    }
}

struct Pieces {
    jobs: Jobs,
    wakeups: Wakeups,
    /// This work is not stopped in the middle of a piece.
    never: Stop,
}

impl Handler for Pieces {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeups.as_fd())
    }

    // ANCHOR: piece
    /// One piece of one job. The jobs take turns, too.
    fn ready(&mut self, reactor: &mut Reactor, _me: Token, _events: u32) -> Result<()> {
        let job = self.jobs.borrow_mut().pop_front();
        match job {
            // Its client has left: what is left to do is not done.
            Some((ticket, _)) if !reactor.is_awaited(ticket) => {}
            Some((ticket, left)) => {
                let piece = left.min(PIECE);
                burn(piece, &self.never);
                match left - piece {
                    Duration::ZERO => {
                        reactor.complete(ticket, Response::done);
                    }
                    left => self.jobs.borrow_mut().push_back((ticket, left)),
                }
            }
            None => {}
        }
        if self.jobs.borrow().is_empty() {
            self.wakeups.clear().context("read of the eventfd")?;
        }
        Ok(())
    }
    // ANCHOR_END: piece
}
