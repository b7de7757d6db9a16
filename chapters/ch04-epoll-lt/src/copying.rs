//! What one call copies: the same question, "which of these are ready?", asked with each of the three.
//!
//! The descriptors are eventfds, the cheapest there are: a counter each, readable if it is not 0. Five of
//! them are, however many are watched.
//!
//! The kernel does not tell what it copies, so the bytes are worked out from the arguments that the calls
//! were really made with, and from what they returned. The rules are these (`fs/select.c` and
//! `fs/eventpoll.c` of Linux 6.18):
//!
//! | call | copied in | copied out |
//! |---|---|---|
//! | `select` | for each set, `nfds` bits in whole words | the same |
//! | `poll` | the whole list | the field `revents` of every entry |
//! | `epoll_wait` | nothing | an `epoll_event` for each that is ready |

use std::ffi::c_ulong;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use sys::{
    EFD_CLOEXEC, EFD_NONBLOCK, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, EpollEvent, Errno,
    FD_SETSIZE, FdSet, POLLIN, PollFd, Resource, Rlimit,
};

use crate::retry;

/// How many descriptors are watched, one after the other.
const WATCHED: [usize; 4] = [10, 100, 1_000, 10_000];

/// How many of them are ready: the first five. The others are silent, however many they are.
const READY: usize = 5;

/// Places for events in one `epoll_wait`: more than are ready, and few next to what is watched.
const EVENTS_PER_TURN: usize = 64;

/// Until one is ready, in a timeout. Five are, so none of the calls sleeps.
const FOR_EVER: i32 = -1;

/// What one call returned and copied.
struct Copied {
    returned: usize,
    bytes_in: usize,
    bytes_out: usize,
}

pub fn table() -> Result<()> {
    let limit = raise_descriptor_limit()?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let mut counters = Vec::new();
    let mut list = Vec::new();

    kit::say!("the bytes that one call copies, with {READY} ready");
    kit::say!("watched  call        returned  copied in  copied out");
    for asked_for in WATCHED {
        watch_more(&mut counters, asked_for, &epoll)?;
        list.extend(
            counters[list.len()..]
                .iter()
                .map(|fd| PollFd::new(fd, POLLIN)),
        );
        let watched = counters.len();
        match with_select(&counters)? {
            Some(copied) => row(watched, "select", &copied),
            None => kit::say!(
                "{:>7}  select         no bit for a descriptor above {}",
                grouped(watched),
                FD_SETSIZE - 1
            ),
        }
        row(watched, "poll", &with_poll(&mut list)?);
        row(watched, "epoll_wait", &with_epoll_wait(&epoll)?);
        if watched < asked_for {
            kit::say!(
                "   not {}: the descriptor limit (ulimit -n) is {limit}, and {watched} fit",
                grouped(asked_for)
            );
        }
    }
    let told = counters.len();
    let bytes = told * size_of::<EpollEvent>();
    kit::say!(
        "before that, once: {} epoll_ctl, {} bytes in",
        grouped(told),
        grouped(bytes)
    );

    for fd in counters.into_iter().chain([epoll]) {
        sys::close(fd).context("close")?;
    }
    Ok(())
}

/// `select` is told how far to look by the highest descriptor. `None`: one of them has no bit in a set.
fn with_select(counters: &[OwnedFd]) -> Result<Option<Copied>> {
    let mut asked = FdSet::new();
    let mut nfds = 0;
    for fd in counters.iter().map(AsRawFd::as_raw_fd) {
        if asked.insert(fd).is_err() {
            return Ok(None);
        }
        nfds = nfds.max(fd + 1);
    }
    // The answer overwrites the question, so the question is copied here too, by ourselves.
    let mut set = asked;
    let call = || sys::select(nfds, Some(&mut set), None, None, None);
    let returned = retry(call, "select")?;
    let words = (nfds as usize).div_ceil(c_ulong::BITS as usize);
    Ok(Some(Copied {
        returned,
        bytes_in: words * size_of::<c_ulong>(),
        bytes_out: words * size_of::<c_ulong>(),
    }))
}

fn with_poll(list: &mut [PollFd]) -> Result<Copied> {
    let returned = retry(|| sys::poll(list, FOR_EVER), "poll")?;
    Ok(Copied {
        returned,
        bytes_in: size_of_val(list),
        bytes_out: list.iter().map(|entry| size_of_val(&entry.revents)).sum(),
    })
}

fn with_epoll_wait(epoll: &OwnedFd) -> Result<Copied> {
    let mut events = [EpollEvent::EMPTY; EVENTS_PER_TURN];
    let call = || sys::epoll_wait(epoll, &mut events, FOR_EVER);
    let returned = retry(call, "epoll_wait")?;
    Ok(Copied {
        returned,
        bytes_in: 0,
        bytes_out: size_of_val(&events[..returned]),
    })
}

/// Makes and registers counters until there are `count`, or until the descriptor limit is met.
fn watch_more(counters: &mut Vec<OwnedFd>, count: usize, epoll: &OwnedFd) -> Result<()> {
    while counters.len() < count {
        let initial = if counters.len() < READY { 1 } else { 0 };
        let fd = match sys::eventfd(initial, EFD_CLOEXEC | EFD_NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::EMFILE) => break,
            Err(errno) => bail!("eventfd number {}: {errno}", counters.len() + 1),
        };
        let event = EpollEvent::new(EPOLLIN, fd.as_raw_fd() as u64);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, &fd, Some(event)).context("epoll_ctl ADD")?;
        counters.push(fd);
    }
    Ok(())
}

/// Raises the soft limit to the hard one, as every process may, and returns it. Most systems start a
/// program with a soft limit of 1,024, for the sake of those that use `select`.
fn raise_descriptor_limit() -> Result<u64> {
    let limit = sys::getrlimit(Resource::NoFile).context("getrlimit NOFILE")?;
    let raised = Rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    match sys::setrlimit(Resource::NoFile, raised) {
        Ok(()) => Ok(raised.rlim_cur),
        // A sandbox can forbid it. Then the table ends earlier.
        Err(_) => Ok(limit.rlim_cur),
    }
}

fn row(watched: usize, call: &str, copied: &Copied) {
    kit::say!(
        "{:>7}  {call:<10}  {:>8}  {:>9}  {:>10}",
        grouped(watched),
        copied.returned,
        grouped(copied.bytes_in),
        grouped(copied.bytes_out)
    );
}

/// `120000` as `120,000`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
