//! What the demonstration prints, and what it did: every client was served by a thread of its own.

use std::collections::BTreeMap;

use grader::chapter::{
    Demonstration, assert_demonstration, assert_recorder_equals_strace, is_exact, recorded,
};
use trace::Event;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch01-threads");
const EXPECTED: &str = "expected/ch01-threads.txt";

#[test]
fn prints_what_is_expected() {
    let printed = Demonstration::new(PROGRAM).run().expect("it runs").stdout;
    if printed.contains("cannot tell") && !is_exact() {
        // A sandbox that does not say where a thread sleeps. Everything else must be the same.
        let expected = std::fs::read_to_string(EXPECTED).expect("the expected output");
        let others = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter(|line| !line.contains(" cannot tell") && !line.contains(" asleep in "));
            lines.map(str::to_owned).collect()
        };
        eprintln!("left out: where the threads sleep: /proc does not tell here");
        assert_eq!(others(&printed), others(&expected));
    } else {
        assert_demonstration(PROGRAM, EXPECTED);
    }
}

#[test]
fn the_recorder_tells_what_strace_tells() {
    assert_recorder_equals_strace(PROGRAM, [] as [&str; 0]);
}

#[test]
fn each_connection_has_a_thread_of_its_own() {
    // What each thread did, as "name(first argument)".
    let mut threads: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in recorded(PROGRAM, [] as [&str; 0]) {
        // The first thread has no number as long as it is alone; then it has its own.
        if let (Some(thread), Event::Call(call)) = (line.pid, &line.event) {
            let descriptor = call.args[0]
                .descriptor()
                .expect("every call here is on a descriptor");
            threads
                .entry(thread)
                .or_default()
                .push(format!("{}({descriptor})", call.name));
        }
    }
    let served: Vec<String> = (7..=9)
        .map(|fd| format!("read({fd}) write({fd}) read({fd}) close({fd})"))
        .collect();
    let mut done: Vec<String> = threads.into_values().map(|calls| calls.join(" ")).collect();
    done.retain(|calls| !calls.contains("connect("));
    done.sort();
    let mut expected = served;
    expected.insert(0, "accept4(3) accept4(3) accept4(3) accept4(3)".to_owned());
    assert_eq!(done, expected);
}
