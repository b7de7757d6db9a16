//! What the server does when its time has come, and nobody says a word.
//!
//! Time is judged by the server's own clock: "300 ms later" means that another connection has its reply to
//! `GET /after/300`. So a slow machine makes these tests slow, and not wrong.

use std::time::{Duration, Instant};

use crate::common::*;
use grader::{DEADLINE, Stop, wait_until_asleep};

#[test]
fn a_timer_fires_in_time_and_the_wait_for_it_is_one_wait() {
    let server = start(program());
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/"), HELLO);
    let before = metrics(&server).number("turns");
    for _ in 0..20 {
        let start = Instant::now();
        expect_ok(&mut peer, &get("/after/20"), b"done\r\n");
        assert!(start.elapsed() >= Duration::from_millis(20), "too early");
    }
    let turns = metrics(&server).number("turns") - before;
    // For each request: one turn in which it comes, one that is ended by the clock. Rounded down, the
    // timeout would be 0 in the last millisecond of each, and there would be thousands.
    assert!(turns <= 20 * 3, "{turns} turns");
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let recording = Recording::new("order");
    let server = start(recording.program());
    let (mut late, mut early) = (connect(&server), connect(&server));
    let fds = [who(&mut early), who(&mut late)];
    // Both are asked for in one turn, the later one first.
    wait_until_asleep(&server).expect("it rests");
    let before = recording.lines().len();
    assert!(server.pause());
    late.send(&get("/after/120")).expect("send");
    early.send(&get("/after/20")).expect("send");
    server.resume();
    expect_reply(&mut early, b"done\r\n");
    expect_reply(&mut late, b"done\r\n");
    wait_until_asleep(&server).expect("it rests");
    assert_eq!(recording.written_to(before), fds);
}

#[test]
fn an_idle_connection_is_closed_and_one_that_is_used_is_not() {
    let server = start_with("--idle-timeout-ms", 1_000);
    let before = descriptors(&server);
    let (mut silent, mut used) = (connect(&server), connect(&server));
    expect_ok(&mut silent, &get("/"), HELLO);
    // Longer than the timeout in all, and never as long in one piece.
    for _ in 0..4 {
        expect_ok(&mut used, &get("/after/300"), b"done\r\n");
    }
    silent.expect_end().expect("the end of the stream");
    expect_ok(&mut used, &get("/"), HELLO);
    used.expect_end().expect("the end of the stream");
    expect_descriptors(&server, before);
    assert_eq!(metrics(&server).number("idle_timeouts"), 2);
}

#[test]
fn a_client_that_never_says_anything_is_closed_without_a_word() {
    for option in ["--head-timeout-ms", "--idle-timeout-ms"] {
        let server = start_with(option, 100);
        let mut peer = connect(&server);
        peer.expect_end().expect("the end of the stream");
    }
}

#[test]
fn a_head_that_comes_too_slowly_is_refused_however_steadily_it_comes() {
    let server = start_with("--head-timeout-ms", 400);
    let before = descriptors(&server);
    let mut slow = connect(&server);
    slow.send(b"GET / HTTP/1.1\r\nHost: ").expect("send");
    let start = Instant::now();
    let received = loop {
        assert!(
            start.elapsed() < DEADLINE,
            "each byte has put the deadline off"
        );
        let_pass(20, &server);
        let _ = slow.send(b"a");
        match slow.read_available() {
            Ok(bytes) if bytes.is_empty() => {}
            other => break other.expect("an answer before the end"),
        }
    };
    let text = String::from_utf8_lossy(&received);
    assert!(
        text.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
        "{text}"
    );
    assert!(text.contains("Connection: close"), "{text}");
    slow.close();
    expect_descriptors(&server, before);
    assert_eq!(metrics(&server).number("request_timeouts"), 1);
}

#[test]
fn a_head_that_stops_is_refused_without_another_byte() {
    let server = start_with("--head-timeout-ms", 500);
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/"), HELLO);
    // Also the second request of a connection, and one that came right behind another.
    let mut requests = get("/bytes/5");
    requests.extend(b"GET /");
    peer.send(&requests).expect("send");
    expect_reply(&mut peer, &pattern(5));
    assert_eq!(reply(&mut peer).status, 408);
    peer.expect_end().expect("the end of the stream");
}

