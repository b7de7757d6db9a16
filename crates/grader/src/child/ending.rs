//! How a process ended, and what a Rust program said as it did.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned from `main` or called `exit`, with this status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// The grader ended it, since it took more memory than [`Program::limit_memory`] allows; so many bytes.
    ///
    /// [`Program::limit_memory`]: crate::Program::limit_memory
    TooMuchMemory(u64),
}

impl Ending {
    pub(crate) fn of(status: ExitStatus) -> Ending {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited(code),
            (None, Some(signal)) => Ending::Killed(signal),
            (None, None) => unreachable!("a process that was waited for exited or was killed"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "exited with status {status}"),
            Ending::Killed(number) => match signal_name(*number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
            Ending::TooMuchMemory(bytes) => {
                write!(f, "took {} MiB of memory and was ended", bytes >> 20)
            }
        }
    }
}

/// The names of the signals that end programs (`signal(7)`), with the numbers that x86-64 and Arm share.
fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL (illegal instruction)",
        6 => "SIGABRT (the program gave up: abort, or memory ran out)",
        7 => "SIGBUS (bad memory access)",
        8 => "SIGFPE (arithmetic error)",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV (bad memory access)",
        12 => "SIGUSR2",
        13 => "SIGPIPE (it wrote to a connection that was already closed)",
        14 => "SIGALRM",
        15 => "SIGTERM",
        25 => "SIGXFSZ (it wrote too large a file)",
        _ => return None,
    })
}

/// A panic that a Rust program reported on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// Where: `src/main.rs:41:5`.
    pub place: String,
    /// Why: `not yet implemented: accept the connection`.
    pub message: String,
}

impl Panic {
    /// Finds the first panic in what a program wrote to standard error.
    ///
    /// The notation is that of std's default hook since Rust 1.73: `thread 'main' (7) panicked at
    /// PLACE:`, and the message on the lines after it.
    pub fn find(stderr: &str) -> Option<Panic> {
        let mut lines = stderr.lines();
        let place = lines.find_map(|line| {
            let (thread, place) = line.split_once(" panicked at ")?;
            thread.trim_start().starts_with("thread '").then_some(place)
        })?;
        let message: Vec<_> = lines
            .take_while(|line| {
                !line.is_empty()
                    && !line.starts_with("note: run with `RUST_BACKTRACE")
                    && !line.starts_with("stack backtrace:")
            })
            .collect();
        Some(Panic {
            place: place.trim_end_matches(':').to_owned(),
            message: message.join("\n"),
        })
    }

    /// The program met a `todo!()`: that part is not written yet.
    pub fn is_todo(&self) -> bool {
        self.message.starts_with("not yet implemented")
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked at {}: {}", self.place, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_panic_between_other_lines() {
        let stderr = "warming up\n\nthread 'main' (4711) panicked at src/main.rs:41:5:\n\
            not yet implemented: accept\nnote: run with `RUST_BACKTRACE=1` environment variable to \
            display a backtrace\n";
        let panic = Panic::find(stderr).unwrap();
        assert_eq!(panic.place, "src/main.rs:41:5");
        assert_eq!(panic.message, "not yet implemented: accept");
        assert!(panic.is_todo());
    }

    #[test]
    fn a_message_may_have_several_lines() {
        let stderr = "thread 'worker' panicked at src/a.rs:1:2:\nassertion `left == right` failed\n  \
            left: 1\n right: 2\n\nmore";
        let panic = Panic::find(stderr).unwrap();
        assert_eq!(
            panic.message,
            "assertion `left == right` failed\n  left: 1\n right: 2"
        );
        assert!(!panic.is_todo());
        assert_eq!(Panic::find("the thread panicked at once"), None);
    }
}
