//! Time that only goes forward, and how long to wait for a point of it.
//!
//! A deadline is a point of the *monotonic* clock. The wall clock is for people: somebody sets it back by
//! an hour, and all timers stop for an hour. Nobody can set the monotonic one.

use std::time::Duration;

/// A point of the monotonic clock, in nanoseconds: 64 bits of them last for 584 years.
///
/// `std::time::Instant` reads the same clock, but it cannot be made up, and it takes 16 bytes. Here tests
/// run timers over days of made-up time, and ten thousand connections hold a deadline each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// The present. A read of this clock enters the kernel on no usual machine: see `vdso(7)`.
    #[must_use]
    pub fn now() -> Instant {
        Instant(nanoseconds(sys::clock_gettime()))
    }

    /// The point that lies so far behind the clock's own beginning. For tests.
    #[must_use]
    pub fn at(since_the_beginning: Duration) -> Instant {
        Instant(nanoseconds(since_the_beginning))
    }

    /// The point that is `delay` later. A delay without an end gives the end of all time, which never
    /// comes: an overflow here would be a deadline in the past.
    #[must_use]
    pub fn after(self, delay: Duration) -> Instant {
        Instant(self.0.saturating_add(nanoseconds(delay)))
    }

    /// How long ago `earlier` was; nothing if it is still to come.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds in the unit of `epoll_wait`'s timeout.
const MILLISECOND: u64 = 1_000_000;

// ANCHOR: timeout
/// The timeout for `epoll_wait(2)`, in milliseconds: how long to sleep so that `deadline` has come when
/// the sleep is over. -1, for ever, without one.
///
/// Rounded **up**. Rounded down, a deadline in 0.9 ms gives a timeout of 0: the wait returns at once,
/// nothing is due, and the loop spins through the last millisecond of every timer. A deadline that
/// has come gives 0, and never a millisecond more.
///
/// The longest timeout is `i32::MAX`, 24.8 days. For a later deadline the loop wakes then, finds nothing
/// due and waits again. Cast to 32 bits unchecked, 25 days would be a negative number: for ever.
#[must_use]
pub fn timeout(now: Instant, deadline: Option<Instant>) -> i32 {
    let Some(deadline) = deadline else {
        return -1;
    };
    let left = deadline.0.saturating_sub(now.0);
    i32::try_from(left.div_ceil(MILLISECOND)).unwrap_or(i32::MAX)
}
// ANCHOR_END: timeout

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(nanoseconds: u64) -> Instant {
        Instant::at(Duration::from_nanos(nanoseconds))
    }

    #[test]
    fn a_timeout_is_rounded_up_and_what_is_due_is_not_waited_for() {
        let now = ns(5_000_000_000);
        for (left, milliseconds) in [
            (0, 0),
            (1, 1),
            (999_999, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (20_000_000, 20),
        ] {
            assert_eq!(timeout(now, Some(ns(5_000_000_000 + left))), milliseconds);
        }
        assert_eq!(timeout(now, Some(ns(4_999_999_999))), 0, "long past");
        assert_eq!(timeout(now, None), -1, "no deadline");
    }

    #[test]
    fn no_duration_is_too_long() {
        let now = ns(1_000);
        let days = |days: u64| now.after(Duration::from_secs(days * 24 * 60 * 60));
        assert_eq!(timeout(now, Some(days(24))), 24 * 24 * 60 * 60 * 1_000);
        assert_eq!(timeout(now, Some(days(25))), i32::MAX);
        assert_eq!(timeout(now, Some(now.after(Duration::MAX))), i32::MAX);
        assert!(now.after(Duration::MAX) > days(200_000));
    }

    #[test]
    fn the_past_is_not_negative() {
        assert_eq!(ns(5).since(ns(2)), Duration::from_nanos(3));
        assert_eq!(ns(2).since(ns(5)), Duration::ZERO);
    }
}
