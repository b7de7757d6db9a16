//! A kernel that refuses, interrupts, and does less than it was asked.

use grader::wait_until_asleep;

use super::{
    connect, expect_alive, expect_connections, expect_last_words, expect_no_spin, pattern, speak,
    start,
};
use crate::{WAIT, program};

/// A server in whose calls these faults are injected.
fn disturbed(faults: &str) -> grader::Server {
    start(program().env("READINESS_INJECT", faults))
}

#[test]
fn no_descriptor_for_a_moment() {
    for error in ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"] {
        let server = disturbed(&format!("accept4:error={error}:when=2..3"));
        let mut first = connect(&server);
        speak(&mut first, b"hello");
        // Nobody closes, so it is the pause that ends the listener's rest.
        let mut second = connect(&server);
        speak(&mut second, b"hello");
        speak(&mut first, b"still here");
    }
}

#[test]
fn no_descriptor_for_long_is_no_spin() {
    // The first turn accepts one, and finds the queue empty with the second call.
    let server = disturbed("accept4:error=EMFILE:when=3+");
    let mut only = connect(&server);
    speak(&mut only, b"hello");
    let mut waits = connect(&server);
    expect_no_spin(&server);
    speak(&mut only, b"still here");
    waits.send(b"nobody listens").expect("send");
    expect_no_spin(&server);
    expect_alive(&server);
}

#[test]
fn an_aborted_connection_does_not_end_the_listener() {
    // `accept(2)`: "treat them like EAGAIN by retrying".
    let errors = [
        "ECONNABORTED",
        "EINTR",
        "EPROTO",
        "ENETDOWN",
        "ENOPROTOOPT",
        "EHOSTDOWN",
        "ENONET",
        "EHOSTUNREACH",
        "EOPNOTSUPP",
        "ENETUNREACH",
        "EPERM",
    ];
    // The first calls fail, each with another of them.
    let rule = |(call, error)| format!("accept4:error={error}:when={call}");
    let rules: Vec<String> = (1..).zip(errors).map(rule).collect();
    let server = disturbed(&rules.join(";"));
    speak(&mut connect(&server), b"hello");
    // The real thing on Linux: a client that has reset its connection before it was accepted.
    let server = start(program());
    assert!(server.pause());
    for _ in 0..5 {
        connect(&server).reset();
    }
    server.resume();
    speak(&mut connect(&server), b"hello");
    expect_connections(&server, 0);
}

#[test]
fn a_listener_that_fails_for_good_ends_the_server_with_a_reason() {
    let server = disturbed("accept4:error=EINVAL:when=1");
    // Reset at once, if the server is quick.
    let _peer = grader::Peer::connect(server.addr());
    expect_last_words(&server, "accept4: Invalid argument (EINVAL)");
}

#[test]
fn signals_and_short_counts_lose_nothing() {
    let faults = [
        format!("{WAIT}:error=EINTR:when=2..9"),
        format!("{WAIT}:error=EINTR:when=1+2"),
        "read:retval=7".to_owned(),
        "read:retval=1".to_owned(),
        "write:retval=7".to_owned(),
        "write:retval=1000".to_owned(),
        "read:error=EINTR:when=1+2".to_owned(),
        "write:error=EINTR:when=1+2".to_owned(),
        "read:error=EAGAIN:when=1+2".to_owned(),
        "write:error=EAGAIN:when=1+2".to_owned(),
    ];
    for faults in faults {
        let server = disturbed(&faults);
        let mut peer = connect(&server);
        speak(&mut peer, b"hello");
        speak(&mut peer, &pattern(5_000));
        peer.send(b"last words").expect("send");
        peer.half_close().expect("half-close");
        let last = peer.read_to_end();
        let last = last.unwrap_or_else(|interrupted| panic!("{faults}: {interrupted}"));
        assert_eq!(last, b"last words", "{faults}");
        expect_connections(&server, 0);
    }
}

#[test]
fn a_wait_that_reports_nothing_is_no_reason_to_act() {
    let server = disturbed(&format!("{WAIT}:retval=0:when=2..5"));
    let mut peer = connect(&server);
    speak(&mut peer, b"hello");
    wait_until_asleep(&server).expect("it rests");
    speak(&mut peer, b"hello");
}

#[test]
fn a_broken_connection_ends_alone() {
    for faults in [
        "read:error=ECONNRESET:when=2",
        "write:error=EPIPE:when=2",
        "write:error=ECONNRESET:when=2",
        "read:error=ETIMEDOUT:when=2",
    ] {
        let server = disturbed(faults);
        let mut other = connect(&server);
        speak(&mut other, b"hello");
        let mut broken = connect(&server);
        assert!(broken.exchange(b"hello", 5).is_err(), "{faults}");
        expect_connections(&server, 1);
        speak(&mut other, b"still here");
        speak(&mut connect(&server), b"hello");
        expect_alive(&server);
    }
}

#[test]
fn an_error_of_close_is_nobodys_end() {
    // The injected close is not made: the descriptor stays open, and only the server's life is judged.
    let server = disturbed("close:error=EIO");
    for _ in 0..3 {
        speak(&mut connect(&server), b"hello");
    }
    expect_alive(&server);
}
