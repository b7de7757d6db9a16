//! The server on this chapter's loop keeps the contract: what chapter 6's can do, it can.
#![cfg(not(loom))]

use grader::grading::Subject;
use grader::survival::{Protocol, assert_survives};
use grader::wait::idle_cpu;
use grader::{DEADLINE, Ending, Peer, Program, Server, probe, wait_until, wait_until_asleep};
use sys::SIGTERM;
use trace::Event;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch07-wakeups");

fn program() -> Program {
    Program::new(PROGRAM).args(["serve"])
}

fn start(program: Program) -> Server {
    program.start().unwrap_or_else(|error| panic!("{error}"))
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Sends a request, and expects this body.
#[track_caller]
fn expect_ok(peer: &mut Peer, path: &str, body: &str) {
    peer.send(&get(path)).expect("send");
    expect_reply(peer, body);
}

#[track_caller]
fn expect_reply(peer: &mut Peer, body: &str) {
    let mut reply = Vec::new();
    while !reply.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
        reply.extend(peer.read_exactly(1).expect("a reply"));
    }
    assert!(reply.starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn survives_the_battery() {
    assert_survives(&program(), Protocol::Http);
}

#[test]
fn survives_the_battery_with_a_wheel() {
    let program = program().options(["--timers", "wheel"]);
    assert_survives(&program, Protocol::Http);
}

#[test]
fn passes_every_check_of_chapter_6() {
    grader::assert_passes("ex06-reactor", &Subject::new(PROGRAM));
}

/// However many deadlines there are, they take one descriptor, and the loop sleeps.
#[test]
fn one_timerfd_serves_all_connections() {
    for structure in ["heap", "wheel"] {
        let server = start(program().options(["--timers", structure]));
        let before = probe::descriptors(server.pid())
            .expect("its descriptors")
            .len();
        let mut peers: Vec<Peer> = (0..50)
            .map(|_| Peer::connect(server.addr()).expect("connect"))
            .collect();
        for peer in &mut peers {
            expect_ok(peer, "/", "epoll ET reactor\r\n");
            peer.send(&get("/after/60000")).expect("send");
        }
        wait_until_asleep(&server).expect("it rests");
        let open = probe::descriptors(server.pid()).expect("its descriptors");
        assert_eq!(open.len(), before + peers.len());
        assert!(!idle_cpu(&server).expect("its CPU time").is_spin());
        assert_eq!(probe::thread_count(server.pid()).expect("its threads"), 1);
    }
}

/// How many requests wait for a timer, one after the other.
const REQUESTS: usize = 5;

/// What ends its sleep is an event, also at a deadline.
#[test]
fn its_waits_have_no_timeout() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-timeout.trace");
    let server = start(program().env("READINESS_TRACE", &path));
    let mut peer = Peer::connect(server.addr()).expect("connect");
    for _ in 0..REQUESTS {
        expect_ok(&mut peer, "/after/20", "done\r\n");
    }
    wait_until_asleep(&server).expect("it rests");
    let lines = trace::parse(std::fs::read(&path).expect("the trace")).expect("a trace");
    let waits: Vec<String> = lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Call(call) if call.name == "epoll_wait" => Some(call.args[3].to_string()),
            _ => None,
        })
        .collect();
    assert!(waits.len() >= 2 * REQUESTS);
    assert!(waits.iter().all(|timeout| timeout == "-1"), "{waits:?}");
    // The nearest deadline changes twice a request: to its timer, and back to the connection's. A wheel looks
    // a few times more.
    let armed = lines.iter().filter(|line| match &line.event {
        Event::Call(call) => call.name == "timerfd_settime",
        _ => false,
    });
    assert!(armed.count() <= REQUESTS * 5);
}

#[test]
fn sigterm_is_one_more_readable_descriptor() {
    let server = start(program());
    let mut peer = Peer::connect(server.addr()).expect("connect");
    peer.send(&get("/after/300")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    server.signal(SIGTERM);
    expect_last_reply(&mut peer);
    wait_until(DEADLINE, || server.ended().is_some()).expect("it ends");
    assert_eq!(server.ended(), Some(Ending::Exited(0)));
}

#[track_caller]
fn expect_last_reply(peer: &mut Peer) {
    expect_reply(peer, "done\r\n");
    peer.expect_end().expect("the end of the stream");
}
