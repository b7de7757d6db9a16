//! How a client connects.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::{Errno, Result};

use super::{Interrupted, Peer, Steps, Stop};
use crate::wait::DEADLINE;

/// A connection to be made, and its options.
///
/// ```no_run
/// # use grader::peer::Connect;
/// # let addr = "127.0.0.1:80".parse().expect("an address");
/// // So little room that the server soon meets a short write.
/// let peer = Connect::to(addr).receive_buffer(4096).max_segment(1024).connect()?;
/// # Ok::<(), grader::Interrupted>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connect {
    addr: SocketAddrV4,
    receive_buffer: Option<i32>,
    max_segment: Option<i32>,
    no_delay: bool,
    deadline: Duration,
    steps: Steps,
}

impl Connect {
    /// A connection to this address, with `TCP_NODELAY`: what is sent apart arrives apart.
    pub fn to(addr: SocketAddrV4) -> Connect {
        Connect {
            addr,
            receive_buffer: None,
            max_segment: None,
            no_delay: true,
            deadline: DEADLINE,
            steps: Steps::new(),
        }
    }

    /// `SO_RCVBUF` in bytes, set before the connection is made: later it would not limit the window that is
    /// already open. The kernel doubles it (`socket(7)`).
    #[must_use]
    pub fn receive_buffer(mut self, bytes: i32) -> Connect {
        self.receive_buffer = Some(bytes);
        self
    }

    /// `TCP_MAXSEG` in bytes: the largest segment that the server may send.
    ///
    /// With a small one, and a small receive buffer, the server meets its first short write long before the
    /// megabytes that loopback's usual buffers swallow.
    #[must_use]
    pub fn max_segment(mut self, bytes: i32) -> Connect {
        self.max_segment = Some(bytes);
        self
    }

    /// Lets the kernel gather small writes (Nagle's algorithm), as it does without `TCP_NODELAY`.
    #[must_use]
    pub fn delay(mut self) -> Connect {
        self.no_delay = false;
        self
    }

    /// How long this and each later step may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Connect {
        self.deadline = deadline;
        self
    }

    /// Writes its steps into this list.
    #[must_use]
    pub fn steps(mut self, steps: Steps) -> Connect {
        self.steps = steps;
        self
    }

    /// Connects, and waits until the handshake is complete.
    pub fn connect(self) -> std::result::Result<Peer, Interrupted> {
        let peer = self.begin()?;
        peer.wait_until_connected()?;
        Ok(peer)
    }

    /// Begins to connect and does not wait.
    pub fn begin(self) -> std::result::Result<Peer, Interrupted> {
        let options = [
            self.receive_buffer
                .map(|bytes| format!("SO_RCVBUF {bytes}")),
            self.max_segment.map(|bytes| format!("TCP_MAXSEG {bytes}")),
        ];
        let options: Vec<_> = options.into_iter().flatten().collect();
        self.steps.add(match options.is_empty() {
            true => "connect".to_owned(),
            false => format!("connect ({})", options.join(", ")),
        });
        let socket = self.open().map_err(|errno| Interrupted {
            step: format!("connect to {}", self.addr),
            done: 0,
            received: Vec::new(),
            stop: Stop::of(errno),
        })?;
        Ok(Peer {
            socket: Some(socket),
            steps: self.steps,
            deadline: self.deadline,
            was_reset: false,
        })
    }

    fn open(&self) -> Result<OwnedFd> {
        let kind = sys::SOCK_STREAM | sys::SOCK_NONBLOCK | sys::SOCK_CLOEXEC;
        let socket = sys::socket(sys::AF_INET, kind, 0)?;
        if let Some(bytes) = self.receive_buffer {
            sys::setsockopt(&socket, sys::SOL_SOCKET, sys::SO_RCVBUF, bytes)?;
        }
        if let Some(bytes) = self.max_segment {
            sys::setsockopt(&socket, sys::IPPROTO_TCP, sys::TCP_MAXSEG, bytes)?;
        }
        if self.no_delay {
            sys::setsockopt(&socket, sys::IPPROTO_TCP, sys::TCP_NODELAY, 1)?;
        }
        match sys::connect(&socket, self.addr) {
            Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }
}

impl Peer {
    /// Waits until the handshake that [`Connect::begin`] or [`burst`] began is complete.
    pub fn wait_until_connected(&self) -> std::result::Result<(), Interrupted> {
        let failed = |stop| self.interrupted("connect", 0, stop);
        let Some(socket) = &self.socket else {
            return Err(failed(Stop::Failed(Errno::EBADF)));
        };
        if !self.ready(sys::POLLOUT, Instant::now() + self.deadline) {
            return Err(failed(Stop::Deadline(self.deadline)));
        }
        match sys::getsockopt(socket, sys::SOL_SOCKET, sys::SO_ERROR) {
            Ok(0) => Ok(()),
            Ok(errno) => Err(failed(Stop::of(Errno::from_raw(errno)))),
            Err(errno) => Err(failed(Stop::of(errno))),
        }
    }
}

/// Begins `count` connections at once, without waiting for any of them. They share one list of steps, in
/// which this is one step.
pub fn burst(
    addr: SocketAddrV4,
    count: usize,
    steps: &Steps,
) -> std::result::Result<Vec<Peer>, Interrupted> {
    steps.add(format!("begin {count} connections at once"));
    // Their own steps would only repeat it.
    let unlisted = Steps::new();
    (0..count)
        .map(|_| Connect::to(addr).steps(unlisted.clone()).begin())
        .collect()
}
