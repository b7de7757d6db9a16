//! Exercise 1: an echo server with a thread for each connection.
#![forbid(unsafe_code)]

use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{self, Builder};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{AF_INET, Errno, SO_REUSEADDR, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET};

/// Bytes of one read, on the thread's own stack.
const READ_SIZE: usize = 4096;

/// Stack of a thread, in bytes. `echo` needs two pages of it; the rest is for the report of a panic.
const STACK_SIZE: usize = 256 * 1024;

/// How many connections may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// How long to wait when there is no descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(100);

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ServeOptions) -> Result<()> {
    let listener = listen(options.listen)?;
    let addr = sys::getsockname(&listener).context("getsockname")?;
    kit::say!("listening on {addr}");
    loop {
        accept_one(&listener)?;
    }
}

/// A socket that listens on `addr`. It is blocking: `accept4` sleeps until somebody connects.
fn listen(addr: SocketAddrV4) -> Result<OwnedFd> {
    let listener = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    // Connections of an earlier run may still wait in TIME_WAIT, and hold the port.
    sys::setsockopt(&listener, SOL_SOCKET, SO_REUSEADDR, 1).context("setsockopt SO_REUSEADDR")?;
    sys::bind(&listener, addr).with_context(|| format!("bind {addr}"))?;
    sys::listen(&listener, BACKLOG).context("listen")?;
    Ok(listener)
}

/// Waits for a client and gives it a thread.
fn accept_one(listener: &OwnedFd) -> Result<()> {
    match sys::accept4(listener, SOCK_CLOEXEC) {
        Ok(connection) => start_thread(connection),
        Err(errno) => match kit::accept_failure(errno) {
            AcceptFailure::OnePeer => {}
            // The client stays in the queue, and accept4 would fail again at once. One of the threads must
            // end first.
            AcceptFailure::NoRoom => thread::sleep(PAUSE),
            AcceptFailure::Listener => bail!("accept4: {errno}"),
        },
    }
    Ok(())
}

/// Starts the thread that serves this connection until it ends. Nobody waits for it.
fn start_thread(connection: OwnedFd) {
    let fd = connection.as_raw_fd();
    let thread = Builder::new().stack_size(STACK_SIZE).spawn(move || {
        // An error is this one client's, whatever it is (ECONNRESET, EPIPE).
        let _ = echo(&connection);
        let _ = sys::close(connection);
    });
    // There is no room for another stack. The closure is dropped, and with it the connection is closed: it
    // costs this one client.
    if let Err(error) = thread {
        kit::complain(format_args!("no thread for fd {fd}: {error}"));
    }
}

/// Sends every byte back, in order, until the client has no more to say.
fn echo(connection: &OwnedFd) -> sys::Result<()> {
    let mut buffer = [0; READ_SIZE];
    loop {
        match sys::read(connection, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(received) => write_whole(connection, &buffer[..received])?,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Writes all of it. A blocking `write` takes all, unless a signal comes when it has taken a part.
fn write_whole(connection: &OwnedFd, mut rest: &[u8]) -> sys::Result<()> {
    while !rest.is_empty() {
        match sys::write(connection, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
