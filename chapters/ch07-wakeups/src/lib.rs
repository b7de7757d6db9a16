//! What wakes a loop besides sockets: another thread, a clock, a signal.
#![forbid(unsafe_code)]

pub mod chance;
pub mod deadline;
pub mod waker;
pub mod wheel;

pub use chance::Chance;
pub use deadline::Deadline;
pub use waker::{Waker, Wakeups};
pub use wheel::TimerWheel;
