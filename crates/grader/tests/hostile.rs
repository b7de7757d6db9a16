//! Programs that do what no server should: each gets its own verdict, and nothing of it is left behind.
mod common;

use std::fs;
use std::time::Duration;

use common::{example, hostile};
use grader::grading::{Subject, Verdict};
use grader::{DEADLINE, Ending, Peer, Program, Server, StartFailure, checks, wait, wait_until};

/// Marks the processes of one test, independently of the grader's own mark.
const OURS: &str = "HOSTILE_TEST";

/// Short, so that the tests of programs that never listen do not take long.
const PATIENCE: Duration = Duration::from_secs(2);

fn program(kind: &str) -> Program {
    hostile(kind).env(OURS, kind).start_deadline(PATIENCE)
}

/// The processes of this test that are alive.
fn left_behind(kind: &str) -> Vec<String> {
    let wanted = format!("{OURS}={kind}");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter(|entry| {
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn failure(kind: &str) -> StartFailure {
    let outcome = program(kind).start();
    let failure = outcome.err().expect("it is no server");
    assert_eq!(left_behind(kind), [""; 0], "{kind}: {failure}");
    failure
}

#[test]
fn a_file_that_is_no_program() {
    for (path, why) in [
        ("/no/such/program", "No such file or directory"),
        ("/", "it is not a file"),
        ("/etc/passwd", "it is not executable"),
    ] {
        let failure = Program::new(path).start().err().unwrap();
        assert!(matches!(failure, StartFailure::CannotExecute { .. }));
        let words = failure.to_string();
        assert!(
            words.starts_with(&format!("cannot execute {path}: {why}")),
            "{words}"
        );
    }
}

#[test]
fn a_limit_that_cannot_be_set() {
    // Above the kernel's own maximum (fs.nr_open) nobody may go, not even root.
    let program = Program::new(example("right")).limit_nofile(u64::from(u32::MAX));
    let words = program.start().err().unwrap().to_string();
    assert!(
        words.starts_with("cannot execute ") && words.contains("ulimit"),
        "{words}"
    );
}

#[test]
fn one_that_exits_with_success_at_once() {
    assert_eq!(
        failure("exits-0").to_string(),
        "the program exited with status 0 before it served anybody"
    );
}

#[test]
fn one_that_says_why_it_cannot() {
    assert_eq!(
        failure("exits-3").to_string(),
        "the program exited with status 3 before it served anybody\n\
         its last words on standard error:\n  bind 127.0.0.1:80: Permission denied (EACCES)"
    );
}

#[test]
fn one_that_is_not_written_yet() {
    let failure = failure("panics");
    let panic = failure.output().unwrap().panic().unwrap();
    assert!(
        panic.is_todo() && panic.place.contains("hostile.rs:"),
        "{panic}"
    );
    assert!(
        failure
            .to_string()
            .contains("not yet implemented: accept the connection")
    );
}

#[test]
fn one_that_says_nothing() {
    let failure = failure("silent");
    assert!(
        matches!(
            failure,
            StartFailure::Silent {
                waited: PATIENCE,
                ..
            }
        ),
        "{failure}"
    );
}

#[test]
fn one_that_never_binds() {
    let failure = failure("never-binds");
    assert!(
        matches!(failure, StartFailure::NotListening { port: 1, .. }),
        "{failure}"
    );
}

#[test]
fn one_that_names_another_port() {
    let failure = failure("wrong-port");
    let StartFailure::NotListening {
        port, listens_on, ..
    } = &failure
    else {
        panic!("{failure}");
    };
    assert_eq!(listens_on.len(), 1);
    assert_ne!(listens_on[0], *port);
}

#[test]
fn one_that_says_it_in_other_words() {
    let failure = failure("wrong-line");
    let StartFailure::WrongLine { line, .. } = &failure else {
        panic!("{failure}");
    };
    assert!(line.starts_with("Server ready on port "));
}

#[test]
fn one_that_prints_without_end() {
    let failure = failure("prints-without-end");
    let StartFailure::WrongLine { line, output } = &failure else {
        panic!("{failure}");
    };
    assert!(line.starts_with("yyyy") && output.stdout.len() < 200_000);
}

#[test]
fn one_that_closes_standard_output() {
    let failure = failure("closes-stdout");
    assert!(
        matches!(failure, StartFailure::ClosedOutput { .. }),
        "{failure}"
    );
}

#[test]
fn one_that_goes_into_the_background() {
    let ending = match program("daemonises").start() {
        Err(StartFailure::Background { ending, .. }) => ending,
        Err(other) => panic!("{other}"),
        // The daemon was quicker than its parent's end, which is noticed now.
        Ok(server) => {
            wait_until(DEADLINE, || server.ended().is_some()).unwrap();
            server.ended().unwrap()
        }
    };
    assert_eq!(ending, Ending::Exited(0));
    assert_eq!(left_behind("daemonises"), [""; 0]);
}

#[test]
fn one_that_leaves_its_group_again_and_again() {
    let failure = failure("forks-without-end");
    assert!(
        matches!(
            failure,
            StartFailure::Ended { .. } | StartFailure::Silent { .. }
        ),
        "{failure}"
    );
}

#[test]
fn one_that_binds_late_is_a_server() {
    let server = program("binds-late").start().unwrap();
    drop(server);
    assert_eq!(left_behind("binds-late"), [""; 0]);
}

#[test]
fn one_that_ignores_sigterm_ends_all_the_same() {
    let server = program("ignores-sigterm").start().unwrap();
    let addr = server.addr();
    drop(server);
    assert_eq!(left_behind("ignores-sigterm"), [""; 0]);
    assert!(Peer::connect(addr).is_err(), "nobody listens any more");
}

#[test]
fn one_that_leaves_a_daemon_leaves_none() {
    let server = program("leaves-a-daemon").start().unwrap();
    // The shell and its child.
    wait_until(DEADLINE, || left_behind("leaves-a-daemon").len() >= 3).unwrap();
    drop(server);
    assert_eq!(left_behind("leaves-a-daemon"), [""; 0]);
}

#[test]
fn one_that_complains_without_end_is_a_server_whose_output_is_bounded() {
    let server = program("prints-errors-without-end").start().unwrap();
    let mut length = 0;
    wait_until(DEADLINE, || {
        let errors = server.output().stderr;
        length = errors.len();
        errors.contains("bytes left out")
    })
    .unwrap();
    assert!(length < 200_000);
    assert_eq!(server.ended(), None);
}

#[test]
fn one_that_eats_memory_is_ended() {
    const LIMIT: u64 = 64 << 20;
    let ending = match program("eats-memory").limit_memory(LIMIT).start() {
        // It was over before the grader had seen its listener.
        Err(StartFailure::Ended { ending, .. }) => ending,
        Err(other) => panic!("{other}"),
        Ok(server) => {
            wait_until(DEADLINE, || server.ended().is_some()).unwrap();
            server.ended().unwrap()
        }
    };
    assert!(
        matches!(ending, Ending::TooMuchMemory(bytes) if bytes > LIMIT),
        "{ending}"
    );
}

#[test]
fn one_that_somebody_else_kills_is_not_judged() {
    let check = &checks::exercise("ex03-poll").unwrap().checks[0];
    for kind in ["killed-by-somebody", "killed-before-it-listens"] {
        let verdict = check.judge(&Subject::new(example("hostile")).args([kind]));
        let Verdict::Skipped(reason) = verdict else {
            panic!("{kind}: {verdict:?}");
        };
        assert!(
            reason.contains("killed by SIGKILL from outside"),
            "{reason}"
        );
    }
}

#[test]
fn one_that_the_grader_kills_was_not_killed_from_outside() {
    let kill = |how: fn(&Server)| {
        let server = program("quiet-server").start().unwrap();
        how(&server);
        wait_until(DEADLINE, || server.ended().is_some()).unwrap();
        assert_eq!(server.ended(), Some(Ending::Killed(sys::SIGKILL)));
        server.was_killed_from_outside()
    };
    assert!(!kill(|server| server.signal(sys::SIGKILL)));
    assert!(kill(|server| {
        sys::kill(server.pid(), sys::SIGKILL).expect("it is our child");
    }));
}

#[test]
fn one_that_spins_is_known_by_its_cpu_time() {
    let server = program("spins").start().unwrap();
    let activity = wait::idle_cpu(&server).unwrap();
    assert!(activity.is_spin(), "{activity}");
    let never = wait::wait_for(PATIENCE, || {
        wait_until(Duration::ZERO, || false).map_err(|error| error.to_string())
    });
    assert!(never.is_err());
}

#[test]
fn nothing_is_left_when_a_test_panics() {
    let outcome = std::panic::catch_unwind(|| {
        let server = program("quiet-server").start().unwrap();
        assert_eq!(server.port(), 0, "this test panics on purpose");
    });
    assert!(outcome.is_err());
    assert_eq!(left_behind("quiet-server"), [""; 0]);
}
