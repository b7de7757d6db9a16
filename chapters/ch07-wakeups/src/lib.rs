//! What wakes a loop besides sockets: another thread, a clock, a signal.
//!
//! Each is a descriptor that becomes readable, and so one more handler in the reactor of chapter 6.
//!
//! - [`waker`] wakes the loop from any thread, by an eventfd; [`mod@mailbox`] adds a queue of messages.
//! - [`alarm`] ends the loop's sleep at its nearest deadline, by one timerfd for all of them.
//! - [`wheel`] keeps deadlines in a timer wheel, which can take the place of the reactor's heap.
//! - [`deadline`] is what a deadline is, and what that of a part of the work is.
//! - Signals come by a signalfd: [`ch06_reactor::signals`] has them already.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod chance;
pub mod deadline;
pub mod mailbox;
pub mod waker;
pub mod wheel;

pub use alarm::reactor_with_alarm;
pub use chance::Chance;
pub use deadline::Deadline;
pub use mailbox::{Address, Mailbox, mailbox};
pub use waker::{Waker, Wakeups};
pub use wheel::TimerWheel;
