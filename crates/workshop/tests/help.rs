//! `hint`, `solution` and `reset`, through a pipe and at a terminal.
mod common;

use std::fs;
use std::process::Command;

use common::Clone;

/// A clone whose history has the exercise as it was shipped.
fn with_history() -> Clone {
    let clone = Clone::fresh();
    for args in [
        &["init", "-q"][..],
        &["add", "exercises"],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "shipped",
        ],
    ] {
        let status = Command::new("git")
            .arg("-C")
            .arg(&clone.root)
            .args(args)
            .status();
        assert!(status.expect("git").success());
    }
    clone
}

#[test]
fn hints_come_one_at_a_time() {
    let clone = Clone::fresh();
    let first = clone.pipe(&["hint", "ex01"]);
    first.expect(
        0,
        &[
            "ex01-threads: hint 1 of 3: the order of things",
            "`sys::socket`",
            "try first",
        ],
    );
    assert!(
        !first.out.contains("hint 2 of 3:") && !first.out.contains("Builder::spawn"),
        "{first}"
    );
    clone
        .pipe(&["hint", "ex01", "3"])
        .expect_complaint("hint 3 comes after hint 2: cargo workshop hint ex01");
    clone
        .pipe(&["hint", "ex01"])
        .expect(0, &["hint 2 of 3", "  - The connection is an `OwnedFd`"]);
    clone
        .pipe(&["hint", "ex01"])
        .expect(0, &["hint 3 of 3", "\n    loop {\n", "solution ex01 --now"]);
    clone.pipe(&["hint", "ex01"]).expect(0, &["hint 3 of 3"]);
    clone.pipe(&["hint", "ex01", "1"]).expect(
        0,
        &["  more  cargo workshop hint ex01 2\n        (hint 2 of 3, given before)\n"],
    );
    clone
        .pipe(&["hint", "ex01", "4"])
        .expect_complaint("ex01 has no hint `4`; it has hints 1 to 3");
    clone
        .pipe(&["hint", "ex01", "x"])
        .expect_complaint("ex01 has no hint `x`; it has hints 1 to 3");

    let mut terminal = clone.terminal(40, &["hint", "ex01", "1"]);
    let text = terminal.expect_end(0);
    assert!(text.contains("hint 1 of 3"), "{text}");
    terminal.expect_columns(40);
}

#[test]
fn the_solution_waits_until_the_exercise_has_passed() {
    let clone = Clone::fresh();
    // The exercise that comes next, where none is named.
    for args in [&["solution", "ex01"][..], &["solution"]] {
        clone.pipe(args).expect_complaint(
            "ex01-threads has not passed as it is now (0 of 13 checks); \
             `cargo workshop solution ex01 --now` shows the solution all the same",
        );
    }
    let asked = clone.pipe(&["solution", "ex01", "--now"]);
    assert_eq!(asked.status, Some(2));
    assert!(
        asked
            .err
            .contains("standard input is not a terminal: add --yes."),
        "{asked}"
    );
    let shown = clone.pipe(&["solution", "ex01", "--now", "--yes"]);
    shown.expect(
        0,
        &[
            "--- exercises/ex01-threads/src/main.rs  (yours)",
            "+++ solutions/ex01-threads/src/main.rs",
            "-    todo!(\"accept4, and what its errors mean\")",
        ],
    );
    clone.solve();
    clone.pipe(&["check", "1"]).expect(0, &[]);
    clone
        .pipe(&["solution", "1"])
        .expect(0, &["Your sources are those of the solution."]);
}

#[test]
fn the_solution_is_shown_after_a_yes_and_not_after_a_no() {
    let clone = Clone::fresh();
    for (answer, status) in [("y\r", 0), ("n\r", 2), ("\r", 2), ("\x04", 2)] {
        let mut terminal = clone.terminal(40, &["solution", "1", "--now"]);
        terminal.wait_for("[y/N]");
        terminal.resize(60);
        terminal.press(answer);
        let text = terminal.expect_end(status);
        assert_eq!(text.contains("+++ solutions"), status == 0, "{text}");
        assert_eq!(text.contains("Nothing was shown."), status != 0, "{text}");
    }
    let mut terminal = clone.terminal(80, &["solution", "1", "--now"]);
    terminal.wait_for("[y/N]");
    terminal.ctrl_c();
    terminal.expect_interrupted();
}

#[test]
fn reset_asks_and_keeps_the_old_file() {
    let clone = with_history();
    let shipped = fs::read_to_string(clone.main_rs()).unwrap();
    for args in [&["reset", "ex01"][..], &["reset"]] {
        clone
            .pipe(args)
            .expect(0, &["ex01-threads is as it was shipped."]);
    }

    clone.solve();
    let mine = fs::read_to_string(clone.main_rs()).unwrap();
    let refused = clone.pipe(&["reset", "ex01"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.err.contains("add --yes."), "{refused}");
    let mut terminal = clone.terminal(40, &["reset", "ex01"]);
    terminal.wait_for("[y/N]");
    terminal.ctrl_c();
    terminal.expect_interrupted();
    let mut terminal = clone.terminal(80, &["reset", "ex01"]);
    terminal.wait_for("[y/N]");
    terminal.press("n\r");
    terminal.expect_end(2);
    assert_eq!(fs::read_to_string(clone.main_rs()).unwrap(), mine);

    let mut terminal = clone.terminal(80, &["reset", "ex01"]);
    terminal.wait_for("[y/N]");
    terminal.resize(40);
    terminal.press("y\r");
    let text = terminal.expect_end(0);
    assert!(
        text.contains("  kept   exercises/ex01-threads/src/main.rs.2")
            && text.contains("(git ignores it; "),
        "{text}"
    );
    assert_eq!(fs::read_to_string(clone.main_rs()).unwrap(), shipped);
    let folder = clone.main_rs().parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().flatten();
    let kept: Vec<_> = files
        .map(|file| file.path())
        .filter(|file| *file != clone.main_rs())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read_to_string(&kept[0]).unwrap(), mine);
    clone
        .pipe(&["reset", "ex01"])
        .expect(0, &["as it was shipped"]);
}

#[test]
fn reset_finds_what_was_shipped_behind_the_students_own_commits() {
    let clone = with_history();
    let shipped = fs::read_to_string(clone.main_rs()).unwrap();
    clone.solve();
    for args in [
        &["add", "exercises"][..],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "mine",
        ],
    ] {
        Command::new("git")
            .arg("-C")
            .arg(&clone.root)
            .args(args)
            .status()
            .unwrap();
    }
    clone
        .pipe(&["reset", "ex01", "--yes"])
        .expect(0, &["  reset  exercises/ex01-threads/src/main.rs"]);
    assert_eq!(fs::read_to_string(clone.main_rs()).unwrap(), shipped);
    // A file that was deleted comes back, and there is nothing to be kept.
    fs::remove_file(clone.main_rs()).unwrap();
    let back = clone.pipe(&["reset", "ex01", "--yes"]);
    back.expect(0, &["  reset  exercises/ex01-threads/src/main.rs"]);
    assert!(!back.out.contains("kept"), "{back}");
    assert_eq!(fs::read_to_string(clone.main_rs()).unwrap(), shipped);
}
