//! What ends the graded programs when the grader itself is ended.
//!
//! Ctrl-C, a kill, or the time-out of a test runner give the grader no chance to clean up, and the programs sit in
//! process groups of their own, where no Ctrl-C reaches them. So a shell waits beside the grader, reading from a
//! pipe that only the grader holds. However the grader ends, the kernel closes the pipe; then the shell kills
//! everything that carries this grader's mark.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// `$0` is the beginning of the mark, as it stands in the environment of each program. A few rounds, for a
/// program that is just starting another.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r line
for round in 1 2 3 4 5; do
    found=$(grep -lF "$0" /proc/[0-9]*/environ 2>/dev/null)
    test -n "$found" || exit 0
    for file in $found; do
        pid=${file#/proc/}
        kill -9 "${pid%/environ}" 2>/dev/null
    done
done
"#;

/// Starts the watchdog of this process, if it does not run yet. Without `/bin/sh` there is none; nor would
/// there be a program.
pub(super) fn start(mark: &str) {
    static WATCHDOG: OnceLock<Option<Child>> = OnceLock::new();
    // Kept for ever, and with it the writing end of the pipe.
    WATCHDOG.get_or_init(|| {
        Command::new("/bin/sh")
            .args(["-c", SCRIPT, mark])
            .env_remove(super::MARK)
            .current_dir("/")
            .stdin(Stdio::piped())
            // It must not hold open a pipe that somebody reads the grader's output from.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()
    });
}
