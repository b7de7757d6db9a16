//! One client's socket, edge-triggered: what happens between an event and the next wait.
//!
//! ```text
//!  socket --receive--> exchange.input --answer--> output --send--> socket
//!            ^                                      |
//!            +------- only when answer is Hungry ---+
//! ```
//!
//! Bytes are pulled: nothing is read while a whole request is still to be answered, and no request is answered while
//! the output buffer is full. So a client that takes no replies is not read from (*back-pressure*).

use std::os::fd::{AsRawFd, OwnedFd};

use sys::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EpollEvent, Errno, Result, SHUT_WR};

use crate::Connections;
use crate::exchange::{Answered, Exchange};

/// Bytes of one read.
const READ_SIZE: usize = 16 * 1024;

/// What becomes of a connection after `run`.
pub(crate) enum Next {
    /// It waits for the next edge.
    Wait,
    /// It is closed. All is said, and all is heard.
    Close,
}

pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// There may be something to read: an event has said so, and no read has said `EAGAIN` since.
    readable: bool,
    /// There may be room: no write has said `EAGAIN` since the last event that reported some. A new socket has
    /// room. No event need say so first, because nothing has changed.
    writable: bool,
    /// A read has returned 0: no more requests will come. The client may still be waiting for replies.
    ended: bool,
    /// Our sending side is shut down.
    lingering: bool,
    exchange: Exchange,
    /// Bytes to be sent, the first `sent` of which are sent.
    output: Vec<u8>,
    sent: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            readable: false,
            writable: true,
            ended: false,
            lingering: false,
            exchange: Exchange::default(),
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Remembers what an event says.
    ///
    /// `EPOLLRDHUP` says that the client has ended its side, but bytes may lie before the end: a reason to read,
    /// not to close. After an error or a hang-up both calls are worth a try. They tell what it was.
    pub(crate) fn notice(&mut self, event: EpollEvent) {
        self.readable |= event.has(EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP);
        self.writable |= event.has(EPOLLOUT | EPOLLERR | EPOLLHUP);
    }

    /// Does all that can be done now: answers, sends, and receives when there is nothing left to answer.
    ///
    /// It returns [`Next::Wait`] only when a call has said `EAGAIN`, so that what it waits for is a *change*: only a
    /// change makes an edge.
    pub(crate) fn run(&mut self, others: &mut Connections) -> Result<Next> {
        loop {
            let answered = self.answer(others);
            let sent = self.send()?;
            let moved = match answered {
                // If some of it went, there is room for more.
                Answered::Full => sent,
                Answered::Hungry => self.receive()?,
                Answered::Last if self.output.is_empty() => return self.linger(),
                Answered::Last => false,
            };
            if !moved {
                return Ok(Next::Wait);
            }
        }
    }

    /// From the input to the output buffer: as many replies as there is room for. Given; `exchange.rs` does it.
    fn answer(&mut self, others: &mut Connections) -> Answered {
        self.output.drain(..self.sent);
        self.sent = 0;
        let me = self.socket.as_raw_fd();
        self.exchange
            .answer(&mut self.output, self.ended, me, others)
    }

    /// From the output buffer to the socket, until all is gone or `EAGAIN`. Returns whether any byte went. When all is
    /// gone, clears the buffer and sets `sent` to 0: `run` asks `is_empty()`. A write can take a part. The next one
    /// begins with the first byte that was not taken.
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

    /// From the socket to the input: one read, which `run` repeats until `EAGAIN` or the end. Returns whether
    /// it brought anything new: bytes, or the end.
    ///
    /// A read that does not fill the buffer is not the end of the episode. There may be more behind it, and no
    /// second event will say so.
    fn receive(&mut self) -> Result<bool> {
        let mut buffer = [0; READ_SIZE];
        while self.readable {
            match sys::read(&self.socket, &mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    self.readable = false;
                    return Ok(true);
                }
                Ok(len) => {
                    self.exchange.input.extend_from_slice(&buffer[..len]);
                    return Ok(true);
                }
                Err(Errno::EAGAIN) => self.readable = false,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }

    /// After the last reply: ends our side, reads to the end of the client's and throws it away, then closes.
    ///
    /// `close` with unread input resets the connection, and a reset destroys the replies that are still on
    /// their way. (A client that never ends its side keeps its descriptor for ever. Deadlines come with exercise 6.)
    fn linger(&mut self) -> Result<Next> {
        if !self.ended && !self.lingering {
            sys::shutdown(&self.socket, SHUT_WR)?;
            self.lingering = true;
        }
        while !self.ended {
            if !self.receive()? {
                return Ok(Next::Wait);
            }
            self.exchange.input.clear();
        }
        Ok(Next::Close)
    }

    /// Closes the socket, which also takes it off the interest list.
    pub(crate) fn close(self) {
        // Whatever it returns, the number is free afterwards, and there is nobody to tell.
        let _ = sys::close(self.socket);
    }
}
