//! The table of bits: what it prints, and that it was really asked.

use grader::Ending;
use grader::chapter::{Demonstration, assert_recorder_equals_strace, assert_same_output, recorded};
use trace::Event;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch03-poll");
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected/ch03-bits.txt");

#[track_caller]
fn output(demonstration: &Demonstration) -> String {
    let finished = demonstration
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (finished.ending, finished.stderr.as_str()),
        (Ending::Exited(0), "")
    );
    finished.stdout
}

#[test]
fn prints_the_same_table_every_time() {
    let bits = Demonstration::new(PROGRAM).args(["bits"]);
    for _ in 0..20 {
        assert_same_output(&output(&bits), EXPECTED);
    }
    assert_same_output(&output(&bits.leaking_descriptors()), EXPECTED);
}

#[test]
fn interrupted_questions_are_asked_again() {
    let bits = Demonstration::new(PROGRAM)
        .args(["bits"])
        .env("READINESS_INJECT", "poll:error=EINTR:when=1+2");
    assert_same_output(&output(&bits), EXPECTED);
}

/// Two questions a row, and each is there in the trace.
#[test]
fn each_row_was_asked() {
    let table = std::fs::read_to_string(EXPECTED).expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("  ")).count();
    let looks = recorded(PROGRAM, ["bits"]).into_iter().filter(|line| {
        matches!(&line.event, Event::Call(call) if call.name == "poll" && call.args[2] == 0.into())
    });
    assert_eq!(looks.count(), 2 * rows);
}

#[test]
fn the_recorder_sees_what_strace_sees() {
    assert_recorder_equals_strace(PROGRAM, ["bits"]);
}

#[test]
fn the_help_names_it() {
    let help = output(&Demonstration::new(PROGRAM).args(["--help"]));
    assert!(
        help.lines()
            .any(|line| line.trim_start().starts_with("bits ")),
        "{help}"
    );
}
