//! The demonstration: what it prints, and what it really did.
//!
//! The table of copied bytes is the same on every x86-64 machine where 10,000 descriptors may be open.
//! Elsewhere its laws are checked, and one line on standard error says so.

use grader::Ending;
use grader::chapter::{
    Demonstration, assert_demonstration, assert_recorder_equals_strace, assert_same_output,
    is_exact,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch04-epoll-lt");
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected/ch04-epoll-lt.txt");

/// Descriptors that the whole table needs: those that are watched, and a few of the program itself.
const DESCRIPTORS: u64 = 10_000 + 16;

/// Bytes of a `pollfd`, and of its field `revents`.
const POLLFD: usize = 8;
const REVENTS: usize = 2;

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

/// True if the table is the one in the file. If not, says why, or panics where it is demanded.
#[track_caller]
fn is_reference_machine() -> bool {
    let limit = sys::getrlimit(sys::Resource::NoFile).expect("getrlimit");
    let why = match limit.rlim_max {
        ..DESCRIPTORS => "the hard descriptor limit (ulimit -Hn) is too low for the whole table",
        _ if !cfg!(target_arch = "x86_64") => "an epoll_event is larger than on x86-64",
        _ => return true,
    };
    assert!(!is_exact(), "{why}, and READINESS_EXACT=1 demands it");
    eprintln!("the table differs from the reference machine's: {why}");
    false
}

#[test]
fn prints_the_documented_output_in_all_surroundings() {
    if is_reference_machine() {
        assert_demonstration(PROGRAM, EXPECTED);
    }
}

#[test]
fn prints_the_same_every_time() {
    const TIMES: usize = 20;
    if is_reference_machine() {
        for _ in 0..TIMES {
            assert_same_output(&output(&Demonstration::new(PROGRAM)), EXPECTED);
        }
    }
}

#[test]
fn interrupted_waits_are_repeated() {
    for faults in [
        "epoll_wait:error=EINTR:when=1+2",
        "poll,select:error=EINTR:when=1+2",
    ] {
        let demonstration = Demonstration::new(PROGRAM).env("READINESS_INJECT", faults);
        let printed = output(&demonstration);
        if is_reference_machine() {
            assert_same_output(&printed, EXPECTED);
        }
    }
}

/// The program, started by a shell that sets a limit first.
fn limited(limit: &str) -> Demonstration {
    let script = format!("{limit}; exec \"$0\"");
    Demonstration::new("/bin/sh").args(["-c", &script, PROGRAM])
}

#[test]
fn the_soft_limit_is_raised() {
    if is_reference_machine() {
        assert_same_output(&output(&limited("ulimit -Sn 64")), EXPECTED);
    }
}

/// A row of the table: how many are watched, the call, what it returned, the bytes in and out.
type Row = (usize, String, [usize; 3]);

fn rows(printed: &str) -> Vec<Row> {
    let numbers = |words: &[&str]| -> Option<Vec<usize>> {
        let plain = words.iter().map(|word| word.replace(',', "").parse().ok());
        plain.collect()
    };
    let row = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [watched, call, ref copied @ ..] => {
            let watched = numbers(&[watched])?[0];
            let copied = numbers(copied)?.try_into().ok()?;
            Some((watched, call.to_owned(), copied))
        }
        _ => None,
    };
    printed.lines().filter_map(row).collect()
}

/// Checks what holds for every row on every machine.
#[track_caller]
fn check(rows: &[Row]) {
    let mut of_epoll = Vec::new();
    for (watched, call, [returned, bytes_in, bytes_out]) in rows {
        let (watched, bytes_in, bytes_out) = (*watched, *bytes_in, *bytes_out);
        assert_eq!(*returned, 5, "{call} of {watched}");
        match call.as_str() {
            "select" => {
                // A bit for each and for the few below them, in words of 8 bytes, there and back.
                assert_eq!(bytes_in, bytes_out);
                assert!(
                    (watched..watched + 128).contains(&(bytes_in * 8)),
                    "{watched}: {bytes_in}"
                );
                assert!(bytes_in <= sys::FD_SETSIZE / 8);
            }
            "poll" => {
                assert_eq!((bytes_in, bytes_out), (watched * POLLFD, watched * REVENTS));
            }
            "epoll_wait" => of_epoll.push((bytes_in, bytes_out)),
            other => panic!("a row of {other}"),
        }
    }
    let event = size_of::<sys::EpollEvent>();
    assert!(of_epoll.len() >= 4 && of_epoll.iter().all(|copied| *copied == (0, 5 * event)));
}

#[test]
fn the_table_keeps_its_laws() {
    let printed = output(&Demonstration::new(PROGRAM));
    check(&rows(&printed));
    assert!(printed.contains("no bit for a descriptor above 1023") || !is_reference_machine());
}

#[test]
fn the_table_says_what_does_not_fit() {
    let printed = output(&limited("ulimit -n 300"));
    let rows = rows(&printed);
    check(&rows);
    let watched: Vec<_> = rows
        .iter()
        .filter(|(_, call, _)| call == "poll")
        .map(|(watched, ..)| *watched)
        .collect();
    // Standard input, output and error, and epoll take four.
    assert_eq!(watched, [10, 100, 296, 296]);
    for asked in ["1,000", "10,000"] {
        let said = format!("not {asked}: the descriptor limit (ulimit -n) is 300, and 296 fit");
        assert!(printed.contains(&said), "{printed}");
    }
}

#[test]
fn the_recorder_sees_what_strace_sees() {
    assert_recorder_equals_strace(PROGRAM, [""; 0]);
}
