//! The `poll` server: what every echo server must survive, and what concerns this one.

mod echo;

use std::collections::BTreeMap;

use echo::calls::{Flows, Recorded, field, has, number};
use echo::*;
use grader::{Peer, Program, chapter, probe};
use trace::{Call, Value};

/// The call in which the server waits.
const WAIT: &str = "poll";

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ch03-poll")).args(["serve"])
}

/// More than `select` can tell apart.
#[test]
fn eleven_hundred_connections_are_served() {
    const CONNECTIONS: usize = 1_100;
    const DESCRIPTORS: u64 = 1_200;
    if !probe::raise_descriptor_limit(2 * DESCRIPTORS) {
        assert!(!chapter::is_exact(), "the descriptor limit is too low");
        eprintln!("left out: the descriptor limit is too low");
        return;
    }
    let server = start(program().limit_nofile(DESCRIPTORS));
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        speak(peer, format!("I am number {number}").as_bytes());
    }
    let highest = probe::descriptors(server.pid()).expect("/proc tells the descriptors");
    let (highest, _) = highest.last().expect("there are some");
    assert!(*highest >= 1_024, "the highest descriptor is {highest}");
    expect_no_spin(&server);
    // From the middle, the end and the beginning of the list.
    for at in [500, peers.len() - 2, 0] {
        peers.swap_remove(at).close();
    }
    expect_connections(&server, CONNECTIONS - 3);
    for peer in peers.iter_mut().step_by(100).rev() {
        speak(peer, b"still here");
    }
}

/// What each entry of a `poll` asks for, by its descriptor.
fn asked(poll: &Call) -> BTreeMap<i128, &Value> {
    let Value::Array(entries) = &poll.args[0] else {
        panic!("no list: {poll}");
    };
    // An entry with a negative number asks for nothing.
    let entries = entries
        .iter()
        .filter(|entry| number(field(entry, "fd")) >= 0);
    entries
        .map(|entry| (number(field(entry, "fd")), field(entry, "events")))
        .collect()
}

#[test]
fn it_asks_for_what_it_can_use_and_for_nothing_else() {
    follow_a_slow_reader(program());
}

/// In small steps the output buffer is seen between its two marks.
#[test]
fn it_reads_again_at_the_low_water_mark_and_not_before() {
    follow_a_slow_reader(program().env("READINESS_INJECT", "write:retval=4096"));
}

fn follow_a_slow_reader(program: Program) {
    let recorded = Recorded::start(program);
    let server = &recorded.server;
    let mut slow = connect_narrow(server);
    let mut other = connect(server);
    let sent = stuff(&mut slow, server);
    speak(&mut other, &pattern(100_000));
    expect_stuffed(&mut slow, sent);
    speak(&mut slow, b"hello");
    slow.half_close().expect("half-close");
    slow.expect_end().expect("the end of the stream");

    let (mut flows, mut polls) = (Flows::default(), 0);
    for call in recorded.calls() {
        if call.name == "poll" {
            let asked = asked(&call);
            for (fd, flow) in &flows.of {
                let events = asked[fd];
                let found = (has(events, "POLLIN"), has(events, "POLLOUT"));
                let expected = (flow.wants_input(), flow.has_output());
                assert_eq!(found, expected, "POLLIN and POLLOUT with {flow:?}: {call}");
            }
            assert_eq!(asked.len(), flows.of.len() + 1, "and the listener: {call}");
            polls += 1;
        }
        flows.follow(&call);
    }
    let pauses = flows.pauses;
    assert!(polls > 10 && pauses > 0, "{polls} polls, {pauses} pauses");
}

/// A list that is longer than the descriptor limit cannot be watched. Only somebody else can bring that
/// about, by lowering the limit of a running server; it must end with a reason, and not spin.
#[test]
fn a_limit_that_is_lowered_too_far_is_named() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..20).map(|_| connect(&server)).collect();
    for peer in &mut peers {
        speak(peer, b"hello");
    }
    let limit = sys::Rlimit {
        rlim_cur: 10,
        rlim_max: 10,
    };
    sys::prlimit(server.pid(), sys::Resource::NoFile, Some(limit)).expect("prlimit");
    peers[0].send(b"hello").expect("send");
    expect_last_words(&server, "poll of 21 descriptors: Invalid argument (EINVAL)");
}
