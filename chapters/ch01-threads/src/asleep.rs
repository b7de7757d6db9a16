//! Where a thread sleeps, as the kernel tells it in `/proc/self/task` (`proc_pid_syscall(5)`).
//!
//! The same by hand: `grep . /proc/PID/task/*/{comm,syscall}`.
//!
//! The look takes descriptors for a moment. A thread that goes into `accept4` at that moment gets another
//! number for its next connection than it would have had: the kernel reserves the number first, and then
//! the thread sleeps. So the demonstration looks when no connection is to come any more.

use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a thread may take to fall asleep. It takes microseconds, unless the machine is very busy.
const DEADLINE: Duration = Duration::from_secs(20);

/// The calls in which this chapter's threads sleep. Their numbers differ between processors.
const CALLS: [(libc::c_long, &str); 2] = [(libc::SYS_read, "read"), (libc::SYS_accept4, "accept4")];

/// Waits until the thread of this name sleeps in `read` or `accept4`, and says in which, and on which
/// descriptor: `asleep in read(7)`.
///
/// Says `cannot tell` where the kernel does not: some sandboxes have no such file.
pub(crate) fn where_asleep(name: &str) -> String {
    let begin = Instant::now();
    loop {
        match call_of(name) {
            Ok(Some(call)) => return format!("asleep in {call}"),
            Ok(None) if begin.elapsed() < DEADLINE => std::thread::yield_now(),
            Ok(None) => return format!("cannot tell: not asleep within {} s", DEADLINE.as_secs()),
            Err(error) => return format!("cannot tell: /proc/self/task/TID/syscall: {error}"),
        }
    }
}

/// `None`: there is no such thread yet, or it sleeps nowhere, or somewhere else (in a lock).
fn call_of(name: &str) -> std::io::Result<Option<String>> {
    let Some(thread) = thread_named(name)? else {
        return Ok(None);
    };
    // The call's number and its six arguments: `0 0x7 0x7f31a5f3e9c0 0x1000 ...`. Or `running`.
    let text = read_to_string(thread.join("syscall"))?;
    let mut words = text.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse().ok());
    let first = words
        .next()
        .and_then(|word| i32::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    Ok(
        match (CALLS.iter().find(|(call, _)| Some(*call) == number), first) {
            (Some((_, name)), Some(fd)) => Some(format!("{name}({fd})")),
            _ => None,
        },
    )
}

/// A thread gives itself its name in its first moments.
fn thread_named(name: &str) -> std::io::Result<Option<PathBuf>> {
    for entry in read_dir("/proc/self/task")? {
        let thread = entry?.path();
        // A thread that ends between the listing and this look has no name any more.
        if read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            return Ok(Some(thread));
        }
    }
    Ok(None)
}
