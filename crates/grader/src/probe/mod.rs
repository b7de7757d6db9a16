//! What `/proc` tells about a running server.
//!
//! Each function reads the documented text files of `proc(5)` and returns either what they say or
//! [`Unknown`]: a check that cannot look must say so, and must never pass for that reason. The process can
//! change or end between two reads; a single answer is a moment, not a fact that lasts.

mod answer;
mod clients;
mod diag;
mod epoll;
mod process;
mod question;
mod syscall;
mod tcp;
mod thread;

pub use answer::{Answer, answer};
pub(crate) use clients::announce;
pub use epoll::{Epoll, Interest, epolls, show_events};
pub use process::{
    Cpu, Memory, cpu, descriptors, is_busy, memory, raise_descriptor_limit, sockets, thread_count,
};
pub use question::{Question, question};
pub use syscall::Syscall;
pub use tcp::{
    State, TcpRow, both_ends, connections, is_delivered, listener, listening_ports, peers_of,
};
pub use thread::{Thread, threads};

use std::{fmt, fs, io};

/// An answer from `/proc`, or why there is none.
pub type Told<T> = Result<T, Unknown>;

/// `/proc` does not say. Shown as `cannot tell: REASON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot tell: {}", self.0)
    }
}

impl std::error::Error for Unknown {}

/// The text of a file below `/proc`.
fn read(path: &str) -> Told<String> {
    fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &io::Error) -> Unknown {
    Unknown(format!("read {path}: {error}"))
}

/// The kernel writes another text than `proc(5)` says.
fn unexpected(path: &str, line: &str) -> Unknown {
    Unknown(format!("{path} has an unexpected line: {line:?}"))
}
