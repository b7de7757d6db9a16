//! Deadlines in order: what is due, and how long to wait for the next one.
//!
//! ```text
//!   heap (by deadline)                       slab (who is still waiting)
//!   [ 20 ms, id 4 ]  top                     id 4 -> connection A
//!   [ 35 ms, id 1 ]  cancelled: id 1 is not in the slab any more
//!   [ 60 ms, id 7 ]                          id 7 -> connection B
//! ```
//!
//! A heap has the earliest entry at its top, and cannot find one in its middle. So the entry of a cancelled timer stays, and
//! is passed over when it comes up: *lazy deletion*.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::slab::{Slab, Token};

/// Names one timer, and no later one: the token of its slot in [`Timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(Token);

/// A set of deadlines, each with the token of its owner.
pub(crate) struct Timers {
    /// `Reverse`, because Rust's heap has the greatest entry at its top.
    heap: BinaryHeap<Reverse<(Instant, TimerId)>>,
    /// The owner of each timer that has neither run nor was cancelled.
    waiting: Slab<Token>,
}

/// Cancelled entries that are not worth a sweep.
const WORTH_A_SWEEP: usize = 64;

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            heap: BinaryHeap::new(),
            waiting: Slab::new(),
        }
    }

    /// Starts a timer. A deadline that is past already is due at once.
    pub(crate) fn insert(&mut self, deadline: Instant, owner: Token) -> TimerId {
        let id = TimerId(self.waiting.insert(owner));
        self.heap.push(Reverse((deadline, id)));
        id
    }

    /// Stops a timer that has not run. Its entry in the heap stays, until it comes up or is swept out.
    ///
    /// Each request moves its connection's idle deadline, so most timers are cancelled. Without a bound the heap would
    /// hold all that were started within an idle timeout. It is swept when more than half of it is cancelled: a sweep
    /// looks at each entry once, and needs as many cancellations before it.
    pub(crate) fn cancel(&mut self, id: TimerId) {
        todo!("the entry stays in the heap; how many may there be?")
    }

    /// The earliest deadline, of those that are not cancelled.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        todo!("the earliest entry that is not cancelled")
    }

    /// Takes all timers off the heap that are due, the earliest first. They have not run yet, and can still be cancelled.
    ///
    /// `now` does not move on meanwhile, and nothing is run here. So a timer that is started by one of them, even without
    /// any delay, waits for the next turn.
    pub(crate) fn collect_due(&mut self, now: Instant) -> Vec<TimerId> {
        todo!("those that are due by `now`, off the heap")
    }

    /// Ends a timer that runs now, and returns its owner. `None`: one that ran before it has cancelled it.
    pub(crate) fn take(&mut self, id: TimerId) -> Option<Token> {
        self.waiting.remove(id.0)
    }
}

/// The timeout of an `epoll_wait` that must end at `deadline`, in milliseconds; -1 waits until something happens.
///
/// It is rounded **up**: less than a millisecond must not become 0, or the loop spins until the deadline. What is due
/// already gives 0, and not a millisecond more. No timeout is longer than the 24.8 days of an `i32`: then the loop
/// wakes up for nothing, and waits again.
pub(crate) fn timeout(now: Instant, deadline: Option<Instant>) -> i32 {
    todo!("milliseconds from `now` to the deadline, rounded up")
}
