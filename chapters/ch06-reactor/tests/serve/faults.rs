//! The server when calls fail, or do less than was asked: see `sys::Injection`.

use crate::common::*;
use grader::{DEADLINE, Ending, Peer, Program, wait_until, wait_until_asleep};

/// All that a client can do, against a server whose calls are disturbed.
fn works_with(faults: &str) {
    let server = start(disturbed(faults));
    let body = pattern(20_000);
    let mut first = connect(&server);
    expect_ok(&mut first, &post(&body), &body);
    let mut second = connect(&server);
    second.send(&get("/bytes/300").repeat(20)).expect("send");
    for _ in 0..20 {
        expect_reply(&mut second, &pattern(300));
    }
    expect_ok(&mut second, &get("/after/30"), b"done\r\n");
    first.send(&get("/bytes/100000")).expect("send");
    first.half_close().expect("half-close");
    expect_reply(&mut first, &pattern(100_000));
    first.expect_end().expect("the end of the stream");
    wait_until_asleep(&server).expect("it rests");
    expect_no_spin(&server);
}

fn disturbed(faults: &str) -> Program {
    program().env("READINESS_INJECT", faults)
}

#[test]
fn short_reads_are_not_the_end() {
    works_with("read:retval=7");
}

#[test]
fn short_writes_are_not_the_end() {
    works_with("write:retval=1000");
}

#[test]
fn a_wait_that_is_interrupted_goes_on_for_the_rest_of_its_time() {
    works_with("epoll_wait:error=EINTR:when=2..20");
    works_with("epoll_wait:error=EINTR:when=1+2");
}

#[test]
fn calls_that_find_nothing_are_made_again_when_there_is_something() {
    works_with("read,write,accept4:error=EINTR:when=1+2");
    works_with("read,write,accept4:error=EAGAIN:when=1+2");
    // A wait that says "nothing" although something is there.
    works_with("epoll_wait:retval=0:when=1+2");
}

#[test]
fn one_connection_that_is_gone_is_not_the_listeners_fault() {
    works_with("accept4:error=ECONNABORTED:when=1");
    works_with("accept4:error=EPROTO:when=2..3");
}

#[test]
fn accepting_goes_on_when_descriptors_and_memory_are_back() {
    works_with("accept4:error=EMFILE:when=1..3");
    works_with("accept4:error=ENFILE:when=1");
    works_with("accept4:error=ENOMEM:when=2");
}

/// The interest list can be full (`/proc/sys/fs/epoll/max_user_watches`). That costs one connection.
#[test]
fn a_connection_that_cannot_be_registered_is_given_up() {
    // The first two are those of the signalfd and the listener.
    let server = start(disturbed("epoll_ctl:error=ENOSPC:when=4"));
    let mut first = connect(&server);
    expect_ok(&mut first, &get("/"), HELLO);
    let mut second = connect(&server);
    second.expect_end().expect("the end of the stream");
    let mut third = connect(&server);
    expect_ok(&mut third, &get("/"), HELLO);
    expect_ok(&mut first, &get("/"), HELLO);
    assert_eq!(metrics(&server).number("closes"), 1);
}

#[test]
fn a_connection_that_fails_leaves_the_others_alone() {
    // The reads are those of the first client, twice, and of the second.
    let server = start(disturbed("read:error=ECONNRESET:when=3"));
    let (mut first, mut second) = (connect(&server), connect(&server));
    expect_ok(&mut first, &get("/"), HELLO);
    expect_ok(&mut first, &get("/"), HELLO);
    second.send(&get("/")).expect("send");
    second
        .expect_end()
        .expect_err("a reset: there was unread input");
    expect_ok(&mut first, &get("/"), HELLO);
}

/// A listener that can accept no more is no server: it says so and ends, and does not spin in silence.
#[test]
fn a_listener_that_is_broken_ends_the_server() {
    let server = start(disturbed("accept4:error=EINVAL"));
    // It may be reset while it still connects.
    let _peer = Peer::connect(server.addr());
    fine(wait_until(DEADLINE, || server.ended().is_some()));
    assert_eq!(server.ended(), Some(Ending::Exited(1)));
    fine(wait_until(DEADLINE, || {
        server
            .output()
            .stderr
            .contains("accept4: Invalid argument (EINVAL)")
    }));
}
