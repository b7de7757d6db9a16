//! What a program really did: as its own recorder says, and as `strace` says.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use trace::Line;

use super::compare::compare;
use super::demonstration::{Demonstration, Finished, TemporaryFile, exists};
use super::leave_out;

/// The calls that the recorder knows, with the names that x86-64 gives them. A question mark: `strace` must
/// not complain where another machine has no such call.
const RECORDED: &str = "accept4,bind,close,close_range,connect,epoll_create1,epoll_ctl,?epoll_wait,eventfd2,\
    fcntl,getsockname,getsockopt,ioctl,kill,listen,?poll,prlimit64,read,rt_sigprocmask,?select,setsockopt,\
    shutdown,signalfd4,socket,timerfd_create,timerfd_settime,write,writev";

/// Calls that tell which descriptors and threads the standard library made for itself.
const SURROUNDINGS: &str =
    "?open,openat,pipe2,socketpair,dup,dup3,memfd_create,clone,clone3,?vfork,execve";

/// Runs a program and returns what its recorder wrote, or panics with the reason.
#[track_caller]
pub fn recorded(
    program: impl AsRef<Path>,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Vec<Line> {
    let file = TemporaryFile::new("trace");
    let demonstration = Demonstration::new(program.as_ref())
        .args(args)
        .env("READINESS_TRACE", &file.path);
    finished(&demonstration);
    lines(&file, "the recorder")
}

/// Runs a program under `strace -f` and returns what that saw of the calls that the recorder knows. `None`, and
/// a line on standard error, where `strace` is missing or forbidden; with `READINESS_EXACT=1` it must not be.
#[track_caller]
pub fn straced(
    program: impl AsRef<Path>,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Option<Vec<Line>> {
    if let Err(why) = strace_works() {
        leave_out("a comparison with strace", why);
        return None;
    }
    let file = TemporaryFile::new("strace");
    finished(&under_strace(program.as_ref(), args, RECORDED, &file));
    Some(lines(&file, "strace"))
}

/// Runs a program once, under `strace` and with its recorder on, and asserts that both saw the same calls: same
/// names, arguments, results and order in each thread, down to the addresses.
///
/// `strace` sees more than the recorder can. What is left out of the comparison: other processes; everything
/// before the recorder's first line; descriptors 0 to 2 and those that the standard library opened for itself;
/// a `close` by dropping an `OwnedFd`; signal masks that the C library sets around a new thread; calls that
/// never returned. Left out altogether, with a line on standard error, where `strace` is missing.
#[track_caller]
pub fn assert_recorder_equals_strace(
    program: impl AsRef<Path>,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) {
    if let Err(why) = strace_works() {
        return leave_out("a comparison with strace", why);
    }
    let (strace, recorder) = (TemporaryFile::new("strace"), TemporaryFile::new("trace"));
    let calls = format!("{RECORDED},{SURROUNDINGS}");
    let demonstration = under_strace(program.as_ref(), args, &calls, &strace);
    finished(&demonstration.env("READINESS_TRACE", &recorder.path));
    let recorded = lines(&recorder, "the recorder");
    assert!(!recorded.is_empty(), "the recorder wrote nothing");
    if let Err(difference) = compare(&lines(&strace, "strace"), &recorded) {
        panic!("{difference}");
    }
}

/// Why there is no `strace` here, looked up once.
fn strace_works() -> Result<(), &'static str> {
    static ANSWER: OnceLock<Result<(), &str>> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        if !cfg!(target_arch = "x86_64") {
            return Err("this machine has other system calls than x86-64");
        }
        if !exists("strace") {
            return Err("strace is not installed");
        }
        let file = TemporaryFile::new("strace");
        let mut command = std::process::Command::new("strace");
        command.arg("-o").arg(&file.path).arg("true");
        command.stderr(std::process::Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err("strace may not trace here (ptrace is forbidden)"),
        }
    })
}

fn under_strace(
    program: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    calls: &str,
    output: &TemporaryFile,
) -> Demonstration {
    let strace = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("strace"))
        .find(|path| path.is_file())
        .expect("it was just found to work");
    Demonstration::new(strace)
        .args([
            "-f",
            "-e",
            &format!("trace={calls}"),
            "-e",
            "signal=none",
            "-o",
        ])
        .args([output.path.as_os_str(), program.as_os_str()])
        .args(args)
}

/// Runs it and panics unless it ended well.
#[track_caller]
fn finished(demonstration: &Demonstration) -> Finished {
    let finished = demonstration
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        finished.ending,
        crate::Ending::Exited(0),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    finished
}

#[track_caller]
fn lines(file: &TemporaryFile, who: &str) -> Vec<Line> {
    let text = fs::read(&file.path).unwrap_or_else(|error| panic!("{who} wrote no file: {error}"));
    trace::parse(&text).unwrap_or_else(|error| panic!("what {who} wrote: {error}"))
}
