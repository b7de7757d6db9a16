//! A trace as data: the system calls a program made, in the notation of `strace`.
//!
//! The same trace is what a demonstration records, what a test expects and what a failed check
//! shows. This crate holds the one definition of it, and the one printer.
#![forbid(unsafe_code)]

mod model;
mod print;

pub use model::{Call, Event, Field, Line, Outcome, Value};
