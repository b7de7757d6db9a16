//! The demonstration: what it prints, and what it really did.
//!
//! How many bytes the kernel takes at a time is the kernel's own business. On the reference kernel
//! (Linux 6.18) the output is exactly the documented one. On another the numbers may differ, and then the
//! laws are checked that hold everywhere, and one line on standard error says so. With `READINESS_EXACT=1`
//! only the documented output passes.

use grader::chapter::{
    Demonstration, assert_demonstration, assert_recorder_equals_strace, is_exact, recorded,
    same_output,
};
use trace::{Call, Event, Line, Outcome, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch03-poll");
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected/ch03-poll.txt");
const NO_ARGS: [&str; 0] = [];

/// Bytes of the reply, and the most that is offered to one `write`, as in the program.
const REPLY: usize = 1_000_000;
const CHUNK: usize = 64 * 1024;

#[track_caller]
fn output(demonstration: &Demonstration) -> String {
    let finished = demonstration
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        finished.ending,
        grader::Ending::Exited(0),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stderr, "");
    finished.stdout
}

/// True if this kernel gives the documented numbers. If not, says so, or panics where they are demanded.
#[track_caller]
fn is_reference_kernel() -> bool {
    match same_output(&output(&Demonstration::new(PROGRAM)), EXPECTED.as_ref()) {
        Ok(()) => true,
        Err(difference) if is_exact() => panic!("{difference}"),
        Err(_) => {
            eprintln!("the numbers differ from those of the reference kernel (Linux 6.18)");
            false
        }
    }
}

#[test]
fn prints_the_documented_output_in_all_surroundings() {
    if is_reference_kernel() {
        assert_demonstration(PROGRAM, EXPECTED);
    }
}

#[test]
fn prints_the_same_every_time() {
    const TIMES: usize = 20;
    if is_reference_kernel() {
        for _ in 0..TIMES {
            let printed = output(&Demonstration::new(PROGRAM));
            same_output(&printed, EXPECTED.as_ref())
                .unwrap_or_else(|difference| panic!("{difference}"));
        }
    }
}

/// What the program says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    writes: usize,
    wakeups: usize,
}

/// Checks that the printed numbers fit each other.
#[track_caller]
fn check(printed: &str) -> Told {
    let mut lines = printed.lines().peekable();
    let mut next = |what: &str| {
        let line = lines.next();
        line.unwrap_or_else(|| panic!("no line about {what}:\n{printed}"))
    };
    // The first writes, until one is refused or all is taken.
    let (mut writes, mut taken) = (0, 0);
    let sums = loop {
        let line = next("a write or the sum");
        let Some(result) = line.strip_prefix("write() -> ") else {
            break line;
        };
        match result.parse::<usize>() {
            Ok(count) => {
                assert!((1..=CHUNK).contains(&count), "{line}");
                writes += 1;
                taken += count;
            }
            Err(_) => {
                let refused = "-1, errno = Resource temporarily unavailable (EAGAIN)";
                assert_eq!(result, refused);
                break next("the sum");
            }
        }
    };
    let mut waiting = REPLY - taken;
    assert_eq!(
        sums,
        format!("kernel took {taken} bytes; {waiting} bytes wait in OUR output buffer")
    );
    // The first three wake-ups.
    let mut shown = 0;
    let done = loop {
        let line = next("a wake-up or the end");
        let Some(result) = line.strip_prefix(&format!("POLLOUT #{}: write() -> ", shown + 1))
        else {
            break line;
        };
        let (count, rest) = result.split_once(", still buffered ").expect(line);
        let count: usize = count.parse().expect(line);
        assert!((1..=CHUNK.min(waiting)).contains(&count), "{line}");
        waiting -= count;
        shown += 1;
        assert_eq!(rest.parse(), Ok(waiting), "{line}");
    };
    let numbers: Vec<usize> = done
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [received, total, wakeups] = numbers[..] else {
        panic!("{done}");
    };
    assert_eq!(
        done,
        format!(
            "done: client got {REPLY} bytes; {total} write() calls, {wakeups} POLLOUT wake-ups"
        )
    );
    assert_eq!((received, lines.next()), (REPLY, None));
    assert_eq!(shown, wakeups.min(3), "three wake-ups are shown");
    assert_eq!(total, writes + wakeups, "one write for each wake-up");
    // Those that are not shown took the rest, and none of them more than it was offered.
    assert!(waiting <= (wakeups - shown) * CHUNK, "{printed}");
    Told {
        writes: total,
        wakeups,
    }
}

#[test]
fn the_printed_numbers_fit_each_other() {
    check(&output(&Demonstration::new(PROGRAM)));
}

/// A kernel that takes less, interrupts, or hands over piece by piece, is one with other numbers.
#[test]
fn the_numbers_fit_each_other_on_a_stranger_kernel() {
    for faults in [
        "write:retval=1000",
        "write:retval=65535",
        "write:retval=40000:when=1",
        "read:retval=7777",
        "poll:error=EINTR:when=2..9",
        "write:error=EAGAIN:when=1",
    ] {
        check(&output(
            &Demonstration::new(PROGRAM).env("READINESS_INJECT", faults),
        ));
    }
}

/// The number that a call returned; `None` if it failed.
fn returned(call: &Call) -> Option<usize> {
    match &call.outcome {
        Outcome::Returned {
            value: Value::Int(number),
            ..
        } => Some(*number as usize),
        _ => None,
    }
}

fn calls(lines: Vec<Line>) -> Vec<Call> {
    let calls = lines.into_iter().filter_map(|line| match line.event {
        Event::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

/// The laws of an output buffer, on the calls themselves.
#[test]
fn the_calls_keep_the_three_rules() {
    let (mut left, mut received) = (REPLY, 0);
    let mut told = Told {
        writes: 0,
        wakeups: 0,
    };
    let mut has_polled = false;
    for call in calls(recorded(PROGRAM, NO_ARGS)) {
        match call.name.as_str() {
            // A new beginning, on a machine that was too busy.
            "accept4" => {
                (left, received) = (REPLY, 0);
                told = Told {
                    writes: 0,
                    wakeups: 0,
                };
            }
            "write" => {
                assert!(left > 0, "nothing is left to write: {call}");
                assert_eq!(
                    call.args[2],
                    Value::from(CHUNK.min(left)),
                    "what is offered: {call}"
                );
                if let Some(taken) = returned(&call) {
                    assert!(taken <= CHUNK.min(left), "{call}");
                    left -= taken;
                    told.writes += 1;
                }
                has_polled = false;
            }
            "poll" => {
                assert!(left > 0, "nothing is left to ask for: {call}");
                assert!(!has_polled, "asked twice: {call}");
                let shown = call.args[0].to_string();
                assert!(shown.ends_with("events=POLLOUT}]"), "{call}");
                assert_eq!(returned(&call), Some(1), "{call}");
                told.wakeups += 1;
                has_polled = true;
            }
            "read" => received += returned(&call).expect("it has something to read"),
            _ => {}
        }
    }
    assert_eq!((left, received), (0, REPLY));
    // What a run prints is what it did, and on the reference kernel every run does the same.
    if is_reference_kernel() {
        assert_eq!(told, check(&output(&Demonstration::new(PROGRAM))));
    }
}

#[test]
fn the_recorder_sees_what_strace_sees() {
    assert_recorder_equals_strace(PROGRAM, NO_ARGS);
}
