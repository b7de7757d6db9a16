//! Exercise 2: an echo server on `select`.
#![forbid(unsafe_code)]

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
        let mut sets = Sets {
            nfds: 0,
            readable: FdSet::new(),
            writable: FdSet::new(),
        };
        if self.accepting {
            sets.readable.insert(self.listener.as_raw_fd())?;
            sets.nfds = self.listener.as_raw_fd() + 1;
        }
        for connection in &self.connections {
            let fd = connection.fd.as_raw_fd();
            if connection.wants_input() {
                sets.readable.insert(fd)?;
            }
            if connection.has_output() {
                sets.writable.insert(fd)?;
            }
            sets.nfds = sets.nfds.max(fd + 1);
        }
        Ok(sets)
    }

    /// Sleeps in `select` until something is ready. `None`: a signal came first, and nothing is known.
    fn wait(&self) -> Result<Option<Sets>> {
        let mut sets = self.question()?;
        // Linux overwrites the timeout too.
        let mut timeout = (!self.accepting).then_some(PAUSE);
        let (readable, writable) = (Some(&mut sets.readable), Some(&mut sets.writable));
        match sys::select(sets.nfds, readable, writable, None, timeout.as_mut()) {
            Ok(_) => Ok(Some(sets)),
            Err(Errno::EINTR) => Ok(None),
            Err(errno) => bail!("select: {errno}"),
        }
    }

    /// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
    /// stays readable although nothing can be accepted, and a loop that watches it would spin.
    fn accept_some(&mut self) -> Result<bool> {
        for _ in 0..ACCEPTS_PER_TURN {
            match sys::accept4(&self.listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
                // It has no bit in an fd_set.
                Ok(fd) if fd.as_raw_fd() as usize >= FD_SETSIZE => {
                    sys::close(fd).context("close")?;
                }
                Ok(fd) => self.connections.push(Connection::new(fd)),
                Err(Errno::EAGAIN) => return Ok(true),
                Err(errno) => match kit::accept_failure(errno) {
                    AcceptFailure::OnePeer => {}
                    AcceptFailure::NoRoom => return Ok(false),
                    AcceptFailure::Listener => bail!("accept4: {errno}"),
                },
            }
        }
        Ok(true)
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
        let fd = self.fd.as_raw_fd();
        if ready.readable.contains(fd) {
            self.on_readable()?;
        }
        // What was just read may go at once: the send buffer usually has room.
        if ready.writable.contains(fd) || self.has_output() {
            self.on_writable()?;
        }
        Ok(())
    }

    /// The four outcomes of a non-blocking read, each with its own action.
    fn on_readable(&mut self) -> sys::Result<()> {
        let mut buffer = [0; READ_SIZE];
        match sys::read(&self.fd, &mut buffer) {
            Ok(0) => self.at_end = true,
            Ok(received) => self.output.extend_from_slice(&buffer[..received]),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Writes what goes. What does not go stays in the output buffer.
    fn on_writable(&mut self) -> sys::Result<()> {
        match sys::write(&self.fd, &self.output[self.sent..]) {
            Ok(written) => self.sent += written,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        if !self.has_output() {
            self.output.clear();
            self.sent = 0;
        } else if self.sent >= HIGH_WATER_MARK {
            // Also for a client who never lets the buffer run empty, what is sent is dropped now and then.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}
