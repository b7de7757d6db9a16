//! Deadlines in order: what is due, and what comes next.
//!
//! The heap of this module keeps the earliest deadline at its top: to look costs O(1), to insert or to
//! take costs O(log n). What a heap cannot do is find an entry in its middle. So a cancelled timer's entry
//! stays, and is passed over when it comes up: *lazy deletion*.
//!
//! ```text
//!   heap (by deadline)                       slab (who is still waiting)
//!   [ 20 ms, id 4 ]  top                     id 4 -> connection A
//!   [ 35 ms, id 1 ]  cancelled: id 1 is not in the slab any more
//!   [ 60 ms, id 7 ]                          id 7 -> connection B
//! ```
//!
//! Left alone, cancelled entries pile up: a server whose idle timeout is a minute and that serves ten
//! thousand connections a second would carry 600,000 of them. Therefore the heap is swept when more
//! than half of it is cancelled. A sweep looks at each entry once, and needs as many cancellations
//! before it, so it adds a constant to the cost of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Instant;
use crate::slab::{Slab, Token};

/// Names one timer, and no later one: the token of a slot in the structure that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub Token);

/// A set of deadlines, each with the token of its owner. The reactor needs no more than this from it, so
/// that another structure can take the heap's place.
///
/// None of these functions reads a clock: the caller says what time it is.
pub trait Timers {
    /// Starts a timer. A deadline that is past already is due at once.
    fn insert(&mut self, deadline: Instant, owner: Token) -> TimerId;

    /// Stops a timer. False if it is over: it has fired or was cancelled.
    fn cancel(&mut self, id: TimerId) -> bool;

    /// When to look again: the earliest deadline. A structure with a coarser clock may fire a little later, or want to
    /// be looked at earlier. The reactor asks once a turn, just before it sleeps. (A structure may use the occasion to
    /// tidy up.)
    fn next_deadline(&mut self) -> Option<Instant>;

    /// Appends up to `limit` timers whose deadline is not later than `now`, the earliest first. They leave
    /// the order, but each is still to be [taken](Timers::take), and can be cancelled until then.
    ///
    /// The caller collects first and runs later. To pop and run one at a time would never end with a
    /// timer that starts itself again without delay.
    fn collect_due(&mut self, now: Instant, limit: usize, due: &mut Vec<TimerId>);

    /// Ends a collected timer, and returns what it was. Nothing if one that ran before it has cancelled it.
    fn take(&mut self, id: TimerId) -> Option<Due>;

    /// How many timers are waiting.
    fn len(&self) -> usize;

    /// True if none is.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A timer whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Who started it.
    pub owner: Token,
    /// When it should have run. It is later now: the difference is the loop's lag.
    pub deadline: Instant,
}

/// [`Timers`] in a binary heap, with lazy deletion.
#[derive(Debug, Default)]
pub struct TimerHeap {
    /// `Reverse` because Rust's heap keeps the greatest entry on top. Among equal deadlines the number
    /// decides: the one that was started first fires first.
    heap: BinaryHeap<Reverse<(Instant, u64, TimerId)>>,
    waiting: Slab<Due>,
    /// Timers started so far.
    started: u64,
    /// Entries of the heap whose timer was cancelled.
    cancelled: usize,
}

/// A heap with fewer cancelled entries than this is not worth a sweep.
const WORTH_A_SWEEP: usize = 64;

impl TimerHeap {
    /// A heap without timers.
    #[must_use]
    pub fn new() -> TimerHeap {
        TimerHeap::default()
    }

    /// Entries in the heap, cancelled ones and all: at most twice the waiting ones and some.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.heap.len()
    }
}

impl Timers for TimerHeap {
    fn insert(&mut self, deadline: Instant, owner: Token) -> TimerId {
        let id = TimerId(self.waiting.insert(Due { owner, deadline }));
        self.heap.push(Reverse((deadline, self.started, id)));
        self.started += 1;
        id
    }

    fn cancel(&mut self, id: TimerId) -> bool {
        if self.waiting.remove(id.0).is_none() {
            return false;
        }
        // It may have been collected, and then the heap has no entry of it. The count is an upper bound
        // until the next sweep sets it right.
        self.cancelled += 1;
        if self.cancelled >= WORTH_A_SWEEP && self.cancelled > self.heap.len() / 2 {
            let waiting = &self.waiting;
            self.heap
                .retain(|Reverse((_, _, id))| waiting.get(id.0).is_some());
            self.cancelled = 0;
        }
        true
    }

