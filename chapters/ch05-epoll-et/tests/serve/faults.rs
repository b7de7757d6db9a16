//! The server when the kernel refuses: no descriptors left, calls that fail, calls that do less than asked.

use crate::common::*;
use grader::peer::{Steps, burst};
use grader::{DEADLINE, Program, wait_until, wait_until_asleep};

/// 0, 1, 2, the listener and the epoll instance leave room for 27 connections.
const LIMIT: u64 = 32;

#[test]
fn at_the_descriptor_limit_the_old_are_served_and_the_new_wait() {
    let server = start(program().limit_nofile(LIMIT));
    let mut peers = burst(server.addr(), 60, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
    }
    expect_descriptors(&server, LIMIT as usize);

    // The listener has reported its one edge. It is neither forgotten nor asked without pause.
    expect_no_spin(&server);
    let waiting = peers.split_off(LIMIT as usize - 5);
    for peer in &mut peers {
        expect_ok(peer, &get("/"), b"epoll ET reactor\r\n");
    }
    // Nobody new connects from here on, so there is no other edge. As some leave, others come in.
    for mut peer in waiting {
        drop(peers.remove(0));
        expect_ok(&mut peer, &get("/"), b"epoll ET reactor\r\n");
        peers.push(peer);
    }
    let mut late = connect(&server);
    drop(peers);
    expect_ok(&mut late, &get("/"), b"epoll ET reactor\r\n");
    drop(late);
    expect_descriptors(&server, 5);
}

/// All that a client can do, against a server whose calls are disturbed.
fn works_with(faults: &str) {
    let server = start(disturbed(faults));
    let body = pattern(20_000);
    let mut first = connect(&server);
    expect_ok(&mut first, &post(&body), &body);
    let mut second = connect(&server);
    second.send(&get("/bytes/300").repeat(20)).expect("send");
    for _ in 0..20 {
        assert_eq!(reply(&mut second).body, pattern(300));
    }
    first.send(&get("/bytes/100000")).expect("send");
    first.half_close().expect("half-close");
    assert!(reply(&mut first).body == pattern(100_000));
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
fn signals_interrupt_every_kind_of_call() {
    works_with("epoll_wait:error=EINTR:when=2..9");
    works_with("read,write,accept4:error=EINTR:when=1+2");
}

#[test]
fn one_connection_that_is_gone_is_not_the_listeners_fault() {
    works_with("accept4:error=ECONNABORTED:when=1");
    works_with("accept4:error=EPROTO:when=2..3");
}

#[test]
fn accepting_goes_on_when_descriptors_and_memory_are_back() {
    works_with("accept4:error=EMFILE:when=2..3");
    works_with("accept4:error=ENFILE:when=1");
    works_with("accept4:error=ENOMEM:when=2");
}

/// The interest list can be full (`/proc/sys/fs/epoll/max_user_watches`). That costs one connection.
#[test]
fn a_connection_that_cannot_be_registered_is_given_up() {
    // The first epoll_ctl is the listener's, the second the first client's.
    let server = start(disturbed("epoll_ctl:error=ENOSPC:when=3"));
    let mut first = connect(&server);
    expect_ok(&mut first, &get("/"), b"epoll ET reactor\r\n");
    connect(&server)
        .expect_end()
        .expect("the end of the stream");
    let mut third = connect(&server);
    expect_ok(&mut third, &get("/"), b"epoll ET reactor\r\n");
    expect_ok(&mut first, &get("/"), b"epoll ET reactor\r\n");
    fine(wait_until(DEADLINE, || {
        server.output().stderr.contains("ENOSPC")
    }));
}
