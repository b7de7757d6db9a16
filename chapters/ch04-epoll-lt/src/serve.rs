//! The echo server: the interest list is kept by the kernel, and only the ready ones come back.
//!
//! Next to chapter 3's, the list of entries is gone from here. `epoll_ctl` tells the kernel once, and then
//! only what changes: a connection's mask, when its output buffer begins to hold bytes and when it is
//! empty again. In return, a turn costs what is ready, not what is watched.
//!
//! The kernel's list is about *open file descriptions*, and we speak of them by the numbers of
//! descriptors. Two things follow from that, and both are bugs in many servers:
//!
//! - An entry does not always go when we close our descriptor: if somebody else has a duplicate of it (a
//!   `dup`, a child process), the entry stays, and goes on reporting a number that we can no longer
//!   remove. So [`close`] removes the entry first, while the number still means something.
//! - A number is given to the next connection as soon as it is closed. The events of one batch were all
//!   gathered before we looked at the first of them. If serving one event closes a connection and serving
//!   the next accepts another, a third, meant for the old owner of the number, hits the new one. Here it
//!   cannot: the listener is served *after* the batch, so no number changes its owner within one, and
//!   whose number is not in `connections` any more is passed over. Chapter 5 uses tokens instead.

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

// ANCHOR: water-marks
/// A connection whose output buffer holds this many bytes is not read from. Together with one read and
/// the kernel's buffers that is all the memory a client can take.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// It is read from again when no more than this many are left. If that were the high-water mark too, a
/// slow client would cost two `epoll_ctl` with every piece that it takes.
const LOW_WATER_MARK: usize = 16 * 1024;
// ANCHOR_END: water-marks

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

pub fn serve(options: ServeOptions) -> Result<()> {
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
        // ANCHOR: loop
        let count = match sys::epoll_wait(&epoll, &mut events, timeout) {
            Ok(count) => count,
            // A signal came, and no event was taken from the ready list. Ask again.
            Err(Errno::EINTR) => continue,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        let ready = &events[..count];
        // ANCHOR_END: loop

        let before = connections.len();
        serve_ready(&epoll, ready, &mut connections);
        let has_closed_some = connections.len() < before;

        // ANCHOR: rest
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
        // ANCHOR_END: rest
    }
}

// ANCHOR: serve-ready
/// Serves each connection of a batch, and closes those that are done.
fn serve_ready(epoll: &OwnedFd, ready: &[EpollEvent], connections: &mut Connections) {
    for event in ready {
        let number = event.data() as RawFd;
        let Some(connection) = connections.get_mut(&number) else {
            continue;
        };
        // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
        let outcome = connection.on_ready(event.events());
        let is_over = outcome.is_err() || connection.is_finished();
        if is_over || connection.update(epoll).is_err() {
            let connection = connections.remove(&number).expect("it was found above");
            close(epoll, connection);
        }
    }
}
// ANCHOR_END: serve-ready

// ANCHOR: close
/// Removes the kernel's entry, then closes the descriptor, in this order.
fn close(epoll: &OwnedFd, connection: Connection) {
    // Whatever they return, the number is free afterwards.
    let _ = sys::epoll_ctl(epoll, EPOLL_CTL_DEL, &connection.fd, None);
    let _ = sys::close(connection.fd);
}
// ANCHOR_END: close

/// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
/// stays readable although nothing can be accepted, and a loop that watches it would spin.
fn accept_some(epoll: &OwnedFd, listener: &OwnedFd, connections: &mut Connections) -> Result<bool> {
    for _ in 0..ACCEPTS_PER_TURN {
        match sys::accept4(listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
            Ok(fd) => {
                let connection = Connection::new(fd);
                match watch(epoll, EPOLL_CTL_ADD, &connection.fd, connection.registered) {
                    Ok(()) => drop(connections.insert(connection.fd.as_raw_fd(), connection)),
                    // ENOMEM or ENOSPC: the kernel has no room for one more entry.
                    Err(errno) => {
                        kit::complain(format_args!("refused a connection: epoll_ctl ADD: {errno}"));
                        close(epoll, connection);
                    }
                }
            }
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

// ANCHOR: watch
/// Tells the kernel that a descriptor is watched for `mask`, and to hand its number back with the events.
fn watch(epoll: &OwnedFd, operation: i32, fd: &OwnedFd, mask: u32) -> sys::Result<()> {
    let event = EpollEvent::new(mask, data_of(fd));
    sys::epoll_ctl(epoll, operation, fd, Some(event))
}
// ANCHOR_END: watch

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

    // ANCHOR: interest
    /// What to ask for. It is never nothing: whoever is paused has output, and whoever is at the end and
    /// has none is closed.
    ///
    /// `EPOLLRDHUP`, "the peer has closed its sending side", is not among it. The read that returns 0 says
    /// the same, and level-triggered the bit would come back on every turn for as long as a client that
    /// has finished sending takes to fetch its echo.
    fn interest(&self) -> u32 {
        let mut events = 0;
        if self.wants_input() {
            events |= EPOLLIN;
        }
        if self.has_output() {
            events |= EPOLLOUT;
        }
        events
    }
    // ANCHOR_END: interest

    // ANCHOR: update
    /// Tells the kernel, if the interest has changed.
    fn update(&mut self, epoll: &OwnedFd) -> sys::Result<()> {
        let mask = self.interest();
        if mask != self.registered {
            watch(epoll, EPOLL_CTL_MOD, &self.fd, mask)?;
            self.registered = mask;
        }
        Ok(())
    }
    // ANCHOR_END: update

    /// `EPOLLERR` and `EPOLLHUP` come unasked, on every turn until the descriptor is closed. They do not
    /// say what happened, and bytes may still wait in front of it: so read, or write, and the call will
    /// tell.
    fn on_ready(&mut self, events: u32) -> sys::Result<()> {
        if self.wants_input() && events & (EPOLLIN | EPOLLERR | EPOLLHUP) != 0 {
            self.on_readable()?;
        }
        // Also what has just been read: there is room nearly always, and then epoll need not be asked.
        if self.has_output() {
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
            // Readiness was a hint, and it was wrong or somebody was quicker: wait again.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        self.paused |= self.output.len() - self.sent >= HIGH_WATER_MARK;
        Ok(())
    }

    /// Writes what goes. What does not go stays, and asks for writability.
    fn on_writable(&mut self) -> sys::Result<()> {
        match sys::write(&self.fd, &self.output[self.sent..]) {
            Ok(written) => self.sent += written,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        if !self.has_output() {
            // An idle connection keeps no buffer.
            self.output = Vec::new();
            self.sent = 0;
        } else if self.sent >= HIGH_WATER_MARK {
            // What is sent is dropped now and then, also for a client who never lets the buffer run empty.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.paused &= self.output.len() - self.sent > LOW_WATER_MARK;
        Ok(())
    }
}
