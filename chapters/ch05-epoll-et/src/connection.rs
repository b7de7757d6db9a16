//! One connection of the edge-triggered server: what it does between an event and the next wait.
//!
//! ```text
//!  socket --receive--> input --answer--> reply --answer--> output --send--> socket
//!            ^                                               |
//!            +------- not before `answer` needs input -------+
//! ```
//!
//! Bytes are pulled, not pushed: a read is made only when no complete request is left in `input`, and
//! no request is taken from there while `output` is at its high-water mark. So a client that takes no
//! replies is soon not read from. Its requests wait in the kernel's receive buffer, then its own send
//! buffer fills, and then it waits. That is *back-pressure*, and it costs the server a fixed amount.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use http::{Action, CONTINUE, Framing, Parse, Parser, Response, route};
use sys::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EpollEvent, Errno, Result, SHUT_WR};

use crate::serve::Connections;

/// Bytes of one read. A larger number saves calls on large bodies; what comes in goes on to `input`.
pub(crate) const READ_SIZE: usize = 16 * 1024;

/// No further reply is made, and so no further request read, while `output` holds this many bytes. It is
/// enough to keep a fast client busy between two turns, and little enough for thousands of slow ones.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// What the loop does with a connection after its episode.
pub(crate) enum Next {
    /// Nothing: the next edge will tell.
    Wait,
    /// Close it. All is said, and all is heard.
    Close,
}

/// How far `answer` came, and therefore what has to happen before it can go on.
enum Answered {
    /// The output buffer is at its high-water mark: the client must take some.
    Full,
    /// Every complete request has its reply in the output buffer: more input must come.
    Hungry,
    /// So has the last request of this connection.
    Last,
}