    // ANCHOR: next_deadline
    fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, _, id))) = self.heap.peek() {
            if self.waiting.get(id.0).is_some() {
                return Some(*deadline);
            }
            self.heap.pop();
            self.cancelled = self.cancelled.saturating_sub(1);
        }
        None
    }
    // ANCHOR_END: next_deadline

    fn collect_due(&mut self, now: Instant, limit: usize, due: &mut Vec<TimerId>) {
        for _ in 0..limit {
            if self.next_deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            if let Some(Reverse((_, _, id))) = self.heap.pop() {
                due.push(id);
            }
        }
    }

    fn take(&mut self, id: TimerId) -> Option<Due> {
        self.waiting.remove(id.0)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A virtual clock: a test says what time it is.
    fn ms(milliseconds: u64) -> Instant {
        Instant::at(Duration::from_millis(milliseconds))
    }

    fn owners(count: usize) -> Vec<Token> {
        let mut slab = Slab::new();
        (0..count).map(|_| slab.insert(())).collect()
    }

    fn fire(timers: &mut TimerHeap, now: Instant) -> Vec<Token> {
        let mut due = Vec::new();
        timers.collect_due(now, usize::MAX, &mut due);
        let fired = due.into_iter().filter_map(|id| timers.take(id));
        fired.map(|due| due.owner).collect()
    }

    #[test]
    fn they_fire_in_the_order_of_their_deadlines_and_equal_ones_as_they_were_started() {
        let mut timers = TimerHeap::new();
        let owner = owners(5);
        for (number, deadline) in [30, 10, 20, 10, 40].into_iter().enumerate() {
            timers.insert(ms(deadline), owner[number]);
        }
        assert_eq!(timers.next_deadline(), Some(ms(10)));
        assert_eq!(fire(&mut timers, ms(9)), []);
        assert_eq!(
            fire(&mut timers, ms(10)),
            [owner[1], owner[3]],
            "due means now or earlier"
        );
        assert_eq!(fire(&mut timers, ms(35)), [owner[2], owner[0]]);
        assert_eq!(timers.next_deadline(), Some(ms(40)));
        assert_eq!(timers.len(), 1);
    }

    #[test]
    fn a_cancelled_timer_does_not_fire_and_wakes_nobody() {
        let mut timers = TimerHeap::new();
        let owner = owners(2);
        let early = timers.insert(ms(10), owner[0]);
        timers.insert(ms(50), owner[1]);
        assert!(timers.cancel(early));
        assert!(!timers.cancel(early), "once");
        assert_eq!(timers.next_deadline(), Some(ms(50)));
        assert_eq!(fire(&mut timers, ms(100)), [owner[1]]);
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn a_timer_that_an_earlier_one_of_the_same_batch_cancels_does_not_fire() {
        let mut timers = TimerHeap::new();
        let owner = owners(2);
        let first = timers.insert(ms(10), owner[0]);
        let second = timers.insert(ms(10), owner[1]);
        let mut due = Vec::new();
        timers.collect_due(ms(10), usize::MAX, &mut due);
        assert_eq!(due, [first, second]);
        assert!(timers.take(first).is_some());
        assert!(
            timers.cancel(second),
            "what the first one does when it runs"
        );
        assert_eq!(timers.take(second), None);
    }

    #[test]
    fn a_timer_that_starts_itself_again_without_delay_waits_for_the_next_turn() {
        let mut timers = TimerHeap::new();
        let owner = owners(1)[0];
        timers.insert(ms(10), owner);
        for _turn in 0..3 {
            let fired = fire(&mut timers, ms(10));
            assert_eq!(fired, [owner], "once a turn");
            timers.insert(ms(10), owner);
        }
    }

    #[test]
    fn a_turn_takes_no_more_than_its_limit_and_forgets_none() {
        let mut timers = TimerHeap::new();
        for owner in owners(1_000) {
            timers.insert(ms(10), owner);
        }
        let mut fired = 0;
        while timers.next_deadline().is_some() {
            let mut due = Vec::new();
            timers.collect_due(ms(10), 300, &mut due);
            assert!(due.len() <= 300);
            fired += due.into_iter().filter_map(|id| timers.take(id)).count();
        }
        assert_eq!(fired, 1_000);
    }

    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let mut timers = TimerHeap::new();
        let owner = owners(10);
        for owner in &owner {
            timers.insert(ms(60_000), *owner);
        }
        for _ in 0..100_000 {
            let id = timers.insert(ms(60_000), owner[0]);
            timers.cancel(id);
            assert!(
                timers.entries() <= 2 * (10 + WORTH_A_SWEEP),
                "{}",
                timers.entries()
            );
        }
        assert_eq!(timers.len(), 10);
        assert_eq!(
            fire(&mut timers, ms(60_000)).len(),
            10,
            "a sweep takes no living one"
        );
    }

    #[test]
    fn an_id_never_means_a_later_timer() {
        let mut timers = TimerHeap::new();
        let owner = owners(1)[0];
        let first = timers.insert(ms(10), owner);
        assert_eq!(fire(&mut timers, ms(10)), [owner]);
        let second = timers.insert(ms(20), owner);
        assert!(
            !timers.cancel(first),
            "it has fired, and the slot is the second one's now"
        );
        assert_eq!(fire(&mut timers, ms(20)), [owner]);
        assert_ne!(first, second);
    }
}
