//! What the demonstration prints, and which system calls it and the server really made.

mod common;

use common::*;
use grader::chapter::{assert_demonstration, assert_recorder_equals_strace, recorded};
use grader::wait_until_asleep;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch06-reactor");

const NO_ARGUMENTS: [&str; 0] = [];

#[test]
fn prints_the_expected_lines() {
    assert_demonstration(PROGRAM, expected("ch06-reactor.txt"));
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    assert_recorder_equals_strace(PROGRAM, NO_ARGUMENTS);
}

/// Two pieces in, three out; a wait that is a deadline; a limit that is met once. No line is made up.
#[test]
fn the_demonstration_did_what_it_printed() {
    expect_trace(&recorded(PROGRAM, NO_ARGUMENTS), "ch06-reactor.trace");
}

/// A request on a connection that stays open costs three calls, and the interest list is left alone.
#[test]
fn a_usual_request_is_a_wait_a_read_and_a_write() {
    let recording = Recording::new("usual");
    let server = start(recording.program());
    let mut peer = connect(&server);
    for _ in 0..10 {
        expect_ok(&mut peer, &get("/"), HELLO);
        wait_until_asleep(&server).expect("it rests");
    }
    expect_trace(&recording.lines(), "serve-usual.trace");
}

/// However fast its reader is, a large reply leaves in pieces of at most 64 KiB, one a turn.
#[test]
fn a_large_reply_is_one_write_a_turn() {
    let recording = Recording::new("large");
    let server = start(recording.program());
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/bytes/5000000"), &pattern(5_000_000));
    wait_until_asleep(&server).expect("it rests");
    expect_trace(&recording.lines(), "serve-large.trace");
}
