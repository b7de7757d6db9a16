//! Exercise 4: an echo server on level-triggered `epoll`.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused)]

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLHUP, EPOLLIN,
    EPOLLOUT, EpollEvent, Errno, SOCK_CLOEXEC, SOCK_NONBLOCK,
};

/// Bytes of one read. Level-triggered readiness repeats, so a small number costs turns, not data.
const READ_SIZE: usize = 16 * 1024;

/// A connection whose output buffer holds this many bytes is not read from. Together with one read and
/// the kernel's buffers that is all the memory a client can take.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// It is read from again when no more than this many are left. If that were the high-water mark too, a
/// slow client would cost two `epoll_ctl` with every piece that it takes.
const LOW_WATER_MARK: usize = 16 * 1024;

/// Connections accepted in one turn, so that a flood of new clients does not keep the old ones waiting. The
/// rest of the queue is reported again on the next turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Events handed over by one `epoll_wait`. What does not fit comes with the next call.
const EVENTS_PER_TURN: usize = 256;

/// How long the listener rests when there is no descriptor left for a new connection. The close of a
/// connection ends the rest at once; it has an end of its own because the limit can also be the whole
/// system's, and then it is somebody else who closes.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Until something happens, in the timeout of `epoll_wait`.
const FOR_EVER: i32 = -1;

/// The open connections by their descriptor's number, which is also the data of their events.
type Connections = HashMap<RawFd, Connection>;

struct Connection {
    fd: OwnedFd,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
    /// The output buffer has reached the high-water mark, and not yet fallen to the low one.
    paused: bool,
    /// The peer has closed its sending side: send what is left, then close.
    at_end: bool,
    /// The mask in the kernel's list.
    registered: u32,
}

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ServeOptions) -> Result<()> {
    let listener = kit::listen(options.listen, SOCK_NONBLOCK)?;
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    watch(&epoll, EPOLL_CTL_ADD, &listener, EPOLLIN).context("epoll_ctl ADD")?;
    let mut connections = Connections::new();
    let mut events = vec![EpollEvent::EMPTY; EVENTS_PER_TURN];
    let mut rests_until: Option<Instant> = None;

    loop {
        let timeout = match rests_until {
            Some(_) => NO_ROOM_PAUSE.as_millis() as i32,
            None => FOR_EVER,
        };
        let count = match sys::epoll_wait(&epoll, &mut events, timeout) {
            Ok(count) => count,
            // A signal came, and no event was taken from the ready list. Ask again.
            Err(Errno::EINTR) => continue,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        let ready = &events[..count];

        let before = connections.len();
        serve_ready(&epoll, ready, &mut connections);
        let has_closed_some = connections.len() < before;

        // After the connections: the descriptors that this turn has closed are free again.
        let is_listener = |event: &EpollEvent| event.data() == data_of(&listener);
        if ready.iter().any(is_listener) && !accept_some(&epoll, &listener, &mut connections)? {
            // Not a mask of 0: errors and hang-ups would still be reported.
            sys::epoll_ctl(&epoll, EPOLL_CTL_DEL, &listener, None).context("epoll_ctl DEL")?;
            rests_until = Some(Instant::now() + NO_ROOM_PAUSE);
        } else if rests_until.is_some_and(|end| has_closed_some || Instant::now() >= end) {
            watch(&epoll, EPOLL_CTL_ADD, &listener, EPOLLIN).context("epoll_ctl ADD")?;
            rests_until = None;
        }
    }
}

/// Serves each connection of a batch, and closes those that are done.
fn serve_ready(epoll: &OwnedFd, ready: &[EpollEvent], connections: &mut Connections) {
    todo!("serve those that are ready, update their interest, close those that are done")
}

/// Ends a connection: its entry in the interest list, and its descriptor.
fn close(epoll: &OwnedFd, connection: Connection) {
    todo!("the entry in the interest list, and the descriptor: in which order?")
}

/// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
/// stays readable although nothing can be accepted, and a loop that watches it would spin.
fn accept_some(epoll: &OwnedFd, listener: &OwnedFd, connections: &mut Connections) -> Result<bool> {
    todo!("accept what waits: a connection and an entry for each")
}

/// Tells the kernel that a descriptor is watched for `mask`, and to hand its number back with the events.
fn watch(epoll: &OwnedFd, operation: i32, fd: &OwnedFd, mask: u32) -> sys::Result<()> {
    todo!("one epoll_ctl, with an event made of the mask and data_of(fd)")
}

fn data_of(fd: &OwnedFd) -> u64 {
    fd.as_raw_fd() as u64
}

impl Connection {
    fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            output: Vec::new(),
            sent: 0,
            paused: false,
            at_end: false,
            registered: EPOLLIN,
        }
    }

    fn wants_input(&self) -> bool {
        !self.at_end && !self.paused
    }

    fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    fn is_finished(&self) -> bool {
        self.at_end && !self.has_output()
    }

    /// What to ask for. It is never nothing: whoever is paused has output, and whoever is at the end and
    /// has none is closed.
    ///
    /// `EPOLLRDHUP`, "the peer has closed its sending side", is not among it. The read that returns 0 says
    /// the same, and level-triggered the bit would come back on every turn for as long as a client that
    /// has finished sending takes to fetch its echo.
    fn interest(&self) -> u32 {
        todo!("EPOLLIN, EPOLLOUT, or both")
    }

    /// Tells the kernel, if the interest has changed.
    fn update(&mut self, epoll: &OwnedFd) -> sys::Result<()> {
        todo!("tell the kernel, if the interest is not the one that it knows")
    }

    /// `EPOLLERR` and `EPOLLHUP` come unasked, on every turn until the descriptor is closed. They do not
    /// say what happened, and bytes may still wait in front of it: so read, or write, and the call will
    /// tell.
    fn on_ready(&mut self, events: u32) -> sys::Result<()> {
        todo!("read or write, by what is reported; and EPOLLERR, EPOLLHUP?")
    }

    /// The four outcomes of a non-blocking read, each with its own action.
    fn on_readable(&mut self) -> sys::Result<()> {
        todo!("the four outcomes of a read; and the high-water mark")
    }

    /// Writes what goes. What does not go stays, and asks for writability.
    fn on_writable(&mut self) -> sys::Result<()> {
        todo!("write what goes, keep what does not; and the low-water mark")
    }
}
