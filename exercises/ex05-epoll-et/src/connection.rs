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
        todo!("which events are a reason to read, and which a reason to write?")
    }

    /// Does all that can be done now: answers, sends, and receives when there is nothing left to answer.
    ///
    /// It returns [`Next::Wait`] only when a call has said `EAGAIN`, so that what it waits for is a *change*: only a
    /// change makes an edge.
    pub(crate) fn run(&mut self, others: &mut Connections) -> Result<Next> {
        todo!("answer, send, receive: again and again, until the socket says EAGAIN")
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
        todo!("write until the output buffer is empty or the socket is full")
    }

    /// From the socket to the input: one read, which `run` repeats until `EAGAIN` or the end. Returns whether
    /// it brought anything new: bytes, or the end.
    ///
    /// A read that does not fill the buffer is not the end of the episode. There may be more behind it, and no
    /// second event will say so.
    fn receive(&mut self) -> Result<bool> {
        todo!("one read: its four outcomes")
    }

    /// After the last reply: ends our side, reads to the end of the client's and throws it away, then closes.
    ///
    /// `close` with unread input resets the connection, and a reset destroys the replies that are still on
    /// their way. (A client that never ends its side keeps its descriptor for ever. Deadlines come with exercise 6.)
    fn linger(&mut self) -> Result<Next> {
        todo!("end our side, read to the end of the client's, then close")
    }

    /// Closes the socket, which also takes it off the interest list.
    pub(crate) fn close(self) {
        // Whatever it returns, the number is free afterwards, and there is nobody to tell.
        let _ = sys::close(self.socket);
    }
}
