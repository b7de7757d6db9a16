//! A battery for servers: clients that are slow, rude or many, while a well-behaved one keeps being served.
//!
//! Each part starts the program anew, and returns a sentence: what was seen, or what went wrong. It judges by
//! what clients and `/proc` see, so it holds for an event loop and for a thread a connection alike.

mod clients;
mod limits;
mod trial;

pub use clients::{
    half_closing_client, one_byte_and_stop, resetting_client, silent_clients_cost_nothing,
};
pub use limits::{client_that_never_reads, descriptor_limit, many_connections};

use std::panic::resume_unwind;
use std::thread;

use crate::child::Program;

/// What the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Every byte comes back (RFC 862).
    Echo,
    /// HTTP/1.1 with the workshop's routes; of them `GET /`, `GET /bytes/N` and `POST /echo` are used.
    Http,
}

/// What was seen, or what went wrong; a sentence without its full stop.
pub type Seen = Result<String, String>;

/// A part of the battery.
pub type Part = fn(&Program, Protocol) -> Seen;

/// All parts and their names, from easy to hard.
pub const BATTERY: &[(&str, Part)] = &[
    ("a client that sends a byte and stops", one_byte_and_stop),
    ("a client that half-closes", half_closing_client),
    ("clients that reset", resetting_client),
    ("silent clients cost nothing", silent_clients_cost_nothing),
    ("a client that never reads", client_that_never_reads),
    ("many connections, opened and closed", many_connections),
    ("the descriptor limit", descriptor_limit),
];

/// Runs all parts, and panics with all that went wrong. Each part has a server of its own and mostly waits, so they
/// run side by side.
#[track_caller]
pub fn assert_survives(program: &Program, protocol: Protocol) {
    let outcomes: Vec<(&str, Seen)> = thread::scope(|scope| {
        let parts = BATTERY.iter().map(|(name, part)| {
            let run = scope.spawn(move || part(program, protocol));
            (*name, run)
        });
        let parts: Vec<_> = parts.collect();
        parts
            .into_iter()
            .map(|(name, run)| {
                (
                    name,
                    run.join().unwrap_or_else(|panic| resume_unwind(panic)),
                )
            })
            .collect()
    });
    let failures: Vec<_> = outcomes
        .into_iter()
        .filter_map(|(name, seen)| match seen {
            Ok(seen) => {
                println!("{name}: {seen}");
                None
            }
            Err(why) => Some(format!("{name}: {why}")),
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
