//! The server against clients that are slow, rude or many, and against a kernel that refuses.

use grader::peer::{Connect, Steps, burst};
use grader::probe;
use grader::survival::{Protocol, assert_survives};
use grader::wait::{idle_cpu, wait_for};
use grader::{DEADLINE, Peer, Program, Server, wait_until};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ch01-threads")).args(["serve"])
}

fn start(program: Program) -> Server {
    program.start().expect("the server starts")
}

fn connect(server: &Server) -> Peer {
    Peer::connect(server.addr()).expect("connect")
}

/// Sends words and expects them back.
#[track_caller]
fn speak(peer: &mut Peer, words: &[u8]) {
    match peer.exchange(words, words.len()) {
        Ok(echo) => assert!(echo == words, "the echo of {} bytes differs", words.len()),
        Err(interrupted) => panic!("{interrupted}"),
    }
}

/// Bytes in which a lost, doubled or moved piece shows: 251 is prime, so no power of two hides a shift.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Waits until only the accepting thread is left.
#[track_caller]
fn expect_one_thread(server: &Server) {
    let one = wait_for(DEADLINE, || match probe::thread_count(server.pid()) {
        Ok(1) => Ok(()),
        other => Err(format!("threads: {other:?}")),
    });
    if let Err(late) = one {
        panic!("threads are left over: {late}");
    }
}

#[track_caller]
fn expect_no_spin(server: &Server) {
    let activity = idle_cpu(server).expect("/proc tells the CPU time");
    assert!(!activity.is_spin(), "it spins: {activity}");
}

#[track_caller]
fn expect_alive(server: &Server) {
    if let Some(ending) = server.ended() {
        panic!("the server {ending}:\n{}", server.output().stderr);
    }
}

/// The grader's battery for any server: a client that never reads, and thousands that come and go, among
/// others.
#[test]
fn survives_difficult_clients() {
    assert_survives(&program(), Protocol::Echo);
}

#[test]
fn echoes() {
    let server = start(program());
    let mut peer = connect(&server);
    speak(&mut peer, b"hello");
    speak(&mut peer, b"and once more");
}

#[test]
fn a_silent_client_keeps_nobody_waiting() {
    let server = start(program());
    let _silent = connect(&server);
    let mut half_spoken = connect(&server);
    half_spoken.send(b"PI").expect("send");
    let mut other = connect(&server);
    speak(&mut other, b"hello");
}

#[test]
fn a_megabyte_goes_both_ways() {
    let server = start(program());
    speak(&mut connect(&server), &pattern(1 << 20));
    // Little room at the client: the server's write sleeps again and again.
    let mut narrow = Connect::to(server.addr())
        .narrow()
        .connect()
        .expect("connect");
    speak(&mut narrow, &pattern(1 << 20));
}

#[test]
fn a_half_close_is_answered() {
    let server = start(program());
    let words = pattern(50_000);
    let mut peer = connect(&server);
    // Bytes and end are both there before the server looks.
    assert!(server.pause());
    peer.send(&words).expect("send");
    peer.half_close().expect("half-close");
    server.resume();
    assert!(peer.read_to_end().expect("read to the end") == words);
    expect_one_thread(&server);
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
        // And one whose reply is on its way: the write fails, not the read.
        let mut deaf = Connect::to(server.addr())
            .narrow()
            .connect()
            .expect("connect");
        while deaf.write_available(&[7; 65_536]).expect("send") > 0 {}
        deaf.reset();
    }
    speak(&mut other, b"after");
    expect_alive(&server);
    other.close();
    expect_one_thread(&server);
}

#[test]
fn finished_threads_are_gone() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..50).map(|_| connect(&server)).collect();
    for peer in &mut peers {
        speak(peer, b"hello");
    }
    assert_eq!(probe::thread_count(server.pid()), Ok(1 + 50));
    drop(peers);
    expect_one_thread(&server);
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
fn a_thread_that_cannot_be_made_costs_one_connection() {
    let idle = probe::memory(start(program()).pid()).expect("/proc tells the memory");
    // A thread that has its stack needs a little more while it starts, and without that it can only abort.
    // The limits are this little apart, and together they cover a stack: one of them is reached there.
    let (little, stack) = (12 << 10, 256 << 10);
    for step in 0..=stack / little {
        let limit = idle.size + (4 << 20) + step * little;
        let server = start(program().limit_as(limit));
        // All at once, so that threads start while others are being made.
        let mut served = Vec::new();
        for mut peer in burst(server.addr(), 40, &Steps::new()).expect("connect") {
            if peer.exchange(b"hello", 5).is_ok() {
                served.push(peer);
            }
        }
        expect_alive(&server);
        assert!(
            (6..40).contains(&served.len()),
            "{} of 40 were served",
            served.len()
        );
        for peer in &mut served {
            speak(peer, b"still here");
        }
        // What has ended makes room for others.
        served.truncate(served.len() - 5);
        let recovered = wait_until(DEADLINE, || {
            let mut peer = connect(&server);
            let is_served = peer.exchange(b"hello", 5).is_ok();
            served.push(peer);
            is_served
        });
        assert!(recovered.is_ok(), "nobody is served any more");
        expect_alive(&server);
    }
}

