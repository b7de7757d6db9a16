//! Bytes in, bytes out, and what can be said of any descriptor.

use std::ffi::{c_int, c_void};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use trace::{Outcome, Value};

use crate::errno::Result;
use crate::names::{address, constant, descriptors, flags};
use crate::socket::owned;

pub use libc::{
    F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FD_CLOEXEC, O_CLOEXEC, O_NONBLOCK,
};

/// `read(2)`: takes up to `buf.len()` bytes out of the descriptor.
///
/// `Ok(0)` is the end of the stream if `buf` is not empty, and means nothing at all if it is.
///
/// # Errors
///
/// `EAGAIN`: nothing to read now. `EINTR`: a signal came first. Anything else concerns this
/// descriptor only (`ECONNRESET`).
pub fn read(fd: impl AsFd, buf: &mut [u8]) -> Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    let len = buf.len();
    syscall!(
        "read",
        at most len,
        // SAFETY: the kernel writes at most `len` bytes into `buf`, which is at least that long.
        unsafe { libc::read(fd, buf.as_mut_ptr().cast::<c_void>(), len) },
        |outcome| {
            let filled = match outcome {
                Ok(count) => Value::buffer(&buf[..count]),
                Err(_) => address(buf.as_ptr()),
            };
            [fd.into(), filled, buf.len().into()]
        }
    )
}

/// `write(2)`: offers `buf` and returns how many of its bytes were taken, which may be fewer.
///
/// # Errors
///
/// `EAGAIN`: no room now. `EPIPE`: the peer will never read (Rust ignores SIGPIPE, so the program
/// lives to see it). `ECONNRESET`: the peer broke the connection off.
pub fn write(fd: impl AsFd, buf: &[u8]) -> Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    let len = buf.len();
    syscall!(
        "write",
        at most len,
        // SAFETY: the kernel reads at most `len` bytes of `buf`, which is at least that long.
        unsafe { libc::write(fd, buf.as_ptr().cast::<c_void>(), len) },
        |_| [fd.into(), Value::buffer(buf), buf.len().into()]
    )
}

