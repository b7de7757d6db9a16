//! How a client connects.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::{Errno, Result};

use super::{Interrupted, Peer, Steps, Stop};
use crate::probe;
use crate::wait::DEADLINE;

/// The receive buffer of [`Connect::narrow`], in bytes. The kernel doubles it (`socket(7)`).
const NARROW_BUFFER: i32 = 4096;

/// The largest segment, in bytes, that the server may send to it.
const NARROW_SEGMENT: i32 = 1024;

/// A connection to be made, and its options.
///
/// ```no_run
/// # use grader::peer::Connect;
/// # let addr = "127.0.0.1:80".parse().expect("an address");
/// // So little room that the server soon meets a short write.
/// let peer = Connect::to(addr).narrow().connect()?;
/// # Ok::<(), grader::Interrupted>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connect {
    addr: SocketAddrV4,
    narrow: bool,
    no_delay: bool,
    deadline: Duration,
    steps: Steps,
}

impl Connect {
    /// A connection to this address, with `TCP_NODELAY`: what is sent apart arrives apart.
    pub fn to(addr: SocketAddrV4) -> Connect {
        Connect {
            addr,
            narrow: false,
            no_delay: true,
            deadline: DEADLINE,
            steps: Steps::new(),
        }
    }

    /// Little room, so that the server soon meets a short write and `EAGAIN`: a small receive buffer (`SO_RCVBUF`), small
    /// segments (`TCP_MAXSEG`), and an address that the kernel has not met before.
    ///
    /// The address matters. From earlier connections between two addresses Linux remembers, among other things, how far
    /// segments overtook each other (`ip tcp_metrics`), and gives the next one a send buffer that allows for it. From
    /// 127.0.0.1 to itself, after a busy hour, that is more than a megabyte instead of some 50 KB.
    #[must_use]
    pub fn narrow(mut self) -> Connect {
        self.narrow = true;
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
        self.steps.add(match self.narrow {
            true => format!("connect (SO_RCVBUF {NARROW_BUFFER}, TCP_MAXSEG {NARROW_SEGMENT})"),
            false => "connect".to_owned(),
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
            sent: 0,
            received: 0,
        })
    }

    fn open(&self) -> Result<OwnedFd> {
        let kind = sys::SOCK_STREAM | sys::SOCK_NONBLOCK | sys::SOCK_CLOEXEC;
        let socket = sys::socket(sys::AF_INET, kind, 0)?;
        if self.narrow {
            // Before the connection is made: later they would not limit the window that is already open.
            sys::setsockopt(&socket, sys::SOL_SOCKET, sys::SO_RCVBUF, NARROW_BUFFER)?;
            sys::setsockopt(&socket, sys::IPPROTO_TCP, sys::TCP_MAXSEG, NARROW_SEGMENT)?;
            sys::bind(&socket, SocketAddrV4::new(unmet_address(), 0))?;
        }
        if self.no_delay {
            sys::setsockopt(&socket, sys::IPPROTO_TCP, sys::TCP_NODELAY, 1)?;
        }
        match sys::connect(&socket, self.addr) {
            Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        probe::announce(sys::getsockname(&socket)?, self.addr);
        Ok(socket)
    }
}

/// An address of this machine that, very likely, nobody has connected from: all of 127.0.0.0/8 is loopback.
fn unmet_address() -> Ipv4Addr {
    // The standard library's source of random numbers.
    let [a, b, c, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    // 0 and 255 at the end would be a network's own and its broadcast address.
    Ipv4Addr::new(127, 128 | a, b, c.clamp(1, 254))
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
