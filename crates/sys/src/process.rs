//! What a program may do to itself and its children: limits, signals, inherited descriptors, the clock.

use std::ffi::c_int;
use std::time::Duration;

use trace::Value;

use crate::errno::Result;
use crate::names::constant;

pub use libc::{SIGCONT, SIGKILL, SIGSTOP, rlimit as Rlimit};

/// A limit that `setrlimit(2)` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `RLIMIT_NOFILE`: one more than the highest descriptor that can be opened.
    NoFile,
    /// `RLIMIT_AS`: bytes of address space.
    AddressSpace,
    /// `RLIMIT_CPU`: seconds of CPU time.
    Cpu,
    /// `RLIMIT_FSIZE`: bytes that a file may grow to.
    FileSize,
}

/// The soft and the hard limit of this process.
pub fn getrlimit(resource: Resource) -> Result<Rlimit> {
    prlimit(0, resource, None)
}

/// Sets the soft and the hard limit of this process. The hard one can only be lowered, unless by root.
pub fn setrlimit(resource: Resource, limit: Rlimit) -> Result<()> {
    prlimit(0, resource, Some(limit))?;
    Ok(())
}

/// `prlimit(2)`: sets the limit of a process (0 is this one), if there is a new one, and returns what it
/// was.
pub fn prlimit(pid: i32, resource: Resource, new: Option<Rlimit>) -> Result<Rlimit> {
    let (number, name) = match resource {
        Resource::NoFile => (libc::RLIMIT_NOFILE, "RLIMIT_NOFILE"),
        Resource::AddressSpace => (libc::RLIMIT_AS, "RLIMIT_AS"),
        Resource::Cpu => (libc::RLIMIT_CPU, "RLIMIT_CPU"),
        Resource::FileSize => (libc::RLIMIT_FSIZE, "RLIMIT_FSIZE"),
    };
    let mut old = Rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pointer = new
        .as_ref()
        .map_or(std::ptr::null(), |new| new as *const Rlimit);
    syscall!(
        "prlimit64",
        // SAFETY: the kernel reads one rlimit, or none where the pointer is null, and writes one.
        unsafe { libc::prlimit(pid, number, pointer, &raw mut old) },
        |_| {
            let new = new.map_or(Value::name("NULL"), show_rlimit);
            [pid.into(), Value::name(name), new, show_rlimit(old)]
        }
    )?;
    Ok(old)
}

/// A limit as strace shows it: large round ones in units of 1024.
fn show_rlimit(limit: Rlimit) -> Value {
    let number = |number: libc::rlim_t| match number {
        libc::RLIM_INFINITY => Value::name("RLIM64_INFINITY"),
        _ if number > 1024 && number.is_multiple_of(1024) => {
            Value::Raw(format!("{}*1024", number / 1024))
        }
        _ => number.into(),
    };
    Value::fields([
        ("rlim_cur", number(limit.rlim_cur)),
        ("rlim_max", number(limit.rlim_max)),
    ])
}

/// `kill(2)`: sends a signal to a process, or with a negative `pid` to the process group of that number.
/// Signal 0 sends nothing, and tells whether there is such a process.
pub fn kill(pid: i32, signal: c_int) -> Result<()> {
    syscall!(
        "kill",
        // SAFETY: two numbers, no memory.
        unsafe { libc::kill(pid, signal) },
        |_| {
            let names = [
                (libc::SIGTERM, "SIGTERM"),
                (libc::SIGINT, "SIGINT"),
                (libc::SIGUSR1, "SIGUSR1"),
                (SIGKILL, "SIGKILL"),
                (SIGSTOP, "SIGSTOP"),
                (SIGCONT, "SIGCONT"),
            ];
            let signal = if signal == 0 {
                Value::from(0)
            } else {
                constant(signal, &names)
            };
            [pid.into(), signal]
        }
    )?;
    Ok(())
}

/// `close_range(2)`: closes every descriptor from `first` to `last` that is open.
///
/// For a program's first lines, to be rid of what its parent left open. Later it would close descriptors
/// that somebody still owns.
pub fn close_range(first: u32, last: u32) -> Result<()> {
    syscall!(
        "close_range",
        // SAFETY: three numbers, no memory. (libc has no wrapper that all C libraries share.)
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) },
        |_| [first.into(), last.into(), Value::from(0)]
    )?;
    Ok(())
}

/// `clock_gettime(2)` of `CLOCK_MONOTONIC`: the time since some fixed point. It never goes back, and
/// setting the wall clock does not move it.
///
/// Never recorded: the kernel answers it without a system call (`vdso(7)`), so strace does not see it
/// either.
pub fn clock_gettime() -> Duration {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// `clock_gettime(2)` of `CLOCK_THREAD_CPUTIME_ID`: the CPU time that the calling thread has used. It stands
/// still while the thread sleeps, and while another thread has the core.
///
/// Never recorded, as [`clock_gettime`]. Unlike that one it does enter the kernel, and costs as much as a
/// short system call.
pub fn clock_gettime_thread_cputime() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec. With these clocks and a valid pointer it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
