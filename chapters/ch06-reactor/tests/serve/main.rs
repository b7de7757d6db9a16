//! The server against clients that are fast, slow, silent or rude. `deadlines.rs` has time, `limits.rs` what
//! there is too much of, `faults.rs` the kernel that refuses, `signals.rs` the end.

#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod faults;
mod limits;
mod signals;

use common::*;
use grader::peer::{Steps, burst};
use grader::{DEADLINE, Peer, probe, wait_until, wait_until_asleep};
use sys::EPOLLIN;

#[test]
fn the_routes_of_this_chapter() {
    let server = start(program());
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/"), HELLO);
    expect_ok(&mut peer, &get("/bytes/1000"), &pattern(1000));
    expect_ok(&mut peer, &post(b"hello"), b"hello");
    for path in ["/block/1", "/spin/1", "/after/1", "/after/0"] {
        expect_ok(&mut peer, &get(path), b"done\r\n");
    }
    // Workers come in chapter 8; and nobody can kick himself.
    let own = format!("/kick/{}", who(&mut peer));
    for path in ["/work/1", "/no", "/kick/4000", &own] {
        peer.send(&get(path)).expect("send");
        assert_eq!(reply(&mut peer).status, 404, "{path}");
    }
    expect_ok(&mut peer, &get("/"), HELLO);
}

#[test]
fn pipelined_requests_are_all_answered_in_their_order() {
    let server = start(program());
    let mut peer = connect(&server);
    let mut requests: Vec<u8> = (0..300)
        .flat_map(|len| get(&format!("/bytes/{len}")))
        .collect();
    // The beginning of one more must not hold up those before it.
    requests.extend(b"GET / HT");
    peer.send(&requests).expect("send");
    for len in 0..300 {
        expect_reply(&mut peer, &pattern(len));
    }
    peer.send(b"TP/1.1\r\nHost: a\r\n\r\n").expect("send");
    expect_reply(&mut peer, HELLO);
    // More than one turn's budget, and nothing behind it: no event comes for the rest.
    peer.send(&get("/").repeat(17)).expect("send");
    for _ in 0..17 {
        expect_reply(&mut peer, HELLO);
    }
}

#[test]
fn a_reply_that_waits_for_a_timer_keeps_its_place() {
    let server = start(program());
    let mut peer = connect(&server);
    let requests = [
        get("/after/50"),
        get("/bytes/3"),
        get("/after/20"),
        get("/"),
    ];
    peer.send(&requests.concat()).expect("send");
    expect_reply(&mut peer, b"done\r\n");
    expect_reply(&mut peer, &pattern(3));
    expect_reply(&mut peer, b"done\r\n");
    expect_reply(&mut peer, HELLO);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = start(program());
    let mut peer = connect(&server);
    let mut request = post(b"abc");
    request.extend(get("/"));
    for byte in request {
        let before = times_asleep(&server);
        peer.send(&[byte]).expect("send");
        // Woken up for this byte, and asleep again: the next one is an event of its own.
        fine(wait_until(DEADLINE, || times_asleep(&server) > before));
    }
    expect_reply(&mut peer, b"abc");
    expect_reply(&mut peer, HELLO);
}

#[test]
fn what_came_before_the_connection_was_accepted_is_answered() {
    let server = start(program());
    assert!(server.pause());
    let mut peers = burst(server.addr(), 300, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
        peer.send(&get("/")).expect("send");
    }
    server.resume();
    for peer in &mut peers {
        expect_reply(peer, HELLO);
    }
}

#[test]
fn a_client_that_has_half_closed_gets_its_reply() {
    let server = start(program());
    let before = descriptors(&server);
    // A reply that leaves at once, one that has to wait for room, one that a timer makes, and several.
    for (request, bodies) in [
        (post(&pattern(50_000)), vec![pattern(50_000)]),
        (get("/bytes/6000000"), vec![pattern(6_000_000)]),
        (get("/after/50"), vec![b"done\r\n".to_vec()]),
        (get("/").repeat(40), vec![HELLO.to_vec(); 40]),
    ] {
        let mut peer = connect(&server);
        // Request and end of stream are both there before the server looks.
        wait_until_asleep(&server).expect("it rests");
        assert!(server.pause());
        peer.send(&request).expect("send");
        peer.half_close().expect("half-close");
        server.resume();
        for body in bodies {
            expect_reply(&mut peer, &body);
        }
        peer.expect_end().expect("the end of the stream");
    }
    // Half a request gets no answer, but an end.
    let mut peer = connect(&server);
    peer.send(b"GET / HT").expect("send");
    peer.half_close().expect("half-close");
    peer.expect_end().expect("the end of the stream");
    expect_descriptors(&server, before);
}

