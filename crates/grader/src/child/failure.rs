//! Why a program is not a running server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Ending, Output};

/// The shell's exit status when it could not set a limit; no shell uses it for anything else.
pub(super) const LIMIT_REFUSED: i32 = 125;

/// The shell's exit status for a file that it may not, or cannot, execute (`sh(1)`).
const NOT_EXECUTABLE: i32 = 126;

/// The shell's exit status for a file that is not there; a missing interpreter of a script gives it too.
const NOT_FOUND: i32 = 127;

/// Why a program did not become a listening server.
#[derive(Clone, Debug)]
pub enum StartFailure {
    /// The file cannot be run at all.
    CannotExecute {
        /// The file.
        program: PathBuf,
        /// The operating system's reason.
        why: String,
    },
    /// It ended before it said where it listens.
    Ended {
        /// How.
        ending: Ending,
        /// What it had written by then.
        output: Output,
    },
    /// It runs, but no line came.
    Silent {
        /// How long the grader waited.
        waited: Duration,
        /// What it had written by then: no whole line on standard output.
        output: Output,
    },
    /// It closed standard output before the line, and still runs.
    ClosedOutput {
        /// What it had written by then.
        output: Output,
    },
    /// Its first line is not the one that the contract asks for.
    WrongLine {
        /// The line, or its beginning where it is long.
        line: String,
        /// What it had written by then.
        output: Output,
    },
    /// It left a server behind in the background and ended itself.
    Background {
        /// How it ended.
        ending: Ending,
        /// What it had written by then.
        output: Output,
    },
    /// It named a port, but it does not listen there.
    NotListening {
        /// The port that it named.
        port: u16,
        /// Where it does listen, if anywhere.
        listens_on: Vec<u16>,
        /// What it had written by then.
        output: Output,
    },
}

impl StartFailure {
    pub(super) fn ended(program: &Path, ending: Ending, output: Output) -> StartFailure {
        // The shell speaks for itself, as "sh: 1: exec: ./a.out: Exec format error".
        let program = program.to_owned();
        let why = output.stderr.trim_end().to_owned();
        match ending {
            Ending::Exited(LIMIT_REFUSED) if why.contains("ulimit") => {
                StartFailure::CannotExecute { program, why }
            }
            Ending::Exited(NOT_EXECUTABLE | NOT_FOUND) if why.contains("exec: ") => {
                StartFailure::CannotExecute { program, why }
            }
            _ => StartFailure::Ended { ending, output },
        }
    }

    /// `SIGKILL` ended it, and the grader had not sent it: see [`Server::was_killed_from_outside`].
    ///
    /// [`Server::was_killed_from_outside`]: super::Server::was_killed_from_outside
    pub fn is_killed_from_outside(&self) -> bool {
        let StartFailure::Ended { ending, .. } = self else {
            return false;
        };
        *ending == Ending::Killed(sys::SIGKILL)
    }

    /// What the program had written by then.
    pub fn output(&self) -> Option<&Output> {
        match self {
            StartFailure::CannotExecute { .. } => None,
            StartFailure::Ended { output, .. }
            | StartFailure::Silent { output, .. }
            | StartFailure::ClosedOutput { output }
            | StartFailure::WrongLine { output, .. }
            | StartFailure::Background { output, .. }
            | StartFailure::NotListening { output, .. } => Some(output),
        }
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CONTRACT: &str =
            "the first line of standard output must be \"listening on 127.0.0.1:PORT\"";
        match self {
            StartFailure::CannotExecute { program, why } => {
                write!(f, "cannot execute {}: {why}", program.display())?;
            }
            StartFailure::Ended { ending, .. } => {
                write!(f, "the program {ending} before it served anybody")?;
            }
            StartFailure::Silent { waited, .. } => write!(
                f,
                "the program runs, but printed no line in {} s; {CONTRACT}, and it must be flushed",
                waited.as_secs()
            )?,
            StartFailure::ClosedOutput { .. } => {
                write!(
                    f,
                    "the program closed standard output without a line; {CONTRACT}"
                )?;
            }
            StartFailure::WrongLine { line, .. } => {
                write!(
                    f,
                    "the program's first line is \"{}\"; {CONTRACT}",
                    line.escape_debug()
                )?;
            }
            StartFailure::Background { ending, .. } => write!(
                f,
                "the program {ending} and left a server in the background; it must stay in the foreground"
            )?,
            StartFailure::NotListening {
                port, listens_on, ..
            } => {
                write!(
                    f,
                    "the program said that it listens on port {port}, but it does not"
                )?;
                if !listens_on.is_empty() {
                    let ports: Vec<_> = listens_on.iter().map(u16::to_string).collect();
                    write!(f, "; it listens on port {}", ports.join(", "))?;
                }
            }
        }
        match self.output().and_then(Output::last_words) {
            Some(words) => write!(f, "\n{words}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StartFailure {}
