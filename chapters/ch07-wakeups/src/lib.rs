//! What wakes a loop besides sockets: another thread, a clock, a signal.
#![forbid(unsafe_code)]

pub mod waker;

pub use waker::{Waker, Wakeups};
