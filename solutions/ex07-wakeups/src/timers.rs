//! Deadlines in order: what is due, and which comes next. As in exercise 6.
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

use crate::deadline::Moment;
use crate::slab::{Slab, Token};

/// Names one timer, and no later one: the token of its slot in [`Timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(Token);

/// A set of deadlines, each with the token of its owner.
pub(crate) struct Timers {
    /// `Reverse`, because Rust's heap has the greatest entry at its top.
    heap: BinaryHeap<Reverse<(Moment, TimerId)>>,
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
    pub(crate) fn insert(&mut self, deadline: Moment, owner: Token) -> TimerId {
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
        self.waiting.remove(id.0);
        if self.heap.len() > 2 * self.waiting.len() + WORTH_A_SWEEP {
            let waiting = &self.waiting;
            self.heap.retain(|Reverse((_, id))| waiting.holds(id.0));
        }
    }

    /// The earliest deadline, of those that are not cancelled.
    pub(crate) fn next_deadline(&mut self) -> Option<Moment> {
        while let Some(Reverse((deadline, id))) = self.heap.peek() {
            if self.waiting.holds(id.0) {
                return Some(*deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes all timers off the heap that are due, the earliest first. They have not run yet, and can still be cancelled.
    ///
    /// `now` does not move on meanwhile, and nothing is run here. So a timer that is started by one of them, even without
    /// any delay, waits for the next turn.
    pub(crate) fn collect_due(&mut self, now: Moment) -> Vec<TimerId> {
        let mut due = Vec::new();
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            due.extend(self.heap.pop().map(|Reverse((_, id))| id));
        }
        due
    }

    /// Ends a timer that runs now, and returns its owner. `None`: one that ran before it has cancelled it.
    pub(crate) fn take(&mut self, id: TimerId) -> Option<Token> {
        self.waiting.remove(id.0)
    }
}
