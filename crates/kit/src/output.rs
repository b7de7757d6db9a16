//! How a demonstration prints.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};

/// Prints a line, as `println!` does, to a reader who may leave early.
///
/// In `cargo run -p ch02-select | head -1` the pipe is closed after the first line. `println!` panics
/// there; this ends the program without a word, as other Unix tools end.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::say_line(format_args!($($words)*)) };
}

/// What [`say!`] does with its line.
pub fn say_line(line: Arguments<'_>) {
    let mut out = stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "cannot write to standard output: {error}"
            );
            std::process::exit(1);
        }
    }
}

/// Prints a line to standard error. Unlike `eprintln!` it does not panic where that is closed.
pub fn complain(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}
