//! The server of this chapter, clients that speak HTTP to it, and what is expected of both.
#![allow(dead_code)] // each test program uses a part of it

use std::fmt::Display;
use std::path::{Path, PathBuf};

use grader::peer::Connect;
use grader::wait::{idle_cpu, wait_for};
use grader::{DEADLINE, Ending, Peer, Program, Server, probe};
use sys::{EPOLLERR, EPOLLHUP};
use trace::{Event, Expected, Line};

pub const HELLO: &[u8] = b"epoll ET reactor\r\n";

pub fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ch06-reactor")).args(["serve"])
}

#[track_caller]
pub fn start(program: Program) -> Server {
    fine(program.start())
}

/// A server with one of its options, in milliseconds or connections.
#[track_caller]
pub fn start_with(option: &str, number: u32) -> Server {
    start(program().options([option, &number.to_string()]))
}

#[track_caller]
pub fn connect(server: &Server) -> Peer {
    fine(Peer::connect(server.addr()))
}

/// A client with so little room that the server soon meets a short write.
#[track_caller]
pub fn narrow(server: &Server) -> Peer {
    fine(Connect::to(server.addr()).narrow().connect())
}

/// A `GET` request that leaves the connection open.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// A `GET` request after which the connection closes.
pub fn last(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes()
}

/// The head of a `POST /echo` request.
pub fn post_head(len: usize) -> Vec<u8> {
    format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n").into_bytes()
}

/// A `POST /echo` request.
pub fn post(body: &[u8]) -> Vec<u8> {
    [&post_head(body.len()), body].concat()
}

/// The body of `/bytes/LEN`.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut body = Vec::new();
    http::pattern::append(&mut body, 0, len);
    body
}

/// The head of a reply, as far as the tests look at it.
pub struct Head {
    pub status: u16,
    pub len: usize,
    pub closes: bool,
}

/// Reads the head of a reply, and nothing behind it.
#[track_caller]
pub fn reply_head(peer: &mut Peer) -> Head {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.extend(fine(peer.read_exactly(1)));
    }
    let text = String::from_utf8_lossy(&bytes);
    let number = |before: &str| {
        let (_, number) = text.split_once(before)?;
        number.split_ascii_whitespace().next()?.parse().ok()
    };
    match (number("HTTP/1.1 "), number("Content-Length: ")) {
        (Some(status), Some(len)) => Head {
            status: status as u16,
            len,
            closes: text.contains("Connection: close"),
        },
        _ => panic!("not the head of a reply: {text:?}"),
    }
}

/// A reply, as far as the tests look at it.
pub struct Reply {
    pub status: u16,
    pub closes: bool,
    pub body: Vec<u8>,
}

#[track_caller]
pub fn reply(peer: &mut Peer) -> Reply {
    let head = reply_head(peer);
    Reply {
        status: head.status,
        closes: head.closes,
        body: fine(peer.read_exactly(head.len)),
    }
}

/// Reads a reply, which must be 200 with this body.
#[track_caller]
pub fn expect_reply(peer: &mut Peer, body: &[u8]) {
    let reply = reply(peer);
    assert_eq!(reply.status, 200);
    assert!(
        reply.body == body,
        "the body of {} bytes is not the one of {} bytes that was expected",
        reply.body.len(),
        body.len()
    );
}

/// Sends a request, and expects 200 with this body.
#[track_caller]
pub fn expect_ok(peer: &mut Peer, request: &[u8], body: &[u8]) {
    fine(peer.send(request));
    expect_reply(peer, body);
}

/// Asks which descriptor the connection has in the server.
#[track_caller]
pub fn who(peer: &mut Peer) -> i32 {
    fine(peer.send(&get("/who")));
    let body = String::from_utf8(reply(peer).body).expect("text");
    body.trim().parse().expect("a number")
}

/// Lets time pass for the server: as much as it believes, however slow the machine is.
#[track_caller]
pub fn let_pass(milliseconds: u32, server: &Server) {
    let mut clock = connect(server);
    expect_ok(
        &mut clock,
        &last(&format!("/after/{milliseconds}")),
        b"done\r\n",
    );
}

/// Open descriptors of a server that rests.
#[track_caller]
pub fn descriptors(server: &Server) -> usize {
    fine(grader::wait_until_asleep(server));
    fine(probe::descriptors(server.pid())).len()
}

/// Waits until the server has so many descriptors again: those that it has too many are leaked.
#[track_caller]
pub fn expect_descriptors(server: &Server, number: usize) {
    fine(wait_for(DEADLINE, || {
        match probe::descriptors(server.pid()) {
            Ok(open) if open.len() == number => Ok(()),
            Ok(open) => Err(format!("{} descriptors, and not {number}", open.len())),
            Err(unknown) => Err(unknown.to_string()),
        }
    }));
}

