//! `trace`, through a pipe and at a terminal.
mod common;

use std::fs;

use common::Clone;

#[test]
fn the_calls_stand_among_the_output_in_their_order() {
    let clone = Clone::fresh();
    let shown = clone.pipe(&["trace", "select", "--save", "calls.trace"]);
    shown.expect(
        0,
        &[
            "ch02-select\n",
            "iter 1: select()=1, ready fds: 3\n",
            "    | accept4(3, ",
            "  saved  calls.trace",
            "  read   book/src/02-select.md",
            "  and    chapters/ch02-select/src/main.rs",
        ],
    );
    // What the program prints about a call comes after it.
    let (call, line) = (
        shown.out.find("    | accept4"),
        shown.out.find("accept() -> new fd 4"),
    );
    assert!(call < line, "{shown}");
    let saved = fs::read_to_string(clone.root.join("calls.trace")).unwrap();
    let calls = trace::parse(&saved).expect("a recording").len();
    assert!(
        shown.out.contains(&format!(", {calls} system calls.")),
        "{shown}"
    );
    clone
        .pipe(&["--json"])
        .expect(0, &["\"state\":\"new\"},\"seen\":true}"]);

    // After its chapter comes an exercise: first its task.
    clone.pipe(&["trace", "ch01"]).expect(
        0,
        &["  task   exercises/ex01-threads/README.md\n  next   cargo workshop check ex01\n"],
    );
}

#[test]
fn at_a_terminal_the_calls_are_coloured() {
    let clone = Clone::fresh();
    let mut terminal = clone.terminal(40, &["trace", "ch02"]);
    terminal.wait_for("iter 1:");
    terminal.resize(70);
    let text = terminal.expect_end(0);
    assert!(text.contains("next   cargo workshop trace ch01"), "{text}");
    assert!(terminal.raw().contains("\x1b[36maccept4\x1b[0m("), "{text}");
}

#[test]
fn a_server_is_traced_until_ctrl_c() {
    let clone = Clone::fresh();
    clone.solve();
    let mut terminal = clone.terminal(80, &["trace", "ex01"]);
    terminal.wait_for("\nlistening on 127.0.0.1:");
    terminal.wait_for("listen(3, ");
    terminal.ctrl_c();
    terminal.expect_interrupted();
    let text = terminal.text();
    assert!(text.contains("Ended by you, "), "{text}");
}

#[test]
fn what_cannot_be_traced_is_said() {
    let clone = Clone::fresh();
    clone
        .pipe(&["trace", "ch99"])
        .expect_complaint("no chapter is called `ch99`; there are ch01-threads, ch02-select");
    let save = clone.pipe(&["trace", "ch02", "--save", "no/such/folder"]);
    save.expect_complaint("create no/such/folder: No such file or directory (os error 2)");
    let unwritten = clone.pipe(&["trace", "ex01"]);
    assert_eq!(unwritten.status, Some(1), "{unwritten}");
    assert!(
        unwritten.out.contains("not yet implemented: socket"),
        "{unwritten}"
    );
}
