//! The server, its pool, and clients that wait, leave, half-close or come in crowds. `full.rs` has the queue that is
//! full, `ending.rs` the end.

#[path = "../common/mod.rs"]
mod common;
mod ending;
mod full;

use common::*;
use grader::wait::idle_cpu;
use grader::{Peer, wait_until_asleep};

#[test]
fn the_routes_of_this_chapter() {
    let server = start(&[]);
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/"), HELLO);
    for path in ["/work/1", "/work/0", "/after/1", "/spin/1", "/block/1"] {
        expect_ok(&mut peer, &get(path), DONE);
    }
    expect_ok(&mut peer, &get("/bytes/3"), &[0, 1, 2]);
    for (path, status) in [("/work/", 400), ("/work/x", 400), ("/no", 404)] {
        fine(peer.send(&get(path)));
        assert_eq!(reply(&mut peer).status, status, "{path}");
    }
}

/// Whatever the workers do, and for however long: nobody else notices.
#[test]
fn the_loop_is_not_blocked() {
    let _busy = busy();
    let server = start(&["--workers", "2"]);
    let mut busy = [connect(&server), connect(&server)];
    for peer in &mut busy {
        ask(peer, ENDLESS, &server);
    }
    let mut other = connect(&server);
    for _ in 0..20 {
        expect_ok(&mut other, &get("/"), HELLO);
        expect_ok(&mut other, &get("/after/1"), DONE);
    }
    for peer in &mut busy {
        assert_eq!(peer.read_available(), Ok(Vec::new()), "no reply so early");
    }
}

#[test]
fn replies_come_in_the_order_of_their_requests() {
    let server = start(&["--workers", "4"]);
    let mut peer = connect(&server);
    for _ in 0..3 {
        let requests = ["/work/40", "/", "/work/1", "/bytes/3", "/work/0", "/"];
        fine(peer.send(&requests.map(get).concat()));
        for body in [DONE, HELLO, DONE, &[0, 1, 2], DONE, HELLO] {
            expect_reply(&mut peer, body);
        }
    }
}

#[test]
fn a_client_that_has_half_closed_gets_its_reply() {
    let server = start(&["--workers", "1"]);
    let before = descriptors(&server);
    for requests in [vec!["/work/50"], vec!["/work/20", "/", "/work/20"]] {
        // The second one stands in the queue when the end of its stream comes.
        let mut peers = [connect(&server), connect(&server)];
        assert!(server.pause());
        for peer in &mut peers {
            let bytes: Vec<u8> = requests.iter().flat_map(|path| get(path)).collect();
            fine(peer.send(&bytes));
            fine(peer.half_close());
        }
        server.resume();
        for mut peer in peers {
            for path in &requests {
                expect_reply(&mut peer, if *path == "/" { HELLO } else { DONE });
            }
            fine(peer.expect_end());
        }
    }
    expect_descriptors(&server, before);
}

/// Work that takes long enough for its client to leave before it is done, also on a machine that has much to do.
const ABANDONED: &str = "/work/300";

/// The first client leaves while its job runs. The second one gets its descriptor, and its slot.
#[test]
fn a_result_for_somebody_who_has_left_reaches_nobody() {
    let _busy = busy();
    let server = start(&["--workers", "1"]);
    let mut witness = connect(&server);
    expect_ok(&mut witness, &get("/"), HELLO);
    let open = descriptors(&server);

    let mut first = connect(&server);
    let fd = who(&mut first);
    ask(&mut first, ABANDONED, &server);
    first.reset();
    expect_descriptors(&server, open);
    let mut second = connect(&server);
    assert_eq!(who(&mut second), fd);

    // With one worker, this job is done after that of the first client, and its result is delivered later.
    expect_ok(&mut witness, &get("/work/0"), DONE);
    assert_eq!(second.read_available(), Ok(Vec::new()));
    expect_ok(&mut second, &get("/"), HELLO);

    let report = ending::report(&server);
    assert_eq!(number(&report, "jobs_for_nobody"), 1);
    assert_eq!(number(&report, "jobs_delivered"), 1);
}

/// The same, and the second client waits for a result of its own.
#[test]
fn a_result_for_somebody_who_has_left_is_not_taken_for_another() {
    let _busy = busy();
    let server = start(&["--workers", "1"]);
    let open = descriptors(&server);
    let mut first = connect(&server);
    let fd = who(&mut first);
    ask(&mut first, ABANDONED, &server);
    first.reset();
    expect_descriptors(&server, open);

    let mut second = connect(&server);
    assert_eq!(who(&mut second), fd);
    let requests = ["/work/20", "/", "/work/0", "/bytes/3"];
    fine(second.send(&requests.map(get).concat()));
    for body in [DONE, HELLO, DONE, &[0, 1, 2]] {
        expect_reply(&mut second, body);
    }
    let report = ending::report(&server);
    assert_eq!(number(&report, "jobs_for_nobody"), 1);
    assert_eq!(number(&report, "jobs_delivered"), 2);
}

/// More than one turn delivers at once, and more than one client at a time.
#[test]
fn a_crowd_is_served() {
    let server = start(&["--workers", "3", "--queue", "300"]);
    let mut peers: Vec<Peer> = (0..100).map(|_| connect(&server)).collect();
    for round in 0..3 {
        for peer in &mut peers {
            fine(peer.send(&[get("/work/0"), get("/")].concat()));
        }
        for peer in &mut peers {
            expect_reply(peer, DONE);
            expect_reply(peer, HELLO);
        }
        assert!(server.ended().is_none(), "round {round}");
    }
    let report = ending::report(&server);
    assert_eq!(number(&report, "jobs_delivered"), 300);
}

#[test]
fn a_pool_without_work_sleeps() {
    let server = start(&["--workers", "4"]);
    let mut peer = connect(&server);
    expect_ok(&mut peer, &get("/work/1"), DONE);
    fine(wait_until_asleep(&server));
    let activity = fine(idle_cpu(&server));
    assert!(!activity.is_spin(), "it spins: {activity}");
}
