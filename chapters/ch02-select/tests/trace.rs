//! What the demonstration prints, and which system calls it really made.

use std::path::Path;

use grader::chapter::{
    Demonstration, assert_demonstration, assert_recorder_equals_strace, recorded,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch02-select");
const NO_ARGUMENTS: [&str; 0] = [];

fn expected(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
}

#[test]
fn prints_the_expected_lines() {
    assert_demonstration(PROGRAM, expected("ch02-select.txt"));
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    assert_recorder_equals_strace(PROGRAM, NO_ARGUMENTS);
}

/// Each line that was printed has its system call, with the same numbers: nothing is made up.
#[test]
fn the_demonstration_did_what_it_printed() {
    let text = std::fs::read_to_string(expected("ch02-select.trace")).expect("the expected trace");
    let expected: trace::Expected = text.parse().expect("an expected trace");
    if let Err(divergence) = expected.check(&recorded(PROGRAM, NO_ARGUMENTS)) {
        panic!("{divergence}");
    }
}

#[test]
fn its_experiments_print_the_expected_lines() {
    let finished = Demonstration::new(PROGRAM)
        .args(["questions"])
        .run()
        .expect("run the experiments");
    let expected = std::fs::read_to_string(expected("questions.txt")).expect("the expected lines");
    assert_eq!(finished.stdout, expected);
}
