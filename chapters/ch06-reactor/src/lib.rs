//! tbd
#![forbid(unsafe_code)]

mod acceptor;
mod buffer;
pub mod clock;
mod connection;
pub mod demultiplexer;
pub mod exchange;
pub mod histogram;
pub mod journal;
pub mod metrics;
pub mod reactor;
pub mod routes;
pub mod signals;
pub mod slab;
pub mod timers;

pub use reactor::{Handler, Limits, Reactor, Ticket, Turn};
pub use signals::Signals;
pub use slab::{Slab, Token};
