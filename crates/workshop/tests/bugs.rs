//! `bugs` and `break`, through a pipe and at a terminal.
mod common;

use std::fs;
use std::path::PathBuf;

use common::{Clone, Terminal, running};
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
            "cargo workshop bugs --all\n",
        ],
    );
    let all = clone.pipe(&["bugs", "--all"]);
    all.expect(0, &["  no-thread  ", "cargo workshop break ex01 "]);
    assert!(!all.out.contains("--all"), "{all}");
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
    // Hints are for the student's own server.
    assert!(!caught.out.contains("cargo workshop hint"), "{caught}");
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
    assert!(
        text.contains("\nThis server has the bug \"a half-close"),
        "{text}"
    );
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

#[test]
fn kill_ends_the_build_of_a_break() {
    let clone = Clone::fresh();
    // A build script that hangs, as a build that takes long.
    let package = clone.root.join("solutions/ex01-threads");
    let mark = clone.root.join("building");
    let _ = fs::remove_file(&mark);
    let script = format!(
        "fn main() {{ std::fs::write({mark:?}, std::env::args().next().unwrap()).unwrap(); \
         std::thread::sleep(std::time::Duration::from_secs(1000)); }}\n"
    );
    fs::write(package.join("src/hangs.rs"), script).unwrap();
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest = manifest.replacen("[package]", "[package]\nbuild = \"src/hangs.rs\"", 1);
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // Not as the first process of its session: at the end of that one the kernel hangs up on all of them.
    let script = format!(
        "{} break ex01 no-thread & echo \"[pid $!]\"; wait; echo '(ended)'; read enter",
        common::WORKSHOP
    );
    let mut terminal = Terminal::shell(&clone, 80, &script);
    let builds = || fs::read_to_string(&mark).is_ok_and(|path| !path.is_empty());
    wait_until(12 * DEADLINE, builds).expect("the build script runs");
    let script = PathBuf::from(fs::read_to_string(&mark).unwrap());
    assert!(running(&script) > 0);
    let text = terminal.text();
    let (_, pid) = text.split_once("[pid ").expect("its number");
    let (pid, _) = pid.split_once(']').expect("its number");
    sys::kill(pid.parse().expect("a number"), sys::SIGTERM).unwrap();
    terminal.wait_for("(ended)");
    wait_until(DEADLINE, || running(&script) == 0).expect("the build is gone");
    terminal.press("\r");
    terminal.expect_end(0);
}

#[test]
fn a_bug_that_does_not_compile_is_said() {
    let clone = Clone::fresh();
    let main = clone.root.join("solutions/ex01-threads/src/main.rs");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text + "\nfn wrong() { nothing(); }\n").unwrap();
    clone.pipe(&["break", "ex01", "no-thread"]).expect(
        2,
        &[
            "building ex01-threads with no-thread ...\n",
            "cannot find function `nothing`",
            "It does not build.",
        ],
    );
}
