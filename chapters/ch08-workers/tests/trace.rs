//! What the demonstrations print, and which system calls they really made.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use grader::Ending;
use grader::chapter::{Demonstration, assert_recorder_equals_strace, assert_same_output, recorded};
use trace::Expected;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch08-workers");

/// What the program prints with these arguments.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let finished = fine(
        Demonstration::new(PROGRAM)
            .args(args)
            .leaking_descriptors()
            .run(),
    );
    assert_eq!(finished.ending, Ending::Exited(0), "{}", finished.stderr);
    assert_eq!(finished.stderr, "");
    finished.stdout
}

#[test]
fn the_simulation_prints_the_expected_lines() {
    let expected = fine(fs::read_to_string(expected("ch08-workers-simulated.txt")));
    assert_eq!(printed(&["simulate"]), expected);
}

/// The whole demonstration: first the simulation, byte for byte, then what was measured.
#[test]
fn what_was_measured_stands_beside_what_was_simulated() {
    let simulated = fine(fs::read_to_string(expected("ch08-workers-simulated.txt")));
    let all = printed(&[]);
    let measured = all.strip_prefix(&simulated).expect("first the simulation");
    let parts: Vec<&str> = measured.split("\n--- ").skip(1).collect();
    assert_eq!(parts.len(), 3, "{measured}");
    for (part, mode) in parts.iter().zip(["inline", "offload", "pieces"]) {
        let mut lines = part.lines();
        let title = lines.next().expect("a title");
        assert_eq!(
            title.trim_end_matches("simulated").trim_end(),
            format!("{mode}, on this machine ---")
        );
        let mut names: Vec<&str> = lines.map(|line| check_line(line, mode)).collect();
        names.sort_unstable();
        let everybody = [
            "A",
            "B",
            "C",
            "D",
            "E",
            "timer@100",
            "timer@150",
            "timer@50",
        ];
        assert_eq!(names, everybody, "{part}");
    }
}

/// One measured line: `B: response after 201.3 ms  201.0 ms`. What holds on any machine: a reply takes at least what
/// its work takes, however fast the machine is, and no timer fires early.
#[track_caller]
fn check_line<'a>(line: &'a str, mode: &str) -> &'a str {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let time = |word: &str| fine(word.parse::<f64>());
    match words[..] {
        [name, "response", "after", measured, "ms", simulated, "ms"] => {
            let name = name.trim_end_matches(':');
            let work = if name == "B" { 200.0 } else { 2.0 };
            assert!(time(measured) >= work, "{mode}: {line}");
            assert!(time(simulated) >= work, "{mode}: {line}");
            name
        }
        [name, "fired", measured, "ms", "late", simulated, "ms"] => {
            assert!(time(measured) >= 0.0, "{mode}: {line}");
            assert!(time(simulated) >= 0.0, "{mode}: {line}");
            name
        }
        _ => panic!("{mode}: not a line of the demonstration: {line:?}"),
    }
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    assert_recorder_equals_strace(PROGRAM, ["real"]);
}

/// Inline, offloaded and in pieces: three loops, and what is different between them.
#[test]
fn a_result_comes_back_as_an_event() {
    let lines = recorded(PROGRAM, ["real"]);
    let text = fine(fs::read_to_string(expected("real.trace")));
    let expected: Expected = fine(text.parse());
    fine(expected.check(&lines));
}

/// The blocking lookup happens between two waits of the loop; the other one's answer comes out of a wait.
#[test]
fn an_answer_is_an_event() {
    let lines = recorded(PROGRAM, ["resolve"]);
    let text = fine(fs::read_to_string(expected("resolve.trace")));
    let expected: Expected = fine(text.parse());
    fine(expected.check(&lines));
    let words = printed(&["resolve"]);
    assert_eq!(
        words.matches("workshop.example is [192.0.2.7]").count(),
        2,
        "{words}"
    );
    let ticks: Vec<u32> = words
        .lines()
        .filter_map(|line| {
            line.strip_prefix("the timer fired ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    // Blocked, it fires at most once: it may have been due in the turn in which the handler was called.
    assert!(matches!(ticks[..], [blocked, _] if blocked <= 1), "{words}");
}

#[test]
fn the_lag_is_measured_at_every_size() {
    let words = printed(&["lag", "--seconds", "1"]);
    let idle = words.matches(", idle ").count();
    assert!(idle >= 2, "{words}");
    assert_eq!(words.matches(", all busy ").count(), idle, "{words}");
    assert_eq!(words.matches("times idle").count(), idle, "{words}");
}

/// The book shows what the simulation computes. (To write the files anew: `ch08-workers figure` and `ch08-workers player`.)
#[test]
fn the_pictures_of_the_book_are_those_of_the_simulation() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src");
    for (part, file) in [
        ("figure", "images/08-workers.svg"),
        ("player", "players/ch08-workers.html"),
    ] {
        assert_same_output(&printed(&[part]), book.join(file));
    }
}
