//! The tools for the chapters' tests, on a small program whose output and calls are known.
mod common;

use std::path::PathBuf;
use std::time::Duration;

use common::example;
use grader::Ending;
use grader::chapter::{
    Demonstration, NotRun, Stdout, assert_demonstration, assert_recorder_equals_strace, recorded,
    same_output, straced,
};
use trace::{Event, Line};

const NO_ARGS: [&str; 0] = [];

fn expected() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/expected/demonstration.txt")
}

#[test]
fn prints_the_same_into_a_pipe_a_file_and_a_terminal() {
    assert_demonstration(example("demonstration"), expected());
}

#[test]
fn descriptors_really_leak_into_it() {
    for stdout in [Stdout::Pipe, Stdout::File, Stdout::Terminal] {
        let demonstration = Demonstration::new(example("demonstration"))
            .args(["leaks"])
            .stdout(stdout);
        let leaking = match demonstration.clone().leaking_descriptors().run() {
            Err(NotRun::Missing(what)) => {
                eprintln!("left out: {what}");
                continue;
            }
            other => other.unwrap(),
        };
        assert_eq!(leaking.stdout, "[3, 4, 5, 6, 7, 8, 9]\n", "{stdout:?}");
        assert_eq!(leaking.ending, Ending::Exited(0));
        assert_eq!(demonstration.run().unwrap().stdout, "[]\n", "{stdout:?}");
    }
}

#[test]
fn one_that_does_not_end_is_ended() {
    let demonstration = Demonstration::new(example("demonstration")).args(["forever"]);
    let error = demonstration
        .deadline(Duration::from_millis(500))
        .run()
        .unwrap_err();
    assert!(
        matches!(&error, NotRun::Overdue(_, output) if output == "started\n"),
        "{error}"
    );
}

#[test]
fn another_output_is_shown_line_by_line() {
    let error = same_output("listener is 3\n47 bytes\n0 bytes\n", &expected()).unwrap_err();
    assert!(
        error.ends_with("  listener is 3\n- 48 bytes\n+ 47 bytes\n  0 bytes\n"),
        "{error}"
    );
}

fn names(lines: &[Line]) -> Vec<&str> {
    let calls = lines.iter().filter_map(|line| match &line.event {
        Event::Call(call) => Some(call.name.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn the_recorder_saw_its_calls() {
    let lines = recorded(example("demonstration"), NO_ARGS);
    let names = names(&lines);
    assert_eq!(names[..4], ["close_range", "socket", "bind", "listen"]);
    assert_eq!(names.iter().filter(|name| **name == "read").count(), 2);
}

#[test]
fn strace_saw_more() {
    let Some(lines) = straced(example("demonstration"), NO_ARGS) else {
        return;
    };
    let names = names(&lines);
    assert!(names.iter().filter(|name| **name == "close").count() > 3);
}

#[test]
fn the_recorder_equals_strace() {
    assert_recorder_equals_strace(example("demonstration"), NO_ARGS);
}
