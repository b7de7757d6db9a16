//! How it ends: with an answer for whoever has asked, and without a thread.

use crate::common::*;
use grader::{DEADLINE, Ending, Peer, Server, wait_until};
use sys::SIGTERM;

#[track_caller]
fn expect_exit(server: &Server) {
    fine(wait_until(DEADLINE, || server.ended().is_some()));
    assert_eq!(server.ended(), Some(Ending::Exited(0)));
}

/// Ends the server in peace, and returns what it reports at its end.
#[track_caller]
pub fn report(server: &Server) -> String {
    server.signal(SIGTERM);
    expect_exit(server);
    server.output().stderr
}

/// Requests and signal are there at once, so no job is done when the server begins to drain.
#[test]
fn what_the_pool_has_begun_is_answered() {
    let server = start(&["--workers", "1"]);
    let mut peers = [(); 3].map(|()| connect(&server));
    for peer in &mut peers {
        expect_ok(peer, &get("/"), HELLO);
    }
    assert!(server.pause());
    for peer in &mut peers {
        fine(peer.send(&get("/work/10")));
    }
    server.signal(SIGTERM);
    server.resume();
    for peer in &mut peers {
        let reply = reply(peer);
        assert_eq!((reply.status, reply.closes), (200, true));
        fine(peer.expect_end());
    }
    drop(peers);
    expect_exit(&server);
}

/// A thread that has work for a minute is asked to stop, and does. Without that, the process would last for as long.
#[test]
fn asked_twice_it_ends_at_once() {
    let _busy = busy();
    let server = start(&["--workers", "2"]);
    let mut peers = [(); 3].map(|()| connect(&server));
    for peer in &mut peers {
        ask(peer, ENDLESS, &server);
    }
    server.signal(SIGTERM);
    // The first signal has been taken when the listener is gone.
    fine(wait_until(DEADLINE, || {
        Peer::connect(server.addr()).is_err()
    }));
    server.signal(SIGTERM);
    expect_exit(&server);
}
