//! What every echo server must survive. Chapter 4's server is held to the same, by the same tests: the test
//! program that takes this module in says in `program()` which server it means.

pub mod calls;
mod faults;
mod tools;

pub use tools::*;

use grader::peer::{Connect, Steps, burst};
use grader::survival::{Protocol, assert_survives};
use grader::{Peer, probe, wait_until, wait_until_asleep};

use crate::{WAIT, program};
use calls::{Recorded, returned};

/// The grader's battery for any server: 5,000 connections that come and go among other things.
#[test]
fn survives_difficult_clients() {
    assert_survives(&program(), Protocol::Echo);
}

#[test]
fn a_silent_client_keeps_nobody_waiting() {
    let server = start(program());
    let _silent = connect(&server);
    let mut half_spoken = connect(&server);
    half_spoken.send(b"PI").expect("send");
    let mut other = connect(&server);
    speak(&mut other, b"hello");
    assert_eq!(half_spoken.read_exactly(2).expect("its echo"), b"PI");
}

#[test]
fn a_megabyte_goes_both_ways() {
    let server = start(program());
    speak(&mut connect(&server), &pattern(1 << 20));
    let mut slow = connect_narrow(&server);
    speak(&mut slow, &pattern(1 << 20));
    // Nobody asks for writability any more, now that there is nothing to write.
    expect_no_spin(&server);
    speak(&mut slow, b"and once more");
}

#[test]
fn a_half_close_is_answered() {
    // In small steps the end is read while a good part of the echo still waits.
    let small_steps = "write:retval=4096";
    for (len, faults) in [(0, ""), (1, ""), (50_000, ""), (50_000, small_steps)] {
        let server = start(program().env("READINESS_INJECT", faults));
        let mut peer = connect(&server);
        speak(&mut peer, b"first");
        // Bytes and end are both there before the server looks.
        assert!(server.pause());
        peer.send(&pattern(len)).expect("send");
        peer.half_close().expect("half-close");
        server.resume();
        assert!(peer.read_to_end().expect("read to the end") == pattern(len));
        expect_connections(&server, 0);
    }
}

#[test]
fn a_megabyte_that_ends_in_a_half_close_comes_back_whole() {
    let server = start(program());
    let words = pattern(1 << 20);
    let mut slow = connect_narrow(&server);
    // All of it is sent, and the end too, while a good part of the echo is still on its way.
    let begin = words.len() - (32 << 10);
    let mut echo = slow.exchange(&words, begin).expect("send all, read most");
    slow.half_close().expect("half-close");
    echo.extend(slow.read_to_end().expect("read to the end"));
    assert!(echo == words, "the echo differs");
    expect_connections(&server, 0);
}

#[test]
fn a_reset_leaves_the_others_alone() {
    let server = start(program());
    let mut other = connect(&server);
    speak(&mut other, b"before");
    for _ in 0..20 {
        let mut rude = connect(&server);
        speak(&mut rude, b"hello");
        rude.reset();
    }
    // A client that resets when the server does not read from it, only wants to write.
    let mut deaf = connect_narrow(&server);
    stuff(&mut deaf, &server);
    deaf.reset();
    // And one that has ended its sending, and resets while its echo is waiting.
    let mut ended = connect_narrow(&server);
    stuff(&mut ended, &server);
    ended.half_close().expect("half-close");
    wait_until_asleep(&server).expect("it rests");
    ended.reset();
    expect_connections(&server, 1);
    expect_no_spin(&server);
    speak(&mut other, b"after");
    expect_alive(&server);
}

#[test]
fn idle_is_idle() {
    let server = start(program());
    expect_no_spin(&server);
    let mut peers: Vec<Peer> = (0..3).map(|_| connect(&server)).collect();
    expect_no_spin(&server);
    for peer in &mut peers {
        speak(peer, &pattern(100_000));
    }
    expect_no_spin(&server);
    peers[1].close();
    expect_connections(&server, 2);
    expect_no_spin(&server);
}

#[test]
fn a_slow_reader_is_bounded_and_served_to_the_end() {
    let server = start(program());
    let mut other = connect(&server);
    speak(&mut other, b"before");
    let before = memory(&server);

    let mut slow = connect(&server);
    let sent = stuff(&mut slow, &server);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 2 << 20, "the server grew by {grown} bytes");
    // It waits for the client to read, and it sleeps meanwhile.
    expect_no_spin(&server);
    speak(&mut other, b"hello");

    expect_stuffed(&mut slow, sent);
    // It reads from this client again, and wants nothing from it any more.
    speak(&mut slow, &pattern(100_000));
    expect_no_spin(&server);
}

#[test]
fn a_slow_reader_may_end_its_sending_first() {
    let server = start(program());
    let mut slow = connect_narrow(&server);
    let sent = stuff(&mut slow, &server);
    slow.half_close().expect("half-close");
    wait_until_asleep(&server).expect("it rests");
    expect_no_spin(&server);
    expect_stuffed(&mut slow, sent);
    slow.expect_end().expect("the end of the stream");
    expect_connections(&server, 0);
}

/// A buffer that is never empty keeps what has not been sent, and not what has passed through it.
#[test]
fn a_stream_that_never_pauses_takes_no_more_memory_than_a_slow_reader() {
    let server = start(program());
    let mut peer = connect(&server);
    speak(&mut peer, b"hello");
    let before = memory(&server);
    let mut sent = stuff(&mut peer, &server);
    let (mut received, piece) = (0, pattern(PIECE));
    while received < 32 << 20 {
        let echo = peer.read_exactly(PIECE).expect("a piece of the echo");
        assert!(echo == piece, "wrong bytes after {received}");
        received += echo.len();
        sent += peer.write_available(&piece[sent % PIECE..]).expect("send");
    }
    expect_no_spin(&server);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 2 << 20, "the server grew by {grown} bytes");
    peer.half_close().expect("half-close");
    let rest = peer.read_to_end().expect("the rest of the echo");
    assert_eq!(received + rest.len(), sent);
}

