//! Descriptors that are not sockets: a counter, a clock, and the signals of this process.

use std::ffi::c_int;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use trace::Value;

use crate::errno::Result;
use crate::names::{address, constant, flags};
use crate::socket::owned;

pub use libc::{
    CLOCK_MONOTONIC, EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, SFD_CLOEXEC, SFD_NONBLOCK, SIGINT,
    SIGTERM, SIGUSR1, TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME,
};

/// `eventfd(2)`: a counter as a descriptor. It is read and written as 8 bytes in the machine's order: a
/// write adds, a read returns the sum and sets it back to 0.
pub fn eventfd(initial: u32, flags: c_int) -> Result<OwnedFd> {
    let fd = syscall!(
        "eventfd2",
        // SAFETY: two numbers, no memory.
        unsafe { libc::eventfd(initial, flags) },
        |_| {
            let names = [
                (EFD_SEMAPHORE as u32, "EFD_SEMAPHORE"),
                (EFD_CLOEXEC as u32, "EFD_CLOEXEC"),
                (EFD_NONBLOCK as u32, "EFD_NONBLOCK"),
            ];
            [initial.into(), self::flags(flags as u32, &names)]
        }
    )?;
    Ok(owned(fd))
}

/// `timerfd_create(2)`: a clock as a descriptor. It is readable once its time has come, and a read
/// returns how many times it has come, as 8 bytes.
pub fn timerfd_create(clock: c_int, flags: c_int) -> Result<OwnedFd> {
    let fd = syscall!(
        "timerfd_create",
        // SAFETY: two numbers, no memory.
        unsafe { libc::timerfd_create(clock, flags) },
        |_| {
            let names = [
                (TFD_CLOEXEC as u32, "TFD_CLOEXEC"),
                (TFD_NONBLOCK as u32, "TFD_NONBLOCK"),
            ];
            [
                constant(clock, &[(CLOCK_MONOTONIC, "CLOCK_MONOTONIC")]),
                self::flags(flags as u32, &names),
            ]
        }
    )?;
    Ok(owned(fd))
}

/// `timerfd_settime(2)`: arms the clock for `value`, and for every `interval` after that unless it is
/// zero. A `value` of zero disarms it. With `TFD_TIMER_ABSTIME` `value` is a time of the clock, not a
/// time from now.
pub fn timerfd_settime(
    fd: impl AsFd,
    flags: c_int,
    value: Duration,
    interval: Duration,
) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let new = libc::itimerspec {
        it_interval: timespec(interval),
        it_value: timespec(value),
    };
    syscall!(
        "timerfd_settime",
        // SAFETY: the kernel reads one itimerspec, and a null pointer asks for no old value.
        unsafe { libc::timerfd_settime(fd, flags, &raw const new, std::ptr::null_mut()) },
        |_| {
            let time = |time: libc::timespec| {
                Value::fields([
                    ("tv_sec", time.tv_sec.into()),
                    ("tv_nsec", time.tv_nsec.into()),
                ])
            };
            let shown = Value::fields([
                ("it_interval", time(new.it_interval)),
                ("it_value", time(new.it_value)),
            ]);
            let names = [(TFD_TIMER_ABSTIME as u32, "TFD_TIMER_ABSTIME")];
            [
                fd.into(),
                self::flags(flags as u32, &names),
                shown,
                Value::name("NULL"),
            ]
        }
    )?;
    Ok(())
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// The kernel's signal sets are one word: a bit a signal.
const SIGSET_BYTES: usize = size_of::<u64>();

fn sigset(signals: &[c_int]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set, which `assume_init` then relies on.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in signals {
        // SAFETY: `set` is initialised; a number that is no signal is an error, and changes nothing.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// A set of signals as strace shows it: `[USR1 TERM]`.
fn show_signals(signals: &[c_int]) -> Value {
    let names = [(SIGINT, "INT"), (SIGUSR1, "USR1"), (SIGTERM, "TERM")];
    let mut sorted = signals.to_vec();
    sorted.sort_unstable();
    Value::Set(
        sorted
            .into_iter()
            .map(|signal| constant(signal, &names))
            .collect(),
    )
}

/// `sigprocmask(2)` with `SIG_BLOCK`: these signals wait, instead of interrupting this thread or killing
/// the process, until a [`signalfd`] takes them. Threads that are started afterwards inherit it.
pub fn sigprocmask_block(signals: &[c_int]) -> Result<()> {
    let set = sigset(signals);
    let null = std::ptr::null_mut();
    syscall!(
        "rt_sigprocmask",
        // SAFETY: the kernel reads one signal set, and a null pointer asks for no old one.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, null) },
        |_| {
            [
                Value::name("SIG_BLOCK"),
                show_signals(signals),
                address(null),
                SIGSET_BYTES.into(),
            ]
        }
    )?;
    Ok(())
}

/// `signalfd(2)`: the signals of this process as a descriptor. Each read returns 128 bytes, of which the
/// first four are the signal's number in the machine's order.
///
/// The signals must be blocked in every thread, or they take their usual way: see [`sigprocmask_block`].
pub fn signalfd(signals: &[c_int], flags: c_int) -> Result<OwnedFd> {
    let set = sigset(signals);
    let fd = syscall!(
        "signalfd4",
        // SAFETY: the kernel reads one signal set; -1 asks for a new descriptor.
        unsafe { libc::signalfd(-1, &raw const set, flags) },
        |_| {
            let names = [
                (SFD_CLOEXEC as u32, "SFD_CLOEXEC"),
                (SFD_NONBLOCK as u32, "SFD_NONBLOCK"),
            ];
            let shown = self::flags(flags as u32, &names);
            [
                Value::from(-1),
                show_signals(signals),
                SIGSET_BYTES.into(),
                shown,
            ]
        }
    )?;
    Ok(owned(fd))
}
