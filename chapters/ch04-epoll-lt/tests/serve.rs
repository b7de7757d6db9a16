//! The level-triggered `epoll` server: what every echo server must survive (the tests are chapter 3's), and
//! what concerns this one: its interest list.

#[path = "../../ch03-poll/tests/echo/mod.rs"]
mod echo;

use std::collections::BTreeMap;

use echo::calls::{Flows, Recorded, field, has, number, returned};
use echo::*;
use grader::wait::wait_for;
use grader::{DEADLINE, Peer, Program, Server, probe, wait_until_asleep};
use sys::{EPOLLET, EPOLLIN, EPOLLOUT};

/// The call in which the server waits.
const WAIT: &str = "epoll_wait";

/// Bits of a mask that the server decides about. The kernel adds errors and hang-ups to all.
const ASKED_FOR: u32 = EPOLLIN | EPOLLOUT | EPOLLET;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ch04-epoll-lt")).args(["serve"])
}

/// The masks in the kernel's list, in the order of their descriptors. Each entry's data is its descriptor.
fn masks(server: &Server) -> Vec<(i32, u32)> {
    let epolls = probe::epolls(server.pid()).expect("/proc tells the interest list");
    let epoll = match &epolls[..] {
        // It listens, and has not come further yet.
        [] => return Vec::new(),
        [epoll] => epoll,
        _ => panic!("one epoll instance: {epolls:?}"),
    };
    let mut masks: Vec<_> = epoll
        .interests
        .iter()
        .map(|entry| {
            assert_eq!(entry.data, entry.fd as u64);
            (entry.fd, entry.events & ASKED_FOR)
        })
        .collect();
    masks.sort_unstable();
    masks
}

/// Waits until the kernel's list is this one.
#[track_caller]
fn expect_masks(server: &Server, expected: &[(i32, u32)]) {
    let there = wait_for(DEADLINE, || match masks(server) {
        found if found == expected => Ok(()),
        found => Err(format!("{found:?}")),
    });
    if let Err(late) = there {
        panic!("{expected:?}: {late}");
    }
}

/// The first numbers of a server: standard input, output and error, the listener, epoll.
const LISTENER: i32 = 3;
const FIRST: i32 = 5;

#[test]
fn the_interest_list_is_the_listener_and_the_connections() {
    let server = start(program());
    expect_masks(&server, &[(LISTENER, EPOLLIN)]);
    let mut peers = [connect(&server), connect(&server), connect(&server)];
    for peer in &mut peers {
        speak(peer, b"hello");
    }
    let all = [LISTENER, FIRST, FIRST + 1, FIRST + 2].map(|fd| (fd, EPOLLIN));
    expect_masks(&server, &all);
    peers[1].close();
    expect_masks(&server, &[all[0], all[1], all[3]]);
    peers[2].reset();
    expect_masks(&server, &[all[0], all[1]]);
    // The lowest free number is given to the next one.
    let mut next = connect(&server);
    speak(&mut next, b"hello");
    expect_masks(&server, &all[..3]);
    drop((peers, next));
    expect_masks(&server, &all[..1]);
}

#[test]
fn the_mask_of_a_slow_reader_goes_from_in_to_out_and_back() {
    let server = start(program());
    let mut slow = connect_narrow(&server);
    speak(&mut slow, b"hello");
    expect_masks(&server, &[(LISTENER, EPOLLIN), (FIRST, EPOLLIN)]);
    // The output buffer is above the high-water mark: not read from, only written to.
    let sent = stuff(&mut slow, &server);
    expect_masks(&server, &[(LISTENER, EPOLLIN), (FIRST, EPOLLOUT)]);
    expect_stuffed(&mut slow, sent);
    expect_masks(&server, &[(LISTENER, EPOLLIN), (FIRST, EPOLLIN)]);
    // The end of the stream is found while the echo still waits: writing alone is left.
    let sent = stuff(&mut slow, &server);
    slow.half_close().expect("half-close");
    expect_stuffed(&mut slow, sent);
    slow.expect_end().expect("the end of the stream");
    expect_masks(&server, &[(LISTENER, EPOLLIN)]);
}

