//! The server of this chapter, clients that speak HTTP to it, and what is expected of both.
#![allow(dead_code)] // each test program uses a part of it

use std::fmt::Display;

use grader::wait::{idle_cpu, wait_for};
use grader::{DEADLINE, Peer, Program, Server, probe};

pub fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ch05-epoll-et")).args(["serve"])
}

#[track_caller]
pub fn start(program: Program) -> Server {
    fine(program.start())
}

#[track_caller]
pub fn connect(server: &Server) -> Peer {
    fine(Peer::connect(server.addr()))
}

/// A `GET` request that leaves the connection open.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// A `GET` request after which the connection closes.
pub fn last(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes()
}

/// A `POST /echo` request.
pub fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
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
        },
        _ => panic!("not the head of a reply: {text:?}"),
    }
}

/// A reply, as far as the tests look at it.
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

#[track_caller]
pub fn reply(peer: &mut Peer) -> Reply {
    let head = reply_head(peer);
    Reply {
        status: head.status,
        body: fine(peer.read_exactly(head.len)),
    }
}

/// Sends a request, and expects 200 with this body.
#[track_caller]
pub fn expect_ok(peer: &mut Peer, request: &[u8], body: &[u8]) {
    fine(peer.send(request));
    let reply = reply(peer);
    assert_eq!(reply.status, 200);
    assert!(
        reply.body == body,
        "the body of {} bytes differs",
        reply.body.len()
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

/// The value, or a panic with the error's own words.
#[track_caller]
pub fn fine<T, E: Display>(outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}