#[test]
fn a_burst_of_connections_is_served() {
    let server = start(program());
    let mut peers = burst(server.addr(), 300, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
        speak(peer, b"hello");
    }
    for peer in &mut peers {
        speak(peer, b"again");
    }
}

/// Each of three connections in turn is closed by its client, and at the same time the other two have
/// something to say. All three are served before the server asks again.
#[test]
fn one_that_closes_takes_no_turn_from_its_neighbours() {
    for closes in 0..3 {
        let recorded = Recorded::start(program());
        let server = &recorded.server;
        let mut peers = [connect(server), connect(server), connect(server)];
        for peer in &mut peers {
            speak(peer, b"hello");
        }
        let before = recorded.calls().len();
        assert!(server.pause());
        for (at, peer) in peers.iter_mut().enumerate() {
            if at == closes {
                peer.close();
            } else {
                peer.send(b"and I?").expect("send");
            }
        }
        server.resume();
        for (at, peer) in peers.iter_mut().enumerate() {
            if at != closes {
                assert_eq!(peer.read_exactly(6).expect("its echo"), b"and I?");
                // One echo, and not the one that was meant for another.
                peer.expect_silence(server).expect("nothing more");
            }
        }
        expect_connections(server, 2);

        // A wait was under way when the server was stopped; its end is the first of the new calls.
        let calls = recorded.calls().split_off(before);
        let mut turns = calls.split(|call| call.name == WAIT);
        let ready = calls.iter().filter(|call| call.name == WAIT);
        let first_with_events = ready.map(returned).position(|count| count > Some(0));
        let turn = first_with_events.and_then(|at| turns.nth(at + 1));
        let turn = turn.unwrap_or_else(|| panic!("no turn with events: {calls:#?}"));
        let reads = turn.iter().filter(|call| call.name == "read").count();
        assert_eq!(reads, 3, "reads in the turn of all three: {calls:#?}");
    }
}

/// A number that is closed in a batch, and a connection that is accepted in the same turn and gets it.
#[test]
fn a_new_connection_does_not_inherit_the_events_of_an_old_one() {
    let server = start(program());
    for _ in 0..5 {
        let mut old = [connect(&server), connect(&server)];
        for peer in &mut old {
            speak(peer, b"hello");
        }
        wait_until_asleep(&server).expect("it rests");
        assert!(server.pause());
        old[0].close();
        let mut new = connect(&server);
        old[1].reset();
        new.send(b"I am new").expect("send");
        server.resume();
        assert_eq!(new.read_exactly(8).expect("its echo"), b"I am new");
        expect_connections(&server, 1);
        speak(&mut new, b"and I am still here");
    }
}

#[test]
fn it_can_be_started_again_on_the_same_port() {
    let server = start(program());
    let mut peer = connect(&server);
    speak(&mut peer, b"hello");
    let port = server.port();
    // The server ends first, so its side of the connection stays in TIME_WAIT.
    drop(server);
    peer.expect_end().expect("the end of the stream");
    peer.close();
    speak(&mut connect(&start(program().port(port))), b"hello again");
}

#[test]
fn at_the_descriptor_limit_the_others_wait_their_turn() {
    let server = start(program().limit_nofile(32));
    // What the server itself needs, besides connections.
    let own = descriptors(&server);
    let room = 32 - own;
    let mut peers: Vec<Peer> = (0..40).map(|_| connect(&server)).collect();
    let not_accepted = || {
        probe::listener(server.pid(), server.port())
            .expect("/proc tells the queue")
            .rx_queue
    };
    let full = wait_until(grader::DEADLINE, || not_accepted() == 40 - room as u64);
    assert!(full.is_ok(), "{} are not accepted", not_accepted());
    for peer in &mut peers[..room] {
        speak(peer, b"hello");
    }
    expect_no_spin(&server);
    let mut waiting = peers.split_off(room);
    // One by one: each place that becomes free is taken.
    for (served, free) in waiting.iter_mut().zip(&mut peers) {
        free.close();
        speak(served, b"at last");
    }
    expect_no_spin(&server);
    for peer in peers.iter_mut().skip(waiting.len()) {
        speak(peer, b"still here");
    }
    expect_alive(&server);
}

#[test]
fn a_stopped_server_goes_on() {
    let server = start(program());
    let mut peer = connect(&server);
    for _ in 0..5 {
        speak(&mut peer, b"hello");
        wait_until_asleep(&server).expect("it rests");
        assert!(server.pause());
        server.resume();
    }
    speak(&mut peer, b"hello");
}

#[test]
fn a_busy_port_is_named() {
    let server = start(program());
    let Err(failure) = program().port(server.port()).start() else {
        panic!("two servers have the same port");
    };
    let said = failure.to_string();
    let expected = format!(
        "bind 127.0.0.1:{}: Address already in use (EADDRINUSE)",
        server.port()
    );
    assert!(said.contains(&expected), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// A client with so little room that the server meets short writes and `EAGAIN` within a megabyte. With the
/// kernel's own choice of buffers it takes some four.
pub fn connect_narrow(server: &grader::Server) -> Peer {
    Connect::to(server.addr())
        .narrow()
        .connect()
        .expect("connect")
}
