//! A right server, for the grader's own tests: `right --listen ADDR:PORT` speaks echo, `right http --listen
//! ADDR:PORT` HTTP. One thread, `poll(2)`, an output buffer with a high-water mark for each connection.
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use http::{Action, Parse, Parser, Response, route};
use sys::{Errno, PollFd};

/// No more is read from a client that has this much waiting for it, in bytes.
const HIGH_WATER: usize = 64 * 1024;
/// While no descriptor is free the listener is not looked at for so long, in milliseconds.
const PAUSE: i32 = 50;

#[derive(Default)]
struct Connection {
    http: Option<(Parser, Option<Response>)>,
    input: Vec<u8>,
    output: Vec<u8>,
    ended: bool,
    closing: bool,
}

impl Connection {
    /// Turns input into output as long as there is room for it.
    fn advance(&mut self) {
        let Some((parser, reply)) = &mut self.http else {
            self.output.append(&mut self.input);
            return;
        };
        while !self.closing && self.output.len() < HIGH_WATER {
            if let Some(begun) = reply {
                let room = HIGH_WATER - self.output.len();
                if begun.fill(&mut self.output, room) {
                    self.closing = !begun.keep_alive();
                    *reply = None;
                }
                continue;
            }
            match parser.parse(&self.input) {
                Parse::Incomplete(_) => break,
                Parse::Continue => self.output.extend_from_slice(http::CONTINUE),
                Parse::Refused(refusal) => *reply = Some(Response::refusal(&refusal)),
                Parse::Complete(request, used) => {
                    *reply = Some(match route(&request) {
                        Action::Reply(reply) => reply,
                        _ => Response::not_found(request.framing()),
                    });
                    self.input.drain(..used);
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        let replying = matches!(&self.http, Some((_, Some(_))));
        self.output.is_empty() && !replying && (self.closing || self.ended)
    }

    /// Reads and writes what goes without waiting. False: the connection is over.
    fn serve(&mut self, socket: &OwnedFd) -> bool {
        let mut buf = [0; 16 * 1024];
        while !self.ended && self.output.len() < HIGH_WATER {
            match sys::read(socket, &mut buf) {
                Ok(0) => self.ended = true,
                Ok(n) => self.input.extend_from_slice(&buf[..n]),
                Err(Errno::EAGAIN) => break,
                Err(_) => return false,
            }
            self.advance();
        }
        loop {
            self.advance();
            if self.output.is_empty() {
                return !self.is_done();
            }
            match sys::write(socket, &self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(Errno::EAGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn main() -> Result<(), Errno> {
    let args: Vec<_> = std::env::args().collect();
    let speaks_http = args.iter().any(|arg| arg == "http");
    let addr = args.last().expect("an address").parse().expect("ADDR:PORT");
    let flags = sys::SOCK_NONBLOCK | sys::SOCK_CLOEXEC;
    let listener = sys::socket(sys::AF_INET, sys::SOCK_STREAM | flags, 0)?;
    sys::setsockopt(&listener, sys::SOL_SOCKET, sys::SO_REUSEADDR, 1)?;
    sys::bind(&listener, addr)?;
    sys::listen(&listener, 4096)?;
    println!("listening on {}", sys::getsockname(&listener)?);

    let mut connections: HashMap<RawFd, (OwnedFd, Connection)> = HashMap::new();
    let mut paused = false;
    loop {
        let mut fds = vec![PollFd::new(&listener, sys::POLLIN)];
        if paused {
            fds[0].fd = -1;
        }
        for (socket, connection) in connections.values() {
            let mut events = 0;
            if !connection.ended && connection.output.len() < HIGH_WATER {
                events |= sys::POLLIN;
            }
            if !connection.output.is_empty() {
                events |= sys::POLLOUT;
            }
            fds.push(PollFd::new(socket, events));
        }
        if let Err(errno) = sys::poll(&mut fds, if paused { PAUSE } else { -1 })
            && errno != Errno::EINTR
        {
            return Err(errno);
        }
        paused = false;
        for entry in fds[1..].iter().filter(|entry| entry.revents != 0) {
            let (socket, connection) = connections.get_mut(&entry.fd).expect("it was asked for");
            if !connection.serve(socket) {
                connections.remove(&entry.fd);
            }
        }
        loop {
            match sys::accept4(&listener, flags) {
                Ok(socket) => {
                    let http = speaks_http.then(|| (Parser::default(), None));
                    let connection = Connection {
                        http,
                        ..Connection::default()
                    };
                    connections.insert(socket.as_raw_fd(), (socket, connection));
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EMFILE | Errno::ENFILE) => {
                    paused = true;
                    break;
                }
                Err(_) => {}
            }
        }
    }
}
