//! A scripted client: it does one step after the other, each with a deadline, and remembers its steps.

mod available;
mod connect;
mod receive;
mod steps;

pub use connect::{Connect, burst};
pub use steps::Steps;

use std::fmt;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::{Errno, PollFd};

use crate::child::Server;
use crate::wait::wait_until_asleep;

/// A client of a server. Its socket is non-blocking; each step waits with a deadline.
///
/// Dropping it closes the connection, without a step in the list.
pub struct Peer {
    /// `None` once it is closed.
    socket: Option<OwnedFd>,
    steps: Steps,
    deadline: Duration,
    /// A read has said ECONNRESET. The kernel says it once, and then 0 as after a usual end.
    was_reset: bool,
    /// Bytes that the kernel has taken from this peer, and bytes that it has read.
    sent: u64,
    received: u64,
}

/// Why a step did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The server ended its stream: everything before was delivered.
    EndOfStream,
    /// The server broke the connection off (RST): what was on its way may be lost.
    Reset,
    /// Nothing more came, or was taken, before the deadline.
    Deadline(Duration),
    /// The connection was refused: nobody listens there.
    Refused,
    /// More came than was expected, or than the grader keeps.
    TooMuch,
    /// The socket failed in another way, or this peer had closed it.
    Failed(Errno),
}

impl Stop {
    fn of(errno: Errno) -> Stop {
        match errno {
            // EPIPE: the reset had come before, and an earlier call reported it.
            Errno::ECONNRESET | Errno::EPIPE => Stop::Reset,
            Errno::ECONNREFUSED => Stop::Refused,
            other => Stop::Failed(other),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::EndOfStream => f.write_str("the server closed the connection"),
            Stop::Reset => f.write_str("the server reset the connection"),
            Stop::Deadline(waited) => write!(f, "nothing more in {} s", waited.as_secs_f32()),
            Stop::Refused => f.write_str("the connection was refused"),
            Stop::TooMuch => f.write_str("more came than was expected"),
            Stop::Failed(errno) => write!(f, "the socket failed: {errno}"),
        }
    }
}

/// A step that did not come to its end: how far it came, and why not further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The step: `read 65536 bytes`.
    pub step: String,
    /// How many bytes it moved.
    pub done: usize,
    /// What it had received; empty for a step that only sends.
    pub received: Vec<u8>,
    /// Why it ended.
    pub stop: Stop,
}

impl fmt::Display for Interrupted {
    /// `read 65536 bytes: after 4096 bytes the server closed the connection`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: after {} bytes {}", self.step, self.done, self.stop)
    }
}

impl std::error::Error for Interrupted {}

impl Peer {
    /// Connects with the usual options, see [`Connect`] for others.
    pub fn connect(addr: SocketAddrV4) -> Result<Peer, Interrupted> {
        Connect::to(addr).connect()
    }

    /// Changes how long each of the following steps may take (at first [`DEADLINE`](crate::DEADLINE)).
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// How long each step may take.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The steps so far.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Begins a new list of steps. What was noted before is forgotten, unless others share it.
    pub fn set_steps(&mut self, steps: Steps) {
        self.steps = steps;
    }

    /// Notes a step in words: something that the peer did by other means, or does by waiting.
    pub fn note(&self, words: impl Into<String>) {
        self.steps.add(words);
    }

    /// The local port, which finds this connection in [`probe::connections`](crate::probe::connections)
    /// as the remote port. 0 once it is closed.
    pub fn local_port(&self) -> u16 {
        let addr = self
            .socket
            .as_ref()
            .and_then(|socket| sys::getsockname(socket).ok());
        addr.map_or(0, |addr| addr.port())
    }

    /// How many bytes more the kernel has taken from this peer than this peer has read.
    pub fn sent_but_not_received(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Sends all of it, however the kernel cuts it.
    ///
    /// # Errors
    ///
    /// [`Stop::Deadline`]: the server stopped reading. For an echo server, [`Peer::exchange`] reads
    /// meanwhile.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Interrupted> {
        self.send_as(&format!("{} bytes", bytes.len()), bytes)
    }

    /// As [`Peer::send`], with other words for it in the list of steps: `POST /echo, 65536 bytes`.
    pub fn send_as(&mut self, words: &str, bytes: &[u8]) -> Result<(), Interrupted> {
        let step = format!("send {words}");
        self.steps.add(step.clone());
        self.send_quietly(&step, bytes)
    }

    fn send_quietly(&mut self, step: &str, bytes: &[u8]) -> Result<(), Interrupted> {
        let end = Instant::now() + self.deadline;
        let mut sent = 0;
        while sent < bytes.len() {
            match self.try_write(&bytes[sent..]) {
                Ok(0) if !self.ready(sys::POLLOUT, end) => {
                    return Err(self.interrupted(step, sent, Stop::Deadline(self.deadline)));
                }
                Ok(n) => sent += n,
                Err(stop) => return Err(self.interrupted(step, sent, stop)),
            }
        }
        Ok(())
    }

    /// Sends one byte at a time. Each is sent only when the server sleeps again, so that each arrives
    /// alone.
    pub fn send_bytewise(&mut self, bytes: &[u8], server: &Server) -> Result<(), Interrupted> {
        let step = format!("send {} bytes, one at a time", bytes.len());
        self.steps.add(step.clone());
        for byte in bytes {
            self.send_quietly(&step, std::slice::from_ref(byte))?;
            // One that never sleeps gets the next byte all the same: whether it spins is another question.
            let _ = wait_until_asleep(server);
        }
        Ok(())
    }

    /// Ends its own direction (FIN): the server reads end of stream, and can still send.
    pub fn half_close(&mut self) -> Result<(), Interrupted> {
        self.steps.add("half-close: no more bytes from here");
        let outcome = match &self.socket {
            Some(socket) => sys::shutdown(socket, sys::SHUT_WR),
            None => Err(Errno::EBADF),
        };
        outcome.map_err(|errno| self.interrupted("half-close", 0, Stop::of(errno)))
    }

    /// Breaks the connection off (RST). What was on its way in either direction is lost.
    pub fn reset(&mut self) {
        self.steps.add("reset the connection");
        if let Some(socket) = self.socket.take() {
            // With a linger time of zero, close sends RST in place of FIN.
            let _ = sys::setsockopt_linger(&socket, Some(0));
        }
    }

    /// Closes the connection. The kernel sends FIN, or RST if there are unread bytes here.
    pub fn close(&mut self) {
        self.steps.add("close");
        self.socket = None;
    }

    /// Writes what the kernel takes now; 0 if nothing.
    fn try_write(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let socket = self.socket.as_ref().ok_or(Stop::Failed(Errno::EBADF))?;
        match sys::write(socket, bytes) {
            Ok(n) => {
                self.sent += n as u64;
                Ok(n)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => Err(Stop::of(errno)),
        }
    }

    /// Waits until the socket is ready for one of these poll events, and returns whether it came before `end`.
    /// An error counts as ready: the next call reports it.
    fn ready(&self, events: i16, end: Instant) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Rounded up: a timeout of 0 ms while time is left would spin.
            let timeout = left.as_millis().min(1_000_000) as i32 + i32::from(!left.is_zero());
            match sys::poll(&mut [PollFd::new(socket, events)], timeout) {
                Ok(0) if left.is_zero() => return false,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return true,
            }
        }
    }

    fn interrupted(&self, step: &str, done: usize, stop: Stop) -> Interrupted {
        Interrupted {
            step: step.to_owned(),
            done,
            received: Vec::new(),
            stop,
        }
    }
}
