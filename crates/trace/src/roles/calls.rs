//! What a call does to descriptors, as far as its name and arguments tell.

use std::collections::HashMap;

use crate::model::{Call, Event, Line, Outcome, Value};

/// What a socket turns out to be for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Purpose {
    Listen,
    Connect,
}

/// For each line: what the socket that it makes will be used for, as far as later lines tell.
pub(super) fn purposes(lines: &[Line]) -> Vec<Option<Purpose>> {
    let mut purposes = vec![None; lines.len()];
    // Read backwards, so that each number's next use is known where it is made.
    let mut next: HashMap<i32, Purpose> = HashMap::new();
    for (line, purpose) in lines.iter().zip(&mut purposes).rev() {
        let Event::Call(call) = &line.event else {
            continue;
        };
        let Some(fd) = call.args.first().and_then(Value::descriptor) else {
            if call.name == "socket"
                && let Outcome::Returned { value, .. } = &call.outcome
            {
                *purpose = value.descriptor().and_then(|fd| next.remove(&fd));
            }
            continue;
        };
        match call.name.as_str() {
            "listen" => {
                next.insert(fd, Purpose::Listen);
            }
            "connect" => {
                next.insert(fd, Purpose::Connect);
            }
            "close" => {
                next.remove(&fd);
            }
            _ => {}
        }
    }
    purposes
}

pub(super) fn is_readiness(name: &str) -> bool {
    matches!(
        name,
        "poll" | "ppoll" | "select" | "_newselect" | "pselect6"
    )
}

/// False for a call that failed, has not returned, or that a fault injector kept from the kernel.
///
/// But on Linux `close` frees the number also when it reports an error, unless the number was not
/// open at all: close(2), "Dealing with error returns from close()".
pub(super) fn changes_something(call: &Call) -> bool {
    match &call.outcome {
        Outcome::Returned { injected, .. } => !injected,
        Outcome::Failed {
            errno, injected, ..
        } => call.name == "close" && errno != "EBADF" && !injected,
        Outcome::Unknown(_) | Outcome::Unfinished => false,
    }
}

/// Which arguments of a call are descriptors, counted from 0.
pub(crate) fn descriptor_arguments(name: &str) -> &'static [usize] {
    match name {
        "epoll_ctl" => &[0, 2],
        "dup2" | "dup3" | "sendfile" | "sendfile64" => &[0, 1],
        "splice" | "tee" | "copy_file_range" => &[0, 2],
        "mmap" => &[4],
        "accept" | "accept4" | "bind" | "close" | "connect" | "dup" | "epoll_pwait"
        | "epoll_pwait2" | "epoll_wait" | "fchmod" | "fcntl" | "fcntl64" | "fdatasync"
        | "fstat" | "fsync" | "ftruncate" | "getdents64" | "getpeername" | "getsockname"
        | "getsockopt" | "ioctl" | "listen" | "lseek" | "newfstatat" | "openat" | "pread64"
        | "preadv" | "pwrite64" | "pwritev" | "read" | "readv" | "recv" | "recvfrom"
        | "recvmmsg" | "recvmsg" | "send" | "sendmmsg" | "sendmsg" | "sendto" | "setsockopt"
        | "shutdown" | "signalfd4" | "timerfd_gettime" | "timerfd_settime" | "write" | "writev" => {
            &[0]
        }
        _ => &[],
    }
}