/// Longer than a head may take; and longer than a connection may be idle, as long as something comes.
#[test]
fn a_body_that_comes_slowly_is_not_refused() {
    for (option, limit, pause) in [
        ("--head-timeout-ms", 200, 100),
        ("--idle-timeout-ms", 1_000, 400),
    ] {
        let server = start_with(option, limit);
        let mut peer = connect(&server);
        peer.send(&post_head(5)).expect("send");
        for byte in b"hello" {
            let_pass(pause, &server);
            peer.send(&[*byte]).expect("send");
        }
        expect_reply(&mut peer, b"hello");
    }
}

#[test]
fn a_body_that_stops_is_refused() {
    let server = start_with("--idle-timeout-ms", 300);
    let mut peer = connect(&server);
    peer.send(&post_head(5)).expect("send");
    peer.send(b"he").expect("send");
    assert_eq!(reply(&mut peer).status, 408);
    peer.expect_end().expect("the end of the stream");
}

#[test]
fn a_client_that_takes_nothing_of_its_reply_is_given_up() {
    let server = start_with("--idle-timeout-ms", 300);
    let before = descriptors(&server);
    let mut deaf = connect(&server);
    deaf.send(&get("/bytes/100000000")).expect("send");
    expect_descriptors(&server, before + 1);
    expect_descriptors(&server, before);
    assert_eq!(metrics(&server).number("write_timeouts"), 1);
}

/// As long as it takes something, it may take all the time it wants.
#[test]
fn a_client_that_is_slow_with_its_reply_is_not_given_up() {
    const LEN: usize = 6 << 20;
    let server = start_with("--idle-timeout-ms", 2_000);
    let mut slow = narrow(&server);
    slow.send(&get(&format!("/bytes/{LEN}"))).expect("send");
    let head = reply_head(&mut slow);
    assert_eq!((head.status, head.len), (200, LEN));
    let mut done = 0;
    while done < LEN {
        let_pass(500, &server);
        let piece = (LEN / 6).min(LEN - done);
        let bytes = slow.read_exactly(piece).expect("read");
        assert_eq!(http::pattern::first_difference(done as u64, &bytes), None);
        done += piece;
    }
}

#[test]
fn a_client_that_does_not_close_after_the_last_reply_is_closed() {
    let server = start(program());
    let before = descriptors(&server);
    let mut peer = connect(&server);
    expect_ok(&mut peer, &last("/"), HELLO);
    peer.expect_end().expect("the end of the stream");
    assert_eq!(
        descriptors(&server),
        before + 1,
        "it is read until the client closes"
    );
    expect_descriptors(&server, before);
    assert_eq!(metrics(&server).number("linger_timeouts"), 1);
}

/// A timer's reply belongs to the connection that asked for it, and not to the next one in its place.
#[test]
fn a_timer_of_a_connection_that_is_gone_wakes_nobody() {
    let server = start(program());
    let before = descriptors(&server);
    let mut old = connect(&server);
    let fd = who(&mut old);
    old.send(&get("/after/100")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    old.reset();
    expect_descriptors(&server, before);
    let mut new = connect(&server);
    assert_eq!(
        who(&mut new),
        fd,
        "the new one has the number of the old one"
    );
    let_pass(200, &server);
    new.expect_silence(&server)
        .expect("it has asked for nothing");
    expect_ok(&mut new, &get("/"), HELLO);
}

#[test]
fn timers_without_delay_do_not_keep_the_loop_for_themselves() {
    let server = start(program());
    let (mut busy, mut other) = (connect(&server), connect(&server));
    busy.send(&get("/after/0").repeat(500)).expect("send");
    expect_ok(&mut other, &get("/"), HELLO);
    for _ in 0..500 {
        expect_reply(&mut busy, b"done\r\n");
    }
    assert!(!matches!(busy.read_available(), Err(Stop::EndOfStream)));
}
