//! The system call that a thread sleeps in, from `/proc/PID/task/TID/syscall`.

use std::fmt;

/// A system call with its raw arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    number: u64,
    args: [u64; 6],
}

/// What the first argument of a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Descriptor,
    Other,
}

use First::{Descriptor, Other};

/// The calls in which a server can sleep: number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`), on
/// 64-bit Arm (`include/uapi/asm-generic/unistd.h`, -1: not there), name, and its first argument.
#[rustfmt::skip]
const CALLS: &[(i64, i64, &str, First)] = &[
    (0, 63, "read", Descriptor),           (1, 64, "write", Descriptor),
    (7, -1, "poll", Other),                (271, 73, "ppoll", Other),
    (17, 67, "pread64", Descriptor),       (18, 68, "pwrite64", Descriptor),
    (19, 65, "readv", Descriptor),         (20, 66, "writev", Descriptor),
    (23, -1, "select", Other),             (270, 72, "pselect6", Other),
    (34, -1, "pause", Other),              (35, 101, "nanosleep", Other),
    (40, 71, "sendfile", Descriptor),      (42, 203, "connect", Descriptor),
    (43, 202, "accept", Descriptor),       (288, 242, "accept4", Descriptor),
    (44, 206, "sendto", Descriptor),       (45, 207, "recvfrom", Descriptor),
    (46, 211, "sendmsg", Descriptor),      (47, 212, "recvmsg", Descriptor),
    (61, 260, "wait4", Other),             (247, 95, "waitid", Other),
    (74, 82, "fsync", Descriptor),         (128, 137, "rt_sigtimedwait", Other),
    (130, 133, "rt_sigsuspend", Other),    (202, 98, "futex", Other),
    (219, 128, "restart_syscall", Other),  (230, 115, "clock_nanosleep", Other),
    (232, -1, "epoll_wait", Descriptor),   (281, 22, "epoll_pwait", Descriptor),
    (441, 441, "epoll_pwait2", Descriptor), (426, 426, "io_uring_enter", Descriptor),
    (449, 449, "futex_waitv", Other),
];

impl Syscall {
    /// Reads `NUMBER ARG1 ... ARG6 SP PC`. `None` for `running`, and for `-1 SP PC`, a thread that does
    /// not sleep in a system call.
    pub(super) fn parse(text: &str) -> Option<Syscall> {
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Syscall { number, args })
    }

    fn known(&self) -> Option<&'static (i64, i64, &'static str, First)> {
        let number = self.number as i64;
        CALLS.iter().find(|(x86, arm, ..)| {
            number
                == if cfg!(target_arch = "x86_64") {
                    *x86
                } else {
                    *arm
                }
        })
    }

    /// Its name, or `a call` where it is not in our table.
    pub fn name(&self) -> &'static str {
        self.known().map_or("a call", |(_, _, name, _)| name)
    }

    /// Its first argument, where that is a descriptor.
    pub fn fd(&self) -> Option<i32> {
        self.known()
            .filter(|known| known.3 == Descriptor)
            .map(|_| self.args[0] as i32)
    }

    /// The first argument of `select`: the highest watched descriptor plus one.
    pub fn nfds(&self) -> Option<i32> {
        matches!(self.name(), "select" | "pselect6").then_some(self.args[0] as i32)
    }

    /// The arguments, as the kernel shows them.
    pub(super) fn args(&self) -> &[u64; 6] {
        &self.args
    }

    /// The timeout in milliseconds of `poll` and `epoll_wait`; -1 waits without end.
    pub fn timeout_ms(&self) -> Option<i32> {
        match self.name() {
            "poll" => Some(self.args[2] as i32),
            "epoll_wait" | "epoll_pwait" => Some(self.args[3] as i32),
            _ => None,
        }
    }

    /// A wait for any of several descriptors: the heart of an event loop.
    pub fn is_event_wait(&self) -> bool {
        let name = self.name();
        name.starts_with("epoll_")
            || ["poll", "ppoll", "select", "pselect6", "io_uring_enter"].contains(&name)
    }

    /// It may end although nothing happens: a wait with a time-out. (One that a socket option sets, such as
    /// `SO_RCVTIMEO`, cannot be seen from outside.)
    pub fn may_time_out(&self) -> bool {
        match self.name() {
            "poll" | "epoll_wait" | "epoll_pwait" => self.timeout_ms() != Some(-1),
            // Here the time-out is a pointer, and null means none.
            "select" | "pselect6" => self.args[4] != 0,
            "epoll_pwait2" | "futex" => self.args[3] != 0,
            "ppoll" => self.args[2] != 0,
            _ => self.is_nap(),
        }
    }

    /// It only lets time pass.
    pub(super) fn is_nap(&self) -> bool {
        self.name().ends_with("nanosleep")
    }
}

impl fmt::Display for Syscall {
    /// `read(5)`, `select()`, `poll(3 entries)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fd() {
            _ if ["poll", "ppoll"].contains(&self.name()) => {
                write!(f, "{}({} entries)", self.name(), self.args[1])
            }
            Some(fd) => write!(f, "{}({fd})", self.name()),
            None if self.known().is_none() => write!(f, "system call {}", self.number),
            None => write!(f, "{}()", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn reads_literal_samples() {
        let read = Syscall::parse(
            "0 0x5 0x7f3c56650000 0x20000 0x0 0x0 0x0 0x7ffd8e9b0888 0x7f3c567cc2ad\n",
        );
        let read = read.unwrap();
        assert_eq!(
            (read.name(), read.fd(), read.to_string()),
            ("read", Some(5), "read(5)".into())
        );
        assert!(!read.is_event_wait());
        let wait = Syscall::parse("232 0x4 0x7f 0x40 0xffffffff 0x0 0x0 0x1 0x2").unwrap();
        assert_eq!((wait.timeout_ms(), wait.is_event_wait()), (Some(-1), true));
        let other = Syscall::parse("9999 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2").unwrap();
        assert_eq!(
            (other.to_string().as_str(), other.fd()),
            ("system call 9999", None)
        );
    }

    #[test]
    fn a_thread_that_does_not_sleep_in_a_call_has_none() {
        assert_eq!(Syscall::parse("running\n"), None);
        assert_eq!(Syscall::parse("-1 0x7ffd8e9b0888 0x7f3c567cc2ad\n"), None);
        assert_eq!(Syscall::parse(""), None);
    }
}
