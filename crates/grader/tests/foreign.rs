//! The grader is blind to languages: servers in C and in Python get the verdicts that those in Rust get.
//!
//! They record no calls and no fault can be injected into them, so what needs that is skipped, with this reason. All
//! else must be judged, and a wrong server is named by what the clients and `/proc` tell.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use grader::checks;
use grader::grading::page::{Heading, page};
use grader::grading::{InOrder, Subject, Verdict};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A program, and what must come of it.
struct Case {
    program: Program,
    exercise: &'static str,
    /// The check that fails, and the name that it gives. `None`: a right server.
    caught: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy)]
enum Program {
    /// A source in C, and the `BUG` that it is compiled with.
    C(&'static str, &'static str),
    /// A script, and its first argument, if any.
    Python(&'static str, &'static str),
}

use Program::{C, Python};

#[rustfmt::skip]
const CASES: &[Case] = &[
    right(C("echo_poll.c", "NONE"), "ex03-poll"),
    wrong(C("echo_poll.c", "OUT_ALWAYS_ON"), "ex03-poll",
        "with nothing to do it sleeps", "out-always-on"),
    wrong(C("echo_poll.c", "END_NOT_CLOSED"), "ex03-poll",
        "a closed client is closed here too", "end-not-closed"),
    wrong(C("echo_poll.c", "SHORT_WRITE_LOST"), "ex03-poll",
        "a megabyte goes there and back", "short-write-lost"),
    wrong(C("echo_poll.c", "REST_NOT_ASKED_FOR"), "ex03-poll",
        "a megabyte goes there and back", "rest-not-asked-for"),
    wrong(C("echo_poll.c", "HUP_IGNORED"), "ex03-poll",
        "a client that breaks off is forgotten", "hup-ignored"),

    right(C("echo_epoll.c", "NONE"), "ex04-epoll-lt"),
    wrong(C("echo_epoll.c", "EINTR_FATAL"), "ex04-epoll-lt",
        "a signal does not end it", "eintr-fatal"),
    wrong(C("echo_epoll.c", "LEFT_BLOCKING"), "ex04-epoll-lt",
        "a client that does not read costs no CPU and little memory", "left-blocking"),
    wrong(C("echo_epoll.c", "REST_NOT_ASKED_FOR"), "ex04-epoll-lt",
        "a client that reads late gets every byte", "rest-not-asked-for"),
    wrong(C("echo_epoll.c", "ZERO_LENGTH_READ"), "ex04-epoll-lt",
        "a client that reads late gets every byte", "zero-length-read"),
    wrong(C("echo_epoll.c", "RDHUP_ALWAYS_ON"), "ex04-epoll-lt",
        "what was sent before a half-close comes back", "input-still-watched"),
    wrong(C("echo_epoll.c", "HUP_IGNORED"), "ex04-epoll-lt",
        "a client that breaks off is closed, and the others are served", "hup-ignored"),

    right(Python("http_et.py", ""), "ex05-epoll-et"),
    wrong(Python("http_et.py", "cleared-buffer"), "ex05-epoll-et",
        "three requests in one write get three replies", "pipeline-dropped"),
    wrong(Python("http_et.py", "sendall"), "ex05-epoll-et",
        "every byte of a large reply comes", "short-write-lost"),
    wrong(Python("http_et.py", "sendall-or-close"), "ex05-epoll-et",
        "every byte of a large reply comes", "eagain-is-not-an-end"),
    wrong(Python("http_et.py", "short-read-is-end"), "ex05-epoll-et",
        "requests before a half-close are answered", "short-read-is-not-empty"),
    wrong(Python("http_et.py", "hangup-first"), "ex05-epoll-et",
        "requests before a half-close are answered", "hup-before-input"),
];

const fn right(program: Program, exercise: &'static str) -> Case {
    Case {
        program,
        exercise,
        caught: None,
    }
}

