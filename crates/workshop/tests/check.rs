//! `cargo workshop` and `cargo workshop check`, through a pipe and at a terminal.
mod common;

use std::fs;
use std::process::Command;

use common::{Clone, Terminal, running};
use grader::{DEADLINE, wait_until};

/// A program that never listens: the grader waits for it until its deadline.
const HANGS: &str = "while :; do sleep 1; done";

#[test]
fn the_list_welcomes_a_new_user_and_ends_with_a_command() {
    let clone = Clone::fresh();
    let first = clone.pipe(&[]);
    first.expect(
        0,
        &[
            "Welcome",
            "ch01-threads",
            "ex01",
            "0 of 13",
            "mdbook serve book --open",
            "Begin here: read book/src/01-threads.md, and see ch01-threads at work",
        ],
    );
    assert!(
        first.out.ends_with("\n\n  cargo workshop trace ch01\n"),
        "{first}"
    );
    assert!(
        !clone.root.join(".readiness").exists(),
        "looking changes nothing"
    );

    clone
        .pipe(&["check", "ex01"])
        .expect(1, &["Not written yet"]);
    let later = clone.pipe(&[]);
    later.expect(0, &["0 of 13", "mdbook serve book --open"]);
    assert!(!later.out.contains("Welcome"), "{later}");

    // What was done last is not what comes next.
    clone.pipe(&["trace", "ch01"]).expect(0, &[]);
    clone.pipe(&[]).expect(
        0,
        &[
            "Next: check 1 of 13 failed last time (\"what is sent comes back\").",
            "Change\nexercises/ex01-threads/src/main.rs",
        ],
    );
    fs::write(clone.main_rs(), "fn main() {}\n").unwrap();
    clone
        .pipe(&[])
        .expect(0, &["failed last time", "you have changed"]);
}

#[test]
fn it_works_from_any_folder_of_the_clone() {
    let clone = Clone::fresh();
    let mut command = clone.command(&["check", "--only", "1"]);
    command.current_dir(clone.root.join("exercises/ex01-threads/src"));
    common::Piped::of(command.output().unwrap()).expect(1, &["ex01-threads", "Not written yet"]);
    let mut command = clone.command(&["--json"]);
    command.current_dir(clone.root.join("chapters"));
    let list = common::Piped::of(command.output().unwrap());
    list.expect(0, &["\"next\":\"cargo workshop trace ch01\""]);
}

#[test]
fn a_right_exercise_passes_and_an_edit_shows() {
    let clone = Clone::fresh();
    clone.solve();
    let passed = clone.pipe(&["check", "1"]);
    passed.expect(0, &["All 13 checks passed.", "next "]);
    clone.pipe(&[]).expect(0, &["13 of 13  passed"]);

    let main = clone.main_rs();
    let right = fs::read_to_string(&main).unwrap();
    fs::write(&main, format!("{right}\n// edited\n")).unwrap();
    clone
        .pipe(&[])
        .expect(0, &["13 of 13  changed since it passed"]);
    fs::write(&main, right).unwrap();
    clone.pipe(&[]).expect(0, &["13 of 13  passed"]);

    // Another program says nothing about the exercise.
    let hangs = clone.script("ends.sh", "exit 3");
    let other = clone.pipe(&["check", "1", "--bin", hangs.to_str().unwrap()]);
    other.expect(1, &["did-not-listen"]);
    clone.pipe(&[]).expect(0, &["13 of 13  passed"]);
}

#[test]
fn a_build_error_is_shown_as_rustc_shows_it_and_is_no_verdict() {
    let clone = Clone::fresh();
    fs::write(
        clone.main_rs(),
        "fn main() {\n    let unused = 1;\n    nothing();\n}\n",
    )
    .unwrap();
    let failed = clone.pipe(&["check", "ex01"]);
    failed.expect(
        2,
        &[
            "error[E0425]: cannot find function `nothing` in this scope",
            " --> exercises/ex01-threads/src/main.rs:3:5",
            "It does not build.",
        ],
    );
    assert!(!failed.out.contains("warning"), "{failed}");
    let json = clone.pipe(&["check", "ex01", "--json"]);
    json.expect(2, &["\"result\":\"not judged\"", "E0425"]);

    let mut terminal = clone.terminal(80, &["check", "ex01", "--json"]);
    let text = terminal.expect_end(2);
    assert!(
        text.starts_with('{') && !terminal.raw().contains('\x1b'),
        "{text}"
    );
    let mut terminal = clone.terminal(80, &["check", "ex01"]);
    let text = terminal.expect_end(2);
    assert!(text.contains("cannot find function `nothing`"), "{text}");
    assert!(terminal.raw().contains("\x1b["), "with rustc's colours");
}

