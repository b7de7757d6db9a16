//! More work than the pool will take.

use crate::common::*;
use crate::ending;
use grader::{DEADLINE, wait_until};

#[test]
fn whoever_finds_the_queue_full_is_refused() {
    let _busy = busy();
    let server = start(&["--workers", "1", "--queue", "2"]);
    let mut peers = [(); 3].map(|()| connect(&server));
    for peer in &mut peers {
        ask(peer, ENDLESS, &server);
    }
    let mut late = connect(&server);
    for _ in 0..3 {
        fine(late.send(&[get("/work/1"), get("/")].concat()));
        let refused = reply(&mut late);
        assert_eq!((refused.status, refused.closes), (503, false));
        expect_reply(&mut late, HELLO);
    }
    for peer in &mut peers {
        assert_eq!(peer.read_available(), Ok(Vec::new()), "no reply so early");
    }
}

#[test]
fn a_place_that_is_free_again_is_used() {
    let _busy = busy();
    let server = start(&["--workers", "1", "--queue", "0"]);
    let mut peers = [(); 2].map(|()| connect(&server));
    // Both are there at once, in this order.
    assert!(server.pause());
    for peer in &mut peers {
        fine(peer.send(&get("/work/100")));
    }
    server.resume();
    let [first, second] = &mut peers;
    assert_eq!(reply(second).status, 503);
    expect_reply(first, DONE);
    expect_ok(second, &get("/work/1"), DONE);
}

/// `--when-full wait`: no 503, and nobody is forgotten.
#[test]
fn whoever_finds_the_queue_full_may_wait_instead() {
    let _busy = busy();
    let server = start(&["--workers", "1", "--queue", "0", "--when-full", "wait"]);
    let mut peers = [(); 4].map(|()| connect(&server));
    assert!(server.pause());
    for peer in &mut peers {
        fine(peer.send(&[get("/work/100"), get("/")].concat()));
    }
    server.resume();
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), HELLO);
    for peer in &mut peers {
        expect_reply(peer, DONE);
        expect_reply(peer, HELLO);
    }
    let report = ending::report(&server);
    assert_eq!(number(&report, "jobs_refused"), 0);
    assert_eq!(number(&report, "jobs_waited"), 3);
    assert_eq!(number(&report, "jobs_delivered"), 4);
}

#[test]
fn nothing_is_read_from_a_client_that_waits() {
    let _busy = busy();
    let server = start(&["--workers", "1", "--queue", "0", "--when-full", "wait"]);
    let mut busy = connect(&server);
    ask(&mut busy, ENDLESS, &server);
    let mut waiting = connect(&server);
    ask(&mut waiting, "/work/1", &server);
    let more = get("/");
    fine(waiting.send(&more));
    // Somebody else is served, so the loop has seen what came before.
    let mut other = connect(&server);
    expect_ok(&mut other, &get("/"), HELLO);
    fine(wait_until(DEADLINE, || {
        unread(&server, &waiting) == more.len() as u64
    }));
    assert_eq!(waiting.read_available(), Ok(Vec::new()));
}

/// Whoever leaves while it waits costs no worker anything.
#[test]
fn whoever_leaves_the_line_is_forgotten() {
    let _busy = busy();
    let server = start(&["--workers", "1", "--queue", "0", "--when-full", "wait"]);
    let mut busy = connect(&server);
    let mut leave = [(); 5].map(|()| connect(&server));
    let mut last = connect(&server);
    expect_ok(&mut last, &get("/"), HELLO);
    let open = descriptors(&server);
    assert!(server.pause());
    // Long enough for the others to leave, also on a machine that has much to do.
    fine(busy.send(&get("/work/400")));
    for peer in &mut leave {
        fine(peer.send(&get("/work/1")));
    }
    fine(last.send(&get("/work/1")));
    server.resume();
    for peer in &mut leave {
        expect_read(peer, &server);
        peer.reset();
    }
    expect_descriptors(&server, open - leave.len());
    expect_reply(&mut busy, DONE);
    expect_reply(&mut last, DONE);
    let report = ending::report(&server);
    assert_eq!(number(&report, "jobs_given_up"), 5);
    assert_eq!(number(&report, "jobs_submitted"), 2);
}
