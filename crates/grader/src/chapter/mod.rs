//! Tools for the chapters' own tests: what a demonstration prints, and what it really did.
//!
//! They panic with a readable message, as `assert_eq!` does: they are for tests only.

mod compare;
mod demonstration;
mod diff;
mod observed;

pub use demonstration::{Demonstration, Finished, NotRun, Stdout, assert_demonstration};
pub use diff::{assert_same_output, same_output};
pub use observed::{assert_recorder_equals_strace, recorded, straced};

/// With this variable set to 1, as CI sets it, a test that could be left out must run: a missing tool is a
/// failure.
pub const EXACT: &str = "READINESS_EXACT";

/// [`EXACT`] is set.
pub fn is_exact() -> bool {
    std::env::var_os(EXACT).is_some_and(|value| value == "1")
}

/// Says on standard error why something is left out. Panics if nothing may be.
#[track_caller]
fn leave_out(what: &str, why: &str) {
    assert!(!is_exact(), "{what}: {why}, and {EXACT}=1 demands it");
    eprintln!("left out: {what}: {why}");
}