#[test]
fn eight_megabytes_reach_a_slow_reader_byte_for_byte() {
    const LEN: usize = 8 << 20;
    let server = start(program());
    let mut peer = narrow(&server);
    peer.send(&get(&format!("/bytes/{LEN}"))).expect("send");
    // It reads only when the server has filled everything and waits for room, again and again.
    wait_until_asleep(&server).expect("it rests");
    let head = reply_head(&mut peer);
    assert_eq!((head.status, head.len), (200, LEN));
    let mut done = 0;
    while done < LEN {
        let piece = (2 << 20).min(LEN - done);
        let bytes = peer.read_exactly(piece).expect("read");
        let wrong = http::pattern::first_difference(done as u64, &bytes);
        assert_eq!(wrong, None, "the first wrong byte");
        done += piece;
        wait_until_asleep(&server).expect("it rests");
    }
    expect_ok(&mut peer, &get("/"), HELLO);
    // It has its reply, so nobody asks for room any more.
    wait_until_asleep(&server).expect("it rests");
    assert_eq!(masks(&server), [EPOLLIN]);
    expect_no_spin(&server);
}

#[test]
fn reading_goes_on_after_back_pressure() {
    let server = start(program());
    let memory = resident(&server);
    let mut peer = narrow(&server);
    let body = pattern(100_000);
    let request = post(&body);

    // Requests without end, and not a byte is read: until nothing moves any more.
    let mut sent = 0;
    let mut send = |peer: &mut Peer| {
        let taken = peer.write_available(&request[sent % request.len()..]);
        sent += taken.expect("send");
        assert!(sent < 100 << 20, "100 MB went out, so somebody keeps them");
        taken.expect("send") > 0
    };
    while send(&mut peer) || (wait_until_asleep(&server).is_ok() && send(&mut peer)) {}
    assert!(unread(&server, &peer) > 0, "it has stopped reading");
    expect_no_spin(&server);
    expect_memory(&server, memory + (4 << 20));

    // From here on the client is silent, and reads.
    for _ in 0..sent / request.len() {
        expect_reply(&mut peer, &body);
    }
    // The request that was cut off in the middle is still a request.
    peer.send(&request[sent % request.len()..]).expect("send");
    expect_reply(&mut peer, &body);
}

/// While the server waits for room it reads nothing, so it does not see the end of the client's stream. It
/// must neither spin on it nor forget it.
#[test]
fn an_end_of_stream_that_comes_under_back_pressure_waits_its_turn() {
    let server = start(program());
    let before = descriptors(&server);
    let mut peer = connect(&server);
    peer.send(&get("/bytes/20000000")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    peer.half_close().expect("half-close");
    wait_until_asleep(&server).expect("it rests");
    expect_no_spin(&server);
    expect_reply(&mut peer, &pattern(20_000_000));
    peer.expect_end().expect("the end of the stream");
    expect_descriptors(&server, before);
}

#[test]
fn a_megabyte_goes_there_and_back() {
    let server = start(program());
    let body = pattern(http::MAX_BODY);
    for mut peer in [connect(&server), narrow(&server)] {
        for _ in 0..2 {
            expect_ok(&mut peer, &post(&body), &body);
        }
    }
}

#[test]
fn unread_input_does_not_destroy_the_reply() {
    const LEN: usize = 3_900_000;
    let server = start(program());
    let before = descriptors(&server);
    let mut peer = narrow(&server);
    let mut requests = get(&format!("/bytes/{LEN}"));
    requests.extend(last("/bytes/10"));
    peer.send(&requests).expect("send");
    // All that the client's window holds is there, and the server waits for room. What comes now it does
    // not read before its last reply is out.
    wait_until_asleep(&server).expect("it rests");
    peer.send(b"7 bytes").expect("send");
    wait_until_asleep(&server).expect("it rests");
    assert_eq!(unread(&server, &peer), 7);
    expect_reply(&mut peer, &pattern(LEN));
    expect_reply(&mut peer, &pattern(10));
    let end = peer.expect_end();
    end.expect("an end of the stream, not a reset");
    // What comes now is thrown away, and is no reason for a reset either.
    peer.send(&get("/")).expect("send");
    let more = peer.expect_silence(&server);
    more.expect_err("the end, once more");
    peer.close();
    expect_descriptors(&server, before);
}

#[test]
fn a_refusal_reaches_a_client_that_goes_on_sending() {
    let server = start(program());
    let mut peer = connect(&server);
    peer.send(&post_head(20_000_000)).expect("send");
    peer.send(&vec![7; 20_000_000]).expect("send");
    assert_eq!(reply(&mut peer).status, 413);
    peer.expect_end().expect("the end of the stream");
}

#[test]
fn an_event_for_a_closed_connection_does_not_hit_its_successor() {
    let server = start(program());
    let (mut kicker, mut old) = (connect(&server), connect(&server));
    let fd = who(&mut old);
    wait_until_asleep(&server).expect("it rests");

    // All three in one batch: kick the old one, accept a new one, and the old one's own event.
    assert!(server.pause());
    kicker.send(&get(&format!("/kick/{fd}"))).expect("send");
    let mut new = connect(&server);
    old.close();
    server.resume();

    assert_eq!(reply(&mut kicker).status, 200);
    assert_eq!(
        who(&mut new),
        fd,
        "the new one has the number of the old one"
    );
    wait_until_asleep(&server).expect("it rests");
    expect_ok(&mut new, &get("/"), HELLO);
    assert_eq!(metrics(&server).number("stale_events"), 1);
}

#[test]
fn a_reset_leaves_the_others_alone() {
    let server = start(program());
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), HELLO);
    let before = descriptors(&server);
    // In each state: KEEPALIVE, READING, PROCESSING, WRITING, CLOSING; and with requests that wait behind.
    for request in [
        &b""[..],
        b"GET / HT",
        &get("/after/60000"),
        &get("/after/60000").repeat(2),
        &get("/bytes/10000000"),
        &last("/"),
    ] {
        let mut rude = connect(&server);
        rude.send(request).expect("send");
        wait_until_asleep(&server).expect("it rests");
        rude.reset();
        expect_descriptors(&server, before);
    }
    // And one that is gone before it is accepted.
    assert!(server.pause());
    connect(&server).reset();
    server.resume();
    expect_ok(&mut other, &get("/"), HELLO);
    expect_descriptors(&server, before);
    expect_no_spin(&server);
}