#[test]
fn at_the_descriptor_limit_the_others_wait_their_turn() {
    let server = start(program().limit_nofile(32));
    let mut peers: Vec<Peer> = (0..40).map(|_| connect(&server)).collect();
    let not_accepted = || {
        probe::listener(server.pid(), server.port())
            .expect("/proc tells the queue")
            .rx_queue
    };
    // Standard input, output and error, the listener, and 28 connections.
    let full = wait_until(DEADLINE, || not_accepted() == 40 - 28);
    assert!(
        full.is_ok(),
        "{} connections wait in the queue",
        not_accepted()
    );
    for peer in &mut peers[..28] {
        speak(peer, b"hello");
    }
    expect_no_spin(&server);
    let waiting = peers.split_off(28);
    drop(peers);
    for mut peer in waiting {
        speak(&mut peer, b"at last");
    }
    expect_alive(&server);
}

/// A server in whose calls these faults are injected.
fn disturbed(faults: &str) -> Server {
    start(program().env("READINESS_INJECT", faults))
}

#[test]
fn no_descriptor_for_a_moment() {
    let server = disturbed("accept4:error=EMFILE:when=2..3");
    let mut first = connect(&server);
    speak(&mut first, b"hello");
    let mut second = connect(&server);
    speak(&mut second, b"hello");
    speak(&mut first, b"still here");
    for error in ["ENFILE", "ENOMEM", "ENOBUFS"] {
        let server = disturbed(&format!("accept4:error={error}:when=1"));
        speak(&mut connect(&server), b"hello");
    }
}

#[test]
fn no_descriptor_for_long_is_no_spin() {
    let server = disturbed("accept4:error=EMFILE:when=2+");
    let mut only = connect(&server);
    speak(&mut only, b"hello");
    let _waits = connect(&server);
    expect_no_spin(&server);
    speak(&mut only, b"still here");
}

#[test]
fn an_aborted_connection_does_not_end_the_listener() {
    for error in ["ECONNABORTED", "EINTR", "EPROTO", "ENETDOWN", "EPERM"] {
        let server = disturbed(&format!("accept4:error={error}:when=1..3"));
        speak(&mut connect(&server), b"hello");
    }
    // The real thing on Linux: a client that has reset its connection before it was accepted.
    let server = start(program());
    assert!(server.pause());
    for _ in 0..5 {
        connect(&server).reset();
    }
    server.resume();
    speak(&mut connect(&server), b"hello");
    expect_one_thread(&server);
}

#[test]
fn signals_and_short_writes_lose_nothing() {
    for faults in [
        "read:error=EINTR:when=1..9+2",
        "write:error=EINTR:when=1..9+2",
        "write:retval=7",
        "read:retval=1",
    ] {
        let server = disturbed(faults);
        let mut peer = connect(&server);
        speak(&mut peer, &pattern(10_000));
        peer.half_close().expect("half-close");
        peer.expect_end()
            .unwrap_or_else(|interrupted| panic!("{faults}: {interrupted}"));
    }
}

#[test]
fn a_broken_connection_ends_alone() {
    for faults in [
        "read:error=ECONNRESET:when=2",
        "write:error=EPIPE:when=2",
        "read:error=ETIMEDOUT:when=2",
    ] {
        let server = disturbed(faults);
        let mut other = connect(&server);
        speak(&mut other, b"hello");
        // Its read, or write, may be the second; or the other's, which goes on reading. One of them ends.
        let mut broken = connect(&server);
        let lost = broken.exchange(b"hello", 5).is_err() as u32
            + other.exchange(b"hello", 5).is_err() as u32;
        assert_eq!(lost, 1, "{faults}");
        speak(&mut connect(&server), b"hello");
        expect_alive(&server);
    }
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
