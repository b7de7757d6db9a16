//! The server as a child process: started, listened to, and always ended.

mod ending;
mod failure;
pub(crate) mod output;
mod server;
pub(crate) mod sweep;
mod watchdog;

pub use ending::{Ending, Panic};
pub use failure::StartFailure;
pub use output::Output;
pub use server::Server;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::wait::DEADLINE;

/// The environment variable that marks a graded program and all its descendants.
pub const MARK: &str = "READINESS_GRADED";

/// A server that writes a file larger than this is ended by `SIGXFSZ`. It protects the disk from a
/// program that logs without end, and no server of the workshop writes files at all.
const FILE_SIZE_LIMIT: u64 = 1 << 30;

/// The whole of the memory (resident set) of one server. No right server of the workshop comes near, and
/// it keeps a machine with little memory usable while a wrong one eats it.
const MEMORY_LIMIT: u64 = 1 << 30;

/// A program that can be started as a server, any number of times.
///
/// ```no_run
/// # use grader::Program;
/// let program = Program::new("./a.out").limit_nofile(32);
/// let server = program.start()?;
/// # Ok::<(), grader::StartFailure>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    extra: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    nofile: Option<u64>,
    address_space: Option<u64>,
    memory: u64,
    port: u16,
    deadline: Duration,
}

impl Program {
    /// The program in this file. It is started as `PATH --listen 127.0.0.1:0`.
    pub fn new(path: impl Into<PathBuf>) -> Program {
        Program {
            path: path.into(),
            args: Vec::new(),
            extra: Vec::new(),
            env: Vec::new(),
            nofile: None,
            address_space: None,
            memory: MEMORY_LIMIT,
            port: 0,
            deadline: DEADLINE,
        }
    }

    /// Arguments that come before `--listen`: `["serve"]` for a chapter.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Program {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Arguments that come after `--listen ADDR:PORT`: `["--idle-timeout-ms", "200"]`.
    #[must_use]
    pub fn options(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Program {
        self.extra
            .extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// A variable of its environment. The rest is inherited, without `READINESS_TRACE` and
    /// `READINESS_INJECT`: those of the grader are not meant for the program.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Program {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// The descriptor limit (`RLIMIT_NOFILE`, soft and hard): one more than the highest descriptor.
    #[must_use]
    pub fn limit_nofile(mut self, descriptors: u64) -> Program {
        self.nofile = Some(descriptors);
        self
    }

    /// The limit of its address space (`RLIMIT_AS`) in bytes, rounded down to KiB. When it is reached,
    /// `mmap` fails, and so does making a thread.
    #[must_use]
    pub fn limit_as(mut self, bytes: u64) -> Program {
        self.address_space = Some(bytes);
        self
    }

    /// Ends the program when its resident memory passes this many bytes (default: 1 GiB).
    #[must_use]
    pub fn limit_memory(mut self, bytes: u64) -> Program {
        self.memory = bytes;
        self
    }

    /// Asks for this port in place of 0, to see whether a restart on the same port works.
    #[must_use]
    pub fn port(mut self, port: u16) -> Program {
        self.port = port;
        self
    }

    /// How long the program may take until it listens (default: [`DEADLINE`]). The [battery] waits as long
    /// for each thing that it waits for.
    ///
    /// [battery]: crate::survival
    #[must_use]
    pub fn start_deadline(mut self, deadline: Duration) -> Program {
        self.deadline = deadline;
        self
    }

    /// See [`Program::start_deadline`].
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The file of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts the program and waits until it listens.
    ///
    /// # Errors
    ///
    /// All the ways in which this can fail, told apart. By then nothing of the program is left.
    pub fn start(&self) -> Result<Server, StartFailure> {
        let (command, mark) = self.command()?;
        Server::start(command, &self.path, mark, self.memory, self.deadline)
    }

    /// The command that becomes the program, and the mark that it carries.
    ///
    /// A shell sets the limits and then *becomes* the program (`exec`): the process id stays the same, and
    /// the program runs under its limits from its first instruction. Setting them from outside would be
    /// a race against its start.
    fn command(&self) -> Result<(Command, String), StartFailure> {
        let path = executable(&self.path)?;
        let mut script = format!("ulimit -c 0; ulimit -f {}; ", FILE_SIZE_LIMIT / 512);
        if let Some(limit) = self.nofile {
            script += &format!("ulimit -n {limit} || exit {}; ", failure::LIMIT_REFUSED);
        }
        if let Some(limit) = self.address_space {
            script += &format!(
                "ulimit -v {} || exit {}; ",
                limit / 1024,
                failure::LIMIT_REFUSED
            );
        }
        script += r#"exec "$0" "$@""#;

        let mark = sweep::new_mark();
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(script)
            .arg(path)
            .args(&self.args)
            .arg("--listen")
            .arg(format!("127.0.0.1:{}", self.port))
            .args(&self.extra)
            .env_remove("READINESS_TRACE")
            .env_remove("READINESS_INJECT")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that one signal reaches the program and its children, and so
            // that Ctrl-C in the terminal reaches the grader first.
            .process_group(0);
        Ok((command, mark))
    }
}

/// The absolute path of a file that can be executed. Looked at here, since the shell would only say
/// "not found" for every mistake.
fn executable(path: &Path) -> Result<PathBuf, StartFailure> {
    let failure = |why: String| StartFailure::CannotExecute {
        program: path.to_owned(),
        why,
    };
    let absolute = path
        .canonicalize()
        .map_err(|error| failure(error.to_string()))?;
    let metadata = absolute
        .metadata()
        .map_err(|error| failure(error.to_string()))?;
    /// The execute permission of owner, group and others (`inode(7)`).
    const ANY_EXECUTE: u32 = 0o111;
    if !metadata.is_file() {
        return Err(failure("it is not a file".to_owned()));
    }
    if metadata.permissions().mode() & ANY_EXECUTE == 0 {
        return Err(failure("it is not executable (chmod +x)".to_owned()));
    }
    Ok(absolute)
}
