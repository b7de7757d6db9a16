//! What the demonstration prints, and which system calls it and the server really made.

mod common;

use std::path::{Path, PathBuf};

use common::*;
use grader::chapter::{assert_demonstration, assert_recorder_equals_strace, recorded};
use grader::peer::{Steps, burst};
use grader::{Server, wait_until_asleep};
use trace::{Expected, Line};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch05-epoll-et");

#[test]
fn prints_the_expected_lines() {
    assert_demonstration(PROGRAM, expected("ch05-epoll-et.txt"));
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    let no_arguments: [&str; 0] = [];
    assert_recorder_equals_strace(PROGRAM, no_arguments);
}

/// The buggy handler really read once, and the right one until `EAGAIN`: no line is made up.
#[test]
fn the_demonstration_did_what_it_printed() {
    let no_arguments: [&str; 0] = [];
    expect_trace(&recorded(PROGRAM, no_arguments), "ch05-epoll-et.trace");
}

#[test]
fn one_turn_accepts_all_who_came_in_one_edge() {
    let recording = Recording::new("accept");
    let server = start(program().env("READINESS_TRACE", &recording.path));
    let before = descriptors(&server);
    assert!(server.pause());
    let peers = burst(server.addr(), 40, &Steps::new()).expect("connect");
    for peer in &peers {
        peer.wait_until_connected().expect("connect");
    }
    server.resume();
    // They have their events now, and are silent.
    expect_descriptors(&server, before + 40);
    wait_until_asleep(&server).expect("it rests");
    let lines = recording.end(server);
    expect_trace(&lines, "serve-accept.trace");
    let accepted = lines.iter().map(Line::to_string);
    let accepted = accepted.filter(|line| line.starts_with("accept4(") && !line.contains("EAGAIN"));
    assert_eq!(accepted.count(), 40);
}

#[test]
fn each_episode_ends_with_eagain_or_the_end_of_the_stream() {
    let recording = Recording::new("drain");
    let server = start(program().env("READINESS_TRACE", &recording.path));
    let before = descriptors(&server);
    let mut peer = connect(&server);
    let body = pattern(65_536);
    expect_ok(&mut peer, &post(&body), &body);
    peer.send(&get("/bytes/100").repeat(3)).expect("send");
    peer.half_close().expect("half-close");
    for _ in 0..3 {
        assert_eq!(reply(&mut peer).body, pattern(100));
    }
    peer.expect_end().expect("the end of the stream");
    expect_descriptors(&server, before);
    wait_until_asleep(&server).expect("it rests");
    expect_trace(&recording.end(server), "serve-drain.trace");
}

fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
}

#[track_caller]
fn expect_trace(lines: &[Line], name: &str) {
    let text = fine(std::fs::read_to_string(expected(name)));
    let expected: Expected = fine(text.parse());
    fine(expected.check(lines));
}

/// The file that a server records into.
struct Recording {
    path: PathBuf,
}

impl Recording {
    fn new(name: &str) -> Recording {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
        Recording { path }
    }

    /// Ends the server, and returns what it did.
    #[track_caller]
    fn end(&self, server: Server) -> Vec<Line> {
        server.stop();
        let text = fine(std::fs::read(&self.path));
        fine(trace::parse(&text))
    }
}
