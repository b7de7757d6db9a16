//! The server against clients that are fast, slow, silent or rude. `faults.rs` has the kernel that refuses.
//!
//! Edge-triggered bugs hide as long as something goes on: the next byte, or the next client, brings the
//! forgotten ones to light. So in each of these tests somebody falls silent at the worst moment, and the
//! answer must come all the same.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod survival;

use common::*;
use grader::peer::{Connect, Steps, burst};
use grader::{DEADLINE, Peer, Server, probe, wait_until, wait_until_asleep};
use sys::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP};

#[test]
fn the_routes_of_this_chapter() {
    let server = start(program());
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/"), b"epoll ET reactor\r\n");
    expect_ok(&mut peer, &get("/bytes/1000"), &pattern(1000));
    expect_ok(&mut peer, &post(b"hello"), b"hello");
    expect_ok(&mut peer, &get("/block/1"), b"done\r\n");
    expect_ok(&mut peer, &get("/spin/1"), b"done\r\n");
    // Timers and workers come later; and nobody can kick himself.
    let own = format!("/kick/{}", who(&mut peer));
    for path in ["/after/1", "/work/1", "/no", &own] {
        peer.send(&get(path)).expect("send");
        assert_eq!(reply(&mut peer).status, 404, "{path}");
    }
    expect_ok(&mut peer, &get("/"), b"epoll ET reactor\r\n");
}

#[test]
fn a_burst_is_answered_without_another_byte() {
    let server = start(program());
    let mut peer = connect(&server);
    let body = pattern(65_536);
    expect_ok(&mut peer, &post(&body), &body);
}

#[test]
fn forty_clients_that_come_in_one_edge_are_all_served() {
    let server = start(program());
    assert!(server.pause());
    let mut peers = burst(server.addr(), 40, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
        peer.send(&get("/")).expect("send");
    }
    let listener = probe::listener(server.pid(), server.port()).expect("its row in /proc");
    assert_eq!(listener.rx_queue, 40, "clients that wait to be accepted");
    server.resume();
    for peer in &mut peers {
        assert_eq!(reply(peer).status, 200);
    }
}

/// The loop itself is held by a handler, and what comes meanwhile is found together.
#[test]
fn what_comes_while_a_handler_blocks_is_served_after_it() {
    let server = start(program());
    let (mut first, mut second) = (connect(&server), connect(&server));
    first.send(&get("/block/200")).expect("send");
    second.send(&get("/bytes/10")).expect("send");
    let mut peers = burst(server.addr(), 20, &Steps::new()).expect("connect");
    for peer in &mut peers {
        peer.wait_until_connected().expect("connect");
        peer.send(&get("/")).expect("send");
    }
    for peer in peers.iter_mut().chain([&mut second, &mut first]) {
        assert_eq!(reply(peer).status, 200);
    }
}

#[test]
fn the_first_reply_does_not_wait_for_another_edge() {
    let server = start(program());
    let mut peer = connect(&server);
    // By now the event that said "writable" has come and gone.
    wait_until_asleep(&server).expect("it rests");
    expect_ok(&mut peer, &get("/bytes/10"), &pattern(10));
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
    assert_eq!(reply(&mut peer).body, b"abc");
    assert_eq!(reply(&mut peer).body, b"epoll ET reactor\r\n");
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
        assert_eq!(reply(&mut peer).body, pattern(len));
    }
    peer.send(b"TP/1.1\r\nHost: a\r\n\r\n").expect("send");
    assert_eq!(reply(&mut peer).status, 200);
}

#[test]
fn a_client_that_has_half_closed_gets_its_reply() {
    let server = start(program());
    let before = descriptors(&server);
    // A reply that leaves at once, and one that has to wait for room.
    for (request, body) in [
        (post(&pattern(50_000)), pattern(50_000)),
        (get("/bytes/6000000"), pattern(6_000_000)),
    ] {
        let mut peer = connect(&server);
        // Request and end of stream are both there before the server looks.
        wait_until_asleep(&server).expect("it rests");
        assert!(server.pause());
        peer.send(&request).expect("send");
        peer.half_close().expect("half-close");
        server.resume();
        assert!(reply(&mut peer).body == body);
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
        assert_eq!(
            http::pattern::first_difference(done as u64, &bytes),
            None,
            "the first wrong byte"
        );
        done += piece;
        wait_until_asleep(&server).expect("it rests");
    }
    expect_ok(&mut peer, &get("/"), b"epoll ET reactor\r\n");
}

