//! Runs a server as a child process, plays scripted clients against it, and looks at it from outside.
//!
//! The grader knows a path to a program and the contract of a server; it knows no chapter, no exercise
//! and no language. This crate has three layers:
//!
//! - [`child`] starts the program, tells apart all the ways in which a start can fail, keeps a bounded
//!   part of its output, and always ends and reaps it with all its descendants;
//! - [`peer`] is a client that does exactly what it is told, and keeps a list of its steps;
//! - [`probe`] reads `/proc`: interest lists, accept queues, unread bytes, where a thread sleeps, CPU time;
//!   [`wait`] builds on it and waits for a *state*, never for a guessed time.
//!
//! Two more serve the tests of chapters and solutions: [`chapter`] runs demonstrations and compares the recorder
//! with `strace`, [`survival`] is a battery of difficult clients for any server.
//!
//! ```no_run
//! use grader::{Peer, Program};
//!
//! let server = Program::new("target/debug/ch04-epoll-lt").args(["serve"]).start()?;
//! let mut peer = Peer::connect(server.addr())?;
//! peer.send(b"hello")?;
//! assert_eq!(peer.read_exactly(5)?, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod chapter;
pub mod checks;
pub mod child;
pub mod gallery;
pub mod grading;
pub mod peer;
pub mod probe;
pub mod survival;
pub mod wait;

pub use child::{Ending, Program, Server, StartFailure};
pub use peer::{Interrupted, Peer, Stop};
pub use probe::{Told, Unknown};
pub use wait::{DEADLINE, wait_until, wait_until_asleep, wait_until_idle};

/// Asserts that a program passes every check of an exercise. A check that cannot judge it says why, and passes.
///
/// # Panics
///
/// With the failure page of the first check that fails.
#[track_caller]
pub fn assert_passes(exercise: &str, subject: &grading::Subject) {
    let exercise = checks::exercise(exercise).expect("the name of an exercise");
    for (number, check) in (1..).zip(exercise.checks) {
        match check.judge(subject) {
            grading::Verdict::Passed => {}
            grading::Verdict::Skipped(reason) => println!("{}: not judged: {reason}", check.name),
            grading::Verdict::Failed(finding) => {
                let (of, check) = (exercise.checks.len(), check.name);
                let heading = grading::page::Heading {
                    exercise: exercise.name,
                    number,
                    of,
                    check,
                };
                panic!("\n{}", grading::page::page(&heading, &finding, false));
            }
        }
    }
}

/// Grades the program in this file as an exercise's tests: the main function of its `tests/grade.rs`.
pub fn grade(exercise: &str, program: &str) -> std::process::ExitCode {
    match checks::exercise(exercise) {
        Some(exercise) => grading::grade_as_tests(exercise, grading::Subject::new(program)),
        None => {
            let known: Vec<_> = checks::EXERCISES
                .iter()
                .map(|exercise| exercise.name)
                .collect();
            eprintln!(
                "no exercise is called {exercise}; there are {}",
                known.join(", ")
            );
            std::process::ExitCode::from(2)
        }
    }
}
