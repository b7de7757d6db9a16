//! Exercise 3: an echo server on `poll`, with an output buffer for each connection.
#![forbid(unsafe_code)]
// While parts are not written, the compiler would warn about what they will use. Remove this line at the end.
#![allow(unused, clippy::ptr_arg)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{
    Errno, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, PollFd, SOCK_CLOEXEC, SOCK_NONBLOCK,
};

/// Bytes of one read. What is left is reported on the next turn, so a small number costs turns, not data.
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

fn main() -> std::process::ExitCode {
    kit::server(serve)
}

fn serve(options: ServeOptions) -> Result<()> {
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

/// Serves each connection whose entry came back with something in `revents`, and closes those that are
/// done.
///
/// From the last to the first, because connections close on the way. `swap_remove` fills the hole with the
/// last of the list, which has been served already. Forwards, it would be passed over (or, with `remove`,
/// the next one would), and wait for its turn although it is ready.
fn serve_ready(entries: &mut Vec<PollFd>, connections: &mut Vec<Connection>) {
    todo!("serve each entry that came back with something, and close what is done")
}

/// Accepts what waits in the queue. Returns false if the listener must rest: at the descriptor limit it
/// stays readable although nothing can be accepted, and a loop that watches it would spin.
fn accept_some(
    listener: &OwnedFd,
    entries: &mut Vec<PollFd>,
    connections: &mut Vec<Connection>,
) -> Result<bool> {
    todo!("accept what waits: an entry and a connection for each")
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

    /// What to ask for. It is never nothing: whoever is paused has output, and whoever is at the end and
    /// has none is closed.
    fn interest(&self) -> i16 {
        todo!("POLLIN, POLLOUT, or both")
    }

    /// `POLLERR` and `POLLHUP` come unasked, on every turn until the descriptor is closed. They do not say
    /// what happened, and bytes may still wait in front of it: so read, or write, and the call will tell.
    fn on_ready(&mut self, revents: i16) -> sys::Result<()> {
        todo!("read or write, by what came back; and POLLERR, POLLHUP, POLLNVAL?")
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