const fn wrong(
    program: Program,
    exercise: &'static str,
    check: &'static str,
    bug: &'static str,
) -> Case {
    Case {
        program,
        exercise,
        caught: Some((check, bug)),
    }
}

/// What may be given as the reason for a skipped check: that nothing can be recorded, or that this machine does not
/// allow as many descriptors as a thousand clients need.
const REASONS: [&str; 2] = [
    "the program is not built on the workshop's `sys` crate",
    "the descriptor limit is below ",
];

/// Servers that are graded at a time. A check mostly waits for a server to fall asleep.
const AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(AT_A_TIME);
    grader::probe::raise_descriptor_limit(u64::from(u16::MAX));
    let trials = CASES.iter().map(|case| {
        let (source, variant) = match case.program {
            C(source, variant) | Python(source, variant) => (source, variant),
        };
        let name = format!("{source} {variant}");
        Trial::ignorable_test(name.trim(), || match subject(case.program)? {
            Ok(subject) => grade(case, &subject).map(|()| Completion::Completed),
            // CI has both languages: without one of them nothing would be proven there.
            Err(why) if std::env::var_os("READINESS_EXACT").is_some_and(|value| value == "1") => {
                Err(Failed::from(why))
            }
            Err(why) => Ok(Completion::ignored_with(why)),
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

/// The checks must come to what the case says, and to nothing else before.
fn grade(case: &Case, subject: &Subject) -> Result<(), Failed> {
    let exercise = checks::exercise(case.exercise).ok_or("no such exercise")?;
    let verdicts = InOrder::new(subject.clone(), exercise.checks);
    for (number, (check, verdict)) in (1..).zip(verdicts) {
        match verdict {
            Verdict::Passed => {}
            Verdict::Skipped(reason) if REASONS.iter().any(|known| reason.starts_with(known)) => {}
            Verdict::Skipped(reason) => {
                return Err(format!("{}: cannot judge: {reason}", check.name).into());
            }
            Verdict::Failed(finding) if case.caught == Some((check.name, finding.bug.name)) => {
                return Ok(());
            }
            Verdict::Failed(finding) => {
                let heading = Heading {
                    exercise: exercise.name,
                    number,
                    of: exercise.checks.len(),
                    check: check.name,
                };
                let page = page(&heading, &finding, false);
                let due = case.caught.map_or("nothing".to_owned(), |(check, bug)| {
                    format!("{bug} by \"{check}\"")
                });
                return Err(format!("due was {due}, but there is\n\n{page}").into());
            }
        }
    }
    match case.caught {
        None => Ok(()),
        Some((_, bug)) => Err(format!("{bug} was not found").into()),
    }
}

/// The program, ready to be started. `Ok(Err)`: this machine does not have its language.
fn subject(program: Program) -> Result<Result<Subject, String>, Failed> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    Ok(match program {
        C(source, bug) => match runs("cc", "--version") {
            Ok(()) => Ok(Subject::new(compile(&sources.join(source), bug)?)),
            Err(why) => Err(why),
        },
        Python(script, wrong) => {
            let argument = Some(wrong).filter(|wrong| !wrong.is_empty());
            // The first version with str.removeprefix.
            let is_new = "import sys; sys.exit(sys.version_info < (3, 9))";
            runs("python3", &format!("-c{is_new}"))
                .map(|()| Subject::new(sources.join(script)).args(argument))
        }
    })
}

/// This command can be run with this argument, and succeeds. Otherwise says why not.
fn runs(command: &str, argument: &str) -> Result<(), String> {
    match Command::new(command).arg(argument).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("`{command} {argument}`: {}", output.status)),
        Err(error) => Err(format!("{command}: {error}")),
    }
}

/// Compiles a source into a program of its own. Not even a warning is let through.
fn compile(source: &Path, bug: &str) -> Result<PathBuf, Failed> {
    let stem = source.file_stem().unwrap_or_default().display();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{bug}"));
    let output = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-DBUG={bug}"))
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).as_ref().into()),
    }
}
