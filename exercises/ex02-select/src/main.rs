//! Exercise 2: an echo server on `select`.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused)]

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{Errno, FD_SETSIZE, FdSet, SOCK_CLOEXEC, SOCK_NONBLOCK, Timeval};

/// Bytes of one read.
const READ_SIZE: usize = 16 * 1024;

/// A connection whose output buffer holds this many bytes is not read from until it has drained.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// Connections accepted in one turn. The rest of the queue is reported again on the next turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long the listener rests when no descriptor is left for a new connection.
const PAUSE: Timeval = Timeval {
    tv_sec: 0,
    tv_usec: 100_000,
};

struct Connection {
    fd: OwnedFd,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
    /// The client has closed its sending side: send what is left, then close.
    at_end: bool,
}

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ServeOptions) -> Result<()> {
    let mut server = Server {
        listener: kit::listen(options.listen, SOCK_NONBLOCK)?,
        accepting: true,
        connections: Vec::new(),
    };
    loop {
        server.turn()?;
    }
}

struct Server {
    listener: OwnedFd,
    /// False for one turn after there was no descriptor left for a new connection.
    accepting: bool,
    connections: Vec<Connection>,
}

/// The question for `select`, and afterwards its answer.
struct Sets {
    nfds: i32,
    readable: FdSet,
    writable: FdSet,
}

impl Server {
    /// One turn of the loop: ask, wait, serve those that are ready, accept those that are new.
    fn turn(&mut self) -> Result<()> {
        let Some(ready) = self.wait()? else {
            return Ok(());
        };
        for mut connection in std::mem::take(&mut self.connections) {
            let outcome = connection.serve(&ready);
            if outcome.is_ok() && !connection.is_finished() {
                self.connections.push(connection);
            } else {
                // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
                sys::close(connection.fd).context("close")?;
            }
        }
        let listener_is_ready = ready.readable.contains(self.listener.as_raw_fd());
        self.accepting = !listener_is_ready || self.accept_some()?;
        Ok(())
    }

    /// The descriptors to wait for. `select` overwrites its sets, so they are filled anew on every turn.
    fn question(&self) -> Result<Sets> {
        todo!("the sets and nfds, filled anew")
    }

    /// Sleeps in `select` until something is ready. `None`: a signal came first, and nothing is known.
    fn wait(&self) -> Result<Option<Sets>> {
        todo!("call select with the question, and mind EINTR")
    }

    /// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
    /// stays readable although nothing can be accepted, and a loop that watches it would spin.
    fn accept_some(&mut self) -> Result<bool> {
        todo!("accept what waits, and refuse a descriptor that has no bit")
    }
}

impl Connection {
    fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            output: Vec::new(),
            sent: 0,
            at_end: false,
        }
    }

    fn wants_input(&self) -> bool {
        !self.at_end && self.output.len() - self.sent < HIGH_WATER_MARK
    }

    fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    fn is_finished(&self) -> bool {
        self.at_end && !self.has_output()
    }

    /// Does what the answer says can be done now.
    fn serve(&mut self, ready: &Sets) -> sys::Result<()> {
        todo!("read if readable, write if there is something to write")
    }

    /// The four outcomes of a non-blocking read, each with its own action.
    fn on_readable(&mut self) -> sys::Result<()> {
        todo!("the four outcomes of a read")
    }

    /// Writes what goes. What does not go stays in the output buffer.
    fn on_writable(&mut self) -> sys::Result<()> {
        todo!("write what goes, keep what does not")
    }
}
