//! A trace as data: the system calls a program made, in the notation of `strace`.
//!
//! The same trace is what a demonstration records, what a test expects and what a failed check
//! shows. This crate holds the one definition of it, the one printer, and the one parser.
#![forbid(unsafe_code)]

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
