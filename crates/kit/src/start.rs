//! A clean start, and the listener.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use crate::output::complain;
use anyhow::{Context, Result};
use sys::{
    AF_INET, SO_REUSEADDR, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, bind, getsockname, setsockopt,
    socket,
};

/// The first descriptor that is not standard input, output or error.
pub const CLOSED_FROM: u32 = 3;

/// How many connections may wait in the listener's queue. The kernel caps it at
/// `net.core.somaxconn` (4096 since Linux 5.4). With a short queue a burst of clients is not refused, it
/// is ignored, and each tries again only after a second.
const BACKLOG: i32 = 4096;

/// Closes every descriptor from 3 up that the parent process left open, the recorder's own aside.
///
/// A shell, an editor or a test harness can leak descriptors into the programs that it starts. They
/// would shift the numbers that a demonstration prints, and use up the limit of a server.
pub fn close_inherited() {
    let outcome = match sys::recorder_fd() {
        Some(recorder) if recorder as u32 >= CLOSED_FROM => {
            let recorder = recorder as u32;
            sys::close_range(CLOSED_FROM, recorder - 1)
                .and_then(|()| sys::close_range(recorder + 1, u32::MAX))
        }
        _ => sys::close_range(CLOSED_FROM, u32::MAX),
    };
    if let Err(errno) = outcome {
        // Linux before 5.9, or a sandbox that forbids the call. The program works all the same.
        complain(format_args!(
            "warning: close_range: {errno}; inherited descriptors stay open"
        ));
    }
}

/// A listening socket on `addr`, and the line that tells the world: `listening on 127.0.0.1:PORT`.
///
/// `flags` is `SOCK_NONBLOCK`, or 0 for a listener whose `accept4` sleeps until somebody connects.
///
/// # Errors
///
/// Names the call, the address and the reason: `bind 127.0.0.1:80: Permission denied (EACCES)`.
pub fn listen(addr: SocketAddrV4, flags: i32) -> Result<OwnedFd> {
    let listener = quiet_listener(addr, flags)?;
    let bound = getsockname(&listener).context("getsockname")?;
    crate::say!("listening on {bound}");
    Ok(listener)
}

/// [`listen`] without its line, for a demonstration that has its own clients.
pub fn quiet_listener(addr: SocketAddrV4, flags: i32) -> Result<OwnedFd> {
    let listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0).context("socket")?;
    // Without it a restart fails for a minute while old connections of this port wait in TIME_WAIT.
    setsockopt(&listener, SOL_SOCKET, SO_REUSEADDR, 1).context("setsockopt SO_REUSEADDR")?;
    bind(&listener, addr).with_context(|| format!("bind {addr}"))?;
    sys::listen(&listener, BACKLOG).with_context(|| format!("listen on {addr}"))?;
    Ok(listener)
}
