//! Running a demonstration to its end, in the surroundings that could disturb it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fmt, io};

use super::{assert_same_output, leave_out};
use crate::child::output::Drain;
use crate::child::{Ending, MARK, sweep};
use crate::wait::wait_for;

/// How long a demonstration may take on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// How much of its output is kept, in bytes. The longest is a few kilobytes.
const KEPT: usize = 1 << 20;

/// How long the last bytes of a program that has ended may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// A pipe, as in `program | less`.
    Pipe,
    /// A file, as in `program > file`.
    File,
    /// A pseudo-terminal, made by `script(1)`. Carriage returns that the terminal adds are taken out.
    Terminal,
}

/// A program that prints something and ends.
///
/// ```no_run
/// # use grader::chapter::Demonstration;
/// let finished = Demonstration::new("target/debug/ch02-select").run()?;
/// println!("{}", finished.stdout);
/// # Ok::<(), grader::chapter::NotRun>(())
/// ```
#[derive(Clone, Debug)]
pub struct Demonstration {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    leaking: bool,
    stdout: Stdout,
    deadline: Duration,
}

/// What a program printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error; on a [`Stdout::Terminal`] both go to standard output, and this is empty.
    pub stderr: String,
}

/// Why there is no result.
#[derive(Debug)]
pub enum NotRun {
    /// It still ran at the deadline, and was ended. Holds what it had printed.
    Overdue(Duration, String),
    /// It could not be started.
    Failed(io::Error),
    /// What it needs is not on this machine.
    Missing(String),
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRun::Overdue(deadline, output) => {
                let seconds = deadline.as_secs();
                write!(
                    f,
                    "the program still ran after {seconds} s; it had printed:\n{output}"
                )
            }
            NotRun::Failed(error) => write!(f, "the program could not be started: {error}"),
            NotRun::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for NotRun {}

impl Demonstration {
    /// The program in this file, without arguments, writing into a pipe.
    pub fn new(program: impl Into<PathBuf>) -> Demonstration {
        Demonstration {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            leaking: false,
            stdout: Stdout::Pipe,
            deadline: DEADLINE,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Demonstration {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Sets a variable of its environment. `READINESS_TRACE` and `READINESS_INJECT` are not inherited.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Demonstration {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Leaves descriptors 3 to 9 open in it, as some shells and editors do.
    #[must_use]
    pub fn leaking_descriptors(mut self) -> Demonstration {
        self.leaking = true;
        self
    }

    /// What its standard output is (at first a pipe).
    #[must_use]
    pub fn stdout(mut self, stdout: Stdout) -> Demonstration {
        self.stdout = stdout;
        self
    }

    /// How long it may take (at first 30 s).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Demonstration {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end. Nothing of it is left then, whatever happened.
    pub fn run(&self) -> Result<Finished, NotRun> {
        let mut command = self.command()?;
        let file = match self.stdout {
            Stdout::File => {
                let file = TemporaryFile::new("stdout");
                command.stdout(File::create(&file.path).map_err(NotRun::Failed)?);
                Some(file)
            }
            Stdout::Pipe | Stdout::Terminal => {
                command.stdout(Stdio::piped());
                None
            }
        };
        let mut job = Job::start(command).map_err(NotRun::Failed)?;
        let stdout = job.child.stdout.take().map(|pipe| Drain::new(pipe, KEPT));
        let stderr = Drain::new(job.child.stderr.take().expect("it is a pipe"), KEPT);
        let ended = wait_for(self.deadline, || match job.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(String::new()),
            Err(error) => Err(error.to_string()),
        });
        // What it left in the background could hold the pipes open.
        drop(job);
        let mut text = match (&stdout, &file) {
            (Some(pipe), _) => {
                pipe.wait_for_end(LAST_OUTPUT);
                pipe.text()
            }
            (None, Some(file)) => {
                let bytes = fs::read(&file.path).map_err(NotRun::Failed)?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
            (None, None) => unreachable!("standard output is a pipe or a file"),
        };
        stderr.wait_for_end(LAST_OUTPUT);
        if self.stdout == Stdout::Terminal {
            text = text.replace("\r\n", "\n");
        }
        match ended {
            Ok(status) => Ok(Finished {
                ending: Ending::of(status),
                stdout: text,
                stderr: stderr.text(),
            }),
            Err(_) => Err(NotRun::Overdue(self.deadline, text)),
        }
    }

    /// A shell that sets the surroundings and becomes the program, if need be inside `script`.
    fn command(&self) -> Result<Command, NotRun> {
        let leaks: String = match self.leaking {
            true => (3..=9).map(|fd| format!("exec {fd}</dev/null; ")).collect(),
            false => String::new(),
        };
        let program = self.program.canonicalize().map_err(NotRun::Failed)?;
        let mut command;
        if self.stdout == Stdout::Terminal {
            if !exists("script") {
                return Err(NotRun::Missing("script(1) is not installed".to_owned()));
            }
            let words = [program.as_os_str()]
                .into_iter()
                .chain(self.args.iter().map(OsString::as_os_str));
            let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
            command = Command::new("script");
            command
                .arg("-qec")
                .arg(format!("{leaks}exec {}", words.join(" ")))
                .arg("/dev/null");
        } else {
            command = Command::new("/bin/sh");
            command
                .arg("-c")
                .arg(format!(r#"{leaks}exec "$0" "$@""#))
                .arg(program)
                .args(&self.args);
        }
        command
            .env_remove("READINESS_TRACE")
            .env_remove("READINESS_INJECT")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// There is a program of this name in the search path.
pub(super) fn exists(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A child process, ended with all its descendants when this is dropped.
struct Job {
    child: Child,
    mark: String,
}

impl Job {
    fn start(mut command: Command) -> io::Result<Job> {
        let mark = sweep::new_mark();
        let child = command.env(MARK, &mark).spawn()?;
        Ok(Job { child, mark })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Not reaped, so the number of its group is still its own.
            let _ = sys::kill(-(self.child.id() as i32), sys::SIGKILL);
        }
        sweep::end_marked(&self.mark);
        let _ = self.child.wait();
    }
}

/// A file's name in the folder for such files, and the file's end when this is dropped.
pub(super) struct TemporaryFile {
    pub(super) path: PathBuf,
}

impl TemporaryFile {
    pub(super) fn new(kind: &str) -> TemporaryFile {
        let name = format!("readiness-{}.{kind}", sweep::new_mark());
        TemporaryFile {
            path: env::temp_dir().join(name),
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It may never have been created.
        let _ = fs::remove_file(&self.path);
    }
}

/// A demonstration prints exactly what is in this file, and nothing on standard error: into a pipe, a file
/// and a terminal, and with descriptors leaked into it.
///
/// `READINESS_EXACT` decides whether a missing `script(1)` is a failure.
#[track_caller]
pub fn assert_demonstration(program: impl Into<PathBuf>, expected: impl AsRef<Path>) {
    Demonstration::new(program).assert_prints(expected);
}

impl Demonstration {
    /// [`assert_demonstration`] with arguments and an environment.
    #[track_caller]
    pub fn assert_prints(&self, expected: impl AsRef<Path>) {
        let plain = self.clone();
        for stdout in [Stdout::Pipe, Stdout::File, Stdout::Terminal] {
            for demonstration in [plain.clone(), plain.clone().leaking_descriptors()] {
                let finished = match demonstration.stdout(stdout).run() {
                    Ok(finished) => finished,
                    Err(NotRun::Missing(what)) => {
                        leave_out("standard output as a terminal", &what);
                        continue;
                    }
                    Err(other) => panic!("standard output as a {stdout:?}: {other}"),
                };
                assert_eq!(
                    (finished.ending, finished.stderr.as_str()),
                    (Ending::Exited(0), ""),
                    "how it ended, and what it wrote to standard error; it printed:\n{}",
                    finished.stdout
                );
                assert_same_output(&finished.stdout, expected.as_ref());
            }
        }
    }
}
