//! Finding and ending everything that a program has started, wherever it went.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use super::{MARK, watchdog};
use crate::wait::{DEADLINE, LOOK_AGAIN};

/// A value of [`MARK`] that no other run has. All marks of one grader begin alike, and once there is one, the
/// [`watchdog`] watches.
pub(crate) fn new_mark() -> String {
    static GRADER: OnceLock<String> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let grader = GRADER.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        format!(
            "{}-{}-",
            std::process::id(),
            now.unwrap_or_default().as_nanos()
        )
    });
    watchdog::start(&format!("{MARK}={grader}"));
    format!("{grader}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Every living process that carries this mark in its environment.
///
/// A daemon leaves its process group and its session and gets another parent, but it keeps the
/// environment that it was started with.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    each_marked(mark, |pid| found.push(pid));
    found
}

/// Ends every process that carries this mark, and waits until none is left.
pub(crate) fn end_marked(mark: &str) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut found = false;
        each_marked(mark, |pid| {
            found = true;
            // At once: the longer it lives, the more others it can start.
            let _ = sys::kill(pid, sys::SIGKILL);
        });
        if !found || Instant::now() > deadline {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Calls `visit` for each process that carries this mark.
///
/// A process can start another and end between the listing and the look at it. So the list is read again,
/// and what is new is looked at, until nothing is new: then every process that was alive at the last
/// listing has been looked at.
fn each_marked(mark: &str, mut visit: impl FnMut(i32)) {
    let wanted = format!("{MARK}={mark}");
    let mut known = HashSet::new();
    loop {
        let mut new: Vec<_> = processes()
            .into_iter()
            .filter(|pid| known.insert(*pid))
            .collect();
        if new.is_empty() {
            return;
        }
        // The youngest first: it is the one that is most likely to change.
        new.sort_unstable_by(|a, b| b.cmp(a));
        for pid in new {
            // Unreadable: it has gone meanwhile, or it belongs to another user.
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environ.split(|byte| *byte == 0);
            if variables.any(|variable| variable == wanted.as_bytes()) {
                visit(pid);
            }
        }
    }
}

/// The ids of all processes.
fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}
