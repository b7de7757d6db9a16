//! `bugs` and `break`, through a pipe and at a terminal.
mod common;

use common::{Clone, running};
use grader::{DEADLINE, wait_until};

#[test]
fn the_gallery_is_listed() {
    let clone = Clone::fresh();
    let brief = clone.pipe(&["bugs"]);
    brief.expect(
        0,
        &[
            "ex01-threads",
            "  no-thread  ",
            "cargo workshop break ex01 ",
        ],
    );
    let long = clone.pipe(&["bugs", "ex01"]);
    long.expect(
        0,
        &["  no-thread\n", "    caught  check 2: ", "    seen in "],
    );
    clone
        .pipe(&["bugs", "--json"])
        .expect(0, &["\"name\":\"no-thread\"", "\"bug\":\"one-at-a-time\""]);
    clone
        .pipe(&["break", "ex01", "nothing"])
        .expect_complaint("ex01 has no bug `nothing`; `cargo workshop bugs ex01` lists them");
    for args in [&["bugs"][..], &["bugs", "ex01"]] {
        let mut terminal = clone.terminal(40, args);
        terminal.expect_end(0);
        terminal.expect_columns(40);
    }
}

#[test]
fn a_bug_is_shown_and_caught() {
    let clone = Clone::fresh();
    let caught = clone.pipe(&["break", "ex01", "no-thread"]);
    caught.expect(
        0,
        &[
            "The programmer wrote the loop",
            "+++ b/src/main.rs",
            "one-at-a-time: a client waits until another one has finished",
            "Caught.",
        ],
    );
    let mut terminal = clone.terminal(40, &["break", "ex01", "no-thread"]);
    terminal.wait_for("+++ b/src/main.rs");
    terminal.resize(60);
    let text = terminal.expect_end(0);
    assert!(text.contains("Caught."), "{text}");
}

#[test]
fn a_broken_server_can_be_talked_to_until_ctrl_c() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(40, &["break", "ex01", "half-close-drops", "--serve"]);
    terminal.wait_for("\nlistening on 127.0.0.1:");
    let text = terminal.text();
    let port = text.rsplit("listening on 127.0.0.1:").next().unwrap();
    let addr = format!("127.0.0.1:{}", port.trim())
        .parse()
        .expect("an address");
    let mut peer = grader::Peer::connect(addr).expect("it listens");
    peer.send(b"hello").unwrap();
    assert_eq!(peer.read_exactly(5).unwrap(), b"hello");
    terminal.ctrl_c();
    terminal.expect_interrupted();
    let program = common::target().join("gallery/target/debug/ex01-threads-bugs-half-close-drops");
    wait_until(DEADLINE, || running(&program) == 0).expect("the server is gone");
}

#[test]
fn ctrl_c_ends_a_break() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(80, &["break", "ex01", "no-thread"]);
    terminal.wait_for("+++ b/src/main.rs");
    terminal.ctrl_c();
    terminal.expect_interrupted();
}
