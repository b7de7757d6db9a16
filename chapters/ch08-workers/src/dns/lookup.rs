//! A lookup on the loop: a handler with a UDP socket, and a timer for the case that nobody answers.
//!
//! ```text
//!            write                    read: the answer
//!   begin ----------> ASKED --------------------------------> over: the addresses
//!                     ^   |   read: something else (ignored)
//!         write again |   |
//!                     +---+---- the timer: asked often enough -> over: nobody answers
//!                       the timer
//! ```

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::{Handler, Instant, Reactor, TimerId, Token};
use sys::{AF_INET, EPOLLIN, Errno, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK};

use super::message::{self, ANSWER_MOST, Answer};

/// A name server, and what is expected of it.
#[derive(Clone, Copy, Debug)]
pub struct NameServer {
    /// Where it is.
    pub addr: SocketAddrV4,
    /// How long an answer may take before the question is sent again: a datagram can get lost.
    pub patience: Duration,
    /// How often the question is sent.
    pub attempts: u32,
}

impl NameServer {
    /// A name server on the Internet: two seconds are more than the slowest of them need, and three lost datagrams
    /// in a row are no accident.
    #[must_use]
    pub fn at(addr: SocketAddrV4) -> NameServer {
        NameServer {
            addr,
            patience: Duration::from_secs(2),
            attempts: 3,
        }
    }
}

/// Datagrams of one turn. Whoever can send to the socket can send many.
const DATAGRAMS_A_TURN: usize = 16;

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is no name: a label is empty or too long.
    NotAName,
    /// The name does not exist.
    NoSuchName,
    /// The server could not or would not find out: its code (RFC 1035 section 4.1.1).
    Refused(u16),
    /// The answer is too long for a datagram.
    Truncated,
    /// Nobody has answered.
    Silence,
    /// A call failed: `ECONNREFUSED` if no name server is there.
    Call(Errno),
}

/// What is done with the result. It runs in the loop.
pub type Then = Box<dyn FnOnce(&mut Reactor, Result<Vec<Ipv4Addr>, Failure>) -> Result<()>>;

/// A lookup under way.
pub struct Lookup {
    server: NameServer,
    socket: OwnedFd,
    question: Vec<u8>,
    /// How often it was sent.
    sent: u32,
    then: Option<Then>,
}

// ANCHOR: lookup
/// Asks `server` for the addresses of `name`, and returns at once. `then` is called when there is a result: in a
/// later turn, or now if the question cannot even be sent.
pub fn lookup(reactor: &mut Reactor, server: NameServer, name: &str, then: Then) -> Result<()> {
    let Some(question) = message::question(random(), name) else {
        return then(reactor, Err(Failure::NotAName));
    };
    let socket = sys::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    // For UDP, `connect` sends nothing. It says that only datagrams from this address are wanted.
    let connected = socket.and_then(|socket| sys::connect(&socket, server.addr).map(|()| socket));
    let asked = connected.and_then(|socket| sys::write(&socket, &question).map(|_| socket));
    let socket = match asked {
        Ok(socket) => socket,
        Err(errno) => return then(reactor, Err(Failure::Call(errno))),
    };
    let lookup = Lookup {
        server,
        socket,
        question,
        sent: 1,
        then: Some(then),
    };
    let me = reactor.register(Box::new(lookup), EPOLLIN)?;
    reactor.set_timer(me, Instant::now().after(server.patience));
    Ok(())
}

impl Handler for Lookup {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn ready(&mut self, reactor: &mut Reactor, me: Token, _events: u32) -> Result<()> {
        for _ in 0..DATAGRAMS_A_TURN {
            let mut datagram = [0; ANSWER_MOST];
            // One read is one datagram, whole. Here, and only here, a message has its bounds.
            match sys::read(&self.socket, &mut datagram) {
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
                Err(errno) => return self.end(reactor, me, Err(Failure::Call(errno))),
                Ok(len) => {
                    if let Some(answer) = message::answer(&self.question, &datagram[..len]) {
                        return self.end(reactor, me, result(answer));
                    }
                }
            }
        }
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, me: Token, _timer: TimerId) -> Result<()> {
        if self.sent == self.server.attempts {
            return self.end(reactor, me, Err(Failure::Silence));
        }
        self.sent += 1;
        match sys::write(&self.socket, &self.question) {
            // No room: then this attempt is lost, as any datagram may be.
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return self.end(reactor, me, Err(Failure::Call(errno))),
        }
        reactor.set_timer(me, reactor.now().after(self.server.patience));
        Ok(())
    }
}
// ANCHOR_END: lookup

impl Lookup {
    /// Leaves the loop, and tells the result.
    fn end(
        &mut self,
        reactor: &mut Reactor,
        me: Token,
        result: Result<Vec<Ipv4Addr>, Failure>,
    ) -> Result<()> {
        // Its timer finds nobody: the token is stale from here on.
        reactor.deregister(me).context("end of a lookup")?;
        match self.then.take() {
            Some(then) => then(reactor, result),
            None => Ok(()),
        }
    }
}

/// What an answer is to whoever asked.
pub fn result(answer: Answer) -> Result<Vec<Ipv4Addr>, Failure> {
    match answer {
        Answer::Addresses(addresses) => Ok(addresses),
        Answer::NoSuchName => Err(Failure::NoSuchName),
        Answer::Truncated => Err(Failure::Truncated),
        Answer::Refused(code) => Err(Failure::Refused(code)),
    }
}

/// A number that nobody can guess: whoever guesses it, and the socket's port, can forge an answer. The standard
/// library seeds its hash maps with such numbers.
pub fn random() -> u16 {
    RandomState::new().hash_one(()) as u16
}
