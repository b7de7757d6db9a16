//! Finding and ending everything that a program has started, wherever it went.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use super::MARK;
use crate::wait::{DEADLINE, LOOK_AGAIN};

/// A value of [`MARK`] that no other run has.
pub(super) fn new_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{number}", std::process::id(), now.as_nanos())
}

/// Every living process that carries this mark in its environment.
///
/// A daemon leaves its process group and its session and gets another parent, but it keeps the
/// environment that it was started with.
pub(super) fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            // Unreadable: it has gone meanwhile, or it belongs to another user.
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                environ
                    .split(|byte| *byte == 0)
                    .any(|variable| variable == wanted.as_bytes())
            })
        })
        .collect()
}

/// Ends every process that carries this mark, and waits until none is left.
///
/// First all are stopped and only then killed, so that none can start another while the others die.
pub(super) fn end_marked(mark: &str) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut found = marked(mark);
        if found.is_empty() || Instant::now() > deadline {
            return;
        }
        loop {
            for pid in &found {
                // It may have ended meanwhile; that is what is wanted.
                let _ = sys::kill(*pid, sys::SIGSTOP);
            }
            let now = marked(mark);
            if now.iter().all(|pid| found.contains(pid)) || Instant::now() > deadline {
                found = now;
                break;
            }
            found = now;
        }
        for pid in &found {
            let _ = sys::kill(*pid, sys::SIGKILL);
        }
        thread::sleep(LOOK_AGAIN);
    }
}
