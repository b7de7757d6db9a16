//! The recorder: each call as a line in the notation of `strace -f`.
//!
//! It never takes part in what the program does. Its descriptor lies above the program's limit, it
//! makes its own calls past the recorder, and when its file cannot be written any more (a full disk,
//! a closed pipe) it says so once and stops recording.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trace::{Call, Event, Line, Outcome, Value};

use crate::errno::Result;
use crate::process::{self, Resource};

/// Where the lines go. `None`: not recording, or not any more.
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
static IS_ON: AtomicBool = AtomicBool::new(false);

struct Recorder {
    file: File,
    name: String,
    /// The thread of the first line; lines carry a thread id only once a second thread appears.
    first_thread: Option<u32>,
    several_threads: bool,
}

pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    // A panic in another thread leaves at worst a line unwritten.
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn fd() -> Option<RawFd> {
    recorder()
        .as_ref()
        .map(|recorder| recorder.file.as_raw_fd())
}

/// Opens FILE, or standard error for `-`, on a descriptor out of the program's way.
pub(crate) fn open(name: &OsStr) -> io::Result<()> {
    let file = if name == "-" {
        out_of_the_way(io::stderr().as_raw_fd())?
    } else {
        // Append: several processes may write lines into one file, and none overwrites another's.
        let opened = OpenOptions::new().create(true).append(true).open(name)?;
        // Fails on a pipe or a terminal, which hold nothing that would have to go.
        let _ = opened.set_len(0);
        out_of_the_way(opened.as_raw_fd())?
    };
    *recorder() = Some(Recorder {
        file: File::from(file),
        name: name.to_string_lossy().into_owned(),
        first_thread: None,
        several_threads: false,
    });
    IS_ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// The recorder's descriptor is never higher than this. The kernel keeps a table of pointers up to the
/// highest descriptor: 512 KiB here, but 8 GB at the limit of a billion that some containers set.
const HIGHEST: libc::rlim_t = 65_536;

/// Duplicates `fd` to the first number at or above the soft descriptor limit, which the program can
/// never be given. Where the hard limit leaves no such number, to the last one below the limit.
fn out_of_the_way(fd: RawFd) -> io::Result<OwnedFd> {
    let soft = process::getrlimit(Resource::NoFile)?;
    let has_room_above = soft.rlim_cur < soft.rlim_max && soft.rlim_cur < HIGHEST;
    if !has_room_above {
        return duplicate_at_least(fd, soft.rlim_cur.min(HIGHEST).saturating_sub(1));
    }
    // A descriptor above the limit stays open and usable: the limit binds only new ones.
    let raised = libc::rlimit {
        rlim_cur: soft.rlim_max,
        ..soft
    };
    process::setrlimit(Resource::NoFile, raised)?;
    let duplicate = duplicate_at_least(fd, soft.rlim_cur);
    process::setrlimit(Resource::NoFile, soft)?;
    duplicate
}

fn duplicate_at_least(fd: RawFd, lowest: libc::rlim_t) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes two numbers and touches no memory.
    let duplicate = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest as libc::c_int) };
    if duplicate < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned it: it is open, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

/// Writes one call's line.
pub(crate) fn call(name: &str, args: Vec<Value>, outcome: Result<usize>, injected: bool) {
    let outcome = match outcome {
        Ok(value) => Outcome::Returned {
            value: Value::from(value),
            note: None,
            injected,
        },
        Err(errno) => Outcome::Failed {
            errno: errno.name().to_owned(),
            message: errno.message(),
            injected,
        },
    };
    call_with(name, args, outcome);
}

/// Writes one call's line, for a call whose result is more than a number.
pub(crate) fn call_with(name: &str, args: Vec<Value>, outcome: Outcome) {
    // SAFETY: gettid(2) has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() } as u32;
    let mut guard = recorder();
    let Some(recorder) = guard.as_mut() else {
        return;
    };
    recorder.several_threads |= *recorder.first_thread.get_or_insert(thread) != thread;
    let line = Line {
        pid: recorder.several_threads.then_some(thread),
        time: None,
        event: Event::Call(Call {
            name: name.to_owned(),
            args,
            outcome,
            elapsed: None,
        }),
    };
    // One write a line, so that lines of several processes do not mix.
    if let Err(error) = recorder.file.write_all(format!("{line}\n").as_bytes()) {
        warn(&format!("recording to {} stopped: {error}", recorder.name));
        IS_ON.store(false, Ordering::Relaxed);
        *guard = None;
    }
}

/// Says something on standard error, and goes on where that is closed.
pub(crate) fn warn(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}
