//! Ctrl-C, Ctrl-Z, and the other ways in which a user ends or stops a program.
//!
//! A thread waits for the signals. On one that ends the process it runs the *cleanups* that are registered at that moment
//! (restore the terminal, end Cargo), and then the process dies of the signal, as its shell expects. The graded programs
//! need no cleanup here: the grader's watchdog ends them when this process has gone, however it went.
//!
//! Ctrl-Z stops the process, and `fg` continues it. The cleanups run then too: a shell wants the terminal as it was.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Pid, getpgid, getpgrp, getppid, getsid};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// What happens to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is to end, by this signal.
    End(i32),
    /// It is to stop: Ctrl-Z.
    Stop,
    /// It goes on after a stop: `fg`.
    Continue,
}

/// What to do then. `Died::No` keeps the process alive: somebody else will end it.
type Cleanup = Box<dyn Fn(Event) -> Died + Send>;

/// Whether the process dies of a signal after the cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Died {
    /// As it would without us.
    Yes,
    /// The one who registered the cleanup ends in an orderly way.
    No,
}

/// The signals by which a user ends a program: Ctrl-C, `kill`, a closed window, Ctrl-\\.
pub const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

static CLEANUPS: Mutex<Vec<(u64, Cleanup)>> = Mutex::new(Vec::new());

/// How often the process was about to stop.
static STOPPED: AtomicUsize = AtomicUsize::new(0);

/// How often the process went on after a stop.
static CONTINUED: AtomicUsize = AtomicUsize::new(0);

fn cleanups() -> MutexGuard<'static, Vec<(u64, Cleanup)>> {
    CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to listen to signals.
pub fn listen() -> Result<()> {
    let signals = SIGNALS.into_iter().chain([SIGTSTP, SIGCONT]);
    let mut signals = Signals::new(signals).context("sigaction")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGTSTP => stop(),
                SIGCONT => {
                    tell_all(Event::Continue, &cleanups());
                    CONTINUED.fetch_add(1, Ordering::Relaxed);
                }
                _ => end(signal),
            }
        }
    });
    Ok(())
}

fn end(signal: i32) {
    // Held until the end: nobody registers anything that would not be cleaned up.
    let cleanups = cleanups();
    if tell_all(Event::End(signal), &cleanups) == Died::Yes {
        die(signal);
    }
}

/// The newest one first, as they are dropped.
fn tell_all(event: Event, cleanups: &[(u64, Cleanup)]) -> Died {
    let mut died = Died::Yes;
    for (_, cleanup) in cleanups.iter().rev() {
        if cleanup(event) == Died::No {
            died = Died::No;
        }
    }
    died
}

fn stop() {
    if !can_be_continued() {
        return;
    }
    let cleanups = cleanups();
    tell_all(Event::Stop, &cleanups);
    // Before it: then every thread knows as soon as it goes on.
    STOPPED.fetch_add(1, Ordering::Relaxed);
    // Comes back when the process goes on. That is a signal too, and the next one that is read.
    let _ = emulate_default_handler(SIGTSTP);
}

/// There is a shell that can continue a stopped process: somebody of the same session, outside of our process group, is
/// the parent of one inside. The kernel has the same rule: Ctrl-Z does not stop an orphaned process group, setpgid(2).
fn can_be_continued() -> bool {
    let (group, Ok(session)) = (getpgrp(), getsid(None)) else {
        return false;
    };
    let mut parent = getppid();
    while let Some(pid) = parent {
        match getpgid(Some(pid)) {
            Ok(other) if other == group => parent = parent_of(pid),
            Ok(_) => return getsid(Some(pid)) == Ok(session),
            Err(_) => return false,
        }
    }
    false
}

/// The parent of another process, out of proc_pid_stat(5).
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name is in parentheses, and may have spaces in it. Then come the state and the parent.
    let (_, rest) = stat.rsplit_once(") ")?;
    Pid::from_raw(rest.split(' ').nth(1)?.parse().ok()?)
}

/// How often the process went on after a stop.
pub fn continued() -> usize {
    CONTINUED.load(Ordering::Relaxed)
}

/// A number that is another one after a stop. What was measured meanwhile is worth nothing.
pub fn stops() -> usize {
    // A stop by SIGSTOP cannot be seen before, only its end.
    STOPPED.load(Ordering::Relaxed) + continued()
}

/// Dies of this signal, as a program without any handler.
pub fn die(signal: i32) {
    grader::grading::remove_recordings();
    let _ = emulate_default_handler(signal);
}

/// As long as it lives, its cleanup runs on a signal.
pub struct Guard {
    number: u64,
}

/// Registers a cleanup for the signals that end the process. It runs on a thread of its own, at most once for each signal.
pub fn on_signal(cleanup: impl Fn(i32) -> Died + Send + 'static) -> Guard {
    on_event(
        move |event| match event {
            Event::End(signal) => cleanup(signal),
            Event::Stop | Event::Continue => Died::Yes,
        },
        || (),
    )
}

/// Registers a cleanup for all that can happen, and does `begin` before any of it can.
pub fn on_event(cleanup: impl Fn(Event) -> Died + Send + 'static, begin: impl FnOnce()) -> Guard {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) as u64;
    let mut cleanups = cleanups();
    cleanups.push((number, Box::new(cleanup)));
    begin();
    Guard { number }
}

impl Drop for Guard {
    fn drop(&mut self) {
        cleanups().retain(|(number, _)| *number != self.number);
    }
}
