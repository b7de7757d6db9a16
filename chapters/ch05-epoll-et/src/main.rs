//! Chapter 5: edge-triggered `epoll`, byte by byte.
//!
//! Chapter 4 registered its descriptors *level-triggered*: as long as a socket holds unread bytes, every
//! `epoll_wait` reports it. With `EPOLLET` a registration is *edge-triggered*: `epoll_wait` reports a
//! **change** of readiness, once, and then owes nothing more until the next change. Bytes that were left
//! unread are no change.
//!
//! So the report begins an *episode*, and the program has to end it: read until `EAGAIN`, which is
//! the kernel's word for "you have seen everything; I shall tell you when there is more". A handler that
//! stops earlier waits for a report that never comes.
//!
//! The demonstration sends 3000 bytes to such a handler, and lets it go wrong. Then come 500 more, and the
//! old bytes are found again: new data make a new edge, whatever was left before. That is why this bug
//! hides for as long as the peer goes on talking. At last the same buggy handler meets the same 3000 bytes
//! on a level-triggered registration, which forgives it.
//!
//! `serve.rs` and `connection.rs` are an HTTP server that keeps its side of the bargain in all three
//! places: reads, writes and accepts.
#![forbid(unsafe_code)]

mod connection;
mod serve;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use sys::{
    AF_INET, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EpollEvent, Errno, SOCK_CLOEXEC,
    SOCK_NONBLOCK, SOCK_STREAM,
};

/// Bytes that the client sends first: more than one read of the handler takes, and few enough to travel in
/// one TCP segment of the loopback interface, so that they arrive together.
const FIRST: usize = 3000;

/// Bytes that the client sends later.
const LATER: usize = 500;

/// Bytes that the handler asks for in one read.
const READ_SIZE: usize = 1024;

/// The timeout of an `epoll_wait` before which something was sent, in milliseconds. The bytes may need a
/// moment on a busy machine; a wait as long as this one would mean that they are lost.
const UNTIL_IT_ARRIVES: i32 = 10_000;

/// The timeout of an `epoll_wait` before which nothing was sent, in milliseconds: look, do not wait. Nothing
/// is under way, so a longer look would not see more.
const AT_ONCE: i32 = 0;

fn main() -> std::process::ExitCode {
    kit::chapter("Edge-triggered epoll(7), byte by byte", demonstration)
        .serve(serve::serve)
        .run()
}

fn demonstration() -> Result<()> {
    edge_triggered()?;
    level_triggered()
}

fn edge_triggered() -> Result<()> {
    let watched = Watched::new("ET", EPOLLIN | EPOLLET)?;

    let sent = watched.client_sends(FIRST)?;
    watched.turn(&format!("{sent} bytes arrive:"), UNTIL_IT_ARRIVES)?;
    let taken = watched.read_once()?;
    kit::say!("     BUGGY handler: read once -> {taken}, then back to the loop");

    // Unread bytes, and no event. A server that sleeps here sleeps until its client speaks again, and a
    // client that waits for its answer will not.
    watched.turn("next iteration:", AT_ONCE)?;

    // The client does speak again, and the old bytes come to light together with the new ones.
    let sent = watched.client_sends(LATER)?;
    watched.turn(&format!("{sent} more bytes:"), UNTIL_IT_ARRIVES)?;
    let outcomes = watched.read_until_eagain()?;
    kit::say!("     CORRECT handler: drain until EAGAIN: {outcomes}");

    // No event again. This time it is the truth: there is nothing to read.
    watched.turn("next iteration:", AT_ONCE)?;
    watched.close()
}

fn level_triggered() -> Result<()> {
    let watched = Watched::new("LT", EPOLLIN)?;

    let sent = watched.client_sends(FIRST)?;
    watched.turn(&format!("{sent} bytes arrive:"), UNTIL_IT_ARRIVES)?;
    let taken = watched.read_once()?;
    kit::say!("     same 'read once' handler -> {taken}");

    // The level is still high, so it is reported again, and would be on every turn.
    watched.turn("next iteration:", AT_ONCE)?;
    watched.close()
}

/// A connection whose server end is watched by an epoll instance of its own. The client's end is in this
/// process too, so that one thread decides what happens first.
struct Watched {
    /// How the connection is registered, as it is printed: `ET` or `LT`.
    name: &'static str,
    epoll: OwnedFd,
    client: OwnedFd,
    server: OwnedFd,
}

impl Watched {
    /// Connects a client, and registers the server's end for `events`.
    fn new(name: &'static str, events: u32) -> Result<Watched> {
        let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        // A blocking listener: accept4 waits until the connection is there.
        let listener = kit::quiet_listener(any_port, 0)?;
        let addr = sys::getsockname(&listener).context("getsockname")?;
        let client = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
        sys::connect(&client, addr).with_context(|| format!("connect to {addr}"))?;
        // A non-blocking connection: without that there is no EAGAIN, and the last read of an episode
        // would sleep until the client sends more.
        let server = sys::accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC).context("accept4")?;
        sys::close(listener).context("close")?;

        let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
        // Only one descriptor is watched, so the event's data need not tell which.
        let event = EpollEvent::new(events, 0);
        sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &server, Some(event)).context("epoll_ctl ADD")?;
        Ok(Watched {
            name,
            epoll,
            client,
            server,
        })
    }

    /// Returns how many bytes the client's socket took.
    fn client_sends(&self, len: usize) -> Result<usize> {
        sys::write(&self.client, &vec![b'x'; len]).context("write")
    }

    /// One turn of an event loop: how many events are there, and how many bytes could be read?
    fn turn(&self, what: &str, timeout: i32) -> Result<()> {
        let mut events = [EpollEvent::EMPTY; 8];
        let count = loop {
            match sys::epoll_wait(&self.epoll, &mut events, timeout) {
                // Somebody has stopped this process and let it go on (Ctrl-Z, fg): wait again.
                Err(Errno::EINTR) => continue,
                outcome => break outcome.context("epoll_wait")?,
            }
        };
        let unread = sys::ioctl_fionread(&self.server).context("ioctl FIONREAD")?;
        kit::say!(
            "[{}] {what:<21} epoll_wait -> {count} event(s), unread bytes in socket = {unread}",
            self.name
        );
        Ok(())
    }

    /// What is wrong with it edge-triggered: it does not know whether that was all.
    fn read_once(&self) -> Result<usize> {
        sys::read(&self.server, &mut [0; READ_SIZE]).context("read")
    }

    // ANCHOR: read_until_eagain
    /// Ends the episode, and returns what each read returned. The short read is not taken for the end: the
    /// client's end of stream may wait behind these bytes, reported by the same event, and not again.
    fn read_until_eagain(&self) -> Result<String> {
        let mut outcomes = String::new();
        loop {
            match sys::read(&self.server, &mut [0; READ_SIZE]) {
                Ok(0) => bail!("read: the client has closed"),
                Ok(taken) => outcomes += &format!("{taken} "),
                Err(Errno::EINTR) => {}
                Err(errno @ Errno::EAGAIN) => return Ok(format!("{outcomes}| -1 ({errno:?})")),
                Err(errno) => bail!("read: {errno}"),
            }
        }
    }
    // ANCHOR_END: read_until_eagain

    fn close(self) -> Result<()> {
        for fd in [self.epoll, self.client, self.server] {
            sys::close(fd).context("close")?;
        }
        Ok(())
    }
}
