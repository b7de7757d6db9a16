//! How it ends: in peace, and with a report.

use crate::common::*;
use grader::peer::Stop;
use grader::{DEADLINE, Ending, Peer, Server, wait_until, wait_until_asleep};
use sys::{SIGINT, SIGTERM, SIGUSR1};

#[track_caller]
fn expect_exit(server: &Server) {
    fine(wait_until(DEADLINE, || server.ended().is_some()));
    assert_eq!(server.ended(), Some(Ending::Exited(0)));
}

#[test]
fn it_reports_while_it_serves_and_at_its_end() {
    let server = start(program());
    let mut peer = connect(&server);
    for _ in 0..3 {
        expect_ok(&mut peer, &get("/"), HELLO);
    }
    let report = metrics(&server);
    assert_eq!(report.number("requests"), 3);
    assert_eq!(report.number("accepts"), 1);
    assert_eq!(report.number("turns_in_vain"), 0);
    // The first report is not in the second one's way.
    expect_ok(&mut peer, &get("/after/1"), b"done\r\n");
    let report = metrics(&server);
    assert_eq!(
        (report.number("requests"), report.number("timers_run")),
        (4, 1)
    );
    server.signal(SIGTERM);
    expect_exit(&server);
    fine(wait_until(DEADLINE, || {
        server.output().stderr.matches("metrics after").count() == 3
    }));
}

#[test]
fn signals_disturb_nobody() {
    let server = start(program());
    let mut peer = connect(&server);
    peer.send(&get("/after/300")).expect("send");
    for _ in 0..20 {
        server.signal(SIGUSR1);
        let_pass(10, &server);
        // These two do end the wait of a loop, without any event.
        assert!(server.pause());
        server.resume();
    }
    expect_reply(&mut peer, b"done\r\n");
}

#[test]
fn idle_connections_are_closed_and_nobody_new_is_let_in() {
    let server = start(program());
    let mut peers: Vec<Peer> = (0..5).map(|_| connect(&server)).collect();
    expect_ok(&mut peers[0], &get("/"), HELLO);
    // A request that has just arrived keeps the server alive for a moment.
    assert!(server.pause());
    peers[1].send(&get("/after/500")).expect("send");
    server.signal(SIGTERM);
    server.resume();
    for number in [0, 2, 3, 4] {
        peers[number].expect_end().expect("the end of the stream");
    }
    let refused = Peer::connect(server.addr());
    assert!(matches!(refused, Err(interrupted) if interrupted.stop == Stop::Refused));
    let reply = reply(&mut peers[1]);
    assert_eq!((reply.status, reply.closes), (200, true));
    peers[1].expect_end().expect("the end of the stream");
    drop(peers);
    expect_exit(&server);
}

#[test]
fn what_was_asked_before_is_answered() {
    let server = start(program());
    let (mut timer, mut large, mut fresh) = (connect(&server), connect(&server), connect(&server));
    let mut late = connect(&server);
    expect_ok(&mut late, &get("/"), HELLO);
    timer.send(&get("/after/100")).expect("send");
    large.send(&get("/bytes/20000000")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    // Behind the large reply, a request that the server has not read.
    large.send(&get("/bytes/7")).expect("send");
    // A request that arrives together with the signal, on a connection that was idle.
    assert!(server.pause());
    server.signal(SIGTERM);
    fresh.send(&get("/bytes/1000")).expect("send");
    late.send(&get("/").repeat(30)).expect("send");
    server.resume();

    expect_reply(&mut timer, b"done\r\n");
    expect_reply(&mut large, &pattern(20_000_000));
    let reply_behind = reply(&mut large);
    assert_eq!((reply_behind.body, reply_behind.closes), (pattern(7), true));
    let reply = reply(&mut fresh);
    assert_eq!((reply.body, reply.closes), (pattern(1000), true));
    // Of many requests the first is answered, and is the last.
    expect_reply(&mut late, HELLO);
    for mut peer in [timer, large, fresh, late] {
        peer.expect_end().expect("the end of the stream");
    }
    expect_exit(&server);
}

#[test]
fn nobody_is_waited_for_without_end() {
    let server = start(program());
    let mut peer = connect(&server);
    peer.send(&get("/after/60000")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    server.signal(SIGTERM);
    expect_exit(&server);
}

#[test]
fn asked_twice_it_ends_at_once() {
    let server = start(program());
    let mut peer = connect(&server);
    peer.send(&get("/after/60000")).expect("send");
    wait_until_asleep(&server).expect("it rests");
    server.signal(SIGINT);
    // The first one has been taken when the listener is gone.
    fine(wait_until(DEADLINE, || {
        Peer::connect(server.addr()).is_err()
    }));
    server.signal(SIGINT);
    expect_exit(&server);
}