#[test]
fn mistakes_of_the_user_are_one_clear_line() {
    let clone = Clone::fresh();
    clone.pipe(&["check", "99"]).expect_complaint(&format!(
        "no exercise is called `99`; there are {}",
        names().join(", ")
    ));
    clone
        .pipe(&["check", "ex01", "--bin", "./nothing"])
        .expect_complaint("./nothing: there is no such file; name the program to be graded");
    clone.pipe(&["check", "--bin", "./nothing"]).expect_complaint(
        "--bin needs the exercise whose checks are meant, as in: cargo workshop check ex05 --bin ./a.out",
    );
    let only = clone.pipe(&["check", "ex01", "--only", "nothing like it"]);
    assert!(
        only.err
            .starts_with("ex01-threads has no check `nothing like it`: give a number"),
        "{only}"
    );
    assert_eq!(only.status, Some(2));
    assert_eq!(clone.pipe(&["chekc"]).status, Some(2));

    // At a terminal it is broken between words.
    for args in [
        &["check", "99"][..],
        &["chekc", "ex01"],
        &["hint", "ex01", "3"],
        &["solution", "ex01"],
    ] {
        let mut terminal = clone.terminal(40, args);
        let text = terminal.expect_end(2);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(40), "{text}");
    }
}

fn names() -> Vec<&'static str> {
    let exercises = grader::checks::EXERCISES.iter();
    exercises.map(|exercise| exercise.name).collect()
}

#[test]
fn a_page_offers_a_hint_as_long_as_there_is_one() {
    let clone = Clone::fresh();
    let ends = clone.script("ends.sh", "exit 3");
    let page = || clone.pipe(&["check", "1", "--bin", ends.to_str().unwrap()]);
    page().expect(1, &["\n  hint  cargo workshop hint ex01\n"]);
    for _ in 0..3 {
        clone.pipe(&["hint", "ex01"]).expect(0, &[]);
    }
    page().expect(
        1,
        &["\n  hint  you have had all of them; again: cargo workshop hint ex01 1\n"],
    );
}

#[test]
fn warnings_are_shown_by_the_command_that_is_named() {
    let clone = Clone::fresh();
    // Not the exercise as shipped: there all that is not used yet is allowed.
    clone.solve();
    let text = fs::read_to_string(clone.main_rs()).unwrap();
    fs::write(clone.main_rs(), text + "\nfn unused() {}\n").unwrap();
    clone.pipe(&["check", "ex01", "--only", "1"]).expect(
        0,
        &["with a warning (`cargo build -p ex01-threads` shows it)"],
    );
    let build = Command::new("cargo")
        .args(["build", "-p", "ex01-threads"])
        .current_dir(&clone.root)
        .env("CARGO_TARGET_DIR", common::target())
        .output();
    let shown = common::Piped::of(build.unwrap());
    assert!(shown.err.contains("`unused` is never used"), "{shown}");
}

#[test]
fn a_damaged_progress_file_is_set_aside_and_nothing_else_happens() {
    let clone = Clone::fresh();
    let folder = clone.root.join(".readiness");
    fs::create_dir(&folder).unwrap();
    for damaged in ["", "{", "{\"version\":2}", "\u{0}\u{ff}"] {
        fs::write(folder.join("progress.json"), damaged).unwrap();
        let list = clone.pipe(&[]);
        list.expect(0, &["0 of 13"]);
        assert!(list.err.contains("progress.json.damaged-"), "{list}");
        assert_eq!(list.err.lines().count(), 1, "{list}");
        assert_eq!(clone.pipe(&[]).err, "");
    }
    // A folder in its place can neither be read nor written, and the check goes on.
    fs::create_dir(folder.join("progress.json")).unwrap();
    let check = clone.pipe(&["check", "ex01"]);
    check.expect(1, &["Not written yet"]);
    assert!(
        check.err.contains("going on without your progress"),
        "{check}"
    );
}

#[test]
fn at_a_terminal_a_check_is_coloured_and_fits() {
    let clone = Clone::fresh();
    for columns in [40, 80, 200] {
        let mut terminal = clone.terminal(columns, &["check", "ex01"]);
        let text = terminal.expect_end(1);
        assert!(
            text.contains("FAILED") && text.contains("Not written yet"),
            "{text}"
        );
        terminal.expect_columns(columns.into());
        let mut terminal = clone.terminal(columns, &[]);
        terminal.expect_end(0);
        terminal.expect_columns(columns.into());
        assert!(terminal.raw().contains("\x1b[1m"));
    }
    let mut ends = clone.terminal(
        40,
        &[
            "check",
            "1",
            "--bin",
            clone.script("e.sh", "exit 3").to_str().unwrap(),
        ],
    );
    ends.expect_end(1);
    ends.expect_columns(40);
}

