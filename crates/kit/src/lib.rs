//! What every program of the workshop needs before its loop starts, and nothing of the loop itself.
//!
//! - the command line: a demonstration, or a server with `--listen` ([`chapter`], [`chapter_with`], [`server`]);
//! - a clean start: descriptors that the parent left open are closed, the recorder is running;
//! - the listener, and the line that says where it listens ([`listen`]);
//! - what an error of `accept4` is about ([`accept_failure`]);
//! - [`say!`], which prints a line of a demonstration.
#![forbid(unsafe_code)]

mod accept;
mod options;
mod output;
mod start;

pub use accept::{AcceptFailure, accept_failure};
pub use options::{
    Chapter, ReactorOptions, ServeOptions, WorkerOptions, chapter, chapter_with, server,
};
pub use output::{complain, say_line};
pub use start::{CLOSED_FROM, close_inherited, listen, quiet_listener};