#[test]
fn clients_that_never_read_cost_a_fixed_amount() {
    let server = start(program());
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), HELLO);
    let (before, memory) = (descriptors(&server), resident(&server));

    let hundred_megabytes = get("/bytes/100000000");
    let pipelined = get("/bytes/1000000").repeat(200);
    let mut deaf: Vec<Peer> = (0..20).map(|_| connect(&server)).collect();
    for (number, peer) in deaf.iter_mut().enumerate() {
        let requests = [&hundred_megabytes, &pipelined][number % 2];
        peer.send(requests).expect("send");
    }
    wait_until_asleep(&server).expect("it rests");
    // 64 KiB of output each are 1.3 MB, and a few KiB of input; allocators round up.
    expect_memory(&server, memory + (4 << 20));
    expect_no_spin(&server);
    expect_ok(&mut other, &get("/"), HELLO);
    assert!(metrics(&server).number("output_high_water") <= 65_536);

    // Two of them begin to read, and get all of it.
    let head = reply_head(&mut deaf[0]);
    let read = deaf[0].read_each(head.len, |at, bytes| {
        assert_eq!(http::pattern::first_difference(at as u64, bytes), None);
    });
    read.expect("read");
    for _ in 0..200 {
        let head = reply_head(&mut deaf[1]);
        let read = deaf[1].read_each(head.len, |at, bytes| {
            assert_eq!(http::pattern::first_difference(at as u64, bytes), None);
        });
        read.expect("read");
    }
    drop(deaf);
    expect_descriptors(&server, before);
}

#[test]
fn five_thousand_connections_leave_nothing_behind() {
    let server = start(program());
    let before = descriptors(&server);
    let visit = |number: usize| {
        let mut peer = connect(&server);
        match number % 4 {
            0 => {}
            1 => peer.send(b"GET / HT").expect("send"),
            2 => expect_ok(&mut peer, &last("/"), HELLO),
            _ => expect_ok(&mut peer, &post(&pattern(20_000)), &pattern(20_000)),
        }
        // Some are closed as they should be. The others are reset, so that they do not stay in TIME_WAIT for
        // a minute, where thousands would slow down every look at /proc/net/tcp.
        if number % 3 < 2 {
            peer.reset();
        }
    };
    (0..500).for_each(visit);
    expect_descriptors(&server, before);
    let memory = resident(&server);
    (500..5_000).for_each(visit);
    expect_descriptors(&server, before);
    expect_memory(&server, memory + (1 << 20));
    let report = metrics(&server);
    assert_eq!(report.number("accepts"), 5_000);
    assert_eq!(report.number("closes"), 5_000);
    assert_eq!(
        report.number("timers"),
        0,
        "those of closed connections are gone"
    );
}

#[test]
fn idle_is_idle_and_nobody_is_watched_for_room() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..10).map(|_| connect(&server)).collect();
    // Idle after all kinds of things, long replies among them.
    for (number, peer) in peers.iter_mut().enumerate() {
        let body = pattern(1_000_000 * (number % 2));
        expect_ok(peer, &get(&format!("/bytes/{}", body.len())), &body);
    }
    wait_until_asleep(&server).expect("it rests");
    expect_no_spin(&server);
    assert_eq!(masks(&server), [EPOLLIN; 10]);
    assert_eq!(fine(probe::thread_count(server.pid())), 1);
}
