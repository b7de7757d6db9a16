//! A reactor: an event loop with a place for everything.
//!
//! The pattern has names since the 1990s (Douglas Schmidt's *Reactor*), and they are the names here:
//!
//! | in the literature | here | what it does |
//! |---|---|---|
//! | handle | a descriptor | |
//! | synchronous event demultiplexer | [`demultiplexer`] | waits with `epoll_wait`, returns tokens |
//! | initiation dispatcher | [`reactor`] | finds the handler of each token, and calls it |
//! | event handler | [`handler`] | what is called; anybody can write one |
//! | concrete event handlers | `acceptor`, `connection`, [`signals`] | what this server needs |
//!
//! A connection is three rooms: [`exchange`] is the state machine, which knows HTTP and no descriptor;
//! `connection` moves its bytes; `patience` keeps its deadlines. [`routes`] makes the replies.
//!
//! Beneath them lie two structures and a clock: [`slab`] makes tokens that tell a slot's owner from the one
//! before, [`timers`] keeps deadlines in order, and [`clock`] says how long to wait for the next one.
//! [`metrics`] counts, and [`journal`] tells whoever wants to watch.
//!
//! # A loop of your own
//!
//! A handler is anything with a descriptor. This one counts what other threads add to an `eventfd`:
//!
//! ```
//! use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
//! use ch06_reactor::{Handler, Limits, Reactor, Token};
//!
//! struct Wakeups(OwnedFd);
//!
//! impl Handler for Wakeups {
//!     fn descriptor(&self) -> Option<BorrowedFd<'_>> {
//!         Some(self.0.as_fd())
//!     }
//!
//!     fn ready(&mut self, reactor: &mut Reactor, _me: Token, _events: u32) -> anyhow::Result<()> {
//!         let mut sum = [0; 8];
//!         sys::read(&self.0, &mut sum)?;
//!         assert_eq!(u64::from_ne_bytes(sum), 3);
//!         reactor.stop();
//!         Ok(())
//!     }
//! }
//!
//! let mut reactor = Reactor::new(Limits::default())?;
//! let counter = sys::eventfd(0, sys::EFD_NONBLOCK | sys::EFD_CLOEXEC)?;
//! let from_elsewhere = sys::fcntl_dupfd(&counter, 0)?;
//! reactor.register(Box::new(Wakeups(counter)), sys::EPOLLIN)?;
//!
//! sys::write(&from_elsewhere, &1u64.to_ne_bytes())?;
//! sys::write(&from_elsewhere, &2u64.to_ne_bytes())?;
//! reactor.run()?;
//! # Ok::<(), anyhow::Error>(())
//! ```
#![forbid(unsafe_code)]

mod acceptor;
mod buffer;
pub mod clock;
mod connection;
pub mod demultiplexer;
pub mod exchange;
pub mod handler;
pub mod histogram;
pub mod journal;
pub mod limits;
pub mod metrics;
mod patience;
pub mod reactor;
mod registry;
pub mod routes;
mod shutdown;
pub mod signals;
pub mod slab;
pub mod timers;

pub use clock::Instant;
pub use handler::{Handler, Ticket};
pub use limits::Limits;
pub use reactor::{Reactor, Turn};
pub use registry::View;
pub use routes::Offload;
pub use signals::Signals;
pub use slab::{Slab, Token};
pub use timers::{TimerHeap, TimerId, Timers};
