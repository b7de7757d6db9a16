//! `poll(2)`: wait on a list of descriptors, with the question and the answer in separate fields.

use std::ffi::{c_int, c_short};
use std::mem::{align_of, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use trace::{Outcome, Value};

use crate::errno::Result;
use crate::names::flags;

pub use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP};

/// The `pollfd` of `poll(2)`: 8 bytes a descriptor.
///
/// A negative `fd` is skipped, which is how an entry is switched off without moving the others.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor to watch, or a negative number for none.
    pub fd: RawFd,
    /// What is asked for: `POLLIN`, `POLLOUT`, `POLLRDHUP`.
    pub events: c_short,
    /// What came back. `POLLERR`, `POLLHUP` and `POLLNVAL` come unasked.
    pub revents: c_short,
}

const _: () = {
    assert!(size_of::<PollFd>() == size_of::<libc::pollfd>());
    assert!(align_of::<PollFd>() == align_of::<libc::pollfd>());
    assert!(offset_of!(PollFd, events) == offset_of!(libc::pollfd, events));
    assert!(offset_of!(PollFd, revents) == offset_of!(libc::pollfd, revents));
};

impl PollFd {
    /// Watches `fd` for `events`.
    pub fn new(fd: impl AsFd, events: c_short) -> PollFd {
        PollFd {
            fd: fd.as_fd().as_raw_fd(),
            events,
            revents: 0,
        }
    }
}

const EVENTS: &[(u32, &str)] = &[
    (POLLIN as u32, "POLLIN"),
    (POLLPRI as u32, "POLLPRI"),
    (POLLOUT as u32, "POLLOUT"),
    (POLLERR as u32, "POLLERR"),
    (POLLHUP as u32, "POLLHUP"),
    (POLLNVAL as u32, "POLLNVAL"),
    (POLLRDHUP as u32, "POLLRDHUP"),
];

fn show_asked(entry: &PollFd) -> Value {
    if entry.fd < 0 {
        return Value::fields([("fd", entry.fd.into())]);
    }
    Value::fields([
        ("fd", entry.fd.into()),
        ("events", flags(entry.events as u16 as u32, EVENTS)),
    ])
}

fn show_ready(entry: &PollFd) -> Value {
    Value::fields([
        ("fd", entry.fd.into()),
        ("revents", flags(entry.revents as u16 as u32, EVENTS)),
    ])
}

/// `poll(2)`: sleeps until an entry is ready, and returns how many have a `revents` that is not zero.
///
/// `timeout` is in milliseconds, -1 waits without end, 0 looks without waiting. `events` are left as
/// they are, so the list can be used again as it is.
///
/// # Errors
///
/// `EINTR`: a signal came first. `EINVAL`: more entries than the descriptor limit allows. A closed
/// descriptor is no error: its entry says `POLLNVAL`, on every turn, until it is taken out.
pub fn poll(fds: &mut [PollFd], timeout: c_int) -> Result<usize> {
    let fault = if crate::call::is_observed() {
        crate::inject::fault("poll")
    } else {
        None
    };
    let outcome = match fault {
        Some(fault) => {
            fds.iter_mut().for_each(|entry| entry.revents = 0);
            fault
        }
        // SAFETY: PollFd has the layout of pollfd (asserted above), and the kernel reads and writes
        // exactly `fds.len()` of them.
        None => crate::call::check(unsafe {
            libc::poll(
                fds.as_mut_ptr().cast::<libc::pollfd>(),
                fds.len() as libc::nfds_t,
                timeout,
            )
        }),
    };
    if crate::record::is_on() {
        // `events` is still what it was.
        let asked = match fds {
            [] => Value::name("NULL"),
            _ => Value::list(fds.iter().map(show_asked)),
        };
        let args = vec![asked, fds.len().into(), timeout.into()];
        match outcome {
            Ok(count) => {
                let ready = fds
                    .iter()
                    .filter(|entry| entry.revents != 0)
                    .map(show_ready);
                let note = match count {
                    0 => "Timeout".to_owned(),
                    _ => Value::list(ready).to_string(),
                };
                let value = Value::from(count);
                let outcome = Outcome::Returned {
                    value,
                    note: Some(note),
                    injected: fault.is_some(),
                };
                crate::record::call_with("poll", args, outcome);
            }
            Err(_) => crate::record::call("poll", args, outcome, fault.is_some()),
        }
    }
    outcome
}
