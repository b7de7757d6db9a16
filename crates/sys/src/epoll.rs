//! `epoll(7)`: the kernel keeps the interest list, and hands over only those that are ready.

use std::ffi::c_int;
use std::fmt;
use std::mem::{align_of, size_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use trace::Value;

use crate::errno::Result;
use crate::names::{address, constant, flags};
use crate::socket::owned;

pub use libc::{EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};

macro_rules! events {
    ($($name:ident: $text:literal,)*) => {
        $(#[doc = $text] pub const $name: u32 = libc::$name as u32;)*

        /// In the order that strace prints them.
        const EVENTS: &[(u32, &str)] = &[$(($name, stringify!($name))),*];
    };
}

events! {
    EPOLLIN: "A read would not block: bytes, an end of stream, or an error to collect; on a listener, a connection.",
    EPOLLPRI: "Urgent data.",
    EPOLLOUT: "A write would not block: there is room in the send buffer.",
    EPOLLERR: "An error waits to be collected. Comes unasked.",
    EPOLLHUP: "Both directions have ended. Comes unasked.",
    EPOLLRDHUP: "The peer has closed its sending side. Bytes may still wait before the end (Linux 2.6.17).",
    EPOLLEXCLUSIVE: "Of several epoll instances that watch this descriptor, wake not all (Linux 4.5).",
    EPOLLONESHOT: "After one report the entry is silent until `EPOLL_CTL_MOD` arms it again.",
    EPOLLET: "Edge-triggered: report a change of readiness, not readiness.",
}

/// The `epoll_event` of `epoll_ctl(2)` and `epoll_wait(2)`: a mask, and 64 bits that are the caller's own.
///
/// The kernel never looks at `data`: it hands back what was registered, be it a descriptor, an index or
/// a token. On x86-64 the struct is packed to 12 bytes, so that 32-bit programs can share it; elsewhere
/// it has 16. Packed fields cannot be borrowed, which is why they are read through methods.
#[repr(C)]
#[cfg_attr(target_arch = "x86_64", repr(packed))]
#[derive(Clone, Copy)]
pub struct EpollEvent {
    events: u32,
    data: u64,
}

const _: () = {
    assert!(size_of::<EpollEvent>() == size_of::<libc::epoll_event>());
    assert!(align_of::<EpollEvent>() == align_of::<libc::epoll_event>());
    let [ours, libcs] = [
        std::mem::offset_of!(EpollEvent, data),
        std::mem::offset_of!(libc::epoll_event, u64),
    ];
    assert!(ours == libcs);
    assert!(size_of::<EpollEvent>() == if cfg!(target_arch = "x86_64") { 12 } else { 16 });
};

impl EpollEvent {
    /// A mask of interest, and the data to be handed back with each event.
    pub const fn new(events: u32, data: u64) -> EpollEvent {
        EpollEvent { events, data }
    }

    /// An unused place in the array for [`epoll_wait`].
    pub const EMPTY: EpollEvent = EpollEvent::new(0, 0);

    /// The mask: what is asked for, or what has happened.
    pub const fn events(self) -> u32 {
        self.events
    }

    /// The caller's own 64 bits.
    pub const fn data(self) -> u64 {
        self.data
    }

    /// True if one of these bits is in the mask.
    pub const fn has(self, bits: u32) -> bool {
        self.events & bits != 0
    }

    fn shown(self) -> Value {
        let data = Value::fields([
            ("u32", (self.data as u32).into()),
            ("u64", self.data.into()),
        ]);
        Value::fields([("events", flags(self.events, EVENTS)), ("data", data)])
    }
}

impl PartialEq for EpollEvent {
    fn eq(&self, other: &EpollEvent) -> bool {
        (self.events(), self.data()) == (other.events(), other.data())
    }
}

/// Shown as strace shows it: `{events=EPOLLIN, data={u32=5, u64=5}}`.
impl fmt::Debug for EpollEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shown())
    }
}

/// `epoll_create1(2)`: a new epoll instance, with an empty interest list.
pub fn epoll_create1(flags: c_int) -> Result<OwnedFd> {
    let fd = syscall!(
        "epoll_create1",
        // SAFETY: one number, no memory.
        unsafe { libc::epoll_create1(flags) },
        |_| [self::flags(
            flags as u32,
            &[(EPOLL_CLOEXEC as u32, "EPOLL_CLOEXEC")]
        )]
    )?;
    Ok(owned(fd))
}

/// `epoll_ctl(2)`: adds (`EPOLL_CTL_ADD`), changes (`MOD`) or removes (`DEL`) an entry of the interest
/// list. `event` is `None` for `DEL` alone.
///
/// The entry belongs to the open file description behind `fd`: it goes when the last number of that
/// description is closed, which is not always when `fd` is.
///
/// # Errors
///
/// `EEXIST`: `ADD` of one that is there. `ENOENT`: `MOD` or `DEL` of one that is not. `EPERM`: this
/// kind of file is always ready and cannot be watched (a regular file). `ENOSPC`: the limit in
/// `/proc/sys/fs/epoll/max_user_watches`.
pub fn epoll_ctl(
    epfd: impl AsFd,
    op: c_int,
    fd: impl AsFd,
    event: Option<EpollEvent>,
) -> Result<()> {
    let (epfd, fd) = (epfd.as_fd().as_raw_fd(), fd.as_fd().as_raw_fd());
    let mut place = event.unwrap_or(EpollEvent::EMPTY);
    let pointer = match event {
        Some(_) => (&raw mut place).cast::<libc::epoll_event>(),
        None => std::ptr::null_mut(),
    };
    syscall!(
        "epoll_ctl",
        // SAFETY: the kernel reads one epoll_event, whose layout EpollEvent has (asserted above); a null
        // pointer is an error that it reports.
        unsafe { libc::epoll_ctl(epfd, op, fd, pointer) },
        |_| {
            let names = [
                (EPOLL_CTL_ADD, "EPOLL_CTL_ADD"),
                (EPOLL_CTL_DEL, "EPOLL_CTL_DEL"),
                (EPOLL_CTL_MOD, "EPOLL_CTL_MOD"),
            ];
            let event = event.map_or(Value::name("NULL"), EpollEvent::shown);
            [epfd.into(), constant(op, &names), fd.into(), event]
        }
    )?;
    Ok(())
}

/// `epoll_wait(2)`: sleeps until an entry of the interest list is ready, and fills `events` from the
/// front. Returns how many it filled.
///
/// `timeout` is in milliseconds, -1 waits without end, 0 looks without waiting. What does not fit into
/// `events` comes with the next call.
///
/// # Errors
///
/// `EINTR`: a signal came first, also one whose handler was installed with `SA_RESTART` (`signal(7)`).
pub fn epoll_wait(epfd: impl AsFd, events: &mut [EpollEvent], timeout: c_int) -> Result<usize> {
    let epfd = epfd.as_fd().as_raw_fd();
    let room = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    syscall!(
        "epoll_wait",
        // SAFETY: the kernel writes at most `room` epoll_events, and `events` has that many of the same
        // layout (asserted above).
        unsafe {
            libc::epoll_wait(
                epfd,
                events.as_mut_ptr().cast::<libc::epoll_event>(),
                room,
                timeout,
            )
        },
        |outcome| {
            let shown = match outcome {
                Ok(count) => Value::list(events[..count].iter().map(|event| event.shown())),
                Err(_) => address(events.as_ptr()),
            };
            [epfd.into(), shown, room.into(), timeout.into()]
        }
    )
}
