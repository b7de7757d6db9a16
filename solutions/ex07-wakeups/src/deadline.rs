//! Points of time: deadlines, and the deadline of a part of some work.

use std::time::Duration;

/// A point of the monotonic clock, which nobody can set. `std::time::Instant` is the same, but does not tell its number, and
/// the kernel wants to be told when it shall ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment(sys::clock_gettime())
    }

    pub(crate) fn after(self, delay: Duration) -> Moment {
        Moment(self.0.saturating_add(delay))
    }

    /// As the kernel counts it: the time since the clock's own beginning (`CLOCK_MONOTONIC`).
    pub(crate) fn since_the_beginning(self) -> Duration {
        self.0
    }
}

/// The deadline of a part of some work: `own` is the part's, and `whole` is that of all of it. After the whole's nobody waits
/// for the part any more.
pub(crate) fn of_a_part(whole: Moment, own: Moment) -> Moment {
    whole.min(own)
}