#[test]
fn no_color_means_no_colour() {
    let clone = Clone::fresh();
    let output = clone.command(&[]).env("NO_COLOR", "1").output().unwrap();
    common::Piped::of(output).expect(0, &["Welcome"]);
}

#[test]
fn a_window_may_be_resized_while_a_check_runs() {
    let clone = Clone::fresh();
    let go = clone.root.join("go");
    let _ = fs::remove_file(&go);
    let waits = format!("until [ -e {} ]; do sleep 0.05; done; exit 3", go.display());
    let waits = clone.script("waits.sh", &waits);
    let mut terminal = clone.terminal(80, &["check", "1", "--bin", waits.to_str().unwrap()]);
    terminal.wait_for("what is sent comes back");
    for columns in [40, 20, 1, 120, 60] {
        terminal.resize(columns);
    }
    fs::write(go, "").unwrap();
    let text = terminal.expect_end(1);
    // The page of a window with less than 90 columns.
    assert!(text.contains("did-not-listen:\n"), "{text}");
}

#[test]
fn ctrl_c_ends_a_check_and_the_program_and_leaves_nothing() {
    let clone = Clone::fresh();
    let hangs = clone.script("hangs.sh", HANGS);
    let mut terminal = clone.terminal(80, &["check", "1", "--bin", hangs.to_str().unwrap()]);
    terminal.wait_for("what is sent comes back");
    wait_until(DEADLINE, || running(&hangs) > 0).expect("the program runs");
    // A key is not shown: the line that moves would be left standing above it.
    terminal.press("%\r");
    terminal.ctrl_c();
    terminal.expect_interrupted();
    let text = terminal.text();
    let last = text.lines().last().unwrap_or_default();
    assert_eq!(
        last, "Stopped before the end. This run does not count.",
        "{text}"
    );
    assert!(
        !text.contains("what is sent") && !text.contains("^C") && !text.contains('%'),
        "{text}"
    );
    wait_until(DEADLINE, || running(&hangs) == 0).expect("the program is gone");
    let left = format!("readiness-{}-", terminal.pid());
    let files = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let mut left = files.filter(|file| file.file_name().to_string_lossy().starts_with(&left));
    assert!(left.next().is_none(), "a recording is left");
}

#[test]
fn a_check_that_ctrl_z_has_stopped_is_made_again() {
    let clone = Clone::fresh();
    let (go, runs) = (clone.root.join("go"), clone.root.join("runs"));
    let script = format!(
        "echo run >> {}; until [ -e {} ]; do sleep 0.05; done; exit 3",
        runs.display(),
        go.display()
    );
    let waits = clone.script("waits.sh", &script);
    let count = || fs::read_to_string(&runs).map_or(0, |text| text.lines().count());
    let _ = fs::remove_file(&runs);
    fs::write(&go, "").unwrap();
    clone
        .pipe(&["check", "1", "--bin", waits.to_str().unwrap()])
        .expect(1, &["did-not-listen"]);
    let usual = count();

    fs::remove_file(&go).unwrap();
    fs::remove_file(&runs).unwrap();
    let script = format!(
        "{} check 1 --bin {}; echo '(stopped)'; read go; fg",
        common::WORKSHOP,
        waits.display()
    );
    let mut terminal = Terminal::shell(&clone, 80, &script);
    wait_until(DEADLINE, || count() > 0).expect("the program runs");
    terminal.ctrl_z();
    terminal.wait_for("(stopped)");
    terminal.expect_restored();
    fs::write(&go, "").unwrap();
    terminal.press("go\r");
    terminal.expect_end(1);
    assert!(count() > usual, "{} and {usual} runs", count());
}

#[test]
fn ctrl_c_ends_a_build() {
    let clone = Clone::fresh();
    // A build script that hangs, as a build that takes long.
    let package = clone.root.join("exercises/ex01-threads");
    let mark = clone.root.join("building");
    let _ = fs::remove_file(&mark);
    let script = format!(
        "fn main() {{ std::fs::write({mark:?}, \"\").unwrap(); std::thread::sleep(std::time::Duration::from_secs(1000)); }}\n"
    );
    fs::write(package.join("build.rs"), script).unwrap();
    let mut terminal = clone.terminal(80, &["check", "1"]);
    wait_until(12 * DEADLINE, || mark.exists()).expect("the build script runs");
    terminal.ctrl_c();
    terminal.expect_interrupted();
    let text = terminal.text();
    assert!(
        text.contains("Stopped before the end.")
            && !text.contains("Compiling")
            && !text.contains("does not build"),
        "{text}"
    );
    fs::remove_file(package.join("build.rs")).unwrap();
    // Cargo holds a lock as long as it lives.
    clone.pipe(&["check", "1"]).expect(1, &["Not written yet"]);
}
