//! Descriptors that count: what an eventfd holds, and what a timerfd is set for, from `/proc/PID/fdinfo/FD`.

use std::fmt;
use std::time::Duration;

use super::{Told, descriptors, read, unexpected};

/// A descriptor that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its number.
    pub fd: i32,
    /// What it is, and what it holds.
    pub holds: Holds,
}

/// What a descriptor holds that a read would return, and what it will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// An eventfd: the sum of what was written and not read.
    Sum(u64),
    /// A timerfd.
    Ticks {
        /// How often it has expired since it was read or set.
        expired: u64,
        /// The time until it expires next. Zero: it is not set.
        left: Duration,
    },
}

impl Counter {
    /// It is readable: a read would return something.
    pub fn is_unread(&self) -> bool {
        match self.holds {
            Holds::Sum(count) | Holds::Ticks { expired: count, .. } => count > 0,
        }
    }
}

impl fmt::Display for Counter {
    /// `fd 7 is a timerfd that expires in 59.9 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fd = self.fd;
        match self.holds {
            Holds::Sum(0) => write!(f, "fd {fd} is an eventfd, and holds 0"),
            Holds::Sum(sum) => write!(
                f,
                "fd {fd} is an eventfd, and holds {sum}, which nobody has read"
            ),
            Holds::Ticks { expired: 1.., .. } => {
                write!(f, "fd {fd} is a timerfd that has expired, and was not read")
            }
            Holds::Ticks { left, .. } if left.is_zero() => {
                write!(f, "fd {fd} is a timerfd that is not set")
            }
            Holds::Ticks { left, .. } => {
                write!(
                    f,
                    "fd {fd} is a timerfd that expires in {:.1} s",
                    left.as_secs_f64()
                )
            }
        }
    }
}

/// The eventfds and timerfds of a process, in the order of their numbers.
pub fn counters(pid: i32) -> Told<Vec<Counter>> {
    let mut found = Vec::new();
    for (fd, target) in descriptors(pid)? {
        let parse: fn(&str) -> Option<Holds> = match target.as_str() {
            "anon_inode:[eventfd]" => sum,
            "anon_inode:[timerfd]" => ticks,
            _ => continue,
        };
        let path = format!("/proc/{pid}/fdinfo/{fd}");
        let text = read(&path)?;
        let holds = parse(&text).ok_or_else(|| unexpected(&path, &text))?;
        found.push(Counter { fd, holds });
    }
    Ok(found)
}

/// What follows a name on its line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// `eventfd-count:                3`, in hexadecimal (`fs/eventfd.c`).
fn sum(text: &str) -> Option<Holds> {
    let count = u64::from_str_radix(field(text, "eventfd-count:")?, 16).ok()?;
    Some(Holds::Sum(count))
}

/// `ticks: 0` and `it_value: (59, 998877665)`.
fn ticks(text: &str) -> Option<Holds> {
    let expired = field(text, "ticks:")?.parse().ok()?;
    let value = field(text, "it_value:")?;
    let (seconds, nanoseconds) = value
        .strip_prefix('(')?
        .strip_suffix(')')?
        .split_once(", ")?;
    let left = Duration::new(seconds.parse().ok()?, nanoseconds.parse().ok()?);
    Some(Holds::Ticks { expired, left })
}

#[cfg(test)]
mod tests {
    use super::*;

    // As Linux 6.18 wrote them.
    const EVENTFD: &str = "pos:\t0\nflags:\t02\nmnt_id:\t17\nino:\t1038\neventfd-count:               1f\neventfd-id: 7\n\
        eventfd-semaphore: 0\n";
    const TIMERFD: &str = "pos:\t0\nflags:\t02\nmnt_id:\t17\nino:\t1038\nclockid: 1\nticks: 2\nsettime flags: 01\n\
        it_value: (59, 998877665)\nit_interval: (0, 0)\n";

    #[test]
    fn reads_an_eventfd() {
        let counter = Counter {
            fd: 4,
            holds: sum(EVENTFD).unwrap(),
        };
        assert_eq!(counter.holds, Holds::Sum(31));
        assert!(counter.is_unread());
        let words = "fd 4 is an eventfd, and holds 31, which nobody has read";
        assert_eq!(counter.to_string(), words);
    }

    #[test]
    fn reads_a_timerfd() {
        let left = Duration::new(59, 998_877_665);
        assert_eq!(ticks(TIMERFD), Some(Holds::Ticks { expired: 2, left }));
        let waits = Counter {
            fd: 7,
            holds: Holds::Ticks { expired: 0, left },
        };
        assert_eq!(
            waits.to_string(),
            "fd 7 is a timerfd that expires in 60.0 s"
        );
        assert!(!waits.is_unread());
        assert_eq!(ticks(EVENTFD), None);
    }
}
