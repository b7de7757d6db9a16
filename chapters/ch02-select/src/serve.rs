//! The echo server: the same loop, ready for clients that are slow, rude or many.
//!
//! Each connection has an *output buffer*: what was read and could not be written back yet. While it
//! holds bytes the connection is also in the second set, the one for writing. While it holds too many,
//! the connection is taken out of the first: a client that does not read its echo is not read from either.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{Errno, FD_SETSIZE, FdSet, SOCK_CLOEXEC, SOCK_NONBLOCK, Timeval};

/// Bytes of one read. What is left is reported again, so a small number costs turns, not data.
const READ_SIZE: usize = 16 * 1024;

/// A connection whose output buffer holds this many bytes is not read from until it has drained. Together
/// with the kernel's buffers that is all the memory a client can take.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// Connections accepted in one turn, so that a flood of new clients does not keep the old ones waiting. The
/// rest of the queue is reported again on the next turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long the listener rests when there is no descriptor left for a new connection.
const NO_DESCRIPTOR_PAUSE: Timeval = Timeval {
    tv_sec: 0,
    tv_usec: 100_000,
};

// ANCHOR: connection
struct Connection {
    fd: OwnedFd,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
    /// The peer has closed its sending side: send what is left, then close.
    at_end: bool,
}
// ANCHOR_END: connection

pub fn serve(options: ServeOptions) -> Result<()> {
    let listener = kit::listen(options.listen, SOCK_NONBLOCK)?;
    let mut connections: Vec<Connection> = Vec::new();
    let mut accepting = true;

    loop {
        // ANCHOR: turn
        let (mut readable, mut writable) = (FdSet::new(), FdSet::new());
        let mut nfds = 0;
        let mut watch = |set: &mut FdSet, fd: i32| {
            nfds = nfds.max(fd + 1);
            set.insert(fd)
        };
        if accepting {
            watch(&mut readable, listener.as_raw_fd())?;
        }
        for connection in &connections {
            if connection.wants_input() {
                watch(&mut readable, connection.fd.as_raw_fd())?;
            }
            if connection.has_output() {
                watch(&mut writable, connection.fd.as_raw_fd())?;
            }
        }

        // A listener that rests is looked at again after a while. Linux overwrites the timeout with what
        // is left of it, so this too is made anew on every turn.
        let mut pause = (!accepting).then_some(NO_DESCRIPTOR_PAUSE);
        match sys::select(
            nfds,
            Some(&mut readable),
            Some(&mut writable),
            None,
            pause.as_mut(),
        ) {
            Ok(_) => {}
            // A signal came: nothing is known about any descriptor. Ask again.
            Err(Errno::EINTR) => continue,
            Err(errno) => bail!("select: {errno}"),
        }
        // ANCHOR_END: turn

        let mut open = Vec::with_capacity(connections.len());
        for mut connection in connections {
            let fd = connection.fd.as_raw_fd();
            let mut state = Ok(());
            if readable.contains(fd) {
                state = connection.on_readable();
            }
            if state.is_ok() && (writable.contains(fd) || connection.has_output()) {
                state = connection.on_writable();
            }
            if state.is_ok() && !connection.is_finished() {
                open.push(connection);
            } else {
                // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
                sys::close(connection.fd).context("close")?;
            }
        }
        connections = open;

        let listener_is_ready = readable.contains(listener.as_raw_fd());
        accepting = !listener_is_ready || accept_some(&listener, &mut connections)?;
    }
}

/// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
/// stays readable although nothing can be accepted, and a loop that watches it would spin.
fn accept_some(listener: impl AsFd, connections: &mut Vec<Connection>) -> Result<bool> {
    for _ in 0..ACCEPTS_PER_TURN {
        match sys::accept4(listener.as_fd(), SOCK_NONBLOCK | SOCK_CLOEXEC) {
            // ANCHOR: too-high
            // The limit of select is the number, not the count: 1023 is the last descriptor with a bit.
            Ok(fd) if fd.as_raw_fd() as usize >= FD_SETSIZE => {
                kit::complain(format_args!(
                    "refused: descriptor {} has no bit in an fd_set",
                    fd.as_raw_fd()
                ));
                sys::close(fd).context("close")?;
            }
            // ANCHOR_END: too-high
            Ok(fd) => connections.push(Connection {
                fd,
                output: Vec::new(),
                sent: 0,
                at_end: false,
            }),
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

impl Connection {
    fn wants_input(&self) -> bool {
        !self.at_end && self.output.len() - self.sent < HIGH_WATER_MARK
    }

    fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    fn is_finished(&self) -> bool {
        self.at_end && !self.has_output()
    }

    // ANCHOR: on-readable
    /// The four outcomes of a non-blocking read, each with its own action.
    fn on_readable(&mut self) -> sys::Result<()> {
        let mut buffer = [0; READ_SIZE];
        match sys::read(&self.fd, &mut buffer) {
            Ok(0) => self.at_end = true,
            Ok(received) => self.output.extend_from_slice(&buffer[..received]),
            // Readiness was a hint, and it was wrong or somebody was quicker: wait again.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }
    // ANCHOR_END: on-readable

    // ANCHOR: on-writable
    /// Writes what goes. What does not go stays, and asks for writability on the next turn.
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
    // ANCHOR_END: on-writable
}