pub(crate) struct Connection {
    socket: OwnedFd,
    /// An event has reported input, and no read has said `EAGAIN` since.
    readable: bool,
    /// An event has reported room, and no write has said `EAGAIN` since. A new socket has room. Who only
    /// writes when an event has just said so never sends the first reply: that event came long ago.
    writable: bool,
    /// The peer has ended its sending side. It may still be waiting for replies.
    ended: bool,
    /// Received and not yet used: the beginning of a request, or whole ones behind it.
    input: Vec<u8>,
    parser: Parser,
    /// Begun, and not yet all in `output`.
    reply: Option<Response>,
    /// No reply is made after this one.
    last: bool,
    /// Bytes to be sent, of which the first `sent` are sent already.
    output: Vec<u8>,
    sent: usize,
    /// Our sending side is shut down: see `linger`.
    lingering: bool,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            readable: false,
            writable: true,
            ended: false,
            input: Vec::new(),
            parser: Parser::new(),
            reply: None,
            last: false,
            output: Vec::new(),
            sent: 0,
            lingering: false,
        }
    }

    // ANCHOR: notice
    /// Remembers what an event says.
    ///
    /// An event is caused by one change, but its mask is the whole state of that moment: new bytes report
    /// `EPOLLIN|EPOLLOUT`. So a bit that is set says "you may try", not "this has just begun".
    ///
    /// `EPOLLRDHUP` only says that the stream will end: bytes may lie before its end, so it is a reason to
    /// read, not to close. An error or a hang-up is a reason to try both. The call says what it was.
    pub(crate) fn notice(&mut self, event: EpollEvent) {
        self.readable |= event.has(EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
        self.writable |= event.has(EPOLLOUT | EPOLLHUP | EPOLLERR);
    }
    // ANCHOR_END: notice

    // ANCHOR: run
    /// The episode: does all that can be done now.
    ///
    /// It returns [`Next::Wait`] only when `readable` or `writable` is false, whichever the connection
    /// depends on. So what it waits for is a change, and a change makes an event.
    ///
    /// `buffer` is where reads go first; `others` are all connections but this one.
    pub(crate) fn run(&mut self, buffer: &mut [u8], others: &mut Connections) -> Result<Next> {
        loop {
            let answered = self.answer(others);
            let sent = self.send()?;
            let moved = match answered {
                // If the socket took some, there is room for more, and it may be that no event says so.
                Answered::Full => sent,
                Answered::Hungry => self.receive(buffer)?,
                Answered::Last if self.output.is_empty() => return self.linger(buffer),
                Answered::Last => false,
            };
            if !moved {
                self.release();
                return Ok(Next::Wait);
            }
        }
    }
    // ANCHOR_END: run

    /// From `input` to `output`: as many replies, and as much of the last one, as there is room for.
    fn answer(&mut self, others: &mut Connections) -> Answered {
        self.output.drain(..self.sent);
        self.sent = 0;
        let mut used = 0;
        let answered = loop {
            let room = HIGH_WATER_MARK.saturating_sub(self.output.len());
            if room == 0 {
                break Answered::Full;
            }
            if let Some(reply) = &mut self.reply {
                if reply.fill(&mut self.output, room) {
                    self.last = !reply.keep_alive();
                    self.reply = None;
                }
                continue;
            }
            if self.last {
                break Answered::Last;
            }
            // A read knows nothing of requests: there may be a half one in `input`, or ten.
            match self.parser.parse(&self.input[used..]) {
                Parse::Incomplete(_) if self.ended => self.last = true,
                Parse::Incomplete(_) => break Answered::Hungry,
                Parse::Continue => self.output.extend_from_slice(CONTINUE),
                Parse::Refused(refusal) => self.reply = Some(Response::refusal(&refusal)),
                Parse::Complete(request, len) => {
                    used += len;
                    let (action, framing) = (route(&request), request.framing());
                    self.reply = Some(handle(action, framing, self.socket.as_raw_fd(), others));
                }
            }
        };
        self.input.drain(..used);
        answered
    }

    // ANCHOR: send
    /// From `output` to the socket, until all is gone or `EAGAIN`. Says whether any byte went.
    ///
    /// It tries first, and relies on `EPOLLOUT` only after `EAGAIN`. A write that takes a part is not the
    /// end: the next one begins with the first byte that was not taken.
    fn send(&mut self) -> Result<bool> {
        let mut moved = false;
        while self.writable && self.sent < self.output.len() {
            match sys::write(&self.socket, &self.output[self.sent..]) {
                Ok(taken) => {
                    self.sent += taken;
                    moved = true;
                }
                Err(Errno::EAGAIN) => self.writable = false,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        Ok(moved)
    }
    // ANCHOR_END: send

    // ANCHOR: receive
    /// From the socket to `input`: one read, which `run` repeats until `EAGAIN` or the end. Says whether it
    /// brought anything new.
    ///
    /// A read that fills only a part of the buffer is not the end: behind the bytes there may be the
    /// end of the stream, and its event is this one.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<bool> {
        while self.readable {
            match sys::read(&self.socket, buffer) {
                Ok(0) => {
                    self.ended = true;
                    self.readable = false;
                    return Ok(true);
                }
                Ok(len) => {
                    self.input.extend_from_slice(&buffer[..len]);
                    return Ok(true);
                }
                Err(Errno::EAGAIN) => self.readable = false,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }
    // ANCHOR_END: receive

    // ANCHOR: linger
    /// After the last reply: end our side, then read to the end of the peer's, then close.
    ///
    /// `close` with unread input resets the connection, and a reset destroys what is still on its way: a
    /// client that has sent more than we wanted to know would lose the end of its reply. So the rest is
    /// read and thrown away.
    fn linger(&mut self, buffer: &mut [u8]) -> Result<Next> {
        if !self.lingering && !self.ended {
            sys::shutdown(&self.socket, SHUT_WR)?;
            self.lingering = true;
        }
        self.input.clear();
        while !self.ended && self.receive(buffer)? {
            self.input.clear();
        }
        if self.ended {
            return Ok(Next::Close);
        }
        self.release();
        Ok(Next::Wait)
    }
    // ANCHOR_END: linger

    /// An idle connection keeps no buffers: with ten thousand of them, most are idle.
    fn release(&mut self) {
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Closes the socket. That also takes it off the interest list, because its descriptor was never
    /// duplicated: a registration lives as long as any number of its open file description.
    pub(crate) fn close(self) {
        // Whatever it returns, the number is free afterwards, and there is nobody to tell.
        let _ = sys::close(self.socket);
    }
}

/// Does what a request asks for, and returns the reply. `me` is the descriptor of its connection.
fn handle(action: Action, framing: Framing, me: RawFd, others: &mut Connections) -> Response {
    match action {
        Action::Reply(reply) => reply,
        // The two things that no event loop should do. They are here so that tests can do them.
        Action::Block(time) => {
            std::thread::sleep(time);
            Response::done(framing)
        }
        Action::Spin(time) => {
            spin(time);
            Response::done(framing)
        }
        Action::Who => Response::number(framing, me.into()),
        Action::Kick(fd) => {
            let mut all = others.iter();
            let found = all.find(|(_, other)| other.socket.as_raw_fd() == fd);
            let token = found.map(|(token, _)| *token);
            match token.and_then(|token| others.remove(&token)) {
                Some(other) => {
                    other.close();
                    Response::done(framing)
                }
                None => Response::not_found(framing),
            }
        }
        // Timers come with chapter 6, and workers with chapter 8.
        Action::After(_) | Action::Work(_) => Response::not_found(framing),
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
