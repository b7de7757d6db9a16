//! The echo server: `poll`, an output buffer for each connection, and no limit but the machine's.
//!
//! Next to chapter 2's, two things have changed. The question and the answer are different fields of an
//! entry (`events` and `revents`), so the list is kept from turn to turn, and only the entries of
//! connections that changed are touched. And an entry holds a whole number, not a bit in a row of 1024, so
//! a descriptor can be as high as the descriptor limit allows (`ulimit -n`; raise it for many clients).
//!
//! What has not changed is the cost. Every turn hands the whole list to the kernel, which looks at every
//! entry, and then so do we: for one client that speaks among 10,000 that are silent.
//!
//! A list that is used while it is edited is a trap of its own: see [`serve_ready`].

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{
    Errno, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, PollFd, SOCK_CLOEXEC, SOCK_NONBLOCK,
};

/// Bytes of one read. What is left is reported again, so a small number costs turns, not data.
const READ_SIZE: usize = 16 * 1024;

/// A connection whose output buffer holds this many bytes is not read from. Together with one read and
/// the kernel's buffers that is all the memory a client can take.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// It is read from again when no more than this many are left. If that were the high-water mark too, a
/// slow client would stop and start its own reading with every piece that it takes.
const LOW_WATER_MARK: usize = 16 * 1024;

/// Connections accepted in one turn, so that a flood of new clients does not keep the old ones waiting. The
/// rest of the queue is reported again on the next turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long the listener rests when there is no descriptor left for a new connection. The close of a
/// connection ends the rest at once; it has an end of its own because the limit can also be the whole
/// system's, and then it is somebody else who closes.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Until something happens, in the timeout of `poll`.
const FOR_EVER: i32 = -1;

/// The place of the listener in the list of entries. The connections are behind it.
const LISTENER: usize = 0;

struct Connection {
    fd: OwnedFd,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
    /// The output buffer has reached the high-water mark, and not yet fallen to the low one.
    paused: bool,
    /// The peer has closed its sending side: send what is left, then close.
    at_end: bool,
}

pub fn serve(options: ServeOptions) -> Result<()> {
    let listener = kit::listen(options.listen, SOCK_NONBLOCK)?;
    // Two lists side by side: the entry of `connections[i]` is `entries[i + 1]`.
    let mut entries = vec![PollFd::new(&listener, POLLIN)];
    let mut connections: Vec<Connection> = Vec::new();
    let mut rests_until: Option<Instant> = None;

    loop {
        let timeout = match rests_until {
            Some(_) => NO_ROOM_PAUSE.as_millis() as i32,
            None => FOR_EVER,
        };
        match sys::poll(&mut entries, timeout) {
            Ok(_) => {}
            // A signal came: nothing is known about any descriptor. Ask again.
            Err(Errno::EINTR) => continue,
            // EINVAL among them: more entries than the descriptor limit. There cannot be, unless somebody
            // lowers the limit under a running server.
            Err(errno) => bail!("poll of {} descriptors: {errno}", entries.len()),
        }

        let before = connections.len();
        serve_ready(&mut entries, &mut connections);
        let has_closed_some = connections.len() < before;

        // After the connections: the descriptors that this turn has closed are free again.
        if entries[LISTENER].revents != 0
            && !accept_some(&listener, &mut entries, &mut connections)?
        {
            // poll skips an entry with a negative number.
            entries[LISTENER].fd = -1;
            rests_until = Some(Instant::now() + NO_ROOM_PAUSE);
        } else if rests_until.is_some_and(|end| has_closed_some || Instant::now() >= end) {
            entries[LISTENER].fd = listener.as_raw_fd();
            rests_until = None;
        }
    }
}

// ANCHOR: serve-ready
/// Serves each connection whose entry came back with something in `revents`, and closes those that are
/// done.
///
/// From the last to the first, because connections close on the way. `swap_remove` fills the hole with the
/// last of the list, which has been served already. Forwards, it would be passed over (or, with `remove`,
/// the next one would), and wait for its turn although it is ready.
fn serve_ready(entries: &mut Vec<PollFd>, connections: &mut Vec<Connection>) {
    for place in (LISTENER + 1..entries.len()).rev() {
        let revents = entries[place].revents;
        if revents == 0 {
            continue;
        }
        let connection = &mut connections[place - 1];
        // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and go on.
        if connection.on_ready(revents).is_ok() && !connection.is_finished() {
            entries[place].events = connection.interest();
        } else {
            entries.swap_remove(place);
            // Whatever close returns, the number is free afterwards.
            let _ = sys::close(connections.swap_remove(place - 1).fd);
        }
    }
}
// ANCHOR_END: serve-ready

/// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
/// stays readable although nothing can be accepted, and a loop that watches it would spin.
fn accept_some(
    listener: &OwnedFd,
    entries: &mut Vec<PollFd>,
    connections: &mut Vec<Connection>,
) -> Result<bool> {
    for _ in 0..ACCEPTS_PER_TURN {
        match sys::accept4(listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
            Ok(fd) => {
                let connection = Connection::new(fd);
                entries.push(PollFd::new(&connection.fd, connection.interest()));
                connections.push(connection);
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

impl Connection {
    fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            output: Vec::new(),
            sent: 0,
            paused: false,
            at_end: false,
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
    fn interest(&self) -> i16 {
        let mut events = 0;
        if self.wants_input() {
            events |= POLLIN;
        }
        if self.has_output() {
            events |= POLLOUT;
        }
        events
    }
    // ANCHOR_END: interest

    // ANCHOR: on-ready
    /// `POLLERR` and `POLLHUP` come unasked, on every turn until the descriptor is closed. They do not say
    /// what happened, and bytes may still wait in front of it: so read, or write, and the call will tell.
    fn on_ready(&mut self, revents: i16) -> sys::Result<()> {
        if revents & POLLNVAL != 0 {
            // Not open. The lists keep step with what is open, so only a mistake in here can bring this
            // about. The entry must go all the same: it would be reported for ever.
            return Err(Errno::EBADF);
        }
        if self.wants_input() && revents & (POLLIN | POLLERR | POLLHUP) != 0 {
            self.on_readable()?;
        }
        // Also what has just been read: there is room nearly always, and then poll need not be asked.
        if self.has_output() {
            self.on_writable()?;
        }
        Ok(())
    }
    // ANCHOR_END: on-ready

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

    // ANCHOR: on-writable
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
    // ANCHOR_END: on-writable
}
