//! The stage of the demonstration: a reactor that reports what it does, and clients in the same process.
//!
//! One thread plays both sides. A client does something, then the loop turns once, and so on: what
//! happens first is decided here and not by a scheduler.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ch06_reactor::journal::{Cause, Happening};
use ch06_reactor::{Limits, Reactor, Turn};
use sys::{AF_INET, SO_RCVBUF, SO_SNDBUF, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET};

pub(crate) struct Stage {
    reactor: Reactor,
    addr: SocketAddrV4,
    /// What has happened and is not printed yet.
    journal: Rc<RefCell<Vec<Happening>>>,
}

impl Stage {
    /// A server. `room` is the size of its connections' send buffers in bytes, if that matters.
    pub(crate) fn new(limits: Limits, room: Option<i32>) -> Result<Stage> {
        let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK)?;
        if let Some(bytes) = room {
            // Connections inherit it from their listener.
            sys::setsockopt(&listener, SOL_SOCKET, SO_SNDBUF, bytes).context("setsockopt")?;
        }
        let addr = sys::getsockname(&listener).context("getsockname")?;
        let mut reactor = Reactor::new(limits)?;
        reactor.listen(listener)?;
        let journal = Rc::new(RefCell::new(Vec::new()));
        let pen = Rc::clone(&journal);
        reactor.set_observer(Box::new(move |happening| pen.borrow_mut().push(happening)));
        Ok(Stage {
            reactor,
            addr,
            journal,
        })
    }

    /// A client connects. `room` is the size of its receive buffer in bytes, if that matters.
    pub(crate) fn connect(&self, room: Option<i32>) -> Result<Client> {
        let socket = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
        if let Some(bytes) = room {
            // Before the handshake, which tells the server how much it may send.
            sys::setsockopt(&socket, SOL_SOCKET, SO_RCVBUF, bytes).context("setsockopt")?;
        }
        let outcome = sys::connect(&socket, self.addr);
        outcome.with_context(|| format!("connect to {}", self.addr))?;
        Ok(Client { socket })
    }

    /// One turn of the loop, and what happened in it. It waits until there is something to do; a turn that a
    /// debugger or `SIGCONT` has cut short does not count.
    pub(crate) fn turn(&mut self) -> Result<Turn> {
        loop {
            let turn = self.reactor.turn()?;
            if turn != Turn::default() {
                self.print();
                return Ok(turn);
            }
        }
    }

    /// One turn that ends after a while, even if nothing happens.
    pub(crate) fn turn_within(&mut self, longest: Duration) -> Result<Turn> {
        let turn = self.reactor.turn_within(longest);
        self.print();
        turn
    }

    /// Bytes of replies that the kernel has taken so far, as the writes reported them.
    pub(crate) fn written(&self) -> usize {
        usize::try_from(self.reactor.metrics().bytes_written).unwrap_or(usize::MAX)
    }

    /// How many connections the server has.
    pub(crate) fn connections(&self) -> usize {
        self.reactor.connections().count()
    }

    /// A call and the changes of state that it led to are one line.
    fn print(&self) {
        let mut line = String::new();
        for happening in self.journal.borrow_mut().drain(..) {
            let words = match happening {
                Happening::State(_, from, to) => {
                    let width = CALL_WIDTH.max(line.len() + 1);
                    line = match line.ends_with(&from.to_string()) {
                        true => format!("{line} -> {to}"),
                        false => format!("{line:width$}{from} -> {to}"),
                    };
                    continue;
                }
                Happening::Accept(Ok(fd)) => {
                    format!("{:CALL_WIDTH$}KEEPALIVE", format!("accept4 = {fd}"))
                }
                Happening::Accept(Err(errno)) => format!("accept4 = -1 {}", errno.name()),
                Happening::ListenerPaused => "the listener is not watched any more".to_owned(),
                Happening::ListenerResumed => "the listener is watched again".to_owned(),
                Happening::Read(fd, Ok(bytes)) => format!("read({fd}) = {bytes}"),
                Happening::Read(fd, Err(errno)) => format!("read({fd}) = -1 {}", errno.name()),
                // How much a kernel takes is its own affair, and differs from one to the next.
                Happening::Write(fd, offered, Ok(taken)) if taken < offered => {
                    format!("write({fd}) = a part")
                }
                Happening::Write(fd, _, Ok(_)) => format!("write({fd}) = all the rest"),
                Happening::Write(fd, _, Err(errno)) => format!("write({fd}) = -1 {}", errno.name()),
                Happening::Deadline(fd, phase) => {
                    format!("the deadline of {fd} has come, in {phase}")
                }
                Happening::Close(fd, Cause::Finished) => format!("close({fd}), all is said"),
                Happening::Close(fd, Cause::Timeout) => format!("close({fd}), it took too long"),
                Happening::Close(fd, cause) => format!("close({fd}), {cause:?}"),
            };
            if !line.is_empty() {
                kit::say!("    {line}");
            }
            line = words;
        }
        if !line.is_empty() {
            kit::say!("    {line}");
        }
    }

    /// Ends the server.
    pub(crate) fn close(self) -> Result<()> {
        self.reactor.end()
    }
}

/// Where the states are printed, in characters from the start of the call.
const CALL_WIDTH: usize = 28;

/// A client with a blocking socket: its calls wait until they are done.
pub(crate) struct Client {
    socket: OwnedFd,
}

impl Client {
    pub(crate) fn fd(&self) -> u64 {
        u64::try_from(self.socket.as_raw_fd()).expect("a descriptor is not negative")
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize> {
        let sent = sys::write(&self.socket, bytes).context("write of a client")?;
        ensure!(
            sent == bytes.len(),
            "a client's socket took {sent} bytes of {}",
            bytes.len()
        );
        Ok(sent)
    }

    /// Reads so many bytes, in however many pieces they come.
    pub(crate) fn read_exactly(&self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match sys::read(&self.socket, &mut bytes[done..]).context("read of a client")? {
                0 => anyhow::bail!("the stream ended after {done} of {len} bytes"),
                count => done += count,
            }
        }
        Ok(bytes)
    }

    /// One read, which waits for bytes or for the end of the stream.
    pub(crate) fn read(&self) -> Result<usize> {
        let mut buffer = [0; 1024];
        sys::read(&self.socket, &mut buffer).context("read of a client")
    }

    pub(crate) fn close(self) -> Result<()> {
        sys::close(self.socket).context("close of a client")
    }
}

/// How many bytes this kernel takes from a server whose client does not read, with send and receive buffers
/// of this size. The kernel decides that by rules of its own, which are not for us to repeat: a connection
/// that is made for this question alone answers it.
pub(crate) fn appetite(limits: Limits, room: i32) -> Result<usize> {
    let mut stage = Stage::new(limits, Some(room))?;
    let client = stage.connect(Some(room))?;
    stage.reactor.turn()?;
    client.send(b"GET /bytes/1000000 HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    stage.reactor.turn()?;
    let taken = stage.written();
    client.close()?;
    stage.close()?;
    Ok(taken)
}
