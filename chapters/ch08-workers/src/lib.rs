//! Never block the loop: three cures, on the reactor of chapter 6.
//!
//! | the cure | here | for |
//! |---|---|---|
//! | another thread does it | [`pool`], [`workers`] | what cannot be cut and cannot be asked for: CPU work, files, a library that blocks |
//! | the loop does it, a piece a turn | [`pieces`] | work that can be cut, and a loop with time to spare |
//! | the call that does not block | [`dns`] | what only waits: the network |
//!
//! [`simulation`] shows the illness and the first two cures on a virtual clock.
#![forbid(unsafe_code)]

mod burn;
pub mod dns;
pub mod pieces;
pub mod pool;
pub mod simulation;
pub mod workers;

pub use pieces::cut_into_pieces;
pub use pool::Pool;
pub use workers::{Counts, Size, WhenFull, Workers};