/// `writev(2)`: [`write()`] for bytes that lie in several buffers, in one call.
///
/// The count that it returns is over all buffers: a short one may end in the middle of any of them.
pub fn writev(fd: impl AsFd, bufs: &[IoSlice<'_>]) -> Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    let len = bufs.iter().map(|buf| buf.len()).sum();
    syscall!("writev", at most len, writev_at_most(fd, bufs, len), |_| {
        let shown = bufs
            .iter()
            .map(|buf| Value::fields([("iov_base", Value::buffer(buf)), ("iov_len", buf.len().into())]))
            .collect();
        [fd.into(), Value::Array(shown), bufs.len().into()]
    })
}

/// The call itself, on the first `len` bytes of the buffers (fewer than all only when injected).
fn writev_at_most(fd: c_int, bufs: &[IoSlice<'_>], len: usize) -> isize {
    let mut left = len;
    let all: usize = bufs.iter().map(|buf| buf.len()).sum();
    let mut shortened = Vec::new();
    let mut bufs = bufs;
    if len < all {
        for buf in bufs {
            let taken = left.min(buf.len());
            shortened.push(IoSlice::new(&buf[..taken]));
            left -= taken;
        }
        bufs = &shortened;
    }
    // SAFETY: an IoSlice has the layout of an iovec (std promises it) and borrows bytes that are
    // there to be read for as long as this call takes.
    unsafe { libc::writev(fd, bufs.as_ptr().cast::<libc::iovec>(), bufs.len() as c_int) }
}

/// `close(2)`: gives the number back. The next descriptor that is opened may get it.
///
/// # Errors
///
/// Whatever the error, the number is free afterwards on Linux: a second try could close a stranger's
/// descriptor.
pub fn close(fd: OwnedFd) -> Result<()> {
    let fd = fd.into_raw_fd();
    // SAFETY: `into_raw_fd` gave the ownership to us, and nobody uses the number after this.
    syscall!("close", unsafe { libc::close(fd) }, |_| [fd.into()])?;
    Ok(())
}

/// `pipe2(2)`: a pipe, as its read end and its write end, in this order.
///
/// `flags` are `O_NONBLOCK` and `O_CLOEXEC`, for both ends.
pub fn pipe2(flags: c_int) -> Result<[OwnedFd; 2]> {
    let mut ends: [c_int; 2] = [0; 2];
    syscall!(
        "pipe2",
        // SAFETY: the kernel writes two ints, which `ends` is.
        unsafe { libc::pipe2(ends.as_mut_ptr(), flags) },
        |outcome| {
            let names = [
                (O_NONBLOCK as u32, "O_NONBLOCK"),
                (O_CLOEXEC as u32, "O_CLOEXEC"),
            ];
            [
                descriptors(outcome, &ends),
                self::flags(flags as u32, &names),
            ]
        }
    )?;
    Ok(ends.map(|fd| owned(fd as usize)))
}

/// `ioctl(2)` with `FIONREAD`: how many bytes wait in the receive buffer, without taking them.
pub fn ioctl_fionread(fd: impl AsFd) -> Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    let mut unread: c_int = 0;
    syscall!(
        "ioctl",
        // SAFETY: FIONREAD writes one int, which `unread` is.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut unread) },
        |outcome| {
            let shown = match outcome {
                Ok(_) => Value::Array(vec![unread.into()]),
                Err(_) => address(&raw const unread),
            };
            [fd.into(), Value::name("FIONREAD"), shown]
        }
    )?;
    Ok(unread as usize)
}

const COMMANDS: &[(c_int, &str)] = &[
    (F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"),
    (F_GETFD, "F_GETFD"),
    (F_SETFD, "F_SETFD"),
    (F_GETFL, "F_GETFL"),
    (F_SETFL, "F_SETFL"),
];

/// The status flags of an open file description, the access mode aside.
const STATUS_FLAGS: &[(u32, &str)] = &[
    (libc::O_APPEND as u32, "O_APPEND"),
    (libc::O_NONBLOCK as u32, "O_NONBLOCK"),
];

/// Flags of `F_GETFL` and `F_SETFL` as strace prints them: the access mode first.
fn status_flags(value: c_int) -> Value {
    let mode = match value & libc::O_ACCMODE {
        libc::O_RDONLY => "O_RDONLY",
        libc::O_WRONLY => "O_WRONLY",
        _ => "O_RDWR",
    };
    let mut names = vec![mode.to_owned()];
    if let Value::Flags(rest) = flags((value & !libc::O_ACCMODE) as u32, STATUS_FLAGS) {
        names.extend(rest);
    }
    Value::Flags(names)
}

/// `fcntl(2)` for the commands with a number as argument: `F_GETFL`, `F_SETFL` (`O_NONBLOCK`),
/// `F_GETFD`, `F_SETFD`. Returns the flags that were asked for, or 0.
///
/// Flags of `F_SETFL` belong to the *open file description*: who shares it by `dup` or `fork` gets
/// them too. Flags of `F_SETFD` belong to this one number.
pub fn fcntl(fd: impl AsFd, command: c_int, argument: c_int) -> Result<c_int> {
    let fd = fd.as_fd().as_raw_fd();
    fcntl_raw(fd, command, argument)
}

/// `fcntl(2)` with `F_DUPFD_CLOEXEC`: another number, at least `lowest`, for the same open file
/// description. It stays open, and registered with epoll, until the last of its numbers is closed.
pub fn fcntl_dupfd(fd: impl AsFd, lowest: c_int) -> Result<OwnedFd> {
    let number = fcntl_raw(fd.as_fd().as_raw_fd(), F_DUPFD_CLOEXEC, lowest)?;
    // SAFETY: the kernel has just returned it: it is open, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn fcntl_raw(fd: c_int, command: c_int, argument: c_int) -> Result<c_int> {
    let fault = if crate::call::is_observed() {
        crate::inject::fault("fcntl")
    } else {
        None
    };
    let outcome = match fault {
        Some(fault) => fault,
        // SAFETY: the commands that the callers pass take a number and touch no memory.
        None => crate::call::check(unsafe { libc::fcntl(fd, command, argument) }),
    };
    if crate::record::is_on() {
        let mut args = vec![fd.into(), constant(command, COMMANDS)];
        match command {
            F_GETFL | F_GETFD => {}
            F_SETFL => args.push(status_flags(argument)),
            F_SETFD => args.push(flags(argument as u32, &[(FD_CLOEXEC as u32, "FD_CLOEXEC")])),
            _ => args.push(argument.into()),
        }
        match (command, outcome) {
            (F_GETFL, Ok(value)) => crate::record::call_with(
                "fcntl",
                args,
                Outcome::Returned {
                    value: Value::Hex(value as u64),
                    note: Some(format!("flags {}", status_flags(value as c_int))),
                    injected: false,
                },
            ),
            (F_GETFD, Ok(1)) => crate::record::call_with(
                "fcntl",
                args,
                Outcome::Returned {
                    value: Value::Hex(1),
                    note: Some("flags FD_CLOEXEC".to_owned()),
                    injected: false,
                },
            ),
            _ => crate::record::call("fcntl", args, outcome, fault.is_some()),
        }
    }
    outcome.map(|value| value as c_int)
}
