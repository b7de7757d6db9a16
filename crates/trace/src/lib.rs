//! A trace as data: the system calls a program made, in the notation of `strace`.
//!
//! The same trace is what a demonstration records, what a test expects and what a failed check
//! shows. This crate holds the one definition of it, the one printer, and the one parser.
//!
//! | step | with |
//! |---|---|
//! | text to lines, of a whole recording or of one that still grows | [`parse()`], [`Parser`] |
//! | lines to text, as `strace` writes it | `Display` of [`Line`], [`Call`], [`Value`] |
//! | `conn1` instead of 5 | [`Roles`] |
//! | is this what was expected? | [`Expected`] |
//! | do two recordings of one run agree? | [`Comparison`] |
//! | where not, and why | [`Divergence`] |
//!
//! ```
//! let recorded = "\
//! socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
//! listen(3, 128)                          = 0
//! accept4(3, NULL, NULL, SOCK_NONBLOCK)   = 4
//! read(4, \"hello\", 4096)                 = 5
//! read(4, \"\", 4096)                      = 0
//! close(4)                                = 0
//! ";
//! let lines = trace::parse(recorded)?;
//! let expected: trace::Expected = "
//!     only: conn1
//!       accept|accept4(listener, ...) = conn1
//!     * read|recvfrom(conn1, ...) = >0
//!       read|recvfrom(conn1, ...) = 0
//!       shutdown(conn1, SHUT_WR) = 0
//! ".parse()?;
//!
//! let divergence = expected.check(&lines).unwrap_err();
//! assert_eq!(divergence.to_string(), "\
//! The trace is not as expected at line 6 (looking only at conn1).
//!
//!   before
//!         3  accept4(listener, NULL, NULL, SOCK_NONBLOCK) = conn1
//!         4  read(conn1, \"hello\", 4096)              = 5
//!         5  read(conn1, \"\", 4096)                   = 0
//!   here
//!   >     6  close(conn1)                            = 0
//!   expected
//!         6  shutdown(conn1, SHUT_WR) = 0
//!            does not fit: this is another call, close
//! ");
//! # Ok::<(), trace::ParseError>(())
//! ```
#![forbid(unsafe_code)]

// Here, because all that needs Linux is built on this crate: so this is the only error.
#[cfg(not(target_os = "linux"))]
compile_error!(
    "Readiness teaches Linux system calls (epoll, eventfd, /proc) and builds only there: on macOS or Windows \
     open this folder in its dev container (.devcontainer/), or use WSL 2 or a Linux virtual machine."
);

mod compare;
mod divergence;
mod expected;
mod matching;
mod model;
mod parse;
mod print;
mod roles;

pub use compare::Comparison;
pub use divergence::{Divergence, Numbered, Wanted};
pub use expected::Expected;
pub use model::{Call, Event, Field, Line, Outcome, Value};
pub use parse::{ParseError, Parser, parse};
pub use roles::Roles;
