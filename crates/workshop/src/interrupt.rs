//! Ctrl-C, and the other ways in which a user ends a program.
//!
//! A thread waits for the signals. It runs the *cleanups* that are registered at that moment (restore the terminal, end
//! Cargo), and then the process dies of the signal, as its shell expects. The graded programs need no cleanup here: the
//! grader's watchdog ends them when this process has gone, however it went.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// What to do on a signal. `Died::No` keeps the process alive: somebody else will end it.
type Cleanup = Box<dyn Fn(i32) -> Died + Send>;

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

fn cleanups() -> MutexGuard<'static, Vec<(u64, Cleanup)>> {
    CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to listen to signals.
pub fn listen() -> Result<()> {
    let mut signals = Signals::new(SIGNALS).context("sigaction")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let mut died = Died::Yes;
            // Held until the end: nobody registers anything that would not be cleaned up.
            let cleanups = cleanups();
            for (_, cleanup) in cleanups.iter().rev() {
                if cleanup(signal) == Died::No {
                    died = Died::No;
                }
            }
            if died == Died::Yes {
                die(signal);
            }
        }
    });
    Ok(())
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

/// Registers a cleanup. It runs on a thread of its own, at most once for each signal.
pub fn on_signal(cleanup: impl Fn(i32) -> Died + Send + 'static) -> Guard {
    static NEXT: Mutex<u64> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    *next += 1;
    cleanups().push((*next, Box::new(cleanup)));
    Guard { number: *next }
}

impl Drop for Guard {
    fn drop(&mut self) {
        cleanups().retain(|(number, _)| *number != self.number);
    }
}