#[test]
fn the_listener_leaves_the_list_while_nothing_can_be_accepted() {
    let server = start(program().env("READINESS_INJECT", "accept4:error=EMFILE:when=3+"));
    let mut only = connect(&server);
    speak(&mut only, b"hello");
    let _waits = connect(&server);
    // Between its rests the listener is tried again, so look until it is seen resting.
    expect_masks(&server, &[(FIRST, EPOLLIN)]);
    speak(&mut only, b"still here");
    expect_masks(&server, &[(FIRST, EPOLLIN)]);
}

#[test]
fn an_entry_is_removed_before_its_descriptor_is_closed() {
    let recorded = Recorded::start(program());
    let mut peers = [connect(&recorded.server), connect(&recorded.server)];
    for peer in &mut peers {
        speak(peer, b"hello");
    }
    let [ends, breaks] = &mut peers;
    ends.close();
    breaks.reset();
    expect_connections(&recorded.server, 0);
    let calls = recorded.calls();
    let closes = calls.windows(2).filter(|pair| pair[1].name == "close");
    let mut closed = Vec::new();
    for pair in closes {
        let [before, close] = pair else {
            unreachable!("windows of two")
        };
        let fd = number(&close.args[0]);
        assert_eq!(before.name, "epoll_ctl", "{before}");
        assert!(has(&before.args[1], "EPOLL_CTL_DEL"), "{before}");
        assert_eq!(number(&before.args[2]), fd, "{before}");
        assert_eq!(returned(before), Some(0), "{before}");
        closed.push(fd as i32);
    }
    closed.sort_unstable();
    assert_eq!(closed, [FIRST, FIRST + 1]);
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

    let (mut flows, mut waits) = (Flows::default(), 0);
    // The kernel's list, as the calls of epoll_ctl make it.
    let mut masks = BTreeMap::new();
    for call in recorded.calls() {
        match call.name.as_str() {
            "epoll_ctl" => {
                let fd = number(&call.args[2]);
                let old = match has(&call.args[1], "EPOLL_CTL_DEL") {
                    true => masks.remove(&fd),
                    false => masks.insert(fd, field(&call.args[3], "events").clone()),
                };
                let is_new = has(&call.args[1], "EPOLL_CTL_ADD");
                assert_eq!(old.is_none(), is_new, "{call}");
                assert!(
                    is_new || old != masks.get(&fd).cloned(),
                    "it changes nothing: {call}"
                );
            }
            "epoll_wait" => {
                for (fd, flow) in &flows.of {
                    let mask = &masks[fd];
                    let found = (has(mask, "EPOLLIN"), has(mask, "EPOLLOUT"));
                    let expected = (flow.wants_input(), flow.has_output());
                    assert_eq!(
                        found, expected,
                        "EPOLLIN and EPOLLOUT with {flow:?}: {call}"
                    );
                }
                assert_eq!(masks.len(), flows.of.len() + 1, "and the listener: {call}");
                waits += 1;
            }
            _ => {}
        }
        flows.follow(&call);
    }
    let pauses = flows.pauses;
    assert!(waits > 10 && pauses > 0, "{waits} waits, {pauses} pauses");
}

#[test]
fn a_connection_that_cannot_be_registered_is_refused() {
    let server = start(program().env("READINESS_INJECT", "epoll_ctl:error=ENOSPC:when=2"));
    let mut refused = connect(&server);
    refused.expect_end().expect("the end of the stream");
    speak(&mut connect(&server), b"hello");
    expect_connections(&server, 0);
    expect_said(&server, "epoll_ctl ADD: No space left on device (ENOSPC)");
}

/// More than one batch of `epoll_wait` can hold.
#[test]
fn more_are_ready_than_fit_into_one_batch() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..600).map(|_| connect(&server)).collect();
    wait_until_asleep(&server).expect("it rests");
    assert!(server.pause());
    for peer in &mut peers {
        peer.send(b"hello").expect("send");
    }
    server.resume();
    for peer in &mut peers {
        assert_eq!(peer.read_exactly(5).expect("its echo"), b"hello");
    }
}
