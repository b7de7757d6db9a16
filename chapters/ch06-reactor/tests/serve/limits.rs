//! Too many clients, too much from one client, and how little an idle one costs.

use crate::common::*;
use grader::peer::{Steps, burst};
use grader::{Peer, probe, wait_until_asleep};
use sys::{Resource, Rlimit};

/// 0, 1, 2, the listener, the epoll instance and the signalfd leave room for 26 connections.
const LIMIT: u64 = 32;
const OWN: usize = 6;

#[test]
fn at_the_descriptor_limit_the_old_are_served_and_the_new_wait() {
    let server = start(program().limit_nofile(LIMIT));
    let mut peers = burst(server.addr(), 60, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
    }
    expect_descriptors(&server, LIMIT as usize);
    // It looks again now and then, so it is not asleep for long. But it does not burn its time either.
    expect_no_spin(&server);
    let waiting = peers.split_off(LIMIT as usize - OWN);
    for peer in &mut peers {
        expect_ok(peer, &get("/"), HELLO);
    }
    // As some leave, others come in.
    for mut peer in waiting {
        drop(peers.remove(0));
        expect_ok(&mut peer, &get("/"), HELLO);
        peers.push(peer);
    }
    let mut late = connect(&server);
    drop(peers);
    expect_ok(&mut late, &get("/"), HELLO);
    drop(late);
    expect_descriptors(&server, OWN);
    assert!(metrics(&server).number("descriptor_limits") > 0);
}

#[test]
fn a_limit_that_is_raised_is_noticed_although_nobody_leaves() {
    let server = start(program());
    let limit = sys::prlimit(server.pid(), Resource::NoFile, None).expect("prlimit");
    let lowered = Rlimit {
        rlim_cur: LIMIT,
        ..limit
    };
    sys::prlimit(server.pid(), Resource::NoFile, Some(lowered)).expect("prlimit");
    let mut peers: Vec<Peer> = (0..40).map(|_| connect(&server)).collect();
    expect_descriptors(&server, LIMIT as usize);
    sys::prlimit(server.pid(), Resource::NoFile, Some(limit)).expect("prlimit");
    for peer in &mut peers {
        expect_ok(peer, &get("/"), HELLO);
    }
}

#[test]
fn at_the_connection_limit_the_ninth_waits_for_one_of_the_eight() {
    let server = start_with("--max-connections", 8);
    let mut peers: Vec<Peer> = (0..8).map(|_| connect(&server)).collect();
    for peer in &mut peers {
        expect_ok(peer, &get("/"), HELLO);
    }
    let mut ninth = connect(&server);
    ninth.send(&get("/")).expect("send");
    ninth.expect_silence(&server).expect("there is no place");
    expect_no_spin(&server);
    let listener = fine(probe::listener(server.pid(), server.port()));
    assert_eq!(listener.rx_queue, 1, "clients that wait to be accepted");

    drop(peers.pop());
    expect_reply(&mut ninth, HELLO);
    // A place that a handler makes free counts as well, and so does one that a timer makes free.
    let mut tenth = connect(&server);
    let fd = who(&mut ninth);
    expect_ok(&mut peers[0], &get(&format!("/kick/{fd}")), b"done\r\n");
    expect_ok(&mut tenth, &get("/"), HELLO);
}

/// The client with 4,000 requests and the one with a single request are found in the same turn. How long that
/// takes is not asked, only in which order the replies leave.
#[test]
fn thousands_of_requests_of_one_client_do_not_keep_another_waiting() {
    let recording = Recording::new("fairness");
    let server = start(recording.program());
    let (mut greedy, mut modest, mut patient) =
        (connect(&server), connect(&server), connect(&server));
    let fds = [&mut greedy, &mut modest, &mut patient].map(who);
    wait_until_asleep(&server).expect("it rests");
    let before = recording.lines().len();

    assert!(server.pause());
    greedy.send(&get("/spin/100").repeat(4_000)).expect("send");
    modest.send(&get("/")).expect("send");
    patient.send(&get("/after/20")).expect("send");
    server.resume();
    expect_reply(&mut modest, HELLO);
    expect_reply(&mut patient, b"done\r\n");
    for _ in 0..4_000 {
        expect_reply(&mut greedy, b"done\r\n");
    }

    wait_until_asleep(&server).expect("it rests");
    let written = recording.written_to(before);
    let greedys = |writes: &[i32]| writes.iter().filter(|fd| **fd == fds[0]).count();
    let all = greedys(&written);
    assert!(all >= 4_000 / 16, "its replies leave 16 at a time");
    let [_, modests, patients] = fds.map(|fd| written.iter().position(|other| *other == fd));
    let first = modests.expect("a write to the modest one");
    assert!(
        greedys(&written[..first]) <= 1,
        "after {}",
        greedys(&written[..first])
    );
    // 20 ms are 13 rounds of 16 requests of 100 microseconds. Half of all is far more.
    let timer = patients.expect("a write to the patient one");
    assert!(
        greedys(&written[..timer]) < all / 2,
        "after {}",
        greedys(&written[..timer])
    );
}

#[test]
fn a_reply_without_end_and_a_fast_reader_do_not_keep_another_waiting() {
    const LEN: usize = 200_000_000;
    let server = start(program());
    let (mut greedy, mut modest) = (connect(&server), connect(&server));
    greedy.send(&get(&format!("/bytes/{LEN}"))).expect("send");
    let head = reply_head(&mut greedy);
    let mut done = 0;
    while done < head.len {
        // It reads as fast as it can, and the other one asks now and then.
        let piece = (10 << 20).min(head.len - done);
        greedy
            .read_each(piece, |at, bytes| {
                let wrong = http::pattern::first_difference((done + at) as u64, bytes);
                assert_eq!(wrong, None, "the first wrong byte");
            })
            .expect("read");
        done += piece;
        expect_ok(&mut modest, &get("/"), HELLO);
    }
}

#[test]
fn an_idle_connection_costs_at_most_512_bytes() {
    const CONNECTIONS: usize = 4_000;
    const WARM: usize = 1_000;
    if !probe::raise_descriptor_limit(CONNECTIONS as u64 + 100) {
        eprintln!("left out: this process may not have {CONNECTIONS} descriptors");
        return;
    }
    let server = start(program());
    let limit = fine(sys::prlimit(server.pid(), Resource::NoFile, None));
    let raised = Rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    fine(sys::prlimit(server.pid(), Resource::NoFile, Some(raised)));

    let mut peers = Vec::new();
    let mut memory = 0;
    for number in 0..CONNECTIONS {
        if number == WARM {
            memory = resident(&server);
        }
        let mut peer = connect(&server);
        expect_ok(&mut peer, &get("/bytes/5000"), &pattern(5000));
        peers.push(peer);
    }
    // Each has its reply, so nothing more is to come.
    let each = (resident(&server) - memory) / (CONNECTIONS - WARM) as u64;
    println!("{each} bytes for each idle connection");
    assert!(each <= 512, "{each} bytes");
}