/// Bytes in RAM.
#[track_caller]
pub fn resident(server: &Server) -> u64 {
    fine(probe::memory(server.pid())).resident
}

#[track_caller]
pub fn expect_memory(server: &Server, most: u64) {
    let resident = resident(server);
    assert!(
        resident <= most,
        "{resident} bytes are in RAM, and not at most {most}"
    );
}

#[track_caller]
pub fn expect_no_spin(server: &Server) {
    let activity = fine(idle_cpu(server));
    assert!(!activity.is_spin(), "it spins: {activity}");
}

/// How often the server has gone to sleep; 0 while it runs.
#[track_caller]
pub fn times_asleep(server: &Server) -> u64 {
    let threads = fine(probe::threads(server.pid()));
    let thread = &threads[0];
    if thread.is_waiting() {
        thread.switches
    } else {
        0
    }
}

/// How many bytes of this client wait in the server's socket.
#[track_caller]
pub fn unread(server: &Server, peer: &Peer) -> u64 {
    let rows = fine(probe::connections(server.pid(), server.port()));
    let row = rows
        .iter()
        .find(|row| row.remote.port() == peer.local_port());
    row.expect("the connection's row").rx_queue
}

/// The masks of all connections on the interest list.
#[track_caller]
pub fn masks(server: &Server) -> Vec<u32> {
    let epolls = fine(probe::epolls(server.pid()));
    let sockets = fine(probe::sockets(server.pid()));
    // The listener has the lowest number of all sockets: it was there before the first connection.
    let listener = sockets.iter().map(|(fd, _)| *fd).min();
    let interests = epolls[0].interests.iter();
    let connections = interests.filter(|interest| {
        Some(interest.fd) != listener && sockets.iter().any(|(fd, _)| *fd == interest.fd)
    });
    // These two are always there, whether asked for or not.
    let unasked = EPOLLERR | EPOLLHUP;
    connections
        .map(|interest| interest.events & !unasked)
        .collect()
}

/// The metrics, as the server prints them on `SIGUSR1`.
pub struct Report(String);

impl Report {
    /// The number behind a name.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let mut words = self.0.split_ascii_whitespace();
        let value = words.find(|word| *word == name).and(words.next());
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }
}

const REPORT: &str = "metrics after";

/// Asks for the metrics.
#[track_caller]
pub fn metrics(server: &Server) -> Report {
    let count = |text: &str| text.matches(REPORT).count();
    let before = count(&server.output().stderr);
    server.signal(sys::SIGUSR1);
    let report = fine(wait_for(DEADLINE, || {
        let text = server.output().stderr;
        match text.rfind(REPORT) {
            Some(start) if count(&text) > before && text.ends_with('\n') => {
                Ok(text[start..].to_owned())
            }
            _ => Err(format!("no report, but {text:?}")),
        }
    }));
    assert!(report.contains("loop_lag"), "it is whole: {report}");
    Report(report)
}

/// Asks the server to end in peace, and expects that it does.
#[track_caller]
pub fn expect_peaceful_end(server: Server) {
    assert_eq!(server.stop(), Some(Ending::Exited(0)));
}

/// The path of an expected trace or text.
pub fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
}

#[track_caller]
pub fn expect_trace(lines: &[Line], name: &str) {
    let text = fine(std::fs::read_to_string(expected(name)));
    let expected: Expected = fine(text.parse());
    fine(expected.check(lines));
}

/// The file that a server records into.
pub struct Recording {
    pub path: PathBuf,
}

impl Recording {
    pub fn new(name: &str) -> Recording {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
        Recording { path }
    }

    /// The server that records into it.
    pub fn program(&self) -> Program {
        program().env("READINESS_TRACE", &self.path)
    }

    /// What the server has done so far.
    #[track_caller]
    pub fn lines(&self) -> Vec<Line> {
        let text = fine(std::fs::read(&self.path));
        fine(trace::parse(&text))
    }

    /// To which connections the server has written, after so many lines: a descriptor for each write.
    #[track_caller]
    pub fn written_to(&self, before: usize) -> Vec<i32> {
        let lines = self.lines();
        let calls = lines[before..].iter().filter_map(|line| match &line.event {
            Event::Call(call) if call.name == "write" => call.args[0].descriptor(),
            _ => None,
        });
        calls.collect()
    }
}

/// The value, or a panic with the error's own words.
#[track_caller]
pub fn fine<T, E: Display>(outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}
