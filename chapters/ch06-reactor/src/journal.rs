//! What happens in the loop, told to somebody who wants to watch: the demonstration, a test, a curious reader.

use std::fmt;
use std::os::fd::RawFd;

use sys::{Errno, Result};

/// The name of a connection's state: see [`crate::exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two requests.
    KeepAlive,
    /// A request has begun to arrive.
    Reading,
    /// A request is here, its reply is being made.
    Processing,
    /// A reply is leaving.
    Writing,
    /// The last reply has left; the client's side is still open.
    Closing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::KeepAlive => "KEEPALIVE",
            Phase::Reading => "READING",
            Phase::Processing => "PROCESSING",
            Phase::Writing => "WRITING",
            Phase::Closing => "CLOSING",
        })
    }
}

/// One thing that happened, with what the system call returned where there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// `accept4` returned a connection, or said why not.
    Accept(Result<RawFd>),
    /// The listener is no longer watched.
    ListenerPaused,
    /// It is again.
    ListenerResumed,
    /// A `read` of the connection with this descriptor.
    Read(RawFd, Result<usize>),
    /// A `write`: how many bytes were offered, and what it returned.
    Write(RawFd, usize, Result<usize>),
    /// A connection went from one state to another.
    State(RawFd, Phase, Phase),
    /// A connection's deadline came.
    Deadline(RawFd, Phase),
    /// A connection was closed.
    Close(RawFd, Cause),
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The client has ended its side, and has all its replies.
    Finished,
    /// A deadline came.
    Timeout,
    /// `GET /kick/FD`.
    Kicked,
    /// A call failed: the client has reset the connection, for instance.
    Failed(Errno),
    /// The server is being stopped.
    Stopping,
}

/// Is told everything. It runs in the loop, so it must not wait for anything.
pub type Observer = Box<dyn FnMut(Happening)>;