#[test]
fn reading_goes_on_after_back_pressure_without_another_byte() {
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
    expect_memory(&server, memory + (4 << 20));

    // From here on the client is silent, and reads. What lies in the server's socket must not be forgotten.
    for _ in 0..sent / request.len() {
        assert!(reply(&mut peer).body == body);
    }
    // The request that was cut off in the middle is still a request.
    peer.send(&request[sent % request.len()..]).expect("send");
    assert!(reply(&mut peer).body == body);
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
    // The server waits for room and does not read: this stays in its socket.
    wait_until_asleep(&server).expect("it rests");
    peer.send(b"7 bytes").expect("send");
    wait_until_asleep(&server).expect("it rests");
    assert_eq!(unread(&server, &peer), 7);
    assert!(reply(&mut peer).body == pattern(LEN));
    assert_eq!(reply(&mut peer).body, pattern(10));
    peer.expect_end()
        .expect("an end of the stream, not a reset");
    // What comes now is thrown away, and is no reason for a reset either.
    peer.send(&get("/")).expect("send");
    peer.expect_silence(&server)
        .expect_err("the end, once more");
    peer.close();
    expect_descriptors(&server, before);
}

#[test]
fn a_refusal_reaches_a_client_that_goes_on_sending() {
    let server = start(program());
    let mut peer = connect(&server);
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n";
    peer.send(head.as_bytes()).expect("send");
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
    expect_ok(&mut new, &get("/"), b"epoll ET reactor\r\n");
}

#[test]
fn a_reset_leaves_the_others_alone() {
    let server = start(program());
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), b"epoll ET reactor\r\n");
    let before = descriptors(&server);
    for request in [&b""[..], b"GET / HT", &get("/bytes/10000000")] {
        let mut rude = connect(&server);
        rude.send(request).expect("send");
        wait_until_asleep(&server).expect("it rests");
        rude.reset();
    }
    // And one that is gone before it is accepted.
    assert!(server.pause());
    connect(&server).reset();
    server.resume();
    expect_ok(&mut other, &get("/"), b"epoll ET reactor\r\n");
    expect_descriptors(&server, before);
}

#[test]
fn clients_that_never_read_cost_a_fixed_amount() {
    let server = start(program());
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), b"epoll ET reactor\r\n");
    let (before, memory) = (descriptors(&server), resident(&server));

    let hundred_megabytes = get("/bytes/100000000");
    let pipelined = get("/bytes/1000000").repeat(200);
    let mut deaf: Vec<Peer> = (0..20).map(|_| connect(&server)).collect();
    for (number, peer) in deaf.iter_mut().enumerate() {
        let requests = [&hundred_megabytes, &pipelined][number % 2];
        peer.send(requests).expect("send");
    }
    wait_until_asleep(&server).expect("it rests");
    // 64 KiB of output and 16 KiB of input each are 1.6 MB; allocators round up.
    expect_memory(&server, memory + (4 << 20));
    expect_no_spin(&server);
    expect_ok(&mut other, &get("/"), b"epoll ET reactor\r\n");

    // One of them begins to read, and gets all of it.
    let head = reply_head(&mut deaf[0]);
    let read = deaf[0].read_each(head.len, |at, bytes| {
        assert_eq!(http::pattern::first_difference(at as u64, bytes), None);
    });
    read.expect("read");
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
            2 => expect_ok(&mut peer, &last("/"), b"epoll ET reactor\r\n"),
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
}

#[test]
fn idle_is_idle_and_each_connection_is_registered_once_for_everything() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..10).map(|_| connect(&server)).collect();
    // Idle after all kinds of things, long replies among them.
    for (number, peer) in peers.iter_mut().enumerate() {
        let body = pattern(1_000_000 * (number % 2));
        expect_ok(peer, &get(&format!("/bytes/{}", body.len())), &body);
    }
    wait_until_asleep(&server).expect("it rests");
    expect_no_spin(&server);
    let everything = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    let epolls = probe::epolls(server.pid()).expect("/proc shows the interest list");
    let interests = &epolls[0].interests;
    let registered = interests.iter().filter(|interest| interest.data != 0);
    let masks: Vec<_> = registered.map(|one| one.events & everything).collect();
    assert_eq!(masks, [everything; 10]);
}

/// A client with so little room that the server soon meets a short write.
fn narrow(server: &Server) -> Peer {
    Connect::to(server.addr())
        .narrow()
        .connect()
        .expect("connect")
}

/// Asks which descriptor the connection has in the server.
fn who(peer: &mut Peer) -> i32 {
    peer.send(&get("/who")).expect("send");
    let body = String::from_utf8(reply(peer).body).expect("text");
    body.trim().parse().expect("a number")
}

/// How often the server has gone to sleep; 0 while it runs.
fn times_asleep(server: &Server) -> u64 {
    let threads = fine(probe::threads(server.pid()));
    let thread = &threads[0];
    if thread.is_waiting() {
        thread.switches
    } else {
        0
    }
}

/// How many bytes of this client wait in the server's socket.
fn unread(server: &Server, peer: &Peer) -> u64 {
    let rows = probe::connections(server.pid(), server.port()).expect("/proc/PID/net/tcp");
    let row = rows
        .iter()
        .find(|row| row.remote.port() == peer.local_port());
    row.expect("the connection's row").rx_queue
}
