//! The echo server: a thread for each connection, and nothing that a client does ends more than its own.
//!
//! Blocking makes much of a server easy. There is no output buffer: while a client does not read, the
//! `write` of its thread sleeps, so its thread reads no more, and the client can send no more. What such a
//! server can run out of is descriptors, threads and address space, and that is most of this file.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Result, bail};
use kit::{AcceptFailure, ServeOptions};
use sys::{Errno, SOCK_CLOEXEC};

use crate::room::Room;

/// Bytes of one read, on the thread's own stack. A waiting thread keeps them, however silent its client is,
/// so they are one page and not more.
const READ_SIZE: usize = 4096;

/// Stack of a thread, in KiB. `echo` and the thread's start need less than 16. The rest is for debug builds
/// and for the report of a panic. Small stacks let more threads into a limited address space, and that is
/// all that they save: see `cost`.
pub(crate) const STACK_KIB: u32 = 256;

/// Connections at a time; more wait in the listener's queue. A thread takes four memory mappings (its
/// stack, the stack for the signal of an overflow, and a guard page for each), a process may have 65,530
/// (`vm.max_map_count`), and where they run out it is the new thread that fails, as in `room.rs`.
pub(crate) const MAX_CONNECTIONS: usize = 10_000;

/// How long to wait for the end of a connection when there is no descriptor or memory for another. What is
/// missing may come back in other ways too, and nobody tells this process.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

// (clap would print a doc comment in place of what the part of the program is about.)
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    serve: ServeOptions,

    /// The stack of each thread
    #[arg(long, value_name = "KIB", default_value_t = STACK_KIB, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    stack_kib: u32,
}

pub(crate) fn serve(options: Options) -> Result<()> {
    let mut room = Room::new(options.stack_kib);
    let listener = kit::listen(options.serve.listen, 0)?;
    let connections = Arc::new(Connections::default());
    // ANCHOR: accept
    loop {
        let ended = connections.wait_until_fewer_than(MAX_CONNECTIONS);
        match sys::accept4(&listener, SOCK_CLOEXEC) {
            Ok(connection) => {
                let fd = connection.as_raw_fd();
                if let Err(error) =
                    start_thread(connection, Connections::enter(&connections), &mut room)
                {
                    // It costs this one client its connection. The others, and the next, have theirs.
                    kit::complain(format_args!("no thread for fd {fd}, closed: {error}"));
                }
            }
            Err(errno) => match kit::accept_failure(errno) {
                AcceptFailure::OnePeer => {}
                // The client stays in the listener's queue. Without this wait the loop would spin.
                AcceptFailure::NoRoom => connections.wait_for_an_end_after(ended),
                AcceptFailure::Listener => bail!("accept4: {errno}"),
            },
        }
    }
    // ANCHOR_END: accept
}

/// Starts the thread that serves this connection until it ends. Nobody joins it: when it returns, its stack
/// is given back, and nothing of it is left.
///
/// # Errors
///
/// There is no room for it, or the kernel refuses. The connection is closed then: the closure that owns it
/// is dropped.
// ANCHOR: start-thread
fn start_thread(connection: OwnedFd, entered: Entered, room: &mut Room) -> std::io::Result<()> {
    let limit = room.limit();
    room.check(limit)?;
    let (started, has_started) = sync_channel(1);
    Builder::new()
        .name(format!("fd {}", connection.as_raw_fd()))
        .stack_size(room.stack_bytes())
        .spawn(move || {
            let _ = started.send(());
            // An error is this one client's, whatever it is (ECONNRESET, EPIPE): close, and that is all.
            let _ = echo(&connection, |_| {});
            let _ = sys::close(connection);
            drop(entered);
        })?;
    if limit.is_some() {
        // What the next check measures must include all that this thread needed to start.
        let _ = has_started.recv();
    }
    Ok(())
}
// ANCHOR_END: start-thread

/// Sends every byte back, in order, until the client has no more to say. `echoed` sees each piece after it
/// has been sent.
///
/// The client's half-close ends the reads and not the writes, so nothing is left to be sent when this
/// returns.
///
/// # Errors
///
/// The connection is broken: `ECONNRESET`, `EPIPE`, `ETIMEDOUT`. (Rust ignores `SIGPIPE`, or a client that
/// leaves would end the process.)
// ANCHOR: echo
pub(crate) fn echo(connection: &OwnedFd, mut echoed: impl FnMut(&[u8])) -> sys::Result<()> {
    let mut buffer = [0; READ_SIZE];
    loop {
        let received = match sys::read(connection, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(received) => received,
            // A signal came first. Nothing was read, and nothing was lost.
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno),
        };
        let mut rest = &buffer[..received];
        while !rest.is_empty() {
            match sys::write(connection, rest) {
                // A blocking write takes all, unless a signal comes when it has taken a part.
                Ok(taken) => rest = &rest[taken..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        echoed(&buffer[..received]);
    }
}
// ANCHOR_END: echo

/// The connections that are being served, and how the acceptor learns that one has ended.
#[derive(Default)]
struct Connections {
    counts: Mutex<Counts>,
    one_has_ended: Condvar,
}

#[derive(Default)]
struct Counts {
    open: usize,
    /// Since the start. Whoever saw it before can tell whether one has ended since.
    ended: u64,
}

/// A connection that counts as open until this is dropped, by whatever way its thread ends.
struct Entered(Arc<Connections>);

impl Connections {
    fn enter(connections: &Arc<Connections>) -> Entered {
        connections.counts().open += 1;
        Entered(Arc::clone(connections))
    }

    /// Returns how many have ended by then.
    fn wait_until_fewer_than(&self, limit: usize) -> u64 {
        let counts = self
            .one_has_ended
            .wait_while(self.counts(), |counts| counts.open >= limit);
        counts.unwrap_or_else(PoisonError::into_inner).ended
    }

    /// Returns at once if one has ended since `ended` was read: its end may have made the room already.
    fn wait_for_an_end_after(&self, ended: u64) {
        let _ = self
            .one_has_ended
            .wait_timeout_while(self.counts(), LOOK_AGAIN, |counts| counts.ended == ended);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing panics while it holds the lock, and two numbers cannot be left half changed.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.open -= 1;
        counts.ended += 1;
        drop(counts);
        self.0.one_has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_until_its_thread_ends_however_it_ends() {
        let connections = Arc::new(Connections::default());
        let (first, second) = (
            Connections::enter(&connections),
            Connections::enter(&connections),
        );
        assert_eq!(connections.counts().open, 2);
        drop(first);
        let panics = std::thread::spawn(move || {
            let _entered = second;
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        // It would wait for ever otherwise.
        assert_eq!(connections.wait_until_fewer_than(1), 2);
        // Two have ended since, so there is nothing to wait for; this and the next return.
        connections.wait_for_an_end_after(0);
        connections.wait_for_an_end_after(2);
    }
}
