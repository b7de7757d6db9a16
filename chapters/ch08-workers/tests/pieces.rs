//! Work in pieces, on a loop that the test turns by hand: a piece a turn, whatever the machine's speed.

mod common;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use ch06_reactor::{Limits, Reactor, Turn};
use ch08_workers::cut_into_pieces;
use common::*;
use grader::Peer;
use sys::SOCK_NONBLOCK;

/// A longer wait than this means that something was forgotten.
const SOON: Duration = Duration::from_secs(10);

/// More pieces than any of these tests turns the loop.
const MANY: &str = "/work/20000";

fn server() -> (Reactor, SocketAddrV4) {
    let mut reactor = fine(Reactor::new(Limits::default()));
    fine(cut_into_pieces(&mut reactor));
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = fine(kit::quiet_listener(any_port, SOCK_NONBLOCK));
    let addr = fine(sys::getsockname(&listener));
    fine(reactor.listen(listener));
    (reactor, addr)
}

/// A client whose request the loop has taken.
fn asked(path: &str, reactor: &mut Reactor, addr: SocketAddrV4) -> Peer {
    let mut peer = fine(Peer::connect(addr));
    let before = reactor.metrics().requests;
    fine(peer.send(&get(path)));
    turn_until(reactor, |reactor| reactor.metrics().requests > before);
    peer
}

fn turn_until(reactor: &mut Reactor, state: impl Fn(&Reactor) -> bool) {
    while !state(reactor) {
        let turn = fine(reactor.turn_within(SOON));
        assert_ne!(turn, Turn::default(), "nothing more happens");
    }
}

#[test]
fn others_are_served_between_two_pieces() {
    let (mut reactor, addr) = server();
    let mut long = asked(MANY, &mut reactor, addr);
    let mut short = asked("/", &mut reactor, addr);
    expect_reply(&mut short, HELLO);
    assert_eq!(long.read_available(), Ok(Vec::new()));
}

#[test]
fn a_job_takes_a_turn_for_each_piece_and_the_loop_sleeps_afterwards() {
    let (mut reactor, addr) = server();
    let mut peer = asked("/work/7", &mut reactor, addr);
    let before = reactor.metrics().writes;
    let mut turns = 0;
    while reactor.metrics().writes == before {
        fine(reactor.turn_within(SOON));
        turns += 1;
    }
    assert_eq!(turns, 7);
    expect_reply(&mut peer, DONE);
    let rest = fine(reactor.turn_within(Duration::ZERO));
    assert_eq!(rest, Turn::default());
}

/// Of two that are alike, neither is done before the other has come to its end as well.
#[test]
fn jobs_take_turns() {
    let (mut reactor, addr) = server();
    // The first one has a few pieces behind it when the second one begins.
    let mut peers = ["/work/200", "/work/195"].map(|path| asked(path, &mut reactor, addr));
    turn_until(&mut reactor, |reactor| reactor.metrics().writes == 1);
    let before = reactor.metrics().turns;
    turn_until(&mut reactor, |reactor| reactor.metrics().writes == 2);
    let turns = reactor.metrics().turns - before;
    assert!(turns < 100, "the other one took {turns} turns more");
    for peer in &mut peers {
        expect_reply(peer, DONE);
    }
}

#[test]
fn work_for_a_client_that_has_left_is_left_undone() {
    let (mut reactor, addr) = server();
    let mut peer = asked(MANY, &mut reactor, addr);
    peer.reset();
    turn_until(&mut reactor, |reactor| reactor.metrics().closes == 1);
    for _ in 0..2 {
        fine(reactor.turn_within(Duration::ZERO));
    }
    let rest = fine(reactor.turn_within(Duration::ZERO));
    assert_eq!(rest, Turn::default(), "it goes on working");
}

#[test]
fn there_is_an_end_to_what_is_taken() {
    let (mut reactor, addr) = server();
    let peers: Vec<Peer> = (0..64).map(|_| asked(MANY, &mut reactor, addr)).collect();
    let mut late = asked(MANY, &mut reactor, addr);
    assert_eq!(reply(&mut late).status, 503);
    drop(peers);
}
