//! The one place that every system call passes: [`syscall!`], which records and injects.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::errno::{Errno, Result};
use crate::inject::{self, Injection};
use crate::record;

/// Does one system call.
///
/// `syscall!("name", call, |outcome| arguments)`: `call` is the C function's call, whose -1 means
/// "look at errno". The arguments are for the recorder only, and are not even built when nobody
/// records. They are looked at after the call, since the kernel fills buffers in.
///
/// `syscall!("read", at most len, call, ...)` is for the calls that move bytes: an injected short
/// count makes `len` smaller before the call is made.
macro_rules! syscall {
    ($name:literal, $call:expr, |$outcome:pat_param| $arguments:expr) => {{
        if !$crate::call::is_observed() {
            $crate::call::check($call)
        } else {
            let fault = $crate::inject::fault($name);
            let outcome = match fault {
                Some(fault) => fault,
                None => $crate::call::check($call),
            };
            syscall!(record $name, outcome, fault.is_some(), |$outcome| $arguments)
        }
    }};
    ($name:literal, at most $len:ident, $call:expr, |$outcome:pat_param| $arguments:expr) => {{
        if !$crate::call::is_observed() {
            $crate::call::check($call)
        } else {
            let asked = $len;
            let (error, $len, pause) = $crate::inject::limit($name, asked);
            let outcome = match error {
                Some(errno) => Err(errno),
                None => $crate::call::check($call),
            };
            let outcome = syscall!(record $name, outcome, error.is_some() || $len < asked, |$outcome| $arguments);
            pause.take();
            outcome
        }
    }};
    (record $name:literal, $result:ident, $injected:expr, |$outcome:pat_param| $arguments:expr) => {{
        if $crate::record::is_on() {
            let $outcome = $result;
            $crate::record::call($name, $arguments.into(), $result, $injected);
        }
        $result
    }};
}

/// Neither recorder nor injection is on: the state of nearly every run.
const OFF: u8 = 0;
/// At least one of them is on.
const ON: u8 = 1;
/// The environment has not been read yet.
const UNREAD: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNREAD);

/// What the recorder and the injection cost when they are off: this one load.
///
/// Relaxed is enough: the state changes once, before the program's first call, and a thread that
/// read it late would only read the environment again.
#[inline]
pub(crate) fn is_observed() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => first_call(),
    }
}

/// A program that did not call [`start`] reads the environment at its first system call.
#[cold]
fn first_call() -> bool {
    if let Err(error) = start() {
        // There is no caller to hand it to: the program has asked for a system call, not for this.
        record::warn(&error.to_string());
        std::process::exit(2);
    }
    STATE.load(Ordering::Relaxed) == ON
}

/// Turns a C return value into a result.
pub(crate) fn check(returned: impl TryInto<isize>) -> Result<usize> {
    match returned.try_into() {
        Ok(value) if value >= 0 => Ok(value as usize),
        _ => Err(Errno::last()),
    }
}

/// Reads `READINESS_TRACE` and `READINESS_INJECT`, once, and turns on what they ask for.
///
/// `READINESS_TRACE=FILE` creates or empties FILE and writes a line for each call, `-` writes to
/// standard error. An empty value is the same as none. The recorder keeps its own descriptor above
/// all that the program can get, so that it changes no number and takes none away.
///
/// # Errors
///
/// FILE cannot be opened, or `READINESS_INJECT` cannot be understood. The message names the variable
/// and what to do.
pub fn start() -> std::result::Result<(), StartError> {
    // Off while the recorder is being set up: the calls for that are not the program's.
    if STATE
        .compare_exchange(UNREAD, OFF, Ordering::Relaxed, Ordering::Relaxed)
        .is_err()
    {
        return Ok(());
    }
    let mut state = OFF;
    if let Some(rules) = std::env::var_os("READINESS_INJECT").filter(|value| !value.is_empty()) {
        let rules = rules.into_string().map_err(|_| StartError::NotText)?;
        inject::install(Injection::parse(&rules).map_err(StartError::Injection)?);
        state = ON;
    }
    if let Some(file) = std::env::var_os("READINESS_TRACE").filter(|value| !value.is_empty()) {
        record::open(&file)
            .map_err(|error| StartError::Recorder(file.to_string_lossy().into(), error))?;
        state = ON;
    }
    STATE.store(state, Ordering::Relaxed);
    Ok(())
}

/// The recorder's own descriptor, while it records. Who closes "everything from 3 up" spares it.
pub fn recorder_fd() -> Option<RawFd> {
    record::fd()
}

/// Why the recorder or the injection could not start.
#[derive(Debug)]
pub enum StartError {
    /// The file of `READINESS_TRACE` cannot be written.
    Recorder(String, std::io::Error),
    /// `READINESS_INJECT` has a mistake.
    Injection(crate::InjectionError),
    /// `READINESS_INJECT` is not text.
    NotText,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Recorder(file, error) => {
                write!(
                    f,
                    "READINESS_TRACE: cannot write {file}: {error}; name a file that you may write, or `-`"
                )
            }
            StartError::Injection(error) => write!(f, "READINESS_INJECT: {error}"),
            StartError::NotText => write!(f, "READINESS_INJECT: not valid UTF-8 text"),
        }
    }
}

impl std::error::Error for StartError {}
