//! Deadlines: *until when*, and not *for how long*.
//!
//! A time-out of 100 ms that is handed on is 100 ms again for whoever gets it. A request whose three steps
//! are each given 100 ms may take 300. A **deadline** is a point in time, so it stays what it is however
//! often it is handed on, whatever time has passed meanwhile.
//!
//! ```text
//!   0 ms                50 ms                  100 ms               150 ms
//!   |--------------------|----------------------|--------------------|
//!   request: 100 ms ---------------------------->|
//!                        step: 100 ms from here ---------------------> too late for anybody
//!                        so the step's deadline is the earlier of both: 100
//! ```

use std::time::Duration;

use ch06_reactor::Instant;

// ANCHOR: deadline
/// A point of the monotonic clock at which something must be done, or never.
///
/// ```
/// use std::time::Duration;
/// use ch06_reactor::Instant;
/// use ch07_wakeups::Deadline;
///
/// let start = Instant::now();
/// let request = Deadline::within(start, Duration::from_millis(100));
///
/// // 80 ms later, a step that would have 50 ms if nobody waited for it.
/// let now = start.after(Duration::from_millis(80));
/// let step = request.child(Deadline::within(now, Duration::from_millis(50)));
/// assert_eq!(step.left(now), Some(Duration::from_millis(20)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Nothing: never.
    at: Option<Instant>,
}

impl Deadline {
    /// There is time without end.
    pub const NEVER: Deadline = Deadline { at: None };

    /// At this moment.
    #[must_use]
    pub fn at(moment: Instant) -> Deadline {
        Deadline { at: Some(moment) }
    }

    /// So long after `now`. This is the place where a duration becomes a deadline: once, at the outermost
    /// end, and nowhere below it.
    #[must_use]
    pub fn within(now: Instant, patience: Duration) -> Deadline {
        Deadline::at(now.after(patience))
    }

    // ANCHOR: child
    /// The deadline of a part of this work, which has one of its own: the earlier of the two. A part can
    /// be more impatient than the whole, and never more patient.
    #[must_use]
    pub fn child(self, own: Deadline) -> Deadline {
        let earlier = self.at.into_iter().chain(own.at).min();
        Deadline { at: earlier }
    }
    // ANCHOR_END: child

    /// When it is, for a timer. Nothing if never.
    #[must_use]
    pub fn moment(self) -> Option<Instant> {
        self.at
    }

    /// It is due at its very moment, as timers are.
    #[must_use]
    pub fn has_come(self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// How long it is until then: nothing once it has come, and no answer if it never does.
    #[must_use]
    pub fn left(self, now: Instant) -> Option<Duration> {
        self.at.map(|at| at.since(now))
    }
}
// ANCHOR_END: deadline

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Instant {
        Instant::at(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_childs_deadline_is_the_earlier_one() {
        let parent = Deadline::at(ms(100));
        assert_eq!(parent.child(Deadline::at(ms(50))), Deadline::at(ms(50)));
        assert_eq!(parent.child(Deadline::at(ms(150))), parent);
        assert_eq!(parent.child(Deadline::NEVER), parent);
        assert_eq!(Deadline::NEVER.child(parent), parent);
        assert_eq!(Deadline::NEVER.child(Deadline::NEVER), Deadline::NEVER);
    }

    #[test]
    fn no_descendant_outlives_its_ancestors_however_patient_it_is() {
        let request = Deadline::within(ms(0), Duration::from_millis(100));
        let mut step = request;
        // Each step asks for 40 ms when its turn comes.
        for (now, left) in [(0, 40), (30, 40), (70, 30), (90, 10), (100, 0), (120, 0)] {
            let now = ms(now);
            step = step
                .child(request)
                .child(Deadline::within(now, Duration::from_millis(1_000)));
            let own = request.child(Deadline::within(now, Duration::from_millis(40)));
            assert_eq!(own.left(now), Some(Duration::from_millis(left)));
            assert_eq!(step, request, "a longer patience changes nothing");
        }
    }

    #[test]
    fn it_comes_at_its_moment_and_does_not_go_away() {
        let deadline = Deadline::at(ms(100));
        let come = [99, 100, 101].map(|now| deadline.has_come(ms(now)));
        assert_eq!(come, [false, true, true]);
        assert_eq!(deadline.left(ms(101)), Some(Duration::ZERO));
        assert!(!Deadline::NEVER.has_come(ms(u64::MAX / 2_000_000)));
        assert_eq!(Deadline::NEVER.left(ms(5)), None);
    }

    #[test]
    fn no_patience_is_too_long() {
        let deadline = Deadline::within(ms(5), Duration::MAX);
        assert!(!deadline.has_come(ms(1_000_000)));
    }
}
