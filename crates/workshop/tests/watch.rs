//! `watch`, at a terminal and through a pipe.
mod common;

use std::fs;
use std::process::Stdio;

use common::{Clone, Terminal, running};
use grader::{DEADLINE, wait_until};

/// A server that says nothing and never ends: a student's program that hangs.
const HANGS: &str =
    "fn main() {\n    std::thread::sleep(std::time::Duration::from_secs(1000));\n}\n";

/// The keys are shown when a run has ended.
const READY: &str = "q: quit";

fn quit(terminal: &mut Terminal, status: i32) {
    terminal.press("q");
    terminal.expect_end(status);
}

#[test]
fn each_save_is_graded_until_it_passes() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(80, &["watch", "ex01"]);
    terminal.wait_for("Not written yet");
    terminal.wait_for(READY);
    fs::write(clone.main_rs(), "fn main() { nothing(); }\n").unwrap();
    terminal.wait_for("cannot find function `nothing`");
    terminal.wait_for_times(READY, 2);
    fs::remove_file(clone.main_rs()).unwrap();
    terminal.wait_for("exercises/ex01-threads/src/main.rs is missing");
    terminal.wait_for_times(READY, 3);
    clone.solve();
    terminal.wait_for("All 13 checks passed.");
    terminal.wait_for_times(READY, 4);
    quit(&mut terminal, 0);
    let text = terminal.text();
    assert!(
        !text.contains("again  cargo"),
        "watch goes on by itself:\n{text}"
    );
}

#[test]
fn keys_show_a_hint_and_the_list() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(40, &["watch", "ex01"]);
    terminal.wait_for(READY);
    terminal.press("h");
    terminal.wait_for("hint 1 of 3");
    terminal.press("l");
    terminal.wait_for("ch02-select");
    terminal.resize(70);
    terminal.press("n");
    terminal.wait_for("no other exercise is open");
    terminal.press("r");
    terminal.wait_for_times("Not written yet", 2);
    terminal.press("?\x1b[A");
    quit(&mut terminal, 1);
}

#[test]
fn a_run_in_progress_gives_way_to_a_save() {
    let clone = Clone::fresh();
    fs::write(clone.main_rs(), HANGS).unwrap();
    let program = common::target().join("debug/ex01-threads");
    let mut terminal = clone.terminal(80, &["watch", "ex01"]);
    wait_until(12 * DEADLINE, || running(&program) > 0).expect("the program runs");
    // Well before the grader gives up on it.
    fs::write(clone.main_rs(), "fn main() { nothing(); }\n").unwrap();
    terminal.wait_for("cannot find function `nothing`");
    wait_until(DEADLINE, || running(&program) == 0).expect("the program is gone");
    assert!(
        !terminal.raw().contains("did-not-listen"),
        "{}",
        terminal.text()
    );
    terminal.wait_for(READY);
    let text = terminal.text();
    assert!(
        !text.contains("what is sent comes back") && !text.contains("Compiling"),
        "a line that moved is left:\n{text}"
    );
    quit(&mut terminal, 2);
}

#[test]
fn ctrl_c_ends_it_while_a_program_hangs() {
    let clone = Clone::fresh();
    fs::write(clone.main_rs(), HANGS).unwrap();
    let program = common::target().join("debug/ex01-threads");
    let mut terminal = clone.terminal(80, &["watch", "ex01"]);
    wait_until(12 * DEADLINE, || running(&program) > 0).expect("the program runs");
    terminal.resize(40);
    terminal.ctrl_c();
    terminal.expect_interrupted();
    wait_until(DEADLINE, || running(&program) == 0).expect("the program is gone");
}

#[test]
fn a_signal_restores_the_terminal_too() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(80, &["watch", "ex01"]);
    terminal.wait_for(READY);
    sys::kill(terminal.pid(), sys::SIGTERM).unwrap();
    terminal.end();
    terminal.expect_restored();
}

#[test]
fn through_a_pipe_it_prints_plain_lines_and_has_no_keys() {
    let clone = Clone::fresh();
    let file = clone.root.join("watch.txt");
    let out = fs::File::create(&file).unwrap();
    let mut child = clone
        .command(&["watch", "ex01"])
        .stdin(Stdio::null())
        .stdout(out)
        .spawn()
        .unwrap();
    let shows = |words: &str| {
        let shown = || fs::read_to_string(&file).unwrap();
        let found = wait_until(12 * DEADLINE, || shown().contains(words));
        found.unwrap_or_else(|_| panic!("no `{words}` in\n{}", shown()));
    };
    shows("Save to grade it again.");
    fs::write(clone.main_rs(), "fn main() { nothing(); }\n").unwrap();
    shows("cannot find function `nothing`");
    sys::kill(child.id() as i32, sys::SIGINT).unwrap();
    child.wait().unwrap();
    let shown = fs::read_to_string(&file).unwrap();
    assert!(!shown.contains('\x1b'), "{shown}");
}

#[test]
fn a_full_disk_does_not_end_it() {
    let clone = Clone::fresh();
    // Nothing can be remembered: the folder for it is a file, as it could be one that cannot be written.
    fs::remove_dir_all(clone.root.join(".readiness")).ok();
    fs::write(clone.root.join(".readiness"), "").unwrap();
    let mut terminal = clone.terminal(80, &["watch", "ex01"]);
    terminal.wait_for("this result is not remembered");
    terminal.wait_for(READY);
    quit(&mut terminal, 1);
    fs::remove_file(clone.root.join(".readiness")).unwrap();
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_takes_it_again() {
    let clone = Clone::fresh();
    let script = format!(
        "{} watch ex01; echo '(stopped)'; read go; echo '(go)'; fg",
        common::WORKSHOP
    );
    let mut terminal = Terminal::shell(&clone, 80, &script);
    terminal.wait_for(READY);
    assert!(terminal.is_raw());
    terminal.ctrl_z();
    terminal.wait_for("(stopped)");
    terminal.expect_restored();
    terminal.press("go\r");
    terminal.wait_for("(go)");
    // What stands there is said again, and a key needs no Enter.
    terminal.wait_for_times(READY, 2);
    wait_until(DEADLINE, || terminal.is_raw()).expect("keys come at once");
    terminal.press("h");
    terminal.wait_for("hint 1 of 3");
    quit(&mut terminal, 1);
}

#[test]
fn a_run_that_was_stopped_is_made_again() {
    let clone = Clone::fresh();
    fs::write(clone.main_rs(), HANGS).unwrap();
    let program = common::target().join("debug/ex01-threads");
    let script = format!("{} watch ex01; echo '(stopped)'; fg", common::WORKSHOP);
    let mut terminal = Terminal::shell(&clone, 80, &script);
    wait_until(12 * DEADLINE, || running(&program) > 0).expect("the program runs");
    terminal.ctrl_z();
    terminal.wait_for("(stopped)");
    terminal.wait_for_times("watching exercises/ex01-threads/src", 2);
    terminal.wait_for(READY);
    quit(&mut terminal, 1);
}
