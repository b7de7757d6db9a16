//! The third cure: the call that does not block. Here: a name is looked up.
//!
//! `getaddrinfo(3)` is the usual way from a name to an address, and it *blocks*. Inside it opens a socket, sends a
//! question to a name server, and waits, with `poll(2)`, for the answer: five seconds by default, and then once
//! more. On the loop that is five seconds in which nobody is served, because of a machine that is not even ours.
//! It has no non-blocking form. (glibc's `getaddrinfo_a` uses a thread, libuv sends it to its pool: the first
//! cure.)
//!
//! But what it waits for is a datagram, and a loop can wait for that. [`message`] writes the question and reads
//! the answer, as bytes; [`lookup`] is a handler with a UDP socket and a timer.
//!
//! What is *not* here: `/etc/hosts`, `/etc/resolv.conf`, search domains, IPv6, TCP for long answers, a cache.
//! Programs use a library that has them (c-ares, hickory). It works like this one.

pub mod lookup;
pub mod message;

pub use lookup::{Failure, Lookup, NameServer, lookup};
