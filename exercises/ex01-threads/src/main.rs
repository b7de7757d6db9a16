//! Exercise 1: an echo server with a thread for each connection.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused)]

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
    todo!("socket, SO_REUSEADDR, bind, listen")
}

/// Waits for a client and gives it a thread.
fn accept_one(listener: &OwnedFd) -> Result<()> {
    todo!("accept4, and what its errors mean")
}

/// Starts the thread that serves this connection until it ends. Nobody waits for it.
fn start_thread(connection: OwnedFd) {
    todo!("a thread that serves the connection and closes it; and if it cannot be started?")
}

/// Sends every byte back, in order, until the client has no more to say.
fn echo(connection: &OwnedFd) -> sys::Result<()> {
    todo!("read until the end of the stream, and send back what came")
}

/// Writes all of it. A blocking `write` takes all, unless a signal comes when it has taken a part.
fn write_whole(connection: &OwnedFd, mut rest: &[u8]) -> sys::Result<()> {
    todo!("write until nothing is left")
}
