//! The server of this chapter, clients that speak HTTP to it, and what is expected of both.
#![allow(dead_code)] // each test program uses a part of it

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grader::peer::Connect;
use grader::wait::wait_for;
use grader::{DEADLINE, Peer, Program, Server, probe};

pub const HELLO: &[u8] = b"epoll ET reactor\r\n";
pub const DONE: &[u8] = b"done\r\n";

/// More work than any test waits for, in milliseconds: whoever is answered meanwhile was not made to wait for it.
pub const ENDLESS: &str = "/work/60000";

/// How long a reply may take: a worker has to use so much CPU time for it, and may get little on a machine that has much
/// to do.
const PATIENCE: Duration = Duration::from_secs(40);

/// Held by a test that keeps workers busy: two of them at a time would only make each other slow.
pub fn busy() -> MutexGuard<'static, ()> {
    static BUSY: Mutex<()> = Mutex::new(());
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server with these options.
#[track_caller]
pub fn start(options: &[&str]) -> Server {
    let program = Program::new(env!("CARGO_BIN_EXE_ch08-workers")).args(["serve"]);
    fine(program.options(options).start())
}

#[track_caller]
pub fn connect(server: &Server) -> Peer {
    fine(Connect::to(server.addr()).deadline(PATIENCE).connect())
}

/// A `GET` request that leaves the connection open.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// A reply, as far as the tests look at it.
pub struct Reply {
    pub status: u16,
    pub closes: bool,
    pub body: Vec<u8>,
}

/// Reads a reply, and nothing behind it.
#[track_caller]
pub fn reply(peer: &mut Peer) -> Reply {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.extend(fine(peer.read_exactly(1)));
    }
    let head = String::from_utf8_lossy(&bytes);
    let number = |before: &str| {
        let (_, number) = head.split_once(before)?;
        number.split_ascii_whitespace().next()?.parse().ok()
    };
    let (Some(status), Some(len)) = (number("HTTP/1.1 "), number("Content-Length: ")) else {
        panic!("not the head of a reply: {head:?}");
    };
    Reply {
        status: status as u16,
        closes: head.contains("Connection: close"),
        body: fine(peer.read_exactly(len)),
    }
}

/// Reads a reply, which must be 200 with this body.
#[track_caller]
pub fn expect_reply(peer: &mut Peer, body: &[u8]) {
    let reply = reply(peer);
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.body.escape_ascii().to_string(),
        body.escape_ascii().to_string()
    );
}

/// Sends a request, and expects 200 with this body.
#[track_caller]
pub fn expect_ok(peer: &mut Peer, request: &[u8], body: &[u8]) {
    fine(peer.send(request));
    expect_reply(peer, body);
}

/// Asks for something, and returns when the server has read it: from then on it counts.
#[track_caller]
pub fn ask(peer: &mut Peer, path: &str, server: &Server) {
    fine(peer.send(&get(path)));
    expect_read(peer, server);
}

/// Waits until the server has read all that this client has sent.
#[track_caller]
pub fn expect_read(peer: &Peer, server: &Server) {
    fine(wait_for(DEADLINE, || {
        // In this order: what has been delivered is unread, or was read.
        let delivered = probe::is_delivered(server.pid(), server.port());
        match (delivered, unread(server, peer)) {
            (Ok(true), 0) => Ok(()),
            (_, unread) => Err(format!("{unread} bytes are not read, or more on their way")),
        }
    }));
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

/// Asks which descriptor the connection has in the server.
#[track_caller]
pub fn who(peer: &mut Peer) -> i32 {
    fine(peer.send(&get("/who")));
    let body = String::from_utf8(reply(peer).body).expect("text");
    body.trim().parse().expect("a number")
}

/// Open descriptors of the server.
#[track_caller]
pub fn descriptors(server: &Server) -> usize {
    fine(probe::descriptors(server.pid())).len()
}

/// Waits until the server has so many descriptors again.
#[track_caller]
pub fn expect_descriptors(server: &Server, number: usize) {
    fine(wait_for(DEADLINE, || match descriptors(server) {
        open if open == number => Ok(()),
        open => Err(format!("{open} descriptors, and not {number}")),
    }));
}

/// A number of the report that the server prints when it ends.
#[track_caller]
pub fn number(report: &str, name: &str) -> u64 {
    let mut words = report.split_ascii_whitespace();
    let value = words.find(|word| *word == name).and(words.next());
    let value = value.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// The path of an expected trace or text.
pub fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
}

/// The value, or a panic with the error's own words.
#[track_caller]
pub fn fine<T, E: Display>(outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}
