//! What the demonstrations print, and which system calls they really made.
#![cfg(not(loom))]

use std::path::{Path, PathBuf};

use grader::Ending;
use grader::chapter::{Demonstration, assert_recorder_equals_strace, assert_same_output, recorded};
use trace::Line;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch07-wakeups");

/// A faster clock than the demonstration's own: so the tests do not take five seconds each.
const FASTER: [&str; 2] = ["--period-ms", "20"];

fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
}

#[track_caller]
fn expect_trace(lines: &[Line], name: &str) {
    let text = std::fs::read_to_string(expected(name)).expect("the expected trace");
    let expected: trace::Expected = text.parse().expect("an expected trace");
    if let Err(divergence) = expected.check(lines) {
        panic!("{divergence}");
    }
}

#[test]
fn prints_the_expected_ticks() {
    let demonstration = Demonstration::new(PROGRAM).args(FASTER);
    demonstration.assert_prints(expected("ch07-wakeups-ticks.txt"));
}

/// With a period of its own choice, so it takes its time.
#[test]
fn prints_the_expected_ticks_once_a_second() {
    let finished = Demonstration::new(PROGRAM).run().expect("run it");
    assert_eq!(finished.ending, Ending::Exited(0));
    assert_same_output(&finished.stdout, expected("ch07-wakeups-ticks.txt"));
}

/// So fast that one read often brings several ticks.
#[test]
fn no_tick_is_printed_twice_and_none_is_left_out() {
    for _ in 0..20 {
        let demonstration = Demonstration::new(PROGRAM).args(["--period-ms", "1"]);
        let finished = demonstration.run().expect("run it");
        assert_same_output(&finished.stdout, expected("ch07-wakeups-ticks.txt"));
    }
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    assert_recorder_equals_strace(PROGRAM, FASTER);
    assert_recorder_equals_strace(PROGRAM, ["counts"]);
    assert_recorder_equals_strace(PROGRAM, ["questions"]);
    assert_recorder_equals_strace(PROGRAM, ["deadlines"]);
}

/// A wait for each tick and one for the other thread, each without a timeout.
#[test]
fn the_demonstration_did_what_it_printed() {
    expect_trace(&recorded(PROGRAM, FASTER), "ch07-wakeups.trace");
}

#[test]
fn the_counts_are_those_of_the_calls() {
    expect_trace(&recorded(PROGRAM, ["counts"]), "counts.trace");
}

/// A thousand and one deadlines, one timerfd, which is armed twice.
#[test]
fn one_timerfd_is_armed_for_the_nearest_deadline() {
    expect_trace(&recorded(PROGRAM, ["deadlines"]), "deadlines.trace");
}

#[test]
fn its_other_parts_print_the_expected_lines() {
    for part in ["counts", "questions", "deadlines", "wheel"] {
        let demonstration = Demonstration::new(PROGRAM).args([part]);
        demonstration.assert_prints(expected(&format!("{part}.txt")));
    }
}

/// Its numbers are the machine's, its form is not.
#[test]
fn the_measurement_has_a_line_for_each_operation_and_size() {
    let demonstration = Demonstration::new(PROGRAM).args(["timers", "--most", "1000"]);
    let finished = demonstration.run().expect("run it");
    assert_eq!(finished.ending, Ending::Exited(0));
    let mut lines = finished.stdout.lines();
    let heading: Vec<&str> = lines
        .next()
        .expect("a heading")
        .split_whitespace()
        .collect();
    assert!(heading.ends_with(&["heap", "wheel", "heap", "/", "wheel"]));
    for operation in ["insert", "move", "cancel", "expire"] {
        let words: Vec<&str> = lines.next().expect("a line").split_whitespace().collect();
        let [name, size, _, heap, wheel, ratio] = words[..] else {
            panic!("{words:?}");
        };
        assert_eq!((name, size), (operation, "1000"));
        let [heap, wheel, ratio] = [heap, wheel, ratio].map(|word| word.parse::<f64>());
        let (heap, wheel) = (heap.expect("a number"), wheel.expect("a number"));
        assert!(heap > 0.0 && wheel > 0.0);
        // All three are rounded.
        let ratio = ratio.expect("a number");
        assert!(
            (heap / wheel - ratio).abs() < 0.02 * ratio + 0.01,
            "{words:?}"
        );
    }
    assert_eq!(lines.next(), None);
}
